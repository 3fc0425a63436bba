"""A run as processes of this machine, over mutual TLS: a coordinator, and each party a process of its own."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from blindsum.errors import BlindsumError
from blindsum.rounds import Array
from blindsum.testing import Cluster, PartyProcess
from blindsum.training.callbacks import Raised
from blindsum.training.callbacks import told as told_of
from blindsum.training.contribution import TrainingTurn
from blindsum.training.description import Description, described
from blindsum.training.record import Evaluate, TrainingRecord, TrainingRound
from blindsum.training.stored import rounds_after

SETTINGS = "BLINDSUM_TRAINING"
"""Environment variable of a party: JSON with ``file``, ``rank``, ``name``, ``changes`` and ``warnings``."""

MAX_LOST = 3
"""Rounds in a row without a sum after which a run ends: it does not get better by itself."""

NUMBER = re.compile(r"\d+(?:\.\d+)?")
"""What may differ between two warnings of one kind."""

KEEPS_ALL = 1_000_000
"""Models that the store keeps: all of them, for their evaluation."""


@dataclass(frozen=True)
class Run:
    """What became of a run.

    Attributes
    ----------
    record : TrainingRecord
        What there is of it.
    stopped : BaseException or None
        Why it ended before its time: Ctrl-C, a process that failed, or the job.
    """

    record: TrainingRecord
    stopped: BaseException | None


def run_processes(
    path: str,
    changes: Sequence[tuple[str, str]],
    progress: Callable[[TrainingRound], object],
    told: Callable[[str], object],
) -> Run:
    """Make certificates, start the processes, train, and read the coordinator's store.

    The run goes on without a party whose process ends, as a job does.

    Each party reads the file, makes all parts and keeps its own; no part goes from process to process.

    Parameters
    ----------
    path
        The description of the run.
    changes
        Settings of the job in place of those of the file.
    progress
        Called with each round as soon as it is over.
    told
        Called with what people should know meanwhile: processes that ended, and the first warning of each
        kind of the parties.
    """
    run = described(path, changes)
    spec = run.spec
    digits = len(str(spec.parties))
    names = [f"party-{rank + 1:0{digits}}" for rank in range(spec.parties)]
    with tempfile.TemporaryDirectory(prefix="blindsum-train-") as folder:
        start = _single(run.model)
        options: tuple[str, ...] = ()
        if spec.initial == "first-party" and start is not None:
            np.save(Path(folder) / "first.npy", start)
            start, options = None, ("--initial", str(Path(folder) / "first.npy"))
        parties = [
            _party(path, changes, rank, name, Path(folder), options) for rank, name in enumerate(names)
        ]
        limits = {"models_kept": KEEPS_ALL}
        evaluate = (
            None if spec.hides_sum or run.evaluate is None else _Once(told_of(run.evaluate, "evaluate"))
        )
        stopped: BaseException | None = None
        with Cluster(spec, parties, Path(folder), model=start, limits=limits, goes_on=True) as cluster:
            watched = _Watched(cluster, Path(folder), evaluate, progress, told)
            try:
                for status in cluster.statuses():
                    watched.look(status)
            except (KeyboardInterrupt, BlindsumError, Raised) as error:
                stopped = error
            watched.look()
        record = TrainingRecord.from_store(cluster.store, spec.job, evaluate=evaluate)
    return Run(dataclasses.replace(record, kind="processes"), stopped)


class _Watched:
    """Tells what is new of a run: rounds that are over, parties that ended, warnings of parties."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        evaluate: Evaluate | None,
        progress: Callable[[TrainingRound], object],
        told: Callable[[str], object],
    ) -> None:
        self._cluster, self._folder, self._evaluate = cluster, folder, evaluate
        self._progress, self._told = progress, told
        self._shown = 0
        self._lost = 0
        self._said: set[str] = set()
        self._kinds: set[str] = set()

    def look(self, status: dict[str, Any] | None = None) -> None:
        """Look once, at the end without a status; a job that failed ends the run."""
        for name, why in self._cluster.ended.items():
            if name not in self._said:
                self._said.add(name)
                self._told(f"{name} {why}; the run goes on without it")
        over = 0 if status is None or status["round"] is None else status["round"]["number"]
        if status is None or over > self._shown:
            self._rounds()
        if status is not None and status["state"] in ("failed", "stopped"):
            raise BlindsumError(f"the job failed: {status['reason']}")

    def _rounds(self) -> None:
        """Tell the rounds that are over and were not told."""
        store, job = self._cluster.store, self._cluster.spec.job
        for one in rounds_after(store, job, self._shown, self._evaluate):
            self._shown = one.number
            self._progress(one)
            self._warnings()
            self._lost = 0 if one.outcome == "sum" else self._lost + 1
            if self._lost == MAX_LOST:
                raise BlindsumError(
                    f"{MAX_LOST} rounds in a row have no sum, the last one because {one.fault}"
                )

    def _warnings(self) -> None:
        """Tell the first warning of each kind that parties wrote, and why they gave no update."""
        for party in self._cluster.parties:
            for text in _warnings(_warnings_file(self._folder, party)):
                self._tell_once(party, text)
            for one in self._cluster.told(party):
                if one["outcome"] == "skipped":
                    self._tell_once(party, f"round {one['round']}: no update: {one['fault']}")

    def _tell_once(self, party: str, text: str) -> None:
        kind = NUMBER.sub("", text)
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._told(f"{party}: {text}")


