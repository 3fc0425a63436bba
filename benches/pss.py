"""fssa and pss against their targets, and what they cost by size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benches import kernels, rounds, simulated
from benches.rounds import OnText
from benches.rows import Row, number
from blindsum.spec import JobSpec

PEER = "tfhe-ntt"
INPUTS, BLOCK, SHARES = 80_000, 50, 729
PARTIES, DIM = 100, 1_000
COST_DIMS = (10_000, 100_000, 1_000_000)

Work = Callable[[OnText], None]


@dataclass(frozen=True)
class Cost:
    """What one round costs, parties and server in one process.

    Attributes
    ----------
    protocol, adversary : str
        Of the job.
    parties, dim : int
        Size of the problem.
    client_ms, server_ms : float
        Work of one party (the median) and of the server, least of the runs.
    up_bytes, down_bytes : int
        Of one party.
    peak_bytes : int
        Memory of the process: all parties, their updates and the server.
    """

    protocol: str
    adversary: str
    parties: int
    dim: int
    client_ms: float
    server_ms: float
    up_bytes: int
    down_bytes: int
    peak_bytes: int

    HEADER = ("job", "D", "one client", "server", "up", "down", "up per parameter", "peak memory")

    @property
    def cells(self) -> list[str]:
        """The row of a table."""
        return [
            f"`{self.protocol}`, {self.adversary}",
            f"{self.dim:,}",
            f"{number(self.client_ms)} ms",
            f"{number(self.server_ms)} ms",
            f"{number(self.up_bytes / 2**20)} MiB",
            f"{number(self.down_bytes / 2**20)} MiB",
            f"{number(self.up_bytes / self.dim)} B",
            f"{number(self.peak_bytes / 2**20)} MiB",
        ]


@dataclass
class Measured:
    """What was found so far."""

    rows: list[Row] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "costs": [asdict(cost) for cost in self.costs],
        }


def steps(found: Measured) -> Iterator[tuple[str, Work]]:
    """What is measured, in order: a name for the progress, and the work.

    Parameters
    ----------
    found
        What the work adds to. Work is called with what to call with news of it.
    """
    yield "sharing (builds a bench)", lambda _: found.rows.extend(_sharing())
    yield "one process", lambda _: found.rows.extend(_one_process())
    yield f"{PARTIES + 1} processes", lambda on_text: found.rows.append(_processes(on_text))
    for protocol in ("fssa", "pss"):
        for adversary in ("semi-honest", "active"):
            for dim in COST_DIMS:
                yield f"{protocol}, D = {dim}", _adds_cost(found, protocol, adversary, dim)


def _adds_cost(found: Measured, protocol: str, adversary: str, dim: int) -> Work:
    return lambda _: found.costs.append(cost(protocol, adversary, PARTIES, dim))


def _sharing() -> list[Row]:
    title = f"share {INPUTS:,} inputs, blocks of {BLOCK}, {SHARES} shares, one thread"
    if not kernels.available():
        return [Row(title, "ms", None, 1.0, note=kernels.NEEDS)]
    return sharing_rows(title, kernels.sharing())


def sharing_rows(title: str, timings: list[kernels.Timing]) -> list[Row]:
    """Rows of the sharing and its baselines.

    Parameters
    ----------
    title
        What is shared.
    timings
        Of the bench of packed sharing.
    """

    def ms(work: str, backend: str) -> float | None:
        return kernels.pick(timings, work, backend, INPUTS, BLOCK)

    ours = next(one.backend for one in timings if one.work == "share")
    peer = ms("transforms", PEER)
    whole = "words in, packed columns out; 14 random elements a block are drawn from AES-256-CTR"
    rows = [Row(title, "ms", ms("share", ours), 1.0, note=whole)]
    for backend in ("ifma", "portable", "scalar"):
        name = f"its transforms alone, {backend}"
        rows.append(Row(name, "ms", ms("transforms", backend), None, peer=peer))
    for radix in ("radix-2", "radix-3"):
        name = f"the thesis' {radix} transforms, plain compiled code"
        rows.append(Row(name, "ms", ms(radix, "thesis"), None))
    return rows


def _one_process() -> list[Row]:
    threads = os.cpu_count() or 1
    rows = []
    for adversary, target in (("semi-honest", 0.5), ("active", None)):
        spec = JobSpec(protocol="pss", parties=PARTIES, dim=DIM, adversary=adversary)
        note = f"wall time with {threads} threads, random updates included"
        rows.append(Row(f"{_title(spec)}, one process", "s", wall(spec, threads), target, note=note))
    for adversary, trips in (("semi-honest", 3), ("active", None)):
        spec = JobSpec(protocol="pss", parties=PARTIES, dim=DIM, adversary=adversary)
        rows.append(Row(f"pss, {adversary}: client round trips", "", len(spec.stages), trips))
    return rows


def _title(spec: JobSpec) -> str:
    return f"{spec.protocol.name}, {spec.adversary}, {spec.parties} parties × {spec.dim:,} inputs"


def wall(spec: JobSpec, threads: int, times: int = 7) -> float:
    """Least seconds of a simulated round, by the clock on the wall."""
    from blindsum.simulation import simulate

    least = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        result = simulate(spec, threads=threads)
        least = min(least, time.perf_counter() - begin)
        if not result.exact:
            raise ArithmeticError(f"{_title(spec)}: {result.fault or 'a wrong sum'}")
    return least


def _processes(on_text: OnText) -> Row:
    """Rounds of connected processes: what it takes them to start is not in it."""
    spec = JobSpec(
        protocol="pss",
        parties=PARTIES,
        dim=DIM,
        adversary="semi-honest",
        rounds=8,
        model_update="none",
        join_deadline=60.0 + 3 * PARTIES,
        input_deadline=120.0,
        stage_deadline=120.0,
    )
    found = rounds.measure(spec, lambda status: on_text(f"{status['rounds_done']} of 8 rounds"))
    note = (
        f"fastest of {found.rounds} rounds, from the offer of a round to its end (median "
        f"{number(found.seconds)} s); interpreters and connections are up before"
    )
    title = f"{_title(spec)}, {PARTIES + 1} processes, mutual TLS"
    return Row(title, "s", found.fastest, 2.0, note=note)


def cost(protocol: str, adversary: str, parties: int, dim: int, times: int = 3) -> Cost:
    """Simulate rounds with the default fractions of corrupt and dropped parties, a tenth each."""
    fields = [f"adversary={adversary}"]
    reports = [simulated.report(protocol, parties, dim, fields, "--drop", "0.1") for _ in range(times)]
    return Cost(
        protocol=protocol,
        adversary=adversary,
        parties=parties,
        dim=dim,
        client_ms=min(report["client_ms"]["median"] for report in reports),
        server_ms=min(report["server_ms"] for report in reports),
        up_bytes=reports[0]["up_bytes_per_party"],
        down_bytes=reports[0]["down_bytes_per_party"],
        peak_bytes=min(report["peak_rss_bytes"] for report in reports),
    )
