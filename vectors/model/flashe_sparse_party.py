"""A party of a sparse round of flashe, honest and on paper, and what the coordinator says and adds."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import NamedTuple

from . import flashe, flashe_sparse, wire, words
from .flashe_party import Round, RoundParty
from .flashe_sparse import Sparse
from .job import Job
from .sparse import Schedule

MASKS_A_WORD = {"single": 1, "double": 2}
permutation = cache(flashe_sparse.permutation)


def most_coordinates(job: Job) -> int:
    """How many coordinates a party sends where the density is largest."""
    schedule = Schedule(str(job.density_start), str(job.density), job.density_steps, job.density_rounds)
    return sum(schedule.kept(0, length) for length in [t.len for t in job.tensors] or [job.dim])


def least_contributors(job: Job) -> int:
    """How many parties must have sent a coordinate for its sum to be opened."""
    return job.min_contributors or 2


def streams(scheme: str, rank: int) -> Counter[int]:
    """How often the words of a rank have the mask of each rank."""
    return Counter({rank: 1, rank + 1: -1} if scheme == "double" else {rank: 1})


def masks_computed(scheme: str, sets: dict[int, list[int]]) -> int:
    """Masks that all parties together compute: each for what it sends, and for every place of the sum."""
    sent = sum(len(streams(scheme, rank)) * len(places) for rank, places in sets.items())
    of_sum: dict[int, Counter[int]] = {}
    for rank, places in sets.items():
        for place in places:
            of_sum.setdefault(place, Counter()).update(streams(scheme, rank))
    left = sum(times != 0 for counter in of_sum.values() for times in counter.values())
    return sent + len(sets) * left


def scheme_of(job: Job, sets: dict[int, list[int]]) -> str:
    """The masking of a round with these places: as the job says, or what takes fewer masks."""
    if job.masking != "cheaper":
        return job.masking
    single, double = (masks_computed(scheme, sets) for scheme in ("single", "double"))
    return "single" if single < double else "double"


class Upload(NamedTuple):
    """Encrypted words by place, and the check before it is reduced."""

    words: Sparse
    check: list[int]

    def body(self, width: int) -> bytes:
        """As it is sent."""
        ordered = [word for _, word in sorted(self.words.items())]
        return words.pack(width, ordered) + flashe.encoded(self.check)


def added(width: int, uploads: list[Upload]) -> Upload:
    """What the coordinator makes of some uploads."""
    total: Counter[int] = Counter()
    for upload in uploads:
        total.update(upload.words)
    check = [sum(numbers) for numbers in zip(*(upload.check for upload in uploads), strict=True)]
    return Upload({place: word % 2**width for place, word in total.items()}, check)


def listed(round_: Round, scheme: str, sets: dict[int, list[int]]) -> bytes:
    """What the coordinator says of everybody's places."""
    lanes = round_.job.lanes()
    encoded = {rank: flashe_sparse.mask_bytes(lanes, places) for rank, places in sets.items()}
    return wire.places(MASKS_A_WORD[scheme], round_.parties, encoded)


class SparseParty(RoundParty):
    """One party's side of a sparse round; the methods are its answers, in order."""

    def coordinates(self) -> list[int]:
        """By place, which all parties draw alike."""
        key = self.round_key("")
        return permutation(key.masks, key.context, self.round.job.lanes())

    def places(self, vector: Sparse) -> list[int]:
        """Stage 0: where the words of a vector go. No word is encrypted yet."""
        self.vector = {place: vector[d] for place, d in enumerate(self.coordinates()) if d in vector}
        assert 1 <= len(vector) <= most_coordinates(self.round.job)
        return list(self.vector)

    def upload(self, scheme: str) -> Upload:
        """Stage 1: the encrypted words; the round is used up."""
        self.use_up()
        return self.encrypted(scheme)

    def encrypted(self, scheme: str) -> Upload:
        """The words, each with the masks of its place, and their check."""
        key = self.round_key(scheme)
        plain = flashe_sparse.fingerprint(key.checks, key.bits, self.vector, dict.fromkeys(self.vector, 1))
        masked = {
            place: word + flashe_sparse.masks_of(scheme, key.masks, key.i, self.me, key.bits, place)
            for place, word in self.vector.items()
        }
        sent = {place: word % 2**key.bits for place, word in masked.items()}
        return Upload(sent, [plain + number for number in flashe.pad(key.checks, self.me)])

    def open(self, scheme: str, survivors: dict[int, list[int]], total: Upload) -> list[list[int | None]]:
        """Coordinates that any survivor sent: the sum, unless too few did, and how many that were."""
        key = self.round_key(scheme)
        contributors = Counter(place for places in survivors.values() for place in places)
        assert contributors.keys() == total.words.keys()
        opened = dict(total.words)
        for rank, places in survivors.items():
            for place in places:
                opened[place] -= flashe_sparse.masks_of(scheme, key.masks, key.i, rank, key.bits, place)
        opened = {place: word % 2**key.bits for place, word in opened.items()}
        plain = flashe_sparse.fingerprint(key.checks, key.bits, opened, contributors)
        pads = zip(*(flashe.pad(key.checks, rank) for rank in survivors), strict=True)
        assert flashe.encoded([plain + sum(numbers) for numbers in pads]) == flashe.encoded(total.check)
        least, order = least_contributors(self.round.job), self.coordinates()
        rows = {
            order[place]: (word if contributors[place] >= least else None, contributors[place])
            for place, word in opened.items()
        }
        return [[d, *row] for d, row in sorted(rows.items())]
