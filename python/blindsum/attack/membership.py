"""Membership inference on a sum, which asks whether the data of a party is in it.

A game has many trials. In each one a party with one image takes part with others, or takes part with an
update of 0. An attacker who knows the model and that image sees the mean that the job releases, and gives a
score for how much of the party's update is in the mean. The noise of a job with ``adjacency = "zero-out"``
bounds the success of every such attacker. Shokri et al. 2017 ask the same of records and trained models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.attack.inversion import Floats, one_thread
from blindsum.demo import network
from blindsum.demo.digits import Examples
from blindsum.options import DiscreteGaussian, Quantised
from blindsum.privacy_claim import PrivacyClaim
from blindsum.simulation import simulate
from blindsum.spec import JobSpec

CLIP = 1.0
"""The norm that updates are clipped to. Those of one image are nearly all longer."""

DELTA = 1e-5
"""δ of the job with noise."""

RATES = (0.01, 0.05)
"""False-positive rates at which true positives are counted."""

CONFIDENCE = 0.95
"""Of every interval."""

WORKERS = 2
"""Rounds that are simulated side by side."""

OUTSIDER, INSIDER = "knows the image", "knows all else"
"""The attackers: the second one also knows the updates of all other parties, but not their noise."""

NORMAL = NormalDist()


@dataclass(frozen=True)
class Rate:
    """How many parties are recognised at a rate of false alarms.

    Attributes
    ----------
    false : float
        The fraction of absent parties that the attacker takes for present, at most, in these trials.
    false_high : float
        The same in all trials to come: the upper end of an interval, from the rank of the threshold.
    true, low, high : float
        The fraction of present parties that it recognises, and an interval for it (Wilson 1927).
    allowed : float or None
        The most that ε and δ of the job allow any attacker at ``false``; ``None`` without noise.
    gaussian : float or None
        The most that the noise allows at ``false``, by its trade-off curve (Dong, Roth and Su 2022).
    gaussian_high : float or None
        The same at ``false_high``: ``low`` is above it once in 20 games at most.
    """

    false: float
    false_high: float
    true: float
    low: float
    high: float
    allowed: float | None
    gaussian: float | None
    gaussian_high: float | None


@dataclass(frozen=True)
class Game:
    """What an attacker achieved in many trials.

    Attributes
    ----------
    parties : int
        How many are in the sum.
    multiplier : float
        ``noise_multiplier`` of the job; 0 for a job without noise.
    attacker : str
        What it knows: :data:`OUTSIDER` or :data:`INSIDER`.
    trials : int
        Rounds with the party, and as many without it.
    auc, low, high : float
        The chance that a round with the party has a higher score than one without it, and an interval for it
        (DeLong et al. 1988).
    gaussian : float or None
        The largest such chance that the noise of the honest survivors allows; ``None`` without noise.
    expected : float or None
        The same for the noise of all parties, which is in the sum if none is corrupt or lost.
    epsilon : float or None
        ε of one round.
    rates : tuple of Rate
        At the rates of :data:`RATES`.
    """

    parties: int
    multiplier: float
    attacker: str
    trials: int
    auc: float
    low: float
    high: float
    gaussian: float | None
    expected: float | None
    epsilon: float | None
    rates: tuple[Rate, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)


def job(parties: int, multiplier: float) -> JobSpec:
    """The job of a game: ``secagg``, with noise by a multiplier above 0."""
    noise = {"privacy": DiscreteGaussian(noise_multiplier=multiplier, delta=DELTA)} if multiplier else {}
    return JobSpec(
        protocol="secagg",
        parties=parties,
        dim=network.DIM,
        rounds=1,
        dropout=0.0,
        adversary="semi-honest",
        encoding=Quantised(bits=16, clip=CLIP, clipping="l2"),
        **noise,  # type: ignore[arg-type]
    )


def play(
    data: Examples,
    parties: int,
    multiplier: float,
    trials: int,
    seed: int,
    progress: Callable[[float], object] | None = None,
) -> list[Game]:
    """Play one game, and give the result of each attacker.

    Parameters
    ----------
    data
        Where the parties' images come from.
    parties, multiplier
        As in :class:`Game`.
    trials
        Rounds with the party, and as many without it.
    seed
        Of images, models, rounding and noise.
    progress
        Called with the fraction that is done.
    """
    spec = job(parties, multiplier)
    scores = np.zeros((2, 2, trials))
    with one_thread(), ThreadPoolExecutor(WORKERS) as pool:
        turns = [(trial, present) for trial in range(trials) for present in (0, 1)]
        found = pool.map(lambda turn: _round(spec, data, [seed, parties, *turn]), turns)
        for count, ((trial, present), score) in enumerate(zip(turns, found, strict=True), 1):
            scores[:, present, trial] = score
            if progress is not None:
                progress(count / len(turns))
    claim = spec.privacy_after(1)
    return [
        _game(parties, multiplier, attacker, scores[place], claim)
        for place, attacker in enumerate((OUTSIDER, INSIDER))
    ]


def _round(spec: JobSpec, data: Examples, seeds: list[int]) -> tuple[float, float]:
    """The scores of both attackers in one round; the last of the seeds says whether the party adds itself."""
    rng = np.random.default_rng(seeds)
    model = network.initial_model(int(rng.integers(2**31)))
    places = rng.choice(len(data), spec.parties, replace=False)
    updates = np.stack([_update(model, data, place) for place in places])
    own = updates[0].astype(np.float64)
    own /= np.linalg.norm(own)
    if not seeds[-1]:
        updates[0] = 0
    result = simulate(spec, updates, seed=int(rng.integers(2**31)))
    assert result.mean is not None
    others = sum((clipped(update) for update in updates[1:]), np.zeros(spec.dim))
    total = np.asarray(result.mean, np.float64) * spec.parties
    return float(total @ own), float((total - others) @ own)


def _update(model: NDArray[np.float32], data: Examples, place: int) -> NDArray[np.float32]:
    one = slice(place, place + 1)
    step = np.float32(-network.LEARNING_RATE)
    return step * network.gradient(model, data.images[one], data.labels[one])


def clipped(update: NDArray[np.float32]) -> Floats:
    """An update with a norm of at most :data:`CLIP`."""
    wide = update.astype(np.float64)
    return wide * min(1.0, CLIP / float(np.linalg.norm(wide)))


def _game(parties: int, multiplier: float, attacker: str, scores: Floats, claim: PrivacyClaim | None) -> Game:
    absent, present = scores
    auc, low, high = area(absent, present)
    gaussian = expected = epsilon = None
    if claim is not None:
        gaussian = gaussian_area(1 / claim.noise_multiplier)
        # All noise is in the sum. The claim counts on that of the honest ones, or of one of three components.
        counted = claim.honest / parties if claim.honest else 1 / 3
        expected = gaussian_area(math.sqrt(counted) / claim.noise_multiplier)
        epsilon = claim.epsilon
    rates = tuple(_rates(absent, present, claim))
    return Game(
        parties, multiplier, attacker, len(absent), auc, low, high, gaussian, expected, epsilon, rates
    )


def area(absent: Floats, present: Floats) -> tuple[float, float, float]:
    """The area under the curve of true over false positives, and an interval for it.

    Parameters
    ----------
    absent, present
        The scores of rounds without and with the party.
    """
    above = (present[:, np.newaxis] > absent) + 0.5 * (present[:, np.newaxis] == absent)
    auc = float(above.mean())
    variance = above.mean(axis=1).var(ddof=1) / len(present) + above.mean(axis=0).var(ddof=1) / len(absent)
    reach = _quantile() * math.sqrt(variance)
    return auc, max(0.0, auc - reach), min(1.0, auc + reach)


def _rates(absent: Floats, present: Floats, claim: PrivacyClaim | None) -> Iterator[Rate]:
    from scipy.stats import beta

    for false in RATES:
        # So many of the absent ones may be above the threshold. The part of all that is above it is
        # distributed as the order statistic of a uniform number is.
        count = int(false * len(absent) + 1e-9)
        threshold = np.sort(absent)[::-1][count]
        false_high = float(beta.ppf((1 + CONFIDENCE) / 2, count + 1, len(absent) - count))
        hits = int((present > threshold).sum())
        low, high = wilson(hits, len(present))
        allowed = gaussian = gaussian_high = None
        if claim is not None:
            allowed = most_by_epsilon(claim.epsilon, claim.delta, false)
            gaussian = most_by_noise(claim.noise_multiplier, false)
            gaussian_high = most_by_noise(claim.noise_multiplier, false_high)
        yield Rate(false, false_high, hits / len(present), low, high, allowed, gaussian, gaussian_high)


def most_by_noise(multiplier: float, false: float) -> float:
    """The largest rate of true positives that Gaussian noise allows at a rate of false ones."""
    return NORMAL.cdf(NORMAL.inv_cdf(false) + 1 / multiplier)


def most_by_epsilon(epsilon: float, delta: float, false: float) -> float:
    """The largest rate of true positives that ε and δ allow at a rate of false ones (Kairouz et al. 2015)."""
    return min(math.exp(epsilon) * false + delta, 1 - math.exp(-epsilon) * (1 - delta - false), 1.0)


def gaussian_area(mu: float) -> float:
    """The area under the trade-off curve of two Gaussian distributions, ``mu`` deviations apart."""
    return NORMAL.cdf(mu / math.sqrt(2))


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """An interval for the chance of a hit (Wilson 1927)."""
    z = _quantile()
    rate, share = hits / trials, z**2 / trials
    middle = (rate + share / 2) / (1 + share)
    reach = z * math.sqrt(rate * (1 - rate) / trials + share / (4 * trials)) / (1 + share)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _quantile() -> float:
    return NORMAL.inv_cdf((1 + CONFIDENCE) / 2)
