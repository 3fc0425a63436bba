"""What a coordinator's store has: jobs, rounds, faults, models. A coordinator may use the store meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from blindsum import _native, checks
from blindsum.errors import ConfigError, StoreError
from blindsum.pki import AnyPath
from blindsum.spec import JobSpec

if TYPE_CHECKING:
    from blindsum.rounds import Array


def stored_jobs(store: AnyPath) -> list[dict[str, Any]]:
    """Every job of a store, by name, as plain data; a coordinator may use the store meanwhile.

    Each has ``job``, ``state`` (``"running"``, ``"done"`` or ``"failed"``), ``reason`` (why it failed, or was
    done before its rounds were), ``protocol``, ``rounds_done``, ``rounds``, ``min_parties``,
    ``model_version``, ``model_from`` (the party that gave the first model), ``held`` (why operators let no
    round begin) and ``round``, the report of the latest round: ``"joining"`` while parties join it,
    ``"running"`` from then on. A job with ``stop`` has ``stop_metric`` and, from the first value on,
    ``best``: its ``metric``, ``value`` and model ``version``, the ``round`` that started from that, and the
    rounds ``without_gain`` since then.

    Raises
    ------
    blindsum.StoreError
        No such file, damaged, or no store of this version.
    """
    return _native.stored_jobs(checks.stored(store))


def stored_rounds(store: AnyPath, job: str, most: int = 1000) -> list[dict[str, Any]]:
    """Reports of the latest rounds of a job, oldest first; a coordinator may use the store meanwhile.

    Key set-ups are among them, with ``key_setup`` true; see :meth:`Coordinator.statuses`.

    Raises
    ------
    blindsum.ConfigError
        The store has no such job.
    blindsum.StoreError
        No such file, damaged, or no store of this version.
    """
    rounds = _native.stored_rounds(checks.stored(store), checks.line("job", job), most)
    if not rounds:
        _known(store, job)
    return rounds


def stored_spec(store: AnyPath, job: str) -> JobSpec:
    """The specification of a job, as the coordinator has it in its store.

    Raises
    ------
    blindsum.ConfigError
        The store has no such job.
    blindsum.StoreError
        No such file, damaged, or no store of this version.
    """
    found = _native.stored_job(checks.stored(store), checks.line("job", job))
    if found is None:
        raise _unknown(store, job)
    return JobSpec._of(found)


def _known(store: AnyPath, job: str) -> None:
    """Refuse a job that the store does not have: nothing of it is there, not even a round."""
    if _native.stored_job(checks.stored(store), job) is None:
        raise _unknown(store, job)


def _unknown(store: AnyPath, job: str) -> ConfigError:
    names = ", ".join(one["job"] for one in stored_jobs(store)) or "it has none"
    return ConfigError("job", f"is {job!r}, and must be one of the store's jobs: {names}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFault:
    """What a member did wrong in a round, with the bytes that show it."""

    round: int
    #: Whose fault it is, or is said to be.
    culprit: str
    #: The party that says so; ``None`` where the coordinator saw it itself.
    accuser: str | None
    #: What it is, in words.
    what: str
    #: What came from the culprit, 64 KiB of it at most, and 4 KiB where a party says so. In a job of
    #: ``plain`` that is a part of its update.
    evidence: bytes = field(repr=False)
    #: Bytes that there were of it.
    length: int
    #: How often it was recorded: more than once only if a party has accused the same party again. The
    #: other fields are of the latest time.
    times: int


def stored_faults(store: AnyPath, job: str) -> list[StoredFault]:
    """What members of a job did wrong, oldest first; a coordinator may use the store meanwhile.

    A store keeps a hundred faults that the coordinator saw itself and a hundred claims of parties, one for
    each accuser and accused. The oldest goes first of the culprit, or accuser, of which there are most.

    Raises
    ------
    blindsum.ConfigError
        The store has no such job.
    blindsum.StoreError
        No such file, damaged, or no store of this version.
    """
    faults = _native.stored_faults(checks.stored(store), checks.line("job", job))
    if not faults:
        _known(store, job)
    return faults


def stored_model(store: AnyPath, job: str, version: int) -> Array | None:
    """A version of a job's model; ``None`` where the store does not have it any more.

    A coordinator may use the store meanwhile.

    Raises
    ------
    blindsum.ConfigError
        The store has no such job.
    blindsum.HiddenModelError
        The coordinator never had it: if :attr:`JobSpec.hides_sum`, only the parties have it.
    blindsum.StoreError
        No such file, damaged, or no store of this version.
    """
    model = _native.stored_model(checks.stored(store), checks.line("job", job), version)
    if model is None:
        _known(store, job)
    return model


def stored_best_model(store: AnyPath, job: str) -> tuple[dict[str, Any], Array]:
    """The best model of a job with ``stop``, and what :func:`stored_jobs` has of it as ``best``.

    A coordinator may use the store meanwhile.

    Raises
    ------
    blindsum.ConfigError
        The store has no such job, or the job has no ``stop``: no metric says which model is the best one.
    blindsum.StoreError
        No round has a value of the metric yet; or no such file, damaged, or no store of this version.
    """
    jobs = {one["job"]: one for one in stored_jobs(store)}
    if job not in jobs:
        raise _unknown(store, job)
    metric, best = jobs[job].get("stop_metric"), jobs[job].get("best")
    where = f"store {checks.stored(store)}: job {job}"
    if not metric:
        rule = (
            f"job {job} must have stop, e.g. stop = {{ metric = 'accuracy' }}: without it no model is "
            "the best"
        )
        raise ConfigError("best", rule)
    if best is None:
        raise StoreError(f"{where} has no best model yet: no round has a value of {metric}; try it later")
    model = stored_model(store, job, best["version"])
    if model is None:
        raise StoreError(f"{where}: version {best['version']} of the model, the best one, is not there")
    return best, model


def stored_versions(store: AnyPath, job: str) -> list[int]:
    """The versions of a job's model that a store has, oldest first; a coordinator may use it meanwhile.

    Raises
    ------
    blindsum.ConfigError
        The store has no such job.
    blindsum.StoreError
        No such file, damaged, or no store of this version.
    """
    versions = _native.stored_versions(checks.stored(store), checks.line("job", job))
    if not versions:
        _known(store, job)
    return versions


def back_up(store: AnyPath, to: AnyPath) -> None:
    """Write a copy of a store, as it is at one moment, to a new file; a coordinator may use it meanwhile.

    A coordinator can be started with the copy. A plain copy of the file, made while a coordinator uses it,
    would be incomplete.

    Raises
    ------
    blindsum.StoreError
        No such store, or ``to`` exists or cannot be written.
    """
    _native.back_up_store(checks.stored(store), checks.path("to", to))
