"""What three servers make of updates: whole numbers, what they let through of them, and a rule.

Honest parties send levels from 0 to 2^bits - 1 of a vector whose norm is at most the clip, rounded at random
(docs/wire-derivations.md). The servers see x = 2 · level - (2^bits - 1), so that 2^bits - 1 is as long as the
clip. Attackers need not use that encoding. What limits their numbers depends on the rule:

* Sums (``fedavg``, ``weighted``): nothing but that the sum of the levels must be one that honest parties can
  have. Otherwise it is refused, and the round gives no model. Weights are taken after rounding, the protocol
  takes them before.
* Rules of coordinates (``median``, ``trimmed_mean``): each number is one of the levels.
* All others: the range gate, 80 random rows of -1, 0 and 1, whose products with a vector must be at most β in
  size. β is the power of two that is 6 · B or next above, and honest vectors are at most B long. Attackers
  send vectors that are as long as passes nearly always.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum import rules

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

RULES = (
    "fedavg",
    "weighted",
    "clipped",
    "fltrust",
    "krum",
    "multi_krum",
    "median",
    "trimmed_mean",
    "cosine",
)
SUMS = ("fedavg", "weighted")
OF_COORDINATES = ("median", "trimmed_mean")

ROWS = 80
DEVIATIONS = 4.5
"""β is so many standard deviations of a row's product with an attacker's longest vector: 80 rows let it pass
with probability 0.999."""


@dataclass(frozen=True)
class Encoding:
    """From numbers to the whole numbers that servers have, and back.

    Attributes
    ----------
    dim : int
        D.
    clip : float
        The largest norm.
    bits : int
        Of a level.
    """

    dim: int
    clip: float
    bits: int = 16

    @property
    def top(self) -> int:
        """The largest level."""
        return (1 << self.bits) - 1

    @property
    def unit(self) -> float:
        """What 1 of the servers' numbers is."""
        return self.clip / self.top

    @property
    def bound(self) -> int:
        """B: rounding moves each number by less than 2."""
        return math.ceil(self.top + 2 * math.sqrt(self.dim))

    @property
    def beta(self) -> int:
        """What a row's product may be."""
        return 1 << (6 * self.bound - 1).bit_length()

    @property
    def exponent(self) -> int:
        """I: what passes the gate is shorter than 2^I."""
        return self.beta.bit_length() + 2

    @property
    def reach(self) -> float:
        """The length of attackers' longest vectors at the gate."""
        return self.beta * math.sqrt(2) / DEVIATIONS

    def sent(self, updates: Floats, bad: Flags, rule: str, random: Floats) -> Whole:
        """The numbers of all parties, of which some are attackers, shape ``(n, D)``."""
        numbers = self.honest(updates, random)
        numbers[bad] = self.attackers(updates[bad], rule)
        return numbers

    def honest(self, updates: Floats, random: Floats) -> Whole:
        """Honest parties' numbers; ``random`` is uniform from 0 to 1, of the shape of the updates."""
        lengths = np.linalg.norm(updates, axis=1, keepdims=True)
        shorter = updates * np.divide(
            self.clip, lengths, out=np.ones_like(lengths), where=lengths > self.clip
        )
        exact = np.clip(shorter * (self.top / 2 / self.clip) + self.top / 2, 0, self.top)
        levels: Whole = np.minimum(np.floor(exact + random), self.top).astype(np.int64)
        return 2 * levels - self.top

    def attackers(self, updates: Floats, rule: str) -> Whole:
        """Attackers' numbers: as near to what they want as the servers let through."""
        wanted = updates / self.unit
        if rule not in (*SUMS, *OF_COORDINATES):
            lengths = np.linalg.norm(wanted, axis=1, keepdims=True)
            wanted *= np.minimum(1.0, self.reach / np.maximum(lengths, 1))
        # An honest number is odd.
        numbers = 2 * np.rint((wanted - 1) / 2).astype(np.int64) + 1
        if rule in OF_COORDINATES:
            numbers = np.clip(numbers, -self.top, self.top)
        return numbers

    def passed(self, numbers: Whole, rng: np.random.Generator) -> Flags:
        """Who passes the gate."""
        signs = rng.integers(0, 2, (2, ROWS, self.dim), dtype=np.int8)
        # Exact: products stay far below 2^53.
        products = numbers.astype(np.float64) @ (signs[0] - signs[1]).astype(np.float64).T
        within: Flags = (np.abs(products) <= self.beta).all(axis=1)
        return within


@dataclass(frozen=True)
class Told:
    """What a rule is told.

    Attributes
    ----------
    clip : float
        Of ``clipped``, in units of the model.
    bad : int
        How many parties may attack: f of Krum, and what is trimmed at either end.
    weights : numpy.ndarray
        Of the parties, as they say; shape ``(n,)``.
    root : numpy.ndarray
        The servers' own update, for ``fltrust``; shape ``(D,)``.
    """

    clip: float
    bad: int
    weights: Whole
    root: Floats


@dataclass(frozen=True)
class Outcome:
    """What comes out of a round.

    Attributes
    ----------
    mean : numpy.ndarray
        Shape ``(D,)``; zeros where there is none.
    refused : bool
        There was a sum that no honest parties could have.
    passed : numpy.ndarray
        Whose vectors counted; the gate left the others out. Shape ``(n,)``.
    bound : float
        How far the servers' result may be from this one, in a coordinate.
    """

    mean: Floats
    passed: Flags
    refused: bool = False
    bound: float = 0.0


def aggregate(
    rule: str, encoding: Encoding, numbers: Whole, told: Told, rng: np.random.Generator, bounded: bool = False
) -> Outcome:
    """Apply a rule to the numbers that servers have, shape ``(n, D)``.

    Where ``bounded``, the error bound of rules that are no sums is found as well.
    """
    passed = np.ones(len(numbers), dtype=bool)
    if rule in SUMS:
        weights = told.weights if rule == "weighted" else np.ones_like(told.weights)
        if (np.abs(weights @ numbers) > weights.sum() * encoding.top).any():
            return Outcome(np.zeros(encoding.dim), passed, refused=True)
    elif rule not in OF_COORDINATES:
        passed = encoding.passed(numbers, rng)
    counted = numbers[passed]
    options = _options(rule, encoding, told)
    mean = getattr(rules, rule)(counted, **options) * encoding.unit
    bound = 0.0
    if bounded and rule not in SUMS:
        bound = rules.error_bound(rule, counted, exponent=30, **options) * encoding.unit
    return Outcome(mean, passed, bound=bound)


def _options(rule: str, encoding: Encoding, told: Told) -> dict[str, Any]:
    """The options of a rule, in units of the servers."""
    match rule:
        case "weighted":
            return {"weights": told.weights}
        case "clipped":
            return {"clip": round(told.clip / encoding.unit)}
        case "fltrust":
            return {"root": told.root / encoding.unit}
        case "krum" | "multi_krum":
            return {"bad": told.bad}
        case "trimmed_mean":
            return {"trim": told.bad}
    return {}
