"""Sharing of secrets of 32 bytes: docs/wire-derivations.md, "Secrets"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

PRIME = 2**61 - 1
LIMBS = 5
SHARE = 8 * LIMBS


def split(secret: bytes) -> list[int]:
    """Five limbs of 52 bits, the lowest first."""
    number = int.from_bytes(secret, "little")
    return [number >> 52 * at & (1 << 52) - 1 for at in range(LIMBS)]


def _element(random: Callable[[int], bytes]) -> int:
    while True:
        number = int.from_bytes(random(8), "little") & PRIME
        if number != PRIME:
            return number


def coefficients(threshold: int, random: Callable[[int], bytes]) -> list[list[int]]:
    """The rows of X, X^2 and so on."""
    return [[_element(random) for _ in range(LIMBS)] for _ in range(threshold - 1)]


def share(secret: bytes, rows: Sequence[Sequence[int]], rank: int) -> bytes:
    """The share of the holder of a rank."""
    point = rank + 1
    out = b""
    for at, limb in enumerate(split(secret)):
        value = 0
        for row in reversed(rows):
            value = (value * point + row[at]) % PRIME
        out += ((value * point + limb) % PRIME).to_bytes(8, "little")
    return out


def valid(data: bytes) -> bool:
    """Whether this may be a share."""
    return len(data) == SHARE and all(
        int.from_bytes(data[at : at + 8], "little") < PRIME for at in range(0, SHARE, 8)
    )
