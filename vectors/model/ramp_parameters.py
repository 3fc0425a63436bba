"""Degree, packing and fields of `fssa`, `pss` and `pss-malicious`, and the jobs for which there are none."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from .job import Job
from .parameters import ParameterError
from .prime import FIELD31, FIELD47, FIELD48, PrimeField

TOLERANCE = Fraction(1, 10**9)
"""A product of a fraction and a number of parties may be so far from the integer it means."""


@dataclass(frozen=True)
class Wish:
    """What a round asks of sharing; 0 leaves the choice of threshold and packing."""

    active: bool = False
    corrupt: int = 0
    dropouts: int = 0
    threshold: int = 0
    packing: int = 0


def wish_of(job: Job, n: int) -> Wish:
    """What a round of ``n`` parties of a job asks."""
    return Wish(job.is_active(), job.corrupt_parties(), job.losses_among(n), job.threshold, job.packing)


def corrupt_among(fraction: float, n: int) -> int:
    """Parties that may be corrupt: any part of a party counts as one."""
    return ceil(Fraction(fraction) * n - TOLERANCE)


def dropouts_among(fraction: float, n: int) -> int:
    """Parties that may drop out: whole ones only, a tenth of three is nobody."""
    return floor(Fraction(fraction) * n + TOLERANCE)


def least_random(wish: Wish) -> int:
    """Fewest random elements of a block.

    As many as parties may be corrupt, and one for a party that is curious by itself.
    """
    return max(wish.corrupt, 1)


def quorum(wish: Wish, n: int) -> int:
    """Fewest signers of a set of survivors, so that no two sets have them if the corrupt ones sign both."""
    return (n + wish.corrupt) // 2 + 1


def confirmed(wish: Wish, n: int, k: int) -> bool:
    """Whether a set of survivors can be confirmed by as many as rebuild a block."""
    return not wish.active or k >= quorum(wish, n)


def shape(wish: Wish, n: int, words: int) -> tuple[int, int]:
    """Shares that rebuild a block, and words in it."""
    if n < 2:
        raise ParameterError("parties")
    most = n - wish.dropouts
    if wish.threshold > most:
        raise ParameterError("threshold")
    k = wish.threshold or most
    room = k - least_random(wish)
    if room < 1 or not confirmed(wish, n, k):
        raise ParameterError("threshold" if wish.threshold else "dropout")
    if wish.packing > room:
        raise ParameterError("packing")
    return k, wish.packing or fewest_zeros(words, room)


def fewest_zeros(words: int, room: int) -> int:
    """Smallest packing that needs no more blocks than the largest one."""
    blocks = ceil(Fraction(words, room))
    return next(packed for packed in range(1, room + 1) if packed * blocks >= words)


def fields_for(largest_sum: int) -> tuple[PrimeField, ...]:
    """The smallest field, else the pair of fields, in which a sum is what it is."""
    single = next((f for f in (FIELD31, FIELD47) if largest_sum < f.p), None)
    return (single,) if single else (FIELD47, FIELD48)


def proved_shape(job: Job, n: int) -> tuple[int, int]:
    """The same for `pss-malicious`: answers on polynomials of 2k - 1 coefficients must be corrected."""
    corrupt = least_random(wish_of(job, n))
    left = n - job.losses_among(n)
    fits = [packed for packed in range(1, n + 1) if left >= 2 * (packed + corrupt) - 1 + 2 * corrupt]
    if not fits:
        raise ParameterError("dropout")
    if job.packing and job.packing not in fits:
        raise ParameterError("packing")
    packed = job.packing or fewest_zeros(job.lanes(), fits[-1])
    return packed + corrupt, packed
