"""Trainings under attack, every round of which is a job of `mpc3` in the simulator."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import blindsum as bs
from blindsum.cli import console
from blindsum.demo import network
from blindsum.training.contribution import TrainingTurn
from experiments import aimed, federated, poison, tasks, trials
from experiments.aimed import ANTI_FLTRUST, BACKDOOR
from experiments.federated import PARTIES

NONE = "none"
ATTACKS = (NONE, *poison.ATTACKS, BACKDOOR, ANTI_FLTRUST)
FLTRUST = "fltrust"
RULES = (
    *("fedavg", "weighted", "clipped", FLTRUST, "krum", "multi-krum"),
    *("median", "trimmed-mean", "cosine"),
)
ATTACKERS = 4
WEIGHT = 500
ENCODING = bs.Quantised(bits=16, clip=2.5, clipping="l2")
WEIGHTED = bs.Quantised(bits=16, clip=2.5, clipping="l2", max_weight=WEIGHT)


@dataclass(frozen=True)
class Sizes:
    """How much is run: how digits are dealt, trainings of each case, their rounds, rules and attacks."""

    splits: tuple[str, ...]
    seeds: int
    rounds: int
    rules: tuple[str, ...]
    attacks: tuple[str, ...]


FULL = Sizes(tuple(trials.SPLITS), seeds=2, rounds=15, rules=RULES, attacks=ATTACKS)
LARGE = Sizes(tuple(trials.SPLITS), seeds=10, rounds=50, rules=RULES, attacks=ATTACKS)
QUICK = Sizes(
    ("iid",), seeds=1, rounds=2, rules=("fedavg", FLTRUST), attacks=(NONE, "min-max", BACKDOOR, ANTI_FLTRUST)
)


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes
    ----------
    split : str
        How the digits are dealt.
    attack : str
        Of ``ATTACKS``.
    rule : str
        What the servers compute.
    """

    split: str
    attack: str
    rule: str

    @property
    def spec(self) -> bs.JobSpec:
        """The job; `fltrust` has one party more, the root."""
        has_root = self.rule == FLTRUST
        return bs.JobSpec(
            protocol=bs.Mpc3(
                rule=self.rule,
                bad=ATTACKERS if self.rule in ("krum", "multi-krum", "trimmed-mean") else 0,
                norm=trials.CLIP if self.rule == "clipped" else 0.0,
            ),
            adversary="semi-honest",
            parties=PARTIES + has_root,
            dim=network.DIM,
            encoding=WEIGHTED if self.rule == "weighted" else ENCODING,
        )


@dataclass(frozen=True)
class Run:
    """What came of a case with one seed.

    Attributes
    ----------
    accuracy : tuple of float
        Of the model after each round, on the test images.
    success : tuple of float
        How many marked test images of other digits get the label that the back door wants.
    deviation : float
        By how much a round's result is off the rule in the clear, at most, in a coordinate.
    sums : int
        Rounds with a result.
    left_out : int
        Vectors that did not pass the gate, in all rounds.
    cut : int
        Honest updates that the encoding shortened.
    """

    accuracy: tuple[float, ...]
    success: tuple[float, ...]
    deviation: float
    sums: int
    left_out: int
    cut: int

    @property
    def late_accuracy(self) -> float:
        """The mean over the last rounds."""
        return statistics.fmean(self.accuracy[-trials.AFTER :])

    @property
    def late_success(self) -> float:
        """The mean over the last rounds."""
        return statistics.fmean(self.success[-trials.AFTER :])


Found = dict[Case, list[Run]]


