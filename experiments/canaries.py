"""Lower bounds of ε from one run with canaries, and tests of a variance.

Source: T. Steinke, M. Nasr and M. Jagielski, "Privacy auditing with one (1) training run", 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Coins = NDArray[np.bool_]


@dataclass(frozen=True)
class Guesses:
    """What was guessed of canaries.

    Attributes
    ----------
    canaries : int
        Canaries, each of which was in the run by a fair coin.
    made : int
        Guesses: whether a canary was in the run. There is none of the others.
    right : int
        Guesses that were right.
    """

    canaries: int
    made: int
    right: int


def guess(scores: Floats, coins: Coins, made: int) -> Guesses:
    """Guess that the canaries of the highest scores were in the run, and those of the lowest were not.

    Parameters
    ----------
    scores
        What the run shows of each canary, shape ``(canaries,)``.
    coins
        Which ones were in the run, of the same shape.
    made
        Guesses: half of them of the highest scores. It is chosen before the run.
    """
    order = np.argsort(scores, kind="stable")
    low, high = order[: made // 2], order[len(order) - made // 2 :]
    right = int((~coins[low]).sum() + coins[high].sum())
    return Guesses(len(scores), 2 * (made // 2), right)


def p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """The largest probability of so many right guesses, or more, in a run with (ε, δ).

    A guess in a run with (ε, 0) is right with a probability of e^ε / (1 + e^ε) at most, whatever the others
    are. δ adds what theorem 5.2 of the source adds for it.
    """
    from scipy import stats

    chance = 1 / (1 + math.exp(-epsilon))
    at_least = float(stats.binom.sf(guesses.right - 1, guesses.made, chance))
    fewer = np.arange(1, guesses.right + 1)
    within = np.cumsum(stats.binom.pmf(guesses.right - fewer, guesses.made, chance))
    most = float((within / fewer).max(initial=0.0))
    return min(1.0, at_least + 2 * guesses.canaries * delta * most)


def lower_bound(guesses: Guesses, delta: float, confidence: float = 0.95) -> float:
    """The largest ε that the guesses refute, with this confidence; 0 if they refute none."""
    level = 1 - confidence
    if p_value(guesses, 0.0, delta) > level:
        return 0.0
    low, high = 0.0, 64.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(guesses, middle, delta) <= level else (low, middle)
    return low


@dataclass(frozen=True)
class Spread:
    """The variance of noise against the one that is claimed.

    Attributes
    ----------
    numbers : int
        Numbers of noise.
    ratio : float
        Their mean square by the variance that is claimed.
    p : float
        How likely so small a ratio is, or a smaller one, if the variance is the one that is claimed
        (chi-square, one-sided).
    """

    numbers: int
    ratio: float
    p: float


def spread(noise: Any, deviation: float) -> Spread:
    """Compare noise with a standard deviation; its mean is known to be 0."""
    from scipy import stats

    values = np.asarray(noise, np.float64).ravel() / deviation
    total = float(values @ values)
    return Spread(len(values), total / len(values), float(stats.chi2.cdf(total, len(values))))
