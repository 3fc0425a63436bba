"""The numbers of a round: what a coordinator says, and what a party makes of them, with exact probabilities.

Every inequality is tried as it is written down in the documentation; no smallest threshold is looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from math import ceil, comb

from . import parameters
from .crypto import pick
from .derive import framed_hash
from .job import Job
from .ramp_parameters import fields_for, proved_shape, shape, wish_of
from .said import said

SECURITY_BITS = 40
RAMP = ("fssa", "pss")
FRAME, TAG = 34, 16
"""Bytes in front of a message, and behind what is sealed."""


@dataclass(frozen=True)
class Numbers:
    """Neighbours of a party, shares that rebuild, words in a polynomial; 0 where there is no such number."""

    neighbours: int = 0
    threshold: int = 0
    packing: int = 0

    def to_bytes(self) -> bytes:
        """What enters the context of a round."""
        return b"".join(number.to_bytes(4, "big") for number in astuple(self))


def numbers_of(job: Job, n: int) -> Numbers:
    """What the coordinator chooses for a roster of ``n`` parties."""
    if job.protocol in RAMP:
        k, packed = shape(wish_of(job, n), n, job.lanes())
        return Numbers(threshold=k, packing=packed)
    if job.protocol == "pss-malicious":
        k, packed = proved_shape(job, n)
        return Numbers(threshold=k, packing=packed)
    if job.protocol.startswith("secagg"):
        found = parameters.find(job, n, complete=job.protocol == "secagg")
        return Numbers(found.neighbours, found.threshold)
    return Numbers()


def at_least(population: int, marked: int, draws: int, least: int) -> tuple[int, int]:
    """Chance of ``least`` marked ones or more among the draws, as a fraction that is not reduced."""
    if least <= 0:
        return 1, 1
    marked = min(marked, population)
    ways = sum(comb(marked, x) * comb(population - marked, draws - x) for x in range(least, draws + 1))
    return ways, comb(population, draws)


def rarely(times: int, chance: tuple[int, int]) -> bool:
    """Whether something that is tried so often fails with a chance below 2^-40."""
    ways, of = chance
    return (times * ways << SECURITY_BITS) < of


@dataclass(frozen=True)
class Judge:
    """A party that was told numbers for a roster of ``n`` parties."""

    job: Job
    n: int
    told: Numbers

    def broken(self) -> str:
        """Name of the number that breaks a rule; empty where none does."""
        rules = self.ramp() if self.job.protocol in RAMP else self.masking()
        if self.job.protocol in ("plain", "flashe"):
            rules = iter([(name, value == 0) for name, value in vars(self.told).items()])
        return next((name for name, holds in rules if not holds), "")

    def masking(self) -> Iterator[tuple[str, bool]]:
        """Rules of ``secagg`` and ``secagg+``."""
        job, n, neighbours, t = self.job, self.n, self.told.neighbours, self.told.threshold
        yield "packing", self.told.packing == 0
        yield "neighbours", 1 <= neighbours < n and neighbours * n % 2 == 0
        if job.protocol == "secagg":
            yield "neighbours", neighbours == n - 1
        elif job.neighbours:
            yield "neighbours", neighbours == min(job.neighbours + job.neighbours * n % 2, n - 1)
        yield "threshold", job.threshold in (0, t)
        yield "neighbours", not job.is_active() or neighbours >= min(16, n - 1)
        yield "neighbours", self.holds_together()
        yield "threshold", t <= neighbours + 1 and self.keeps_secrets()

    def holds_together(self) -> bool:
        """Whether losses at random places leave the graph in one piece."""
        lost = min(self.job.corrupt_parties() + self.job.losses_among(self.n), self.n)
        run = 2 * (self.told.neighbours // 2)
        if self.told.neighbours == self.n - 1 or run > lost:
            return True
        return rarely(comb(self.n, 2), (comb(self.n - run, lost - run), comb(self.n, lost)))

    def keeps_secrets(self) -> bool:
        """Whether corrupt holders learn no secret, and nobody believes two stories."""
        n, corrupt = self.n, self.job.corrupt_parties()
        neighbours, t = self.told.neighbours, self.told.threshold
        holders, honest, half = neighbours + 1, max(n - corrupt, 1), neighbours // 2
        if not self.job.is_active():
            return rarely(honest, at_least(n - 1, corrupt, neighbours, t))
        twice = 2 * t - holders
        holds = [rarely(honest, at_least(n - 1, corrupt, neighbours, twice))]
        if self.job.protocol == "secagg":
            holds.append(3 * t > 2 * holders)
        elif neighbours < n - 1:
            holds.append(rarely(1, at_least(n, corrupt, holders, twice)))
            in_a_run = t - half - neighbours % 2 - 1
            holds.append(rarely(2 * honest, at_least(n - 1, corrupt, half, in_a_run)))
        return all(holds)

    def ramp(self) -> Iterator[tuple[str, bool]]:
        """Rules of ``fssa`` and ``pss``."""
        job, n, k, packed = self.job, self.n, self.told.threshold, self.told.packing
        corrupt = job.corrupt_parties()
        yield "neighbours", self.told.neighbours == 0
        yield "threshold", job.threshold in (0, k)
        yield "packing", job.packing in (0, packed)
        yield "threshold", k <= n
        yield "threshold", not job.is_active() or 2 * k > n + corrupt
        yield "packing", 1 <= packed <= k - max(corrupt, 1)
        rosters = range(job.least_survivors(), job.parties + 1)
        most = max(columns(job, m, numbers_of(job, m).packing) for m in rosters)
        yield "packing", columns(job, n, packed) <= most


def columns(job: Job, n: int, packed: int) -> int:
    """Bytes of a message with columns for everybody else."""
    largest = (1 << job.bits) - 1
    element = sum((field.p.bit_length() + 7) // 8 for field in fields_for(job.parties * largest))
    return FRAME + (n - 1) * (element * ceil(job.lanes() / packed) + TAG)


def verdicts(job: Job, roster: int, told: list[Numbers]) -> dict[str, object]:
    """A job, a roster, and for each of the numbers which of them breaks a rule."""
    return {
        "spec": said(job),
        "roster": roster,
        "chosen": list(astuple(numbers_of(job, roster))),
        "told": [[*astuple(numbers), Judge(job, roster, numbers).broken()] for numbers in told],
    }


def around(job: Job, roster: int, degrees: tuple[int, ...] = ()) -> dict[str, object]:
    """Many thresholds for some degrees: the chosen one, those beside it, and some that there cannot be."""
    chosen = numbers_of(job, roster)
    told = []
    for neighbours in (chosen.neighbours, *degrees):
        near = range(max(chosen.threshold - 14, 0), chosen.threshold + 4)
        least = neighbours // 2
        thresholds = {*near, 0, 1, *range(least, least + 14), neighbours, neighbours + 1, neighbours + 2}
        told += [Numbers(neighbours, t) for t in sorted(thresholds)]
    told += [replace(chosen, packing=1), Numbers()]
    return verdicts(job, roster, told)


def packings(job: Job, roster: int) -> dict[str, object]:
    """Thresholds and packings around the chosen ones."""
    chosen = numbers_of(job, roster)
    thresholds = {*range(max(chosen.threshold - 6, 0), chosen.threshold + 3), roster, roster + 1}
    told = [
        Numbers(0, k, packed)
        for k in sorted(thresholds)
        for packed in sorted({0, 1, chosen.packing - 1, chosen.packing, chosen.packing + 1, k - 1, k})
        if packed >= 0
    ]
    return verdicts(job, roster, [*told, replace(chosen, neighbours=1), Numbers()])


def table() -> list[dict[str, object]]:
    """Jobs of every kind."""
    plus, full = Job(protocol="secagg+"), Job(protocol="secagg")
    rows = [
        around(replace(job, adversary=adversary, parties=parties, corrupt=corrupt), roster, degrees)
        for adversary in ("semi-honest", "active")
        for job, parties, corrupt, roster, degrees in (
            (full, 5, 0.1, 5, (3,)),
            (full, 60, 0.2, 60, (58,)),
            (full, 60, 0.2, 51, ()),
            (plus, 8, 0.1, 8, (4, 6)),
            (plus, 40, 0.1, 40, (15, 16, 20, 39)),
            (plus, 100, 0.1, 100, (16, 24, 41, 60, 98)),
            (plus, 100, 0.1, 91, (16, 24, 41, 60, 90, 91)),
            (plus, 1000, 0.1, 1000, (16, 100, 301)),
            (plus, 1000, 0.2, 801, (200, 400)),
        )
    ]
    asked = replace(plus, parties=100)
    rows += [around(replace(asked, neighbours=60), n, (59, 61)) for n in (100, 91)]
    rows += [around(replace(asked, neighbours=61), n, (60, 62)) for n in (100, 91)]
    rows.append(around(replace(asked, neighbours=80, min_parties=70), 75, (72,)))
    rows.append(around(replace(full, parties=60, threshold=45), 60))
    long = Job(protocol="fssa", parties=20, dim=1000)
    rows += [
        packings(replace(long, protocol=protocol, adversary=adversary), n)
        for protocol in RAMP
        for adversary in ("semi-honest", "active")
        for n in (20, 18)
    ]
    rows.append(packings(replace(long, threshold=17, packing=9), 20))
    rows += [
        verdicts(
            Job(protocol=protocol, parties=4), 4, [Numbers(), Numbers(1), Numbers(0, 1), Numbers(0, 0, 1)]
        )
        for protocol in ("plain", "flashe")
    ]
    return rows


def commitment(job: Job, number: int, name: str, nonce: bytes) -> bytes:
    """What a party commits to its nonce with."""
    return framed_hash("blindsum nonce", job.hash(), number.to_bytes(8, "big"), name.encode("utf-8"), nonce)


def commitments() -> list[dict[str, object]]:
    """Nonces and what commits to them."""
    job = Job(parties=30)
    rows = []
    for number, name in ((1, "a"), (2**40 + 7, "hospital-b"), (2**64 - 1, "x" * 63)):
        nonce = pick(f"nonce of {name}")
        rows.append(
            {
                "spec": said(job),
                "number": number,
                "name": name,
                "nonce": nonce.hex(),
                "commitment": commitment(job, number, name, nonce).hex(),
            }
        )
    return rows


def vectors() -> dict[str, object]:
    """Everything that goes into ``numbers.json``."""
    return {
        "columns": ["neighbours", "threshold", "packing", "which breaks a rule"],
        "numbers": table(),
        "commitments": commitments(),
    }
