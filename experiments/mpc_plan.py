"""What the tables of three servers are made of: cases, by table, and how often each is run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from experiments import thesis
from experiments.three_servers import ADVERSARIES, RULES, Case

SHORT_RUNS = 3
SHORT_WORK = 7e8
WORK = {"fedavg": 1, "weighted": 1, "median": 20_000, "trimmed-mean": 20_000}
"""About how much more work a coordinate is than in a sum; ``OTHERS_WORK`` where nothing is said."""
OTHERS_WORK = 40
PEAK = {
    ("fedavg", "semi-honest"): 10,
    ("fedavg", "active"): 10,
    ("weighted", "semi-honest"): 10,
    ("weighted", "active"): 10,
    ("median", "semi-honest"): 900,
    ("median", "active"): 30_000,
    ("trimmed-mean", "semi-honest"): 2_700,
    ("trimmed-mean", "active"): 38_000,
}
"""Bytes for each coordinate of each party, as shorter cases took; ``OTHERS_PEAK`` where nothing is said."""
OTHERS_PEAK = 75
RESERVE = 6 * 2**30
"""Memory that is left to others, bytes."""


@dataclass(frozen=True)
class Sizes:
    """How large everything is.

    Attributes
    ----------
    parties : int
        Clients, where their number is fixed.
    models : dict of str to int
        Parameters of models.
    clients : tuple of int
        Numbers of clients.
    short, middle, long : int
        Coordinates: of rules that are hard for long vectors, and of two tables.
    delays_ms : tuple of int
        Delays of messages.
    """

    parties: int
    models: dict[str, int]
    clients: tuple[int, ...]
    short: int
    middle: int
    long: int
    delays_ms: tuple[int, ...]


FULL = Sizes(
    parties=thesis.CLIENTS,
    models=thesis.MODELS,
    clients=(4, 8, 16, 32, 64),
    short=1_000,
    middle=100_000,
    long=1_000_000,
    delays_ms=(0, 10, 20, 25, 40, 50, 60, 80, 100),
)
QUICK = Sizes(
    parties=5,
    models={thesis.BASELINE: 900},
    clients=(4, 5),
    short=20,
    middle=200,
    long=400,
    delays_ms=(0, 20),
)


def phases(sizes: Sizes) -> list[Case]:
    """Tables 5.2 to 5.15: a sum, by model."""
    return [
        Case("fedavg", adversary, sizes.parties, dim)
        for dim, adversary in product(sizes.models.values(), ADVERSARIES)
    ]


def trusted(sizes: Sizes) -> list[Case]:
    """Tables 5.16 and 5.17, with FLTrust."""
    models = list(sizes.models.values())
    dims = [models[0], sizes.middle, sizes.long, *models[-2:]]
    return [Case("fltrust", adversary, sizes.parties, dim) for dim, adversary in product(dims, ADVERSARIES)]


def scaled_dims(sizes: Sizes) -> dict[str, int]:
    """By rule, the coordinates where clients vary."""
    return {"fedavg": sizes.middle, "fltrust": sizes.middle, "krum": sizes.short, "median": sizes.short // 10}


def clients(sizes: Sizes) -> list[Case]:
    """Figures 5.1 and 5.2."""
    dims = scaled_dims(sizes).items()
    return [
        Case(rule, adversary, parties, dim)
        for (rule, dim), adversary, parties in product(dims, ADVERSARIES, sizes.clients)
    ]


def parameters(sizes: Sizes) -> list[Case]:
    """Figure 5.3."""
    long = (sizes.short, 10 * sizes.short, sizes.middle, sizes.long)
    short = (sizes.short // 10, sizes.short, 10 * sizes.short)
    dims = {"fedavg": long, "fltrust": long, "krum": short, "median": short}
    return [
        Case(rule, adversary, sizes.parties, dim)
        for rule, adversary in product(dims, ADVERSARIES)
        for dim in dims[rule]
        if not (rule == "median" and adversary == "active" and dim > sizes.short)
    ]


def delays(sizes: Sizes) -> list[Case]:
    """Tables 5.18 to 5.20. Delays are the same whatever the length."""
    return [
        Case(rule, adversary, sizes.parties, sizes.short, float(delay))
        for rule, adversary, delay in product(("fedavg", "fltrust"), ADVERSARIES, sizes.delays_ms)
    ]


def rules(sizes: Sizes) -> list[Case]:
    """All rules side by side."""
    short = [
        Case(rule, adversary, sizes.parties, sizes.short) for rule, adversary in product(RULES, ADVERSARIES)
    ]
    return short + [
        Case(rule, adversary, sizes.parties, sizes.middle) for rule, adversary in product(RULES, ADVERSARIES)
    ]


def everything(sizes: Sizes) -> list[Case]:
    """All cases, once each, the largest ones first while nothing else has taken memory."""
    parts = (phases, trusted, clients, parameters, delays, rules)
    return sorted({case for part in parts for case in part(sizes)}, key=peak, reverse=True)


def peak(case: Case) -> float:
    """About how much memory a case takes, bytes."""
    return case.parties * case.dim * PEAK.get((case.rule, case.adversary), OTHERS_PEAK)


def runs(case: Case) -> int:
    """How often a case is run."""
    work = case.parties * case.dim * WORK.get(case.rule, OTHERS_WORK)
    return SHORT_RUNS if work <= SHORT_WORK and not case.delay_ms else 1


def hindrance(case: Case) -> str | None:
    """Why a case cannot be run here and now, if it cannot."""
    if case.refusal is not None:
        return case.refusal
    memory = available()
    if not case.is_large or peak(case) + RESERVE <= memory:
        return None
    needed, kept, free = (count / 2**30 for count in (peak(case), RESERVE, memory))
    return f"needs about {needed:.0f} GiB, and {kept:.0f} more for other programs; {free:.0f} were free"


def available() -> int:
    """Memory that a new process can have, bytes."""
    words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(words["MemAvailable"].split()[0]) * 1024
