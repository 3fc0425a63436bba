"""Mask streams: lanes of the AES-256-CTR keystream at any offset, added and taken off."""

from __future__ import annotations

from hashlib import sha256

from .derive import mask_lanes


def stream(label: str, lane_bits: int, first: int, count: int) -> dict[str, object]:
    """Lanes ``first..first + count`` of one mask."""
    key = sha256(label.encode()).digest()
    lanes = mask_lanes(key, lane_bits, first, count)
    return {"seed": key.hex(), "lane_bits": lane_bits, "first": first, "lanes": lanes}


def masked(lane_bits: int, first: int, signs: list[str]) -> dict[str, object]:
    """Several masks on one vector, each with its sign."""
    count = 9
    numbers = sha256(f"lanes/{lane_bits}".encode()).digest() * 4
    size = lane_bits // 8
    lanes = [int.from_bytes(numbers[size * i : size * (i + 1)], "little") for i in range(count)]
    keys = [sha256(f"mask {i}".encode()).digest() for i in range(len(signs))]
    after = list(lanes)
    for key, sign in zip(keys, signs, strict=True):
        mask = mask_lanes(key, lane_bits, first, count)
        factor = {"add": 1, "sub": -1}[sign]
        after = [(a + factor * m) % 2**lane_bits for a, m in zip(after, mask, strict=True)]
    return {
        "lane_bits": lane_bits,
        "first": first,
        "masks": [{"seed": key.hex(), "sign": sign} for key, sign in zip(keys, signs, strict=True)],
        "before": lanes,
        "after": after,
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``masks.json``."""
    return {
        "streams": [
            stream("a mask", lane_bits, first, count)
            for lane_bits in (32, 64)
            for first, count in [
                (0, 40),
                (1, 7),
                (1023, 3),
                (4095, 10),
                (2**20 + 3, 5),
                (2**32 - 2, 4),
                (2**34 + 5, 6),
            ]
        ],
        "masked": [
            masked(lane_bits, first, signs)
            for lane_bits in (32, 64)
            for first in (0, 4093)
            for signs in (["add"], ["sub"], ["add", "sub", "sub", "add", "add"])
        ],
    }
