"""FLASHE: keys, tickets' saved state, encryption with one or two masks, sums, decryption, tags."""

from __future__ import annotations

from hashlib import sha256

from . import aes, words
from .derive import derive32

NO_ROUND = bytes(32)
MASKS = {"single": 1, "double": 2}


def saved_state(key: bytes, used_rounds: int) -> bytes:
    """What a party keeps: all rounds below ``used_rounds`` count as used."""
    key_id = derive32(key, NO_ROUND, "flashe key id")[:16]
    body = bytes([1]) + key_id + used_rounds.to_bytes(8, "big")
    state_key = derive32(key, NO_ROUND, "flashe state")
    return body + derive32(state_key, NO_ROUND, "flashe state tag", body)[:16]


def mask(round_key: bytes, i: int, j: int, bits: int, lane: int) -> int:
    """F(i, j, lane): a little-endian number out of one encrypted block."""
    size = 4 if bits <= 32 else 8
    number, offset = divmod(size * lane, 16)
    block = i.to_bytes(8, "big") + j.to_bytes(4, "big") + number.to_bytes(4, "big")
    stream = aes.encrypt_block(round_key, block)
    return int.from_bytes(stream[offset : offset + size], "little") % 2**bits


def encrypt(scheme: str, round_key: bytes, i: int, j: int, bits: int, vector: list[int]) -> list[int]:
    """The words of the ciphertext."""
    lanes = range(len(vector))
    masks = [mask(round_key, i, j, bits, lane) for lane in lanes]
    if scheme == "double":
        masks = [masks[lane] - mask(round_key, i, j + 1, bits, lane) for lane in lanes]
    return [(vector[lane] + masks[lane]) % 2**bits for lane in lanes]


def decrypt(
    scheme: str, round_key: bytes, i: int, survivors: list[int], bits: int, vector: list[int]
) -> list[int]:
    """Take off every survivor's masks, without looking for those that cancel."""
    for j in survivors:
        none = encrypt(scheme, round_key, i, j, bits, [0] * len(vector))
        vector = [(word - masks) % 2**bits for word, masks in zip(vector, none, strict=True)]
    return vector


def tag(
    round_key: bytes, context: bytes, i: int, j: int, scheme: str, bits: int, lanes: int, packed: bytes
) -> bytes:
    """AES-256-GMAC of a ciphertext under a key of its own."""
    parts = i.to_bytes(8, "big"), j.to_bytes(4, "big"), bytes([MASKS[scheme]]), bytes([bits])
    key = derive32(round_key, context, "flashe tag", *parts, lanes.to_bytes(8, "big"))
    return aes.gcm_seal(key, bytes(12), packed, b"")


def played(
    scheme: str, bits: int, lanes: int, parties: int, survivors: list[int], i: int
) -> dict[str, object]:
    """One round: what everybody sends, the sum and what it decrypts to."""
    label = f"flashe/{scheme}/{bits}"
    key, context = (sha256(f"{label}/{part}".encode()).digest() for part in ("key", "context"))
    round_key = derive32(key, context, "flashe round")
    uploads, vectors, ciphertexts = [], [], []
    for j in survivors:
        vector = [number % 2**bits for number in words.numbers(f"{label}/{j}", lanes)]
        ciphertext = encrypt(scheme, round_key, i, j, bits, vector)
        packed = words.pack(bits, ciphertext)
        mac = tag(round_key, context, i, j, scheme, bits, lanes, packed)
        uploads.append({"rank": j, "words": vector, "packed": packed.hex(), "tag": mac.hex()})
        vectors.append(vector)
        ciphertexts.append(ciphertext)
    added = words.add(bits, ciphertexts)
    total = decrypt(scheme, round_key, i, survivors, bits, added)
    assert total == words.add(bits, vectors)
    return {
        "scheme": scheme,
        "bits": bits,
        "lanes": lanes,
        "parties": parties,
        "round": i,
        "key": key.hex(),
        "context": context.hex(),
        "key_id": derive32(key, NO_ROUND, "flashe key id")[:16].hex(),
        "confirmation": derive32(key, context, "flashe confirm").hex(),
        "state": saved_state(key, i + 1).hex(),
        "uploads": uploads,
        "sum": words.pack(bits, added).hex(),
        "decrypted": total,
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``flashe.json``."""
    return {
        "rounds": [
            played("double", 20, 21, 3, [0, 1, 2], 0),
            played("double", 8, 9, 6, [0, 1, 3, 5], 1),
            played("double", 32, 7, 4, [1, 2], 2**32 + 5),
            played("double", 33, 7, 4, [3], 2**64 - 2),
            played("double", 64, 5, 2**32 - 2, [0, 2**16 - 1, 2**16, 2**32 - 3], 77),
            played("single", 20, 21, 3, [0, 1, 2], 0),
            played("single", 31, 6, 5, [1, 4], 3),
            played("single", 47, 6, 5, [0, 2, 3], 2**40),
        ]
    }
