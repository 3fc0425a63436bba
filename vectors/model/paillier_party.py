"""Parties and the key service of sums under Paillier's scheme, honest and on paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod

from . import derive, paillier, wire
from .identity import Identity
from .job import Job
from .secagg_party import draw_secret
from .tape import Tape

SERVICE = 2**32 - 1
"""The number of the key service, where a party has its rank."""
SIGN_KEYS = "blindsum paillier keys"
PROVE_OPENING = "blindsum paillier opening"
ROLL_BITS = 16
EXPONENT_BYTES = {"full": 128, "short": 56}
SUM, VECTOR_KEY = "sum", "vector key"
BROADCAST = b"blindsum paillier broadcast"
NOBODY = b"\xff" * 8
"""In the place of two parties that sent the same."""


@cache
def key_of_service() -> paillier.Key:
    """One key for all rounds."""
    return paillier.key(2048)


@dataclass(frozen=True)
class Sum:
    """The sum of some parties' encrypted vectors, with their roll call."""

    of: frozenset[int]
    roll: list[int]
    words: list[int]


@dataclass(frozen=True)
class Opened:
    """What everybody is told: the keys of all, and those of the key service.

    Attributes
    ----------
    adverts
        In the order of ranks: key and signature.
    public
        N and h.
    seal_key
        Under which parties seal for the key service.
    chain, signature
        What a key service elsewhere proves it with: its certificates and its signature.
    """

    adverts: list[tuple[bytes, bytes]]
    public: bytes
    seal_key: bytes
    chain: tuple[bytes, ...] = ()
    signature: bytes = b""

    def keys(self) -> bytes:
        """The end of stage 0, to the key service."""
        return wire.vector([wire.ramp_advertise(*advert) for advert in self.adverts])

    def opening(self) -> bytes:
        """Stage 1, up, from the key service."""
        proof = wire.vector([wire.opaque(der) for der in self.chain]) + wire.opaque(self.signature)
        return wire.opaque(self.public) + wire.opaque(self.seal_key) + proof

    def body(self) -> bytes:
        """The end of stage 1, to all parties."""
        return self.keys() + self.opening()

    def proved_by(self, context: bytes, identity: Identity, chain: tuple[bytes, ...]) -> Opened:
        """The same with the proof of this server."""
        signed = context + replace(self, chain=(), signature=b"").body()
        return replace(self, chain=chain, signature=identity.sign(PROVE_OPENING, signed))


@dataclass(frozen=True)
class Round:
    """What everybody knows before the first message."""

    job: Job
    parties: int
    context: bytes

    @property
    def way(self) -> str:
        """How sums go: "ring", "broadcast" or "allreduce"."""
        return self.job.protocol.removeprefix("paillier-")

    def bias(self) -> int:
        """What is added to every word, so that negative ones do not wrap."""
        return 2**63 // self.job.parties if self.job.encoding == "fixed64" else 0

    def steps(self) -> int:
        """Steps between the beginning and the word of the key service."""
        return 2 if self.way == "broadcast" else self.parties

    def speakers(self, step: int) -> list[int]:
        """Who says something in a step."""
        return [step] if self.way == "ring" else list(range(self.parties))

    def part(self, number: int) -> slice:
        """A part of a vector: the first ones have one word more, where not all can have as many."""
        each, more = divmod(self.job.lanes(), self.parties)
        starts = [0]
        for index in range(self.parties):
            starts.append(starts[-1] + each + (index < more))
        return slice(starts[number], starts[number + 1])

    def of_step(self, rank: int, step: int) -> slice:
        """The words whose sum a party sends in a step."""
        if self.way == "allreduce":
            return self.part((rank - step) % self.parties)
        return slice(0, self.job.lanes())

    def pack(self, bits: int, words: list[int]) -> list[int]:
        """Plaintexts of words of so many bits."""
        fit = (int(self.job.key_bits) - 1) // bits
        rows = [words[at : at + fit] for at in range(0, len(words), fit)]
        return [sum(word << bits * place for place, word in enumerate(row)) for row in rows]

    def unpack(self, bits: int, plaintexts: list[int], count: int) -> list[int]:
        """The words of plaintexts."""
        fit = (int(self.job.key_bits) - 1) // bits
        places = (divmod(number, fit) for number in range(count))
        return [plaintexts[row] >> bits * place & (2**bits - 1) for row, place in places]

    def encrypt(self, rank: int, words: list[int], tape: Tape) -> Sum:
        """A party's words and its part of the roll call, which is encrypted first."""
        roll = self.pack(ROLL_BITS, [int(other == rank) for other in range(self.parties)])
        size, key = EXPONENT_BYTES[self.job.exponents], key_of_service()

        def encrypted(plaintexts: list[int]) -> list[int]:
            return [key.encrypt(m, int.from_bytes(tape.read(size), "little")) for m in plaintexts]

        return Sum(frozenset([rank]), encrypted(roll), encrypted(self.pack(self.job.width(), words)))

    def add(self, sums: list[Sum]) -> Sum:
        """The sum of sums."""
        square = key_of_service().n ** 2

        def product(columns: list[list[int]]) -> list[int]:
            return [prod(column) % square for column in zip(*columns, strict=True)]

        of = frozenset[int]().union(*(each.of for each in sums))
        return Sum(of, product([each.roll for each in sums]), product([each.words for each in sums]))

    def write(self, written: Sum) -> bytes:
        """A sum as it is sealed."""
        key, numbers = key_of_service(), [*written.roll, *written.words]
        ciphertexts = b"".join(key.number(number, 2) for number in numbers)
        return wire.bitmap(self.parties, set(written.of)) + ciphertexts

    def hash(self, written: bytes) -> bytes:
        """By what others know a sum."""
        return derive.framed_hash("blindsum paillier sum", written)


