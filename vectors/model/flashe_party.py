"""A party of flashe, honest and on paper: what it keeps, and what it says in key set-ups and in rounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from . import derive, flashe, wire, words
from .identity import Identity
from .job import Job
from .ramp_parameters import wish_of
from .secagg_party import SIGN_KEYS, draw_secret
from .tape import Tape

PURPOSE = "job key"


@dataclass(frozen=True)
class Round:
    """What everybody knows before the first message of a round or key set-up."""

    job: Job
    number: int
    parties: int
    context: bytes

    def scheme(self) -> str:
        """Masks of a ciphertext: as the job says, or as few as are expected (FLASHE Theorem 2)."""
        if self.job.masking != "cheaper":
            return self.job.masking
        n = self.parties
        s = n - wish_of(self.job, n).dropouts
        runs = Fraction(s * (n - s + 1), n)
        return "single" if s + 1 < 2 * runs + 2 else "double"

    def bias(self) -> int:
        """What is added to every word, so that negative ones do not wrap."""
        return 2**63 // self.job.parties if self.job.encoding == "fixed64" else 0


@dataclass(frozen=True)
class Held:
    """A key and the rounds it may still encrypt in: not those below ``used``."""

    key: bytes
    made: int
    used: int

    def contents(self) -> bytes:
        """What is written down."""
        state = flashe.saved_state(self.key, self.used)
        return bytes([1]) + self.key + self.made.to_bytes(8, "big") + state

    def delivered(self) -> bytes:
        """What is sealed for another party."""
        return self.key + self.made.to_bytes(8, "big")

    def serves(self, job: Job, number: int) -> bool:
        """Whether it may be used in this round."""
        last = self.made + job.key_rounds
        return number > self.made and (job.key_rounds == 0 or number <= last)


@dataclass
class Owner:
    """A party through all rounds of a job. The mark never gets smaller, whatever becomes of the key."""

    identity: Identity
    held: Held | None = None
    mark: int = 0

    def got(self, key: bytes, made: int, number: int) -> None:
        """A key of the set-up with this number; no round that may have been used can be used again."""
        self.keep(Held(key, made, max(number + 1, self.mark)))

    def keep(self, held: Held) -> None:
        """Write a key down."""
        self.held, self.mark = held, max(self.mark, held.used)

    def kept(self) -> dict[str, object]:
        """Everything that is written down."""
        contents = self.held and self.held.contents().hex()
        return {"contents": contents, "mark": self.mark}


@dataclass(frozen=True)
class Advert:
    """What a party says first in a key set-up."""

    key_id: bytes
    key: bytes
    signature: bytes

    def body(self) -> bytes:
        """Message of stage 0."""
        return wire.key_advert(self.key_id, self.key, self.signature)


def leader_of(adverts: dict[int, Advert]) -> int:
    """Who delivers the key: the lowest of those that hold what most hold, or the lowest of all."""
    counts = Counter(advert.key_id for advert in adverts.values() if advert.key_id)
    most = max(counts.values(), default=0)
    return min(party for party, advert in adverts.items() if counts[advert.key_id] == most)


@dataclass
class SetupParty:
    """One party's side of one key set-up; the methods are its answers, in order."""

    round: Round
    me: int
    owner: Owner
    tape: Tape

    def usable(self) -> Held | None:
        """The key that the next round can be encrypted with."""
        held = self.owner.held
        return held if held and held.serves(self.round.job, self.round.number + 1) else None

    def advertise(self) -> Advert:
        """Stage 0: a fresh public key and the name of the key it holds, both signed if active."""
        job = self.round.job
        self.secret = draw_secret(job.suite, self.tape)
        key = derive.public_key(job.suite, self.secret)
        held = self.usable()
        name = flashe.key_id(held.key) if held else b""
        signature = b""
        if job.is_active():
            message = self.round.context + derive.rank_bytes(self.me) + key + name
            signature = self.owner.identity.sign(SIGN_KEYS, message)
        return Advert(name, key, signature)

    def deliver(self, adverts: dict[int, Advert]) -> dict[int, bytes] | None:
        """Stage 1: the leader's key, sealed for all that lack it; others wait."""
        self.adverts = adverts
        if leader_of(adverts) != self.me:
            return None
        held, number = self.usable(), self.round.number
        if held is None:
            self.owner.got(self.tape.read(32), number, number)
            held = self.owner.held
        assert held
        name, plaintext = flashe.key_id(held.key), held.delivered()
        lacking = [p for p, advert in adverts.items() if p != self.me and advert.key_id != name]
        return {party: self.seal(self.me, party, plaintext) for party in lacking}

    def sealing(self, sender: int, receiver: int) -> tuple[bytes, bytes]:
        """Key and header of what goes from or to another party."""
        peer = self.adverts[receiver if sender == self.me else sender]
        shared = derive.agree(self.round.job.suite, self.secret, peer.key)
        key = derive.message_key(shared, self.round.context, sender, receiver, PURPOSE)
        return key, derive.share_header(self.round.context, sender, receiver)

    def seal(self, sender: int, receiver: int, plaintext: bytes) -> bytes:
        """Seal for a party; who receives can do so too."""
        return derive.seal(*self.sealing(sender, receiver), plaintext)

    def confirm(self, sealed: bytes) -> bytes:
        """Stage 2: take the key where there is one, show that it is held."""
        if sealed:
            plaintext = derive.open_sealed(*self.sealing(leader_of(self.adverts), self.me), sealed)
            assert plaintext is not None
            key, made = plaintext[:32], int.from_bytes(plaintext[32:], "big")
            self.owner.got(key, made, self.round.number)
        assert self.owner.held
        return flashe.confirmation(self.owner.held.key, self.round.context)


