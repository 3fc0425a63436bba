"""A party of mpc3: what it uploads to each of the three servers, and which result it takes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from . import mpc3_numbers as numbers
from .derive import derive32, framed_hash, mask_lanes, rank_bytes
from .identity import Identity
from .job import Job
from .tape import Tape
from .wire import opaque
from .words import pack, packed_len, unpack

SERVERS = range(3)
SIGN_UPLOAD = "blindsum upload"


class RefusedError(Exception):
    """A message that must not be taken; the argument says what is wrong with it."""


def demand(holds: object, rule: str) -> None:
    """Refuse a message unless it keeps a rule."""
    if not holds:
        raise RefusedError(rule)


class Reader:
    """The fields of a body, one after the other."""

    def __init__(self, body: bytes) -> None:
        self.rest = body

    def take(self, length: int) -> bytes:
        """The next bytes."""
        demand(len(self.rest) >= length, "the message is too short")
        taken, self.rest = self.rest[:length], self.rest[length:]
        return taken

    def end(self) -> None:
        """Nothing may follow the last field."""
        demand(not self.rest, "the message is too long")


@dataclass(frozen=True)
class Round:
    """What everybody knows before the first message.

    Attributes
    ----------
    root
        The rank of the party with whose vector others are compared, if the rule has one.
    """

    job: Job
    parties: int
    context: bytes
    root: int | None = None

    @property
    def width(self) -> int:
        """Bits of a word."""
        return 64 if numbers.computes(self.job) else self.job.width()

    @property
    def lanes(self) -> int:
        """Words of a vector."""
        return self.job.dim if numbers.computes(self.job) else self.job.lanes()

    @property
    def result_lanes(self) -> int:
        """Words of a result."""
        return self.lanes + (numbers.TAIL if numbers.computes(self.job) else 0)

    def words_of(self, seed: bytes, lanes: int | None = None) -> list[int]:
        """The component that a seed stands for."""
        drawn = mask_lanes(seed, 32 if self.width <= 32 else 64, 0, lanes or self.lanes)
        return [lane % 2**self.width for lane in drawn]

    def pack(self, words: list[int]) -> bytes:
        """Words as they travel."""
        return pack(self.width, words)

    def read_words(self, reader: Reader, lanes: int | None = None) -> list[int]:
        """The next words of a body."""
        lanes = lanes or self.lanes
        words = unpack(self.width, lanes, reader.take(packed_len(self.width, lanes)))
        demand(words is not None, "bits left over are set")
        return words or []

    def read_set(self, reader: Reader) -> list[int]:
        """The next set of parties of a body, in the order of ranks."""
        number = int.from_bytes(reader.take((self.parties + 7) // 8), "little")
        demand(number < 2**self.parties, "a party outside the roster")
        return [party for party in range(self.parties) if number >> party & 1]

    def header(self, rank: int, hashes: list[bytes], norm: bytes = b"") -> bytes:
        """What stands for a whole upload, and what is signed."""
        said = b"".join(hashes) + norm
        return framed_hash("blindsum upload header", self.context, rank_bytes(rank), said)

    @property
    def has_tag_keys(self) -> bool:
        """Whether parties draw keys for the servers 1 and 2."""
        return self.job.is_active() or self.job.result == "parties"

    def result_hash(self, told: bytes) -> bytes:
        """What servers vouch for: survivors and sum as the result has them."""
        return framed_hash("blindsum mpc3 result", self.context, told)

    def tag(self, tag_key: bytes, hashed: bytes) -> bytes:
        """A server's word on a result, for one party."""
        return derive32(tag_key, self.context, "mpc3/tag", hashed)


def seed_hash(seed: bytes) -> bytes:
    """Hash of a component that has a seed."""
    return framed_hash("blindsum component seed", seed)


def explicit_hash(salt: bytes, packed: bytes) -> bytes:
    """Hash of the explicit component."""
    return framed_hash("blindsum component", salt, packed)


def check_divisor(told: list[int]) -> None:
    """The last word of what servers computed is a number by which one can divide."""
    divisor = numbers.divisor_of(told)
    demand(2.0**-1022 <= divisor < float("inf"), "a divisor that is no normal number above 0")


