"""Trainings and iterations of FLASHE's Figures 9 to 11, all by real rounds of `flashe`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import blindsum as bs
from blindsum.cli import console
from experiments import tasks
from experiments.classifiers import Classifier
from experiments.tasks import DIGITS, FASHION, Task
from experiments.wan import MODELS, Model

PARTIES = 10
"""As in the paper."""
DENSITY = 0.1
STEP_ROUNDS = 10
"""Rounds of a density: in the paper it falls from 0.8 over 0.4 and 0.2 to 0.1, every ten rounds."""
SCHEDULE: Mapping[str, Any] = {"density": DENSITY, "density_start": 0.8, "density_steps": 3}

FLOAT, DENSE = "float", "16 bits"
PAPERS, SCHEDULED, SENDERS, AT_ONCE = (
    "top 10 %, schedule, 1 contributor",
    "top 10 %, schedule",
    "top 10 %, schedule, by senders",
    "top 10 % at once",
)
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    DENSE: {},
    PAPERS: {**SCHEDULE, "min_contributors": 1},
    SCHEDULED: SCHEDULE,
    SENDERS: {**SCHEDULE, "divisor": "senders"},
    AT_ONCE: {"density": DENSITY},
}
"""Options of the jobs. `float` is plain FedAvg beside the dense one."""


@dataclass(frozen=True)
class Sizes:
    """How much is run.

    Attributes
    ----------
    tasks : tuple of Task
        What is trained.
    rounds, step_rounds, seeds : int
        Rounds of a training, those of a density of the schedule, and trainings of each case.
    models : tuple of Model
        Of the iterations.
    paillier : int
        The most coordinates of which Paillier's rounds are run; longer ones are extrapolated.
    repetitions : int
        Of other rounds.
    """

    tasks: tuple[Task, ...]
    rounds: int
    step_rounds: int
    seeds: int
    models: tuple[Model, ...]
    paillier: int
    repetitions: int


OF_DIGITS = Task(DIGITS, Classifier("one hidden layer", 8, (32,)), rate=0.3)
OF_FASHION = Task(FASHION, Classifier("one hidden layer", 28, (32,)), rate=0.1)
FULL = Sizes(
    (OF_DIGITS, OF_FASHION), 60, STEP_ROUNDS, seeds=1, models=MODELS, paillier=270_000, repetitions=3
)
LARGE = Sizes(
    (OF_DIGITS, OF_FASHION), 300, STEP_ROUNDS, seeds=5, models=MODELS, paillier=1_200_000, repetitions=5
)
TOY = Model("toy", 2_000, 1, MODELS[0].printed)
QUICK = Sizes((OF_DIGITS,), 4, 1, seeds=1, models=(TOY,), paillier=2_000, repetitions=1)


@dataclass(frozen=True)
class Case:
    """A task with one of ``OPTIONS``."""

    task: Task
    name: str


@dataclass(frozen=True)
class Line:
    """What came of a training.

    Attributes
    ----------
    accuracy : tuple of float
        After each round.
    up : tuple of float
        Bytes that a party sent in each round.
    opened : tuple of float
        The part of the model's coordinates that each round changed.
    clipped : int
        Coordinates that the encoding cut off, of all parties and rounds.
    """

    accuracy: tuple[float, ...]
    up: tuple[float, ...]
    opened: tuple[float, ...]
    clipped: int


Lines = dict[Case, list[Line]]


class Watched:
    """A task that also says how much of a model a round changed."""

    def __init__(self, task: Task, first: Any) -> None:
        self._task = task
        self._last = first

    def evaluate(self, model: Any) -> dict[str, float]:
        """Accuracy, and the part of the coordinates that are not as they were."""
        changed = float((model != self._last).mean())
        self._last = model.copy()
        return {"accuracy": self._task.right(model) / len(self._task.test), "changed": changed}


def job(task: Task, options: Mapping[str, Any], step_rounds: int) -> bs.JobSpec:
    """The job; where there is a schedule, each density has so many rounds."""
    more: dict[str, Any] = {"density_rounds": step_rounds} if "density_steps" in options else {}
    return bs.JobSpec(
        protocol=bs.Flashe(**options, **more),
        parties=PARTIES,
        dim=task.net.dim,
        encoding=bs.Quantised(bits=16, clip=4.0),
    )


def train(case: Case, seed: int, sizes: Sizes) -> Line:
    """Train; `float` is plain FedAvg, by itself, from the same seeds.

    Raises
    ------
    ArithmeticError
        A round has no sum.
    """
    task = case.task
    first = task.net.initial(seed)
    spec = job(task, {} if case.name == FLOAT else OPTIONS[case.name], sizes.step_rounds)
    watched = Watched(task, first)
    record = bs.simulate_training(
        spec,
        task.step,
        task.parts("dirichlet:0.5", PARTIES, seed),
        model=first,
        evaluate=watched.evaluate,
        plain=case.name == FLOAT,
        rounds=sizes.rounds,
        seed=seed,
    )
    failed = [one for one in record.rounds if one.outcome != "sum"]
    if failed:
        raise ArithmeticError(f"{case}, seed {seed}, round {failed[0].number}: {failed[0].fault}")
    tested = [one.plain_test if case.name == FLOAT else one.test for one in record.rounds]
    return Line(
        accuracy=tuple(one["accuracy"] for one in tested),
        up=tuple(one.up / PARTIES for one in record.rounds),
        opened=tuple(one["changed"] for one in tested),
        clipped=sum(one.clipped or 0 for one in record.rounds),
    )


def lines(sizes: Sizes) -> Lines:
    """All trainings of the data sets that are here."""
    missing = tasks.missing([task.data for task in sizes.tasks])
    cases = [
        Case(task, name) for task in sizes.tasks if task.data not in missing for name in (FLOAT, *OPTIONS)
    ]
    found: Lines = {}
    with console.progress("trainings", len(cases)) as bar, tasks.one_thread():
        for done, case in enumerate(cases):
            bar.update(done, f"{case.task.data}, {case.name}")
            found[case] = [train(case, seed, sizes) for seed in range(sizes.seeds)]
    return found


# Figures 10 and 11.

PLAIN, FLASHE, SPARSE, BATCHED, SINGLE = (
    "plain",
    "flashe",
    "flashe, 10 %",
    "Paillier, batched",
    "Paillier, 10 %, a value each",
)
MEASURED, EXTRAPOLATED = "measured", "extrapolated"
CIPHERTEXT = 512
"""Bytes of a ciphertext of Paillier with 2048 bits."""


@dataclass(frozen=True)
class Iteration:
    """An aggregation of one model: CPU time and bytes.

    Attributes
    ----------
    party_ms, server_ms : float
        Work of the median party; and of the server, key service included.
    up_bytes, down_bytes : float
        Of a party.
    source : str
        Whether it was measured.
    """

    party_ms: float
    server_ms: float
    up_bytes: float
    down_bytes: float
    source: str = MEASURED

    @property
    def path_ms(self) -> float:
        """Both, one after the other."""
        return self.party_ms + self.server_ms

    def times(self, factor: float, more_up: float = 0.0) -> Iteration:
        """An aggregation with so many times the ciphertexts, and bytes of a mask."""
        up, down = factor * self.up_bytes + more_up, factor * self.down_bytes
        return Iteration(factor * self.party_ms, factor * self.server_ms, up, down, EXTRAPOLATED)


Iterations = dict[tuple[str, str], Iteration]
"""By the name of the model and the scheme."""


def spec_of(scheme: str, dim: int) -> bs.JobSpec:
    """The job of an iteration that is run."""
    protocols: Mapping[str, Any] = {
        PLAIN: "plain",
        FLASHE: "flashe",
        SPARSE: bs.Flashe(density=DENSITY),
        BATCHED: "paillier-broadcast",
    }
    return bs.JobSpec(protocol=protocols[scheme], parties=PARTIES, dim=dim, model_update="none")


def iteration(scheme: str, dim: int, repetitions: int) -> Iteration:
    """Simulate one: least work of the repetitions.

    Raises
    ------
    ArithmeticError
        There was no sum, or a wrong one.
    """
    spec = spec_of(scheme, dim)
    results = [bs.simulate(spec, seed=seed) for seed in range(repetitions)]
    for result in results:
        if not result.exact:
            raise ArithmeticError(f"{scheme}, D = {dim}: {result.fault or 'a wrong sum'}")
    return Iteration(
        party_ms=min(result.client_ms.median for result in results),
        server_ms=min(result.server_ms for result in results),
        up_bytes=results[0].up_bytes_per_party,
        down_bytes=results[0].down_bytes_per_party,
    )


def iterations(sizes: Sizes) -> Iterations:
    """All schemes for all models; Paillier's longest round that is run stands for the longer ones."""
    found: Iterations = {}
    with console.progress("iterations", len(sizes.models)) as bar:
        for done, model in enumerate(sizes.models):
            bar.update(done, model.name)
            dim = model.parameters
            for scheme in (PLAIN, FLASHE, SPARSE):
                found[model.name, scheme] = iteration(scheme, dim, sizes.repetitions)
            if dim <= sizes.paillier:
                batched = iteration(BATCHED, dim, 1)
                known = (dim, batched)
            else:
                batched = known[1].times(dim / known[0])
            found[model.name, BATCHED] = batched
            ciphertexts = batched.up_bytes / CIPHERTEXT
            # Ciphertexts cost the same whether there are many values in them or one.
            found[model.name, SINGLE] = batched.times(DENSITY * dim / ciphertexts, more_up=dim / 8)
    return found
