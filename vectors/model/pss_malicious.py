"""Whole rounds of `pss-malicious`: every message of every party and of the coordinator."""

from __future__ import annotations

from typing import Any

from . import wire
from .derive import rank_bytes
from .job import Job
from .play import Scenario, Stage, pick
from .pss_malicious_facts import judgings, largest_norms, largest_projections, proofs
from .pss_malicious_liars import (
    MassAccuser,
    OtherWords,
    Rubbish,
    Silent,
    TooLong,
    Wrapped,
    WrongAnswer,
    WrongShare,
    WrongShareAndRubbish,
    wrapping,
)
from .pss_malicious_party import ACCUSED, HASH, JUDGED, Party, Round
from .pss_malicious_proof import FIELD, L2, Statement
from .pss_malicious_refused import refused
from .pss_malicious_server import Coordinator
from .words import add

RANDOMNESS = [
    "A party reads its `random` bytes in this order, and reads all of them:",
    "1. advertise-keys: the secret of its key, 32 bytes; for p256 32 bytes that are no scalar are",
    "   thrown away;",
    "2. share-vector: the secret from which all else follows, 32 bytes.",
    "The coordinator reads its nonce, `nonce`, 32 bytes, when advertise-keys ends.",
]
Liars = dict[int, tuple[type[Party], str]]
"""How some parties lie, and the first stage in which one can see it."""


class Play(Stage):
    """A round under way, with everything that was said."""

    def __init__(self, scenario: Scenario, liars: Liars | None = None) -> None:
        super().__init__(scenario)
        self.round = Round(scenario.job, scenario.job.parties, self.context)
        self.liars = liars or {}
        self.parties = [self.party(i) for i in range(scenario.job.parties)]
        self.nonce = pick(f"{self.job.job}/coordinator/nonce")

    def party(self, rank: int) -> Party:
        """A party with its randomness and its words, which are not too long unless it lies about that."""
        kind, _ = self.liars.get(rank, (Party, ""))
        statement = self.round.statement
        words, bound = self.words(rank, statement.last + 1), statement.half
        if kind is Wrapped:
            words = wrapping(statement)
        elif self.job.max_norm:
            spread = 2 if kind is not TooLong else bound
            words = [bound - spread + word % (2 * spread) for word in words]
            if self.job.bound == L2:
                words = shortened(statement, words)
        else:
            words[0] = statement.last
        return kind(self.round, rank, self.identities[rank], self.tape(rank), words)

    def answering(self, among: set[int] | None = None) -> list[Party]:
        """Parties that answer in the stage to come."""
        return [self.parties[rank] for rank in self.speaking() if among is None or rank in among]

    def play(self) -> list[int]:
        """All stages; the sum."""
        self.advertise()
        self.share()
        if self.job.is_active():
            signed = {party.me: party.confirm_challenge() for party in self.answering(self.shared)}
            self.confirm("confirm-challenge", signed)
        self.respond()
        self.dispute()
        asked = self.told
        if self.job.is_active():
            signed = {
                party.me: party.confirm_survivors(self.survivors) for party in self.answering(self.told)
            }
            asked = set(signed)
            self.confirm("confirm-survivors", signed)
        sums = {party.me: party.aggregate(self.survivors) for party in self.answering(asked)}
        total = self.coordinator.open(sums)
        result = wire.result(self.round.parties, self.survivors, self.job.width(), total)
        packed = {rank: FIELD.pack(column) for rank, column in sums.items()}
        self.record("aggregate", packed, dict.fromkeys(self.survivors, result))
        return total

    def seeds(self) -> list[bytes]:
        """Seeds of projections, by rank; none where there are no projections."""
        return [party.seeds[party.me] for party in self.parties] if self.job.bound == L2 else []

    def advertise(self) -> None:
        """Keys, and the commitment to the nonce."""
        adverts = {party.me: party.advertise() for party in self.answering()}
        self.keys = {rank: self.parties[rank].key for rank in adverts}
        listed = wire.opaque(self.round.nonce_commitment(self.nonce)) + wire.neighbour_keys(adverts)
        self.record("advertise-keys", adverts, dict.fromkeys(adverts, listed))

    def share(self) -> None:
        """Commitments and pieces."""
        sent = {party.me: party.share(self.keys) for party in self.answering()}
        self.shared, parties = set(sent), self.parties
        roots = {rank: parties[rank].root for rank in sent}
        self.challenge = self.round.challenge(self.nonce, roots)
        head = self.round.bitmap(self.shared) + self.nonce
        head += b"".join(parties[rank].commitment for rank in sent)
        down = {}
        for rank in sent:
            pieces = {prover: parties[prover].piece(rank) for prover in sent if prover != rank}
            parties[rank].receive(self.challenge, roots, pieces)
            down[rank] = head + b"".join(pieces.values())
        self.roots = roots
        self.record("share-vector", sent, down)

    def confirm(self, name: str, signed: dict[int, bytes]) -> None:
        """As many signatures as are needed go to all who signed."""
        self.signers = set(signed)
        bare = {rank: body[wire.LENGTH :] for rank, body in sorted(signed.items())[: self.round.quorum]}
        self.record(name, signed, dict.fromkeys(signed, wire.signatures(bare)))

    def respond(self) -> None:
        """Answers, and who is accused."""
        among = self.signers if self.job.is_active() else self.shared
        self.responses = {party.me: party.respond() for party in self.answering(among)}
        self.coordinator = Coordinator(self.round, self.roots, self.challenge, self.responses)
        self.coordinator.judge()
        up = {rank: response.body(self.round) for rank, response in self.responses.items()}
        down = {
            prover: ACCUSED + b"".join(rank_bytes(accuser) + up[accuser] for accuser in accusers)
            for prover, accusers in self.coordinator.accused.items()
        }
        self.record("respond", up, down)

    def dispute(self) -> None:
        """What the accused show, and the verdict."""
        accused = self.coordinator.accused
        shown = {}
        for party in self.answering(set(accused)):
            body = party.show(accused[party.me])
            if body is not None:
                shown[party.me] = body
        late = self.coordinator.settle(shown)
        self.survivors = self.shared - set(self.coordinator.faults)
        self.told = self.survivors & set(self.responses)
        self.late = {
            rank: {p: plain for p, plain in late.get(rank, {}).items() if p in self.survivors}
            for rank in self.told
        }
        down = {}
        for rank, columns in self.late.items():
            for prover, plain in columns.items():
                unpacked = FIELD.unpack(plain[HASH:])
                assert unpacked is not None
                self.parties[rank].late(prover, unpacked)
            down[rank] = self.judged(self.survivors, columns)
        self.record("dispute", shown, down)

    def judged(self, survivors: set[int], late: dict[int, bytes]) -> bytes:
        """Whose vectors are summed, and the columns that a party lacks."""
        columns = b"".join(rank_bytes(prover) + plain for prover, plain in sorted(late.items()))
        return JUDGED + self.round.bitmap(survivors) + columns


