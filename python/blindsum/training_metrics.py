"""Metrics of training: what a party reports beside an update."""

from __future__ import annotations

import logging
import math
import numbers
from collections.abc import Mapping

from blindsum.errors import InputError
from blindsum.spec import JobSpec

logger = logging.getLogger("blindsum")


def checked_metrics(spec: JobSpec, metrics: object, field: str = "metrics") -> dict[str, float]:
    """Metrics by their names, as the native core takes them; those that are ``None`` are missing.

    Parameters
    ----------
    spec
        The job.
    metrics
        A mapping of names to numbers, or ``None``.
    field
        What an error calls them.

    Returns
    -------
    dict of str to float

    Raises
    ------
    blindsum.InputError
        A name that no metric of the job has, or a value that is no number.
    """
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise InputError(field, f"must map names to numbers, not {type(metrics).__name__}")
    known = [metric.name for metric in spec.metrics]
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if name not in known:
            has = f"its metrics are {', '.join(known)}" if known else "it has none"
            raise InputError(field, f"{name!r} is no metric of the job: {has}")
        if value is not None:
            found[name] = _number(f"{field}[{name!r}]", value)
    return found


def _number(field: str, value: object) -> float:
    """A number as a float; also one of numpy, or a tensor with one element."""
    item = getattr(value, "item", None)
    if callable(item):
        try:
            value = item()
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(field, f"must be one number, not {type(value).__name__}") from error
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(field, f"must be a number, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(field, "must be in the range of a float") from error


class MetricsLog:
    """Warns once of each metric that does not count as it was given, where no party of a real job says so."""

    def __init__(self, spec: JobSpec) -> None:
        self._job = spec.job
        self._ranges = {metric.name: (metric.low, metric.high) for metric in spec.metrics}
        self._told: set[tuple[str, str]] = set()

    def look_at(self, where: str, metrics: Mapping[str, float]) -> None:
        """Look at the metrics of a party, by their names."""
        for name, value in metrics.items():
            low, high = self._ranges[name]
            if low <= value <= high:
                continue
            if math.isfinite(value):
                kind, counts = (
                    "range",
                    f"outside of its range from {low:g} to {high:g}, and counts as the end of it",
                )
                advice = "choose another low or high in the job"
            else:
                kind, counts = "finite", "and counts as missing"
                advice = "check the training function"
            if (name, kind) not in self._told:
                self._told.add((name, kind))
                logger.warning(
                    "job %r, %s: metric %s is %g, %s: %s", self._job, where, name, value, counts, advice
                )
