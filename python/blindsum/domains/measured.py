"""Metrics of training of the learners of a domain, which become those of one party."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from blindsum.domains.sums import Rules
from blindsum.errors import DomainInputError, InputError
from blindsum.rounds import logger
from blindsum.training_metrics import checked_metrics


def own_metrics(rules: Rules, rank: int, metrics: object) -> dict[str, float]:
    """What a learner reports; a value that is not finite counts as missing, and the log says so.

    Raises
    ------
    blindsum.DomainInputError
        A name that no metric of the job has, or a value that is no number.
    """
    try:
        given = checked_metrics(rules.spec, metrics)
    except InputError as error:
        raise DomainInputError.of(rank, "metrics", error) from error
    for name, value in given.items():
        if not math.isfinite(value):
            logger.warning("metric %s was not a finite number and counts as missing", name)
    return {name: value for name, value in given.items() if math.isfinite(value)}


def metrics_of_all(said: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of each metric over the learners that report it, by their weights."""
    found = {}
    for name in sorted({name for one in said for name in one["metrics"]}):
        rows = [(one["weight"], one["metrics"][name]) for one in said if name in one["metrics"]]
        if (total := sum(weight for weight, _ in rows)) > 0:
            found[name] = sum(weight / total * value for weight, value in rows)
    return found
