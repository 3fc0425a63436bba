"""What a round costs: work of a party and of the server, and bytes, from the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import blindsum as bs
from blindsum.cli import console

LONG = 100_000
"""Coordinates of the longest vector that is simulated several times."""


@dataclass(frozen=True)
class Case:
    """One point of an experiment.

    Attributes
    ----------
    protocol : str
        The protocol; semi-honest, 16-bit values.
    parties, dim : int
        n and D.
    corrupt, dropout : float
        Fractions that the parameters are made for. So many drop out: after the keys, before the vector.
    suite : str
        Key agreement: ``"x25519"`` or ``"p256"``.
    """

    protocol: str
    parties: int
    dim: int
    corrupt: float
    dropout: float
    suite: str = "x25519"

    @property
    def spec(self) -> bs.JobSpec:
        """The job."""
        return bs.JobSpec(
            protocol=self.protocol,
            parties=self.parties,
            dim=self.dim,
            adversary="semi-honest",
            corrupt=self.corrupt,
            dropout=self.dropout,
            suite=self.suite,
        )

    @property
    def lost(self) -> int:
        """Parties that drop out: whole ones, as the job counts them."""
        return self.spec.dropouts


@dataclass(frozen=True)
class Cost:
    """What a case costs, least of its repetitions.

    Attributes
    ----------
    client_ms : float
        CPU work of one party, the median of the parties.
    server_ms : float
        CPU work of the server.
    up_bytes, down_bytes : int
        That a party sends and is sent.
    """

    case: Case
    client_ms: float
    server_ms: float
    up_bytes: int
    down_bytes: int

    @property
    def total_ms(self) -> float:
        """Work of all who stay, and of the server."""
        return (self.case.parties - self.case.lost) * self.client_ms + self.server_ms

    @property
    def bytes(self) -> int:
        """Both ways."""
        return self.up_bytes + self.down_bytes

    @property
    def row(self) -> dict[str, Any]:
        """For a CSV file."""
        costs = {name: value for name, value in asdict(self).items() if name != "case"}
        return {**asdict(self.case), **costs, "total_ms": self.total_ms}


def cost(case: Case, repetitions: int) -> Cost:
    """Simulate a case.

    Raises
    ------
    ArithmeticError
        There was no sum, or a wrong one.
    """
    results = [bs.simulate(case.spec, drop=case.dropout, seed=seed) for seed in range(repetitions)]
    for result in results:
        if not result.exact:
            raise ArithmeticError(f"{case}: {result.fault or 'a wrong sum'}")
    return Cost(
        case=case,
        client_ms=min(result.client_ms.median for result in results),
        server_ms=min(result.server_ms for result in results),
        up_bytes=results[0].up_bytes_per_party,
        down_bytes=results[0].down_bytes_per_party,
    )


def costs(label: str, cases: Sequence[Case], quick: bool) -> list[Cost]:
    """Simulate cases and show how far it is. Small ones are repeated more often."""
    found = []
    with console.progress(label, len(cases)) as bar:
        for done, case in enumerate(cases):
            bar.update(done, f"{case.protocol}, {case.suite}, n = {case.parties}, D = {case.dim}")
            is_long = case.parties > 200 or case.dim > LONG
            repetitions = 1 if quick or is_long else 3
            found.append(cost(case, repetitions))
    return found
