"""Randomness that is written down: parties of the model and of the tests read the same bytes."""

from __future__ import annotations

import hashlib

FIELD = 2**61 - 1


class Tape:
    """Bytes that follow from a label; ``planted`` puts given ones at some offsets.

    Attributes
    ----------
    used
        Bytes read so far.
    """

    def __init__(self, label: str, planted: dict[int, bytes] | None = None) -> None:
        self.label = label
        self.planted = planted or {}
        self.used = b""

    def read(self, length: int) -> bytes:
        """Take the next bytes."""
        start, end = len(self.used), len(self.used) + length
        content = bytearray(hashlib.shake_256(self.label.encode()).digest(end))
        for offset, given in self.planted.items():
            content[offset : offset + len(given)] = given
        self.used = bytes(content[:end])
        return self.used[start:]

    def field_element(self) -> int:
        """Uniform number below 2^61 - 1: the 61 low bits of 8 bytes, little-endian; redrawn."""
        while True:
            draw = int.from_bytes(self.read(8), "little") % 2**61
            if draw < FIELD:
                return draw
