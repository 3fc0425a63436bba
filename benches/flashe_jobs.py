"""Jobs of FLASHE over real processes and mutual TLS, in turns with those of ``plain``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benches import rounds
from benches.he.schemes import TERMS
from benches.rounds import OnText, RoundCost
from benches.rows import Row, number
from blindsum.options import Flashe
from blindsum.spec import JobSpec
from blindsum.tables import Protocol

PARTIES, DIM = TERMS, 1_000_000
DENSITIES = (0.01, 0.05, 0.1, 0.5)


@dataclass(frozen=True)
class JobCost:
    """A job, beside others of the same size in the same run.

    Attributes
    ----------
    density : float
        Part of the coordinates that a party sends.
    cost : RoundCost
        What a round costs.
    """

    density: float
    cost: RoundCost


def beside_plain(
    on_text: OnText, parties: int = PARTIES, dim: int = DIM, count: int = 20, times: int = 3
) -> list[Row]:
    """Rounds over processes and mutual TLS, in turns with those of ``plain``.

    Parameters
    ----------
    on_text
        Called with news.
    parties, dim
        Size of the jobs.
    count, times
        Rounds of a job that count, and jobs of each protocol: the fastest round of all is taken.
    """
    specs = [_spec(protocol, protocol, parties, dim, count) for protocol in ("plain", "flashe")]
    plain, encrypted = rounds.measure_in_turns(specs, times, on_text)
    note = (
        f"fastest of {times * count} rounds each, {number(1000 * encrypted.fastest)} and "
        f"{number(1000 * plain.fastest)} ms; TLS and HTTP/2 included in bytes"
    )
    title = f"a round ÷ one of plain, {parties} processes × {dim:,}, mutual TLS"
    return [
        Row(f"{title}: wall", "", encrypted.fastest / plain.fastest, 1.05, note=note),
        Row(f"{title}: bytes up", "", encrypted.up_bytes / plain.up_bytes, 1.005),
    ]


def sparse_jobs(
    on_text: OnText,
    parties: int = PARTIES,
    dim: int = DIM,
    densities: Sequence[float] = DENSITIES,
    count: int = 10,
    times: int = 2,
) -> list[JobCost]:
    """Sparse rounds in turns with dense ones and with those of ``plain``, which come first.

    Parameters
    ----------
    on_text
        Called with news.
    parties, dim
        Size of the jobs. Every party has an update of its own, at random, so that the sets of coordinates
        which they send overlap by chance only.
    densities
        Of the sparse jobs.
    count, times
        Rounds of a job that count, and runs of each job: the one with the fastest round is taken.
    """
    specs = [_spec(protocol, protocol, parties, dim, count) for protocol in ("plain", "flashe")]
    specs += [
        _spec(f"flashe-{density:g}", Flashe(density=density), parties, dim, count) for density in densities
    ]
    costs = rounds.measure_in_turns(specs, times, on_text)
    every = [1.0, 1.0, *densities]
    return [JobCost(density, cost) for density, cost in zip(every, costs, strict=True)]


def _spec(job: str, protocol: str | Protocol, parties: int, dim: int, count: int) -> JobSpec:
    """A job with one round to warm up, patient with processes that share few cores."""
    return JobSpec(
        job=job,
        protocol=protocol,
        parties=parties,
        dim=dim,
        rounds=count + 1,
        model_update="none",
        join_deadline=60.0 + parties,
        input_deadline=120.0,
        stage_deadline=120.0,
    )
