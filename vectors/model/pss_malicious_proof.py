"""What a party of `pss-malicious` proves: rows, tests, masks, columns and answers, one number at a time.

Polynomials are found by Newton's rule and evaluated by Horner's, as in ``ramp_sharing.py``.
Bounds are exact fractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import islice
from math import floor

from .prime import FIELD47, secret_points, share_points
from .pss_malicious_projections import (
    PROJECTIONS,
    bits_to,
    coefficients,
    largest_projection,
    projections,
    weights_to,
)
from .ramp_sharing import Rows, Shape, blocks_of, draws, sample

FIELD = FIELD47
P = FIELD.p
REPETITIONS = 2
STRETCH = 2**35
"""Bytes of a keystream that belong to one test in one repetition."""
ENTRIES, L2 = "entries", "l2"
TESTS = (
    "degree",
    "input-bit",
    "input-bound",
    "quadratic",
    "norm-bit",
    "norm",
    "projection-bit",
    "projection",
)
SUMS = "norm", "projection"
"""Tests in which the values at the points of words have the sum 0."""


def largest_norm(bits: int, clip: float, max_norm: float, dim: int, rounding: str = "stochastic") -> int:
    """T: the most that squares may add up to, so that no norm of what words mean is above ``max_norm``.

    Squares are v * v with rounding to nearest, where the word of 0 is v = 0, and v(v + 1) otherwise, where 0
    lies between v = -1 and v = 0.
    """
    if rounding == "nearest":
        return floor((Fraction(max_norm) * (2 ** (bits - 1) - 1) / Fraction(clip)) ** 2)
    step = 2 * Fraction(clip) / (2**bits - 1)
    return floor((4 * Fraction(max_norm) ** 2 / step**2 - dim) / 4)


def elements(seed: bytes, repetition: int, test: int, count: int) -> list[int]:
    """Random elements of one test in one repetition."""
    accepted = (draw for draw in draws(FIELD, seed, (8 * repetition + test) * STRETCH) if draw < P)
    return list(islice(accepted, count))


def multiply(a: list[int], b: list[int]) -> list[int]:
    """The product of two polynomials."""
    product = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] = (product[i + j] + x * y) % P
    return product


@dataclass(frozen=True)
class Statement:
    """What is proved of a vector of ``words`` words of ``bits`` bits, and how it is shared.

    Attributes
    ----------
    most
        T, the largest sum of squares; None where there is no norm.
    n, k, l
        Shares of a row, shares that rebuild it, numbers in it.
    bound
        What the norm is proved by: bits of all words (``entries``) or projections (``l2``).
    nearest
        Whether words were rounded to nearest: 0 is a word, in the middle of an odd number of them.
    """

    bits: int
    words: int
    most: int | None
    n: int
    k: int
    l: int  # noqa: E741 the letter of the papers
    bound: str = ENTRIES
    nearest: bool = False

    @property
    def last(self) -> int:
        """t: the largest word."""
        return 2**self.bits - (2 if self.nearest else 1)

    @property
    def blocks(self) -> int:
        """B: rows of words."""
        return -(-self.words // self.l)

    @property
    def half(self) -> int:
        """o: the word that means 0, or half a step below it."""
        return 2 ** (self.bits - 1) - int(self.nearest)

    @property
    def norm_rows(self) -> int:
        """G: rows of bits of the norm."""
        return 0 if self.most is None else -(-self.most.bit_length() // self.l)

    @property
    def bit_rows(self) -> int:
        """Rows of bits of the words."""
        return 0 if self.bound == L2 else self.bits * self.blocks

    @property
    def largest(self) -> int:
        """Y: the largest projection."""
        assert self.most is not None
        return largest_projection(self.most, self.blocks * self.l)

    @property
    def projection_rows(self) -> int:
        """P: rows of bits of projections."""
        if self.bound == ENTRIES:
            return 0
        return -(-PROJECTIONS * (2 * self.largest).bit_length() // self.l)

    @property
    def rows(self) -> int:
        """R."""
        of_words = (1 + (self.most is not None)) * self.blocks + self.bit_rows
        return of_words + self.norm_rows + self.projection_rows

    @property
    def tests(self) -> list[int]:
        """The numbers of the tests."""
        if self.bound == L2:
            return [0, 3, 4, 5, 6, 7]
        return list(range(3 if self.most is None else 6))

    @property
    def masks(self) -> list[tuple[int, int]]:
        """Repetition and test of every mask, in their order."""
        return [(repetition, test) for repetition in range(REPETITIONS) for test in self.tests]

    @property
    def column(self) -> int:
        """Bytes of a column."""
        return FIELD.size * (self.rows + len(self.masks))

    @property
    def answer(self) -> int:
        """Bytes of the answers about one prover."""
        return FIELD.size * len(self.masks)

    @property
    def word_points(self) -> list[int]:
        """h_e: where the numbers of a row are."""
        return secret_points(FIELD, self.k)[: self.l]

    @property
    def share_points(self) -> list[int]:
        """The points of the parties."""
        return share_points(FIELD, self.n)

    def coefficients(self, test: int) -> int:
        """Coefficients of the polynomial on which answers are."""
        if TESTS[test] in SUMS:
            return self.k + self.l - 1
        return self.k if TESTS[test] in {"degree", "input-bound"} else 2 * self.k - 1

    # --- Rows ---

    def square(self, word: int) -> int:
        """The square: v * v with rounding to nearest, v(v + 1) otherwise."""
        return (word - self.half) * (word - self.half + int(not self.nearest))

    def weights(self) -> list[int]:
        """What each bit of the norm counts."""
        assert self.most is not None
        return weights_to(self.most)

    def projection_weights(self) -> list[int]:
        """What each bit of a projection counts."""
        return weights_to(2 * self.largest)

    def padded(self, words: list[int]) -> list[int]:
        """Words, and what stands behind their end."""
        assert len(words) == self.words
        padding = 0 if self.most is None else self.half
        return words + [padding] * (self.blocks * self.l - self.words)

    def in_rows(self, bits: list[int]) -> Rows:
        """Bits of a norm or of projections, zeros behind them."""
        filled = bits + [0] * (-len(bits) % self.l)
        return [filled[start:][: self.l] for start in range(0, len(filled), self.l)]

    def projections(self, words: list[int], seed: bytes) -> list[int]:
        """All projections of a vector; none where there are no such rows."""
        if self.bound == ENTRIES:
            return []
        return projections(seed, [word - self.half for word in self.padded(words)])

    def word_rows(self, words: list[int]) -> Rows:
        """The rows of words."""
        return [list(row) for row in zip(*blocks_of(self.padded(words), self.l), strict=True)]

    def other_rows(self, words: list[int], projected: list[int]) -> Rows:
        """All rows that follow from words and projections."""
        of_words, found = self.word_rows(words), []
        if self.most is not None:
            found += [[self.square(word) % P for word in row] for row in of_words]
        if self.bound == ENTRIES:
            of_bits = [[bits_to(self.last, word) for word in row] for row in of_words]
            found += [[bits[s] for bits in row] for s in range(self.bits) for row in of_bits]
        if self.most is not None:
            total = sum(self.square(word) for row in of_words for word in row) % P
            found += self.in_rows(bits_to(self.most, total))
        for_all = [bit for value in projected for bit in bits_to(2 * self.largest, self.largest + value)]
        found += self.in_rows(for_all)
        assert len(found) == self.rows - self.blocks
        return found

    def content(self, words: list[int], seed: bytes = b"") -> Rows:
        """The R rows of numbers of a vector; the seed is that of projections."""
        return self.word_rows(words) + self.other_rows(words, self.projections(words, seed))

    def share(self, content: Rows, seed: bytes) -> Rows:
        """Shares [n x rows] of some rows of numbers, which have random elements of their own."""
        shape = Shape("evaluations", self.n, self.k, self.l)
        random = sample((FIELD,), 0, seed, shape.random, len(content))
        secrets = [list(column) for column in zip(*content, strict=True)]
        return shape.share(FIELD, secrets, random)

    # --- Masks ---

    def mask(self, seed: bytes, repetition: int, test: int) -> list[int]:
        """The polynomial that masks the answers to a test."""
        size, points = self.coefficients(test), self.word_points
        if test == 0:
            return elements(seed, repetition, test, size)
        if TESTS[test] in SUMS:
            free = elements(seed, repetition, test, size - 1)
            total = sum(phi * sum(pow(h, i + 1, P) for h in points) for i, phi in enumerate(free))
            return [-total * FIELD.inverse(self.l) % P, *free]
        product = elements(seed, repetition, test, size - self.l)
        for h in points:
            product = multiply(product, [-h % P, 1])
        assert len(product) == size
        return product

    def mask_values(self, seed: bytes, rank: int) -> list[int]:
        """The masks at a party's point."""
        point = self.share_points[rank]
        return [FIELD.horner(polynomial, point) for polynomial in self.all_masks(seed)]

    @cache  # noqa: B019 statements are few
    def all_masks(self, seed: bytes) -> list[list[int]]:
        """All masks in their order."""
        return [self.mask(seed, repetition, test) for repetition, test in self.masks]

    def columns(self, word_shares: Rows, others: Rows, rows_seed: bytes, masks_seed: bytes) -> Rows:
        """The column of each rank, of the shares of the words and all other rows."""
        parts = zip(word_shares, self.share(others, rows_seed), strict=True)
        return [words + row + self.mask_values(masks_seed, rank) for rank, (words, row) in enumerate(parts)]

    # --- Answers ---

    @cache  # noqa: B019 statements are few
    def challenge(self, challenge: bytes, repetition: int, test: int) -> list[int]:
        """The factors of a test."""
        blocks = self.blocks
        counts = self.rows, self.bit_rows, blocks, blocks, self.norm_rows, 1, self.projection_rows
        return elements(challenge, repetition, test, (*counts, PROJECTIONS)[test])

    @cache  # noqa: B019 statements are few
    def basis(self, rank: int) -> list[int]:
        """Values at a party's point of the polynomials that are 1 at one point of words, 0 at the others."""
        return FIELD.lagrange(self.word_points, self.share_points[rank])

    def through(self, rank: int, values: list[int]) -> list[int]:
        """Value at a party's point of the polynomials through l values each."""
        basis = self.basis(rank)
        return [sum(b * v for b, v in zip(basis, row, strict=True)) % P for row in self.in_rows(values)]

    @cache  # noqa: B019 statements are few
    def combined_coefficients(self, seed: bytes, challenge: bytes, repetition: int) -> list[int]:
        """What all X_b go through, block by block."""
        factors = self.challenge(challenge, repetition, TESTS.index("projection"))
        of_all = coefficients(seed, self.blocks * self.l)
        at = [e * self.blocks + b for b in range(self.blocks) for e in range(self.l)]
        return [sum(r * of_one[i] for r, of_one in zip(factors, of_all, strict=True)) % P for i in at]

    def answers(self, column: list[int], rank: int, challenge: bytes, seed: bytes = b"") -> list[int]:
        """What a party with this column answers; the seed is that of the prover's projections."""
        tested = [
            self.tested(column, rank, self.challenge(challenge, repetition, test), test)
            if TESTS[test] != "projection"
            else self.projected(column, rank, challenge, repetition, seed)
            for repetition, test in self.masks
        ]
        masks = column[self.rows :]
        return [(value + mask) % P for value, mask in zip(tested, masks, strict=True)]

    def tested(self, column: list[int], rank: int, factors: list[int], test: int) -> int:
        """The combination of shares that a test asks for."""
        blocks, rest = self.blocks, iter(column[: self.rows])
        words = list(islice(rest, blocks))
        squares = list(islice(rest, blocks if self.most is not None else 0))
        beta = list(islice(rest, self.bit_rows))
        gamma = list(islice(rest, self.norm_rows))
        delta = list(rest)
        combined: Iterator[int]
        match TESTS[test]:
            case "degree":
                combined = iter(column[: self.rows])
            case "input-bit":
                combined = (b - b * b for b in beta)
            case "input-bound":
                combined = (
                    u - sum(c * beta[s * blocks + b] for s, c in enumerate(weights_to(self.last)))
                    for b, u in enumerate(words)
                )
            case "quadratic":
                combined = (y - self.square(u) for y, u in zip(squares, words, strict=True))
            case "norm-bit":
                combined = (g - g * g for g in gamma)
            case "projection-bit":
                combined = (d - d * d for d in delta)
            case _:
                weights = self.through(rank, self.weights())
                said = sum(w * value for w, value in zip(weights, gamma, strict=True))
                combined = iter([sum(squares) - said])
        return sum(r * value for r, value in zip(factors, combined, strict=True)) % P

    def projected(self, column: list[int], rank: int, challenge: bytes, repetition: int, seed: bytes) -> int:
        """What the projections of the words come to, less what their bits say."""
        factors = self.challenge(challenge, repetition, TESTS.index("projection"))
        x = self.through(rank, self.combined_coefficients(seed, challenge, repetition))
        v = self.through(rank, [r * w for r in factors for w in self.projection_weights()])
        words, delta = column[: self.blocks], column[: self.rows][-self.projection_rows :]
        right = sum(b * (u - self.half) for b, u in zip(x, words, strict=True))
        shift = self.largest * FIELD.inverse(self.l) * sum(factors)
        return (right + shift - sum(w * d for w, d in zip(v, delta, strict=True))) % P

    def holds(self, test: int, polynomial: list[int]) -> bool:
        """Whether a polynomial on which the answers are is as the test wants."""
        values = [FIELD.horner(polynomial, h) for h in self.word_points]
        if TESTS[test] in SUMS:
            return sum(values) % P == 0
        return test == 0 or not any(values)
