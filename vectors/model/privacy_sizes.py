"""Sizes of distributed differential privacy, from its inequalities in fractions."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isqrt

UNITS = 2**16
LN2_ABOVE = Fraction(710, 1024)


def bound(dim: int, bits: int, rounding: str) -> int:
    """T: the largest sum of squares of a rounded vector."""
    most = 2 ** (bits - 1) - 1
    root = isqrt(dim) + 1
    if rounding == "nearest":
        return (most + root // 2 + 1) ** 2
    likely = most**2 + dim // 4 + 1 + ceil(Fraction(15, 4) * (2 * most + root))
    return min((most + root) ** 2, likely)


def sizes(
    parties: int,
    dim: int,
    honest: int,
    bits: int,
    units: int,
    rounding: str = "stochastic",
    mechanism: str = "discrete-gaussian",
    adjacency: str = "zero-out",
) -> dict[str, object]:
    """All sizes, or the name of the first rule that does not hold."""
    given = {
        "parties": parties,
        "dim": dim,
        "honest": honest,
        "bits": bits,
        "units": units,
        "rounding": rounding,
        "mechanism": mechanism,
        "adjacency": adjacency,
    }
    skellam = mechanism == "skellam"
    most = 2 ** (bits - 1) - 1
    squares = bound(dim, bits, rounding)
    moved = squares * (4 if adjacency == "replace" else 1)
    needed = Fraction(units, UNITS) ** 2 * moved + (0 if skellam else 8)
    variance = Fraction(ceil(1024 * needed / max(honest, 1)), 1024)
    rules = {
        "honest": 1 <= honest <= parties,
        "growth": 100 * squares <= 121 * most**2,
        "norm": squares < 2**62,
        "small": variance >= (1 if skellam else 16),
        "large": variance <= 2**40,
        "skellam": variance <= 2**20 or not skellam,
    }
    for rule, holds in rules.items():
        if not holds:
            return given | {"refused": rule}
    logs = ceil(LN2_ABOVE * (41 + (dim - 1).bit_length())) + 1
    reach = isqrt(int(2 * logs * parties * variance)) + 1 + (2 * logs if skellam else 0)
    limit = parties * most + reach
    width = (2 * limit).bit_length()
    # The square of mu in units of 2^-64, for all honest parties and for one alone.
    squared = []
    for sure in (honest, 1):
        hidden = sure * variance - 8
        exact = None if skellam or hidden <= 0 else ceil(moved / hidden * 2**64)
        squared.append(None if exact is None or exact >= 2**128 else str(exact))
    return given | {
        "squared_norm": squares,
        "variance_units": int(1024 * variance),
        "reach": reach,
        "limit": limit,
        "width": width,
        "squared_mu": squared[0],
        "squared_mu_alone": squared[1],
    }


def grid() -> list[dict[str, object]]:
    """Every combination of few and many, and the edges of rules."""
    found = [
        sizes(parties, dim, max(1, parties * 4 // 5), bits, units, rounding, mechanism, adjacency)
        for parties in (1, 10, 1000, 100_000)
        for dim in (1, 1000, 99_999, 2**32)
        for bits in (2, 8, 12, 16, 24, 32)
        for units, rounding, mechanism, adjacency in [
            (2**16, "stochastic", "discrete-gaussian", "zero-out"),
            (2**10, "nearest", "discrete-gaussian", "replace"),
            (2**26, "stochastic", "discrete-gaussian", "zero-out"),
            (3 * 2**14 + 1, "stochastic", "skellam", "replace"),
        ]
    ]
    edges = [
        sizes(10, 1000, 0, 16, UNITS),
        sizes(10, 1000, 11, 16, UNITS),
        sizes(10, 1000, 10, 16, UNITS),
        sizes(2**32, 1000, 2**32, 31, UNITS),
        sizes(2**32, 1000, 1, 28, 2**11),
        sizes(4, 10_000, 4, 10, UNITS, "nearest"),
    ]
    return found + edges
