"""Messages of mpc3 that nobody may accept, made from those of a whole round; the model refuses them too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import wire
from .derive import rank_bytes
from .mpc3_party import SERVERS, SIGN_UPLOAD, Party, RefusedError, demand, explicit_hash
from .mpc3_server import Server
from .refused import HEADER, Change, flip, frames
from .words import packed_len

if TYPE_CHECKING:
    from .mpc3 import Play

HASH, ROUND, SIGNATURE = 32, 4, 64
HASHES = 3 * HASH
Entry = dict[str, Any]


def body_of(play: Play, stage: int, message: bytes) -> bytes:
    """What stands behind a frame."""
    expected = wire.frame(play.context, stage, b"")
    demand(message[:HEADER] == expected, "no message of this stage and round")
    return message[HEADER:]


def entries(changes: Iterator[Change], take: Callable[[bytes], object], **where: object) -> Iterator[Entry]:
    """Changed messages, each of which ``take`` refuses."""
    for why, message in changes:
        try:
            take(message)
        except RefusedError:
            yield {**where, "why": why, "message": message.hex()}
        else:
            raise AssertionError(f"nobody refuses {where}: {why}")


def padded(play: Play, packed: bytes) -> Iterator[bytes]:
    """Packed words with a bit left over that is set, where there is one."""
    if play.job.width() * play.job.lanes() % 8:
        yield flip(packed, -1, 0x80)


# --- Uploads ---


def upward(play: Play, party: Party, server: int) -> Iterator[Change]:
    """Changes of an upload that any server notices."""
    right = party.upload(server)
    message = wire.frame(play.context, 0, right)
    yield from frames(message)
    yield "nothing behind the frame", message[:HEADER]
    if play.job.is_active():
        yield from signed(play, party, server, message)
    else:
        longer = right[:HASHES] + wire.opaque(bytes(SIGNATURE)) + right[HASHES + wire.LENGTH :]
        yield "a signature where nothing is signed", wire.frame(play.context, 0, longer)
    yield from held(play, party, server)


def signed(play: Play, party: Party, server: int, message: bytes) -> Iterator[Change]:
    """Changes of what the signature is for."""
    for number in SERVERS:
        yield f"another hash of component {number} than was signed", flip(message, HEADER + HASH * number)
    start = HEADER + HASHES + wire.LENGTH
    yield "a signature that is not right", flip(message, start)
    head, rest = message[: HEADER + HASHES], message[start + SIGNATURE :]
    yield "no signature", head + wire.opaque(b"") + rest
    yield "a signature that is cut", head + wire.opaque(message[start:][: SIGNATURE - 1]) + rest
    yield "a length of the signature beyond the message", head + b"\xff" * wire.LENGTH + message[start:]
    header = play.round.header(party.rank, party.hashes)
    other = play.identities[party.rank + 1].sign(SIGN_UPLOAD, header)
    yield "signed by somebody else", head + wire.opaque(other) + rest
    survivors = party.identity.sign("blindsum survivors", header)
    yield "signed for another purpose", head + wire.opaque(survivors) + rest
    of_other = party.identity.sign(SIGN_UPLOAD, play.round.header(party.rank + 1, party.hashes))
    yield "signed for another rank", head + wire.opaque(of_other) + rest


def held(play: Play, party: Party, server: int) -> Iterator[Change]:
    """A party that lies: components that are not those of the hashes, which it signs as they are."""

    def sent(packed: bytes | None = None, hashes: list[bytes] | None = None) -> bytes:
        return wire.frame(play.context, 0, party.upload(server, packed, hashes))

    right = sent()
    of_explicit = party.explicit != (server + 2) % 3
    behind = packed_len(play.job.width(), play.job.lanes()) if of_explicit else 0
    seeds = 2 - of_explicit
    for place in range(seeds):
        at = len(right) - behind - 32 * (seeds - place)
        yield f"another seed, number {place} of those that it gets", flip(right, at)
    for number in (server, (server + 1) % 3):
        hashes = [flip(h, 0) if number == i else h for i, h in enumerate(party.hashes)]
        yield f"a hash that is not that of component {number}", sent(None, hashes)
    if of_explicit:
        yield "another salt", flip(right, len(right) - behind - 64)
        yield "another explicit component", sent(flip(party.packed, 0))
        for bits in padded(play, party.packed):
            hashes = list(party.hashes)
            hashes[party.explicit] = explicit_hash(party.salt, bits)
            yield "padding bits in an explicit component that fits its hash", sent(bits, hashes)
    others = [other for other in SERVERS if len(party.upload(other)) != len(party.upload(server))]
    yield "the upload for another server", wire.frame(play.context, 0, party.upload(others[0]))


def uploads(play: Play) -> Iterator[Entry]:
    """What servers refuse from the party of rank 1, whose explicit component the server 2 lacks."""
    party = play.parties[1]
    for number in SERVERS:

        def fresh(message: bytes, number: int = number) -> None:
            server = Server(play.round, number, play.identities)
            server.take(party.rank, body_of(play, 0, message))

        changes = upward(play, party, number)
        yield from entries(changes, fresh, server=number, party=party.rank, taken=False)

        def again(message: bytes, number: int = number) -> None:
            server = Server(play.round, number, play.identities)
            server.take(party.rank, party.upload(number))
            server.take(party.rank, body_of(play, 0, message))

        another = wire.frame(play.context, 0, play.party(1, play.tape(2)).upload(number))
        changes = iter([("another upload than the one that was taken", another)])
        yield from entries(changes, again, server=number, party=party.rank, taken=True)


# --- Letters ---


def lists(play: Play, said: bytes) -> Iterator[Change]:
    """Changes of a list that both other servers notice."""
    n = play.round.parties
    start = (n + 7) // 8
    headers = [said[start + 32 * rank :][:32] for rank in range(n)]
    listed = [rank for rank in range(n) if said[0] >> rank & 1]
    yield "a bit beyond the roster", flip(said, 0, 0x80)
    # The last party is no survivor, so nothing else is wrong with this list.
    yield "a header of a party that is not listed", flip(said, 0, 1 << listed[-1])
    yield "a list without headers", said[:start]
    yield "a list without the last header", said[:-32]
    few = play.servers[0].survivors[: play.job.least_survivors() - 1]
    kept = [header if rank in few else bytes(32) for rank, header in enumerate(headers)]
    yield "too few parties", wire.bitmap(n, set(few)) + b"".join(kept)
    others = [flip(header, 0) if rank in listed else header for rank, header in enumerate(headers)]
    yield "too few parties with the same header", said[:start] + b"".join(others)


def downward(play: Play, number: int, side: str, message: bytes) -> Iterator[Change]:
    """Changes of a letter that came from one side."""
    head, said, end = message[:HEADER], message[HEADER:-ROUND], message[-ROUND:]
    yield from frames(message)
    yield "nothing behind the frame", head
    yield "nothing but the number of the round", head + end
    yield "a letter of another round", flip(message, -1, 3)
    yield "the number of the round in front", head + end + said
    for why, changed in bent(play, number, side, said):
        yield why, head + changed + end


def bent(play: Play, number: int, side: str, said: bytes) -> Iterator[Change]:
    """Changes of what a letter says."""
    if number == 0:
        yield from lists(play, said)
    elif number == 1:
        yield "another hash of the survivors", flip(said, 0)
    elif side == "next":
        yield "another hash of the component", flip(said, 0)
    else:
        yield "a component that does not fit its hash", flip(said, 0)
        for bits in padded(play, said):
            yield "padding bits", bits


def letters(play: Play, said: list[list[dict[str, str]]], server: int) -> Iterator[Entry]:
    """What a server refuses of the letters of the two others."""
    of = play.servers[server]
    right = [
        {
            "next": bytes.fromhex(letters[of.following]["before"]),
            "before": bytes.fromhex(letters[of.before]["next"]),
        }
        for letters in said
    ]
    for number, pair in enumerate(right):
        for side in pair:

            def hear(
                message: bytes, number: int = number, pair: dict[str, bytes] = pair, side: str = side
            ) -> None:
                copy = Server(play.round, server, play.identities, held=of.held)
                for earlier in range(number):
                    copy.hear(earlier, *(body_of(play, 1, m) for m in right[earlier].values()))
                copy.hear(number, *(body_of(play, 1, m) for m in (pair | {side: message}).values()))

            sender = of.following if side == "next" else of.before
            changes = downward(play, number, side, pair[side])
            yield from entries(changes, hear, server=server, sender=sender, letter=number)


# --- Notices ---


def notices(play: Play, said: list[list[dict[str, str]]], server: int) -> Iterator[Entry]:
    """What a server refuses of the next one, from which it has the notice of the party of rank 1."""
    of, sender = play.servers[server], play.servers[(server + 1) % 3]
    right = wire.frame(play.context, 0, sender.notice(1))

    def told() -> Server:
        fresh = Server(play.round, server, play.identities, held=of.held)
        fresh.note(sender.number, body_of(play, 0, right))
        return fresh

    def changes() -> Iterator[Change]:
        yield "nothing behind the frame", right[:HEADER]
        yield "cut short", right[:-1]
        yield "too long", right + bytes(1)
        yield (
            "of no party of the round",
            wire.frame(play.context, 0, rank_bytes(play.round.parties) + bytes(32)),
        )
        yield "of another upload of this party", flip(right, -1)

    def hear(message: bytes) -> None:
        told().note(sender.number, body_of(play, 0, message))

    where = {"server": server, "sender": sender.number, "told": right.hex()}
    yield from entries(changes(), hear, **where, letter=False)

    letter, third = (bytes.fromhex(said[0][i]["before"]) for i in (sender.number, of.before))
    start = HEADER + (play.round.parties + 7) // 8 + 32
    left_out = flip(letter[:start] + bytes(32) + letter[start + 32 :], HEADER, 2)

    def listed(message: bytes) -> None:
        told().hear(0, body_of(play, 1, message), body_of(play, 1, third))

    changed = iter([("a list without the upload that it told of", left_out)])
    yield from entries(changed, listed, **where, letter=True)


# --- Words and results ---


def words(play: Play, server: int, message: bytes) -> Iterator[Entry]:
    """What the coordinator refuses of another server's word."""

    def changes() -> Iterator[Change]:
        yield from frames(message)
        yield "nothing behind the frame", message[:HEADER]
        yield "word on another result", flip(message, HEADER)
        if play.job.is_active():
            yield "no tags", message[: HEADER + HASH]
            yield "one tag less", message[:-32]
        yield "one tag more", message + bytes(32)

    def take(message: bytes) -> None:
        play.servers[0].take_word(body_of(play, 1, message))

    yield from entries(changes(), take, server=server)


