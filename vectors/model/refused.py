"""Messages that nobody may accept, made from those of a whole round by changing them a little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .wire import LENGTH, opaque, vector

HEADER = 34
RANK = 4
SEALED, SIGNATURE, SHARE = RANK + LENGTH + 96, RANK + LENGTH + 64, RANK + 40
ENTRY_KEYS = RANK + 2 * (LENGTH + 32) + LENGTH + 64
"""Bytes of an entry of each list, for X25519."""

DOWN = ("advertise-keys", ENTRY_KEYS), ("share-keys", SEALED), ("consistency", SIGNATURE)
UP = ("share-keys", SEALED), ("unmask", SHARE)
Change = tuple[str, bytes]


def flip(message: bytes, at: int, bits: int = 1) -> bytes:
    """Change bits of one byte; ``at`` may count from the end."""
    changed = bytearray(message)
    changed[at] ^= bits
    return bytes(changed)


def frames(message: bytes) -> Iterator[Change]:
    """Changes that make no message of this stage and round."""
    yield "cut short within the frame", message[: HEADER - 1]
    yield "another wire version", flip(message, 0, 3)
    yield "a stage that has not come", flip(message, 1, 64)
    yield "another round", flip(message, HEADER - 1)
    yield "cut short", message[:-1]
    yield "trailing byte", message + b"\0"


def lists(message: bytes, size: int, before: int = 0) -> Iterator[Change]:
    """Changes of the list at the end of a message, of entries of ``size`` bytes."""
    start = HEADER + before
    head, content = message[:start], message[start + LENGTH :]
    entries = [content[i : i + size] for i in range(0, len(content), size)]
    assert message == head + vector(entries)

    def listed(parts: list[bytes]) -> bytes:
        return head + vector(parts)

    yield "parties do not ascend", listed([entries[1], entries[0], *entries[2:]])
    yield "a party twice", listed([entries[0], *entries])
    yield "nobody listed", listed([])
    yield "a length beyond the message", head + b"\xff" * LENGTH + content
    yield "a length that ends within an entry", head + opaque(content[:-1]) + content[-1:]
    yield "a party outside the roster", listed([*entries[:-1], flip(entries[-1], 0)])


def downward(stage: str, message: bytes, rank: int) -> Iterator[Change]:
    """Changes that party ``rank`` of at most 8 notices."""
    yield from frames(message)
    size = dict(DOWN).get(stage)
    if size:
        yield from lists(message, size)
    if stage == "advertise-keys":
        yield "a key that its owner did not sign", flip(message, HEADER + LENGTH + RANK + LENGTH)
        yield "a signature that is not right", flip(message, -1)
    elif stage == "share-keys":
        yield "sealed shares that do not open", flip(message, -1)
    elif stage == "masked-input":
        yield "survivors outside the roster", flip(message, HEADER, 0x80)
        yield "the party itself is lost", flip(message, HEADER, 1 << rank)
        yield "too few survivors", flip(message, HEADER, 0x30)
    elif stage == "unmask":
        yield "other survivors than were unmasked", flip(message, HEADER, 0x02)
        yield "padding bits", flip(message, -1, 0x80)


def upward(stage: str, message: bytes) -> Iterator[Change]:
    """Changes that the coordinator notices."""
    yield from frames(message)
    size = dict(UP).get(stage)
    if size:
        yield from lists(message, size, before=32 if stage == "share-keys" else 0)
    if stage == "advertise-keys":
        yield "a key that its owner did not sign", flip(message, HEADER + LENGTH)
    elif stage == "masked-input":
        yield "padding bits", flip(message, -1, 0x80)
    elif stage == "consistency":
        yield "a signature that is not right", flip(message, -1)
    elif stage == "unmask":
        beyond = (2**61 - 1).to_bytes(8, "little")
        yield "a share beyond the field", message[:-8] + beyond


def changed(changes: Iterator[Change]) -> list[dict[str, str]]:
    """What is wrong, and the message."""
    return [{"why": why, "message": message.hex()} for why, message in changes]


def refused(stages: list[dict[str, Any]], rank: int) -> list[dict[str, object]]:
    """By stage, messages that the coordinator refuses from a party, and the party at its end."""

    def of(stage: dict[str, Any]) -> dict[str, object]:
        name = stage["name"]
        sent, received = (bytes.fromhex(stage[way][str(rank)]) for way in ("up", "down"))
        return {"up": changed(upward(name, sent)), "down": changed(downward(name, received, rank))}

    return [of(stage) for stage in stages]
