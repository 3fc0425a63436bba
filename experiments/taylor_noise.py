"""Gaussian noise from a Taylor series, as in a thesis on three servers, against the true and an exact one.

    python -m experiments.taylor_noise [--quick] [--out FOLDER]

The thesis of B. Akhtar (Virginia Tech, 2024, §2.4.1 and §4.6) makes Gaussian noise inside a computation of
several servers: a uniform number goes through the inverse of the Gaussian's cumulative distribution, which
is replaced by the first terms of its Taylor series. It does not say how many terms. Here the series is
evaluated in floating point; an exact sampler of the discrete Gaussian, after Canonne, Kamath and Steinke
(2020), stands beside it.
"""

from __future__ import annotations

import math
import random
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from benches.rows import number
from experiments import output

DEGREES = (5, 9, 21, 51, 101, 401)
SIGMAS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5)
MULTIPLIERS = (1, 2, 4)
SCALE = 100
UNIFORM_BITS = 16

THESIS_SIGMAS = (2, 4)
THESIS_RATE, THESIS_EPOCHS, THESIS_DELTA = 0.1, 10, 1e-5
THESIS_RELEASES = round(THESIS_EPOCHS / THESIS_RATE)
TERMS = (10, 50)
"""Of the series; the thesis does not say how many it has."""

Floats = NDArray[np.float64]


# The Taylor series.


@cache
def coefficients(degree: int) -> tuple[float, ...]:
    """Of z, z³, z⁵, … up to the degree, in √2 · erf⁻¹(z) around 0."""
    terms = [1.0]
    while 2 * len(terms) - 1 < degree:
        k = len(terms)
        terms.append(sum(terms[m] * terms[k - 1 - m] / ((m + 1) * (2 * m + 1)) for m in range(k)))
    half = math.sqrt(math.pi) / 2
    return tuple(math.sqrt(2) * term * half ** (2 * k + 1) / (2 * k + 1) for k, term in enumerate(terms))


def series(u: Floats, degree: int) -> Floats:
    """The inverse of the cumulative distribution at u, from 0 to 1, by the series around ½."""
    z = 2 * u - 1
    value = np.zeros_like(z)
    for coefficient in reversed(coefficients(degree)):
        value = value * z * z + coefficient
    return value * z


def largest(degree: int) -> float:
    """The largest value that the series gives, in standard deviations of the Gaussian that is wanted."""
    return math.fsum(coefficients(degree))


def deviation(degree: int) -> float:
    """The standard deviation that the series gives, where 1 is wanted."""
    terms = list(enumerate(coefficients(degree)))
    return math.sqrt(math.fsum(a * b / (2 * i + 2 * j + 3) for i, a in terms for j, b in terms))


def series_tail(t: float, degree: int) -> float:
    """The probability of an absolute value above t: the series grows with z, so that one z belongs to t."""
    if t >= largest(degree):
        return 0.0
    low, high = 0.0, 1.0
    while high - low > 1e-15:
        z = (low + high) / 2
        value = float(series(np.array([(1 + z) / 2]), degree)[0])
        low, high = (z, high) if value < t else (low, z)
    return 1 - low


# The Gaussian.


def gaussian_tail(t: float) -> float:
    """The probability of an absolute value above t."""
    return math.erfc(t / math.sqrt(2))


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """The least δ of the Gaussian mechanism with noise of so many sensitivities (Balle and Wang 2018)."""
    half = 1 / (2 * multiplier)
    return below(half - epsilon * multiplier) - math.exp(epsilon) * below(-half - epsilon * multiplier)


def below(x: float) -> float:
    """The probability of a value below x, also where it is far below 0."""
    return math.erfc(-x / math.sqrt(2)) / 2


# ε of many releases.


def formula(sigma: float, rate: float, epochs: int, delta: float) -> float:
    """Formula 5.1 of the thesis."""
    return rate * math.sqrt(2 * math.log(1.25 / delta)) / sigma * math.sqrt(epochs)


