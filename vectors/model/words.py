"""Words modulo 2^b and their packed form: one big number, its digits in base 2^b the words."""

from __future__ import annotations

import hashlib

WIDTHS = [*range(1, 13), 16, 17, 20, *range(23, 36), 40, 47, 48, *range(55, 65)]


def numbers(label: str, count: int) -> list[int]:
    """Integers below 2^64 that depend on the label only."""
    digests = (hashlib.sha256(f"{label}/{i}".encode()).digest() for i in range(count))
    return [int.from_bytes(digest[:8], "little") for digest in digests]


def packed_len(bits: int, lanes: int) -> int:
    """Bytes of the packed form."""
    return -(-bits * lanes // 8)


def pack(bits: int, words: list[int]) -> bytes:
    """Pack words below 2^bits."""
    number = sum(word << (bits * i) for i, word in enumerate(words))
    return number.to_bytes(packed_len(bits, len(words)), "little")


def unpack(bits: int, lanes: int, packed: bytes) -> list[int] | None:
    """The words of a packed vector, None if it has the wrong length or set padding bits."""
    number = int.from_bytes(packed, "little")
    if len(packed) != packed_len(bits, lanes) or number >> (bits * lanes):
        return None
    return [number >> (bits * i) & (2**bits - 1) for i in range(lanes)]


def add(bits: int, vectors: list[list[int]]) -> list[int]:
    """Add vectors modulo 2^bits."""
    return [sum(column) % 2**bits for column in zip(*vectors, strict=True)]


def packing(bits: int, lanes: int) -> dict[str, object]:
    """A vector of every extreme word and its packed form."""
    words = [number >> (64 - bits) for number in numbers(f"{bits} bits", lanes)]
    words[:: lanes // 3 or 1] = [2**bits - 1] * len(words[:: lanes // 3 or 1])
    packed = pack(bits, words)
    assert unpack(bits, lanes, packed) == words
    return {"bits": bits, "words": words, "packed": packed.hex()}


def addition(bits: int, lanes: int, count: int) -> dict[str, object]:
    """Packed vectors and their sum, most words of which wrap."""
    vectors = [
        [number >> (64 - bits) for number in numbers(f"{bits} bits, vector {k}", lanes)] for k in range(count)
    ]
    return {
        "bits": bits,
        "packed": [pack(bits, vector).hex() for vector in vectors],
        "sum": add(bits, vectors),
    }


def bad_packing(bits: int, lanes: int, packed: bytes) -> dict[str, object]:
    """A string that is no packed vector."""
    assert unpack(bits, lanes, packed) is None
    return {"bits": bits, "lanes": lanes, "packed": packed.hex()}


def bad_packings(bits: int, lanes: int) -> list[dict[str, object]]:
    """The packed form of zeros, one byte longer, one shorter, and with each padding bit set."""
    size = packed_len(bits, lanes)
    bad = [bad_packing(bits, lanes, bytes(size + 1)), bad_packing(bits, lanes, bytes(size - 1))]
    for bit in range(bits * lanes, 8 * size):
        bad.append(bad_packing(bits, lanes, (1 << bit).to_bytes(size, "little")))
    return bad


def vectors() -> dict[str, object]:
    """Everything that goes into ``words.json``."""
    shapes = [(1, 5), (7, 3), (23, 9), (31, 2), (40, 3), (63, 7), (64, 2)]
    return {
        "packings": [packing(bits, lanes) for bits in WIDTHS for lanes in (1, 9, 33)],
        "additions": [addition(bits, lanes, 3) for bits in WIDTHS for lanes in (19,)],
        "bad_packings": [bad for bits, lanes in shapes for bad in bad_packings(bits, lanes)],
    }
