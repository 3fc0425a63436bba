"""Metrics as further coordinates of the update, in jobs of many rounds over Flower's messages.

In a job that keeps no model all rounds seem to start from one model, and a party reports metrics of one model
once. Here models differ from round to round: they are in the messages, and the node itself remembers of which
it has reported (:mod:`blindsum.flower.measured`). So a metric takes two coordinates: its value, and whether
the node has one. The mean of the first over that of the second is the mean of those that have one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from blindsum.arrays import Vector
from blindsum.checks import finite
from blindsum.errors import ConfigError, InputError
from blindsum.options import Quantised
from blindsum.spec import JobSpec
from blindsum.tables import Metric

logger = logging.getLogger("blindsum")

LEAST_SHARE = 1e-4
"""Share of the weight below which a metric has no mean: what is left is the error of rounding."""


class MetricSlots:
    """The coordinates of the metrics of a job, behind those of the update.

    Parameters
    ----------
    metrics
        The metrics.
    """

    def __init__(self, metrics: tuple[Metric, ...]) -> None:
        self.metrics = metrics
        self.names = tuple(metric.name for metric in metrics)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> MetricSlots:
        """The metrics that a message says.

        Raises
        ------
        blindsum.ConfigError
            A metric without a range; ``field`` is ``"blindsum-metrics"``.
        """
        names, bounds = list(told.get("metrics", [])), list(told.get("metric-ranges", []))
        if len(bounds) != 2 * len(names):
            rule = f"the message names {len(names)} metrics and {len(bounds)} bounds, and each has two"
            raise ConfigError(
                "blindsum-metrics", f"{rule}: install the same version of Blindsum at all nodes"
            )
        pairs = zip(names, bounds[::2], bounds[1::2], strict=True)
        metrics = tuple(Metric(str(name), float(low), float(high)) for name, low, high in pairs)
        for metric in metrics:
            if not -math.inf < metric.low < metric.high < math.inf:
                rule = f"{metric.name}: {metric.low} < {metric.high} must be two finite numbers"
                raise ConfigError("blindsum-metrics", f"{rule}; correct its range in the run's configuration")
        return cls(metrics)

    @property
    def told(self) -> dict[str, Any]:
        """What a message says of them."""
        if not self.metrics:
            return {}
        bounds = [bound for metric in self.metrics for bound in (float(metric.low), float(metric.high))]
        return {"metrics": list(self.names), "metric-ranges": bounds}

    def job(self, spec: JobSpec) -> JobSpec:
        """The job with them as coordinates.

        Raises
        ------
        blindsum.ConfigError
            Its encoding does not bound each coordinate by itself; ``field`` is ``"encoding"``.
        """
        if not self.metrics:
            return spec
        encoding = spec.encoding
        is_plain = isinstance(encoding, Quantised) and (
            encoding.clipping == "tensor" and not encoding.tensors and not encoding.max_norm
        )
        if not is_plain:
            raise ConfigError(
                "encoding",
                f"{encoding!r} cannot carry metrics in Flower's messages: take Quantised with the clipping "
                "'tensor' and without tensors and max_norm, or no metrics, or blindsum-transport = 'direct'",
            )
        return spec.replace(metrics=(), dim=spec.dim + 2 * len(self.metrics))

    def filled(self, update: Vector, values: Mapping[str, float], clip: float) -> Vector:
        """The update with the metrics behind it.

        Raises
        ------
        blindsum.InputError
            A metric that is not finite.
        """
        slots = np.zeros(2 * len(self.metrics), update.dtype)
        for place, metric in enumerate(self.metrics):
            if metric.name not in values:
                continue
            try:
                value = finite(metric.name, values[metric.name])
            except ConfigError as error:
                raise InputError(
                    f"metrics[{metric.name!r}]: {error.rule}; reply with a finite number"
                ) from None
            nearest = min(max(value, metric.low), metric.high)
            if nearest != value:
                logger.warning(
                    "metric %s is %s, out of its range, and counts as %s; widen it in blindsum-metrics",
                    *(metric.name, value, nearest),
                )
            part = (nearest - metric.low) / (metric.high - metric.low)
            slots[2 * place : 2 * place + 2] = (2 * part - 1) * clip, clip
        return np.concatenate([update, slots])

    def split(self, mean: Vector, clip: float) -> tuple[Vector, dict[str, float | None]]:
        """The mean of the updates, and those of the metrics; ``None`` of one that nobody has."""
        if not self.metrics:
            return mean, {}
        count = 2 * len(self.metrics)
        found: dict[str, float | None] = {}
        for place, metric in enumerate(self.metrics):
            value, share = (float(one) / clip for one in mean[-count:][2 * place : 2 * place + 2])
            if share < LEAST_SHARE:
                found[metric.name] = None
                continue
            part = min(max((value / share + 1) / 2, 0.0), 1.0)
            found[metric.name] = metric.low + part * (metric.high - metric.low)
        return mean[:-count], found