def composed(sigma: float, releases: int, delta: float) -> float:
    """The least ε of so many releases with noise of sigma sensitivities: they are one, of less noise."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, sigma / math.sqrt(releases)) > delta:
        high *= 2
    while high - low > 1e-9:
        middle = (low + high) / 2
        above = gaussian_delta(middle, sigma / math.sqrt(releases)) > delta
        low, high = (middle, high) if above else (low, middle)
    return high


def amplified(sigma: float, rate: float, releases: int, delta: float) -> float:
    """ε where each record is in a release by a secret coin of this rate, by Rényi divergences.

    Sources: Mironov, Talwar and Zhang 2019 for the divergence of whole orders; Canonne, Kamath and Steinke
    2020 for ε.
    """
    found = math.inf
    # Orders beyond these are those of ε far below 1.
    for order in range(2, 33):
        terms = [
            math.comb(order, k) * (1 - rate) ** (order - k) * rate**k * math.exp(k * (k - 1) / (2 * sigma**2))
            for k in range(order + 1)
        ]
        divergence = releases * math.log(math.fsum(terms)) / (order - 1)
        rest = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        found = min(found, divergence + rest)
    return found


# The discrete Gaussian, exactly.


class DiscreteGaussian:
    """Whole numbers x with probabilities proportional to exp(-x² / 2 variance).

    Fair bits and whole numbers are all it takes; nothing is rounded.

    Parameters
    ----------
    variance
        Of the Gaussian, a fraction.
    bits
        Gives so many fair bits as a whole number.
    """

    def __init__(self, variance: Fraction, bits: Callable[[int], int]) -> None:
        self._variance = variance
        self._bits = bits
        self._width = math.isqrt(variance.numerator // variance.denominator) + 1

    def draw(self) -> int:
        """A discrete Laplace variable, taken with the probability that makes it a Gaussian one."""
        while True:
            x = self._laplace()
            beyond = abs(x) - self._variance / self._width
            if self._is_exp(beyond * beyond / (2 * self._variance)):
                return x

    def _laplace(self) -> int:
        """A number with probability proportional to exp(-|x| / width)."""
        while True:
            rest = self._below(self._width)
            if not self._is_exp(Fraction(rest, self._width)):
                continue
            x = rest
            while self._is_exp(Fraction(1)):
                x += self._width
            if not self._bits(1):
                return x
            # Otherwise 0 would count twice.
            if x:
                return -x

    def _is_exp(self, exponent: Fraction) -> bool:
        """True with probability exp(-exponent)."""
        while exponent > 1:
            if not self._is_exp(Fraction(1)):
                return False
            exponent -= 1
        # The first k trials, with the chances exponent / 1, exponent / 2, …, all succeed with probability
        # exponent^k / k!. So the number of successes is even with the alternating sum of these.
        successes = 0
        while self._below(exponent.denominator * (successes + 1)) < exponent.numerator:
            successes += 1
        return successes % 2 == 0

    def _below(self, bound: int) -> int:
        """A whole number below the bound; all are equally likely."""
        while True:
            x = self._bits(bound.bit_length())
            if x < bound:
                return x


def discrete_tail(t: float, sigma: int) -> float:
    """The probability of an absolute value above t deviations."""
    weights = [math.exp(-x * x / (2 * sigma * sigma)) for x in range(40 * sigma)]
    return 2 * math.fsum(weights[math.floor(t * sigma) + 1 :]) / (2 * math.fsum(weights) - 1)


# What is found.


@dataclass(frozen=True)
class Tails:
    """How often absolute values are above each of some thresholds.

    Attributes
    ----------
    name : str
        The sampler.
    exact : list of float
        The probabilities.
    counted : list of float
        The same among samples.
    """

    name: str
    exact: list[float]
    counted: list[float]


def tails(name: str, exact: Callable[[float], float], samples: Floats) -> Tails:
    """The tails of one sampler; samples are in standard deviations."""
    counted = [float(np.mean(np.abs(samples) > t)) for t in SIGMAS]
    return Tails(name, [exact(t) for t in SIGMAS], counted)


def all_tails(count: int) -> list[Tails]:
    """The tails of all samplers, of so many samples."""
    rng, coins = np.random.default_rng(1), random.Random(1)
    sampler = DiscreteGaussian(Fraction(SCALE * SCALE), coins.getrandbits)
    whole = np.array([sampler.draw() for _ in range(count)]) / SCALE
    found = [
        tails("Gaussian", gaussian_tail, rng.normal(size=count)),
        tails("discrete Gaussian", lambda t: discrete_tail(t, SCALE), whole),
    ]
    for degree in DEGREES:
        values = series(rng.random(count), degree)
        found.append(tails(f"degree {degree}", partial(series_tail, degree=degree), values))
    return found


def least_delta(degree: int, multiplier: float) -> float:
    """What δ is at least, for every ε, if the noise is the series times so many sensitivities.

    A value that is within one sensitivity of the largest one tells for certain which of two neighbouring
    sums the noise was added to: the other sum never gives it.
    """
    return series_tail(largest(degree) - 1 / multiplier, degree) / 2


def coarse_delta() -> float:
    """The same for the exact inverse of uniform numbers of 16 bits, and values of 16 bits behind the point.

    The noise has the deviation of one sensitivity, the values as many steps as there are uniform numbers.
    """
    steps: int = 2**UNIFORM_BITS
    inverse = NormalDist().inv_cdf
    values = [round(steps * inverse((place + 0.5) / steps)) for place in range(steps)]
    possible = set(values)
    return sum(value + steps not in possible for value in values) / steps


def plot(found: Sequence[Tails], path: Path) -> None:
    """Draw tails against thresholds, and the least δ against the degree."""
    drawn, axes = output.figure(2)
    thresholds = np.linspace(0, 5, 251)
    axes[0].plot(thresholds, [gaussian_tail(t) for t in thresholds], color="black", label="Gaussian")
    shown = found[1]
    seen = [(t, share) for t, share in zip(SIGMAS, shown.counted, strict=True) if share]
    axes[0].plot(
        *zip(*seen, strict=True), "o", color="black", markersize=4, label="discrete Gaussian, counted"
    )
    for degree in DEGREES:
        axes[0].plot(
            thresholds, [series_tail(t, degree) or None for t in thresholds], label=f"degree {degree}"
        )
    axes[0].set_yscale("log")
    axes[0].set_ylim(1e-7, 1.2)
    axes[0].set_xlabel("t, standard deviations")
    axes[0].set_ylabel("P(|noise| > t)")
    axes[0].legend(fontsize="x-small")
    for multiplier in MULTIPLIERS:
        line = [least_delta(degree, multiplier) for degree in DEGREES]
        axes[1].plot(DEGREES, line, marker="o", markersize=4, label=f"σ = {multiplier} sensitivities")
    axes[1].set_xscale("log")
    axes[1].set_yscale("log")
    axes[1].set_xlabel("degree of the series")
    axes[1].set_ylabel("least δ, for every ε")
    axes[1].legend(fontsize="small")
    output.save(drawn, path)


def farthest(found: Sequence[Tails], count: int) -> str:
    """Which counted share is farthest from its probability, and by how many standard errors."""
    off, name, t = max(
        (abs(share - p) / math.sqrt(p * (1 - p) / count), one.name, t)
        for one in found
        for t, p, share in zip(SIGMAS, one.exact, one.counted, strict=True)
        if p
    )
    return f"The counted share that is farthest off, by {off:.1f} standard errors, is {name} at t = {t:g}."


def tail_table(found: Sequence[Tails], count: int) -> str:
    """Exact probabilities, and counted ones behind them."""
    header = ["P(abs(noise) > t · σ), exact (counted)", *[f"t = {t:g}" for t in SIGMAS]]
    rows = []
    for one in found:
        pairs = zip(one.exact, one.counted, strict=True)
        rows.append([one.name, *[f"{number(p)} ({number(share)})" for p, share in pairs]])
    return "\n\n".join(
        [
            "## Tails",
            f"Each was sampled {count:,} times. The discrete Gaussian has σ = {SCALE}.\n"
            + farthest(found, count),
            output.table(header, rows),
        ]
    )


def delta_table() -> str:
    """What each degree can promise at most."""
    header = ["degree", "largest value, σ", "deviation, σ"]
    header += [f"least δ at σ = {multiplier} sensitivities" for multiplier in MULTIPLIERS]
    rows = []
    for degree in DEGREES:
        deltas = [number(least_delta(degree, multiplier)) for multiplier in MULTIPLIERS]
        rows.append([str(degree), f"{largest(degree):.2f}", f"{deviation(degree):.3f}", *deltas])
    # ε that are as bad as anybody would call private.
    gaussian = [number(gaussian_delta(5 / multiplier, multiplier)) for multiplier in MULTIPLIERS]
    rows.append(["Gaussian, at ε = 5, 2.5, 1.25", "∞", "1", *gaussian])
    return "\n\n".join(["## What it can promise", output.table(header, rows)])


def thesis_table() -> str:
    """What formula 5.1 says, what is true of Gaussian noise, and what is true of the series."""
    header = ["σ, sensitivities", "formula 5.1", "ε with a secret choice of records", "ε without"]
    header += [f"least δ of {terms} terms, {THESIS_RELEASES} releases, any ε" for terms in TERMS]
    rows = []
    for sigma in THESIS_SIGMAS:
        rates = [
            1 - (1 - THESIS_RATE * least_delta(2 * terms - 1, sigma)) ** THESIS_RELEASES for terms in TERMS
        ]
        rows.append(
            [
                f"{sigma:g}",
                f"{formula(sigma, THESIS_RATE, THESIS_EPOCHS, THESIS_DELTA):.2f}",
                f"{amplified(sigma, THESIS_RATE, THESIS_RELEASES, THESIS_DELTA):.2f}",
                f"{composed(sigma, THESIS_RELEASES, THESIS_DELTA):.2f}",
                *[number(rate) for rate in rates],
            ]
        )
    once = " and ".join(
        f"{least_delta(2 * terms - 1, 1):.2g} with {terms} terms, which give at most "
        f"{largest(2 * terms - 1):.2f} σ"
        for terms in TERMS
    )
    text = f"""
