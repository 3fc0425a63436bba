"""Noise of differential privacy by its definitions: probabilities from series in long decimals."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import isqrt

from . import aes

DIGITS = 120
BLOCK = 1024
END = 2**128 - 1


def decimal(x: Fraction) -> Decimal:
    """The nearest decimal."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def gaussian_weights(variance: Fraction) -> list[Decimal]:
    """exp(-k^2/2v) for k = 0, 1, 2 and so on."""
    reach = 14 * (isqrt(int(variance)) + 1)
    return [(-decimal(k * k / (2 * variance))).exp() for k in range(reach + 1)]


def bessel(order: int, variance: Fraction) -> Decimal:
    """I_k(v): the sum over j of (v/2)^(2j+k) / (j! (j+k)!)."""
    half = decimal(variance / 2)
    term = Decimal(1)
    for j in range(1, order + 1):
        term = term * half / j
    total, j = Decimal(0), 0
    while j < half or term > total * Decimal(10) ** -DIGITS:
        total += term
        j += 1
        term = term * half * half / (j * (j + order))
    return total


def skellam_weights(variance: Fraction) -> list[Decimal]:
    """Weights of the difference of two Poisson variables of mean v/2 each."""
    reach = 14 * (isqrt(int(variance)) + 6)
    return [bessel(k, variance) for k in range(reach + 1)]


@cache
def cuts(mechanism: str, variance: Fraction) -> list[int]:
    """The whole parts of 2^128 P[|X| <= i], without the last ones, which are 2^128 - 1."""
    with localcontext() as context:
        context.prec = DIGITS
        weights = {"discrete-gaussian": gaussian_weights, "skellam": skellam_weights}[mechanism](variance)
        total = weights[0] + 2 * sum(weights[1:])
        below, found = weights[0], []
        for weight in weights[1:]:
            cut = int(below * 2**128 / total)
            if cut >= END:
                break
            found.append(cut)
            below += 2 * weight
    return found


def scans(mechanism: str, variance: Fraction) -> tuple[list[Fraction], int]:
    """The variances that a number is drawn from, and the factor of the sum at each step."""
    if mechanism == "skellam":
        parts = -(-variance // 2**14)
        return [variance / parts] * int(parts), 1
    levels = 0
    top = variance
    while top >= 360:
        top = (top - 103) / 16
        levels += 1
    return [top] + [Fraction(103)] * levels, 4


def random_bytes(key: bytes, block: int, first: int, count: int) -> bytes:
    """Bytes of the stream of a block."""
    return aes.counter_stream(key, 16 * (block << 32) + first, count)


def number(key: bytes, mechanism: str, variance: Fraction, place: int) -> int:
    """The number of the noise of ``key`` at a place."""
    block, within = divmod(place, BLOCK)
    variances, factor = scans(mechanism, variance)
    drawn = 0
    for scan, part in enumerate(variances):
        word = random_bytes(key, block, 4 * (BLOCK * scan + within), 4)
        rest = random_bytes(key, block, 4 * BLOCK * (len(variances) + 4 * scan) + 16 * within, 16)
        first, second = int.from_bytes(word, "little"), int.from_bytes(rest, "little")
        size = bisect_right(cuts(mechanism, part), first >> 1 << 97 | second >> 31)
        drawn = factor * drawn + (-size if first & 1 else size)
    return drawn
