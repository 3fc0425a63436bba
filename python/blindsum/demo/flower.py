"""The demonstration in Flower: an app with and without Blindsum, in Flower's simulation, on one data set."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import blindsum
from blindsum.demo import digits, network, reference
from blindsum.demo.compared import Comparison
from blindsum.demo.run import FULL_ROUNDS, TARGET_ACCURACY
from blindsum.errors import BlindsumError, ConfigError, SpecError
from blindsum.flower.installed import need
from blindsum.flower.settings import RunSettings
from blindsum.framework_jobs import MIN_PARTIES
from blindsum.spec import JobSpec

Array = reference.Array

NAMES = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")
"""The arrays of the model, in the order of :data:`blindsum.demo.network.SHAPES`."""

RAY_TRIES = 3
"""How often Ray is started before the demonstration gives up."""

PATIENCE = 300.0
"""Seconds for which the strategy waits for the nodes of a round."""

OnRound = Callable[[int, str], object]
"""Called with how many rounds are done, of both runs together, and a line about the last one."""


@dataclass(frozen=True)
class Settings:
    """What is demonstrated.

    Attributes
    ----------
    protocol : str
        The protocol.
    parties, rounds : int
        Nodes of the federation, and rounds of each run.
    seed : int
        Of data, training and the split.
    """

    protocol: str = "secagg+"
    parties: int = 8
    rounds: int = FULL_ROUNDS
    seed: int = 7


@dataclass(frozen=True)
class FlowerRound:
    """One round of both runs.

    Attributes
    ----------
    number : int
        Its number, from 1.
    accuracy, plain_accuracy : float
        Of the model after it, on the test images: with Blindsum, and with plain FedAvg.
    deviation : float
        Largest difference between the mean that Flower's strategy got and that of the updates in the clear.
    seconds, plain_seconds : float
        What it took, training included.
    """

    number: int
    accuracy: float
    plain_accuracy: float
    deviation: float
    seconds: float
    plain_seconds: float


@dataclass(frozen=True)
class FlowerResult(Comparison[Settings, FlowerRound]):
    """What the demonstration showed; its ``seconds`` are those of both runs."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {"accuracy": self.accuracy, "plain_accuracy": self.plain_accuracy, **asdict(self)}


def run(settings: Settings, on_round: OnRound) -> FlowerResult:
    """Train in Flower's simulation with Blindsum and without, and compare.

    Parameters
    ----------
    settings
        What is demonstrated.
    on_round
        Called after every round.

    Raises
    ------
    blindsum.ConfigError
        Fewer than 3 nodes, no rounds, or a protocol that cannot serve a strategy of Flower.
    blindsum.BlindsumError
        flwr is not installed, or a run failed.
    """
    job, spec = _job(settings)
    need("blindsum demo --flower")
    # Neither reports what it does to its makers from here.
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    begin = time.monotonic()
    train, test = digits.load(settings.seed)
    data = digits.deal(train, settings.parties, settings.seed)
    weighted = spec.max_weight > 1

    def accuracy(model: Array) -> float:
        return network.accuracy(model, test.images, test.labels)

    def simulate(secure: dict[str, object] | None, done: int, label: str) -> _Rounds:
        rounds = _Rounds(
            lambda number, model: on_round(
                done + number, f"{label} round {number} of {settings.rounds}, accuracy {accuracy(model):.3f}"
            )
        )
        _simulate(settings, weighted, secure, rounds)
        return rounds

    ours = simulate(job, 0, settings.protocol)
    plain = simulate(None, settings.rounds, "plain FedAvg")
    everybody = list(range(settings.parties))
    found = []
    for number in range(1, settings.rounds + 1):
        before, after = ours.models[number - 1], ours.models[number]
        mean = reference.plain_mean(before, data, everybody, settings.seed, number, weighted)
        one = FlowerRound(
            number=number,
            accuracy=accuracy(after),
            plain_accuracy=accuracy(plain.models[number]),
            deviation=float(np.abs(after.astype(np.float64) - before - mean).max()),
            seconds=ours.seconds[number],
            plain_seconds=plain.seconds[number],
        )
        found.append(one)
    result = FlowerResult(
        settings=settings,
        examples=[len(part) for part in data],
        weighted=weighted,
        rounds=found,
        # The mean is added to the model in float32.
        bound=spec.max_error + float(np.abs(ours.models[-1]).max()) * 2**-22,
        seconds=time.monotonic() - begin,
    )
    result.problems.extend(_problems(result))
    return result


def _job(settings: Settings) -> tuple[dict[str, object], JobSpec]:
    """The settings of the secure grid, and the job of a round; without weights where there are none."""
    if settings.parties < MIN_PARTIES:
        rule = (
            f"{MIN_PARTIES} <= parties = {settings.parties} must hold: of two, each learns the other's update"
        )
        raise ConfigError("parties", rule)
    if settings.rounds < 1:
        raise ConfigError("rounds", f"1 <= rounds = {settings.rounds} must hold")
    job: dict[str, object] = {"protocol": settings.protocol, "clip": reference.CLIP}
    try:
        spec = RunSettings.read({}, job).job("digits", network.DIM, settings.parties)
    except SpecError as error:
        if error.field != "encoding.max_weight":
            raise
        job["max_weight"] = 1
        spec = RunSettings.read({}, job).job("digits", network.DIM, settings.parties)
    if spec.hides_sum:
        rule = (
            f"{settings.protocol} hides sums from the server, and a strategy of Flower runs there and needs "
            "them: choose secagg+, fssa or pss, or leave --flower out"
        )
        raise ConfigError("protocol", rule)
    return job, spec


