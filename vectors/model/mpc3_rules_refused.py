"""Messages of jobs of mpc3 whose servers compute that nobody may accept; the model refuses them too."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import mpc3_numbers as numbers
from . import wire
from .mpc3_computing import Computing
from .mpc3_keyed import KEY, P
from .mpc3_party import SERVERS
from .mpc3_refused import Entry, body_of, entries
from .refused import HEADER, Change, flip

if TYPE_CHECKING:
    from .mpc3_rules import Play

LOW_ORDER = 0, 1, P - 1, 325606250916557431795983626356110631294008115727848805560023387167927233504
"""Some u-coordinates of points of low order."""
DIVISORS = (
    ("0", 0.0),
    ("below 0", -1.0),
    ("no number", float("nan")),
    ("infinite", float("inf")),
    ("not normal", 2.0**-1030),
)


def double(value: float) -> bytes:
    """As it travels."""
    return struct.pack(">d", value)


def norms(play: Play) -> Iterator[tuple[str, bytes]]:
    """Norms that no vector of the root has; it signs each of them."""
    longest = numbers.longest(play.job)
    yield "a norm of 0", double(0.0)
    yield "a norm of 0 with a sign", double(-0.0)
    yield "a norm below 0", double(-1.0)
    yield "a norm between that of zeros and the shortest one", double(2.0**-39)
    yield "a norm that is no number", double(float("nan"))
    yield "an infinite norm", double(float("inf"))
    yield "a norm beyond the longest vector", double(float(longest + 1))
    yield "no norm", b""
    yield "half a norm", double(1.0)[:4]


def uploads(play: Play) -> Iterator[Entry]:
    """What servers refuse of the root, and a norm of somebody else."""
    assert play.round.root is not None
    root, other = play.parties[play.round.root], play.parties[0]
    for number in SERVERS:

        def fresh(message: bytes, number: int = number, rank: int = root.rank) -> None:
            server = Computing(play.round, number, play.identities)
            server.take(rank, body_of(play, 0, message))

        def of_other(message: bytes, fresh: Any = fresh) -> None:
            fresh(message, rank=other.rank)

        sent = ((why, root.upload(number, norm=norm)) for why, norm in norms(play))
        changes = ((why, wire.frame(play.context, 0, body)) for why, body in sent)
        yield from entries(changes, fresh, server=number, party=root.rank)
        if play.job.is_active():
            right = wire.frame(play.context, 0, root.upload(number))
            unsigned = iter([("another norm than was signed", flip(right, HEADER + 3 * 32 + 7))])
            yield from entries(unsigned, fresh, server=number, party=root.rank)
        body = wire.frame(play.context, 0, other.upload(number, norm=double(1.0)))
        yield from entries(
            iter([("a norm of another party", body)]), of_other, server=number, party=other.rank
        )


def keys(message: bytes) -> Iterator[Change]:
    """Changes of the key at the end of a list."""
    head, end = message[: -KEY - 4], message[-4:]
    key = message[-KEY - 4 : -4]
    for u in LOW_ORDER:
        yield f"a key of low order, {u % 1000}", head + u.to_bytes(KEY, "little") + end
    yield "a key that is not reduced", head + (P + 9).to_bytes(KEY, "little") + end
    yield "no key", head + end
    yield "a short key", head + key[:-1] + end
    yield "a long key", head + key + b"\0" + end


def letters(play: Play, said: list[list[dict[str, str]]]) -> Iterator[Entry]:
    """What server 0 refuses of the first letters of the two others, and of the second ones."""
    of = play.servers[0]
    first, second = said[:2]
    right = [
        {"next": bytes.fromhex(letters[1]["before"]), "before": bytes.fromhex(letters[2]["next"])}
        for letters in (first, second)
    ]
    for side, sender in (("next", 1), ("before", 2)):

        def hear(message: bytes, side: str = side) -> None:
            copy = Computing(play.round, 0, play.identities, held=of.held, secret=of.secret)
            copy.listing()
            copy.hear(0, *(body_of(play, 1, m) for m in (right[0] | {side: message}).values()))

        def hear_hash(message: bytes, side: str = side) -> None:
            copy = Computing(play.round, 0, play.identities, held=of.held, secret=of.secret)
            copy.listing()
            copy.hear(0, *(body_of(play, 1, m) for m in right[0].values()))
            copy.hear(1, *(body_of(play, 1, m) for m in (right[1] | {side: message}).values()))

        yield from entries(keys(right[0][side]), hear, server=0, sender=sender, letter=0)
        changed = flip(right[1][side], HEADER)
        other = [("a hash of other keys", changed)]
        yield from entries(iter(other), hear_hash, server=0, sender=sender, letter=1)


def results(play: Play, rank: int, message: bytes) -> Iterator[Entry]:
    """What a party refuses of a result, for which both other servers vouch."""
    survivors = play.servers[0].survivors
    told = HEADER + len(play.servers[0].told())

    def resealed(words: list[int]) -> bytes:
        said = wire.result(play.round.parties, set(survivors), 64, words)
        tags = b""
        if play.job.is_active():
            hashed = play.round.result_hash(said)
            keys = [play.parties[party].tag_keys[server] for server in (1, 2) for party in survivors]
            tags = b"".join(play.round.tag(key, hashed) for key in keys)
        return message[:HEADER] + said + tags

    def changes() -> Iterator[Change]:
        words = play.servers[0].total
        for why, value in DIVISORS:
            bits = int.from_bytes(double(value), "big")
            yield f"a divisor that is {why}", resealed([*words[:-1], bits])
        yield "no divisor", resealed(words[:-1])
        yield "a word more", resealed([*words, 1])
        if play.job.is_active():
            yield "another sum of weights", flip(message, told - 16)

    def take(message: bytes) -> None:
        play.parties[rank].take(body_of(play, 1, message))

    yield from entries(changes(), take, party=rank)


def refused(number: int, play: Play, transcript: dict[str, Any]) -> dict[str, object]:
    """By kind, messages that servers and parties refuse in a round."""
    last = transcript["survivors"][-1]
    result = bytes.fromhex(transcript["stages"][1]["down"][str(last)])
    return {
        "round": number,
        "uploads": list(uploads(play)),
        "letters": list(letters(play, transcript["letters"])),
        "results": list(results(play, last, result)),
    }
