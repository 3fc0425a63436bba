"""A whole round: who takes part, what happens to them, and everything that is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from hashlib import sha256
from typing import Any

from . import wire
from .identity import Authority, Identity, pem
from .job import Job, Member, clips_context, round_context
from .numbers import numbers_of
from .said import said
from .tape import Tape

NOW = 1_700_000_000


def pick(label: str) -> bytes:
    """32 bytes that follow from a label."""
    return sha256(label.encode()).digest()


def identities_of(job: Job, algorithms: tuple[str, ...]) -> list[Identity]:
    """The parties' identity keys, of these algorithms by turns."""
    secrets = [pick(f"{job.job}/identity/{i}") for i in range(job.parties)]
    return [Identity(a, s) for a, s in zip(algorithms * job.parties, secrets, strict=False)]


def authority_of(job: Job) -> Authority:
    """The CA of a job."""
    key = Identity("ed25519", pick(f"{job.job}/CA"))
    return Authority(f"{job.job} CA", key, NOW - 1000, NOW + 1000)


def words_of(job: Job, label: str, bound: int) -> list[int]:
    """A vector, its words below the bound."""
    labels = (f"{label}/word/{i}" for i in range(job.lanes()))
    return [int.from_bytes(pick(label), "little") % bound for label in labels]


def vector(job: Job, label: str) -> list[int]:
    """Words of a party: the first two are the largest and the smallest, whose sums just do not wrap."""
    if job.encoding != "fixed64":
        bound = 2 ** job.width() // job.parties
        return [bound - 1, 0, *words_of(job, label, bound)[2:]]
    bound = 2**63 // job.parties
    numbers = [2 * bound - 1, 0, *words_of(job, label, 2 * bound)[2:]]
    return [(number - bound) % 2**64 for number in numbers]


def framed(context: bytes, stage: int, bodies: Mapping[int, bytes]) -> dict[str, str]:
    """Messages of a stage by party, each with its frame."""
    return {str(party): wire.frame(context, stage, body).hex() for party, body in sorted(bodies.items())}


@dataclass(frozen=True)
class Scenario:
    """A round to be played.

    Attributes
    ----------
    job
        What is agreed.
    algorithms
        Of the parties' identity keys, by turns.
    lost
        By party, the stage from which on it says nothing.
    liars
        Parties that give wrong shares in the last stage.
    planted
        By party, bytes of its randomness by offset.
    """

    job: Job
    algorithms: tuple[str, ...] = ("ed25519",)
    lost: dict[int, int] = field(default_factory=dict)
    liars: tuple[int, ...] = ()
    planted: dict[int, dict[int, bytes]] = field(default_factory=dict)

    def speaking(self, stage: int) -> list[int]:
        """Parties that still speak in a stage."""
        return [p for p in range(self.job.parties) if stage < self.lost.get(p, stage + 1)]


class Stage:
    """Everybody who plays a scenario, and the record of what they say.

    Attributes
    ----------
    members, number, model_hash, numbers, context
        What the round is bound to.
    identities
        Identity keys by rank.
    stages
        What was said, stage by stage.
    """

    def __init__(self, scenario: Scenario) -> None:
        job = scenario.job
        self.scenario, self.job = scenario, job
        self.identities = identities_of(job, scenario.algorithms)
        self.authority = authority_of(job)
        self.members = [
            Member(name, self.authority.certify(2 + i, name, identity), pick(f"{name}/nonce"))
            for i, identity in enumerate(self.identities)
            for name in [f"party-{i}"]
        ]
        self.number, self.model_hash = 3, pick(f"{job.job}/model")
        self.numbers = numbers_of(job, len(self.members))
        self.context = round_context(job, self.number, self.members, self.model_hash, self.numbers.to_bytes())
        self.stages: list[dict[str, Any]] = []

    def tape(self, rank: int) -> Tape:
        """A party's randomness."""
        return Tape(f"{self.job.job}/{rank}/random", self.scenario.planted.get(rank))

    def words(self, rank: int, bound: int) -> list[int]:
        """A party's vector, its words below the bound."""
        return words_of(self.job, f"{self.job.job}/{rank}", bound)

    def record(self, name: str, up: Mapping[int, bytes], down: Mapping[int, bytes]) -> None:
        """Write down a stage: bodies from parties and bodies to them."""
        ups, downs = (framed(self.context, len(self.stages), bodies) for bodies in (up, down))
        self.stages.append({"name": name, "up": ups, "down": downs})

    def speaking(self) -> list[int]:
        """Parties that answer in the stage to come."""
        return self.scenario.speaking(len(self.stages))

    def bound_to(self) -> dict[str, Any]:
        """What everybody knows before the first message."""
        clips = [] if self.job.encoding == "integers" else self.job.halved_clips()
        # A coordinator that learns no sums knows no bounds.
        hides = self.job.result == "parties"
        context = self.context if hides else clips_context(self.context, clips)
        of_halved = {"halved_clips_context": context.hex()} if clips else {}
        return {
            "spec": said(self.job),
            "job_hash": self.job.hash().hex(),
            "number": self.number,
            "model_hash": self.model_hash.hex(),
            "numbers": list(astuple(self.numbers)),
            "ca": pem("CERTIFICATE", self.authority.certificate()),
            "now": NOW,
            "context": self.context.hex(),
            **of_halved,
            "width": self.job.width(),
        }

    def known_to(self, rank: int, tape: Tape, words: list[int]) -> dict[str, Any]:
        """What only this party knows, and its place in the roster."""
        member = self.members[rank]
        return {
            "name": member.name,
            "certificate": member.certificate.hex(),
            "nonce": member.nonce.hex(),
            "private_key": self.identities[rank].to_pem(),
            "random": tape.used.hex(),
            "words": words,
        }
