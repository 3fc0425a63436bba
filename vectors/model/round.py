"""Hashes of job specifications and rosters."""

from __future__ import annotations

from dataclasses import replace

from .crypto import pick
from .job import Job, Member, Tensor, roster_bytes, roster_hash
from .said import said


def hashed(job: Job) -> dict[str, object]:
    """A job and its hash."""
    return {"spec": said(job), "hash": job.hash().hex()}


def roster(*members: tuple[str, int]) -> dict[str, object]:
    """A roster of parties with these names and certificates of these lengths, opaque here."""
    listed = [
        Member(name, pick(f"certificate of {name}", length), pick(f"nonce of {name}"))
        for name, length in members
    ]
    return {
        "members": [
            {"name": m.name, "certificate": m.certificate.hex(), "nonce": m.nonce.hex()} for m in listed
        ],
        "bytes": roster_bytes(listed).hex(),
        "hash": roster_hash(listed).hex(),
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``round.json``."""
    job = Job()
    semi_honest = replace(job, adversary="semi-honest")
    tensors = (Tensor("dense.weight", 12, 0.5), Tensor("", 3, 2.0))
    return {
        "jobs": [
            hashed(job),
            hashed(replace(job, job="tumour", parties=40, dim=1_000_000, min_parties=30)),
            hashed(replace(job, protocol="plain", adversary="semi-honest", encoding="fixed64")),
            hashed(replace(job, protocol="secagg", suite="p256", clipping="l2", bits=2)),
            hashed(replace(job, dim=15, tensors=tensors, max_weight=1000, bits=8, clip=0.125)),
            hashed(replace(semi_honest, parties=9, neighbours=6, threshold=5, corrupt=0.0, dropout=0.25)),
            hashed(replace(job, join_deadline=0.5, input_deadline=1e6, stage_deadline=7.25)),
            hashed(replace(job, rounds=0, rounding="nearest")),
            # A reader that is satisfied with nearly the right double gets another hash.
            hashed(replace(job, clip=7.4387313305336855, corrupt=0.30000000000000004, parties=30)),
            hashed(replace(job, model_update="replace")),
            hashed(replace(job, clipping="aciq", bits=6, dim=15, tensors=tensors)),
            hashed(replace(job, model_update="none")),
            hashed(replace(job, encoding="integers", bits=64, model_update="none")),
        ],
        "rosters": [
            roster(("a", 1)),
            roster(("hospital-a", 200), ("hospital-b", 300), ("x" * 63, 1000)),
        ],
    }
