"""Rounds of `privacy_audit`: what is released, what each party's noise was, and canaries in it.

A simulated party draws its noise from the seed of the simulation, its rank and the round, whoever else is
lost. So the difference of two sums, with a party and without it, is what that party sent. Auditors know
the noise of corrupt parties from that, as corrupt parties would, and take it away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import blindsum as bs
from blindsum.training.contribution import TrainingTurn
from experiments import restarted
from experiments.canaries import Coins, Floats, Guesses, Spread, guess, lower_bound, spread

CLIP = 1.0
DELTA = 1e-5
BITS = 14
CORRUPT, DROPOUT = 0.1, 0.2
LATE = 1e6
"""Seconds after which an update is too late."""

Send = Callable[[int, int], Floats]
"""What a party sends, from its rank and the round, counted from 0."""


def job(protocol: str, multiplier: float, parties: int, dim: int, **changes: Any) -> bs.JobSpec:
    """A job of which every model is the mean of its round."""
    fields: dict[str, Any] = {
        "protocol": protocol,
        "parties": parties,
        "dim": dim,
        "rounds": 0,
        "adversary": "semi-honest",
        "corrupt": CORRUPT,
        "dropout": DROPOUT,
        "model_update": "replace",
        "initial": "zeros",
        "encoding": bs.Quantised(bits=BITS, clip=CLIP, clipping="l2"),
        "privacy": bs.DiscreteGaussian(noise_multiplier=multiplier, delta=DELTA),
    }
    return bs.JobSpec(**fields | changes)


def claim(spec: bs.JobSpec, releases: int = 1) -> bs.PrivacyClaim:
    """What a job with noise claims."""
    found = spec.privacy_after(releases)
    if found is None:
        raise ValueError(f"{spec.protocol.name}: the job has no noise")
    return found


def claimed_deviation(spec: bs.JobSpec) -> float:
    """The standard deviation that the noise of the honest survivors of a sum has at least, by the claim."""
    said = claim(spec)
    return said.noise_multiplier * said.growth * said.clip


@dataclass(frozen=True)
class Released:
    """The sum of a round.

    Attributes
    ----------
    survivors : tuple of int
        The ranks of those whose updates are in it.
    total : numpy.ndarray
        The sum, noise included, shape ``(dim,)``.
    """

    survivors: tuple[int, ...]
    total: Floats


def released(
    spec: bs.JobSpec, rounds: int, seed: int, send: Send, lost: Collection[int] = (), **losses: Any
) -> list[Released]:
    """Run rounds of the job.

    Parameters
    ----------
    spec
        The job.
    rounds, seed
        Rounds, and the seed of all random numbers.
    send
        What parties send.
    lost
        Ranks of those whose updates come too late.
    losses
        Further losses: ``drop_at``, as for `blindsum.simulate_training`.

    Raises
    ------
    ArithmeticError
        A round has no sum.
    """
    means: list[Floats] = []
    ranks: dict[str, int] = {}

    def step(_model: Any, rank: int, turn: TrainingTurn) -> Floats:
        ranks[turn.party] = rank
        return send(rank, len(means))

    def keep(model: Any) -> dict[str, float]:
        means.append(np.array(model, np.float64))
        return {}

    record = bs.simulate_training(
        spec,
        step,
        range(spec.parties),
        rounds=rounds,
        seed=seed,
        evaluate=keep,
        compute=lambda rank, _number: LATE if rank in lost else 0.0,
        **losses,
    )
    found = []
    for one, mean in zip(record.rounds, means, strict=True):
        if one.outcome != "sum":
            raise ArithmeticError(f"{spec.protocol.name}, round {one.number}: {one.fault}")
        survivors = tuple(ranks[name] for name in one.survivors)
        found.append(Released(survivors, mean * len(survivors)))
    return found


def shares(spec: bs.JobSpec, rounds: int, seed: int, ranks: Sequence[int]) -> Floats:
    """The noise of some parties in rounds of a seed, shape ``(rounds, ranks, dim)``.

    Raises
    ------
    ArithmeticError
        A round has other survivors than it should.
    """

    def nothing(_rank: int, _number: int) -> Floats:
        return np.zeros(spec.dim)

    def totals(lost: Collection[int]) -> Floats:
        found = released(spec, rounds, seed, nothing, lost)
        wanted = tuple(rank for rank in range(spec.parties) if rank not in lost)
        if any(one.survivors != wanted for one in found):
            raise ArithmeticError(f"{spec.protocol.name}: another party than {tuple(lost)} was lost")
        return np.array([one.total for one in found])

    whole = totals(())
    return np.stack([whole - totals((rank,)) for rank in ranks], axis=1)


# Canaries.


@dataclass(frozen=True)
class Attack:
    """An audit: what is claimed, what was run, and what the auditors know.

    Attributes
    ----------
    protocol : str
        With which protocol.
    multiplier : float
        The noise multiplier of the claim.
    releases : int
        Rounds that each canary takes part in, with the same update.
    weaker : int
        The job that was run has a multiplier so many times smaller than that of the claim; 1 is honest.
    others_known : bool
        Whether the noise of all other parties is known, and not of the corrupt ones alone.
    """

    protocol: str
    multiplier: float
    releases: int = 1
    weaker: int = 1
    others_known: bool = False

    @property
    def is_honest(self) -> bool:
        """Whether the run is what the claim is about."""
        return self.weaker == 1 and not self.others_known


@dataclass(frozen=True)
class Audit:
    """What came of an attack.

    Attributes
    ----------
    epsilon : float
        The claim.
    epsilon_alone : float or None
        The claim against those who know all noise but one's own.
    guesses : Guesses
        What was guessed.
    """

    attack: Attack
    epsilon: float
    epsilon_alone: float | None
    guesses: Guesses

    @cached_property
    def bound(self) -> float:
        """The lower bound of ε, with a confidence of 95 %."""
        return lower_bound(self.guesses, DELTA)


GUESSED = 5
"""One of so many canaries is guessed."""


def audit(attack: Attack, parties: int, groups: int, seed: int) -> Audit:
    """Attack a job with canaries: updates of the largest norm, each on a coordinate of its own, or 0.

    The fewest survivors are left, and the corrupt ones among them take their noise away.

    Parameters
    ----------
    attack
        The attack.
    parties, groups
        Parties of the job, and how often it is run: each time all honest survivors are canaries.
    seed
        Of coins and noise.
    """
    spec = job(attack.protocol, attack.multiplier / attack.weaker, parties, parties)
    said = claim(job(attack.protocol, attack.multiplier, parties, parties), attack.releases)
    corrupt = range(spec.quorum - said.honest)
    canaries = range(len(corrupt), spec.quorum)
    coins: Coins = np.random.default_rng([seed, 1]).random((groups, parties)) < 0.5
    rounds = groups * attack.releases

    def send(rank: int, number: int) -> Floats:
        update = np.zeros(parties)
        if rank in canaries and coins[number // attack.releases, rank]:
            update[rank] = CLIP
        return update

    found = released(spec, rounds, seed, send, lost=range(spec.quorum, parties))
    totals = np.array([one.total for one in found])
    known = shares(spec, rounds, seed, range(spec.quorum) if attack.others_known else corrupt)
    seen = np.empty((rounds, len(canaries)))
    for place, rank in enumerate(canaries):
        taken = known[:, :, rank].sum(axis=1)
        own = known[:, rank, rank] if attack.others_known else 0.0
        seen[:, place] = totals[:, rank] - taken + own
    scores = seen.reshape(groups, attack.releases, -1).sum(axis=1).ravel()
    guesses = guess(scores, coins[:, canaries].ravel(), len(scores) // GUESSED)
    return Audit(attack, said.epsilon, said.epsilon_alone, guesses)


# Variances.


@dataclass(frozen=True)
class Left:
    """Noise that nobody knows, against what the claim counts on.

    Attributes
    ----------
    protocol : str
        With which protocol.
    event : str
        Where parties are lost, or what else goes wrong.
    survivors : int
        Updates in a sum.
    known : int
        Survivors whose noise was taken away.
    counted : int
        Shares of noise that the variance is compared with.
    spread : Spread
        The noise that is left.
    """

    protocol: str
    event: str
    survivors: int
    known: int
    counted: int
    spread: Spread


NOBODY = "nobody"
"""Is lost."""
LEAST_P = 1e-4
"""A variance that is as small as this p says, or smaller, is taken for less than it should be."""


def compared(spec: bs.JobSpec, event: str, survivors: int, known: int, noise: Any) -> Left:
    """Compare noise with that of the honest survivors, or of all the fewest if none was taken away."""
    honest = claim(spec).honest
    counted = honest if known else spec.quorum
    deviation = claimed_deviation(spec) * math.sqrt(counted / honest)
    return Left(spec.protocol.name, event, survivors, known, counted, spread(noise, deviation))


def losses(spec: bs.JobSpec, rounds: int, seed: int, takes: bool = True, more: int = 0) -> list[Left]:
    """Lose as many parties as may be lost, in each stage in turn, and measure the noise that nobody knows.

    Parameters
    ----------
    spec
        The job.
    rounds, seed
        Rounds for each stage, which have other noise than those of other stages.
    takes
        Whether the noise of the corrupt parties is taken away.
    more
        So many parties more than the job says work together.
    """
    known = spec.quorum - claim(spec).honest + more if takes else 0

    def nothing(_rank: int, _number: int) -> Floats:
        return np.zeros(spec.dim)

    found = []
    for place, stage in enumerate((NOBODY, *dict.fromkeys(spec.stages))):
        own = 1000 * seed + place
        drop_at = {} if stage == NOBODY else {stage: spec.parties - spec.quorum}
        sums = released(spec, rounds, own, nothing, drop_at=drop_at)
        left = [one.total for one in sums]
        if known:
            # Others are lost in each round.
            ranks = sorted({rank for one in sums for rank in one.survivors[:known]})
            noise = dict(zip(ranks, shares(spec, rounds, own, ranks).swapaxes(0, 1), strict=True))
            for number, one in enumerate(sums):
                left[number] = one.total - sum(noise[rank][number] for rank in one.survivors[:known])
        found.append(compared(spec, stage, len(sums[0].survivors), known, left))
    return found


def restarts(spec: bs.JobSpec) -> Left:
    """The same of a job whose coordinator is replaced in every round; its parties have noise of their own.

    Nobody's noise can be taken away here: seeds are those of the system.
    """
    totals = restarted.totals(spec, lost=range(spec.quorum, spec.parties))
    return compared(spec, "coordinator replaced", spec.quorum, 0, totals)
