"""Who masks with whom: parameters, and neighbours drawn from the round's context."""

from __future__ import annotations

from dataclasses import astuple
from hashlib import sha256
from itertools import count
from typing import Any

from . import aes
from .derive import framed_hash
from .job import Job
from .parameters import ParameterError, find


def draw_order(n: int, context: bytes) -> list[int]:
    """Shuffle 0..n, from the end (Fisher and Yates), with 64-bit draws of AES-256-CTR."""
    key = framed_hash("blindsum graph", context)
    draws = (
        int.from_bytes(block[half : half + 8], "little")
        for number in count()
        for block in [aes.counter_stream(key, 16 * number, 16)]
        for half in (0, 8)
    )
    order = list(range(n))
    for last in range(n - 1, 0, -1):
        bound = last + 1
        # Draws from the largest multiple of `bound` below 2^64 on are thrown away.
        limit = (2**64 - 1) // bound * bound
        chosen = next(draw for draw in draws if draw < limit) % bound
        order[last], order[chosen] = order[chosen], order[last]
    return order


def neighbour_lists(n: int, neighbours: int, context: bytes) -> list[list[int]]:
    """Neighbours of each party, ascending: the Harary graph H(n, neighbours) on the drawn order."""
    order = draw_order(n, context)
    lists: list[list[int]] = [[] for _ in range(n)]
    for place, party in enumerate(order):
        steps = {s for step in range(1, neighbours // 2 + 1) for s in (step, -step)}
        if neighbours % 2:
            steps.add(n // 2)
        lists[party] = sorted({order[(place + step) % n] for step in steps})
        assert len(lists[party]) == neighbours
    return lists


def witnesses(n: int, neighbours: int, context: bytes) -> list[int]:
    """Those who confirm the survivor set, ascending: the first of the drawn order."""
    return sorted(draw_order(n, context)[: neighbours + 1])


COLUMNS = (
    "roster",
    "parties",
    "min_parties",
    "protocol",
    "adversary",
    "corrupt",
    "dropout",
    "neighbours",
    "threshold",
)


def parameters_of(n: int, *, complete: bool = False, roster: int = 0, **given: Any) -> list[object]:
    """A row of the table; at its end what was found, or the field of the job to change."""
    job = Job(parties=n, protocol="secagg" if complete else "secagg+", **given)
    roster = roster or n
    row = [roster, *(getattr(job, column) for column in COLUMNS[1:])]
    try:
        return [*row, list(astuple(find(job, roster, complete=complete)))]
    except ParameterError as error:
        return [*row, str(error)]


def table() -> list[list[object]]:
    """Parameters for many jobs."""
    usual = [(0.0, 0.0), (0.1, 0.1), (0.2, 0.05), (0.05, 0.1)]
    harsh = [(0.05, 0.3), (0.07, 0.29), (0.33, 0.1), (0.2, 0.4), (0.4, 0.4), (0.6, 0.0), (0.0, 0.9)]
    sizes = [2, 3, 4, 5, 8, 10, 16, 17, 18, 19, 50, 51, 100, 101]
    rows = [
        parameters_of(n, adversary=adversary, corrupt=corrupt, dropout=dropout, complete=complete)
        for n in sizes
        for adversary in ("semi-honest", "active")
        for corrupt, dropout in usual + harsh
        for complete in (True, False)
    ]
    rows += [
        parameters_of(n, adversary=adversary, corrupt=corrupt, dropout=dropout)
        for n in (333, 1000, 10_000, 100_000)
        for adversary in ("semi-honest", "active")
        for corrupt, dropout in usual + (harsh[:3] if n == 333 else [])
    ]
    rows += [
        parameters_of(100, neighbours=neighbours, threshold=threshold, adversary=adversary)
        for adversary in ("semi-honest", "active")
        for neighbours in (0, 4, 30, 31, 60, 99, 100)
        for threshold in (0, 1, 20, 40, 50, 67, 100)
    ]
    rows += [
        parameters_of(60, threshold=threshold, complete=True, adversary=adversary)
        for adversary in ("semi-honest", "active")
        for threshold in (1, 6, 7, 40, 41, 54, 55, 60, 61)
    ]
    rows += [parameters_of(n) for n in (0, 1)]
    rows.append(parameters_of(101, neighbours=41))
    # Smaller rosters than the job's parties, with all that may be corrupt in them.
    rows += [
        parameters_of(n, roster=roster, min_parties=least, adversary=adversary, complete=complete)
        for n, least, rosters in ((100, 20, (20, 21, 55, 67, 99)), (1000, 200, (200, 201, 667, 999)))
        for roster in rosters
        for adversary in ("semi-honest", "active")
        for complete in (True, False)
    ]
    rows += [
        parameters_of(100, roster=roster, **given) for roster in (67, 68, 90, 98) for given in SMALL_ROSTERS
    ]
    rows += [parameters_of(100, roster=n, threshold=90, complete=True) for n in (90, 95, 98)]
    # A threshold that only the complete graph makes safe.
    rows += [parameters_of(100, roster=n, corrupt=0.25, dropout=0.0, threshold=48) for n in (67, 100)]
    return rows


SMALL_ROSTERS: tuple[dict[str, Any], ...] = (
    {"neighbours": 43},
    {"neighbours": 80},
    {"threshold": 60},
    {"neighbours": 50, "threshold": 40},
)


def tolerances() -> list[list[object]]:
    """Corrupt parties, fewest survivors and tolerated losses of many jobs and rosters."""
    jobs = [
        Job("", protocol, adversary, parties=n, corrupt=corrupt, dropout=dropout, min_parties=least)
        for protocol in ("plain", "secagg", "secagg+", "fssa", "pss", "flashe", "mpc3")
        for adversary in ("semi-honest", "active")
        for n, rosters in TOLERANCE_ROSTERS.items()
        for corrupt, dropout in ((0.0, 0.0), (0.1, 0.1), (0.07, 0.29), (0.2, 0.45))
        for least in (0, n - 1)
    ]
    return [
        [
            *(roster, job.parties, job.min_parties, job.protocol, job.adversary, job.corrupt, job.dropout),
            [job.corrupt_parties(), job.least_survivors(), job.losses_among(roster)],
        ]
        for job in jobs
        for roster in TOLERANCE_ROSTERS[job.parties]
    ]


TOLERANCE_ROSTERS = {3: (3, 2), 10: (10, 9, 7, 4), 100: (100, 99, 70, 12)}


def graph(n: int, neighbours: int, label: str) -> dict[str, object]:
    """A graph for one context."""
    context = sha256(label.encode()).digest()
    return {
        "parties": n,
        "neighbours": neighbours,
        "context": context.hex(),
        "lists": neighbour_lists(n, neighbours, context),
        "witnesses": witnesses(n, neighbours, context),
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``graph.json``."""
    return {
        "columns": [*COLUMNS, "found or refused"],
        "parameters": table(),
        "tolerances": tolerances(),
        "graphs": [
            graph(2, 1, "pair"),
            graph(3, 2, "triangle"),
            graph(8, 5, "odd degree"),
            graph(9, 4, "even degree"),
            graph(9, 8, "complete"),
            graph(100, 16, "hundred"),
            graph(40, 21, "forty"),
        ],
    }
