"""Run the demonstration and compare it with plain FedAvg."""

from __future__ import annotations

import collections
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.coordinator import stored_model, stored_rounds
from blindsum.demo import digits, network, reference
from blindsum.demo.compared import Comparison
from blindsum.demo.digits import Examples
from blindsum.demo.party import SETTINGS, models_file
from blindsum.errors import BlindsumError, ConfigError, SpecError
from blindsum.options import Quantised
from blindsum.spec import JobSpec
from blindsum.testing import Cluster, PartyProcess

Array = NDArray[np.float32]

TARGET_ACCURACY = 0.93
FULL_ROUNDS = 20
"""Rounds after which the target is promised."""

WRITER = 0
"""The rank of the party that writes models down where the coordinator has none; it is not killed."""
FINAL_MODEL = "final.npy"

OnStatus = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Settings:
    """What is demonstrated.

    Attributes
    ----------
    protocol : str
        The protocol.
    parties, rounds : int
        How many.
    kill : bool
        Whether a party is killed on the way.
    seed : int
        Of data, training and the split.
    """

    protocol: str = "secagg+"
    parties: int = 8
    rounds: int = FULL_ROUNDS
    kill: bool = True
    seed: int = 7

    @property
    def names(self) -> list[str]:
        """Names of the parties, by rank."""
        digits_of_count = len(str(self.parties))
        return [f"party-{rank + 1:0{digits_of_count}}" for rank in range(self.parties)]

    @property
    def victim(self) -> str | None:
        """Who is killed."""
        return self.names[self.parties // 2] if self.kill else None

    @property
    def kill_round(self) -> int:
        """In which round, not counting key set-ups."""
        return min(5, self.rounds)


@dataclass(frozen=True)
class DemoRound:
    """One round that gave a sum.

    Attributes
    ----------
    number : int
        Its number.
    survivors : list of str
        Whose updates are in it.
    dropped : dict
        Who dropped out in it, or in a round without a sum since the one before: at which stage, and why.
    accuracy, plain_accuracy : float
        Of the model after it, on the test examples; and of plain FedAvg.
    deviation : float
        Largest difference between the opened mean and the survivors' mean in the clear.
    seconds : float
        From the offer to the end, training included.
    stages : list of dict
        ``name``, ``seconds`` and bytes ``up`` and ``down`` of all parties together.
    """

    number: int
    survivors: list[str]
    dropped: dict[str, str]
    accuracy: float
    plain_accuracy: float
    deviation: float
    seconds: float
    stages: list[dict[str, Any]]


@dataclass(frozen=True)
class DemoResult(Comparison[Settings, DemoRound]):
    """What the demonstration showed."""

    def stages(self) -> dict[str, list[tuple[DemoRound, dict[str, Any]]]]:
        """Every stage by its name, in order, in the rounds that had it.

        A ring has a stage of one name for each party: they are told apart by a number, and a round without
        one of the parties has fewer.
        """
        counts = [collections.Counter(stage["name"] for stage in one.stages) for one in self.rounds]
        repeated = {name for count in counts for name in count if count[name] > 1}
        found: dict[str, list[tuple[DemoRound, dict[str, Any]]]] = {}
        # The longest round first: it has them all in their order.
        for one in sorted(self.rounds, key=lambda one: -len(one.stages)):
            seen = collections.Counter[str]()
            for stage in one.stages:
                name = stage["name"]
                seen[name] += 1
                found.setdefault(f"{name} {seen[name]}" if name in repeated else name, []).append(
                    (one, stage)
                )
        return {name: sorted(same, key=lambda pair: pair[0].number) for name, same in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        whole = {"accuracy": self.accuracy, "plain_accuracy": self.plain_accuracy}
        return {**whole, "victim": self.settings.victim, **asdict(self)}


def run(settings: Settings, on_status: OnStatus) -> DemoResult:
    """Make certificates, start the processes, train, and compare.

    Parameters
    ----------
    settings
        What is demonstrated.
    on_status
        Called with the status of the job after every change.

    Raises
    ------
    blindsum.ConfigError
        Fewer than 3 parties, too few for a sum once one is killed, or no rounds.
    blindsum.BlindsumError
        A process failed, or the job did.
    """
    if settings.parties < 3:
        rule = f"3 <= parties = {settings.parties} must hold: of two, each learns the other's update"
        raise ConfigError("parties", rule)
    if settings.rounds < 1:
        raise ConfigError("rounds", f"1 <= rounds = {settings.rounds} must hold")
    begin = time.monotonic()
    train, test = digits.load(settings.seed)
    data = digits.deal(train, settings.parties, settings.seed)
    model = network.initial_model(settings.seed)
    spec = _spec(settings, data)
    if settings.kill and spec.least_roster >= settings.parties:
        least, protocol = spec.least_roster, settings.protocol
        rule = (
            f"{least + 1} <= parties = {settings.parties} must hold if one is killed, as a round of "
            f"{protocol} needs {least}: use more parties, or kill none (--no-kill)"
        )
        raise ConfigError("parties", rule)
    with tempfile.TemporaryDirectory(prefix="blindsum-demo-") as name:
        folder = Path(name)
        parties = _party_processes(settings, spec, data, folder)
        # Who is killed does not come back: nobody waits long for it, in its round or at the end.
        limits = {"reconnect_grace": 1.0, "farewell": 5.0, "models_kept": settings.rounds + 1}
        with Cluster(spec, parties, folder, model=model, limits=limits) as cluster:
            _conduct(cluster, settings, on_status)
        every = stored_rounds(cluster.store, spec.job)
        reports = [one for one in every if one["state"] == "done" and not one["key_setup"]]
        if len(reports) < settings.rounds:
            raise BlindsumError(f"only {len(reports)} of {settings.rounds} rounds gave a sum")
        if spec.hides_sum:
            models = _written_models(folder, [report["number"] for report in reports])
        else:
            models = [_stored_model(cluster, report["model_version"] + 1) for report in reports]
    rounds = _compare(settings, spec, data, test, [model, *models], reports, every)
    result = DemoResult(
        settings,
        [len(part) for part in data],
        spec.max_weight > 1,
        rounds,
        _bound(spec, models[-1]),
        time.monotonic() - begin,
    )
    result.problems.extend(_problems(result))
    return result


def _spec(settings: Settings, data: list[Examples]) -> JobSpec:
    """The job; where the protocol has no weights, all parties weigh alike."""
    try:
        return _job(settings, max_weight=max(len(part) for part in data))
    except SpecError as error:
        if error.field != "encoding.max_weight":
            raise
        return _job(settings, max_weight=1)


def _job(settings: Settings, max_weight: int) -> JobSpec:
    return JobSpec(
        job="digits",
        protocol=settings.protocol,
        parties=settings.parties,
        dim=network.DIM,
        rounds=settings.rounds,
        encoding=Quantised(clip=reference.CLIP, max_weight=max_weight),
        dropout=0.25,
        stage_deadline=15.0,
        input_deadline=30.0,
    )


def _party_processes(
    settings: Settings, spec: JobSpec, data: list[Examples], folder: Path
) -> list[PartyProcess]:
    processes = []
    for rank, (name, part) in enumerate(zip(settings.names, data, strict=True)):
        # Each party gets the path of its own examples and no other.
        path = folder / f"{name}.npz"
        part.save(path)
        own = {"rank": rank, "seed": settings.seed, "data": str(path), "weighted": spec.max_weight > 1}
        if name == settings.victim:
            own["slow_round"] = settings.kill_round
        options = []
        if spec.hides_sum and rank == WRITER:
            own["models"] = str(folder)
            options = ["--out", str(folder / FINAL_MODEL)]
        environment = {SETTINGS: json.dumps(own)}
        processes.append(PartyProcess(name, "blindsum.demo.party:train", environment, options))
    return processes


def _conduct(cluster: Cluster, settings: Settings, on_status: OnStatus) -> None:
    """Watch the job; kill the victim while the others train."""
    victim = settings.victim
    for status in cluster.statuses():
        on_status(status)
        if status["state"] in ("failed", "stopped"):
            raise BlindsumError(f"the job failed: {status['reason']}")
        current = status["round"]
        if victim is None or current is None or status["rounds_done"] + 1 < settings.kill_round:
            continue
        stages = [stage["name"] for stage in current["stages"]]
        if current["state"] == "running" and cluster.spec.input_stage in stages:
            cluster.kill(victim)
            victim = None


def _written_models(folder: Path, numbers: list[int]) -> list[Array]:
    """The models after these rounds, as a party wrote them down."""
    files = [models_file(folder, number) for number in numbers[1:]]
    try:
        return [np.load(file) for file in [*files, folder / FINAL_MODEL]]
    except OSError as error:
        raise BlindsumError(f"a model was not written down: {error}") from error


def _stored_model(cluster: Cluster, version: int) -> Array:
    model = stored_model(cluster.store, cluster.spec.job, version)
    if model is None:
        raise BlindsumError(f"the store has lost version {version} of the model")
    return model.astype(np.float32)


def _compare(
    settings: Settings,
    spec: JobSpec,
    data: list[Examples],
    test: Examples,
    models: list[Array],
    reports: list[dict[str, Any]],
    every: list[dict[str, Any]],
) -> list[DemoRound]:
    rank = {name: place for place, name in enumerate(settings.names)}
    survivors = [[rank[name] for name in report["survivors"]] for report in reports]
    numbers = [report["number"] for report in reports]
    weighted = spec.max_weight > 1
    pairs = list(zip(numbers, survivors, strict=True))
    plain = reference.plain_fedavg(models[0], data, pairs, settings.seed, weighted)
    rounds = []
    for place, report in enumerate(reports):
        before, after = models[place], models[place + 1]
        mean = reference.plain_mean(before, data, survivors[place], settings.seed, numbers[place], weighted)
        opened = after.astype(np.float64) - before
        rounds.append(
            DemoRound(
                number=numbers[place],
                survivors=report["survivors"],
                dropped=_dropped(every, numbers[place - 1] if place else 0, numbers[place]),
                accuracy=network.accuracy(after, test.images, test.labels),
                plain_accuracy=network.accuracy(plain[place], test.images, test.labels),
                deviation=float(np.abs(opened - mean).max()),
                seconds=report["seconds"],
                stages=[_stage(stage, spec) for stage in report["stages"]],
            )
        )
    return rounds


def _dropped(every: list[dict[str, Any]], after: int, until: int) -> dict[str, str]:
    """Who dropped out since an earlier sum: rounds that need all parties begin again without one of them."""
    return {
        name: f"{stage['name']}: {reason}"
        for report in every
        if after < report["number"] <= until
        for stage in report["stages"]
        for name, reason in stage["dropped"].items()
    }


def _stage(stage: dict[str, Any], spec: JobSpec) -> dict[str, Any]:
    traffic = stage["bytes"].values()
    carries_updates = any(step.input and step.name == stage["name"] for step in spec.plan)
    uploads = uploads_of_all(spec.parties) if spec.needs_servers and carries_updates else 1
    return {
        "name": stage["name"],
        "seconds": stage["seconds"],
        "up": uploads * sum(one["up"] for one in traffic),
        "down": sum(one["down"] for one in traffic),
    }


def uploads_of_all(parties: int) -> float:
    """How many times what parties upload to the coordinator of three servers they upload to all of them.

    A vector goes to two of the three; that of the last of each three parties not to the coordinator.
    """
    return 2 * parties / sum(rank % 3 != 2 for rank in range(parties))


def _bound(spec: JobSpec, model: Array) -> float:
    """What the deviation may be: quantisation, and the mean being added to the model in float32."""
    return spec.max_error + float(np.abs(model).max()) * 2**-22


def _problems(result: DemoResult) -> list[str]:
    problems = []
    worst = max(one.deviation for one in result.rounds)
    if worst > result.bound:
        problems.append(
            f"a mean differs by {worst:.2e} from plain FedAvg, quantisation allows {result.bound:.2e}"
        )
    if result.settings.rounds >= FULL_ROUNDS and result.accuracy < TARGET_ACCURACY:
        problems.append(f"test accuracy {result.accuracy:.4f} is below {TARGET_ACCURACY}")
    if result.settings.victim and result.settings.victim in result.rounds[-1].survivors:
        problems.append(f"{result.settings.victim} was killed and still took part")
    return problems
