"""Trainings of `accuracy`: each protocol and encoding from the same seeds, beside plain FedAvg.

`plain` is the protocol without protection, with the same encoding; plain FedAvg has no encoding either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import blindsum as bs
from blindsum.cli import console
from blindsum.training.contribution import TrainingTurn
from experiments import tasks
from experiments.classifiers import Classifier
from experiments.tasks import DIGITS, FASHION, Task

PLAIN = "plain"
PARTIES = 6
PARTITION = "skewed:0.5"
CLIP = 2.0
LOST = 1 / PARTIES
"""Where parties are lost: one in each round, before it gives its update."""

NEAREST, STOCHASTIC, LOSSES, FIXED = "16 bits, nearest", "16 bits", "16 bits, one party lost", "fixed64"
SETTINGS: Mapping[str, bs.Quantised | str] = {
    STOCHASTIC: bs.Quantised(bits=16, clip=CLIP),
    NEAREST: bs.Quantised(bits=16, clip=CLIP, rounding="nearest"),
    LOSSES: bs.Quantised(bits=16, clip=CLIP),
    FIXED: "fixed64",
}
"""Encodings of all protocols."""
SWEEP = (6, 8, 12, 20, 24)
"""Further numbers of bits, with one protocol: they show that the difference is the encoding's."""
SWEPT = "secagg"


@dataclass(frozen=True)
class Sizes:
    """How much is run.

    Attributes
    ----------
    tasks : tuple of Task
        What is trained.
    rounds : int
        Of each training.
    seeds : int
        Trainings of each case: other first models, parts and batches.
    protocols : tuple of str
        All of them, or some.
    sweep : tuple of int
        Of ``SWEEP``.
    """

    tasks: tuple[Task, ...]
    rounds: int
    seeds: int
    protocols: tuple[str, ...]
    sweep: tuple[int, ...]


