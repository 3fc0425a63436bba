"""Run a protocol in one process: every party, the server, and what goes wrong on purpose."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from numpy.typing import NDArray

from blindsum import _native, checks
from blindsum.arrays import IntegerVector, Vector, as_integers, as_vector, in_order, is_mapping
from blindsum.errors import ConfigError, InputError
from blindsum.misbehaviours import Misbehaviour
from blindsum.options import Integers
from blindsum.origin import origin
from blindsum.places import placed
from blindsum.privacy_claim import check_rounds
from blindsum.simulation_result import SimulationResult, simulated
from blindsum.sparse import warn_once_if_rarely_opened
from blindsum.spec import JobSpec
from blindsum.training_metrics import MetricsLog, checked_metrics

DropAt: TypeAlias = "Mapping[str | int, int] | Iterable[str]"
"""How many parties vanish at a stage: ``{"unmask": 2}`` or ``["unmask:2"]``."""

OnProgress: TypeAlias = Callable[[int, int, str], object]
"""Called with the rounds done, the rounds asked for, and what is under way."""

logger = logging.getLogger("blindsum")

OLD_NAMES = "liars and lie of simulate() are called malicious and misbehaviour now; give these"
"""What :func:`simulate` warns of where old names are given."""


def simulate(
    spec: JobSpec,
    updates: Sequence[object] | NDArray[Any] | None = None,
    *,
    weights: Sequence[float] | None = None,
    metrics: Sequence[Mapping[str, float | None] | None] | None = None,
    drop: float = 0.0,
    drop_at: DropAt = (),
    latency: float = 0.0,
    malicious: int = 0,
    misbehaviour: Misbehaviour = "mixed",
    rounds: int = 1,
    seed: int = 0,
    threads: int = 1,
    progress: OnProgress | None = None,
    liars: int | None = None,
    lie: Misbehaviour | None = None,
) -> SimulationResult:
    """Run rounds of a job in this process, deterministically.

    Parameters
    ----------
    spec
        The job.
    updates
        One array of ``dim`` elements per party, or an array of shape ``(parties, dim)``; fewer than the
        job's ``parties`` make a smaller round. float32 and float64 are used in place. Where the job's
        encoding is ``"integers"``, arrays or lists of integers from 0 to ``2**bits - 1``. ``None`` makes
        random ones. The root of ``fltrust`` is the last party, whatever its name is.
    weights
        A weight per party, a whole number from 1 to ``max_weight``; ``None`` gives every party weight 1
        (where updates are random, a random weight).
    metrics
        What each party reports of the job's metrics, by their names; one that is missing, ``None`` or not
        finite counts as missing. ``None`` where no party reports any; where updates are random, metrics are.
    drop
        Fraction of the parties that vanishes before the input stage, rounded down as for ``dropout``.
    drop_at
        Further parties that vanish, by stage; also by a stage of the key set-up.
    latency
        Seconds of virtual time that every message takes, also those between servers. See
        :attr:`SimulationResult.virtual_seconds`.
    malicious
        Corrupt parties that misbehave in every round, chosen by the seed. For ``pss-malicious``, which finds
        them.
    misbehaviour
        What they do: one of :data:`blindsum.misbehaviours.MISBEHAVIOURS`; ``"mixed"`` gives each another
        kind, and with ``"equivocator"`` it is the coordinator that misbehaves.
    rounds
        Rounds to run, as many as the job's ``epsilon`` has room for at most; the first one without a sum is
        the last.
    seed
        The seed of every random number.
    threads
        Threads to work with; results do not depend on it.
    progress
        Called from time to time; an exception in it ends the simulation.
    liars, lie
        The names that ``malicious`` and ``misbehaviour`` had before; they still work, with a warning.

    Returns
    -------
    SimulationResult
        Also where a round ended without a sum: see ``outcome``.

    Raises
    ------
    blindsum.InputError
        Updates, weights or metrics that do not fit the job, or are not finite.
    blindsum.ConfigError
        A setting that breaks a rule, e.g. a stage that the protocol does not have.

    Examples
    --------
    >>> import numpy as np
    >>> updates = np.array([[0.5, -0.25], [0.25, 0.25]], dtype=np.float32)
    >>> spec = JobSpec(protocol="plain", parties=2, dim=2)
    >>> result = simulate(spec, updates)
    >>> result.outcome, bool(np.allclose(result.mean, [0.375, 0.0], atol=spec.max_error))
    ('sum', True)
    >>> votes = JobSpec(protocol="plain", parties=2, dim=2, encoding=Integers(bits=8))
    >>> simulate(votes, [[1, 255], [0, 255]]).sum
    array([  1, 510], dtype=uint64)
    """
    checks.job_spec(spec)
    if progress is not None and not callable(progress):
        raise ConfigError("progress", f"{progress!r} must be a function, or None")
    if liars is not None or lie is not None:
        warnings.warn(OLD_NAMES, DeprecationWarning, stacklevel=2)
        malicious = malicious if liars is None else liars
        misbehaviour = misbehaviour if lie is None else lie
    if misbehaviour != "mixed" and not malicious:
        rule = f"{misbehaviour} needs malicious of at least 1: no party misbehaves"
        raise ConfigError("misbehaviour", rule)
    vectors = None if updates is None else _vectors(spec, updates)
    if weights is not None and vectors is None:
        raise InputError("weights", "only together with updates")
    if metrics is not None and vectors is None:
        raise InputError("metrics", "only together with updates")
    warn_once_if_rarely_opened(spec)
    scenario: dict[str, Any] = {
        "drop": checks.fraction("drop", drop),
        "drop_at": drops(drop_at, spec),
        "latency": checks.seconds("latency", latency),
        "liars": checks.setting("malicious", malicious, 0, checks.PARTIES),
        "lie": misbehaviour,
        "rounds": checks.setting("rounds", rounds, 1, checks.ROUNDS),
        "seed": checks.setting("seed", seed, 0, checks.SEEDS),
        "threads": checks.setting("threads", threads, 1, checks.THREADS),
    }
    check_rounds(spec, scenario["rounds"])
    whole = None if weights is None or vectors is None else _weights(spec, weights, len(vectors))
    reported = None if metrics is None or vectors is None else _metrics(spec, metrics, len(vectors))
    made_by = {
        "job_hash": spec.hash,
        "spec": spec.to_dict(),
        "chosen": spec.chosen,
        # The names in a file stay, so that older files can be repeated.
        "scenario": {**scenario, "updates": "random" if vectors is None else "given"},
        "origin": origin(),
    }
    try:
        run = _native.simulate(spec._job, vectors, whole, reported, **scenario, progress=progress)
    except InputError as error:
        raise placed(error, spec) from None
    return simulated(run.report, run.mean, run.sums, made_by)


def _vectors(spec: JobSpec, updates: Sequence[object] | NDArray[Any]) -> list[Vector] | list[IntegerVector]:
    rows = in_order("updates", updates, "one array per party")
    if len(rows) > spec.parties:
        raise InputError("updates", f"{len(rows)} given, but the job has parties = {spec.parties}")
    if len(rows) < spec.parties:
        logger.warning(
            "updates: %d given for a job of %d parties: the round has %d parties; for a job of so many give "
            "parties=%d to JobSpec",
            len(rows),
            spec.parties,
            len(rows),
            len(rows),
        )
    named = [(f"updates[{place}]", row) for place, row in enumerate(rows)]
    if isinstance(spec.encoding, Integers):
        return [as_integers(row, spec.dim, spec.encoding.bits, name) for name, row in named]
    return [as_vector(row, spec.dim, name) for name, row in named]


LEFT_OUT = "leave this party and its update out"
"""What to do with a party of weight 0."""


def _weights(spec: JobSpec, weights: Sequence[float], parties: int) -> list[int]:
    given = in_order("weights", weights, "one whole number per party")
    whole = [
        checks.weight(f"weights[{place}]", weight, spec, sits_out=LEFT_OUT)
        for place, weight in enumerate(given)
    ]
    if len(whole) != parties:
        raise InputError("weights", f"{len(whole)} given, but there are {parties} updates; give one for each")
    return whole


def _metrics(
    spec: JobSpec, metrics: Sequence[Mapping[str, float | None] | None], parties: int
) -> list[list[float | None]]:
    """The metrics of every party in the order of the job."""
    given = in_order("metrics", metrics, "one mapping per party")
    found = [checked_metrics(spec, one, f"metrics[{place}]") for place, one in enumerate(given)]
    noticed = MetricsLog(spec)
    for place, one in enumerate(found):
        noticed.look_at(f"metrics[{place}]", one)
    if len(found) != parties:
        raise InputError("metrics", f"{len(found)} given, but there are {parties} updates; give one for each")
    return [[one.get(metric.name) for metric in spec.metrics] for one in found]


def drops(drop_at: DropAt, spec: JobSpec) -> list[str]:
    """Parties that vanish, by stage, as texts STAGE:COUNT."""
    if is_mapping(drop_at):
        counts: Mapping[str | int, int] = dict(drop_at)  # type: ignore[arg-type]
        return [f"{stage}:{_count(stage, count)}" for stage, count in counts.items()]
    if isinstance(drop_at, str) or not isinstance(drop_at, Iterable):
        rule = f"{drop_at!r} must be a mapping of stages to counts, or a list of texts STAGE:COUNT"
        raise ConfigError("drop_at", rule)
    drops = list(cast("Iterable[str]", drop_at))
    for drop in drops:
        if not isinstance(drop, str):
            stage = spec.input_stage
            rule = (
                f"{drop!r} must be text, STAGE:COUNT, e.g. '{stage}:1'; or give a mapping, {{'{stage}': 1}}"
            )
            raise ConfigError("drop_at", rule)
    return drops


def _count(stage: str | int, count: object) -> int:
    whole = checks.whole_number(count)
    if whole is None or whole < 0:
        rule = f"the count of stage {stage!r}, {count!r}, must be a whole number, 0 or more"
        raise ConfigError("drop_at", rule)
    return whole
