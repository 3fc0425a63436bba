"""Ramp sharing (`fssa`, `pss`) of whole vectors: sampling, sharing, adding, rebuilding, on paper.

Polynomials are evaluated by Horner's rule and found by Newton's; the library transforms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from . import aes
from .prime import FIELD47, FIELD48, PrimeField, crt, secret_points, share_points

TILE = 256
"""Blocks that draw their randomness together."""
STRETCH = 2**35
"""Bytes of the keystream that belong to one tile and field."""
SCAN = 256
"""Bytes of the keystream that are computed at a time."""

Rows = list[list[int]]


@dataclass(frozen=True)
class Shape:
    """How a vector is shared.

    Attributes
    ----------
    embedding
        ``coefficients`` (`fssa`) or ``evaluations`` (`pss`).
    n, k, l
        Shares of a block, shares that rebuild it, words in it.
    """

    embedding: str
    n: int
    k: int
    l: int  # noqa: E741 the letter of the papers

    @property
    def random(self) -> int:
        """Random elements of a block."""
        return self.k - self.l

    def polynomial(self, field: PrimeField, secrets: list[int], random: list[int]) -> list[int]:
        """Coefficients of a block's polynomial."""
        content = secrets + random
        assert (len(secrets), len(random)) == (self.l, self.random)
        if self.embedding == "coefficients":
            return content
        return field.newton(secret_points(field, self.k), content)

    def share(self, field: PrimeField, secrets: Rows, random: Rows) -> Rows:
        """Shares [n x blocks] of secrets [l x blocks] with randomness [k - l x blocks]."""
        columns = zip(*secrets, *random, strict=True)
        polynomials = [self.polynomial(field, list(c[: self.l]), list(c[self.l :])) for c in columns]
        return [[field.horner(f, x) for f in polynomials] for x in share_points(field, self.n)]

    def rebuild(self, field: PrimeField, shares: dict[int, list[int]]) -> Rows:
        """The secrets [l x blocks] behind k shares by rank."""
        assert len(shares) == self.k
        points = share_points(field, self.n)
        used = [points[rank] for rank in shares]
        if self.embedding == "coefficients":
            polynomials = [field.newton(used, list(values)) for values in zip(*shares.values(), strict=True)]
            return [[f[e] for f in polynomials] for e in range(self.l)]
        return values_at(field, used, secret_points(field, self.k)[: self.l], list(shares.values()))

    def others(self, field: PrimeField, shares: dict[int, list[int]], ranks: list[int]) -> Rows:
        """The shares that other ranks must have beside these k."""
        points = share_points(field, self.n)
        used, targets = [points[rank] for rank in shares], [points[rank] for rank in ranks]
        return values_at(field, used, targets, list(shares.values()))


def values_at(field: PrimeField, points: list[int], targets: list[int], rows: Rows) -> Rows:
    """Values at the targets of the polynomials that have a column of values at the points."""
    bases = [field.lagrange(points, x) for x in targets]
    return [
        [sum(w * v for w, v in zip(basis, column, strict=True)) % field.p for column in zip(*rows)]
        for basis in bases
    ]


def blocks_of(words: list[int], packed: int) -> Rows:
    """Words in ``packed`` rows, one after the other; column b is block b. Zeros fill the last row."""
    blocks = -(-len(words) // packed)
    padded = words + [0] * (packed * blocks - len(words))
    return [padded[blocks * e : blocks * (e + 1)] for e in range(packed)]


def draws(field: PrimeField, seed: bytes, start: int) -> Iterator[int]:
    """All draws from a byte of the keystream on."""
    while True:
        stream = aes.counter_stream(seed, start, SCAN)
        for i in range(0, SCAN, field.draw):
            yield int.from_bytes(stream[i : i + field.draw], "little") % 2 ** field.bits()
        start += SCAN


def sample(fields: tuple[PrimeField, ...], index: int, seed: bytes, rows: int, blocks: int) -> Rows:
    """Random elements [rows x blocks] for the field with this index."""
    field = fields[index]
    sampled: Rows = [[] for _ in range(rows)]
    for tile, first in enumerate(range(0, blocks, TILE)):
        start = (tile * len(fields) + index) * STRETCH
        accepted = (draw for draw in draws(field, seed, start) if draw < field.p)
        for row in sampled:
            row += [next(accepted) for _ in range(min(TILE, blocks - first))]
    return sampled


@dataclass(frozen=True)
class Vector:
    """Sharing of a vector of words over one field or over the pair of the two larger ones."""

    shape: Shape
    fields: tuple[PrimeField, ...]
    words: int

    @property
    def blocks(self) -> int:
        """Blocks of the vector: elements of a column in each field."""
        return -(-self.words // self.shape.l)

    def columns(self, words: list[int], seed: bytes) -> list[list[list[int]]]:
        """What each rank gets: a row of elements a field."""
        secrets = blocks_of(words, self.shape.l)
        shared = []
        for index, field in enumerate(self.fields):
            random = sample(self.fields, index, seed, self.shape.random, self.blocks)
            reduced = [[word % field.p for word in row] for row in secrets]
            shared.append(self.shape.share(field, reduced, random))
        return [list(rows) for rows in zip(*shared, strict=True)]

    def pack(self, column: list[list[int]]) -> bytes:
        """A column on the wire: all elements of the first field, then those of the second."""
        return b"".join(field.pack(row) for field, row in zip(self.fields, column, strict=True))

    def unpack(self, packed: bytes) -> list[list[int]]:
        """Undo :meth:`pack`."""
        column, start = [], 0
        for field in self.fields:
            end = start + field.size * self.blocks
            row = field.unpack(packed[start:end])
            assert row is not None
            column.append(row)
            start = end
        assert start == len(packed)
        return column

    def add(self, columns: list[list[list[int]]]) -> list[list[int]]:
        """Columns of one rank, added up."""
        rows = zip(*columns, strict=True)
        return [
            [sum(elements) % field.p for elements in zip(*of_field, strict=True)]
            for field, of_field in zip(self.fields, rows, strict=True)
        ]

    def open(self, columns: dict[int, list[list[int]]]) -> list[int]:
        """The words behind k columns by rank, as the integers that they are."""
        rebuilt = [
            self.shape.rebuild(field, {rank: column[index] for rank, column in columns.items()})
            for index, field in enumerate(self.fields)
        ]
        numbers = [[element for row in rows for element in row][: self.words] for rows in rebuilt]
        if len(self.fields) == 1:
            return numbers[0]
        assert self.fields == (FIELD47, FIELD48)
        return [crt(a, b) for a, b in zip(*numbers, strict=True)]

    def decode(self, columns: dict[int, list[list[int]]]) -> tuple[list[int], set[int]] | None:
        """Words and wrong ranks of the polynomials that explain nearly all columns."""
        k = self.shape.k
        for subset in combinations(sorted(columns), k):
            given = {rank: columns[rank] for rank in subset}
            ranks = [rank for rank in columns if rank not in given]
            expected = [
                self.shape.others(field, {rank: column[index] for rank, column in given.items()}, ranks)
                for index, field in enumerate(self.fields)
            ]
            rows = zip(*expected, strict=True)
            wrong = {rank for rank, row in zip(ranks, rows, strict=True) if list(row) != columns[rank]}
            if len(wrong) <= (len(columns) - k) // 2:
                return self.open(given), wrong
        return None
