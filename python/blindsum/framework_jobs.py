"""What jobs inside frameworks for federated learning have in common, whatever the framework."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from blindsum import checks
from blindsum.errors import ConfigError, SpecError
from blindsum.options import Quantised
from blindsum.spec import JobSpec
from blindsum.tables import Metric

MIN_PARTIES = 3
"""Fewest parties of a sum: in a sum of two each learns the other's update."""

MANY = 100
"""Parties with which every protocol works."""


def smallest_sum(protocol: str, adversary: str, corrupt: float, parties: int) -> int:
    """The smallest sum that policies accept by default, for a round of so many parties."""
    job = JobSpec(protocol=protocol, adversary=adversary, corrupt=corrupt, parties=parties, dim=1)
    return max(job.quorum, min(MIN_PARTIES, parties))


def job_of(settings: Any, *, parties: int, **fields: Any) -> JobSpec:
    """The job of rounds whose model the framework keeps.

    Parameters
    ----------
    settings
        What the framework's users say, by the names of a job's fields. ``min_parties`` of 0 is the smallest
        sum that policies accept.
    parties
        Most parties of a round.
    fields
        The other fields of the job.

    Raises
    ------
    blindsum.SpecError
        A rule is broken.
    """
    least = smallest_sum(settings.protocol, settings.adversary, settings.corrupt, parties)
    return JobSpec(
        protocol=settings.protocol,
        adversary=settings.adversary,
        corrupt=settings.corrupt,
        dropout=settings.dropout,
        parties=parties,
        min_parties=settings.min_parties or least,
        model_update="none",
        encoding=Quantised(bits=settings.bits, clip=settings.clip, max_weight=settings.max_weight),
        join_deadline=settings.join_deadline,
        stage_deadline=settings.stage_deadline,
        **fields,
    )


def check_early(
    settings: Any, spec: Callable[[Any], object], called: Callable[[str], str], advice: str
) -> None:
    """Refuse settings that no job can have, before it is known how many parties there are.

    Parameters
    ----------
    settings
        A dataclass, as of :func:`job_of`.
    spec
        Gives the job of :data:`MANY` parties with such settings.
    called
        What users call a field of the job.
    advice
        Where they set it.

    Raises
    ------
    blindsum.ConfigError
        A rule is broken; ``field`` is what users call it.
    """
    least, field = checks.whole_number(settings.min_parties), called("min_parties")
    if least is None or not 0 <= least <= checks.PARTIES:
        rule = f"{checks.in_words(settings.min_parties)} must be a whole number from 0 to {checks.PARTIES}"
        raise ConfigError(field, f"{rule}; {advice}")
    # The job's start says whether its parties suffice.
    settings = dataclasses.replace(settings, min_parties=0)
    try:
        spec(settings)
    except ConfigError as error:
        if error.field not in (called("parties"), field):
            raise
        # More parties might do. All other rules count now.
        spec(dataclasses.replace(settings, corrupt=0.0, dropout=0.0))


def metrics_from(text: object, field: str, advice: str, bound: float | None = None) -> tuple[Metric, ...]:
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
        No text, a part of another form, or a range that a metric cannot have.
    """
    if not isinstance(text, str):
        kind = type(text).__name__
        rule = f"must be a text of names with commas between, as in 'loss:0:10,accuracy:0:1', not a {kind}"
        raise ConfigError(field, f"{rule}; {advice}")
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


_SETTINGS = (
    *("protocol", "adversary", "corrupt", "dropout", "min_parties", "join_deadline", "stage_deadline"),
    *("input_deadline", "clip", "bits", "max_weight"),
)
"""Fields of a job that users of frameworks set, by names of their own."""

_NAMED = re.compile(
    rf"\b(?:{'|'.join(_SETTINGS)})\b(?= is | = | must )|(?<=lower )dropout|(?<=or )corrupt(?=, or)"
)
"""Names of settings in a rule. Many of them are English words, too."""


@contextmanager
def errors_of_settings(
    metrics: Sequence[Metric], called: Callable[[str], str], advice: str
) -> Iterator[None]:
    """In an error about a job name the settings of the framework: their users have made no specification.

    Parameters
    ----------
    metrics
        The metrics of the job.
    called
        What users call a field of the job.
    advice
        Where they set it.

    Raises
    ------
    blindsum.ConfigError
        In place of a :class:`blindsum.SpecError`; ``field`` is what users call it.
    """
    try:
        yield
    except SpecError as error:
        field, _, rest = error.field.removeprefix("encoding.").partition(".")
        rule = _NAMED.sub(lambda found: called(found[0]), error.rule)
        place = rest.partition(".")[0]
        if field == "metrics" and place.isdecimal() and int(place) < len(metrics):
            rule = re.sub(r"metrics\.(\d+)", lambda found: repr(metrics[int(found[1])].name), rule)
            rule = f"{metrics[int(place)].name!r}: {rule}"
        if rule.startswith(f"{called(field)} is "):
            # The field comes before the rule.
            rule = rule.removeprefix(f"{called(field)} ")
        raise ConfigError(called(field), f"{rule}; {advice}") from error
