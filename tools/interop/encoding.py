"""Numbers to words and back, and how words are packed: docs/wire-derivations.md, also "Words and masks"."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class BadWords(ValueError):
    """Bytes that are no vector, or a sum that cannot be one."""


def pack(words: Sequence[int], bits: int) -> bytes:
    """Word i takes bits b*i to b*i + b - 1."""
    out = bytearray()
    buffer = held = 0
    for word in words:
        buffer |= word << held
        held += bits
        while held >= 8:
            out.append(buffer & 255)
            buffer >>= 8
            held -= 8
    if held:
        out.append(buffer)
    return bytes(out)


def packed_size(count: int, bits: int) -> int:
    return (count * bits + 7) // 8


def unpack(data: bytes, count: int, bits: int) -> list[int]:
    """Words of packed bytes, which must have the length and no bits left over."""
    if len(data) != packed_size(count, bits):
        raise BadWords(f"{len(data)} bytes for {count} words of {bits} bits")
    words = []
    buffer = held = 0
    at = 0
    top = (1 << bits) - 1
    for _ in range(count):
        while held < bits:
            buffer |= data[at] << held
            at += 1
            held += 8
        words.append(buffer & top)
        buffer >>= bits
        held -= bits
    if buffer:
        raise BadWords("bits left over are set")
    return words


def single(number: float) -> float:
    """The nearest single."""
    try:
        result: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        result = math.copysign(math.inf, number)
    return result


def slope(a: float, b: float) -> float:
    result = a / b
    return math.nextafter(result, math.inf) if result * b < a else result


def clamp(number: float, low: float, high: float) -> float:
    return min(max(number, low), high)


@dataclass(frozen=True)
class Quantised:
    """The encoding `quantised` of a job."""

    dim: int
    parties: int
    bits: int = 16
    clip: float = 1.0
    clipping: str = "tensor"
    max_norm: float = 0.0
    rounding: str = "stochastic"
    max_weight: int = 1
    tensors: tuple[tuple[int, float], ...] = ()  # length and bound of each
    metrics: int = 0  # this client reports none: all of their words are 0

    @property
    def width(self) -> int:
        """Bits of a word."""
        return self.bits + (self.parties * self.max_weight - 1).bit_length()

    @property
    def words(self) -> int:
        """Words of a vector."""
        return self.dim + (self.max_weight > 1) + self.metric_words

    @property
    def metric_words(self) -> int:
        """Words of the metrics: of each the weight that reports it, and the digits of 24 bits."""
        digit = min(24, self.bits - (self.rounding == "nearest"))
        return self.metrics * (1 + -(-24 // digit))

    @property
    def last_level(self) -> int:
        """The level of the upper bound; with rounding to nearest there is one in the middle, for 0."""
        return 2**self.bits - (2 if self.rounding == "nearest" else 1)

    def bounds(self) -> list[float]:
        """The bound of every coordinate."""
        if not self.tensors or self.clipping == "l2":
            return [self.clip] * self.dim
        return [bound for length, bound in self.tensors for _ in range(length)]

    def encode(self, values: Sequence[float], weight: int, random: Callable[[int], bytes]) -> list[int]:
        """The words of an update; `random` gives fresh bytes."""
        if len(values) != self.dim:
            raise ValueError(f"the update has {len(values)} coordinates, the job {self.dim}")
        if not 1 <= weight <= self.max_weight:
            raise ValueError(f"the weight is {weight}, the job takes 1 to {self.max_weight}")
        if not all(math.isfinite(value) for value in values):
            raise ValueError("the update has values that are not finite")
        top = weight * self.last_level
        fine = min(32, 52 - top.bit_length()) if self.rounding == "stochastic" else 0
        levels = float(top * 2**fine)
        factor = self._factor(values)
        noise = struct.unpack(f"<{self.dim}I", random(4 * self.dim)) if fine else (0,) * self.dim
        words = []
        for value, bound, bits in zip(values, self.bounds(), noise, strict=True):
            scale = slope(levels / 2, bound) * factor
            level = round(clamp(value * scale + levels / 2, 0.0, levels))
            words.append((level + (bits >> (32 - fine))) >> fine)
        if self.max_weight > 1:
            words.append(weight)
        return words + [0] * self.metric_words

    def norm_bound(self) -> float:
        """The norm that longer vectors are scaled to."""
        if self.clipping == "l2":
            return self.clip
        if not self.max_norm:
            return math.inf
        levels = 1.0 if self.rounding == "stochastic" else 0.5 + 2.0**-20
        rounding = levels * math.sqrt(self.dim) * (2.0 * self.clip / self.last_level)
        return self.max_norm * (1.0 - (self.dim + 2.0**17) * 2.0**-57) - rounding

    def _factor(self, values: Sequence[float]) -> float:
        bound = self.norm_bound()
        if bound == math.inf:
            return 1.0
        partial = [0.0] * 16
        for at, value in enumerate(values):
            partial[at % 16] += value * value
        total = 0.0
        for part in partial:
            total += part
        norm = math.sqrt(total)
        return bound / norm if norm > bound else 1.0

    def decode(self, total: Sequence[int], survivors: int) -> tuple[list[float], int]:
        """The mean in the precision of the job, and the total weight."""
        weight = total[self.dim] if self.max_weight > 1 else survivors
        if not survivors <= weight <= survivors * self.max_weight:
            raise BadWords(f"a total weight of {weight} for {survivors} survivors")
        top = weight * self.last_level
        mean = []
        for word, bound in zip(total[: self.dim], self.bounds(), strict=True):
            if word > top:
                raise BadWords(f"a sum of {word}, above {top}")
            number = clamp(float(2 * word - top) * slope(bound, float(top)), -bound, bound)
            mean.append(self.in_precision(number))
        return mean, weight

    def in_precision(self, number: float) -> float:
        """A number in the precision of the job: single for values of up to 24 bits."""
        return single(number) if self.bits <= 24 else number

    def number_bytes(self, values: Sequence[float]) -> bytes:
        """Numbers in the precision of the job."""
        return struct.pack(f"<{len(values)}{'f' if self.bits <= 24 else 'd'}", *values)

    def numbers(self, data: bytes) -> list[float]:
        """What ``number_bytes`` wrote."""
        size, code = (4, "f") if self.bits <= 24 else (8, "d")
        return list(struct.unpack(f"<{len(data) // size}{code}", data))

    def next_model(self, model: Sequence[float], mean: Sequence[float], update: str) -> list[float]:
        """What the mean makes of the model."""
        if update == "none":
            return list(model)
        if update == "replace":
            return list(mean)
        return [self.in_precision(old + change) for old, change in zip(model, mean, strict=True)]
