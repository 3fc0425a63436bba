"""Whole jobs of flashe: every message of every key set-up and round, and what parties keep in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from . import wire, words
from .flashe_party import Owner, Round, SetupParty, SumParty
from .flashe_refused import refused_in_setup, refused_in_sum
from .identity import pem
from .job import Job, Member, clips_context, key_setup_context, round_context
from .numbers import Numbers
from .play import NOW, authority_of, framed, identities_of, pick, vector
from .said import said
from .tape import Tape

RANDOMNESS = [
    "A party reads its `random` bytes of a key set-up in this order, and reads all of them:",
    "1. advertise-keys: the secret of its key, 32 bytes; for p256 32 bytes that are no scalar are",
    "   thrown away;",
    "2. deliver-key: the key of the job, 32 bytes, if this party makes it.",
    "In the other rounds it reads none.",
]


@dataclass(frozen=True)
class Step:
    """A key set-up or round to be played.

    Attributes
    ----------
    kind
        "key-setup" or "sum".
    number
        Its number.
    roster
        Who takes part, by place in the job; empty for everybody.
    lost
        By rank, the stage from which on a party says nothing.
    planted
        By rank, bytes of its randomness by offset.
    refused
        Ranks for which messages to refuse are made.
    chosen
        By rank, the coordinates that a party sends; of the others, and where rounds are not sparse, nothing
        is given.
    """

    kind: str
    number: int
    roster: tuple[int, ...] = ()
    lost: dict[int, int] = field(default_factory=dict)
    planted: dict[int, dict[int, bytes]] = field(default_factory=dict)
    refused: tuple[int, ...] = ()
    chosen: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Stages:
    """A round under way, with everything that was said."""

    def __init__(self, job: Job, owners: list[Owner], members: list[Member], step: Step) -> None:
        self.step, self.owners, self.members = step, owners, members
        self.model_hash = pick(f"{job.job}/model/{step.number}")
        if step.kind == "sum":
            context = round_context(job, step.number, members, self.model_hash, Numbers().to_bytes())
        else:
            context = key_setup_context(job, step.number, members)
        self.round = Round(job, step.number, len(members), context)
        self.stages: list[dict[str, Any]] = []
        self.learnt: dict[str, Any] = {}
        self.refused: list[dict[str, Any]] = []

    def speaking(self) -> list[int]:
        """Ranks that take part in the stage to come, by a message or by waiting."""
        stage, lost = len(self.stages), self.step.lost
        return [rank for rank in range(self.round.parties) if stage < lost.get(rank, stage + 1)]

    def record(self, name: str, up: Mapping[int, bytes], down: Mapping[int, bytes]) -> None:
        """Write down a stage: bodies from parties and bodies to them."""
        stage, context = len(self.stages), self.round.context
        ups, downs = (framed(context, stage, bodies) for bodies in (up, down))
        self.stages.append({"name": name, "up": ups, "down": downs})

    def set_up(self) -> None:
        """A key set-up."""
        label = f"{self.round.job.job}/{self.step.number}"
        parties = [
            SetupParty(self.round, rank, owner, Tape(f"{label}/{rank}", self.step.planted.get(rank)))
            for rank, owner in enumerate(self.owners)
        ]
        adverts = {rank: parties[rank].advertise() for rank in self.speaking()}
        listed = wire.neighbour_keys({rank: advert.body() for rank, advert in adverts.items()})
        up = {rank: advert.body() for rank, advert in adverts.items()}
        self.record("advertise-keys", up, dict.fromkeys(adverts, listed))
        answers = {rank: parties[rank].deliver(adverts) for rank in self.speaking()}
        [(leader, sealed)] = ((rank, keys) for rank, keys in answers.items() if keys is not None)
        got = {rank: sealed.get(rank, b"") for rank in adverts}
        down = {rank: wire.key_for(key) for rank, key in got.items()}
        self.record("deliver-key", {leader: wire.key_delivery(sealed)}, down)
        tags = {rank: parties[rank].confirm(got[rank]) for rank in self.speaking()}
        [tag] = set(tags.values())
        told = wire.holders(self.round.parties, set(tags), tag)
        self.record("confirm-key", tags, dict.fromkeys(tags, told))
        used = {rank: party.tape.used.hex() for rank, party in enumerate(parties)}
        self.learnt = {"random": by_rank(used), "survivors": sorted(tags)}
        self.refused = [refused_in_setup(self.stages, parties[rank]) for rank in self.step.refused]

    def sum(self) -> None:
        """A round of the job itself."""
        job, survivors = self.round.job, self.speaking()
        parties = {rank: SumParty(self.round, rank, self.owners[rank]) for rank in survivors}
        vectors = {rank: vector(job, f"{job.job}/{self.step.number}/{rank}") for rank in survivors}
        sent = {rank: party.upload(vectors[rank]) for rank, party in parties.items()}
        width = job.width()
        added = reduce(lambda a, b: a.plus(b, width), sent.values())
        result = wire.bitmap(self.round.parties, set(survivors)) + added.body(width)
        up = {rank: upload.body(width) for rank, upload in sent.items()}
        self.record("upload", up, dict.fromkeys(survivors, result))
        total = words.add(width, list(vectors.values()))
        for party in parties.values():
            assert party.open(survivors, added) == total
        self.learnt = {
            "model_hash": self.model_hash.hex(),
            "words": by_rank(vectors),
            "survivors": survivors,
            "sum": total,
            "halved_clips_key_context": self.halved_clips_key_context(),
        }
        self.refused = [refused_in_sum(self.stages, rank) for rank in self.step.refused]

    def halved_clips_key_context(self) -> str | None:
        """What the key of the round is derived from where every bound is half of the job's."""
        job = self.round.job
        if job.encoding != "quantised":
            return None
        return clips_context(self.round.context, job.halved_clips()).hex()

    def transcript(self, roster: tuple[int, ...]) -> dict[str, Any]:
        """Everything about the round."""
        return {
            "kind": self.step.kind,
            "number": self.step.number,
            "context": self.round.context.hex(),
            "roster": roster,
            "nonces": [member.nonce.hex() for member in self.members],
            "lost": by_rank(self.step.lost),
            "stages": self.stages,
            **self.learnt,
            "refused": self.refused,
        }


