"""Trainings of the thesis on three servers: nets, workers and skews; every round is one of `mpc3`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import blindsum as bs
from blindsum.cli import console
from experiments import tasks
from experiments.classifiers import Classifier
from experiments.tasks import DIGITS, FASHION, Task
from experiments.torch_tasks import TorchTask

AnyTask: TypeAlias = Task | TorchTask

WORKERS, SKEW = 16, 0.9
"""What the thesis has where it says nothing else."""
ALL_WORKERS = (4, 8, 16, 32)
SKEWS = (0.5, 0.7, 0.9)
IID = 0.0
BATCH, RATE = 64, 0.1
"""The thesis' own, with one step between two rounds."""
LOCAL = 10
"""Steps of a round where parties train longer by themselves; with as many epochs there are fewer rounds."""


@dataclass(frozen=True)
class Sizes:
    """How much is run.

    Attributes
    ----------
    nets : tuple of tasks
        A task for each net of each data set; of each data set the first one is varied.
    workers : tuple of int
        Numbers of parties.
    skews : tuple of float
        Shares of the majority label.
    epochs : int
        How often the examples are gone through.
    """

    nets: tuple[AnyTask, ...]
    workers: tuple[int, ...]
    skews: tuple[float, ...]
    epochs: int


def _task(data: str, net: Classifier) -> Task:
    return Task(data, net, rate=RATE, steps=1, batch=BATCH)


FULL = Sizes(
    (
        _task(FASHION, Classifier("one hidden layer", 28, (32,))),
        _task(FASHION, Classifier("logistic regression", 28)),
        _task(FASHION, Classifier("two hidden layers", 28, (48, 24))),
        _task(DIGITS, Classifier("one hidden layer", 8, (32,))),
        _task(DIGITS, Classifier("logistic regression", 8)),
        _task(DIGITS, Classifier("filters and a hidden layer", 8, (32,), filters=8)),
    ),
    ALL_WORKERS,
    SKEWS,
    epochs=20,
)
QUICK = Sizes((_task(DIGITS, Classifier("one hidden layer", 8, (32,))),), (4,), (0.9,), epochs=2)


def large(folder: Path | None) -> Sizes:
    """The thesis' nets on CIFAR-10, whose files are in a folder; for a GPU."""
    nets = ("resnet18", "vgg11", "densenet121", "simple-dla")
    return Sizes(tuple(TorchTask("cifar-10", net, folder) for net in nets), ALL_WORKERS, SKEWS, epochs=50)


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes
    ----------
    task : Task or TorchTask
        What is trained, with the steps of a round.
    workers : int
        Parties.
    skew : float
        The share of the majority label; ``IID`` deals at random.
    """

    task: AnyTask
    workers: int
    skew: float

    @property
    def partition(self) -> str:
        """As `blindsum.learning.partitions` reads it."""
        return "iid" if self.skew == IID else f"skewed:{self.skew:g}"

    def rounds(self, epochs: int) -> int:
        """So many that all examples are gone through so often."""
        task = self.task
        return max(2, round(epochs * len(task.train) / (self.workers * task.batch * task.steps)))

    @property
    def spec(self) -> bs.JobSpec:
        """The job."""
        return bs.JobSpec(
            protocol="mpc3",
            adversary="semi-honest",
            parties=self.workers,
            dim=self.task.net.dim,
            encoding=bs.Quantised(bits=16, clip=2.0),
        )


@dataclass(frozen=True)
class Training:
    """What came of a case.

    Attributes
    ----------
    accuracy, plain : tuple of float
        After each round, of the job and of plain FedAvg from the same seeds.
    deviation : float
        The largest error of a coordinate of a round's mean.
    clipped : int
        Coordinates that the encoding cut off.
    """

    case: Case
    accuracy: tuple[float, ...]
    plain: tuple[float, ...]
    deviation: float
    clipped: int


Found = dict[Case, Training]


def cases(sizes: Sizes, missing: dict[str, str]) -> Iterator[Case]:
    """All of them, each once: nets, workers, skews, and skews with more local steps."""
    seen = set()
    varied: set[str] = set()
    for task in sizes.nets:
        if task.data in missing:
            continue
        found = [Case(task, WORKERS, SKEW)]
        if task.data not in varied:
            varied.add(task.data)
            found += [Case(task, workers, SKEW) for workers in sizes.workers]
            local = replace(task, steps=LOCAL)
            for skew in (IID, *sizes.skews):
                found += [Case(task, WORKERS, skew), Case(local, WORKERS, skew)]
        for case in found:
            if case not in seen:
                seen.add(case)
                yield case


def train(case: Case, epochs: int, seed: int = 0) -> Training:
    """Train, beside plain FedAvg.

    Raises
    ------
    ArithmeticError
        A round has no sum, or one that is farther off than its bound.
    """
    task, spec = case.task, case.spec
    record = bs.simulate_training(
        spec,
        task.step,
        task.parts(case.partition, case.workers, seed),
        model=task.net.initial(seed),
        evaluate=lambda model: {"accuracy": task.right(model) / len(task.test)},
        plain=True,
        rounds=case.rounds(epochs),
        seed=seed,
    )
    for one in record.rounds:
        if one.outcome != "sum" or one.deviation is None or one.deviation > spec.max_error:
            raise ArithmeticError(f"{case}, round {one.number}: {one.fault or one.deviation}")
    return Training(
        case,
        tuple(one.test["accuracy"] for one in record.rounds),
        tuple(one.plain_test["accuracy"] for one in record.rounds),
        max(one.deviation or 0.0 for one in record.rounds),
        sum(one.clipped or 0 for one in record.rounds),
    )


def run(sizes: Sizes) -> tuple[Found, dict[str, str]]:
    """Train all cases; also why data sets are missing."""
    small = [task.data for task in sizes.nets if isinstance(task, Task)]
    missing = tasks.missing(list(dict.fromkeys(small)))
    whole = list(cases(sizes, missing))
    found: Found = {}
    with console.progress("trainings", len(whole)) as bar, tasks.one_thread():
        for done, case in enumerate(whole):
            bar.update(done, f"{case.task.data}, {case.task.net.name}, {case.workers}, {case.partition}")
            found[case] = train(case, sizes.epochs)
    return found, missing
