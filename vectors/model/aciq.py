"""Clipping bounds that follow from how far the coordinates of earlier rounds went."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from .encoding import double

MARKS = (1 / 32, 1 / 4, 1 / 2, 1.0)
CUT, NEAR, SMALL, TINY = 4, 3, 1, 0
NARROWEST = 20
MAX_PATIENCE = 6
CALM = 1024


def reach(values: list[float], bound: float) -> int:
    """How many of the marks some value is above."""
    return sum(any(abs(value) > mark * bound for value in values) for mark in MARKS)


def words(values: list[float], bound: float) -> list[int]:
    """What a vector tells of a tensor."""
    far = reach(values, bound)
    return [1] * far + [0] * (len(MARKS) - far)


@dataclass
class Tensor:
    """One tensor of a history."""

    length: int
    clip: float
    halvings: int = 0
    patience: int = 0
    calm: int = 0
    window: list[int] = field(default_factory=list)
    """How far coordinates went in the rounds since the bound could fall the last time."""

    def bound(self) -> float:
        """The bound of the next round."""
        return self.clip / float(2**self.halvings)

    def observe(self, far: int) -> None:
        """Takes how far coordinates went in a round."""
        if far == CUT and self.halvings:
            self.halvings, self.calm, self.window = 0, 0, []
            self.patience = min(self.patience + 1, MAX_PATIENCE)
            return
        self.calm += 1
        if self.calm == CALM:
            self.calm, self.window = 0, []
            self.patience = max(self.patience - 1, 0)
        if far >= NEAR:
            self.halvings, self.window = max(self.halvings - 1, 0), []
            return
        self.window.append(far)
        if len(self.window) == 2**self.patience:
            fall = {TINY: 4, SMALL: 1}.get(max(self.window), 0)
            self.halvings, self.window = min(self.halvings + fall, NARROWEST), []

    def state(self) -> bytes:
        """It in bytes."""
        few = [self.halvings, self.patience, len(self.window), max(self.window, default=0)]
        return bytes(few) + self.calm.to_bytes(4, "big")


def state(tensors: list[Tensor]) -> str:
    """A history in bytes."""
    saved = b"".join(tensor.state() for tensor in tensors)
    return "03" + len(tensors).to_bytes(4, "big").hex() + saved.hex()


def case(clips: list[float], rounds: list[list[int]]) -> dict[str, object]:
    """A history, by how far the coordinates of each tensor went in each round."""
    tensors = [Tensor(2, clip) for clip in clips]
    steps = []
    for reached in rounds:
        for tensor, far in zip(tensors, reached, strict=True):
            tensor.observe(far)
        steps.append(
            {
                "reached": reached,
                "state": state(tensors),
                "clips": [double(tensor.bound()) for tensor in tensors],
            }
        )
    return {"clips": [double(clip) for clip in clips], "rounds": steps}


def sum_case(bound: float, vectors: list[list[float]]) -> dict[str, object]:
    """The words of some vectors of one tensor, and how far any of them goes."""
    told = [words(vector, bound) for vector in vectors]
    return {
        "bound": double(bound),
        "vectors": [[double(value) for value in vector] for vector in vectors],
        "words": told,
        "reached": max(reach(vector, bound) for vector in vectors),
    }


def drawn(label: str, count: int, most: int) -> list[int]:
    """Numbers from 0 to ``most``."""
    digests = (hashlib.sha256(f"{label}/{i}".encode()).digest() for i in range(count))
    return [int.from_bytes(digest[:4], "big") % (most + 1) for digest in digests]


def vectors() -> dict[str, object]:
    """Everything that goes into ``aciq.json``."""
    many = [drawn(f"any/{i}", 3, 4) for i in range(400)]
    # Mostly small, so that bounds fall and are too small now and then.
    small = [[min(a, 1) if b else 4, a // 2] for a, b in (drawn(f"small/{i}", 2, 3) for i in range(400))]
    return {
        "histories": [
            case([1.0], [[0] for _ in range(6)]),
            case([0.1, 1e30, 1e-30], [[0, 1, 2], [2, 3, 4], [1, 1, 1], [3, 0, 4], [4, 4, 4], [0, 0, 0]]),
            case([10.0, 0.3, 1.0], many),
            case([2.0, 7.0], small),
            # The patience grows, and falls again in rounds in which nothing is cut off.
            case([5.0], [[far] for far in [0, 4, 0, 0, 4, 0, 0, 0, 0, 4] + [2] * 2100 + [1] * 20]),
        ],
        "sums": [
            sum_case(1.0, [[0.0, -1 / 32], [1 / 32, 0.0]]),
            sum_case(1.0, [[0.0, -0.032], [0.001, 0.0]]),
            sum_case(0.3, [[0.2, 0.3], [-0.3, 0.0], [0.0, 0.0]]),
            sum_case(2.0**-50, [[2.0**-50 + 2.0**-102, 0.0], [-(2.0**-51), 2.0**-53]]),
            sum_case(1e-30, [[1e-31, 5e-31], [0.0, 0.0]]),
            sum_case(1e30, [[-1e38, 0.0], [0.0, 0.0]]),
        ],
    }
