"""Messages that nobody may accept, where not everybody learns the result; the model refuses them too.

Each is written as what differs from the right message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import mpc3_numbers as numbers
from . import mpc3_rules_refused, wire
from .mpc3_keyed import Keyed
from .mpc3_party import SERVERS, RefusedError
from .mpc3_refused import body_of
from .mpc3_results import HASH, ForParties, Parts, take
from .mpc3_results_rounds import Play
from .refused import HEADER, Change, flip, frames
from .words import pack, packed_len

Entry = dict[str, Any]


def difference(right: bytes, wrong: bytes) -> Entry:
    """What makes the right message a wrong one: bytes that go, and what comes in their place."""
    least = min(len(right), len(wrong))
    at = next((i for i in range(least) if right[i] != wrong[i]), least)
    same = next((i for i in range(least - at) if right[-1 - i] != wrong[-1 - i]), least - at)
    return {"at": at, "cut": len(right) - same - at, "put": wrong[at : len(wrong) - same].hex()}


def entries(
    right: bytes, changes: Iterator[Change], take_it: Callable[[bytes], object], **where: object
) -> Iterator[Entry]:
    """Changed messages, each of which ``take_it`` refuses while it takes the right one."""
    take_it(right)
    for why, message in changes:
        try:
            take_it(message)
        except RefusedError:
            yield {**where, "why": why, **difference(right, message)}
        else:
            raise AssertionError(f"nobody refuses {where}: {why}")


def padded(play: Play, words: list[int]) -> bytes:
    """Packed words with a bit left over that is set; nothing where none is left over."""
    packed = pack(play.round.width, words)
    return flip(packed, -1, 0x80) if play.round.width * len(words) % 8 else b""


# --- Letters and words ---


def letters(play: Play) -> Iterator[Entry]:
    """What server 0 refuses of another server: a key, and hashes of the component that it lacks."""
    of, said, last = play.servers[0], play.said, len(play.said) - 1
    assert isinstance(of, Keyed)

    def right(number: int) -> dict[str, bytes]:
        to_zero = {"next": said[number][1][1], "before": said[number][2][0]}
        return {side: wire.frame(play.context, 1, body) for side, body in to_zero.items()}

    def hearing(number: int, side: str) -> Callable[[bytes], None]:
        def hear(message: bytes) -> None:
            copy = type(of)(play.round, 0, play.identities, held=of.held, secret=of.secret)
            for earlier in range(number + 1):
                copy.letters(earlier)
                told = right(earlier) | ({side: message} if earlier == number else {})
                copy.hear(earlier, *(body_of(play, 1, it) for it in told.values()))

        return hear

    for side, sender in (("next", 1), ("before", 2)):
        where = {"server": 0, "sender": sender}
        if not numbers.computes(play.job):
            of_keys = mpc3_rules_refused.keys(right(0)[side])
            yield from entries(right(0)[side], of_keys, hearing(0, side), **where, letter=0)
        message = right(last)[side]
        end = message[HEADER + HASH :]
        changes = [
            *frames(message),
            ("another hash of the component", flip(message, HEADER)),
            ("no hash", message[:HEADER] + end),
            ("two hashes", message[: HEADER + HASH] + message[HEADER:]),
            ("the component itself", message[:HEADER] + play.round.pack(play.servers[2].part(2)) + end),
        ]
        yield from entries(message, iter(changes), hearing(last, side), **where, letter=last)


def words(play: Play, server: int) -> Iterator[Entry]:
    """What the coordinator refuses of another server's word."""
    coordinator, teller = play.servers[0], play.servers[server]
    message = wire.frame(play.context, 1, teller.word())
    of_first = isinstance(coordinator, ForParties) and server == 1
    take_it = coordinator.take_first if of_first else coordinator.take_word

    def changes() -> Iterator[Change]:
        yield from frames(message)
        yield "nothing behind the frame", message[:HEADER]
        yield "word on another result", flip(message, HEADER)
        yield "a hash more at the end", message + bytes(HASH)
        if play.job.is_active() or of_first:
            yield "a hash less at the end", message[:-HASH]
            yield "nothing but the hash", message[: HEADER + HASH]
        if of_first:
            yield "no keys", message[: -HASH * len(teller.survivors)]
            other = play.servers[2].word()
            yield "the word of the other server", message[:HEADER] + other
        if play.job.result == "servers":
            hashed = play.round.result_hash(coordinator.told() + play.round.pack(play.total))
            yield "word on survivors and sum", message[:HEADER] + hashed + message[HEADER + HASH :]

    yield from entries(message, changes(), lambda it: take_it(body_of(play, 1, it)), server=server)


