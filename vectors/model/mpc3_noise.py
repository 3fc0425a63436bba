"""Discrete Gaussian noise of a component, and bits that are drawn evenly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2

from . import aes
from .privacy_noise import number
from .privacy_servers import ServerNoise

DENOMINATOR = 1024
BLOCK = 1024
# Streams of a block beside that of the noise.
WITHIN_STEPS = 1
LAST_BITS = 2
MAX_STEPS = float(2**20)


@dataclass(frozen=True)
class Gaussian:
    """Steps of 2^shift with a variance of numerator / DENOMINATOR."""

    numerator: int
    shift: int

    @staticmethod
    def of(deviation: float) -> Gaussian:
        """Of this standard deviation."""
        shift = max(ceil(log2(deviation / MAX_STEPS)), 0)
        steps = min(deviation / 2.0**shift, MAX_STEPS)
        return Gaussian(int(steps * steps * DENOMINATOR + 0.5), shift)

    @staticmethod
    def accounted(noise: ServerNoise) -> Gaussian:
        """Noise that was sized for a guarantee."""
        return Gaussian(noise.variance_units, noise.shift)


def even(key: bytes, purpose: int, block: int, bits: int, count: int) -> list[int]:
    """The first of a block: each from 2^bits numbers about 0, with equal chances."""
    if not bits:
        return [0] * count
    first = 16 * (purpose << 96 | block << 32)
    words = aes.counter_stream(key, first, 8 * count)
    half = 2 ** (bits - 1)
    return [(int.from_bytes(words[8 * i : 8 * i + 8], "little") >> (64 - bits)) - half for i in range(count)]


def drawn(key: bytes, gaussian: Gaussian, count: int, block: int = 0) -> list[int]:
    """The first numbers of a block of the noise of one component."""
    variance = Fraction(gaussian.numerator, DENOMINATOR)
    steps = [number(key, "discrete-gaussian", variance, BLOCK * block + i) for i in range(count)]
    within = even(key, WITHIN_STEPS, block, gaussian.shift, count)
    return [(step << gaussian.shift) + rest for step, rest in zip(steps, within, strict=True)]