def by_rank(values: Mapping[int, object]) -> dict[str, object]:
    """As JSON has it."""
    return {str(rank): value for rank, value in values.items()}


class Play:
    """A job under way."""

    def __init__(
        self, job: Job, algorithms: tuple[str, ...] = ("ed25519",), stages: type[Stages] = Stages
    ) -> None:
        self.stages = stages
        self.job, self.authority = job, authority_of(job)
        self.owners = [Owner(identity) for identity in identities_of(job, algorithms)]
        self.certificates = [
            self.authority.certify(2 + i, f"party-{i}", owner.identity) for i, owner in enumerate(self.owners)
        ]
        self.rounds: list[dict[str, Any]] = []

    def round(self, step: Step) -> None:
        """Play a key set-up or a round and write down what was said and kept."""
        roster = step.roster or tuple(range(self.job.parties))
        nonce = f"{self.job.job}/{step.number}/nonce"
        members = [Member(f"party-{i}", self.certificates[i], pick(f"{nonce}/{i}")) for i in roster]
        stages = self.stages(self.job, [self.owners[i] for i in roster], members, step)
        stages.sum() if step.kind == "sum" else stages.set_up()
        kept = {"vaults": [owner.kept() for owner in self.owners]}
        self.rounds.append(stages.transcript(roster) | kept)

    def transcript(self, steps: list[Step]) -> dict[str, Any]:
        """Everything about the job."""
        for step in steps:
            self.round(step)
        return {
            "spec": said(self.job),
            "job_hash": self.job.hash().hex(),
            "ca": pem("CERTIFICATE", self.authority.certificate()),
            "now": NOW,
            "width": self.job.width(),
            "parties": [
                {
                    "name": f"party-{i}",
                    "certificate": certificate.hex(),
                    "private_key": owner.identity.to_pem(),
                }
                for i, (certificate, owner) in enumerate(zip(self.certificates, self.owners, strict=True))
            ],
            "rounds": self.rounds,
        }