# --- Results ---


def tags(play: Play, survivors: list[int], hashed: bytes, server: int) -> bytes:
    """Of both other servers, if they lie; none if semi-honest."""
    if not play.job.is_active():
        return b""
    return b"".join(play.round.tag(play.parties[rank].tag_keys[server], hashed) for rank in survivors)


def of_names(play: Play, survivors: list[int], words: list[int] | None = None) -> bytes:
    """A result for servers alone, or with a sum in the clear, for which both other servers vouch."""
    said = wire.bitmap(play.round.parties, set(survivors))
    said += play.round.pack(words) if words else b""
    hashed = play.round.result_hash(said)
    return said + tags(play, survivors, hashed, 1) + tags(play, survivors, hashed, 2)


def of_parts(
    play: Play, survivors: list[int], components: list[list[int]], packed: dict[int, bytes] | None = None
) -> bytes:
    """A result for parties alone, of components or packed ones, for which both other servers vouch."""
    parts, servers = Parts(play.round), play.servers
    keys = [server.part_key(server.number) for server in servers]
    salts = [parts.salt(key) for key in keys]
    said = {number: play.round.pack(words) for number, words in enumerate(components)} | (packed or {})
    hashes = [parts.hash_of(salts[number], said[number]) for number in SERVERS]
    hashed = parts.result_hash(survivors, hashes)
    masked = play.round.pack(parts.masked(keys[2], components[2]))
    wrapped = [parts.wrap(play.parties[rank].tag_keys[1], keys[2]) for rank in survivors]
    told = wire.bitmap(play.round.parties, set(survivors)) + b"".join(salts[:2]) + said[0] + said[1]
    both = [tags(play, survivors, hashed, server) for server in (1, 2)]
    return told + both[0] + masked + b"".join(wrapped) + both[1]


def other_survivors(play: Play, rank: int) -> Iterator[tuple[str, list[int]]]:
    """Survivors of whom a party hears nothing."""
    survivors = play.servers[0].survivors
    others = [party for party in survivors if party != rank]
    lost = [party for party in range(play.round.parties) if party not in survivors]
    yield "too few survivors", sorted([rank, others[0]])
    yield "the party itself is not among the survivors", sorted(others + lost[:1])


