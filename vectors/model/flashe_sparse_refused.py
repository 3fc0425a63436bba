"""Messages of flashe's sparse rounds that nobody may accept, made from those of whole rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from . import wire
from .flashe import PRIMES
from .flashe_sparse import mask_bytes, varint
from .flashe_sparse_party import (
    MASKS_A_WORD,
    SparseParty,
    Upload,
    added,
    listed,
    most_coordinates,
    scheme_of,
)
from .job import Job
from .refused import HEADER, Change, changed, flip, frames
from .words import packed_len

Places = dict[int, list[int]]


def sets_of(job: Job, places: list[int]) -> Iterator[Change]:
    """Bytes that encode no set of places that a party may send, with what is wrong with each."""
    lanes, most = job.lanes(), most_coordinates(job)
    size = (lanes + 7) // 8
    bitmap = sum(1 << place for place in places).to_bytes(size, "little")
    gaps = [after - before - 1 for before, after in zip([-1, *places], places)]
    distances = b"".join(map(varint, gaps))
    right = mask_bytes(lanes, places)
    yield "not even a kind", b""
    yield "no such kind", b"\x02" + right[1:]
    yield "the longer form", b"\x00" + bitmap if right[0] else b"\x01" + distances
    yield "no place", mask_bytes(lanes, [])
    yield "no place, as a bitmap", b"\x00" + bytes(size)
    if most < lanes:
        yield "more places than a party has", mask_bytes(lanes, list(range(most + 1)))
    # Short forms of one place: the distances are shorter than a bitmap.
    if size > 2:
        yield "a place beyond the last one", b"\x01" + varint(lanes)
        yield "a distance that does not end", b"\x01" + varint(lanes - 1)[:-1] + b"\xff"
        yield "a distance in more bytes than it takes", b"\x01\x81\x00"
    if size > 6:
        yield "a distance of 2^32", b"\x01" + varint(2**32)
        yield "a distance of more than 5 bytes", b"\x01" + b"\x80" * 5 + b"\x00"
        yield "a place beyond 2^32", b"\x01\x00" + varint(2**32 - 1)
    if right[0] == 0:
        yield "a bitmap with a byte less", b"\x00" + bitmap[:-1]
        yield "a bitmap with a byte more", b"\x00" + bitmap + b"\x00"
        if lanes % 8:
            yield "a bit behind the last place", b"\x00" + flip(bitmap, -1, 0x80)


def frames_of_sets(message: bytes) -> Iterator[Change]:
    """Wrong frames. Where distances end is not told, so that a byte less or more may be another set."""
    lengths = ("cut short", "trailing byte")
    is_bitmap = message[HEADER] == 0
    yield from (change for change in frames(message) if is_bitmap or change[0] not in lengths)


def ciphertexts(message: bytes, job: Job, count: int, before: int = 0) -> Iterator[Change]:
    """Changes after which a message does not end with a ciphertext of so many words."""
    start, width = HEADER + before, job.width()
    assert len(message) == start + packed_len(width, count) + 16
    yield "no words", message[:start] + message[-16:]
    yield "no check", message[:-16]
    shorter, longer = (packed_len(width, number) for number in (count - 1, count + 1))
    yield "a word less", message[: start + shorter] + message[-16:]
    yield "a word more", message[:-16] + bytes(longer - packed_len(width, count)) + message[-16:]
    if count * width % 8:
        yield "padding bits", flip(message, -17, 0x80)
    for place, p in enumerate(PRIMES):
        at = len(message) - 16 + 8 * place
        yield f"a check beyond prime {place + 1}", message[:at] + p.to_bytes(8, "little") + message[at + 8 :]


@dataclass
class Refusals:
    """What is changed in one round: who said what, and who is to refuse it.

    Attributes
    ----------
    parties
        All whose places are listed, with their vectors.
    me
        The party that sends or gets the changed messages.
    places, survivors
        As in the round.
    """

    parties: dict[int, SparseParty]
    me: int
    places: Places
    survivors: list[int]

    def __post_init__(self) -> None:
        self.round = self.parties[self.me].round
        self.job = self.round.job
        self.scheme = scheme_of(self.job, self.places)

    def another_round(self) -> dict[int, SparseParty]:
        """Everybody with the same vectors in another round, under the same key."""
        other = replace(self.round, context=bytes(32))
        parties = {j: SparseParty(other, j, party.owner) for j, party in self.parties.items()}
        order = self.parties[self.me].coordinates()
        for j, party in parties.items():
            party.places({order[place]: word for place, word in self.parties[j].vector.items()})
        return parties

    def lists(self, head: bytes) -> Iterator[Change]:
        """Lists of places that the party refuses; the masking is the right one for what is listed."""

        def of(sets: Places) -> bytes:
            return head + listed(self.round, scheme_of(self.job, sets), sets)

        me, sets = self.me, self.places
        other = next(j for j in sets if j != me)
        yield "the party itself is not listed", of({j: places for j, places in sets.items() if j != me})
        if sets[other] != sets[me]:
            yield "the party itself with another's places", of(sets | {me: sets[other]})
        yield "the party itself with a place less", of(sets | {me: sets[me][1:]})
        free = [place for place in range(self.job.lanes()) if place not in sets[me]]
        moved = sorted([*sets[me][1:], free[0]])
        yield "the party itself with one other place", of(sets | {me: moved})
        yield "too few parties", of({me: sets[me]})
        replayed = {j: list(party.vector) for j, party in self.another_round().items()}
        yield "the places of another round", of(replayed)
        right = of(sets)
        wrong = next(scheme for scheme in MASKS_A_WORD if scheme != self.scheme)
        yield "the other masking", head + listed(self.round, wrong, sets)
        yield "no such masking", flip(right, HEADER, 4)
        yield "no masking", head
        yield "somebody outside the roster", flip(right, HEADER + 1, 0x80)
        yield "somebody without places", flip(right, HEADER + 1, self.a_bit_more())
        yield from self.entries(head, other)

    def a_bit_more(self) -> int:
        """The bit of a party that is not listed, or of none."""
        absent = [j for j in range(self.round.parties) if j not in self.places]
        return 1 << (absent[0] if absent else self.round.parties)

    def entries(self, head: bytes, other: int) -> Iterator[Change]:
        """Lists in which another party's places are no set."""
        lanes, masks = self.job.lanes(), MASKS_A_WORD[self.scheme]
        encoded = {j: mask_bytes(lanes, places) for j, places in self.places.items()}
        for why, wrong in sets_of(self.job, self.places[other]):
            body = wire.places(masks, self.round.parties, encoded | {other: wrong})
            yield f"of another party: {why}", head + body
        right = wire.places(masks, self.round.parties, encoded)
        last = encoded[max(encoded)]
        yield "a party's places are missing", head + right[: -len(last) - 4]
        yield "one set of places too many", head + right + len(last).to_bytes(4, "big") + last
        beyond = (len(last) + 1).to_bytes(4, "big")
        yield "a length beyond the end", head + right[: -len(last) - 4] + beyond + last

    def sums(self, head: bytes) -> Iterator[Change]:
        """Sums that the party refuses, by the check where the length is right."""
        width, me, everybody = self.job.width(), self.me, set(self.survivors)
        uploads = {j: self.parties[j].encrypted(self.scheme) for j in self.survivors}
        right = added(width, list(uploads.values()))

        def of(named: set[int], sent: list[Upload]) -> bytes:
            return head + wire.bitmap(self.round.parties, named) + added(width, sent).body(width)

        def instead(upload: Upload) -> bytes:
            return of(everybody, list((uploads | {other: upload}).values()))

        other = next(j for j in reversed(self.survivors) if j != me)
        message = of(everybody, list(uploads.values()))
        yield from ciphertexts(message, self.job, len(right.words), before=1)
        yield "a changed word", flip(message, HEADER + 1)
        yield "a changed check", flip(message, -16)
        yield "a changed check modulo the second prime", flip(message, -8)
        yield "a ciphertext twice", of(everybody, [*uploads.values(), uploads[other]])
        without = [upload for j, upload in uploads.items() if j != other]
        yield "a ciphertext left out", of(everybody, without)
        nothing = Upload(dict.fromkeys(uploads[other].words, 0), [0, 0])
        yield "zeros instead of a ciphertext", instead(nothing)
        yield "a survivor that is not named", of(everybody - {other}, list(uploads.values()))
        yield "too few survivors", of({me}, [uploads[me]])
        yield "somebody outside the roster", flip(message, HEADER, 0x80)
        if absent := set(range(self.round.parties)) - everybody:
            yield "a survivor that sent nothing", of(everybody | {min(absent)}, list(uploads.values()))
        swapped = Upload(dict(zip(uploads[other].words, reversed(uploads[other].words.values()))), [])
        if len(swapped.words) > 1:
            yield "words at each other's places", instead(swapped._replace(check=uploads[other].check))
        yield "a ciphertext at other places", instead(self.elsewhere(uploads[other], set(right.words)))
        old = self.another_round()[other].encrypted(self.scheme)
        at_places = dict(zip(self.places[other], old.words.values()))
        yield "a ciphertext of another round", instead(Upload(at_places, old.check))
        wrong = next(scheme for scheme in MASKS_A_WORD if scheme != self.scheme)
        yield "a ciphertext with the other masking", instead(self.parties[other].encrypted(wrong))

    def elsewhere(self, upload: Upload, union: set[int]) -> Upload:
        """The words of a party, the first one at a place of others: as long, if nobody else has its own."""
        place = next((place for place in sorted(union) if place not in upload.words), self.job.lanes())
        first, *rest = upload.words
        return upload._replace(words={place: upload.words[first]} | {d: upload.words[d] for d in rest})


