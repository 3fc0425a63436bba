"""Real vectors and integers to words modulo 2^b and back, one coordinate at a time.

Python's floats are IEEE 754 doubles, so the steps below round as the library's must.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from .aes import counter_stream

FIXED64_UNIT = 2.0**16


@dataclass(frozen=True)
class Spec:
    """What is agreed about an encoding."""

    dim: int
    kind: str = "quantised"
    bits: int = 16
    clip: float = 1.0
    clipping: str = "tensor"
    max_norm: float = 0.0
    rounding: str = "stochastic"
    max_weight: int = 1
    parties: int = 10
    tensors: tuple[tuple[int, float], ...] = ()

    def width(self) -> int:
        """Bits of a word."""
        if self.kind == "fixed64":
            return 64
        return next(
            width
            for width in range(self.bits, 65)
            if 2 ** (width - self.bits) >= self.parties * self.max_weight
        )

    def clips(self) -> list[float]:
        """The bound of every coordinate."""
        if not self.tensors:
            return [self.clip] * self.dim
        return [clip for length, clip in self.tensors for _ in range(length)]

    def norm_bound(self) -> float | None:
        """The norm that longer vectors are scaled to."""
        if self.clipping == "l2":
            return self.clip
        if not self.max_norm:
            return None
        levels = 1.0 if self.rounding == "stochastic" else 0.5 + 2.0**-20
        step = 2.0 * self.clip / self.top(1)
        off = (self.dim + 2.0**17) * 2.0**-57
        return self.max_norm * (1.0 - off) - levels * math.sqrt(self.dim) * step

    def most(self) -> int | None:
        """The largest sum of squares of a vector that is not too long.

        With v = word - middle, v * v with rounding to nearest and v(v + 1) otherwise.
        """
        if not self.max_norm or self.max_weight > 1:
            return None
        if self.rounding == "nearest":
            return math.floor((Fraction(self.max_norm) * (self.top(1) // 2) / Fraction(self.clip)) ** 2)
        steps = Fraction(self.max_norm) * self.top(1) / (2 * Fraction(self.clip))
        return math.floor(steps**2 - Fraction(self.dim, 4))

    def top(self, weight: int) -> int:
        """The level that the upper bound is mapped to."""
        return weight * ((1 << self.bits) - (2 if self.rounding == "nearest" else 1))


def l2_norm(values: list[float]) -> float:
    """16 partial sums of squares, coordinate i in the one numbered i mod 16, added in order."""
    stripes = [0.0] * 16
    for i, value in enumerate(values):
        stripes[i % 16] += value * value
    total = 0.0
    for stripe in stripes:
        total += stripe
    return math.sqrt(total)


def slope_for(range_: float, bound: float) -> float:
    """``range_ / bound``, rounded up if otherwise the bound would not reach the end of the range."""
    slope = range_ / bound
    return slope if slope * bound >= range_ else math.nextafter(slope, math.inf)


def quantise(value: float, clip: float, factor: float, top: int, random: int | None) -> int:
    """The word of a coordinate; ``random`` is below 2^32, None rounds to nearest."""
    fraction_bits = 0 if random is None else min(32, 52 - top.bit_length())
    last = float(top << fraction_bits)
    level = value * (slope_for(last / 2, clip) * factor) + last / 2
    level = round(min(max(level, 0.0), last))
    if random is not None:
        level += random >> (32 - fraction_bits)
    return level >> fraction_bits


def fixed_point(value: float, clip: float, weight: int) -> int:
    """The word of a coordinate in 64-bit two's complement."""
    return round(min(max(value, -clip), clip) * (FIXED64_UNIT * weight)) % 2**64


def encode(spec: Spec, values: list[float], weight: int, seed: bytes) -> dict[str, object]:
    """The words of a vector and what clipping did to it."""
    clips = spec.clips()
    clipped, scaled_norm, factor = 0, None, 1.0
    bound = spec.norm_bound()
    if bound is not None and l2_norm(values) > bound:
        scaled_norm = l2_norm(values)
        factor = bound / scaled_norm
    if spec.clipping == "tensor":
        clipped = sum(abs(value) * factor > clip for value, clip in zip(values, clips, strict=True))
    words = []
    for i, (value, clip) in enumerate(zip(values, clips, strict=True)):
        if spec.kind == "fixed64":
            words.append(fixed_point(value, clip, weight))
            continue
        random = None
        if spec.rounding == "stochastic":
            random = int.from_bytes(counter_stream(seed, 4 * i, 4), "little")
        words.append(quantise(value, clip, factor, spec.top(weight), random))
    if (most := spec.most()) is not None:
        # Twice the distance from 0, in levels.
        squares = sum((2 * word - spec.top(1)) ** 2 for word in words)
        assert squares <= (4 * most if spec.rounding == "nearest" else 4 * most + spec.dim)
    if spec.max_weight > 1:
        words.append(weight)
    norm = None if scaled_norm is None else double(scaled_norm)
    return {"words": words, "clipped": clipped, "scaled_norm": norm}


