"""The numbers that a coordinator says for a round: docs/wire-derivations.md, "Numbers"."""

from __future__ import annotations

from functools import lru_cache
from math import comb

from job import Job

# 2^-40, missed by less than one part in a million, as a fraction.
SLACK = 10_000_007
WHOLE = 10_000_000


def _small(numerator: int, denominator: int) -> bool:
    """Whether a fraction counts as below 2^-40; exact."""
    return (numerator << 40) * WHOLE < denominator * SLACK


@lru_cache(maxsize=4096)
def _tail(total: int, marked: int, drawn: int, least: int) -> tuple[int, int]:
    """Pr[H(total, marked, drawn) >= least], as a fraction."""
    if least <= 0:
        return 1, 1
    marked = min(marked, total)
    high = min(marked, drawn)
    ways = sum(comb(marked, y) * comb(total - marked, drawn - y) for y in range(least, high + 1))
    return ways, comb(total, drawn)


def broken(job: Job, members: int, numbers: tuple[int, int, int]) -> str:
    """Which of the numbers breaks a rule, and the rule; empty if none does."""
    neighbours, threshold, packing = numbers
    if job.protocol == "plain":
        names = ("neighbours", "threshold", "packing")
        return next((f"{name}: must be 0" for name, value in zip(names, numbers, strict=True) if value), "")
    if job.protocol not in ("secagg", "secagg+"):
        raise ValueError(f"{job.protocol} is not spoken here")
    if packing:
        return "packing: must be 0"
    return _neighbours(job, members, neighbours) or _threshold(job, members, neighbours, threshold)


def _neighbours(job: Job, n: int, k: int) -> str:
    complete = k == n - 1
    if not 1 <= k <= n - 1:
        return f"neighbours: {k} is not from 1 to {n - 1}"
    if k * n % 2:
        return f"neighbours: {k} of {n} is not even"
    if job.protocol == "secagg":
        return "" if complete else f"neighbours: {k} is not all of {n}"
    asked = job["protocol.neighbours"]
    if asked and k != min(asked + asked % 2 * (n % 2), n - 1):
        return f"neighbours: {k}, the job asks for {asked}"
    if job.active and k < min(16, n - 1):
        return f"neighbours: {k} are too few against an active adversary"
    lost = min(job.corrupt + job.dropped(n), n)
    half = k // 2
    if complete or 2 * half > lost:
        return ""
    ways = n * (n - 1) * comb(n - 2 * half, lost - 2 * half)
    return "" if _small(ways, 2 * comb(n, lost)) else f"neighbours: losses cut the graph of {k}"


def _threshold(job: Job, n: int, k: int, t: int) -> str:
    corrupt = job.corrupt
    holders = k + 1
    honest = max(n - corrupt, 1)
    half = k // 2
    if t > holders:
        return f"threshold: {t} is above the holders"
    asked = job["protocol.threshold"]
    if asked and t != asked:
        return f"threshold: {t}, the job asks for {asked}"

    def likely(times: int, total: int, drawn: int, least: int) -> bool:
        ways, of = _tail(total, corrupt, drawn, least)
        return not _small(times * ways, of)

    if not job.active:
        return "threshold: corrupt holders reach it" if likely(honest, n - 1, k, t) else ""
    if likely(honest, n - 1, k, 2 * t - holders):
        return "threshold: two sets of holders reach it"
    if job.protocol == "secagg":
        return "" if 3 * t > 2 * n else "threshold: not above two thirds"
    if k < n - 1:
        if likely(1, n, holders, 2 * t - holders):
            return "threshold: two sets of witnesses reach it"
        if likely(2 * honest, n - 1, half, t - half - k % 2 - 1):
            return "threshold: a piece of the graph can be cut out"
    return ""
