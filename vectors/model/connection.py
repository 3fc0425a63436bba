"""Whole connections of one party: who takes part, what happens, and what comes of it.

The frames are recorded by the library (`crates/job/tests/suite/recorded/`) and stand in the file only. They
are read and checked by `recorded.py`, and go back to the file as they came.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import encoding
from .identity import Authority, Identity, pem
from .job import Job
from .model import Model, singles, values_of
from .play import pick
from .recorded import Recording
from .said import said
from .words import add

FILE = Path(__file__).resolve().parents[1] / "connection.json"
NOW = 1_800_000_000
"""When it takes place. Certificates are good from long before to long after."""
NOT_BEFORE, NOT_AFTER = 1_700_000_000, 2_500_000_000
NAMES = ["amber", "birch.clinic", "cedar", "dogwood"]


@dataclass(frozen=True)
class Cut:
    """A connection that ends once its party has said its answer to a stage."""

    party: int
    round: int
    stage: int
    arrives: bool
    returns: bool


@dataclass(frozen=True)
class Setting:
    """A job, which party's connection is recorded, and what happens."""

    job: Job
    recorded: int
    cuts: tuple[Cut, ...]
    initial: tuple[float, ...] = ()

    def names(self) -> list[str]:
        """Names by rank."""
        return NAMES[: self.job.parties]

    def updates(self, rank: int) -> list[list[float]]:
        """What a party gives, by round; some of it is beyond the bounds."""
        return [values_of(f"{self.job.job}/{rank}/{r}", self.job.dim, 1.25) for r in range(self.job.rounds)]

    def coding(self) -> encoding.Spec:
        """The encoding of the job."""
        job = self.job
        return encoding.Spec(
            dim=job.dim, bits=job.bits, clip=job.clip, rounding="nearest", parties=job.parties
        )

    def words(self, rank: int, number: int) -> list[int]:
        """The words of a party in a round."""
        words = encoding.encode(self.coding(), self.updates(rank)[number - 1], 1, b"")["words"]
        assert isinstance(words, list)
        return words

    def survivors(self, number: int) -> list[int]:
        """Those who are not lost for good before their vector is in."""
        lost = {cut.party for cut in self.cuts if not cut.returns and cut.round <= number}
        return [rank for rank in range(self.job.parties) if rank not in lost]

    def sum(self, number: int) -> list[int]:
        """The words of the sum of a round."""
        return add(self.job.width(), [self.words(rank, number) for rank in self.survivors(number)])

    def mean(self, number: int) -> list[float]:
        """The mean of a round, in single precision."""
        mean, _ = encoding.decode(self.coding(), self.sum(number), len(self.survivors(number)))
        return [encoding.single(value) for value in mean]


def parties(setting: Setting) -> list[dict[str, Any]]:
    """Names, certificates, keys and updates by rank."""
    job, authority = setting.job, authority_of(setting.job)
    listed = []
    for rank, name in enumerate(setting.names()):
        key = Identity(("ed25519", "p256")[rank % 2], pick(f"{job.job}/identity/{rank}"))
        listed.append(
            {
                "name": name,
                "certificate": authority.certify(2 + rank, name, key).hex(),
                "private_key": key.to_pem(),
                "updates": [singles(update).hex() for update in setting.updates(rank)],
            }
        )
    return listed


def authority_of(job: Job) -> Authority:
    """The CA of a job."""
    return Authority(f"{job.job} CA", Identity("ed25519", pick(f"{job.job}/CA")), NOT_BEFORE, NOT_AFTER)


def rounds(setting: Setting) -> list[dict[str, Any]]:
    """What everybody has at the end of each round."""
    model = Model(setting.job, list(setting.initial) or [0.0] * setting.job.dim)
    listed = []
    for number in range(1, setting.job.rounds + 1):
        before, mean, survivors = model.hash(), setting.mean(number), setting.survivors(number)
        model.take(mean, [])
        listed.append(
            {
                "number": number,
                "model_hash_before": before.hex(),
                "survivors": [setting.names()[rank] for rank in survivors],
                "sum": setting.sum(number),
                "mean": singles(mean).hex(),
                "model": {"version": model.version, "hash": model.hash().hex()},
            }
        )
    return listed


def connection(setting: Setting, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All of it, with frames that keep the rules."""
    job, me = setting.job, setting.recorded
    certified, done = parties(setting), rounds(setting)
    members = [(party["name"], bytes.fromhex(party["certificate"])) for party in certified]
    recording = Recording(job, members, me, done, singles(list(setting.initial)))
    if rows:
        recording.check(rows)
    for expected in done:
        number = expected["number"]
        expected["context"] = recording.contexts.get(number, b"").hex()
        expected["result_name"] = recording.results.get(number, b"").hex()
        if job.protocol == "plain" and rows:
            assert recording.vectors[number] == setting.words(me, number)
    return {
        "spec": said(job),
        "job_hash": job.hash().hex(),
        "ca": pem("CERTIFICATE", authority_of(job).certificate()),
        "now": NOW,
        "initial": singles(list(setting.initial)).hex() if setting.initial else None,
        "parties": certified,
        "recorded": me,
        "cuts": [vars(cut) for cut in setting.cuts],
        "rounds": done,
        "frames": recording.rows,
    }


def settings() -> list[Setting]:
    """One party of `plain`, which is given a model, and one of `secagg+`, whose nonce is committed to."""
    job = Job(
        protocol="plain", adversary="semi-honest", parties=3, dim=5, rounds=2, bits=8, rounding="nearest"
    )
    plain = replace(job, job="recorded-plain", min_parties=2)
    secagg = replace(job, job="recorded-secagg", protocol="secagg+", adversary="active", parties=4, dim=7)
    first = tuple(values_of("recorded-plain/initial", plain.dim))
    heard, for_good = Cut(1, 1, 0, arrives=True, returns=True), Cut(2, 2, 0, arrives=False, returns=False)
    return [
        Setting(plain, 1, (heard, for_good), first),
        Setting(secagg, 2, (Cut(2, 1, 2, arrives=False, returns=True),)),
    ]


def vectors() -> dict[str, object]:
    """Everything that goes into ``connection.json``, with the frames that are there."""
    stored = json.loads(FILE.read_text())["connections"] if FILE.exists() else []
    frames = {one["spec"]["job"]: one["frames"] for one in stored}
    return {"connections": [connection(s, frames.get(s.job.job, [])) for s in settings()]}
