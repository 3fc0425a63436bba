"""The server's side: it runs the rounds, and writes what they took and whether their sums are right."""

from __future__ import annotations

import json
import logging
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server import strategy as older
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

import blindsum.flower

from . import work

app = ServerApp()


class Rounds:
    """What each round took and gave, as its end is seen."""

    def __init__(self, nodes: int, dim: int) -> None:
        self._dim = dim
        everybody = list(range(nodes))
        others = [node for node in everybody if node != work.VICTIM]
        self._means = {nodes: work.mean(everybody, dim), nodes - 1: work.mean(others, dim)}
        self._model = np.zeros(dim)
        self._began = 0.0
        self.found: list[dict[str, Any]] = []

    def end(self, number: int, model: Any) -> None:
        """Take note of the model after a round; the first call is of the model that it begins with."""
        now = time.monotonic()
        if number > 0:
            self.found.append({"seconds": now - self._began, **self._told(model - self._model)})
        self._model = np.array(model, np.float64)
        # What is computed here is of no round.
        self._began = time.monotonic()

    def _told(self, change: Any) -> dict[str, Any]:
        if not change.any():
            return {"survivors": 0, "deviation": 0.0}
        apart = {count: float(np.abs(change - mean).max()) for count, mean in self._means.items()}
        survivors = min(apart, key=apart.__getitem__)
        return {"survivors": survivors, "deviation": apart[survivors]}


class Reasons(logging.Handler):
    """Collects why rounds have no sum, of the lines that Blindsum logs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line about such a round."""
        if hasattr(record, "round_without_sum"):
            self.found.append(record.getMessage())


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Any, context: Any) -> None:
    """Run the rounds in the way that the configuration says, and write what they were."""
    run = context.run_config
    rounds, reasons = Rounds(int(run["nodes"]), int(run["dim"])), Reasons()
    logging.getLogger("blindsum").addHandler(reasons)
    if run["how"] == work.PEER:
        _peer(grid, context, rounds)
    else:
        _strategy(grid, context, rounds)
    most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    file = Path(str(run["out"])) / "server.json"
    told = {"rounds": rounds.found, "reasons": reasons.found, "memory": most}
    file.write_text(json.dumps(told), encoding="utf-8")


def _strategy(grid: Any, context: Any, rounds: Rounds) -> None:
    run = context.run_config
    count = {"min_train_nodes": int(run["nodes"]), "min_available_nodes": int(run["nodes"])}
    strategy = FedAvg(fraction_evaluate=0.0, **count)
    model = ArrayRecord({"model": Array(np.zeros(int(run["dim"]), np.float32))})

    def evaluate(number: int, arrays: Any) -> None:
        rounds.end(number, arrays["model"].numpy())

    started = {"initial_arrays": model, "num_rounds": int(run["rounds"]), "timeout": float(run["timeout"])}
    if run["how"] == work.PLAIN:
        strategy.start(grid=grid, evaluate_fn=evaluate, **started)
        return
    with blindsum.flower.SecureGrid(grid, context, strategy=strategy) as secure:
        strategy.start(grid=secure, evaluate_fn=evaluate, **started)


def _peer(grid: Any, context: Any, rounds: Rounds) -> None:
    run = context.run_config
    dim = int(run["dim"])

    def evaluate(number: int, parameters: Any, _config: Any) -> Any:
        rounds.end(number, parameters[0])
        return 0.0, {}

    strategy = older.FedAvg(
        fraction_evaluate=0.0,
        min_fit_clients=int(run["nodes"]),
        min_available_clients=int(run["nodes"]),
        evaluate_fn=evaluate,
        initial_parameters=ndarrays_to_parameters([np.zeros(dim, np.float32)]),
    )
    legacy = LegacyContext(
        context=context, config=ServerConfig(num_rounds=int(run["rounds"])), strategy=strategy
    )
    workflow = SecAggPlusWorkflow(
        num_shares=1.0, reconstruction_threshold=0.5, max_weight=1000.0, timeout=float(run["timeout"])
    )
    DefaultWorkflow(fit_workflow=workflow)(grid, legacy)
