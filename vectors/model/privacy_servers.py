"""Noise that servers add to each of three components: how much, and what it is worth, in fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt

from .privacy_sizes import UNITS

MOST_VARIANCE = 2**40
LEAST_VARIANCE = 16
NOT_COUNTED = 8


@dataclass(frozen=True)
class ServerNoise:
    """Steps of 2^shift, the square of how many a party moves, and 1024 times the variance in steps²."""

    shift: int
    squares: int
    variance_units: int

    @property
    def variance(self) -> Fraction:
        """In steps²."""
        return Fraction(self.variance_units, 1024)

    def squared_mu(self, components: int) -> str:
        """The square of mu of a release, in units of 2^-64, for who does not know so many components."""
        return str(ceil(self.squares / (components * self.variance - NOT_COUNTED) * 2**64))


def sized(dim: int, sensitivity: int, units: int, adjacency: str = "zero-out") -> ServerNoise | str:
    """The noise with the finest steps, or the name of the first rule that does not hold."""
    moved = sensitivity * (2 if adjacency == "replace" else 1)
    for shift in range(64):
        # The bits of a step are drawn evenly, and what is shown is a multiple of a step beside them.
        rounded = isqrt(dim) + 1 if shift else 0
        squares = (ceil(Fraction(moved, 2**shift)) + rounded) ** 2
        variance = Fraction(ceil(1024 * (Fraction(units, UNITS) ** 2 * squares + NOT_COUNTED)), 1024)
        if variance <= MOST_VARIANCE:
            break
    else:
        return "steps"
    if variance < LEAST_VARIANCE:
        return "coarse"
    if 100 * squares * 4**shift > 121 * moved**2:
        return "steps"
    return ServerNoise(shift, squares, int(1024 * variance))


def grid() -> list[dict[str, object]]:
    """Few and many coordinates, short and long vectors, and the edges of rules."""
    cases = [
        (dim, sensitivity, units, adjacency)
        for dim in (1, 1000, 10**6, 2**32)
        for sensitivity in (2, 65_599, 2**20, 2**33, 2**44 + 12_345, 2**52)
        for units, adjacency in ((2**10, "zero-out"), (2**16, "replace"), (5 * 2**14 + 3, "zero-out"))
    ]
    cases += [
        # The last with steps of 1, the first with steps of 2.
        (100, 2**20 - 1, UNITS, "zero-out"),
        (100, 2**20, UNITS, "zero-out"),
        (10_000, 2**40, 2**26, "zero-out"),
        (1000, 2**40, 2**26, "zero-out"),
        (1, 181, 2**10, "zero-out"),
        (1, 182, 2**10, "zero-out"),
    ]
    found = []
    for dim, sensitivity, units, adjacency in cases:
        given = {"dim": dim, "sensitivity": sensitivity, "units": units, "adjacency": adjacency}
        noise = sized(dim, sensitivity, units, adjacency)
        if isinstance(noise, str):
            found.append(given | {"refused": noise})
            continue
        found.append(
            given
            | {
                "shift": noise.shift,
                "squared_norm": noise.squares,
                "variance_units": noise.variance_units,
                "squared_mu": noise.squared_mu(1),
                "squared_mu_outside": noise.squared_mu(3),
            }
        )
    return found
