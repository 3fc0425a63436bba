"""Whole jobs of flashe in which parties send some of their coordinates: every message of every round."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from . import wire
from .flashe_rounds import Play, Stages, Step, by_rank
from .flashe_sparse import Sparse, mask_bytes
from .flashe_sparse_party import SparseParty, added, least_contributors, listed, most_coordinates, scheme_of
from .flashe_sparse_refused import refused_in_sparse
from .job import Job, Tensor
from .play import pick


def chosen(job: Job, label: str) -> list[int]:
    """Some coordinates, as many as may be sent or fewer."""
    count = 1 + pick(f"{label}/count")[0] % most_coordinates(job)
    return sorted(sorted(range(job.lanes()), key=lambda d: pick(f"{label}/{d}"))[:count])


def vector(job: Job, label: str, coordinates: list[int]) -> Sparse:
    """Words at these coordinates, the first one as large as a word can be."""
    bound = 2 ** job.width() // job.parties
    drawn = {d: int.from_bytes(pick(f"{label}/word/{d}"), "little") % bound for d in coordinates}
    return drawn | {coordinates[0]: bound - 1}


class SparseStages(Stages):
    """A round under way."""

    def sum(self) -> None:
        """A round of the job itself."""
        round_, job = self.round, self.round.job
        label, chosen_by = f"{job.job}/{self.step.number}", self.step.chosen
        parties = {rank: SparseParty(round_, rank, self.owners[rank]) for rank in self.speaking()}
        vectors = {
            rank: vector(job, f"{label}/{rank}", list(chosen_by.get(rank, chosen(job, f"{label}/{rank}"))))
            for rank in parties
        }
        places = {rank: party.places(vectors[rank]) for rank, party in parties.items()}
        scheme = scheme_of(job, places)
        up = {rank: mask_bytes(job.lanes(), of_party) for rank, of_party in places.items()}
        self.record("mask", up, dict.fromkeys(parties, listed(round_, scheme, places)))
        survivors = self.speaking()
        uploads = {rank: parties[rank].upload(scheme) for rank in survivors}
        total = added(job.width(), list(uploads.values()))
        result = wire.bitmap(round_.parties, set(survivors)) + total.body(job.width())
        up = {rank: upload.body(job.width()) for rank, upload in uploads.items()}
        self.record("upload", up, dict.fromkeys(survivors, result))
        sums = in_the_clear(job, [vectors[rank] for rank in survivors])
        for rank in survivors:
            assert parties[rank].open(scheme, {j: places[j] for j in survivors}, total) == sums
        self.learnt = {
            "model_hash": self.model_hash.hex(),
            "coordinates": by_rank({rank: list(words) for rank, words in vectors.items()}),
            "words": by_rank({rank: list(words.values()) for rank, words in vectors.items()}),
            "survivors": survivors,
            "sums": sums,
        }
        self.refused = [
            refused_in_sparse(self.stages, parties, rank, places, survivors) for rank in self.step.refused
        ]


def in_the_clear(job: Job, vectors: list[Sparse]) -> list[list[int | None]]:
    """Of every coordinate that anybody sent: the sum, None where it is not opened, and its contributors."""
    counts = Counter(d for words in vectors for d in words)
    sums = {d: sum(words.get(d, 0) for words in vectors) for d in sorted(counts)}
    least = least_contributors(job)
    return [[d, total if counts[d] >= least else None, counts[d]] for d, total in sums.items()]


def first_job() -> dict[str, Any]:
    """Active, double masking, two contributors: parties are lost in either stage; messages to refuse."""
    job = Job(
        job="sparse-active",
        protocol="flashe",
        parties=5,
        min_parties=2,
        dim=37,
        bits=6,
        masking="double",
        density=0.4,
    )
    few = {2: (4, 30), 4: (4, 5, 6, 7, 30)}
    steps = [
        Step("key-setup", 1),
        Step("sum", 2, refused=(1, 2), chosen={1: tuple(range(0, 30, 2)), **few}),
        Step("sum", 3, lost={1: 0}, refused=(3,), chosen={3: (0, 1, 2, 3, 5)}),
        Step("sum", 4, lost={2: 1}, refused=(1,)),
        Step("sum", 9, lost={0: 0, 4: 0, 3: 1}),
    ]
    return Play(job, ("ed25519", "p256"), SparseStages).transcript(steps)


def cheaper() -> dict[str, Any]:
    """P-256: who has what decides about the masking, also where some of them are lost after that."""
    job = Job(
        job="sparse-cheaper",
        protocol="flashe",
        suite="p256",
        parties=6,
        min_parties=2,
        dim=40,
        bits=13,
        density=0.25,
        min_contributors=3,
    )
    same, apart = tuple(range(3, 37, 4)), {rank: tuple(range(rank, 40, 6)) for rank in range(6)}
    steps = [
        Step("key-setup", 1, roster=(0, 2, 3, 4, 5)),
        # All have the same ones: masks cancel. Nobody shares any: they do not.
        Step("sum", 2, roster=(0, 2, 3, 4, 5), chosen=dict.fromkeys(range(5), same), refused=(0,)),
        Step("sum", 3, roster=(0, 2, 3, 4, 5), chosen=apart, refused=(4,)),
        # With three parties that have the same ones, single and double masking take as many masks.
        Step("sum", 4, roster=(2, 3, 5), chosen=dict.fromkeys(range(3), same)),
        Step("key-setup", 5),
        Step("sum", 6),
        Step("sum", 7, lost={1: 1, 2: 1, 4: 1}, chosen=dict.fromkeys(range(6), same)),
        Step("sum", 2**40, lost={3: 0, 0: 1}),
    ]
    return Play(job, ("p256", "ed25519"), SparseStages).transcript(steps)


def few_of_many() -> dict[str, Any]:
    """Semi-honest, single masking, sums of one: distances that take two bytes, places beyond 4096."""
    job = Job(
        job="sparse-few",
        protocol="flashe",
        adversary="semi-honest",
        parties=3,
        dim=8300,
        bits=16,
        masking="single",
        density=0.001,
        min_contributors=1,
    )
    steps = [
        Step("key-setup", 1),
        Step("sum", 2, chosen={0: (0, 5000, 8299), 1: (1,)}, refused=(0,)),
        Step("sum", 3, lost={2: 1}, chosen={0: (7, 8, 9, 5000), 1: (7, 8, 5000, 8000)}),
    ]
    return Play(job, stages=SparseStages).transcript(steps)


def warm_up() -> dict[str, Any]:
    """Layers, a density that falls from all coordinates, a key for two rounds, three contributors."""
    job = Job(
        job="sparse-warm-up",
        protocol="flashe",
        parties=4,
        min_parties=2,
        dim=19,
        bits=9,
        tensors=(Tensor("first", 11, 0.5), Tensor("second", 1, 2.0), Tensor("third", 7, 1.0)),
        density=0.25,
        density_start=1.0,
        density_steps=2,
        key_rounds=2,
        min_contributors=3,
        rounds=4,
    )
    everything, half, quarter = (
        tuple(range(19)),
        (0, 1, 4, 6, 7, 9, 11, 13, 14, 17, 18),
        (0, 2, 5, 11, 12, 16),
    )
    steps = [
        Step("key-setup", 1),
        Step("sum", 2, chosen=dict.fromkeys(range(4), everything)),
        Step("sum", 3, chosen={0: half, 1: half, 2: (*half[:8], 15, 16, 18), 3: half}),
        Step("key-setup", 4, lost={3: 2}),
        Step("sum", 5, roster=(0, 1, 2), chosen={0: quarter, 1: quarter, 2: (1, 3, 5, 11, 12, 18)}),
        Step("sum", 6, roster=(0, 1, 2), lost={0: 1}, chosen=dict.fromkeys(range(3), quarter)),
    ]
    return Play(job, stages=SparseStages).transcript(steps)


def widths() -> list[dict[str, Any]]:
    """The narrowest words and those around 32 bits; one coordinate; as many as there are."""
    narrow = Job(protocol="flashe", adversary="semi-honest", parties=2, dim=9, density=0.5)
    jobs = [
        replace(narrow, job="sparse-3", bits=2),
        replace(narrow, job="sparse-31", bits=29, parties=3, masking="single", min_contributors=1),
        replace(narrow, job="sparse-32", bits=30, parties=3, min_contributors=1, density=0.99),
        replace(narrow, job="sparse-33", bits=31, parties=4, masking="double", density=0.9),
        replace(narrow, job="sparse-35", bits=32, parties=8, masking="single", model_update="none"),
        replace(narrow, job="sparse-one", dim=1, parties=3),
    ]
    steps = [Step("key-setup", 1), Step("sum", 2), Step("sum", 3)]
    lost = [replace(step, lost={2: 1}) if step.number == 3 else step for step in steps]
    return [Play(job, stages=SparseStages).transcript(lost if job.parties > 2 else steps) for job in jobs]


def vectors() -> dict[str, object]:
    """Everything that goes into ``flashe_sparse_rounds.json``."""
    return {"jobs": [first_job(), cheaper(), few_of_many(), warm_up(), *widths()]}
