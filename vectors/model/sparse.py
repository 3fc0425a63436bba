"""Sparse updates: selection by sorting, exact fractions where the library rounds once."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction

from .encoding import Spec, decode, double, encode, l2_norm, single, told


@dataclass(frozen=True)
class Schedule:
    """The part of the coordinates that is sent, falling from ``first`` to ``last`` in steps."""

    first: str
    last: str
    steps: int
    rounds_per_step: int

    def kept(self, rounds_done: int, length: int) -> int:
        """How many of ``length`` coordinates are sent: the least k whose share is the density or more."""
        step = min(self.steps, rounds_done // self.rounds_per_step)
        first, last = Fraction(self.first), Fraction(self.last)

        def enough(kept: int) -> bool:
            # (k / length)^steps >= first^(steps - step) * last^step, without a root.
            share = Fraction(kept, length)
            if step == self.steps:
                return share >= last
            return share**self.steps >= first ** (self.steps - step) * last**step

        return next(kept for kept in range(1, length + 1) if enough(kept))


def clipped(values: list[float], spec: Spec, clips: list[float]) -> list[float]:
    """Values as clipping leaves them, in double precision."""
    bound, factor = replace(spec, dim=len(values)).norm_bound(), 1.0
    if bound is not None and l2_norm(values) > bound:
        factor = bound / l2_norm(values)
    return [min(max(value * factor, -clip), clip) for value, clip in zip(values, clips, strict=True)]


@dataclass
class Party:
    """A party and what it has not sent yet."""

    spec: Spec
    schedule: Schedule
    residual: list[float] = field(default_factory=list)

    def select(self, rounds_done: int, update: list[float]) -> tuple[list[int], list[float], list[float]]:
        """What is sent, and everything before it was chosen."""
        clips = self.spec.clips()
        kept = self.residual or [0.0] * self.spec.dim
        total = [
            float(Fraction(u) + Fraction(r))
            for u, r in zip(clipped(update, self.spec, clips), kept, strict=True)
        ]
        indices: list[int] = []
        start = 0
        for length in [length for length, _ in self.spec.tensors] or [self.spec.dim]:
            order = sorted(range(start, start + length), key=lambda d: (-abs(total[d]), d))
            indices += sorted(order[: self.schedule.kept(rounds_done, length)])
            start += length
        return indices, [total[d] for d in indices], total

    def commit(self, indices: list[int], total: list[float], opened: set[int]) -> None:
        """Keeps what did not arrive."""
        clips = self.spec.clips()
        values = [total[d] for d in indices]
        sent = clipped(values, self.spec, [clips[d] for d in indices])
        self.residual = list(total)
        for d, value, arrived in zip(indices, values, sent, strict=True):
            if d in opened:
                self.residual[d] = float(Fraction(value) - Fraction(arrived))

    def state(self) -> str:
        """The residual in bytes."""
        values = self.residual or [0.0] * self.spec.dim
        head = "02" + len(values).to_bytes(8, "big").hex()
        return head + struct.pack(f"<{len(values)}d", *values).hex()


def updates(label: str, spec: Spec, kind: str) -> list[float]:
    """Numbers around 0: ``ties`` of few sizes, ``wide`` beyond the bound, ``fine`` that are no singles."""
    values = []
    for i, clip in enumerate(spec.clips()):
        digest = hashlib.sha256(f"{label}/{i}".encode()).digest()
        unit = int.from_bytes(digest[:8], "little") / 2**63 - 1.0
        size = {"ties": round(unit * 2) / 4, "wide": 3.0 * unit, "small": 0.1 * unit, "fine": unit}[kind]
        values.append(clip * size if kind == "fine" else single(clip * size))
    if spec.norm_bound() is not None:
        values = [single(value / math.sqrt(spec.dim)) for value in values]
    return values


def case(
    label: str,
    spec: Spec,
    schedule: Schedule,
    kinds: list[str],
    minimum: int,
    parties: int = 3,
    divisor: str = "parties",
) -> dict[str, object]:
    """Rounds of some parties. In every third round the last party is lost after it has chosen."""
    everyone = [Party(spec, schedule) for _ in range(parties)]
    rounds = []
    for number, kind in enumerate(kinds):
        sum_, counts = [0] * spec.dim, [0] * spec.dim
        said = []
        survivors = parties - (number % 3 == 2)
        for rank, party in enumerate(everyone):
            update = updates(f"{label}/{number}/{rank}", spec, kind)
            indices, values, total = party.select(number, update)
            seed = hashlib.sha256(f"{label}/{number}/{rank}/seed".encode()).digest()
            tensors = compact_tensors(spec, indices)
            words = encode(replace(spec, dim=len(indices), tensors=tensors), values, 1, seed)["words"]
            assert isinstance(words, list)
            if rank < survivors:
                for d, word in zip(indices, words, strict=True):
                    sum_[d] = (sum_[d] + word) % 2 ** spec.width()
                    counts[d] += 1
            said.append((party, indices, values, total, update, seed, words))
        opened = {d for d, count in enumerate(counts) if count >= max(minimum, 1)}
        rows = []
        for rank, (party, indices, values, total, update, seed, words) in enumerate(said):
            if rank < survivors:
                party.commit(indices, total, opened)
            rows.append(
                {
                    "update": [double(value) for value in update],
                    "seed": seed.hex(),
                    "indices": indices,
                    "values": [double(value) for value in values],
                    "words": words,
                    "state": party.state(),
                }
            )
        rounds.append(
            {
                "parties": rows,
                "survivors": survivors,
                "sum": sum_,
                "counts": counts,
                "opened": len(opened),
                "withheld": sum(count > 0 for count in counts) - len(opened),
                "mean": [double(value) for value in means(spec, sum_, counts, opened, (divisor, survivors))],
            }
        )
    return {
        "spec": told(spec),
        "schedule": {
            **asdict(schedule),
            "first": float(Fraction(schedule.first)),
            "last": float(Fraction(schedule.last)),
        },
        "minimum": minimum,
        "divisor": divisor,
        "rounds": rounds,
    }


def compact_tensors(spec: Spec, indices: list[int]) -> tuple[tuple[int, float], ...]:
    """How many coordinates were chosen of each tensor that has any."""
    rows, start = [], 0
    for length, clip in spec.tensors:
        chosen = sum(start <= d < start + length for d in indices)
        if chosen:
            rows.append((chosen, clip))
        start += length
    return tuple(rows)


def means(
    spec: Spec, sum_: list[int], counts: list[int], opened: set[int], divided: tuple[str, int]
) -> list[float]:
    """Coordinate by coordinate, as if each had a vector of its own.

    ``divided`` says whether a mean is over the senders, as such a vector's is, or over so many survivors.
    """
    clips = spec.clips()
    divisor, survivors = divided
    result = []
    for d, (word, count) in enumerate(zip(sum_, counts, strict=True)):
        one = replace(spec, dim=1, clip=clips[d], tensors=())
        mean = decode(one, [word], count)[0][0] if d in opened else 0.0
        result.append(mean * (count / survivors) if divisor == "parties" else mean)
    return result


def vectors() -> dict[str, object]:
    """Everything that goes into ``sparse.json``."""
    plain = Spec(dim=24, bits=10, clip=0.5, parties=5)
    layers = replace(plain, tensors=((11, 0.5), (1, 2.0), (12, 1e-3)), bits=16)
    tenth = Schedule("1/10", "1/10", 0, 1)
    falling = Schedule("8/10", "1/10", 3, 1)
    wide = ["wide"] * 4
    return {
        "kept": [
            [
                float(Fraction(s.first)),
                float(Fraction(s.last)),
                s.steps,
                s.rounds_per_step,
                done,
                length,
                s.kept(done, length),
            ]
            for s in (tenth, falling, Schedule("8/10", "1/10", 3, 10), Schedule("1", "1/1000", 7, 2))
            for done in (0, 1, 2, 3, 10, 14, 29, 30, 10**12)
            for length in (1, 7, 10, 100, 1000)
        ],
        "cases": [
            case("plain", plain, tenth, ["small", "wide", "small", "small"], 1),
            case("senders", plain, tenth, ["small", "wide", "small", "small"], 1, divisor="senders"),
            case("ties", plain, Schedule("3/8", "3/8", 0, 1), ["ties"] * 4, 2),
            case("layers", layers, falling, [*wide, "small", "small"], 1),
            case("minimum", layers, falling, wide, 2, parties=4),
            case("nearest", replace(layers, rounding="nearest", bits=2), falling, wide, 1),
            case("sent", replace(plain, max_norm=0.9), Schedule("1/4", "1/4", 0, 1), wide, 1),
            case("norm", replace(plain, clipping="l2"), Schedule("1/4", "1/4", 0, 1), wide, 1),
            case("fixed", replace(layers, kind="fixed64"), falling, wide, 2),
            case("fixed senders", replace(layers, kind="fixed64"), falling, wide, 2, divisor="senders"),
            case("fine", replace(layers, bits=32), falling, ["fine"] * 4, 1),
        ],
    }
