"""Projections, by which `pss-malicious` proves a norm where words have no bits: bound, coefficients, bits."""

from __future__ import annotations

from functools import cache
from math import isqrt

from . import aes
from .prime import FIELD47

PROJECTIONS = 128
NUMBER = PROJECTIONS // 4
"""Bytes of the keystream for one number: two integers with a bit for every projection."""


def largest_projection(most: int, numbers: int) -> int:
    """Y: what a projection of so many numbers comes to at most, if the statement holds."""
    return isqrt(34 * (2 * most + numbers) - 1) + 1


def fits(most: int, numbers: int) -> bool:
    """Whether the field is large enough for such projections."""
    y = largest_projection(most, numbers)
    return 148 * y * y < FIELD47.p and (2 * numbers + 1) * y < FIELD47.p


@cache
def coefficients(seed: bytes, numbers: int) -> list[list[int]]:
    """By projection, the coefficients of all numbers: -1, 0 or 1."""
    stream = aes.counter_stream(seed, 0, NUMBER * numbers)
    pairs = []
    for start in range(0, len(stream), NUMBER):
        both = stream[start : start + NUMBER]
        pairs.append((both[: NUMBER // 2], both[NUMBER // 2 :]))
    read = [(int.from_bytes(plus, "little"), int.from_bytes(minus, "little")) for plus, minus in pairs]
    return [[(plus >> i & 1) - (minus >> i & 1) for plus, minus in read] for i in range(PROJECTIONS)]


def projections(seed: bytes, numbers: list[int]) -> list[int]:
    """All projections of signed numbers, as the integers that they are."""
    return [
        sum(z * v for z, v in zip(of_one, numbers, strict=True))
        for of_one in coefficients(seed, len(numbers))
    ]


def weights_to(most: int) -> list[int]:
    """What bits count that can say every number from 0 to ``most``, and no other."""
    last = most.bit_length() - 1
    return [2**i for i in range(last)] + [most - 2**last + 1]


def bits_to(most: int, value: int) -> list[int]:
    """These bits of a number."""
    assert 0 <= value <= most
    *_, last = weights = weights_to(most)
    above = value >= 2 ** (len(weights) - 1)
    rest = value - last * above
    return [rest >> i & 1 for i in range(len(weights) - 1)] + [int(above)]