class Attacked:
    """All parties' updates, of which some are attackers'."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case = case
        self._federation = federated.federation(case.split, seed)
        self._bad = trials.attackers(0 if case.attack == NONE else ATTACKERS, seed)
        dealt = zip(self._federation.parts, self._bad, strict=True)
        parts = [self._examples(part) if attacks else part for part, attacks in dealt]
        self._weights = np.array([len(part) for part in self._federation.parts])
        # Nobody can check a weight.
        self._weights[self._bad] = WEIGHT
        self._trainer = federated.Trainer([*parts, self._federation.root], seed)
        self._made: dict[int, NDArray[np.float64]] = {}
        self.cut = 0

    def step(self, model: Any, rank: int, turn: TrainingTurn) -> Any:
        """What a party gives, by its place among the parties that train; -1 is the root."""
        number = int(turn)
        if number not in self._made:
            self._made = {number: self._vectors(np.asarray(model, np.float32), number)}
        update = self._made[number][rank]
        return (update, int(self._weights[rank])) if self._case.rule == "weighted" else update

    def evaluate(self, model: Any) -> dict[str, float]:
        """Accuracy, and success of the back door."""
        images, labels = self._federation.test.images, self._federation.test.labels
        others = labels != aimed.TARGET
        wanted = np.full(int(others.sum()), aimed.TARGET)
        whole = np.asarray(model, np.float32)
        return {
            "accuracy": network.accuracy(whole, images, labels),
            "success": network.accuracy(whole, aimed.marked(images[others]), wanted),
        }

    def _examples(self, part: Any) -> Any:
        if self._case.attack == BACKDOOR:
            return aimed.with_backdoor(part)
        return poison.examples(self._case.attack, part)

    def _vectors(self, model: NDArray[np.float32], number: int) -> NDArray[np.float64]:
        """What all send in a round, the root last."""
        updates = self._trainer.updates(model, number).astype(np.float64)
        parties, root = updates[:-1], updates[-1]
        if self._case.attack == BACKDOOR:
            sent = aimed.scaled(parties, self._bad)
        elif self._case.attack == ANTI_FLTRUST:
            sent = aimed.against_fltrust(parties, self._bad, root)
        else:
            sent = poison.vectors(self._case.attack, parties, self._bad)
        self.cut += int((np.linalg.norm(sent[~self._bad], axis=1) > ENCODING.clip).sum())
        return np.concatenate([sent, root[None]])


def train(case: Case, seed: int, rounds: int) -> Run:
    """Train, and see how good the model is, and whether the back door is in it.

    Raises
    ------
    ArithmeticError
        A round gave no result.
    """
    attacked, spec = Attacked(case, seed), case.spec
    # In a simulation the last party of a job with a root is the root.
    ranks = [*range(PARTIES), -1] if case.rule == FLTRUST else list(range(PARTIES))
    record = bs.simulate_training(
        spec,
        attacked.step,
        # What a party has is its place: all of them are trained at once.
        ranks,
        model=network.initial_model(seed),
        evaluate=attacked.evaluate,
        rounds=rounds,
        seed=seed,
    )
    failed = [one for one in record.rounds if one.outcome != "sum"]
    if failed:
        raise ArithmeticError(f"{case}, seed {seed}, round {failed[0].number}: {failed[0].fault}")
    return Run(
        accuracy=tuple(one.test["accuracy"] for one in record.rounds),
        success=tuple(one.test["success"] for one in record.rounds),
        deviation=max(one.deviation or 0.0 for one in record.rounds),
        sums=len(record.rounds),
        left_out=sum(len(one.lost) for one in record.rounds),
        cut=attacked.cut,
    )


def cases(sizes: Sizes) -> list[Case]:
    """All of them."""
    return [
        Case(split, attack, rule)
        for split in sizes.splits
        for attack in sizes.attacks
        for rule in sizes.rules
    ]


def run(sizes: Sizes) -> Found:
    """Train all cases."""
    found: Found = {}
    whole = cases(sizes)
    with console.progress("trainings", len(whole)) as bar, tasks.one_thread():
        for done, case in enumerate(whole):
            bar.update(done, f"{case.split}, {case.attack}, {case.rule}")
            found[case] = [train(case, seed, sizes.rounds) for seed in range(sizes.seeds)]
    return found


def over_seeds(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
