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
from .ramp_sharing import Rows, Shape, blocks_of, draws, sample

FIELD = FIELD47
P = FIELD.p
REPETITIONS = 2
STRETCH = 2**35
"""Bytes of a keystream that belong to one test in one repetition."""
TESTS = "degree", "input-bit", "input-bound", "quadratic", "norm-bit", "norm"


def largest_norm(bits: int, clip: float, max_norm: float, dim: int) -> int:
    """T: the most that v(v + 1) may add up to, so that no norm of what words mean is above ``max_norm``."""
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
        T, the largest sum of v(v + 1); None where there is no norm.
    n, k, l
        Shares of a row, shares that rebuild it, numbers in it.
    """

    bits: int
    words: int
    most: int | None
    n: int
    k: int
    l: int  # noqa: E741 the letter of the papers

    @property
    def blocks(self) -> int:
        """B: rows of words."""
        return -(-self.words // self.l)

    @property
    def half(self) -> int:
        """o: the word that means 0, or half a step below it."""
        return 2 ** (self.bits - 1)

    @property
    def norm_rows(self) -> int:
        """G: rows of bits of the norm."""
        return 0 if self.most is None else -(-self.most.bit_length() // self.l)

    @property
    def rows(self) -> int:
        """R."""
        return (self.bits + 1 + (self.most is not None)) * self.blocks + self.norm_rows

    @property
    def tests(self) -> range:
        """The numbers of the tests."""
        return range(3 if self.most is None else 6)

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
        return (self.k, 2 * self.k - 1, self.k, 2 * self.k - 1, 2 * self.k - 1, self.k + self.l - 1)[test]

    # --- Rows ---

    def square(self, word: int) -> int:
        """v(v + 1)."""
        return (word - self.half) * (word - self.half + 1)

    def weights(self) -> list[int]:
        """What each bit of the norm counts."""
        assert self.most is not None
        last = self.most.bit_length() - 1
        return [2**i for i in range(last)] + [self.most - 2**last + 1]

    def norm_bits(self, total: int) -> list[int]:
        """Bits that add up to this sum of squares, which is no larger than it may be."""
        assert self.most is not None
        assert 0 <= total <= self.most
        *_, last = weights = self.weights()
        above = total >= 2 ** (len(weights) - 1)
        rest = total - last * above
        return [rest >> i & 1 for i in range(len(weights) - 1)] + [int(above)]

    def content(self, words: list[int]) -> Rows:
        """The R rows of numbers of a vector."""
        assert len(words) == self.words
        padding = 0 if self.most is None else self.half
        padded = words + [padding] * (self.blocks * self.l - self.words)
        of_words = [list(row) for row in zip(*blocks_of(padded, self.l), strict=True)]
        found = list(of_words)
        if self.most is not None:
            found += [[self.square(word) for word in row] for row in of_words]
        found += [[word >> s & 1 for word in row] for s in range(self.bits) for row in of_words]
        if self.most is not None:
            bits = self.norm_bits(sum(self.square(word) for row in of_words for word in row))
            bits += [0] * (self.norm_rows * self.l - len(bits))
            found += [bits[g * self.l :][: self.l] for g in range(self.norm_rows)]
        assert len(found) == self.rows
        return found

    def share(self, content: Rows, seed: bytes) -> Rows:
        """Shares [n x rows] of rows of numbers."""
        shape = Shape("evaluations", self.n, self.k, self.l)
        random = sample((FIELD,), 0, seed, shape.random, self.rows)
        secrets = [list(column) for column in zip(*content, strict=True)]
        return shape.share(FIELD, secrets, random)

    # --- Masks ---

    def mask(self, seed: bytes, repetition: int, test: int) -> list[int]:
        """The polynomial that masks the answers to a test."""
        size, points = self.coefficients(test), self.word_points
        if test == 0:
            return elements(seed, repetition, test, size)
        if TESTS[test] == "norm":
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

    def columns(self, content: Rows, rows_seed: bytes, masks_seed: bytes) -> Rows:
        """The column of each rank."""
        shares = self.share(content, rows_seed)
        return [row + self.mask_values(masks_seed, rank) for rank, row in enumerate(shares)]

    # --- Answers ---

    @cache  # noqa: B019 statements are few
    def challenge(self, challenge: bytes, repetition: int, test: int) -> list[int]:
        """The factors of a test."""
        blocks, rows = self.blocks, self.rows
        count = (rows, self.bits * blocks, blocks, blocks, self.norm_rows, 1)[test]
        return elements(challenge, repetition, test, count)

    def weight_at(self, g: int, point: int) -> int:
        """W_g: the polynomial through what the bits of row g count, here."""
        weights = self.weights() + [0] * self.l
        basis = FIELD.lagrange(self.word_points, point)
        return sum(b * w for b, w in zip(basis, weights[g * self.l :], strict=False)) % P

    def answers(self, column: list[int], rank: int, challenge: bytes) -> list[int]:
        """What a party with this column answers."""
        tested = [
            self.tested(column, rank, self.challenge(challenge, repetition, test), test)
            for repetition, test in self.masks
        ]
        masks = column[self.rows :]
        return [(value + mask) % P for value, mask in zip(tested, masks, strict=True)]

    def tested(self, column: list[int], rank: int, factors: list[int], test: int) -> int:
        """The combination of shares that a test asks for."""
        blocks, bits, rest = self.blocks, self.bits, iter(column[: self.rows])
        words = list(islice(rest, blocks))
        squares = list(islice(rest, blocks if self.most is not None else 0))
        beta = list(islice(rest, bits * blocks))
        gamma = list(rest)
        combined: Iterator[int]
        match TESTS[test]:
            case "degree":
                combined = iter(column[: self.rows])
            case "input-bit":
                combined = (b - b * b for b in beta)
            case "input-bound":
                combined = (
                    u - sum(2**s * beta[s * blocks + b] for s in range(bits)) for b, u in enumerate(words)
                )
            case "quadratic":
                combined = (y - self.square(u) for y, u in zip(squares, words, strict=True))
            case "norm-bit":
                combined = (g - g * g for g in gamma)
            case _:
                point = self.share_points[rank]
                said = sum(self.weight_at(g, point) * value for g, value in enumerate(gamma))
                combined = iter([sum(squares) - said])
        return sum(r * value for r, value in zip(factors, combined, strict=True)) % P

    def holds(self, test: int, polynomial: list[int]) -> bool:
        """Whether a polynomial on which the answers are is as the test wants."""
        values = [FIELD.horner(polynomial, h) for h in self.word_points]
        if TESTS[test] == "norm":
            return sum(values) % P == 0
        return test == 0 or not any(values)