class Seat:
    """A party or the key service: whoever seals and opens. It draws its key when it is made."""

    def __init__(self, round_: Round, number: int, tape: Tape) -> None:
        self.round, self.number, self.tape = round_, number, tape
        self.secret = draw_secret(round_.job.suite, tape)
        self.key = derive.public_key(round_.job.suite, self.secret)

    def begin(self, opened: Opened) -> None:
        """What was told to all."""
        self.keys = {rank: key for rank, (key, _) in enumerate(opened.adverts)} | {SERVICE: opened.seal_key}
        self.bound = derive.framed_hash("blindsum paillier circle", self.round.context, opened.body())

    def message_key(self, other: int, sender: int, receiver: int, purpose: str) -> bytes:
        """The key of one message between this one and another."""
        shared = derive.agree(self.round.job.suite, self.secret, self.keys[other])
        return derive.message_key(shared, self.bound, sender, receiver, purpose)

    def seal(self, receiver: int, purpose: str, plaintext: bytes) -> bytes:
        """Seal for somebody."""
        return derive.seal(self.message_key(receiver, self.number, receiver, purpose), self.bound, plaintext)

    def open(self, sender: int, purpose: str, sealed: bytes) -> bytes:
        """Open what somebody has sealed."""
        key = self.message_key(sender, sender, self.number, purpose)
        plaintext = derive.open_sealed(key, self.bound, sealed)
        assert plaintext is not None
        return plaintext


class Party(Seat):
    """A party with its words.

    Attributes
    ----------
    own
        What it has encrypted, each time.
    """

    def __init__(self, round_: Round, rank: int, identity: Identity, tape: Tape, words: list[int]) -> None:
        super().__init__(round_, rank, tape)
        self.identity, self.words = identity, words
        self.own: list[Sum] = []

    def advert(self, key: bytes | None = None) -> tuple[bytes, bytes]:
        """Its key, or another one, and its signature."""
        key = key or self.key
        message = self.round.context + derive.rank_bytes(self.number) + key
        return key, self.identity.sign(SIGN_KEYS, message)

    def add(self, step: int, before: Sum | None) -> Sum:
        """Its words of a step, and what came."""
        words = self.words[self.round.of_step(self.number, step)]
        biased = [(word + self.round.bias()) % 2 ** self.round.job.width() for word in words]
        own = self.round.encrypt(self.number, biased, self.tape)
        self.own.append(own)
        return self.round.add([own] if before is None else [before, own])

    def hop(self, step: int, plaintext: bytes) -> bytes:
        """What it sends in a step of ring or all-reduce."""
        if step + 1 == self.round.steps():
            return self.seal(SERVICE, SUM, plaintext)
        return self.seal((self.number + 1) % self.round.parties, f"hop {step}", plaintext)

    def vector(self) -> None:
        """What it needs for a broadcast: its ciphertexts, a key and a salt."""
        self.add(0, None)
        self.vector_key, self.salt = self.tape.read(32), self.tape.read(32)

    def broadcast(self, plaintext: bytes) -> tuple[bytes, dict[int, bytes]]:
        """Ciphertexts for all, and for each of the others their key."""
        others = [other for other in range(self.round.parties) if other != self.number]
        wraps = {other: self.seal(other, VECTOR_KEY, self.vector_key) for other in others}
        return derive.seal_for_storage(self.vector_key, self.salt, BROADCAST, plaintext), wraps

    def compared(self, written: bytes, pair: bytes = NOBODY, hashed: bytes | None = None) -> bytes:
        """What it tells the key service in a broadcast."""
        hashed = hashed or self.round.hash(written)
        return hashed + pair + (written if self.number == 0 else b"")


class Service(Seat):
    """The key service: it draws its sealing key, then the key of the job."""

    def __init__(self, round_: Round, tape: Tape) -> None:
        super().__init__(round_, SERVICE, tape)
        self.drawn = tape.used
        secret = key_of_service()
        for p in (secret.p, secret.q):
            assert pow(2, p // 2, p) in (1, p - 1)

    def draws_of_key(self) -> dict[str, str]:
        """What the key of the job is drawn from."""
        secret = key_of_service()
        numbers = {"p": (secret.p, 128), "q": (secret.q, 128), "x": (secret.x, 256)}
        return {name: number.to_bytes(size, "little").hex() for name, (number, size) in numbers.items()}

    def decrypt(self, sums: list[tuple[Sum, int]]) -> list[int]:
        """The words of sums of everybody, each with its number of words."""
        key, words = key_of_service(), list[int]()
        for each, count in sums:
            roll = [key.decrypt(number) for number in each.roll]
            assert self.round.unpack(ROLL_BITS, roll, self.round.parties) == [1] * self.round.parties
            opened = [key.decrypt(number) for number in each.words]
            words += self.round.unpack(self.round.job.width(), opened, count)
        of_all = self.round.parties * self.round.bias()
        return [(word - of_all) % 2 ** self.round.job.width() for word in words]