def shortened(statement: Statement, words: list[int]) -> list[int]:
    """Words that are not too long; those that are one too many become 0."""
    kept, left = [], statement.most or 0
    for word in words:
        fits = statement.square(word) <= left
        kept.append(word if fits else statement.half)
        left -= statement.square(kept[-1])
    return kept


def transcript(play: Play) -> dict[str, Any]:
    """Everything about a round."""
    total, statement = play.play(), play.round.statement
    summed = [play.parties[rank].words for rank in sorted(play.survivors)]
    assert total == add(play.job.width(), summed)
    names = [stage["name"] for stage in play.stages]
    return play.bound_to() | {
        "k": statement.k,
        "l": statement.l,
        "most": None if statement.most is None else str(statement.most),
        "largest": str(statement.largest) if play.job.bound == L2 else None,
        "rows": statement.rows,
        "nonce": play.nonce.hex(),
        "challenge": play.challenge.hex(),
        "seeds": [seed.hex() for seed in play.seeds()],
        "parties": [play.known_to(party.me, party.tape, party.words) for party in play.parties],
        "stages": play.stages,
        "liars": [],
        "lies": {str(rank): names.index(stage) for rank, (_, stage) in play.liars.items()},
        "faults": {str(rank): why for rank, why in sorted(play.coordinator.faults.items())},
        "survivors": sorted(play.survivors),
        "sum": total,
    }


def jobs() -> list[Job]:
    """The jobs of the rounds."""

    def job(name: str, parties: int, **options: Any) -> Job:
        common: dict[str, Any] = {"dim": 3, "bits": 4, "corrupt": 0.1, "dropout": 0.0}
        return Job(job=f"malicious-{name}", protocol="pss-malicious", parties=parties, **common | options)

    calm = {"adversary": "semi-honest"}
    integers = {"encoding": "integers", "model_update": "none"}
    projected = {"bound": L2}
    return [
        job("norm", 7, max_norm=1.0, rounding="nearest"),
        job("calm", 8, dropout=0.125, suite="p256", bits=5, **integers, **calm),
        job("share", 8, dropout=0.125),
        job("verifier", 7, packing=1, dim=2, clip=0.1 + 0.2, max_norm=0.3, **calm),
        job("late", 8, dropout=0.125, dim=1, bits=3, **integers),
        job("long", 7, max_norm=1.0, **calm),
        job("two", 11, corrupt=0.15, dim=2, bits=2, **integers),
        job("l2", 13, corrupt=0.15, dim=7, max_norm=0.45, **projected),
        job("l2-wrap", 7, dim=5, max_norm=0.45, **projected, **calm),
        job("l2-words", 7, bits=3, max_norm=0.5, suite="p256", rounding="nearest", **projected, **calm),
        job("l2-late", 7, bits=3, max_norm=0.5, **projected),
    ]


def plays() -> list[Play]:
    """The rounds."""
    both, ones = ("ed25519", "p256"), b"\xff" * 32
    norm, calm, share, verifier, late, long, two, l2, wrap, words, handed = jobs()
    return [
        Play(Scenario(norm, both)),
        Play(Scenario(calm, lost={2: 1}, planted={3: {0: ones}})),
        Play(Scenario(share, both, lost={7: 3}), {4: (WrongShare, "share-vector")}),
        Play(Scenario(verifier), {3: (WrongAnswer, "respond")}),
        Play(Scenario(late, both, lost={6: 6}), {2: (Rubbish, "share-vector")}),
        Play(Scenario(long), {6: (TooLong, "share-vector")}),
        Play(Scenario(two), {0: (Silent, "share-vector"), 8: (MassAccuser, "respond")}),
        Play(Scenario(l2, both), {3: (WrongAnswer, "respond"), 8: (WrongShareAndRubbish, "share-vector")}),
        Play(Scenario(wrap), {5: (Wrapped, "share-vector")}),
        Play(Scenario(words), {4: (OtherWords, "share-vector")}),
        Play(Scenario(handed, both), {2: (Rubbish, "share-vector")}),
    ]


def vectors() -> dict[str, object]:
    """Everything that goes into ``pss_malicious.json``."""
    played = plays()
    rounds = [transcript(play) for play in played]
    return {
        "randomness": RANDOMNESS,
        "largest_norms": largest_norms(),
        "largest_projections": largest_projections(),
        "proofs": proofs(),
        "judgings": judgings(),
        "rounds": rounds,
        "refused": refused(played),
    }
