"""What jobs inside frameworks for federated learning have in common, whatever the framework."""

from __future__ import annotations

from blindsum.errors import ConfigError
from blindsum.spec import JobSpec
from blindsum.tables import Metric

MIN_PARTIES = 3
"""Fewest parties of a sum: in a sum of two each learns the other's update."""


def smallest_sum(protocol: str, adversary: str, corrupt: float, parties: int) -> int:
    """The smallest sum that policies accept by default, for a round of so many parties."""
    job = JobSpec(protocol=protocol, adversary=adversary, corrupt=corrupt, parties=parties, dim=1)
    return max(job.quorum, min(MIN_PARTIES, parties))


def metrics_from(text: str, field: str, advice: str, bound: float | None = None) -> tuple[Metric, ...]:
    """The metrics that a text declares: ``"loss:0:10,accuracy:0:1"``.

    Parameters
    ----------
    text
        Names with commas between, each with its range.
    field
        What the text is called, for errors.
    advice
        Where to set it, for errors.
    bound
        The range of a name without one is from ``-bound`` to it; ``None`` refuses such a name.

    Raises
    ------
    blindsum.ConfigError
        A part of another form, or a range that a metric cannot have.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, *ends = part.split(":")
        try:
            low, high = (-bound, bound) if bound is not None and not ends else map(float, ends)
        except ValueError:
            form = "NAME:LOW:HIGH" if bound is None else "NAME or NAME:LOW:HIGH"
            raise ConfigError(field, f"{part!r} must be {form}, as in 'loss:0:10'; {advice}") from None
        found.append(Metric(name, low, high))
    return tuple(found)