class _Once:
    """The same function, which tests each model once, and none after it has raised."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self._known: dict[bytes, Mapping[str, float]] = {}
        self._failed = False

    def __call__(self, model: Array) -> Mapping[str, float]:
        name = hashlib.sha256(model.data).digest()
        if name not in self._known:
            if self._failed:
                return {}
            self._failed = True
            self._known[name] = self._evaluate(model)
            self._failed = False
        return self._known[name]


def _single(model: Array | None) -> Any:
    return None if model is None else np.asarray(model)


def _party(
    path: str,
    changes: Sequence[tuple[str, str]],
    rank: int,
    name: str,
    folder: Path,
    options: tuple[str, ...],
) -> PartyProcess:
    own = {"file": os.path.abspath(path), "rank": rank, "name": name, "changes": list(changes)}
    own["warnings"] = str(_warnings_file(folder, name))
    return PartyProcess(name, "blindsum.training.processes:train", {SETTINGS: json.dumps(own)}, options)


def _warnings_file(folder: Path, party: str) -> Path:
    """Where a party writes its warnings: a text of JSON on each line."""
    return folder / f"{party}.warnings"


def _warnings(path: Path) -> list[str]:
    """The warnings that a party has written so far."""
    # The last line may be under way.
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(record.getMessage())


def _write_warnings(path: str) -> None:
    """Write the warnings about rounds to a file from now on; they have the attribute ``round``."""
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setLevel(logging.WARNING)
    handler.addFilter(lambda record: hasattr(record, "round"))
    handler.setFormatter(_AsJson())
    logging.getLogger("blindsum").addHandler(handler)


def train(model: Array, number: int) -> Any:
    """What each party runs: ``blindsum join … --train blindsum.training.processes:train``."""
    own = _own()
    run = _description()
    data = run.parts[own["rank"]]
    if data is None or (hasattr(data, "__len__") and len(data) == 0):
        return None
    turn = TrainingTurn.of(
        int(number), own["name"], own["rank"], run.spec.parameters, int(run.settings["seed"])
    )
    given = run.step(model, data, turn)
    if not isinstance(given, tuple) or len(given) < 2 or given[1] is not None:
        return given
    weight = len(data) if hasattr(data, "__len__") and run.spec.max_weight > 1 else 1
    return (given[0], weight, *given[2:])


@cache
def _own() -> dict[str, Any]:
    own: dict[str, Any] = json.loads(os.environ[SETTINGS])
    _write_warnings(own["warnings"])
    return own


@cache
def _description() -> Description:
    changes = [(name, value) for name, value in _own()["changes"]]
    return described(_own()["file"], changes)
