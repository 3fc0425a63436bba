"""Parties of `pss-malicious` that lie."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import isqrt

from .pss_malicious_party import Party, Response
from .pss_malicious_proof import P, Statement
from .ramp_sharing import Rows


class WrongShare(Party):
    """Deals the party of rank 1 a column in which the last share is one more."""

    def deal(self) -> Rows:
        """All columns, one of them wrong."""
        columns, at = super().deal(), self.round.statement.rows - 1
        columns[1][at] = (columns[1][at] + 1) % P
        return columns


class Silent(WrongShare):
    """The same, and shows nothing."""

    def show(self, accusers: list[int]) -> bytes | None:
        """Nothing."""
        return None


class Rubbish(Party):
    """Seals rubbish for the party of rank 1, and gives a wrong sum of columns."""

    def sealed(self, peer: int) -> bytes:
        """What opens, or does not."""
        right = super().sealed(peer)
        return right[:-1] + bytes([right[-1] ^ 1]) if peer == 1 else right

    def aggregate(self, survivors: set[int]) -> list[int]:
        """A sum whose last element is one more."""
        *others, last = super().aggregate(survivors)
        return [*others, (last + 1) % P]


class WrongAnswer(Party):
    """Adds 1 to its last answer about the parties 0 and 2, and to its first one about party 4."""

    def answer(self) -> Response:
        """Answers, some of them wrong."""
        right = super().answer()
        answers = {prover: list(answer) for prover, answer in right.answers.items()}
        for prover, at in ((0, -1), (2, -1), (4, 0)):
            answers[prover][at] = (answers[prover][at] + 1) % P
        return Response(right.unusable, answers)


class MassAccuser(Party):
    """Finds the columns of the first three others unusable."""

    def answer(self) -> Response:
        """Nothing about some, right answers about the others."""
        right = super().answer()
        unusable = set([prover for prover in self.provers if prover != self.me][:3])
        nothing = [0] * len(self.round.statement.masks)
        answers = {p: nothing if p in unusable else answer for p, answer in right.answers.items()}
        return Response(unusable, answers)


class TooLong(Party):
    """Shares a vector that is too long, with bits of the largest norm that there may be."""

    def others(self, seed: bytes) -> Rows:
        """Rows of which only the last ones do not fit."""
        statement = self.round.statement
        assert statement.most is not None
        true = replace(statement, most=2**40)
        rows = true.other_rows(self.words, [])[: statement.rows - statement.blocks - statement.norm_rows]
        return rows + statement.in_rows([1] * statement.most.bit_length())


class WrongShareAndRubbish(WrongShare):
    """Deals the party of rank 1 a wrong column, and seals rubbish for the one of rank 5."""

    def sealed(self, peer: int) -> bytes:
        """What opens, or does not."""
        right = super().sealed(peer)
        return right[:-1] + bytes([right[-1] ^ 1]) if peer == 5 else right


class OtherWords(Party):
    """Commits to other words for the party of rank 1 than it deals, and shows nothing."""

    def committed(self, rank: int, words: bytes) -> bytes:
        """A commitment to words of which the last bit is another."""
        return super().committed(rank, bytes([words[0] ^ 1]) + words[1:] if rank == 1 else words)

    def show(self, accusers: list[int]) -> bytes | None:
        """Nothing: no column fits both commitments."""
        return None


class Wrapped(Party):
    """Shares a vector whose squares add up to a little more than p, and the nearest bits of projections."""

    def others(self, seed: bytes) -> Rows:
        """Rows that are right but for the bits of projections."""
        statement = self.round.statement
        return statement.other_rows(self.words, nearest(statement, self.words, seed))


def nearest(statement: Statement, words: list[int], seed: bytes) -> list[int]:
    """Projections, or the values that are nearest to them among those that have bits."""
    most = statement.largest
    return [max(min(value, most), -most) for value in statement.projections(words, seed)]


def wrapping(statement: Statement) -> list[int]:
    """At least five words of which v(v + 1) adds up to p and no more than T."""
    assert statement.most is not None
    for less in count():
        left, found = P + statement.most, list[int]()
        for others in reversed(range(statement.words)):
            # As large as all others; the last four take what is left.
            share = left // (others + 1) if others > 3 else left
            found.append((isqrt(4 * share + 1) - 1) // 2 - (0 if found else less))
            left -= found[-1] * (found[-1] + 1)
        if left <= statement.most:
            return [v + statement.half for v in found]
    raise AssertionError