def first_job() -> dict[str, Any]:
    """Active, double masking: the first key, and rounds with and without dropouts."""
    job = Job(
        job="flashe-active",
        protocol="flashe",
        parties=4,
        min_parties=2,
        dim=11,
        bits=4,
        masking="double",
        dropout=0.5,
    )
    return Play(job, ("ed25519", "p256")).transcript(
        [
            Step("key-setup", 1, refused=(0, 1)),
            Step("sum", 2, refused=(1,)),
            Step("sum", 3, lost={1: 0}),
            Step("sum", 9, lost={0: 0, 3: 0}),
        ]
    )


def late_joiners() -> dict[str, Any]:
    """P-256, fixed point, single masking: two parties come later, one of them is lost in the set-up."""
    job = Job(
        job="flashe-joiners",
        protocol="flashe",
        suite="p256",
        encoding="fixed64",
        parties=5,
        min_parties=2,
        dim=6,
        masking="single",
        dropout=0.4,
    )
    return Play(job, ("p256", "ed25519")).transcript(
        [
            Step("key-setup", 4, roster=(1, 2, 4), planted={0: {0: b"\xff" * 32}}),
            Step("sum", 5, roster=(1, 2, 4)),
            Step("key-setup", 6, lost={3: 1}),
            Step("sum", 7, roster=(0, 1, 2, 4), lost={2: 0}),
            Step("key-setup", 8, roster=(2, 3, 4)),
            Step("sum", 2**40),
        ]
    )


def rotation() -> dict[str, Any]:
    """Semi-honest, weights, the cheaper masking is the single one: a key that serves two rounds."""
    job = Job(
        job="flashe-rotation",
        protocol="flashe",
        adversary="semi-honest",
        parties=6,
        dim=7,
        max_weight=1000,
        key_rounds=2,
        dropout=0.5,
    )
    return Play(job).transcript(
        [
            Step("key-setup", 1, lost={5: 2}),
            Step("sum", 2, roster=(0, 1, 2, 3, 4), lost={3: 0}),
            Step("sum", 3, roster=(0, 2, 4)),
            Step("key-setup", 4, lost={0: 0, 2: 1}),
            Step("sum", 6, roster=(1, 3, 4, 5), lost={0: 0}),
        ]
    )


def two_keys() -> dict[str, Any]:
    """Integers in two words, the cheaper masking is double: the key that most hold goes to all."""
    job = Job(
        job="flashe-two-keys",
        protocol="flashe",
        encoding="integers",
        bits=64,
        parties=7,
        min_parties=2,
        dim=3,
        dropout=0.0,
        model_update="none",
    )
    return Play(job).transcript(
        [
            Step("key-setup", 1, roster=(0, 1)),
            Step("key-setup", 2, roster=(3, 4, 5)),
            Step("sum", 3, roster=(3, 4, 5)),
            Step("sum", 6, roster=(0, 1)),
            # A number below that, as only a faulty coordinator says.
            Step("key-setup", 4),
            Step("sum", 7, lost={2: 0, 3: 0, 6: 0}),
            Step("key-setup", 8),
        ]
    )


def widths() -> list[dict[str, Any]]:
    """Words of other widths: 31 and 32 bits, 33 and 64."""
    narrow = Job(protocol="flashe", adversary="semi-honest", parties=3, dim=5)
    jobs = [
        replace(narrow, job="flashe-31", bits=29, masking="double"),
        replace(narrow, job="flashe-32", bits=30, masking="single"),
        replace(narrow, job="flashe-33", bits=31, masking="double"),
        replace(narrow, job="flashe-64", bits=62, encoding="integers", model_update="none"),
        replace(narrow, job="flashe-power", encoding="fixed64", parties=4),
    ]
    steps = [Step("key-setup", 1), Step("sum", 2, lost={1: 0})]
    return [Play(job).transcript(steps) for job in jobs]


def vectors() -> dict[str, object]:
    """Everything that goes into ``flashe_rounds.json``."""
    jobs = [first_job(), late_joiners(), rotation(), two_keys(), *widths()]
    return {"randomness": RANDOMNESS, "jobs": jobs}