def decode(spec: Spec, total: list[int], survivors: int) -> tuple[list[float], int]:
    """The mean and the total weight of a sum."""
    total_weight = total[spec.dim] if spec.max_weight > 1 else survivors
    top = spec.top(total_weight)
    mean = []
    for word, clip in zip(total, spec.clips(), strict=False):
        if spec.kind == "fixed64":
            signed = word - 2**64 if word >= 2**63 else word
            mean.append(float(signed) / (FIXED64_UNIT * total_weight))
        else:
            coordinate = float(2 * word - top) * slope_for(clip, float(top))
            mean.append(min(max(coordinate, -clip), clip))
    return mean, total_weight


def double(value: float) -> str:
    """The bits of a double in hexadecimal, which every reader gives back exactly."""
    return struct.pack(">d", value).hex()


def single(value: float) -> float:
    """The nearest number of single precision."""
    (nearest,) = struct.unpack(">f", struct.pack(">f", value))
    return float(nearest)


def inputs(label: str, spec: Spec, precision: str) -> list[float]:
    """Coordinates within and just outside their bounds, and some special ones at the end."""
    special = [0.0, -0.0, 5e-324, -1e-310, 2.0**-126, 1e30]
    values = []
    for i, clip in enumerate(spec.clips()):
        digest = hashlib.sha256(f"{label}/{i}".encode()).digest()
        unit = int.from_bytes(digest[:8], "little") / 2**63 - 1.0
        ends = [clip, -clip, math.nextafter(clip, math.inf), -math.nextafter(clip, 0.0)]
        values.append((1.25 * clip * unit) if i >= 4 else ends[i])
    values[-len(special) :] = special
    if spec.norm_bound() is not None:
        values[-1] = 0.0
    return [single(value) for value in values] if precision == "f32" else values


def case(label: str, spec: Spec, weights: list[int], precision: str = "f32") -> dict[str, object]:
    """Vectors of several parties, their words, the sum and its mean."""
    parties, words = [], []
    for party, weight in enumerate(weights):
        name = f"{label}/{party}"
        values, seed = inputs(name, spec, precision), hashlib.sha256(name.encode()).digest()
        encoded = encode(spec, values, weight, seed)
        words.append(encoded["words"])
        bits = [double(value) for value in values]
        parties.append({"values": bits, "weight": weight, "seed": seed.hex(), **encoded})
    total = [sum(column) % 2 ** spec.width() for column in zip(*words, strict=True)]
    mean, total_weight = decode(spec, total, len(weights))
    check_mean(spec, parties, mean)
    return {
        "spec": told(spec),
        "width": spec.width(),
        "precision": precision,
        "parties": parties,
        "sum": total,
        "total_weight": total_weight,
        "mean": [double(value) for value in mean],
        "most": spec.most(),
    }


def told(spec: Spec) -> dict[str, object]:
    """The specification as it stands in the file."""
    reals = {"clip": double(spec.clip), "max_norm": double(spec.max_norm)}
    return {**asdict(spec), **reals, "tensors": tensors(spec)}


def tensors(spec: Spec) -> list[dict[str, object]]:
    """The tensors as they stand in the file."""
    return [{"len": length, "clip": double(clip)} for length, clip in spec.tensors]


def check_mean(spec: Spec, parties: list[dict[str, Any]], mean: list[float]) -> None:
    """The mean is within one quantisation step of that of the clipped vectors."""
    for i, clip in enumerate(spec.clips()):
        exact, total_weight = 0.0, 0
        for party in parties:
            value = struct.unpack(">d", bytes.fromhex(party["values"][i]))[0]
            if party["scaled_norm"]:
                norm = struct.unpack(">d", bytes.fromhex(party["scaled_norm"]))[0]
                value *= (spec.norm_bound() or 0.0) / norm
            exact += party["weight"] * min(max(value, -clip), clip)
            total_weight += party["weight"]
        step = 1 / FIXED64_UNIT if spec.kind == "fixed64" else 2 * clip / spec.top(1)
        assert abs(mean[i] - exact / total_weight) <= step + clip * 1e-14


@dataclass(frozen=True)
class IntegerSpec:
    """What is agreed about an encoding of unsigned integers."""

    dim: int
    bits: int
    max_weight: int = 1
    parties: int = 10

    def parts(self) -> list[tuple[int, int]]:
        """Which bits of an integer each of its words takes: the first one, and how many."""
        if (1 << self.bits) - 1 <= (2**64 - 1) >> self.carry():
            return [(0, self.bits)]
        return [(0, 32), (32, self.bits - 32)]

    def carry(self) -> int:
        """Bits that the sum of all parties adds."""
        return (self.parties * self.max_weight - 1).bit_length()

    def width(self) -> int:
        """Bits of a word."""
        return self.parts()[0][1] + self.carry()


