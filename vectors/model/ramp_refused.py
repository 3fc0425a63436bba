"""Messages of fssa and pss that nobody may accept, made from those of a whole round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .ramp_party import Party
from .refused import HEADER, RANK, SIGNATURE, Change, changed, flip, frames, lists
from .wire import LENGTH

ENTRY = RANK + LENGTH + 32 + LENGTH + 64
"""Bytes of a party's entry in the list of keys, for X25519."""
BITMAP = 1


def columns_down(message: bytes, party: Party) -> Iterator[Change]:
    """Changes of the columns that others sealed; all parties of at most 8 have shared."""
    vector, column = party.round.vector, HEADER + BITMAP
    peers = [peer for peer in party.opened if peer != party.me]
    size = (len(message) - column) // len(peers)
    head, first, second = message[:column], message[column:][:size], message[column + size :][:size]
    rest = message[column + 2 * size :]
    yield "sealed columns that do not open", flip(message, -1)
    yield "columns that have changed places", head + second + first + rest
    yield "a column twice", head + first + first + rest
    yield "somebody outside the roster has shared", flip(message, HEADER, 0x80)
    yield "the party itself has not shared", flip(message, HEADER, 1 << party.me)
    yield "a column of somebody who has not shared", flip(message, HEADER, 1 << peers[0])
    yield "too few have shared", bytes([*head[:-1], 1 << party.me | 1 << peers[0]]) + first
    # The sender knows the key, so only the number itself can be refused.
    beyond = vector.pack(party.opened[peers[0]])[: -vector.fields[-1].size]
    beyond += vector.fields[-1].p.to_bytes(vector.fields[-1].size, "little")
    resealed = party.seal(peers[0], party.me, beyond)
    yield "a share beyond the field", head + resealed + second + rest


def downward(stage: str, message: bytes, party: Party) -> Iterator[Change]:
    """Changes that a party notices."""
    yield from frames(message)
    if stage == "advertise-keys":
        yield from lists(message, ENTRY)
        yield "a key that its owner did not sign", flip(message, HEADER + LENGTH + RANK + LENGTH)
        yield "a signature that is not right", flip(message, -1)
    elif stage == "share-vector":
        yield from columns_down(message, party)
    elif stage == "consistency":
        yield from lists(message, SIGNATURE)
        yield "a signature that is not right", flip(message, -1)
    else:
        yield "other survivors than were added up", flip(message, HEADER, 0x02)
        yield "padding bits", flip(message, -1, 0x80)


def upward(stage: str, message: bytes, party: Party) -> Iterator[Change]:
    """Changes that the coordinator notices; what is sealed is not for it."""
    yield from frames(message)
    if stage == "advertise-keys":
        yield "a key that its owner did not sign", flip(message, HEADER + LENGTH)
        yield "a signature that is not right", flip(message, -1)
    elif stage == "consistency":
        yield "a signature that is not right", flip(message, -1)
    elif stage == "aggregate":
        field = party.round.vector.fields[-1]
        beyond = field.p.to_bytes(field.size, "little")
        yield "a sum beyond the field", message[: -field.size] + beyond


def refused(stages: list[dict[str, Any]], party: Party) -> list[dict[str, object]]:
    """By stage, messages that the coordinator refuses from a party, and the party at its end."""

    def of(stage: dict[str, Any]) -> dict[str, object]:
        name = stage["name"]
        sent, received = (bytes.fromhex(stage[way][str(party.me)]) for way in ("up", "down"))
        return {"up": changed(upward(name, sent, party)), "down": changed(downward(name, received, party))}

    return [of(stage) for stage in stages]
