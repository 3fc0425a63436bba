"""Jobs of mpc3 whose servers compute: what parties share, how long vectors are, what results mean."""

from __future__ import annotations

import struct
from math import ceil, floor, sqrt

from .job import Job
from .mpc3_noise import Gaussian
from .privacy_servers import sized
from .privacy_sizes import UNITS

FRACTION = 28
TAIL = 2
WEIGHT_ABOVE = 11
"""Units of 2^-FRACTION by which a weight of the clipped mean may be too large."""
SHORTEST_ROOT = 2.0**-40
"""The norm that a root of zeros has."""


def computes(job: Job) -> bool:
    """Whether servers do more than add."""
    return job.rule not in ("fedavg", "weighted") or has_noise(job)


def has_noise(job: Job) -> bool:
    """Whether servers add noise."""
    return job.noise > 0 or job.privacy != "none"


def gaussian(job: Job) -> Gaussian:
    """The noise of each component of a mean."""
    if job.privacy == "none":
        return Gaussian.of(job.noise * longest(job))
    noise = sized(job.dim, moved(job), ceil(job.noise_multiplier * UNITS), job.adjacency)
    assert not isinstance(noise, str)
    return Gaussian.accounted(noise)


def moved(job: Job) -> int:
    """S: how far a party moves what is shown, where parties round doubles."""
    of_party = longest(job) + 1 + (top(job) * (job.dim + 2**17) >> 56)
    if job.rule == "fedavg":
        return of_party
    clip = max(floor(job.norm / job.clip * top(job) + 0.5), 1) if job.norm else longest(job)
    return (clip << FRACTION) + WEIGHT_ABOVE * of_party


def sorts(job: Job) -> bool:
    """Whether coordinates are sorted, each by itself."""
    return job.rule in ("median", "trimmed-mean")


def top(job: Job) -> int:
    """The last level."""
    return 2**job.bits - (2 if job.rounding == "nearest" else 1)


def middle(job: Job) -> int:
    """The level of 0, or the one above it."""
    return (top(job) + 1) // 2


def number(job: Job, level: int) -> int:
    """What stands for a level of the encoding."""
    return level - middle(job) if sorts(job) else 2 * level - top(job)


def longest(job: Job) -> int:
    """B: no honest vector has a larger norm."""
    root = sqrt(job.dim)
    if job.clipping == "l2":
        return top(job) + ceil(2 * root)
    corner = ceil(top(job) * root)
    return min(corner, ceil(job.max_norm / job.clip * top(job))) if job.max_norm else corner


def exponent(job: Job) -> int:
    """I: what passes the gate has a norm below 2^I."""
    return max((6 * longest(job) - 1).bit_length() + 3, 15)


def direction(job: Job, levels: list[int]) -> tuple[list[int], float]:
    """What the root shares of its vector, and its norm."""
    numbers = [number(job, level) for level in levels]
    if not any(numbers):
        # It has no direction: it counts as a short vector of equal coordinates.
        return [away(SHORTEST_ROOT / sqrt(job.dim) * (2.0**26 / SHORTEST_ROOT))] * job.dim, SHORTEST_ROOT
    norm = sqrt(float(sum(value * value for value in numbers)))
    scale = 2.0**26 / norm
    return [away(float(value) * scale) for value in numbers], norm


def away(value: float) -> int:
    """The nearest whole number; of two the one that is farther from zero."""
    whole = int(value)
    return whole + (1 if value > 0 else -1) * (abs(value - whole) >= 0.5)


def words(values: list[int]) -> list[int]:
    """Signed numbers modulo 2^64."""
    return [value % 2**64 for value in values]


def signed(word: int) -> int:
    """The number that a word of 64 bits stands for."""
    return word - 2**64 if word >> 63 else word


def result(shown: list[int], total: int | None, divisor: float) -> list[int]:
    """The words of a result: coordinates, the sum of weights, the divisor."""
    bits = int.from_bytes(struct.pack(">d", divisor), "big")
    return [*words(shown), (2**FRACTION if total is None else total) % 2**64, bits]


def divisor_of(told: list[int]) -> float:
    """The last word of a result as the number that it is."""
    return struct.unpack(">d", told[-1].to_bytes(8, "big"))[0]


def mean(job: Job, told: list[int]) -> list[float]:
    """The coordinates that a result stands for."""
    total = float(max(signed(told[-2]), 1)) / float(2**FRACTION)
    levels = float(top(job))
    scale = 2.0 if sorts(job) else 1.0
    factor, offset = scale / levels, (scale * middle(job) - levels) / levels if sorts(job) else 0.0
    factor /= total * divisor_of(told)
    return [job.clip * (float(signed(word)) * factor + offset) for word in told[: job.dim]]