Formula 5.1 of the thesis takes ε from the share of the data in a batch, σ and the root of the epochs. Here
the share is {THESIS_RATE:g}, with {THESIS_EPOCHS} epochs, thus {THESIS_RELEASES} releases, and δ =
{THESIS_DELTA:g}. It is below the ε of true Gaussian noise in both readings: where the records of a batch
are chosen by secret coins (by Rényi divergences), and where the coordinator knows who is in a batch
(exactly). σ is in sensitivities: the thesis does not clip, so that its σ has no unit, and its noise no ε.
"""
    series = f"""
The series has no such guarantee at all. With σ of one sensitivity δ is at least {once}, whatever ε. The
last columns have the same for all releases, even with secret coins: the chance that one of them gives a
value that tells for certain.
"""
    return "\n\n".join(
        ["## What the thesis counts", output.filled(text), output.table(header, rows), output.filled(series)]
    )


def reading() -> str:
    """What the numbers say."""
    first, some, last = DEGREES[0], DEGREES[2], DEGREES[-1]
    most = NormalDist().inv_cdf(1 - 2.0 ** -(UNIFORM_BITS + 1))
    points = f"""
A polynomial of a number between 0 and 1 is bounded. The Gaussian is not. From degree {first} to {last} the
largest value grows from {largest(first):.2f} to {largest(last):.2f} standard deviations: the series
converges slowly near the ends, where the inverse has its poles.

