"""Whole rounds of sums under Paillier's scheme: every message of parties, key service and coordinator."""

from __future__ import annotations

from typing import Any

from . import wire
from .identity import OF_SERVERS, Authority, Identity
from .job import Job
from .paillier_party import SERVICE, SUM, Opened, Party, Round, Service, Sum, key_of_service
from .paillier_refused import refused
from .play import Scenario, Stage, pick, vector
from .tape import Tape
from .words import add, pack

RANDOMNESS = [
    "A party reads its `random` bytes in this order, and reads all of them:",
    "1. keys: the secret of its key, 32 bytes; for p256 32 bytes that are no scalar are thrown away;",
    "2. each time it encrypts: the exponents of the roll call, then those of the words, each of 128 bytes,",
    "   or 56 where they are short, the lowest first;",
    "3. in a broadcast: the key of its vector, then the salt, 32 bytes each.",
    "The key service reads its `random`, the secret of its sealing key; then p, 8 bases to which it is",
    "tested, q, 8 bases again, and x. p, q and x are those of `key`, every base is 2 and has 128 bytes; all",
    "have the lowest byte first.",
]


class Play(Stage):
    """A round under way, with everything that was said.

    Attributes
    ----------
    sent
        By step, what each party has sealed.
    plain
        By step and party, the sum that it has sealed; in a broadcast the second step has the sum of all.
    """

    def __init__(self, job: Job, algorithms: tuple[str, ...] = ("ed25519",)) -> None:
        super().__init__(Scenario(job, algorithms))
        self.round = Round(job, job.parties, self.context)
        self.parties = [self.party(rank) for rank in range(job.parties)]
        self.service = Service(self.round, Tape(f"{job.job}/service/random"))
        public = key_of_service().public()
        self.opened = Opened([party.advert() for party in self.parties], public, self.service.key)
        if job.decryptor:
            self.opened = self.opened.proved_by(self.context, *self.server(job.decryptor))
        for seat in (*self.parties, self.service):
            seat.begin(self.opened)
        self.sent: list[dict[int, bytes]] = []
        self.plain: list[dict[int, Sum]] = []

    def party(self, rank: int) -> Party:
        """A party with its words."""
        words = vector(self.job, f"{self.job.job}/{rank}")
        return Party(self.round, rank, self.identities[rank], self.tape(rank), words)

    def server(
        self, host: str, purposes: tuple[str, ...] = OF_SERVERS, authority: Authority | None = None
    ) -> tuple[Identity, tuple[bytes, ...]]:
        """A server of this name: its key and its certificate."""
        identity = Identity("ed25519", pick(f"{self.job.job}/server"))
        return identity, ((authority or self.authority).certify(1000, host, identity, purposes),)

    def say(
        self, name: str, up: dict[int, bytes], down: dict[int, bytes], asked: bytes = b"", said: bytes = b""
    ) -> None:
        """Write down a stage, with what the key service says in it and what it is told at its end."""
        self.record(name, up, down)
        stage = len(self.stages) - 1
        for side, body in (("asked", asked), ("said", said)):
            if body:
                self.stages[-1][side] = wire.frame(self.context, stage, body).hex()

    def play(self) -> list[int]:
        """All stages; the sum."""
        everyone = range(self.round.parties)
        adverts = {rank: wire.ramp_advertise(*self.opened.adverts[rank]) for rank in everyone}
        self.say("keys", adverts, {}, asked=self.opened.keys())
        self.say("open", {}, dict.fromkeys(everyone, self.opened.body()), said=self.opened.opening())
        if self.round.way == "broadcast":
            self.broadcast()
        else:
            self.hops()
        total = self.open()
        survivors = set(everyone)
        body = wire.result(self.round.parties, survivors, self.job.width(), total)
        self.say("decrypt", {}, dict.fromkeys(everyone, body), said=pack(self.job.width(), total))
        return total

    def hops(self) -> None:
        """Sums go from one party to the next."""
        round_ = self.round
        for step in range(round_.steps()):
            speakers, before = round_.speakers(step), self.plain[-1] if step else {}
            plain = {
                rank: self.parties[rank].add(step, before.get((rank - 1) % round_.parties))
                for rank in speakers
            }
            sent = {rank: self.parties[rank].hop(step, round_.write(plain[rank])) for rank in speakers}
            self.plain.append(plain)
            self.sent.append(sent)
            if step + 1 == round_.steps():
                self.say("hop", sent, {}, asked=b"".join(sent.values()))
            else:
                down = {(rank + 1) % round_.parties: sealed for rank, sealed in sent.items()}
                self.say("hop", sent, down)
                for rank, sealed in down.items():
                    sender = (rank - 1) % round_.parties
                    opened = self.parties[rank].open(sender, f"hop {step}", sealed)
                    assert opened == round_.write(plain[sender])

    def broadcast(self) -> None:
        """Everybody's ciphertexts go to all, and everybody adds them up."""
        round_ = self.round
        for party in self.parties:
            party.vector()
        own = {party.number: party.own[0] for party in self.parties}
        said = {party.number: party.broadcast(round_.write(party.own[0])) for party in self.parties}
        up = {rank: vector + b"".join(wraps.values()) for rank, (vector, wraps) in said.items()}
        down = {
            rank: b"".join(vector + wraps[rank] for other, (vector, wraps) in said.items() if other != rank)
            for rank in up
        }
        self.say("broadcast", up, down)
        total = round_.add([party.own[0] for party in self.parties])
        written = round_.write(total)
        compared = {party.number: party.seal(SERVICE, SUM, party.compared(written)) for party in self.parties}
        self.say("compare", compared, {}, asked=b"".join(compared.values()))
        self.sent, self.plain = [up, compared], [own, dict.fromkeys(own, total)]

    def open(self) -> list[int]:
        """What the key service makes of the last step."""
        round_ = self.round
        last = round_.steps() - 1
        tellers = [0] if round_.way == "broadcast" else round_.speakers(last)
        parts = sorted(
            (part.start, part.stop, rank) for rank in tellers for part in [round_.of_step(rank, last)]
        )
        return self.service.decrypt([(self.plain[last][rank], stop - start) for start, stop, rank in parts])


