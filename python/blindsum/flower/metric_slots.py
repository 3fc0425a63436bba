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
from blindsum.flower.refusals import Refusal
from blindsum.options import Quantised
from blindsum.spec import JobSpec
from blindsum.tables import Metric

logger = logging.getLogger("blindsum")

NAMES = "flower_metrics"
"""The hyperparameter of a job with the names of its metrics."""

RANGES = "flower_metric_ranges"
"""The same of their ranges, two numbers for each."""

MIN_SHARE = 1e-4
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
    def read(cls, parameters: Mapping[str, Any]) -> MetricSlots:
        """The metrics that a job declares in its hyperparameters, which bind all its nodes.

        Raises
        ------
        blindsum.ConfigError
            A metric without a range; ``field`` is ``"blindsum-metrics"``.
        """
        names, bounds = parameters.get(NAMES, ()), parameters.get(RANGES, ())
        are_lists = isinstance(names, (tuple, list)) and isinstance(bounds, (tuple, list))
        if not are_lists or len(bounds) != 2 * len(names):
            raise _wrong("each metric of the job must have two bounds")
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise _wrong("the metrics of the job must have names, each another one")
        if not all(isinstance(bound, (int, float)) and not isinstance(bound, bool) for bound in bounds):
            raise _wrong("the bounds of metrics must be numbers")
        pairs = zip(names, bounds[::2], bounds[1::2], strict=True)
        metrics = tuple(Metric(name, float(low), float(high)) for name, low, high in pairs)
        if not all(-math.inf < metric.low < metric.high < math.inf for metric in metrics):
            raise _wrong("low < high of a metric must be two finite numbers")
        return cls(metrics)

    @property
    def parameters(self) -> dict[str, tuple[Any, ...]]:
        """What the hyperparameters of a job say of them."""
        if not self.metrics:
            return {}
        bounds = (float(bound) for metric in self.metrics for bound in (metric.low, metric.high))
        return {NAMES: self.names, RANGES: tuple(bounds)}

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
        return spec.replace(
            metrics=(),
            dim=spec.dim + 2 * len(self.metrics),
            parameters=dict(spec.parameters) | self.parameters,
        )

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
                    f"metrics[{metric.name!r}]", f"{error.rule}; reply with a finite number"
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
            if share < MIN_SHARE:
                found[metric.name] = None
                continue
            part = min(max((value / share + 1) / 2, 0.0), 1.0)
            found[metric.name] = metric.low + part * (metric.high - metric.low)
        return mean[:-count], found


def _wrong(rule: str) -> Refusal:
    return Refusal("blindsum-metrics", f"{rule}: install the same version of Blindsum at all nodes")