@dataclass(frozen=True)
class Upload:
    """An encrypted vector, or a sum of some: words, and the check before it is reduced."""

    words: list[int]
    check: list[int]

    def body(self, width: int) -> bytes:
        """As it is sent."""
        return words.pack(width, self.words) + flashe.encoded(self.check)

    def plus(self, other: Upload, width: int) -> Upload:
        """What the server makes of two."""
        check = [a + b for a, b in zip(self.check, other.check, strict=True)]
        return Upload(words.add(width, [self.words, other.words]), check)


@dataclass
class RoundParty:
    """One party's side of one round, whose key it holds."""

    round: Round
    me: int
    owner: Owner

    def held(self) -> Held:
        """The key of the job."""
        held = self.owner.held
        assert held
        assert held.serves(self.round.job, self.round.number)
        return held

    def round_key(self, scheme: str) -> flashe.RoundKey:
        """The key of the round, for masks of this scheme."""
        round_ = self.round
        return flashe.RoundKey(scheme, self.held().key, round_.context, round_.number, round_.job.width())

    def use_up(self) -> None:
        """Write down that the round is used, which it may be once."""
        held = self.held()
        assert self.round.number >= held.used
        self.owner.keep(Held(held.key, held.made, self.round.number + 1))


class SumParty(RoundParty):
    """One party's side of a round in which everybody sends all coordinates."""

    def key(self) -> flashe.RoundKey:
        """The key of the round."""
        return self.round_key(self.round.scheme())

    def upload(self, vector: list[int]) -> Upload:
        """Stage 0: the encrypted vector; the round is used up."""
        key = self.key()
        self.use_up()
        biased = [(word + self.round.bias()) % 2**key.bits for word in vector]
        return Upload(*key.upload(self.me, biased))

    def open(self, survivors: list[int], added: Upload) -> list[int]:
        """The sum, which the parties learn and the server does not."""
        total = self.key().opened(survivors, added.words, flashe.encoded(added.check))
        bias = len(survivors) * self.round.bias()
        return [(word - bias) % 2 ** self.round.job.width() for word in total]