@dataclass
class Party:
    """One party's side of a round: it draws all its secrets when it is made.

    Attributes
    ----------
    seeds
        By number of the component.
    tag_keys
        By number of the server.
    hashes
        Of the three components.
    vector
        What is shared; the words, where servers add them.
    norm
        Of the root's vector, as a double; nothing for all others.
    """

    round: Round
    rank: int
    identity: Identity
    tape: Tape
    words: list[int]

    def __post_init__(self) -> None:
        job, self.vector, self.norm = self.round.job, self.words, b""
        if self.rank == self.round.root:
            shared, norm = numbers.direction(job, self.words)
            self.vector, self.norm = numbers.words(shared), struct.pack(">d", norm)
        elif numbers.computes(job):
            self.vector = numbers.words([numbers.number(job, level) for level in self.words])
        self.explicit = self.rank % 3
        self.seeds = {number: self.tape.read(32) for number in SERVERS if number != self.explicit}
        self.salt = self.tape.read(32)
        self.tag_keys = {server: self.tape.read(32) for server in (1, 2) if self.round.has_tag_keys}
        self.hashes = [self.hash_of(number) for number in SERVERS]

    @cached_property
    def components(self) -> list[list[int]]:
        """The vector is their sum."""
        seeded = {number: self.round.words_of(seed) for number, seed in self.seeds.items()}
        one, two = seeded.values()
        modulus = 2**self.round.width
        left = [(x - a - b) % modulus for x, a, b in zip(self.vector, one, two, strict=True)]
        return [seeded.get(number, left) for number in SERVERS]

    @property
    def packed(self) -> bytes:
        """The explicit component as it travels."""
        return self.round.pack(self.components[self.explicit])

    def hash_of(self, number: int) -> bytes:
        """What a server compares its component with."""
        if number == self.explicit:
            return explicit_hash(self.salt, self.packed)
        return seed_hash(self.seeds[number])

    def signature(self, hashes: list[bytes], norm: bytes) -> bytes:
        """On the three hashes and the norm; empty if semi-honest."""
        if not self.round.job.is_active():
            return b""
        return self.identity.sign(SIGN_UPLOAD, self.round.header(self.rank, hashes, norm))

    def upload(
        self,
        server: int,
        packed: bytes | None = None,
        hashes: list[bytes] | None = None,
        norm: bytes | None = None,
    ) -> bytes:
        """Body of what a server gets; liars send another component, or sign other hashes or norms."""
        hashes = hashes or self.hashes
        norm = self.norm if norm is None else norm
        held = [server, (server + 1) % 3]
        body = b"".join(hashes) + norm + opaque(self.signature(hashes, norm))
        body += self.tag_keys.get(server, b"")
        if self.explicit in held:
            body += self.salt
        body += b"".join(self.seeds[number] for number in held if number != self.explicit)
        return body + (packed or self.packed) if self.explicit in held else body

    def take(self, body: bytes) -> list[int]:
        """The sum of a result that this party takes."""
        reader = Reader(body)
        survivors = self.round.read_set(reader)
        total = self.round.read_words(reader, self.round.result_lanes)
        if numbers.computes(self.round.job):
            check_divisor(total)
        told = body[: len(body) - len(reader.rest)]
        self.check_survivors(survivors)
        hashed = self.round.result_hash(told)
        for server in (1, 2):
            self.check_tag(server, self.take_tags(reader, survivors), hashed)
        reader.end()
        return total

    def check_survivors(self, survivors: list[int]) -> None:
        """Enough of them, the party itself among them."""
        demand(len(survivors) >= self.round.job.least_survivors(), "too few survivors")
        demand(self.rank in survivors, "the party is not among the survivors")

    def take_tags(self, reader: Reader, survivors: list[int]) -> dict[int, bytes]:
        """Tags of a server by rank; none if semi-honest."""
        return {party: reader.take(32) for party in survivors if self.round.job.is_active()}

    def check_tag(self, server: int, tags: dict[int, bytes], hashed: bytes) -> None:
        """That of this party is right."""
        if tags:
            right = self.round.tag(self.tag_keys[server], hashed)
            demand(tags[self.rank] == right, "a tag is not right")
