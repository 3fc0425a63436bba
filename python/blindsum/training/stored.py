"""The record of a job, from a coordinator's store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from blindsum.errors import ConfigError
from blindsum.losses import lost_of, stages_of
from blindsum.origin import origin
from blindsum.stores import stored_jobs, stored_model, stored_rounds, stored_spec
from blindsum.training.callbacks import tested
from blindsum.training.record import BestModel, Evaluate, StageCost, TrainingRound, bound_of
from blindsum.training.words import count_text

if TYPE_CHECKING:
    from blindsum.pki import AnyPath
    from blindsum.spec import JobSpec

MAX_ROUNDS = 2**32 - 1
"""All rounds of a store."""

LATEST = 16
"""Rounds in which those are that are new, as a rule."""

OVER = ("done", "aborted")
"""States of rounds that have ended."""


def record_fields(store: AnyPath, job: str | None, evaluate: Evaluate | None) -> dict[str, Any]:
    """The fields of :class:`TrainingRecord` that a store gives; see :meth:`TrainingRecord.from_store`."""
    jobs = {one["job"]: one for one in stored_jobs(store)}
    name = _name(list(jobs), job)
    status, spec = jobs[name], stored_spec(store, name)
    reports = stored_rounds(store, name, MAX_ROUNDS)
    over = [one for one in reports if one["state"] in OVER]
    tests = {} if evaluate is None else _tests(store, name, over, evaluate)
    epsilon = _Epsilon(spec)
    rounds = [(one["key_setup"], _round(one, tests, epsilon)) for one in over]
    return {
        "kind": "job",
        "job": name,
        "protocol": status["protocol"],
        "spec": spec.to_dict(),
        "parameters": dict(spec.parameters),
        "origin": origin(),
        "rounds": tuple(one for key_setup, one in rounds if not key_setup),
        "ended": _ended(status),
        "error_bound": bound_of(spec),
        "key_setups": tuple(one for key_setup, one in rounds if key_setup),
        "best_model": _best(store, name, status),
    }


def rounds_after(store: AnyPath, job: str, number: int, evaluate: Evaluate | None) -> Iterator[TrainingRound]:
    """The rounds of a job behind this number that are over, without key set-ups."""
    reports = stored_rounds(store, job, LATEST)
    if reports and reports[0]["number"] > number + 1:
        reports = stored_rounds(store, job, MAX_ROUNDS)
    over = [one for one in reports if one["state"] in OVER and one["number"] > number]
    tests = {} if evaluate is None else _tests(store, job, over, evaluate)
    epsilon = _Epsilon(stored_spec(store, job))
    return (_round(one, tests, epsilon) for one in over if not one["key_setup"])


def _name(names: list[str], asked: str | None) -> str:
    name = names[0] if asked is None and len(names) == 1 else asked
    if name is None or name not in names:
        raise ConfigError("job", f"give one of the store's jobs: {', '.join(names) or 'it has none'}")
    return name


class _Epsilon:
    """ε of a job after the releases that a report counts."""

    def __init__(self, spec: JobSpec) -> None:
        self._after = cache(spec.privacy_after)

    def of(self, report: Mapping[str, Any]) -> float | None:
        releases = report.get("releases")
        claim = None if releases is None else self._after(releases["counted"])
        return None if claim is None else claim.epsilon


def _round(
    report: Mapping[str, Any], tests: Mapping[int, dict[str, float]], epsilon: _Epsilon
) -> TrainingRound:
    """The report of a round as the record has it. Reports of earlier versions lack metrics."""
    is_sum = report["state"] == "done"
    metrics = report.get("metrics", {})
    return TrainingRound(
        number=report["number"],
        outcome="sum" if is_sum else "abort",
        survivors=tuple(report["survivors"]),
        lost=lost_of(report),
        seconds=report["seconds"],
        stages=tuple(_stage(stage) for stage in report["stages"]),
        metrics={name: metric["value"] for name, metric in metrics.items()},
        reported={name: metric["share"] for name, metric in metrics.items()},
        test=tests.get(report["model_version"] + 1, {}) if is_sum and not report["key_setup"] else {},
        plain_test={},
        deviation=None,
        epsilon=epsilon.of(report),
        clipped=None,
        fault=None if is_sum else report["reason"],
        model_version=report["model_version"],
        roster=tuple(report["parties"]),
        lost_stages=stages_of(report),
    )


def _stage(stage: Mapping[str, Any]) -> StageCost:
    traffic = stage["bytes"].values()
    return StageCost(
        name=stage["name"],
        seconds=stage["seconds"],
        up=sum(one["up"] for one in traffic),
        down=sum(one["down"] for one in traffic),
    )


def _tests(
    store: AnyPath, job: str, over: list[dict[str, Any]], evaluate: Evaluate
) -> dict[int, dict[str, float]]:
    """The caller's numbers for each model after a sum that the store still has, by its version."""
    versions = [one["model_version"] + 1 for one in over if one["state"] == "done" and not one["key_setup"]]
    found = {}
    # The latest ones are there; before the first that is not, none is.
    for version in reversed(versions):
        model = stored_model(store, job, version)
        if model is None:
            break
        found[version] = tested(evaluate, model, version)
    return found


def _best(store: AnyPath, job: str, status: Mapping[str, Any]) -> BestModel | None:
    """The best model of a job with ``stop``, once it has one."""
    best = status.get("best")
    return None if best is None else BestModel(**best, model=stored_model(store, job, best["version"]))


def _ended(status: Mapping[str, Any]) -> str:
    done, planned = status["rounds_done"], status["rounds"]
    match status["state"]:
        case "done":
            early = f": {status['reason']}" if status["reason"] else ""
            return f"the job is done after {count_text(done, 'round')}{early}"
        case "failed":
            return f"the job failed: {status['reason']}"
        case _:
            of = f" of {planned} planned" if planned else ""
            held = f"; {status['held']}" if status.get("held") else ""
            return f"the job is not over: {count_text(done, 'round')}{of} so far{held}"
