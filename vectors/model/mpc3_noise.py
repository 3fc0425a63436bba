"""Discrete Gaussian noise from a stream of words (Canonne, Kamath and Steinke 2020), on whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isqrt, log2

from . import aes

DENOMINATOR = 1024
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


class Source:
    """Random words, and numbers made of them."""

    def __init__(self, key: bytes, block: int) -> None:
        self.words = self.read(key, block)

    @staticmethod
    def read(key: bytes, block: int) -> Iterator[int]:
        """The words of a stream, one after the other."""
        first = 16 * (block << 32)
        while True:
            two = aes.counter_stream(key, first, 16)
            yield int.from_bytes(two[:8], "little")
            yield int.from_bytes(two[8:], "little")
            first += 16

    def below(self, end: int) -> int:
        """Each number below ``end`` alike."""
        bits = (end - 1).bit_length()
        while True:
            drawn = 0
            if 0 < bits <= 64:
                drawn = next(self.words) >> (64 - bits)
            elif bits > 64:
                drawn = next(self.words)
                drawn |= next(self.words) >> (128 - bits) << 64
            if drawn < end:
                return drawn

    def fraction(self, n: int, d: int) -> bool:
        """True with probability exp(-n/d), for n <= d."""
        k = 1
        while self.below(d * k) < n:
            k += 1
        return k % 2 == 1

    def exponential(self, n: int, d: int) -> bool:
        """True with probability exp(-n/d)."""
        return all(self.fraction(1, 1) for _ in range(n // d)) and self.fraction(n % d, d)

    def laplace(self, t: int) -> tuple[int, bool]:
        """A size whose probability falls with exp(-size/t), and whether it is below zero."""
        while True:
            rest = self.below(t)
            if not self.fraction(rest, t):
                continue
            whole = 0
            while self.fraction(1, 1):
                whole += 1
            size, is_negative = rest + t * whole, next(self.words) >> 63 == 1
            if size > 0 or not is_negative:
                return size, is_negative

    def number(self, gaussian: Gaussian) -> int:
        """One number, within its step."""
        a, b, k = gaussian.numerator, DENOMINATOR, gaussian.shift
        t = isqrt(a // b) + 1
        while True:
            size, is_negative = self.laplace(t)
            distance = abs(size * b * t - a)
            if distance**2 < 2**128 and self.exponential(distance**2, 2 * a * b * t * t):
                break
        steps = -size if is_negative else size
        return (steps << k) + (next(self.words) >> (64 - k)) - 2 ** (k - 1) if k else steps


def drawn(key: bytes, gaussian: Gaussian, count: int, block: int = 0) -> list[int]:
    """The first numbers of a block of the noise of one component."""
    source = Source(key, block)
    return [source.number(gaussian) for _ in range(count)]
