"""A party of fssa and pss, honest and on paper."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import derive, wire
from .identity import Identity
from .job import Job
from .ramp_parameters import Wish, fields_for, shape, wish_of
from .ramp_sharing import Shape, Vector
from .secagg_party import SIGN_KEYS, SIGN_SURVIVORS, draw_secret
from .tape import Tape

PURPOSE = "share"
Column = list[list[int]]


@dataclass(frozen=True)
class Round:
    """What everybody knows before the first message."""

    job: Job
    parties: int
    context: bytes

    @property
    def wish(self) -> Wish:
        """What the job says about sharing."""
        return wish_of(self.job, self.parties)

    @property
    def vector(self) -> Vector:
        """How vectors are shared."""
        job, n = self.job, self.parties
        k, packed = shape(self.wish, n, job.lanes())
        embedding = {"fssa": "coefficients", "pss": "evaluations"}[job.protocol]
        return Vector(Shape(embedding, n, k, packed), fields_for(largest_sum(job)), job.lanes())


def largest_word(job: Job) -> int:
    """Largest word of a vector."""
    return 2**64 - 1 if job.encoding == "fixed64" else job.max_weight * (2**job.bits - 1)


def largest_sum(job: Job) -> int:
    """Largest sum of words of as many parties as the job allows."""
    return job.parties * largest_word(job)


@dataclass(frozen=True)
class Key:
    """Public key that a party advertises."""

    key: bytes
    signature: bytes

    def body(self) -> bytes:
        """Message of stage 0."""
        return wire.ramp_advertise(self.key, self.signature)


@dataclass
class Party:
    """One party's side of one round; the methods are its answers, in order."""

    round: Round
    me: int
    identity: Identity
    tape: Tape
    words: list[int]
    opened: dict[int, Column] = field(default_factory=dict)

    def advertise(self) -> Key:
        """Stage 0: a fresh public key, signed if the adversary is active."""
        suite = self.round.job.suite
        self.secret = draw_secret(suite, self.tape)
        key = derive.public_key(suite, self.secret)
        signature = b""
        if self.round.job.is_active():
            message = self.round.context + derive.rank_bytes(self.me) + key
            signature = self.identity.sign(SIGN_KEYS, message)
        return Key(key, signature)

    def share(self, keys: dict[int, Key]) -> dict[int, bytes]:
        """Stage 1: a sealed column for every other party that has a key."""
        self.peers = {party: key for party, key in keys.items() if party != self.me}
        columns = self.round.vector.columns(self.words, self.tape.read(32))
        self.opened[self.me] = columns[self.me]
        return {peer: self.seal(self.me, peer, self.round.vector.pack(columns[peer])) for peer in self.peers}

    def seal(self, sender: int, receiver: int, column: bytes) -> bytes:
        """Seal a column from or to another party."""
        header = derive.share_header(self.round.context, sender, receiver)
        return derive.seal(self.message_key(sender, receiver), header, column)

    def message_key(self, sender: int, receiver: int) -> bytes:
        """Key of the column that goes from or to another party."""
        peer = self.peers[receiver if sender == self.me else sender]
        shared = derive.agree(self.round.job.suite, self.secret, peer.key)
        return derive.message_key(shared, self.round.context, sender, receiver, PURPOSE)

    def aggregate(self, sealed: dict[int, bytes]) -> Column:
        """The sum of the columns of all who shared, the own one among them."""
        vector = self.round.vector
        for peer, message in sealed.items():
            header = derive.share_header(self.round.context, peer, self.me)
            packed = derive.open_sealed(self.message_key(peer, self.me), header, message)
            assert packed is not None
            self.opened[peer] = vector.unpack(packed)
        return vector.add(list(self.opened.values()))

    def confirm(self, shared: set[int]) -> bytes:
        """Consistency stage: sign the set of those who shared."""
        message = self.round.context + wire.bitmap(self.round.parties, shared)
        return self.identity.sign(SIGN_SURVIVORS, message)
