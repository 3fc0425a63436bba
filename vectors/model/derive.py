"""Framed hashes and key derivation: SHA-256 and HKDF-SHA256 (RFC 5869)."""

from __future__ import annotations

import hashlib
import hmac

from . import aes, curve25519, p256

VERSION = 1
SUITES = ("x25519", "p256")


def label_bytes(label: str) -> bytes:
    """Label with its length in one byte."""
    return len(label).to_bytes(1, "big") + label.encode("ascii")


def framed_hash(label: str, *parts: bytes) -> bytes:
    """SHA-256 of the label and of the parts, each behind its length in 8 bytes."""
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(label_bytes(label) + framed).digest()


def hkdf32(secret: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 with an empty salt; 32 bytes are the first block of the expansion."""
    key = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(key, info + b"\x01", "sha256")


def derive32(secret: bytes, context: bytes, label: str, *parts: bytes) -> bytes:
    """HKDF with label, context, and the parts, each behind its length in 2 bytes, as info."""
    framed = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
    return hkdf32(secret, label_bytes(label) + context + framed)


def rank_bytes(rank: int) -> bytes:
    """Rank of a party in 4 bytes."""
    return rank.to_bytes(4, "big")


# --- Key agreement ---


def public_key(suite: str, secret: bytes) -> bytes:
    """X25519 key of 32 bytes or compressed P-256 point of 33."""
    if suite == "x25519":
        return curve25519.x25519_public(secret)
    return p256.compress(p256.public_point(secret))


def agree(suite: str, secret: bytes, other: bytes) -> bytes:
    """Shared secret: HKDF over the Diffie-Hellman value, with both public keys in byte order."""
    exchange = curve25519.x25519 if suite == "x25519" else p256.agree
    first, second = sorted([public_key(suite, secret), other])
    return hkdf32(exchange(secret, other), b"agreement" + first + second)


# --- Sealing ---


def message_key(shared: bytes, context: bytes, sender: int, receiver: int, purpose: str) -> bytes:
    """Key of the one message that ``sender`` seals for ``receiver``."""
    ranks = rank_bytes(sender), rank_bytes(receiver)
    return derive32(shared, context, "share", *ranks, purpose.encode("ascii"))


def seal(key: bytes, header: bytes, plaintext: bytes) -> bytes:
    """AES-256-GCM with a zero nonce, for a key that seals one message."""
    return aes.gcm_seal(key, bytes(12), header, plaintext)


def open_sealed(key: bytes, header: bytes, sealed: bytes) -> bytes | None:
    """Undo :func:`seal`; None if key, header or message differ."""
    return aes.gcm_open(key, bytes(12), header, sealed)


def seal_for_storage(key: bytes, salt: bytes, header: bytes, plaintext: bytes) -> bytes:
    """A snapshot: the salt, then the message sealed under a key derived with it."""
    return salt + seal(derive32(key, salt, "snapshot"), header, plaintext)


# --- Double masking ---


def share_header(context: bytes, sender: int, receiver: int) -> bytes:
    """What is authenticated with sealed shares."""
    return bytes([VERSION]) + context + rank_bytes(sender) + rank_bytes(receiver)


def seed_commitment(context: bytes, owner: int, seed: bytes) -> bytes:
    """Commitment to the self-mask seed b."""
    return framed_hash("blindsum self mask", context, rank_bytes(owner), seed)


def self_mask_key(context: bytes, owner: int, seed: bytes) -> bytes:
    """AES key that expands to PRG(b)."""
    return derive32(seed, context, "self mask", rank_bytes(owner))


def pair_mask_key(shared: bytes, context: bytes, one: int, other: int) -> bytes:
    """AES key that expands to the mask of two parties; the lower rank adds it."""
    low, high = sorted([one, other])
    return derive32(shared, context, "pair mask", rank_bytes(low), rank_bytes(high))


def mask_lanes(key: bytes, lane_bits: int, first: int, count: int) -> list[int]:
    """Lanes ``first..`` of a mask: little-endian numbers of the AES-256-CTR keystream."""
    size = lane_bits // 8
    stream = aes.counter_stream(key, size * first, size * count)
    return [int.from_bytes(stream[i : i + size], "little") for i in range(0, len(stream), size)]
