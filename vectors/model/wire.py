"""Message encodings: the frame, TLS presentation language and bitmaps."""

from __future__ import annotations

from .derive import VERSION, rank_bytes
from .words import pack

LENGTH = 4
"""Bytes of the length of what has one."""


def opaque(content: bytes) -> bytes:
    """Bytes behind their length."""
    return len(content).to_bytes(LENGTH, "big") + content


def vector(elements: list[bytes]) -> bytes:
    """Encoded elements behind their length in bytes (not their number)."""
    return opaque(b"".join(elements))


def frame(context: bytes, stage: int, body: bytes) -> bytes:
    """A whole message."""
    return bytes([VERSION, stage]) + context + body


def bitmap(roster: int, parties: set[int]) -> bytes:
    """Set of parties: party i is bit i % 8 of byte i / 8."""
    number = sum(1 << party for party in parties)
    return number.to_bytes((roster + 7) // 8, "little")


# --- Messages of secagg and secagg+ ---


def advertise(seal_key: bytes, mask_key: bytes, signature: bytes) -> bytes:
    """Stage 0, up."""
    return opaque(seal_key) + opaque(mask_key) + opaque(signature)


def neighbour_keys(entries: dict[int, bytes]) -> bytes:
    """Stage 0, down: the bodies of stage 0 by party."""
    return vector([rank_bytes(party) + body for party, body in sorted(entries.items())])


def sealed_shares(entries: dict[int, bytes]) -> bytes:
    """Stage 1, down: sealed shares by sender."""
    return vector([rank_bytes(party) + opaque(s) for party, s in sorted(entries.items())])


def shares_out(commitment: bytes, entries: dict[int, bytes]) -> bytes:
    """Stage 1, up: the commitment, then sealed shares by receiver."""
    return commitment + sealed_shares(entries)


def signed(signature: bytes) -> bytes:
    """Consistency stage, up."""
    return opaque(signature)


def signatures(entries: dict[int, bytes]) -> bytes:
    """Consistency stage, down: signatures by signer."""
    return vector([rank_bytes(party) + opaque(s) for party, s in sorted(entries.items())])


def revealed(shares: dict[int, bytes]) -> bytes:
    """Unmask stage, up: one share of 40 bytes by owner of the secret."""
    return vector([rank_bytes(party) + share for party, share in sorted(shares.items())])


# --- Messages of fssa and pss ---


def ramp_advertise(key: bytes, signature: bytes) -> bytes:
    """Stage 0, up."""
    return opaque(key) + opaque(signature)


def ramp_columns(sealed: dict[int, bytes]) -> bytes:
    """Stage 1, up: sealed columns in the order of their receivers; all have one length."""
    return b"".join(column for _, column in sorted(sealed.items()))


def ramp_passed_on(roster: int, shared: set[int], sealed: dict[int, bytes]) -> bytes:
    """Stage 1, down: who shared, then the sealed columns in the order of their senders."""
    return bitmap(roster, shared) + ramp_columns(sealed)


# --- Messages of flashe's key set-ups ---


def key_advert(key_id: bytes, key: bytes, signature: bytes) -> bytes:
    """Stage 0, up; stage 0, down is as in the other protocols."""
    return opaque(key_id) + opaque(key) + opaque(signature)


def key_delivery(sealed: dict[int, bytes]) -> bytes:
    """Stage 1, up: the sealed key by receiver."""
    return sealed_shares(sealed)


def key_for(sealed: bytes) -> bytes:
    """Stage 1, down: the sealed key for one party, empty for one that holds it."""
    return opaque(sealed)


def holders(roster: int, parties: set[int], tag: bytes) -> bytes:
    """Stage 2, down: who holds the key, and their tag."""
    return bitmap(roster, parties) + tag


# --- Messages of flashe's sparse rounds ---


def places(masks_a_word: int, roster: int, sets: dict[int, bytes]) -> bytes:
    """Stage 0, down: how words are masked, and everybody's encoded set of places."""
    listed = b"".join(len(encoded).to_bytes(4, "big") + encoded for _, encoded in sorted(sets.items()))
    return bytes([masks_a_word]) + bitmap(roster, set(sets)) + listed


# --- Of all protocols ---


def result(roster: int, survivors: set[int], width: int, words: list[int]) -> bytes:
    """Last stage, down."""
    return bitmap(roster, survivors) + pack(width, words)
