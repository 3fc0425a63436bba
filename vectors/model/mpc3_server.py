"""A server of mpc3: the uploads that it takes, the letters that it says and takes, and the sum."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from . import mpc3_numbers as numbers
from . import wire
from .derive import framed_hash, rank_bytes
from .identity import Identity
from .mpc3_party import SIGN_UPLOAD, Reader, Round, demand, explicit_hash, seed_hash
from .words import add

NOBODY = bytes(32)


@dataclass(frozen=True)
class Held:
    """What a server keeps of an upload: its own component and the next one, by number."""

    body: bytes
    header: bytes
    tag_key: bytes
    components: dict[int, list[int]]


@dataclass
class Server:
    """One of the three; ``identities`` are the parties' keys by rank.

    Attributes
    ----------
    survivors
        Parties whose uploads are added up, once the lists were heard.
    total
        The sum, once all letters were heard.
    """

    round: Round
    number: int
    identities: list[Identity]
    held: dict[int, Held] = field(default_factory=dict)
    #: What the other servers told of uploads, by server and rank.
    noted: dict[int, dict[int, bytes]] = field(default_factory=dict)

    @property
    def following(self) -> int:
        """Number of the next server, and of the second component that this one holds."""
        return (self.number + 1) % 3

    @property
    def before(self) -> int:
        """Number of the server before, and of the component that this one lacks."""
        return (self.number + 2) % 3

    def take(self, rank: int, body: bytes) -> None:
        """An upload of a party; the first one counts."""
        if rank in self.held:
            demand(self.held[rank].body == body, "another upload was taken")
            return
        active, explicit = self.round.job.is_active(), rank % 3
        reader = Reader(body)
        hashes = [reader.take(32) for _ in range(3)]
        norm = self.take_norm(reader) if rank == self.round.root else b""
        signature = reader.take(int.from_bytes(reader.take(wire.LENGTH), "big"))
        tag_key = reader.take(32) if self.round.has_tag_keys and self.number else b""
        lacks = explicit == self.before
        salt = b"" if lacks else reader.take(32)
        mine = (self.number, self.following)
        seeds = {number: reader.take(32) for number in mine if number != explicit}
        components = {number: self.round.words_of(seed) for number, seed in seeds.items()}
        found = {number: seed_hash(seed) for number, seed in seeds.items()}
        if not lacks:
            components[explicit] = self.round.read_words(reader)
            found[explicit] = explicit_hash(salt, self.round.pack(components[explicit]))
        reader.end()
        header = self.round.header(rank, hashes, norm)
        if active:
            right = self.identities[rank].verify(SIGN_UPLOAD, header, signature)
            demand(right, "the signature is not right")
        demand(active or not signature, "a signature where nothing is signed")
        demand(all(hashes[number] == found[number] for number in mine), "a component is not that of its hash")
        self.held[rank] = Held(body, header, tag_key, components)

    def take_norm(self, reader: Reader) -> bytes:
        """That of the root's vector."""
        norm = reader.take(8)
        (value,) = struct.unpack(">d", norm)
        is_length = 1.0 <= value <= numbers.longest(self.round.job)
        demand(is_length or value == numbers.SHORTEST_ROOT, "a norm that no vector has")
        return norm

    def notice(self, rank: int) -> bytes:
        """What it tells both others of an upload that it took, where they compute no more than a sum."""
        return rank_bytes(rank) + self.held[rank].header

    def note(self, sender: int, body: bytes) -> None:
        """A notice of another server."""
        reader = Reader(body)
        rank, header = int.from_bytes(reader.take(4), "big"), reader.take(32)
        reader.end()
        demand(rank < self.round.parties, "its party is not in the round")
        told = self.noted.setdefault(sender, {}).setdefault(rank, header)
        demand(told == header, "it told of another upload of this party")

    def headers(self) -> list[bytes]:
        """Of all parties of the round; zeros where there is no upload."""
        ranks = range(self.round.parties)
        return [self.held[rank].header if rank in self.held else NOBODY for rank in ranks]

    def letters(self, number: int) -> tuple[bytes, bytes]:
        """What it says in a round of letters: to the next server, and to the server before."""
        if number == 2:
            to_next, to_before = self.shown()
            return self.letter(number, to_next), self.letter(number, to_before)
        said = self.letter(number, self.survivors_hash() if number else self.listing())
        return said, said

    def shown(self) -> tuple[bytes, bytes]:
        """The own component of the sum, and a hash of the next one."""
        own, following = (self.round.pack(self.sums[i]) for i in (self.number, self.following))
        return own, self.component_hash(following)

    def letter(self, number: int, said: bytes) -> bytes:
        """Body of a letter."""
        return said + number.to_bytes(4, "big")

    def listing(self) -> bytes:
        """Whose uploads it holds."""
        return wire.bitmap(self.round.parties, set(self.held)) + b"".join(self.headers())

    def survivors_hash(self) -> bytes:
        """What all three must have alike before they open anything."""
        headers = b"".join(self.held[rank].header for rank in self.survivors)
        bitmap = wire.bitmap(self.round.parties, set(self.survivors))
        return framed_hash("blindsum mpc3 survivors", self.round.context, bitmap, headers)

    def component_hash(self, packed: bytes) -> bytes:
        """Of a component of the sum."""
        return framed_hash("blindsum mpc3 component", self.round.context, packed)

    def hear(self, number: int, from_next: bytes, from_before: bytes) -> None:
        """Both letters of a round."""
        readers = [Reader(body) for body in (from_next, from_before)]
        if number == 0:
            lists = [self.read_list(reader) for reader in readers]
            for sender, listed in zip((self.following, self.before), lists, strict=True):
                told = self.noted.get(sender, {}).items()
                demand(all(listed.get(rank) == header for rank, header in told), "not the uploads it told of")
            self.compare(lists)
        elif number == 1:
            same = all(reader.take(32) == self.survivors_hash() for reader in readers)
            demand(same, "another hash of the survivors")
        else:
            self.open(*readers)
        for reader in readers:
            demand(int.from_bytes(reader.take(4), "big") == number, "a letter of another round")
            reader.end()

    def read_list(self, reader: Reader) -> dict[int, bytes]:
        """Headers by party."""
        listed = self.round.read_set(reader)
        headers = [reader.take(32) for _ in range(self.round.parties)]
        zeros = all(header == NOBODY for rank, header in enumerate(headers) if rank not in listed)
        demand(zeros, "a header of a party that is not listed")
        return {rank: headers[rank] for rank in listed}

    def compare(self, others: list[dict[int, bytes]]) -> None:
        """Survivors have the same header in all three lists."""
        held = self.held.items()
        self.survivors = [r for r, own in sorted(held) if all(o.get(r) == own.header for o in others)]
        demand(len(self.survivors) >= self.round.job.least_survivors(), "too few survivors")
        uploads = [self.held[rank].components for rank in self.survivors if rank != self.round.root]
        mine = (self.number, self.following)
        self.sums = {number: add(self.round.width, [upload[number] for upload in uploads]) for number in mine}

    def open(self, from_next: Reader, from_before: Reader) -> None:
        """The component that it lacks, checked, makes the sum whole."""
        lacking = self.round.read_words(from_before)
        right = from_next.take(32) == self.component_hash(self.round.pack(lacking))
        demand(right, "the component does not fit its hash")
        self.sums[self.before] = lacking
        self.total = add(self.round.width, list(self.sums.values()))

    def told(self) -> bytes:
        """Survivors and sum as a result has them."""
        return wire.result(self.round.parties, set(self.survivors), self.round.width, self.total)

    def word(self) -> bytes:
        """What the servers 1 and 2 tell the coordinator: the hash of the result, tags of the survivors."""
        return self.result_hash() + b"".join(self.tags())

    def result_hash(self) -> bytes:
        """What words and tags are of."""
        return self.round.result_hash(self.told())

    def tags(self) -> list[bytes]:
        """For the survivors in the order of ranks; none if semi-honest."""
        if not self.round.job.is_active():
            return []
        hashed = self.result_hash()
        return [self.round.tag(self.held[rank].tag_key, hashed) for rank in self.survivors]

    def take_word(self, body: bytes) -> bytes:
        """The tags of another server's word on this server's own sum, one behind the other."""
        reader = Reader(body)
        demand(reader.take(32) == self.result_hash(), "word on another result")
        tags = reader.take(32 * len(self.survivors) if self.round.job.is_active() else 0)
        reader.end()
        return tags
