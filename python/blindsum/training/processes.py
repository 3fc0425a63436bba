"""A run as processes of this machine, over mutual TLS: a coordinator, and each party a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from blindsum.errors import BlindsumError
from blindsum.rounds import Array
from blindsum.testing import Cluster, PartyProcess
from blindsum.training.contribution import TrainingTurn
from blindsum.training.description import Description, described
from blindsum.training.record import TrainingRecord

SETTINGS = "BLINDSUM_TRAINING"
"""Environment variable of a party: JSON with ``file``, ``rank``, ``name``, ``seed`` and ``changes``."""

KEEPS_ALL = 1_000_000
"""Models that the store keeps: all of them, for their evaluation."""


def run_processes(
    path: str,
    changes: Sequence[tuple[str, str]],
    on_status: Callable[[dict[str, Any]], object],
) -> TrainingRecord:
    """Make certificates, start the processes, train, and read the coordinator's store.

    Each party reads the file, makes all parts and keeps its own; no part goes from process to process.

    Parameters
    ----------
    path
        The description of the run.
    changes
        Settings of the job in place of those of the file.
    on_status
        Called with the status of the job after every change.

    Raises
    ------
    blindsum.BlindsumError
        A process failed, or the job did.
    """
    run = described(path, changes)
    spec = run.spec
    digits = len(str(spec.parties))
    names = [f"party-{rank + 1:0{digits}}" for rank in range(spec.parties)]
    with tempfile.TemporaryDirectory(prefix="blindsum-train-") as folder:
        parties = [_party(path, changes, rank, name) for rank, name in enumerate(names)]
        limits = {"models_kept": KEEPS_ALL}
        with Cluster(spec, parties, Path(folder), model=_single(run.model), limits=limits) as cluster:
            for status in cluster.statuses():
                on_status(status)
                if status["state"] in ("failed", "stopped"):
                    raise BlindsumError(f"the job failed: {status['reason']}")
        evaluate = None if spec.hides_sum else run.evaluate
        record = TrainingRecord.from_store(cluster.store, spec.job, evaluate=evaluate)
    return dataclasses.replace(record, kind="processes")


def _single(model: Array | None) -> Any:
    return None if model is None else np.asarray(model)


def _party(path: str, changes: Sequence[tuple[str, str]], rank: int, name: str) -> PartyProcess:
    own = {"file": os.path.abspath(path), "rank": rank, "name": name, "changes": list(changes)}
    return PartyProcess(name, "blindsum.training.processes:train", {SETTINGS: json.dumps(own)})


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
    return own


@cache
def _description() -> Description:
    changes = [(name, value) for name, value in _own()["changes"]]
    return described(_own()["file"], changes)
