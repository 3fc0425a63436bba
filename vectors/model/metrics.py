"""Metrics of training to words behind the coordinates, and back to means.

The digits of a level are cut out of its binary text, and sums are checked in exact fractions: only the two
roundings that the library does, to a level and of a mean, are steps of doubles here.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction

from .encoding import IntegerSpec, Spec, double

LEVEL_BITS = 24
TOP = 2**LEVEL_BITS - 1

RANGES = [(0.0, 1.0), (-3.5, 40.0), (1e9, 1e9 + 1.0), (-1e-300, 1e-300), (-8e307, 8e307), (0.1, 0.3)]
"""Ranges of metrics, narrow and wide ones among them."""


@dataclass(frozen=True)
class Metrics:
    """An encoding with metrics."""

    spec: Spec | IntegerSpec
    ranges: tuple[tuple[float, float], ...]

    def carry(self) -> int:
        """Bits that the sum of all parties adds, with their weights."""
        return (self.spec.parties * self.spec.max_weight - 1).bit_length()

    def digit(self) -> int:
        """Bits of a digit of a level."""
        if isinstance(self.spec, IntegerSpec):
            room = self.spec.parts()[0][1]
        elif self.spec.kind == "fixed64":
            room = 63 - self.carry()
        else:
            room = (self.spec.top(1) + 1).bit_length() - 1
        return min(LEVEL_BITS, room)

    def words(self, levels: list[int | None], weight: int) -> list[int]:
        """The words of a party's metrics."""
        words = []
        for level in levels:
            present = 0 if level is None else weight
            text = format(level or 0, f"0{LEVEL_BITS}b")
            ends = range(LEVEL_BITS, 0, -self.digit())
            digits = [text[max(end - self.digit(), 0) : end] for end in ends]
            words += [present, *(present * int(digit, 2) for digit in digits)]
        return words


def level(value: float | None, low: float, high: float) -> int | None:
    """The level of a value; none where it counts as missing."""
    if value is None or not math.isfinite(value):
        return None
    clipped = min(max(value, low), high)
    found = round((clipped - low) / (high - low) * TOP)
    exact = (Fraction(clipped) - Fraction(low)) / (Fraction(high) - Fraction(low)) * TOP
    assert abs(found - exact) < Fraction(501, 1000)
    return found


def mean(levels: int, weight: int, low: float, high: float) -> float | None:
    """The mean of levels that were summed up with their weights."""
    if weight == 0:
        return None
    part = float(levels) / float(weight * TOP)
    found = min(max(low + part * (high - low), low), high)
    exact = Fraction(low) + Fraction(levels, weight * TOP) * (Fraction(high) - Fraction(low))
    assert abs(Fraction(found) - exact) <= (abs(Fraction(low)) + abs(Fraction(high))) / 2**50
    return found


def drawn(label: str, low: float, high: float) -> float | None:
    """A value of a metric, within its range, at its ends, beyond it, not finite, or missing."""
    digest = hashlib.sha256(label.encode()).digest()
    part = int.from_bytes(digest[:6], "little") / 2**48
    special = [None, math.nan, math.inf, -math.inf, low, high, 1.7e308, -1.7e308, math.nextafter(high, low)]
    return special[digest[7] % len(special)] if digest[6] < 90 else low + part * (high - low)


def case(label: str, of: Metrics, weights: list[int]) -> dict[str, object]:
    """The metrics of several parties, their words, the sum, and what it means."""
    parties, all_words, all_levels = [], [], []
    for party, weight in enumerate(weights):
        values = [drawn(f"{label}/{party}/{m}", *bounds) for m, bounds in enumerate(of.ranges)]
        levels = [level(value, *bounds) for value, bounds in zip(values, of.ranges, strict=True)]
        words = of.words(levels, weight)
        texts = [None if value is None else double(value) for value in values]
        parties.append({"values": texts, "weight": weight, "levels": levels, "words": words})
        all_words.append(words)
        all_levels.append(levels)
    total = [sum(column) for column in zip(*all_words, strict=True)]
    most = 2 ** (of.digit() + of.carry())
    assert all(word < most <= 2**64 for word in total)
    sums = []
    for m, bounds in enumerate(of.ranges):
        reported = [(row[m], w) for row, w in zip(all_levels, weights, strict=True) if row[m] is not None]
        summed, weight = sum(one * w for one, w in reported), sum(w for _, w in reported)
        found = mean(summed, weight, *bounds)
        text = None if found is None else double(found)
        share = double(weight / sum(weights))
        sums.append({"levels": str(summed), "weight": weight, "mean": text, "share": share})
    return {
        "spec": told(of.spec),
        "ranges": [[double(low), double(high)] for low, high in of.ranges],
        "digit_bits": of.digit(),
        "parties": parties,
        "sum": total,
        "total_weight": sum(weights),
        "sums": sums,
    }


def told(spec: Spec | IntegerSpec) -> dict[str, object]:
    """The encoding as it stands in the file."""
    kind = "integers" if isinstance(spec, IntegerSpec) else spec.kind
    return {
        "kind": kind,
        "dim": spec.dim,
        "bits": spec.bits,
        "rounding": getattr(spec, "rounding", ""),
        "max_weight": spec.max_weight,
        "parties": spec.parties,
    }


def vectors() -> dict[str, object]:
    """All cases."""
    specs: list[Spec | IntegerSpec] = [
        Spec(2),
        Spec(2, bits=2, parties=3),
        Spec(2, bits=2, rounding="nearest"),
        Spec(2, bits=16, rounding="nearest", max_weight=3),
        Spec(2, bits=7, parties=5, max_weight=9),
        Spec(2, bits=24, parties=16, max_weight=1000),
        Spec(2, bits=32, parties=4, max_weight=2**20),
        Spec(2, kind="fixed64", parties=6, max_weight=1000),
        Spec(2, kind="fixed64", parties=5),
        Spec(2, kind="fixed64", parties=1024, max_weight=2**32 - 1, clip=1e-4),
        IntegerSpec(2, 1),
        IntegerSpec(2, 8, max_weight=3),
        IntegerSpec(2, 40, max_weight=2**22, parties=9),
        IntegerSpec(2, 64),
    ]
    cases = []
    for number, spec in enumerate(specs):
        weights = [1 + (77 * party + 5) % spec.max_weight for party in range(min(spec.parties, 5))]
        weights[-1] = spec.max_weight
        cases.append(case(f"metrics/{number}", Metrics(spec, tuple(RANGES)), weights))
    return {"cases": cases}
