"""Results of mpc3 that not everybody learns: what servers tell parties then, and what a party takes."""

from __future__ import annotations

from . import mpc3_numbers as numbers
from . import wire
from .derive import derive32, framed_hash
from .mpc3_computing import Computing
from .mpc3_keyed import Keyed
from .mpc3_party import SERVERS, Party, Reader, Round, check_divisor, demand
from .mpc3_server import Server
from .words import add

HASH = 32


class Parts:
    """What protects the components of a result for parties alone.

    Attributes
    ----------
    lanes
        Words of a component.
    """

    def __init__(self, of: Round) -> None:
        self.round, self.lanes = of, of.result_lanes

    def salt(self, key: bytes) -> bytes:
        """Of the component with this key."""
        return derive32(key, self.round.context, "mpc3/salt")

    def hash_of(self, salt: bytes, packed: bytes) -> bytes:
        """What binds a component and tells nothing of it."""
        return framed_hash("blindsum mpc3 part", self.round.context, salt, packed)

    def result_hash(self, survivors: list[int], hashes: list[bytes]) -> bytes:
        """What words and tags are of."""
        bitmap = wire.bitmap(self.round.parties, set(survivors))
        return framed_hash("blindsum mpc3 parts", self.round.context, bitmap, b"".join(hashes))

    def masked(self, key: bytes, component: list[int]) -> list[int]:
        """The third component under its mask."""
        return add(self.round.width, [component, self.round.words_of(key, len(component))])

    def unmasked(self, key: bytes, masked: list[int]) -> list[int]:
        """The third component again."""
        mask, modulus = self.round.words_of(key, len(masked)), 2**self.round.width
        return [(word - lane) % modulus for word, lane in zip(masked, mask, strict=True)]

    def wrap(self, tag_key: bytes, key: bytes) -> bytes:
        """The key of the third component for the party with this tag key at server 1, and back."""
        pad = derive32(tag_key, self.round.context, "mpc3/wrap")
        return bytes(a ^ b for a, b in zip(key, pad, strict=True))


class ForServers(Server):
    """A server whose parties hear who is in the result, and nothing else."""

    def told(self) -> bytes:
        """Survivors alone."""
        return wire.bitmap(self.round.parties, set(self.survivors))


class SumForServers(ForServers):
    """One that adds."""


class RuleForServers(ForServers, Computing):
    """One that computes."""


class ForParties(Keyed):
    """A server that opens nothing.

    Attributes
    ----------
    known
        Where servers compute: the words of the result that all of them know, at its end.
    lacking
        The hash of the component that this server lacks.
    """

    known: tuple[int, ...] = ()
    lacking: bytes = b""

    @property
    def protection(self) -> Parts:
        """What protects components."""
        return Parts(self.round)

    def part_key(self, number: int) -> bytes:
        """Known to both servers that have this component."""
        secret = self.shared()[number]
        return derive32(secret, self.round.context, "mpc3/part", self.begun, bytes([number]))

    def part(self, number: int) -> list[int]:
        """A component of the result; what all servers know is in the first one."""
        return self.sums[number] + [0 if number else word for word in self.known]

    def part_hash(self, number: int) -> bytes:
        """Of one of its components."""
        salt = self.protection.salt(self.part_key(number))
        return self.protection.hash_of(salt, self.round.pack(self.part(number)))

    def shown(self) -> tuple[bytes, bytes]:
        """Hashes: to each of the others that of the component that it lacks."""
        return self.part_hash(self.number), self.part_hash(self.following)

    def open(self, from_next: Reader, from_before: Reader) -> None:
        """Both others have the same hash of the component that it lacks."""
        self.lacking = from_next.take(HASH)
        demand(from_before.take(HASH) == self.lacking, "two hashes of a component")

    def hear_reveal(self, from_next: bytes, from_before: bytes) -> None:
        """The same, where servers compute."""
        readers = [Reader(from_next), Reader(from_before)]
        self.open(*readers)
        for reader in readers:
            reader.end()

    def result_hash(self) -> bytes:
        """What words and tags are of."""
        hashes = {number: self.part_hash(number) for number in (self.number, self.following)}
        hashes[self.before] = self.lacking
        return self.protection.result_hash(self.survivors, [hashes[number] for number in SERVERS])

    def word(self) -> bytes:
        """Server 1 adds the third component under its mask, and the key to that for each survivor."""
        said = super().word()
        if self.number == 1:
            key = self.part_key(2)
            masked = self.protection.masked(key, self.part(2))
            wrapped = [self.protection.wrap(self.held[rank].tag_key, key) for rank in self.survivors]
            said += self.round.pack(masked) + b"".join(wrapped)
        return said

    def take_first(self, body: bytes) -> bytes:
        """The word of server 1 on this server's own result, without the hash."""
        reader = Reader(body)
        demand(reader.take(HASH) == self.result_hash(), "word on another result")
        said = reader.rest
        reader.take(HASH * len(self.survivors) if self.round.job.is_active() else 0)
        self.round.read_words(reader, self.protection.lanes)
        reader.take(HASH * len(self.survivors))
        reader.end()
        return said

    def told(self) -> bytes:
        """Survivors, the salts of the first two components, and these."""
        salts = [self.protection.salt(self.part_key(number)) for number in (0, 1)]
        components = [self.round.pack(self.part(number)) for number in (0, 1)]
        return wire.bitmap(self.round.parties, set(self.survivors)) + b"".join(salts + components)


class SumForParties(ForParties):
    """One that adds."""


class RuleForParties(ForParties, Computing):
    """One that computes."""

    def know(self, divisor: float) -> None:
        """What is not revealed because all servers have it."""
        self.known = tuple(numbers.result([], None, divisor))

    def reveal(self) -> tuple[bytes, bytes]:
        """The mean with noise has the divisor that everybody knows."""
        self.know(float(len(self.survivors)))
        return super().reveal()


# --- Parties ---


def take(party: Party, body: bytes) -> list[int] | None:
    """The result that a party takes; None where it is for servers alone."""
    reader, of = Reader(body), party.round
    survivors = of.read_set(reader)
    party.check_survivors(survivors)
    if of.job.result == "servers":
        hashed = of.result_hash(body[: len(body) - len(reader.rest)])
        second = party.take_tags(reader, survivors)
        total = None
    else:
        parts = Parts(of)
        salts = [reader.take(HASH) for _ in range(2)]
        components = [of.read_words(reader, parts.lanes) for _ in range(2)]
        second = party.take_tags(reader, survivors)
        masked = of.read_words(reader, parts.lanes)
        wrapped = {rank: reader.take(HASH) for rank in survivors}
        key = parts.wrap(party.tag_keys[1], wrapped[party.rank])
        salts.append(parts.salt(key))
        components.append(parts.unmasked(key, masked))
        packed = [of.pack(component) for component in components]
        hashes = [parts.hash_of(*both) for both in zip(salts, packed, strict=True)]
        hashed = parts.result_hash(survivors, hashes)
        total = add(of.width, components)
    third = party.take_tags(reader, survivors)
    reader.end()
    party.check_tag(1, second, hashed)
    party.check_tag(2, third, hashed)
    if total and numbers.computes(of.job):
        check_divisor(total)
    return total