def transcript(play: Play) -> dict[str, Any]:
    """Everything about a round."""
    total, service = play.play(), {"random": play.service.drawn.hex(), "bound": play.service.bound.hex()}
    if play.job.decryptor:
        identity, chain = play.server(play.job.decryptor)
        shown = {"chain": [der.hex() for der in chain], "private_key": identity.to_pem()}
        service = service | {"identity": shown}
    assert total == add(play.job.width(), [party.words for party in play.parties])
    return play.bound_to() | {
        "parties": [play.known_to(party.number, party.tape, party.words) for party in play.parties],
        "service": service,
        "stages": play.stages,
        "liars": [],
        "survivors": list(range(play.round.parties)),
        "sum": total,
    }


def plays() -> list[Play]:
    """The rounds."""
    both = ("ed25519", "p256")
    ring = Job(job="paillier-ring", protocol="paillier-ring", parties=3, dim=5)
    long = Job(
        job="paillier-long",
        protocol="paillier-ring",
        adversary="semi-honest",
        suite="p256",
        parties=2,
        dim=121,
        exponents="short",
        order="hash",
    )
    broadcast = Job(job="paillier-broadcast", protocol="paillier-broadcast", parties=3, dim=5)
    fewer = Job(
        job="paillier-allreduce",
        protocol="paillier-allreduce",
        encoding="fixed64",
        parties=3,
        dim=2,
        exponents="short",
    )
    elsewhere = Job(
        job="paillier-elsewhere",
        protocol="paillier-ring",
        parties=2,
        dim=2,
        exponents="short",
        decryptor="keys.example.org",
    )
    return [Play(ring, both), Play(long), Play(broadcast, both), Play(fewer, ("p256",)), Play(elsewhere)]


def vectors() -> dict[str, object]:
    """Everything that goes into ``paillier_rounds.json``."""
    played = plays()
    rounds = [transcript(play) for play in played]
    return {
        "randomness": RANDOMNESS,
        "key": [played[0].service.draws_of_key()],
        "rounds": rounds,
        "refused": [entry for number, play in enumerate(played) for entry in refused(number, play)],
    }