Differential privacy with (ε, δ) compares two sums that differ by one party's update. A noisy value that
only one of the two sums can give tells for certain which one it was. The probability of such values is a
lower bound of δ for every ε, in each coordinate. With σ of one sensitivity and degree {some} that is
{number(least_delta(some, 1))}. Common claims are 10⁻⁵ and less, for all coordinates together. A true
Gaussian has no such values.

The noise is also weaker than it says: at degree {first} its standard deviation is {deviation(first):.3f} of
the one that is wanted. Accounting with formula 5.1 of the thesis, which takes the noise for Gaussian, sees
neither.

More terms do not help where numbers have 16 bits behind the point, as in the thesis. A uniform number of 16
bits has 65,536 values, so that even the exact inverse gives at most {most:.2f} standard deviations, and has
gaps between its values: with σ of one sensitivity, {coarse_delta():.0%} of the noise gives a sum that the
neighbouring sum cannot give.

The discrete Gaussian is sampled with whole numbers alone. Nothing in it is rounded, so that what is proved
about it holds for what the program adds. The counted tails above are those of its formula, up to chance.
"""
    lines = [" ".join(point.split()) for point in points.split("\n\n")]
    wrapped = [textwrap.fill(f"* {line}", 110, subsequent_indent="  ") for line in lines]
    return "\n".join(["## Why Blindsum does not offer it", "", *wrapped])


def main(words: Sequence[str] | None = None) -> None:
    """Sample, draw and write."""
    options = output.options(
        words, "taylor_noise", "Gaussian noise from a Taylor series, against an exact sampler."
    )
    count = 2_000 if options.quick else 200_000
    found = all_tails(count)
    rows = [
        {"sampler": one.name, "sigmas": t, "exact": exact, "counted": share, "samples": count}
        for one in found
        for t, exact, share in zip(SIGMAS, one.exact, one.counted, strict=True)
    ]
    output.write_csv(options, "taylor-noise.csv", rows)
    plot(found, options.out / "taylor-noise.svg")
    picture = "![tails, and the least δ](taylor-noise.svg)"
    parts = [tail_table(found, count), picture, delta_table(), thesis_table(), reading()]
    output.write_page(options, "taylor-noise.md", "Noise from a Taylor series", parts, timed=False)


if __name__ == "__main__":
    main()