def refused_in_sparse(
    stages: list[dict[str, Any]],
    parties: dict[int, SparseParty],
    rank: int,
    places: Places,
    survivors: list[int],
) -> dict[str, Any]:
    """By stage, messages that the coordinator refuses from a party, and the party at its end."""
    refusals = Refusals(parties, rank, places, survivors)
    job = refusals.job
    changes: list[tuple[Callable[[bytes], Iterator[Change]], Callable[[bytes], Iterator[Change]]]] = [
        (
            lambda message: with_head(message, sets_of(job, places[rank])),
            lambda message: refusals.lists(message[:HEADER]),
        ),
        (
            lambda message: ciphertexts(message, job, len(places[rank])),
            lambda message: refusals.sums(message[:HEADER]),
        ),
    ]
    rows = []
    for at, (stage, (up, down)) in enumerate(zip(stages, changes, strict=True)):
        sent, received = (bytes.fromhex(stage[way][str(rank)]) for way in ("up", "down"))
        framed = frames_of_sets(sent) if at == 0 else frames(sent)
        rows.append(
            {
                "up": changed(iter([*framed, *up(sent)])),
                "down": changed(iter([*frames(received), *down(received)])),
            }
        )
    return {"party": rank, "stages": rows}


def with_head(message: bytes, bodies: Iterator[Change]) -> Iterator[Change]:
    """The bodies behind the frame of a message."""
    return ((why, message[:HEADER] + body) for why, body in bodies)