def sections(play: Play, survivors: int) -> dict[str, tuple[int, int]]:
    """Where each field of a result begins and ends."""
    m, packed = survivors * play.job.is_active(), packed_len(play.round.width, Parts(play.round).lanes)
    of_parties = play.job.result == "parties"
    lengths = {"survivors": (play.round.parties + 7) // 8}
    if of_parties:
        lengths |= {"salt 0": HASH, "salt 1": HASH, "component 0": packed, "component 1": packed}
    lengths |= {"tags of server 1": HASH * m}
    if of_parties:
        lengths |= {"masked component": packed, "keys": HASH * survivors}
    lengths |= {"tags of server 2": HASH * m}
    found, at = {}, HEADER
    for name, length in lengths.items():
        if length:
            found[name] = at, at + length
        at += length
    return found


def altered(play: Play, rank: int, message: bytes) -> Iterator[Change]:
    """What anybody on the way could change."""
    survivors = play.servers[0].survivors
    place, fields = survivors.index(rank), sections(play, len(survivors))
    lost = next(party for party in range(play.round.parties) if party not in survivors)
    yield from frames(message)
    yield "nothing behind the frame", message[:HEADER]
    yield "survivors outside the roster", flip(message, HEADER, 0x80)
    if len(fields) > 1:
        yield "one survivor more", flip(message, HEADER, 1 << lost)
    for name, (start, end) in list(fields.items())[1:]:
        yield f"no {name}", message[:start] + message[end:]
    if not play.job.is_active():
        return
    other = next(party for party in survivors if party != rank)
    yield "another survivor in the place of one", flip(message, HEADER, 1 << lost | 1 << other)
    own = HASH * place
    for name, (start, _) in list(fields.items())[1:]:
        of_party = name.startswith(("tags", "keys"))
        yield (
            f"another one of the {name}" if of_party else f"another {name}",
            flip(message, start + own * of_party),
        )
    for name in [name for name in fields if name.startswith(("tags", "keys"))]:
        start, end = fields[name]
        moved = message[start:end][-HASH:] + message[start:end][:-HASH]
        yield f"{name} in other places", message[:start] + moved + message[end:]
    (a, b), (c, d) = fields["tags of server 1"], fields["tags of server 2"]
    yield (
        "tags that have changed places",
        message[:a] + message[c:d] + message[b:c] + message[a:b] + message[d:],
    )
    if play.job.result == "parties":
        (a, b), (_, d) = fields["salt 0"], fields["salt 1"]
        yield "salts that have changed places", message[:a] + message[b:d] + message[a:b] + message[d:]
        (a, b), (_, d) = fields["component 0"], fields["component 1"]
        yield "components that have changed places", message[:a] + message[b:d] + message[a:b] + message[d:]


def vouched(play: Play, rank: int, message: bytes) -> Iterator[Change]:
    """What is wrong though both other servers vouch for it."""
    survivors = play.servers[0].survivors
    head = message[:HEADER]
    if play.job.result == "servers":
        for why, wrong in other_survivors(play, rank):
            yield why, head + of_names(play, wrong)
        yield "a sum", head + of_names(play, survivors, play.total)
        return
    components = [play.servers[number].part(number) for number in SERVERS]
    assert head + of_parts(play, survivors, components) == message
    for why, wrong in other_survivors(play, rank):
        yield why, head + of_parts(play, wrong, components)
    yield "the sum in the clear", head + of_names(play, survivors, play.total)
    for number in SERVERS:
        bits = padded(play, components[number])
        if bits and number < 2:
            made = of_parts(play, survivors, components, {number: bits})
            yield f"padding bits in component {number}", head + made
        elif bits:
            _, end = sections(play, len(survivors))["masked component"]
            yield "padding bits in the masked component", flip(message, end - 1, 0x80)
    if numbers.computes(play.job):
        # Where there are tags, each of these would be as long as a whole result.
        told = mpc3_rules_refused.DIVISORS[: 1 if play.job.is_active() else None]
        for why, value in told:
            last = int.from_bytes(mpc3_rules_refused.double(value), "big")
            first = [*components[0][:-1], last]
            yield f"a divisor that is {why}", head + of_parts(play, survivors, [first, *components[1:]])
        short = [component[:-1] for component in components]
        yield "a word less", head + of_parts(play, survivors, short)


def results(play: Play) -> Iterator[Entry]:
    """What the last survivor refuses of a result."""
    rank = play.servers[0].survivors[-1]
    message = bytes.fromhex(play.stages[1]["down"][str(rank)])

    def changes() -> Iterator[Change]:
        yield from altered(play, rank, message)
        yield from vouched(play, rank, message)

    yield from entries(
        message, changes(), lambda it: take(play.parties[rank], body_of(play, 1, it)), party=rank
    )


def refused(number: int, play: Play) -> dict[str, object]:
    """By kind, messages that servers and parties refuse in a round."""
    told = (1, 2) if play.is_exact() else ()
    talk = play.job.is_active() and play.job.result == "parties" and play.is_modelled()
    return {
        "round": number,
        "letters": list(letters(play)) if talk else [],
        "words": [entry for server in told for entry in words(play, server)],
        "results": list(results(play)),
    }