def integer_inputs(label: str, spec: IntegerSpec) -> list[int]:
    """The largest integer, the smallest, and others that fill the range."""
    last = (1 << spec.bits) - 1
    digests = [hashlib.sha256(f"{label}/{i}".encode()).digest() for i in range(spec.dim - 2)]
    return [last, 0, *(int.from_bytes(digest[:8], "little") & last for digest in digests)]


def integer_case(label: str, spec: IntegerSpec, weights: list[int]) -> dict[str, object]:
    """Integers of several parties, their words, the words of the sum and what they decode to."""
    parties, words = [], []
    for party, weight in enumerate(weights):
        values = integer_inputs(f"{label}/{party}", spec)
        row = [(value >> first) % 2**count * weight for first, count in spec.parts() for value in values]
        words.append(row + [weight] * (spec.max_weight > 1))
        texts = [str(value) for value in values]
        parties.append({"values": texts, "weight": weight, "words": [str(word) for word in words[-1]]})
    total = [sum(column) % 2 ** spec.width() for column in zip(*words, strict=True)]
    total_weight = total[-1] if spec.max_weight > 1 else len(weights)
    sums = [
        sum(total[part * spec.dim + i] << first for part, (first, _) in enumerate(spec.parts()))
        for i in range(spec.dim)
    ]
    for i, exact in enumerate(sums):
        assert exact == sum(int(party["values"][i]) * party["weight"] for party in parties)
    return {
        "spec": asdict(spec),
        "width": spec.width(),
        "parties": parties,
        "sum": [str(word) for word in total],
        "total_weight": total_weight,
        "sums": [str(exact) for exact in sums],
        "mean": [double(float(exact) / float(total_weight)) for exact in sums],
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``encoding.json``."""
    plain = Spec(dim=20)
    weighted = replace(plain, max_weight=1000)
    layout = replace(weighted, tensors=((5, 0.1), (1, 3.0), (14, 7.5e-3)), bits=12)
    norm = replace(plain, clipping="l2", clip=0.75, max_weight=7)
    sent = replace(plain, max_norm=2.5)
    wide = replace(plain, bits=32, clip=1.7, parties=2**12, max_weight=2**20)
    fixed = replace(plain, kind="fixed64", clip=100.0)
    nearest = [
        case("nearest", replace(spec, rounding="nearest"), weights)
        for spec, weights in [(plain, [1, 1]), (weighted, [7, 1000]), (layout, [3, 1, 4])]
    ]
    return {
        "cases": [
            case("plain", plain, [1, 1, 1]),
            case("double", plain, [1, 1], "f64"),
            case("coarse", replace(plain, bits=2, parties=3), [1]),
            case("weighted", weighted, [1, 999, 1000]),
            case("layout", layout, [5, 1000]),
            case("norm", norm, [7, 1]),
            case("small norm", replace(norm, clip=1e3), [2], "f64"),
            case("sent", sent, [1, 1]),
            case("sent and clamped", replace(sent, bits=8, clip=0.3, max_norm=0.9), [1, 1], "f64"),
            case("sent, weighted", replace(sent, max_weight=7, max_norm=0.5), [7, 3]),
            case("sent, nearest", replace(sent, rounding="nearest", bits=3, max_norm=3.0), [1, 1]),
            case("24 bits", replace(weighted, bits=24, clip=0.3), [17, 1], "f64"),
            case("wide", wide, [2**20, 1, 12345], "f64"),
            case("fixed", fixed, [1, 1]),
            case("weighted fixed", replace(fixed, max_weight=50, clip=2.0**36), [50, 3], "f64"),
            *nearest,
        ],
        "integers": [
            integer_case("bits", IntegerSpec(dim=9, bits=1, parties=3), [1, 1, 1]),
            integer_case("narrow", IntegerSpec(dim=5, bits=28, max_weight=2, parties=8), [2, 1, 2]),
            integer_case("wide", IntegerSpec(dim=5, bits=30, max_weight=5), [5, 1]),
            integer_case("one word", IntegerSpec(dim=4, bits=60, parties=16), [1] * 5),
            integer_case("two words", IntegerSpec(dim=4, bits=61, parties=16), [1] * 5),
            integer_case("64 bits alone", IntegerSpec(dim=3, bits=64, parties=1), [1]),
            integer_case("64 bits", IntegerSpec(dim=11, bits=64, parties=3), [1, 1, 1]),
            integer_case("weighted", IntegerSpec(dim=6, bits=64, max_weight=1000), [1000, 1, 17]),
            integer_case("widest", IntegerSpec(dim=3, bits=64, max_weight=2**32 - 1, parties=1), [2**32 - 1]),
        ],
    }
