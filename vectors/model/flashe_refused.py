"""Messages of flashe that nobody may accept, made from those of whole rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import flashe
from .flashe_party import Held, SetupParty, leader_of
from .refused import HEADER, RANK, Change, changed, flip, frames, lists
from .wire import LENGTH, key_for, opaque, vector

SIGNATURE = LENGTH + 64
SEALED = RANK + LENGTH + 56
"""Bytes of a signature, and of a sealed key with its receiver."""
NAMED = RANK + LENGTH
KEY = NAMED + LENGTH
"""Where, in the entry of a party that names no key, the fresh key begins: with its length, and without."""


def adverts_down(message: bytes, party: SetupParty) -> Iterator[Change]:
    """Changes of the list of fresh keys, of parties that hold no key yet."""
    entry = KEY + 32 + SIGNATURE
    yield from lists(message, entry)
    head = HEADER + LENGTH
    content = message[head:]
    entries = [content[i : i + entry] for i in range(0, len(content), entry)]

    def listed(parts: list[bytes]) -> bytes:
        return message[:HEADER] + vector(parts)

    own, others = entries[party.me], [e for i, e in enumerate(entries) if i != party.me]
    yield "the party itself is not listed", listed(others)
    yield "too few parties", listed([own])
    named = [e[:RANK] + opaque(bytes(15)) + e[NAMED:] for e in entries]
    yield "names of keys of another length", listed(named)
    key = own[KEY : KEY + 32]
    taken = [e if i == party.me else e[:KEY] + key + e[KEY + 32 :] for i, e in enumerate(entries)]
    yield "one fresh key for all", listed(taken)
    low = [e if i == party.me else e[:KEY] + bytes(32) + e[KEY + 32 :] for i, e in enumerate(entries)]
    yield "keys of low order", listed(low)
    # Party 0 leads and checks all that it seals to; the others check the leader and themselves.
    other = head + entry * (1 - party.me)
    yield "a key that its owner did not sign", flip(message, other + KEY)
    yield "a signature that is not right", flip(message, other + entry - 1)
    yield "a name of a key that its owner did not sign", listed([name_key(e) for e in entries])


def name_key(entry: bytes) -> bytes:
    """The entry of a party that holds no key, with the name of one."""
    return entry[:RANK] + opaque(bytes(16)) + entry[NAMED:]


def keys_down(message: bytes, party: SetupParty) -> Iterator[Change]:
    """Changes of the key that the leader sealed."""
    head, round_ = message[:HEADER], party.round
    leader, held = leader_of(party.adverts), party.owner.held
    assert held

    def sealed(plaintext: bytes) -> bytes:
        return head + key_for(party.seal(leader, party.me, plaintext))

    if party.me == leader:
        other = next(rank for rank in party.adverts if rank != leader)
        yield "a key for the leader", head + key_for(party.seal(leader, other, held.delivered()))
        return
    yield "a key that does not open", flip(message, -1)
    yield (
        "a key sealed in the other direction",
        head + key_for(party.seal(party.me, leader, held.delivered())),
    )
    yield "no key", head + key_for(b"")
    yield "a length beyond the message", head + b"\xff" * LENGTH + message[HEADER + LENGTH :]
    # The leader is a party and may lie.
    yield "a key without the set-up in which it was made", sealed(held.key)
    yield "a key that is too long", sealed(held.delivered() + b"\0")
    yield "a key that serves later rounds only", sealed(Held(held.key, round_.number + 1, 0).delivered())


def downward(stage: str, message: bytes, party: SetupParty) -> Iterator[Change]:
    """Changes that a party notices."""
    yield from frames(message)
    if stage == "advertise-keys":
        yield from adverts_down(message, party)
    elif stage == "deliver-key":
        yield from keys_down(message, party)
    else:
        yield "the tag of another key", flip(message, -1)
        yield "somebody outside the roster", flip(message, HEADER, 0x80)
        yield "the party itself holds no key", flip(message, HEADER, 1 << party.me)
        yield "too few holders", message[:HEADER] + bytes([1 << party.me]) + message[HEADER + 1 :]


def upward(stage: str, message: bytes) -> Iterator[Change]:
    """Changes that the coordinator notices; what is sealed is not for it, and a tag tells it nothing."""
    yield from frames(message)
    if stage == "advertise-keys":
        named = HEADER + LENGTH
        start = named + LENGTH
        key, rest = message[start : start + 32], message[start + 32 :]
        other_name = message[:HEADER] + opaque(bytes(15)) + message[named:]
        yield "a name of a key of another length", other_name
        yield "a key of low order", message[:start] + bytes(32) + rest
        yield "a key that is too short", message[:named] + opaque(key[1:]) + rest
        yield "a key that its owner did not sign", flip(message, start)
        yield "a signature that is not right", flip(message, -1)
        yield "no signature", message[:-SIGNATURE] + opaque(b"")
    elif stage == "deliver-key":
        # Nobody may lack the key, so an empty list is one.
        yield from (change for change in lists(message, SEALED) if change[0] != "nobody listed")


def refused_in_setup(stages: list[dict[str, Any]], party: SetupParty) -> dict[str, Any]:
    """By stage, messages that the coordinator refuses from a party, and the party at its end."""

    def of(stage: dict[str, Any]) -> dict[str, object]:
        name, rank = stage["name"], str(party.me)
        up = upward(name, bytes.fromhex(stage["up"][rank])) if rank in stage["up"] else iter(())
        down = downward(name, bytes.fromhex(stage["down"][rank]), party)
        return {"up": changed(up), "down": changed(down)}

    return {"party": party.me, "stages": [of(stage) for stage in stages]}


def uploads(message: bytes) -> Iterator[Change]:
    """Changes of a ciphertext that are no ciphertext; its padding is not empty."""
    yield from frames(message)
    yield "padding bits", flip(message, -17, 0x80)
    for place, p in enumerate(flashe.PRIMES):
        at = len(message) - 16 + 8 * place
        beyond = message[:at] + p.to_bytes(8, "little") + message[at + 8 :]
        yield f"a check beyond prime {place + 1}", beyond


def sums(message: bytes, rank: int) -> Iterator[Change]:
    """Changes of a sum of at most 7 parties."""
    yield from uploads(message)
    yield "a changed word", flip(message, HEADER + 1)
    yield "a changed check", flip(message, -16)
    yield "a changed check modulo the second prime", flip(message, -8)
    yield "a survivor that is not named", flip(message, HEADER, 1 << rank)
    yield "somebody outside the roster", flip(message, HEADER, 0x80)
    yield "too few survivors", message[:HEADER] + bytes([1 << rank]) + message[HEADER + 1 :]
    yield "no words", message[: HEADER + 1]


def refused_in_sum(stages: list[dict[str, Any]], rank: int) -> dict[str, Any]:
    """As for a key set-up."""
    [stage] = stages
    sent, received = (bytes.fromhex(stage[way][str(rank)]) for way in ("up", "down"))
    refused = {"up": changed(uploads(sent)), "down": changed(sums(received, rank))}
    return {"party": rank, "stages": [refused]}
