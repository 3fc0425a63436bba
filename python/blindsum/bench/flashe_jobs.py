"""Jobs of FLASHE over real processes and mutual TLS, in turns with those of ``plain``."""

from __future__ import annotations

from blindsum.bench import rounds
from blindsum.bench.he.schemes import TERMS
from blindsum.bench.rounds import OnText
from blindsum.bench.rows import Row, number
from blindsum.spec import JobSpec


def beside_plain(
    on_text: OnText, parties: int = TERMS, dim: int = 1_000_000, count: int = 20, times: int = 3
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
    fastest: dict[str, list[rounds.RoundCost]] = {"plain": [], "flashe": []}
    for _ in range(times):
        for protocol, costs in fastest.items():
            spec = JobSpec(
                protocol=protocol,
                parties=parties,
                dim=dim,
                rounds=count + 1,
                model_update="none",
                join_deadline=60.0 + parties,
                input_deadline=120.0,
                stage_deadline=120.0,
            )
            on_text(f"{protocol}, job {len(costs) + 1} of {times}")
            costs.append(rounds.measure(spec, lambda _status: None))
    plain, encrypted = (min(costs, key=lambda cost: cost.fastest) for costs in fastest.values())
    note = (
        f"fastest of {times * count} rounds each, {number(1000 * encrypted.fastest)} and "
        f"{number(1000 * plain.fastest)} ms; TLS and HTTP/2 included in bytes"
    )
    title = f"a round ÷ one of plain, {parties} processes × {dim:,}, mutual TLS"
    return [
        Row(f"{title}: wall", "", encrypted.fastest / plain.fastest, 1.05, note=note),
        Row(f"{title}: bytes up", "", encrypted.up_bytes / plain.up_bytes, 1.005),
    ]