def results(play: Play, rank: int, message: bytes) -> Iterator[Entry]:
    """What a party refuses of a result."""
    survivors = play.servers[0].survivors
    told = HEADER + len(play.servers[0].told())
    behind = HEADER + (play.round.parties + 7) // 8

    def resealed(parties: list[int], packed: bytes) -> bytes:
        """Another result with tags that are right: both other servers would have to lie."""
        said = wire.bitmap(play.round.parties, set(parties)) + packed
        tags = b""
        if play.job.is_active():
            hashed = play.round.result_hash(said)
            keys = [play.parties[party].tag_keys[server] for server in (1, 2) for party in parties]
            tags = b"".join(play.round.tag(key, hashed) for key in keys)
        return message[:HEADER] + said + tags

    def changes() -> Iterator[Change]:
        yield from frames(message)
        yield "nothing behind the frame", message[:HEADER]
        yield "survivors without a sum", message[:behind]
        yield "survivors outside the roster", flip(message, HEADER, 0x80)
        packed = message[behind:told]
        for bits in padded(play, packed):
            yield "padding bits", resealed(survivors, bits)
        others = [party for party in survivors if party != rank]
        yield "too few survivors", resealed(sorted([rank, others[0]]), packed)
        lost = [party for party in range(play.round.parties) if party not in survivors]
        yield "the party itself is not among the survivors", resealed(sorted(others + lost[:1]), packed)
        if not play.job.is_active():
            return
        yield "no tags", message[:told]
        yield "tags of the second server only", message[: told + 32 * len(survivors)]
        place = survivors.index(rank)
        for number, name in enumerate(("second", "third")):
            at = told + 32 * (number * len(survivors) + place)
            yield f"another tag of the {name} server", flip(message, at)
        yield "another sum", flip(message, behind)
        yield "one survivor more", flip(message, HEADER, 1 << lost[0])
        swapped = message[told:]
        half = len(swapped) // 2
        yield "tags that have changed places", message[:told] + swapped[half:] + swapped[:half]

    def take(message: bytes) -> None:
        play.parties[rank].take(body_of(play, 1, message))

    yield from entries(changes(), take, party=rank)


def refused(number: int, play: Play, transcript: dict[str, Any]) -> dict[str, object]:
    """By kind, messages that servers and parties refuse in a round."""
    word = {int(server): bytes.fromhex(said) for server, said in transcript["word"].items()}
    last = transcript["survivors"][-1]
    result = bytes.fromhex(transcript["stages"][1]["down"][str(last)])
    # Letters are the same whatever the adversary.
    talking = SERVERS if play.job.is_active() else ()
    return {
        "round": number,
        "uploads": list(uploads(play)),
        "letters": [entry for server in talking for entry in letters(play, transcript["letters"], server)],
        "notices": [entry for server in talking for entry in notices(play, transcript["letters"], server)],
        "words": [entry for server, message in word.items() for entry in words(play, server, message)],
        "results": list(results(play, last, result)),
    }
