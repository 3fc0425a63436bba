"""What a round of three servers costs: large cases in a process of their own, with its own memory."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from multiprocessing import get_context
from typing import Any

import blindsum as bs
from blindsum.simulation_result import SimulationResult

ADVERSARIES = ("semi-honest", "active")
RULES = (
    *("fedavg", "weighted", "clipped", "fltrust", "krum", "multi-krum", "cosine"),
    *("median", "trimmed-mean"),
)
GATED = ("clipped", "fltrust", "krum", "multi-krum", "cosine")
"""Rules in which the range gate throws out vectors that are too long."""
BITS, FEWEST_BITS = 16, 8
LARGE = 400_000
"""From so many numbers of all parties on, a case has a process of its own."""


@dataclass(frozen=True)
class Case:
    """One round of `mpc3`.

    Attributes
    ----------
    rule : str
        What the servers compute.
    adversary : str
        ``"semi-honest"`` or ``"active"``.
    parties, dim : int
        n and D.
    delay_ms : float
        What every message takes in virtual time.
    """

    rule: str
    adversary: str
    parties: int
    dim: int
    delay_ms: float = 0.0

    @property
    def bits(self) -> int:
        """Bits of a value: 16, or as many as the rule takes of vectors as long as these."""
        return self._job[1]

    @property
    def spec(self) -> bs.JobSpec:
        """The job.

        Raises
        ------
        blindsum.SpecError
            There is no such job.
        """
        return self._job[0]

    @property
    def is_large(self) -> bool:
        """Whether it has a process of its own."""
        return self.parties * self.dim >= LARGE

    @property
    def refusal(self) -> str | None:
        """Why there is no such job, where there is none."""
        try:
            _ = self.spec
        except bs.SpecError as error:
            return f"{error.field}: {error.rule}"
        return None

    @cached_property
    def _job(self) -> tuple[bs.JobSpec, int]:
        for bits in range(BITS, FEWEST_BITS, -1):
            with suppress(bs.SpecError):
                return self._with(bits), bits
        return self._with(FEWEST_BITS), FEWEST_BITS

    def _with(self, bits: int) -> bs.JobSpec:
        # Random vectors are about √(D/3) long: `clipped` shortens all of them.
        norm = math.sqrt(self.dim) / 4 if self.rule == "clipped" else 0.0
        weight = 100 if self.rule == "weighted" else 1
        return bs.JobSpec(
            protocol=bs.Mpc3(rule=self.rule, norm=norm),
            parties=self.parties,
            dim=self.dim,
            adversary=self.adversary,
            encoding=bs.Quantised(bits=bits, max_weight=weight),
        )


@dataclass(frozen=True)
class Cost:
    """What a case costs: times are CPU time, and medians of the repetitions.

    Attributes
    ----------
    runs : int
        Repetitions.
    upload_ms, result_ms : float
        Work of the median party: until its parts are sealed; and with the result.
    take_ms, open_ms : float
        Work of the coordinator: with the uploads as they come; and from their end to the result.
    slowest_ms, servers_ms : float
        Work of the server that has most, and of all three.
    up_bytes, down_bytes : int
        That a party sends and is sent.
    received_bytes, sent_bytes : tuple of int
        Of the coordinator, the second and the third server.
    rounds : int
        Rounds of letters between servers.
    virtual_s : float
        What the round takes where messages take their delay and work takes nothing.
    bound, error : float or None
        How far a coordinate may be from the rule in the clear, and how far it was; there is no bound
        where nothing is rounded. Coordinates are from -1 to 1.
    peak_bytes : int
        Memory of the process with all parties and servers; 0 where the case had none of its own.
    """

    case: Case
    runs: int
    upload_ms: float
    result_ms: float
    take_ms: float
    open_ms: float
    slowest_ms: float
    servers_ms: float
    up_bytes: int
    down_bytes: int
    received_bytes: tuple[int, ...]
    sent_bytes: tuple[int, ...]
    rounds: int
    virtual_s: float
    bound: float | None
    error: float | None
    peak_bytes: int

    @property
    def path_ms(self) -> float:
        """Work that is done one after the other: of a party, of the slowest server, and of a party again."""
        return self.upload_ms + self.slowest_ms + self.result_ms

    @property
    def all_ms(self) -> float:
        """Work of all parties and servers together."""
        return self.case.parties * (self.upload_ms + self.result_ms) + self.servers_ms

    @property
    def between_bytes(self) -> int:
        """What the server that sends most sends the other two."""
        others = self.sent_bytes[0] - self.case.parties * self.down_bytes
        return max(others, *self.sent_bytes[1:])

    @property
    def row(self) -> dict[str, Any]:
        """For a CSV file."""
        flat = {name: value for name, value in asdict(self).items() if name not in ("case", *_BY_SERVER)}
        flat |= {"bound": self.bound or 0.0, "error": self.error or 0.0}
        names = ("coordinator", "second", "third")
        by_server = {
            f"{name}_{quantity}": value
            for quantity in _BY_SERVER
            for name, value in zip(names, getattr(self, quantity), strict=True)
        }
        more = {"path_ms": self.path_ms, "all_ms": self.all_ms, "between_bytes": self.between_bytes}
        return {**asdict(self.case), "bits": self.case.bits, **flat, **by_server, **more}


_BY_SERVER = ("received_bytes", "sent_bytes")


def simulated(case: Case, runs: int) -> Cost:
    """Simulate a case in this process.

    Raises
    ------
    ArithmeticError
        There was no result, or a wrong one.
    """
    found = []
    for seed in range(runs):
        result = bs.simulate(case.spec, latency=case.delay_ms / 1000, seed=seed)
        if not result.exact:
            raise ArithmeticError(f"{case}: {result.fault or 'a wrong result'}")
        found.append(result)
    return cost(case, found)


def cost(case: Case, found: Sequence[SimulationResult]) -> Cost:
    """What the repetitions of a case say together."""

    def middle(quantity: Callable[[SimulationResult], float]) -> float:
        return statistics.median(quantity(result) for result in found)

    def stage(name: str) -> Callable[[SimulationResult], Any]:
        return lambda result: next(stage for stage in result.stages if stage.name == name)

    upload, opening, told = stage("upload"), stage("open"), stage("result")
    first = found[0]
    return Cost(
        case=case,
        runs=len(found),
        upload_ms=middle(lambda result: upload(result).client_ms.median),
        result_ms=middle(lambda result: told(result).client_ms.median),
        take_ms=middle(lambda result: upload(result).server_ms),
        open_ms=middle(lambda result: opening(result).server_ms),
        slowest_ms=middle(lambda result: max(server.server_ms for server in result.servers)),
        servers_ms=middle(lambda result: sum(server.server_ms for server in result.servers)),
        up_bytes=first.up_bytes_per_party,
        down_bytes=first.down_bytes_per_party,
        received_bytes=tuple(server.received_bytes for server in first.servers),
        sent_bytes=tuple(server.sent_bytes for server in first.servers),
        rounds=max(server.server_rounds for server in first.servers),
        virtual_s=first.virtual_seconds,
        bound=first.error_bound,
        error=first.max_abs_error,
        peak_bytes=max(result.process_peak_bytes for result in found) if case.is_large else 0,
    )


def measured(case: Case, runs: int) -> Cost:
    """Simulate a case so many times, a large one in a process of its own."""
    if not case.is_large:
        return simulated(case, runs)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(simulated, case, runs).result()


def converted_ms(dim: int) -> float:
    """Work of a party that converts its values, packs and sends them, without sharing: in `plain`.

    Words are as long as in a sum of 16 parties; four of them do the work.
    """
    spec = bs.JobSpec(protocol="plain", parties=16, dim=dim, dropout=0.75)
    result = bs.simulate(spec, drop=0.75)
    if not result.exact:
        raise ArithmeticError(f"plain, D = {dim}: {result.fault or 'a wrong sum'}")
    return result.stages[0].client_ms.median
