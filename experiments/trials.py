"""Trainings under attack: what is run, and what came of each."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blindsum.demo import network
from experiments import federated, poison, robust
from experiments.federated import PARTIES

SPLITS = {
    "iid": "the same digits for all",
    "dirichlet": f"other digits for each, Dirichlet with α = {federated.ALPHA}",
}
NONE = "none"
ENCODING = robust.Encoding(network.DIM, clip=2.5)
CLIP = 0.5
CAUTIOUS = ("krum", "multi_krum", "trimmed_mean")
ROOT_ALONE = "root alone"
"""No rule: the servers train on their own images."""
AFTER = 5
"""Accuracy is the mean over so many last rounds."""


@dataclass(frozen=True)
class Sizes:
    """How much is run.

    Attributes
    ----------
    seeds : int
        Runs of each case: other test images, parties, attackers and models.
    rounds : int
        Of each run.
    attackers : tuple of int
        Numbers of attackers.
    """

    seeds: int
    rounds: int
    attackers: tuple[int, ...]


FULL = Sizes(seeds=5, rounds=30, attackers=(2, 4, 6, 8))
QUICK = Sizes(seeds=1, rounds=2, attackers=(4, 8))


@dataclass(frozen=True)
class Case:
    """One point of the experiment.

    Attributes
    ----------
    split : str
        How the digits are dealt.
    attack : str
        What attackers do.
    attackers : int
        How many there are.
    rule : str
        What the servers compute.
    told : int
        How many attackers they think there are.
    """

    split: str
    attack: str
    attackers: int
    rule: str
    told: int


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes
    ----------
    accuracy : float
        Of the model in the last rounds.
    refused : int
        Rounds without a sum.
    honest_out, attackers_out : int
        Vectors that the gate left out, in all rounds.
    bound : float
        How far the servers' result of the last round may be from ours, in a coordinate.
    honest_cut : int
        Honest updates that were too long for the encoding.
    """

    accuracy: float
    refused: int
    honest_out: int
    attackers_out: int
    bound: float
    honest_cut: int


Results = dict[Case, list[Run]]


# What is run.


def cases(sizes: Sizes) -> list[Case]:
    """All points: each rule is told how many attackers there are, and some are also told the most."""
    found = []
    most = max(sizes.attackers)
    for split in SPLITS:
        found.append(Case(split, NONE, 0, ROOT_ALONE, 0))
        for attack in (NONE, *poison.ATTACKS):
            for attackers in (0,) if attack == NONE else sizes.attackers:
                found += [Case(split, attack, attackers, rule, attackers) for rule in robust.RULES]
                if attackers < most:
                    found += [Case(split, attack, attackers, rule, most) for rule in CAUTIOUS]
    return found


def train(case: Case, seed: int, rounds: int) -> Run:
    """Train, and see how good the model is."""
    federation = federated.federation(case.split, seed)
    bad = attackers(case.attackers, seed)
    weights = np.array([len(part) for part in federation.parts])
    # Nobody can check a weight, so attackers say the largest one.
    weights[bad] = weights.max()
    examples = zip(federation.parts, bad, strict=True)
    parts = [poison.examples(case.attack, part) if attacks else part for part, attacks in examples]
    trainer = federated.Trainer([*parts, federation.root], seed)
    rng = np.random.default_rng([seed, 5])
    model = network.initial_model(seed)
    seen, outcomes, cut = [], [], 0
    for number in range(rounds):
        updates = trainer.updates(model, number).astype(np.float64)
        told = robust.Told(CLIP, case.told, weights, updates[-1])
        if case.rule == ROOT_ALONE:
            outcome = robust.Outcome(told.root, passed=~bad)
        else:
            wanted = poison.vectors(case.attack, updates[:-1], bad)
            cut += int((np.linalg.norm(wanted[~bad], axis=1) > ENCODING.clip).sum())
            numbers = ENCODING.sent(wanted, bad, case.rule, rng.random(wanted.shape))
            last = number == rounds - 1
            outcome = robust.aggregate(case.rule, ENCODING, numbers, told, rng, bounded=last)
        model = (model + outcome.mean).astype(np.float32)
        outcomes.append(outcome)
        if number >= rounds - AFTER:
            seen.append(network.accuracy(model, federation.test.images, federation.test.labels))
    return Run(
        accuracy=statistics.fmean(seen),
        refused=sum(one.refused for one in outcomes),
        honest_out=sum(int((~one.passed & ~bad).sum()) for one in outcomes),
        attackers_out=sum(int((~one.passed & bad).sum()) for one in outcomes),
        bound=outcomes[-1].bound,
        honest_cut=cut,
    )


def attackers(count: int, seed: int) -> NDArray[np.bool_]:
    """Who attacks; more attackers are those of fewer, and others."""
    bad = np.zeros(PARTIES, dtype=bool)
    bad[np.random.default_rng([seed, 4]).permutation(PARTIES)[:count]] = True
    return bad


def accuracy(runs: Sequence[Run]) -> tuple[float, float]:
    """Mean and standard deviation over seeds."""
    values = [run.accuracy for run in runs]
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
