"""Fixed-point numbers of three servers: what a truncation, an inverse root and an inverse may be.

Servers round at random, so that a result is not one number but lies in an interval. An interval is a pair
of whole numbers, both of which belong to it. Roots are found with whole numbers of any size.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

FRACTION = 28
ONE = 1 << FRACTION
UNIT = Fraction(1, ONE)

Interval = tuple[int, int]


def floor(value: Fraction) -> int:
    """The largest whole number that is not above."""
    return value.numerator // value.denominator


def ceiling(value: Fraction) -> int:
    """The least whole number that is not below."""
    return -floor(-value)


def root_below(square: Fraction) -> int:
    """The largest whole number that is not above the root."""
    return isqrt(floor(square))


def root_above(square: Fraction) -> int:
    """The least whole number that is not below the root."""
    return isqrt(ceiling(square) - 1) + 1 if square > 0 else 0


def truncated(value: Fraction | int) -> Interval:
    """Rounded down or up; a whole number stays what it is."""
    exact = Fraction(value)
    return floor(exact), ceiling(exact)


def product(first: Interval, second: Interval, bits: int = 0) -> Interval:
    """Of a number of the first and one of the second, divided by 2^bits and rounded down or up."""
    corners = [a * b for a in first for b in second]
    assert -(2**62) <= min(corners) <= max(corners) < 2**62
    return floor(Fraction(min(corners), 2**bits)), ceiling(Fraction(max(corners), 2**bits))


def total(intervals: list[Interval]) -> Interval:
    """The sum of one number of each."""
    return sum(low for low, _ in intervals), sum(high for _, high in intervals)


def times(interval: Interval, factor: int) -> Interval:
    """Each number times the factor."""
    ends = sorted(end * factor for end in interval)
    return ends[0], ends[1]


def place_of(n: int) -> int | None:
    """The i for which n is from 4^i to 4^(i + 1) - 1; none for 0."""
    return (n.bit_length() - 1) // 2 if n else None


def inverse_root(n: int) -> Interval:
    """1/√m with 28 bits behind the point, for n = m · 4^i with m from 1 to 4.

    It is too small by a part of 2^-20 at most, because two steps of Newton's method follow a line that is
    within 0.0224; what rounding adds is at most 6 · 2^-28 of it.
    """
    place = place_of(n)
    assert place is not None
    square = Fraction(ONE**2 * 4**place, n)
    return root_above(square * (1 - Fraction(1, 2**20)) ** 2), root_below(square * (1 + 6 * UNIT) ** 2)


def inverse(v: int, bits: int) -> tuple[Interval, int]:
    """The inverse, within 8 units, and the scale of 1/v = inverse · scale / 2^(bits - 1 + 28)."""
    scale = 1 << (bits - v.bit_length())
    exact = Fraction(ONE << (bits - 1), v * scale)
    return (ceiling(exact - 8), floor(exact + 8)), scale


def pair(interval: Interval) -> list[str]:
    """An interval as it stands in the file."""
    return [str(end) for end in interval]


def truncation(x: int, f: int) -> dict[str, object]:
    """One number, truncated."""
    assert -(2**62) <= x < 2**62
    return {"x": str(x), "f": str(f), "result": pair(truncated(Fraction(x, 2**f)))}


def product_truncation(x: int, y: int, f: int) -> dict[str, object]:
    """One product, truncated."""
    return {"x": str(x), "y": str(y), "f": str(f), "result": pair(product((x, x), (y, y), f))}


def root_case(n: int, exponent: int) -> dict[str, object]:
    """The inverse root of one number; of 0 it may be anything, as the scale is 0."""
    assert 0 <= n < 4 ** (exponent + 1)
    place = place_of(n)
    return {
        "n": str(n),
        "exponent": str(exponent),
        "root": None if place is None else pair(inverse_root(n)),
        "scale": str(0 if place is None else 2 ** (exponent - place)),
        "place": None if place is None else str(place),
    }


def inverse_case(v: int, bits: int) -> dict[str, object]:
    """The inverse of one number."""
    assert 0 <= v < 2**bits
    found, scale = inverse(v, bits) if v else (None, 0)
    return {
        "v": str(v),
        "bits": str(bits),
        "inverse": None if found is None else pair(found),
        "scale": str(scale),
    }
