"""Trainings with liars, whose sums come from simulated rounds of real protocols.

What liars send:

========= =====================================================================================
none      what all send: their update after training, cut to the norm that is agreed on
beyond    the opposite of what they have together, a hundred times: ``clip`` in most coordinates.
          Where bounds are proved it is found, and left out
inside    the same direction, as long as the bound lets through
digit     they train on ones with the label seven, and make the update as long as that
========= =====================================================================================

``plain`` and ``pss`` cannot hold a liar to a norm, so their jobs have none; honest parties cut their updates
themselves. All protocols are given the same vectors.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

import blindsum as bs
from blindsum.demo import network
from blindsum.demo.digits import Examples
from blindsum.misbehaviours import Misbehaviour
from experiments import federated, trials
from experiments.federated import PARTIES

Vectors = NDArray[np.float64]
Flags = NDArray[np.bool_]

PLAIN, PSS, BOUNDED = "plain", "pss", "pss-malicious"
PROTOCOLS = (PLAIN, PSS, BOUNDED)
NONE, BEYOND, INSIDE, DIGIT = "none", "beyond", "inside", "digit"
ATTACKS = (NONE, BEYOND, INSIDE, DIGIT)

SPLIT = "dirichlet"
CORRUPT = 0.1
LIARS = math.ceil(CORRUPT * PARTIES)
BITS = 10
CLIP = 0.5
STEP = 2 * CLIP / (2**BITS - 1)
ROUNDING = math.sqrt(network.DIM) * STEP
"""What an encoder leaves between an update and the bound, so that rounding cannot lift it above."""
BOOST = 100
FROM, TO = 1, 7
"""Liars who are after one digit give its images the label of the other one."""
THREADS = 2
"""Results do not depend on it."""
LIES: tuple[Misbehaviour, ...] = ("out-of-bound", "wrong-norm")
"""How liars exceed a bound that is proved, in turns: in a coordinate, in the norm."""


@dataclass(frozen=True)
class Sizes:
    """How much is run.

    Attributes
    ----------
    seeds : int
        Runs of each case: other test images, parties, liars and models.
    rounds : int
        Of each run.
    norm : float
        The bound with which protocols are compared.
    norms : tuple of float
        All bounds, of ``pss-malicious``.
    """

    seeds: int
    rounds: int
    norm: float
    norms: tuple[float, ...]


FULL = Sizes(seeds=3, rounds=20, norm=2.0, norms=(4.0, 2.0, 1.0, 0.5))
QUICK = Sizes(seeds=1, rounds=2, norm=2.0, norms=(2.0, 1.0))


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes
    ----------
    protocol, attack : str
        Of ``PROTOCOLS`` and ``ATTACKS``.
    max_norm : float
        Bound of the L2 norm of an update.
    """

    protocol: str
    attack: str
    max_norm: float


@dataclass(frozen=True)
class Round:
    """One round of a training.

    Attributes
    ----------
    accuracy : float
        Of the new model on the test images.
    digit : float
        The same on the images of the digit that liars may be after.
    honest : float
        Norm of the mean of the honest parties' updates.
    moved : float
        Norm of the difference between the mean and that one; rounding adds to it.
    cut : int
        Honest updates that were longer than the bound.
    left_out : tuple of str
        The tests by which parties were found to lie.
    up_bytes : int
        Bytes that a party sends.
    """

    accuracy: float
    digit: float
    honest: float
    moved: float
    cut: int
    left_out: tuple[str, ...]
    up_bytes: int


Results = dict[Case, list[list[Round]]]
"""Rounds of each seed."""


def cases(sizes: Sizes) -> list[Case]:
    """All protocols with one bound, and the others with the protocol that has bounds."""
    found = [Case(protocol, attack, sizes.norm) for protocol in PROTOCOLS for attack in ATTACKS]
    others = [norm for norm in sizes.norms if norm != sizes.norm]
    return found + [Case(BOUNDED, attack, norm) for norm in others for attack in (NONE, INSIDE, DIGIT)]


def train(case: Case, seed: int, rounds: int) -> list[Round]:
    """Train, and see how good the model is after each round."""
    federation = federated.federation(SPLIT, seed)
    bad = trials.attackers(LIARS, seed)
    dealt = zip(federation.parts, bad, strict=True)
    parts = [_mislabelled(part) if lies and case.attack == DIGIT else part for part, lies in dealt]
    trainer = federated.Trainer(parts, seed)
    model = network.initial_model(seed)
    images, labels = federation.test.images, federation.test.labels
    ours = labels == FROM
    found = []
    for number in range(rounds):
        updates = trainer.updates(model, number).astype(np.float64)
        sent = vectors(case, updates, bad)
        result = aggregate(case, sent, bad, seed, number)
        mean = _mean(result)
        model = (model + mean).astype(np.float32)
        honest = sent[~bad].mean(axis=0)
        found.append(
            Round(
                accuracy=network.accuracy(model, images, labels),
                digit=network.accuracy(model, images[ours], labels[ours]),
                honest=float(np.linalg.norm(honest)),
                moved=float(np.linalg.norm(mean - honest)),
                cut=int((np.linalg.norm(updates[~bad], axis=1) > reach(case.max_norm)).sum()),
                left_out=tuple(one.test for one in result.excluded),
                up_bytes=result.up_bytes_per_party,
            )
        )
    return found