class _Rounds:
    """The models of a run and what its rounds took, as its strategy tells them."""

    def __init__(self, on_round: Callable[[int, Array], object]) -> None:
        self._on_round = on_round
        self._began = time.monotonic()
        self.models: list[Array] = []
        self.seconds: list[float] = []
        self.error: BlindsumError | None = None

    def evaluate(self, number: int, arrays: Any) -> None:
        """Take note of a round's end; the first call is of the model that the run begins with."""
        self.seconds.append(time.monotonic() - self._began)
        self.models.append(_flat(arrays))
        if number:
            self._on_round(number, self.models[-1])
        self._began = time.monotonic()


def _simulate(settings: Settings, weighted: bool, secure: dict[str, object] | None, rounds: _Rounds) -> None:
    """Run the app in Flower's simulation; ``secure`` are the settings of Blindsum's grid, if it has one."""
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    from blindsum.flower import SecureGrid, mod

    server, over = ServerApp(), threading.Event()

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, _context: Any) -> None:
        count = {"min_train_nodes": settings.parties, "min_available_nodes": settings.parties}
        strategy = FedAvg(fraction_evaluate=0.0, **count)
        started = {
            "initial_arrays": _record(network.initial_model(settings.seed)),
            "num_rounds": settings.rounds,
            "timeout": PATIENCE,
            "evaluate_fn": rounds.evaluate,
        }
        _end_with(grid, over)
        try:
            if secure is None:
                strategy.start(grid=grid, **started)
                return
            with SecureGrid(grid, {}, strategy=strategy, **secure) as ours:
                strategy.start(grid=ours, **started)
        except BlindsumError as error:
            # Flower says of an error in its thread only that there was one.
            rounds.error = error

    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    _start_ray(settings.parties)
    try:
        with _interrupts(over):
            run_simulation(
                server_app=server,
                client_app=_client_app(settings, weighted, [] if secure is None else [mod()]),
                num_supernodes=settings.parties,
                backend_config={"client_resources": {"num_cpus": 1}},
            )
    except RuntimeError as error:
        raise BlindsumError(f"Flower's simulation failed: {error}") from error
    finally:
        over.set()
    if rounds.error is not None:
        raise rounds.error
    if len(rounds.models) <= settings.rounds:
        raise BlindsumError(
            f"Flower's simulation ended after {max(len(rounds.models) - 1, 0)} of {settings.rounds} rounds"
        )


@contextmanager
def _interrupts(over: threading.Event) -> Iterator[None]:
    """Let a signal end the strategy, and raise ``KeyboardInterrupt`` when the simulation has ended with it.

    Flower's simulation does not end where an exception of a signal comes into it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = []

    def note(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        over.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if seen:
            raise KeyboardInterrupt


def _end_with(grid: Any, over: threading.Event) -> None:
    """Let a strategy that waits for replies end with the simulation, also with one that is interrupted."""
    pull = grid.pull_messages

    def pull_messages(message_ids: Any) -> Any:
        if over.is_set():
            raise BlindsumError("Flower's simulation has ended")
        return pull(message_ids)

    grid.pull_messages = pull_messages


def _start_ray(nodes: int) -> None:
    """Start what runs the nodes. If Flower did and it failed, its ServerApp would wait for ever."""
    import ray

    paths = [str(Path(blindsum.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    for attempt in range(1, RAY_TRIES + 1):
        try:
            # It warns of its own future.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(
                    num_cpus=min(os.cpu_count() or 1, nodes),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="ERROR",
                    runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths))}},
                )
        except Exception as error:
            # It gives itself 30 s, too few on a machine that is busy.
            ray.shutdown()
            if attempt == RAY_TRIES:
                raise BlindsumError(
                    f"Ray, which runs the nodes of Flower's simulation, did not start: {error} Try again "
                    "when this machine has less to do"
                ) from error
        else:
            return


def _client_app(settings: Settings, weighted: bool, mods: list[Any]) -> Any:
    """The nodes' app; Ray's actors get it by value."""
    from flwr.app import Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=mods)

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Any, context: Any) -> Any:
        rank = int(context.node_config["partition-id"])
        number = int(message.content["config"]["server-round"])
        part = _part(settings.seed, settings.parties, rank)
        model = _flat(message.content["arrays"])
        update = network.local_update(model, part.images, part.labels, [settings.seed, number, rank])
        content = {
            "arrays": _record(model + update),
            "metrics": MetricRecord({"num-examples": reference.weight(part, weighted)}),
        }
        return Message(content=RecordDict(content), reply_to=message)

    return app


@lru_cache(maxsize=64)
def _part(seed: int, parties: int, rank: int) -> digits.Examples:
    """The images of a node."""
    return digits.deal(digits.load(seed)[0], parties, seed)[rank]


def _record(model: Array) -> Any:
    """A model as Flower sends it."""
    from flwr.app import Array as FlowerArray
    from flwr.app import ArrayRecord

    layers = network.layers_of(model)
    return ArrayRecord({name: FlowerArray(layer) for name, layer in zip(NAMES, layers, strict=True)})


def _flat(arrays: Any) -> Array:
    """A model as one vector."""
    return np.concatenate([arrays[name].numpy().ravel() for name in NAMES]).astype(np.float32)


def _problems(result: FlowerResult) -> list[str]:
    problems = []
    worst = max(one.deviation for one in result.rounds)
    if worst > result.bound:
        problems.append(
            f"a mean differs by {worst:.2e} from that of the updates, quantisation allows {result.bound:.2e}"
        )
    if result.settings.rounds >= FULL_ROUNDS and result.accuracy < TARGET_ACCURACY:
        problems.append(f"test accuracy {result.accuracy:.4f} is below {TARGET_ACCURACY}")
    return problems