OF_DIGITS = Task(DIGITS, Classifier("one hidden layer", 8, (32,)), rate=0.3)
OF_FASHION = Task(FASHION, Classifier("logistic regression", 28), rate=0.1)
FULL = Sizes((OF_DIGITS, OF_FASHION), rounds=10, seeds=2, protocols=bs.protocols(), sweep=SWEEP)
QUICK = Sizes(
    (OF_DIGITS,), rounds=2, seeds=1, protocols=(PLAIN, "secagg", "mpc3", "pss-malicious"), sweep=(8,)
)


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes
    ----------
    task : Task
        What is trained.
    protocol : str
        With which protocol.
    setting : str
        One of ``SETTINGS``, or a number of bits.
    """

    task: Task
    protocol: str
    setting: str

    @property
    def spec(self) -> bs.JobSpec:
        """The job of so many parties.

        Raises
        ------
        blindsum.SpecError
            The protocol does not take this encoding.
        """
        bits = self.setting.removesuffix(" bits")
        swept = bits.isdigit() and self.setting not in SETTINGS
        encoding = bs.Quantised(bits=int(bits), clip=CLIP) if swept else SETTINGS[self.setting]
        dropout = LOST if self.setting == LOSSES else 0.1
        return bs.JobSpec(
            protocol=self.protocol, parties=PARTIES, dim=self.task.net.dim, encoding=encoding, dropout=dropout
        )


@dataclass
class Watched:
    """A task whose models and updates are kept.

    `evaluate` is not told whether it is given the model of the job or that of plain FedAvg. So it gives the
    place at which the model is kept, which the record of the run then has.
    """

    task: Task
    models: list[NDArray[Any]] = field(default_factory=list)
    updates: dict[tuple[int, int], NDArray[Any]] = field(default_factory=dict)

    def step(self, model: Any, part: Any, turn: TrainingTurn) -> NDArray[Any]:
        """Train, and keep the update; of two of a party in a round, the first, which is that of the job."""
        update = self.task.step(model, part, turn)
        self.updates.setdefault((int(turn), turn.rank), update)
        return update

    def evaluate(self, model: Any) -> dict[str, float]:
        """Keep a model, and say where, and how many test examples it labels as it should."""
        self.models.append(np.array(model))
        return {"place": len(self.models) - 1, "right": self.task.right(model)}


@dataclass(frozen=True)
class Round:
    """What one round gave.

    Attributes
    ----------
    number : int
        From 1 on.
    survivors : int
        Parties in the sum.
    model : numpy.ndarray
        The model after it.
    right, plain_right : int
        Test examples that the model, and that of plain FedAvg, label as they should.
    deviation : float
        By how much the mean is off, at most, in a coordinate.
    replayed : float
        By how much the model is off one that was made of the same updates in float64.
    bound : float
        What the documentation of ``max_error`` allows that to be after so many rounds.
    distance : float
        The largest difference of a coordinate from the model of plain FedAvg, which trained by itself.
    """

    number: int
    survivors: int
    model: NDArray[Any]
    right: int
    plain_right: int
    deviation: float
    replayed: float
    bound: float
    distance: float


@dataclass(frozen=True)
class Training:
    """What came of a case with one seed."""

    case: Case
    seed: int
    rounds: tuple[Round, ...]
    clipped: int

    @property
    def models(self) -> list[NDArray[Any]]:
        """The model after each round."""
        return [one.model for one in self.rounds]


Found = dict[Case, list[Training]]


def cases(sizes: Sizes, task: Task) -> Iterator[Case]:
    """All cases of a task: those of `plain` first."""
    for setting in SETTINGS:
        for protocol in sizes.protocols:
            yield Case(task, protocol, setting)
    for bits in sizes.sweep:
        yield Case(task, SWEPT, f"{bits} bits")


def train(case: Case, seed: int, rounds: int) -> Training:
    """Train, and compare every model with that of the same updates, and with that of plain FedAvg.

    Raises
    ------
    ArithmeticError
        A round has no sum, or is farther off than its bound.
    """
    task, spec, watched = case.task, case.spec, Watched(case.task)
    first = task.net.initial(seed)
    record = bs.simulate_training(
        spec,
        watched.step,
        task.parts(PARTITION, PARTIES, seed),
        model=first,
        evaluate=watched.evaluate,
        plain=True,
        rounds=rounds,
        drop=LOST if case.setting == LOSSES else 0.0,
        seed=seed,
    )
    replayed, largest, found = first.astype(np.float64), float(np.abs(first).max()), []
    unit = 2.0**-24 if watched.models[0].dtype == np.float32 else 2.0**-53
    allowed = 0.0
    for one in record.rounds:
        if one.outcome != "sum" or one.deviation is None or one.deviation > spec.max_error:
            raise ArithmeticError(f"{case}, seed {seed}, round {one.number}: {one.fault or one.deviation}")
        ranks = [rank for rank in range(PARTIES) if one.roster[rank] in one.survivors]
        replayed = replayed + np.mean(
            [watched.updates[one.number, rank].astype(np.float64) for rank in ranks], axis=0
        )
        model = watched.models[int(one.test["place"])]
        largest = max(largest, float(np.abs(model).max()))
        allowed += spec.max_error + unit * largest
        off = tasks.largest(model, replayed)
        if off > allowed:
            raise ArithmeticError(f"{case}, seed {seed}: a model is off by {off}, more than {allowed}")
        plain = watched.models[int(one.plain_test["place"])]
        found.append(
            Round(
                number=one.number,
                survivors=len(one.survivors),
                model=model,
                right=int(one.test["right"]),
                plain_right=int(one.plain_test["right"]),
                deviation=one.deviation,
                replayed=off,
                bound=allowed,
                distance=tasks.largest(model, plain),
            )
        )
    return Training(case, seed, tuple(found), sum(one.clipped or 0 for one in record.rounds))


def run(sizes: Sizes) -> tuple[Found, dict[Case, str]]:
    """Train all cases; also those that there cannot be, and why."""
    missing = tasks.missing([task.data for task in sizes.tasks])
    whole = [case for task in sizes.tasks if task.data not in missing for case in cases(sizes, task)]
    found: Found = {}
    refused: dict[Case, str] = {}
    with console.progress("trainings", len(whole)) as bar, tasks.one_thread():
        for done, case in enumerate(whole):
            bar.update(done, f"{case.task.data}, {case.protocol}, {case.setting}")
            try:
                _ = case.spec
            except bs.SpecError as error:
                refused[case] = f"{error.field}: {error.rule}"
                continue
            found[case] = [train(case, seed, sizes.rounds) for seed in range(sizes.seeds)]
    return found, refused


def differing(found: Found, case: Case) -> int:
    """Coordinates, of all models of all rounds, that are not those of `plain` to the last bit."""
    others = found[Case(case.task, PLAIN, case.setting)]
    return sum(
        int((one != other).sum())
        for ours, theirs in zip(found[case], others, strict=True)
        for one, other in zip(ours.models, theirs.models, strict=True)
    )
