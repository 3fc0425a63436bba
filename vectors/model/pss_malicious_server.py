"""How the coordinator of `pss-malicious` judges: by trying all sets of answers that could be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

from .prime import share_points
from .pss_malicious_party import HASH, Leaves, Response, Round, column_hash, hashes_in
from .pss_malicious_proof import FIELD, L2, TESTS, P, Statement


def decode(n: int, size: int, values: Mapping[int, int]) -> tuple[list[int], set[int]] | None:
    """The polynomial of ``size`` coefficients through nearly all values, and who has another one."""
    points = share_points(FIELD, n)
    for subset in combinations(sorted(values), size):
        polynomial = FIELD.newton([points[rank] for rank in subset], [values[rank] for rank in subset])
        wrong = {rank for rank, value in values.items() if FIELD.horner(polynomial, points[rank]) != value}
        if 2 * len(wrong) <= len(values) - size:
            return polynomial, wrong
    return None


@dataclass
class Judged:
    """What answers say about a prover.

    Attributes
    ----------
    fault
        Why it has lied; empty where it has not, or where that is not known yet.
    accusers
        Whose answers are wrong, or who cannot use a column.
    polynomials
        Those on which answers are, by the order of masks.
    """

    fault: str
    accusers: set[int] = field(default_factory=set)
    polynomials: list[list[int]] = field(default_factory=list)


def judge(statement: Statement, corrupt: int, answers: Mapping[int, list[int]], unusable: set[int]) -> Judged:
    """Judge a prover by the answers of those who can use its column."""
    polynomials, accusers = [], set(unusable)
    for number, (_, test) in enumerate(statement.masks):
        of_test = {rank: answer[number] for rank, answer in answers.items()}
        decoded = decode(statement.n, statement.coefficients(test), of_test)
        if decoded is None or not statement.holds(test, decoded[0]):
            return Judged(TESTS[test])
        polynomials.append(decoded[0])
        accusers |= decoded[1]
    return Judged("wrong-share" if len(accusers) > corrupt else "", accusers, polynomials)


@dataclass
class Coordinator:
    """The coordinator, once it has the responses."""

    round: Round
    roots: dict[int, bytes]
    challenge: bytes
    responses: dict[int, Response]

    def judge(self) -> None:
        """Find out who has lied for certain (``faults``), and who accuses whom."""
        corrupt = self.round.job.corrupt_parties()
        self.faults = {
            rank: "mass-accuser" for rank, said in self.responses.items() if len(said.unusable) > corrupt
        }
        counted = {rank: said for rank, said in self.responses.items() if rank not in self.faults}
        self.judged = {}
        for prover in self.roots:
            answers = {
                rank: said.answers[prover] for rank, said in counted.items() if prover not in said.unusable
            }
            cannot = {rank for rank, said in counted.items() if prover in said.unusable}
            judged = judge(self.round.statement, corrupt, answers, cannot)
            self.judged[prover] = judged
            if judged.fault:
                self.faults.setdefault(prover, judged.fault)
        self.accused = {
            prover: sorted(judged.accusers)
            for prover, judged in self.judged.items()
            if judged.accusers and not judged.fault
        }

    def settle(self, shown: Mapping[int, bytes]) -> dict[int, dict[int, bytes]]:
        """Settle all disputes; by receiver and prover, the salts and columns that receivers lack."""
        late: dict[int, dict[int, bytes]] = {}
        for prover, accusers in self.accused.items():
            if prover not in shown:
                self.faults[prover] = "silent-discloser"
                continue
            size = len(shown[prover]) // len(accusers)
            for number, accuser in enumerate(accusers):
                said = self.responses[accuser]
                plain, answers = self.opened(prover, accuser, shown[prover][number * size :][:size])
                if answers is None or answers != self.expected(prover, accuser):
                    self.faults[prover] = "wrong-share"
                if prover in said.unusable:
                    late.setdefault(accuser, {})[prover] = plain
                elif said.answers[prover] != answers:
                    self.faults[accuser] = "lying-verifier"
        return late

    def opened(self, prover: int, accuser: int, shown: bytes) -> tuple[bytes, list[int] | None]:
        """Salt and column that were shown, and the answers that follow."""
        statement = self.round.statement
        plain, rest = shown[: HASH + statement.column], shown[HASH + statement.column :]
        height = self.round.height
        sealed, *siblings = hashes_in(rest)
        column, words = column_hash(plain[:HASH], plain[HASH:]), b""
        if statement.bound == L2:
            words = self.round.words_hash(plain[:HASH], plain[HASH:])
        paths = siblings[:height], words, siblings[height:]
        leaves = Leaves(self.round, prover, accuser, sealed, column, *paths)
        assert leaves.root() == self.roots[prover]
        elements = FIELD.unpack(plain[HASH:])
        return plain, elements and statement.answers(elements, accuser, self.challenge, leaves.seed())

    def expected(self, prover: int, rank: int) -> list[int]:
        """The answers that fit those of the others."""
        point = self.round.statement.share_points[rank]
        return [FIELD.horner(polynomial, point) for polynomial in self.judged[prover].polynomials]

    def open(self, sums: Mapping[int, list[int]]) -> list[int]:
        """The words of the sum; whose sums of columns are wrong has lied."""
        statement = self.round.statement
        numbers = []
        for b in range(statement.blocks):
            decoded = decode(statement.n, statement.k, {rank: column[b] for rank, column in sums.items()})
            assert decoded is not None
            polynomial, wrong = decoded
            self.faults |= dict.fromkeys(wrong, "lying-aggregator")
            numbers.append([FIELD.horner(polynomial, h) for h in statement.word_points])
        words = [number % P for row in zip(*numbers, strict=True) for number in row]
        return [word % 2 ** self.round.job.width() for word in words[: statement.words]]