def _mislabelled(part: Examples) -> Examples:
    return Examples(part.images, np.where(part.labels == FROM, TO, part.labels))


# What is sent.


def reach(max_norm: float) -> float:
    """The norm of an update that an encoder takes as it is, where the bound is ``max_norm``."""
    most: float = (max_norm - ROUNDING) * (1 - 1e-6)
    return most


def vectors(case: Case, updates: Vectors, bad: Flags) -> Vectors:
    """What all send, before it is rounded, shape ``(n, D)``; ``bad`` says who lies."""
    most = reach(case.max_norm)
    sent: Vectors = updates * np.minimum(1, most / np.linalg.norm(updates, axis=1, keepdims=True))
    together = updates[bad].mean(axis=0)
    if case.attack == BEYOND:
        sent[bad] = -BOOST * together
    elif case.attack == INSIDE:
        sent[bad] = -together * (most / np.linalg.norm(together))
    elif case.attack == DIGIT:
        sent[bad] = updates[bad] * (most / np.linalg.norm(updates[bad], axis=1, keepdims=True))
    return sent


# The round.


def job(protocol: str, max_norm: float, dim: int = network.DIM) -> bs.JobSpec:
    """The job; only one protocol has the bound."""
    bound = max_norm if protocol == BOUNDED else 0.0
    encoding = bs.Quantised(bits=BITS, clip=CLIP, max_norm=bound)
    return bs.JobSpec(protocol=protocol, parties=PARTIES, dim=dim, corrupt=CORRUPT, encoding=encoding)


def aggregate(case: Case, sent: Vectors, bad: Flags, seed: int, number: int) -> bs.SimulationResult:
    """Add up what is sent in a simulated round."""
    seed = 1000 * seed + number
    ranks = liars(seed)
    placed = np.empty_like(sent)
    placed[list(ranks)] = sent[bad]
    placed[[rank for rank in range(PARTIES) if rank not in ranks]] = sent[~bad]
    spec = job(case.protocol, case.max_norm)
    found: tuple[int, ...] = ()
    if case.protocol == BOUNDED and case.attack == BEYOND:
        found = ranks
        result = bs.simulate(
            spec, placed, malicious=LIARS, misbehaviour=LIES[number % len(LIES)], seed=seed, threads=THREADS
        )
    else:
        result = bs.simulate(spec, placed, seed=seed, threads=THREADS)
    named = tuple(sorted(one.party for one in result.excluded))
    if not result.exact or result.survivor_count != PARTIES - len(found) or named != found:
        raise RuntimeError(f"{case}, round {number}: {result}")
    return result


@cache
def liars(seed: int) -> tuple[int, ...]:
    """The ranks of those that a simulation with this seed makes lie."""
    result = bs.simulate(job(BOUNDED, 0.0, dim=1), malicious=LIARS, misbehaviour="out-of-bound", seed=seed)
    return tuple(sorted(one.party for one in result.excluded))


def _mean(result: bs.SimulationResult) -> Vectors:
    if result.mean is None:
        raise RuntimeError(f"no mean: {result.fault}")
    return result.mean


# What came of it.


def per_round(runs: Iterable[list[Round]], what: str) -> list[float]:
    """The mean over seeds of a quantity, for each round."""
    return [statistics.fmean(getattr(one, what) for one in of_round) for of_round in zip(*runs, strict=True)]


def last(runs: Iterable[list[Round]], what: str) -> tuple[float, float]:
    """Mean and standard deviation over seeds of a quantity, each the mean over its last rounds."""
    return _over_seeds(_late(runs, what))


def lost(calm: Iterable[list[Round]], hit: Iterable[list[Round]], what: str) -> tuple[float, float]:
    """The same of what is lost under attack, by the same seeds."""
    pairs = zip(_late(calm, what), _late(hit, what), strict=True)
    return _over_seeds([before - after for before, after in pairs])


def _late(runs: Iterable[list[Round]], what: str) -> list[float]:
    return [statistics.fmean(getattr(one, what) for one in run[-trials.AFTER :]) for run in runs]


def _over_seeds(values: list[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
