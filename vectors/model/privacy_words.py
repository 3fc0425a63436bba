"""Vectors with noise to words of b bits, and sums of them to means, one coordinate at a time."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from hashlib import sha256
from typing import Any

from .aes import counter_stream
from .encoding import l2_norm
from .privacy_noise import number
from .privacy_sizes import UNITS, sizes

SHORTER = 1.0 - 2.0**-40


def bits_of(value: float) -> str:
    """The bits of a double as hexadecimal digits."""
    return struct.pack(">d", value).hex()


def whole_numbers(values: list[float], clip: float, job: dict[str, Any], seed: bytes) -> list[int]:
    """Coordinates in steps of clip / M, rounded; again where the sum of squares is too large."""
    most = 2 ** (job["bits"] - 1) - 1
    norm = l2_norm(values)
    scale = (clip / norm if norm > clip else 1.0) * SHORTER * (most / clip)
    fraction = 0 if job["rounding"] == "nearest" else min(32, 51 - most.bit_length())
    attempt = 0
    while True:
        random = counter_stream(seed, 16 * (attempt << 32), 4 * len(values))
        numbers = []
        for i, value in enumerate(values):
            fixed = round(Fraction(value * (scale * 2.0**fraction)))
            fixed = max(-most << fraction, min(most << fraction, fixed))
            drawn = int.from_bytes(random[4 * i : 4 * i + 4], "little") >> (32 - fraction)
            numbers.append(max(-most, min(most, (fixed + drawn) >> fraction)))
        if sum(u * u for u in numbers) <= job["squared_norm"]:
            return numbers
        attempt += 1
        scale *= 1.0 if attempt < 9 else 1.0 - 2.0**-6


def a_round(
    label: str,
    parties: int,
    dim: int,
    bits: int,
    clip: float,
    *,
    length: float = 1.0,
    units: int = UNITS // 2,
    **options: str,
) -> dict[str, Any]:
    """Three vectors of a job with noise, their words, their sum and its mean."""
    job = sizes(parties, dim, max(1, parties - 1), bits, units, **options)
    variance = Fraction(int(str(job["variance_units"])), 1024)
    width, limit = int(str(job["width"])), int(str(job["limit"]))
    vectors, total = [], [0] * dim
    for party in range(min(parties, 3)):
        digits = sha256(f"{label} {party}".encode()).digest()
        values = [math.sin(1.0 + digits[i % 32] * (i + 1)) * clip * length for i in range(dim)]
        if party == 2:
            values = [0.0] * dim
        rounding, noise = (sha256(digits + name).digest() for name in (b"rounding", b"noise"))
        numbers = whole_numbers(values, clip, job, rounding)
        drawn = [number(noise, str(job["mechanism"]), variance, i) for i in range(dim)]
        noised = [u + y for u, y in zip(numbers, drawn, strict=True)]
        words = [max(0, min(2**width - 1, value + 2 ** (width - 1))) for value in noised]
        total = [(a + b) % 2**width for a, b in zip(total, words, strict=True)]
        vectors.append(
            {
                "values": [bits_of(value) for value in values],
                "rounding_seed": rounding.hex(),
                "noise_seed": noise.hex(),
                "words": words,
            }
        )
    step = clip / (2 ** (bits - 1) - 1) / len(vectors)
    centred = [(word - len(vectors) * 2 ** (width - 1)) % 2**width for word in total]
    lifted = [word - 2**width if word >= 2 ** (width - 1) else word for word in centred]
    assert all(abs(word) <= limit for word in lifted)
    return job | {
        "clip": bits_of(clip),
        "vectors": vectors,
        "sum": total,
        "mean": [bits_of(word * step) for word in lifted],
    }


def rounds() -> list[dict[str, Any]]:
    """Jobs with each kind of rounding, of noise, and of lanes."""
    return [
        a_round("short", 3, 20, 8, 1.0, length=0.1),
        a_round("long", 10, 30, 12, 0.37),
        a_round("nearest", 10, 30, 12, 2.5, rounding="nearest"),
        a_round("skellam", 10, 12, 8, 1.0, mechanism="skellam"),
        a_round("replace", 4, 25, 16, 1e-3, adjacency="replace"),
        a_round("wide", 100, 10, 28, 1.0, length=0.3, units=2**11),
    ]
