"""From the bytes of a connection to the messages of a protocol, by HTTP/2, gRPC and ``docs/wire.md``."""

from __future__ import annotations

from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a connection of HTTP/2 begins with (RFC 9113 section 3.4)."""

DATA, PADDED = 0, 8
"""The type of HTTP/2 frames with data, and the flag of those with padding."""

CHUNK = 4
"""Field of ``PartyFrame`` with a piece of a message, a ``Chunk``."""

ROUND_OF_CHUNK, ROUND_OF_UPLOAD = 1, 2
"""Field with the number of the round, in ``Chunk`` and in ``UploadChunk``."""

TOTAL, PIECE = 4, 5
"""Fields with the length of the whole message and with the piece, in ``Chunk`` and in ``UploadChunk``."""


def messages(came: bytes, *, to_coordinator: bool) -> Iterator[tuple[int, bytes]]:
    """The messages of the protocol in the bytes that a party has sent over a connection.

    Parameters
    ----------
    came
        The bytes of the connection, without TLS.
    to_coordinator
        Whether the other end is the coordinator (calls of ``Connect``) or another server (``Upload``).

    Yields
    ------
    tuple of int and bytes
        The number of the round, and a whole message with its frame of 34 bytes.
    """
    number = ROUND_OF_CHUNK if to_coordinator else ROUND_OF_UPLOAD
    for stream in data_of_streams(came):
        whole = b""
        for call in calls(stream):
            chunk: int | bytes | None = fields(call).get(CHUNK) if to_coordinator else call
            if not isinstance(chunk, bytes):
                continue
            found = fields(chunk)
            piece, total, current = found.get(PIECE), found.get(TOTAL), found.get(number)
            if isinstance(piece, bytes) and isinstance(current, int):
                whole += piece
                if len(whole) == total:
                    yield current, whole
                    whole = b""


def data_of_streams(came: bytes) -> list[bytes]:
    """What the frames of an HTTP/2 connection carry, by stream, in the order in which the streams began.

    A frame that is not whole yet is left out (RFC 9113 section 4.1).
    """
    if not came.startswith(PREFACE):
        return []
    found: dict[int, bytearray] = {}
    at = len(PREFACE)
    while at + 9 <= len(came):
        length, kind, flags = int.from_bytes(came[at : at + 3], "big"), came[at + 3], came[at + 4]
        stream = int.from_bytes(came[at + 5 : at + 9], "big") & 0x7FFFFFFF
        content = came[at + 9 : at + 9 + length]
        at += 9 + length
        if kind != DATA or len(content) < length:
            continue
        if flags & PADDED:
            content = content[1 : length - content[0]]
        found.setdefault(stream, bytearray()).extend(content)
    return [bytes(content) for content in found.values()]


def calls(stream: bytes) -> list[bytes]:
    """The messages of a gRPC call: each has a byte, and its length in four bytes, before it."""
    found = []
    at = 0
    while at + 5 <= len(stream):
        length = int.from_bytes(stream[at + 1 : at + 5], "big")
        if at + 5 + length > len(stream):
            break
        found.append(stream[at + 5 : at + 5 + length])
        at += 5 + length
    return found


def fields(message: bytes) -> dict[int, int | bytes]:
    """The fields of a message of Protocol Buffers by their numbers: integers, and bytes of all other kinds.

    Fields of fixed width are in no message of the wire, and end the reading.
    """
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _varint(message, at)
        match key & 7:
            case 0:
                found[key >> 3] = value
            case 2:
                found[key >> 3] = message[at : at + value]
                at += value
            case _:
                break
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """An integer in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return value, at
