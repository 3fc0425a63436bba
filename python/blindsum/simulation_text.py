"""What a simulation found, for people: tables of what it cost, and lines of what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from blindsum.cli.console import bytes_text, ms_text, plain_table
from blindsum.metrics_text import metrics_text
from blindsum.options import Integers
from blindsum.texts import counted

if TYPE_CHECKING:
    from blindsum.simulation_result import KeySetupReport, ServerReport, SimulationResult

Table: TypeAlias = "tuple[str, list[str], list[list[str]]]"
"""Title, header and rows."""


def text(result: SimulationResult) -> str:
    """Everything as plain text."""
    return "\n".join(part if isinstance(part, str) else plain_table(*part) for part in parts(result))


def parts(result: SimulationResult) -> Iterator[str | Table]:
    """Tables and lines, in order."""
    setup = result.key_setup
    if setup is not None:
        yield _costs("key set-up", setup, "set-up")
        if setup.fault is None:
            yield f"{setup.holders} of {counted(result.parties, 'party')} hold the key of the job"
        else:
            yield f"the key set-up failed: {setup.fault}"
    yield _costs(size_text(result), result, "round")
    if result.servers:
        yield _servers(result.servers)
    if result.outcome == "sum":
        yield _sum(result)
        if result.metrics:
            yield f"metrics: {metrics_text(result.to_dict()['metrics'])}"
        yield from _clipping(result)
        yield from _leftovers(result)
        yield from _guarantee(result)
    else:
        yield f"no sum: {result.fault}"
    for one in result.excluded:
        if one.evidence:
            size = counted(len(one.evidence) // 2, "byte")
            yield f"party {one.party} misbehaved: {one.test}; {size} of evidence"
        else:
            yield f"party {one.party} did not answer an accusation, or was lost: {one.test}"
    if len(result.rounds) > 1 and (wrong := wrong_rounds(result)):
        yield f"rounds with a WRONG sum: {', '.join(map(str, wrong))}"
    chosen = ", ".join(f"{name} {value}" for name, value in result.spec.chosen.items())
    if chosen:
        yield f"chosen: {chosen}"
    yield f"peak memory of this process: {bytes_text(result.process_peak_bytes)}"


def size_text(result: SimulationResult) -> str:
    """The protocol and the size of the problem."""
    return f"{result.protocol}, {counted(result.parties, 'party')}, {counted(result.dim, 'coordinate')}"


def wrong_rounds(result: SimulationResult) -> list[int]:
    """Numbers of the rounds, from 1 on, whose sum is not that of the updates."""
    return [number for number, one in enumerate(result.rounds, 1) if one.outcome == "sum" and not one.exact]


def _sum(result: SimulationResult) -> str:
    error = 0.0 if result.max_abs_error is None else result.max_abs_error
    exact = "exact" if result.error_bound is None else f"as in the clear within {result.error_bound:.2e}"
    exact = exact if result.exact else "WRONG"
    # Of integers the sum is asked for; that their mean is rounded to a double is no loss of the protocol.
    is_whole = isinstance(result.spec.encoding, Integers)
    mean = "" if is_whole else f", largest error of the mean {error:.2e}"
    what = "sum" if result.error_bound is None else "result"
    return f"{what} of {counted(result.survivor_count, 'survivor')}: {exact}{mean}"


def _clipping(result: SimulationResult) -> Iterator[str]:
    """A line on what clipping cut off, where it did."""
    changed = len({*result.clipped_by_party, *result.scaled_by_party})
    if not changed:
        return
    spec = result.spec
    ways = []
    if result.scaled_by_party:
        ways.append(f"multiplied by {min(result.scaled_by_party.values()):.3g} or more")
    if result.clipped:
        ways.append(f"clipped, {counted(result.clipped, 'coordinate')}")
    what = " and ".join(ways)
    error = result.max_abs_error_unclipped
    cost = "" if error is None else f"; error of the mean against unclipped updates {error:.2e}"
    norm = getattr(spec.encoding, "max_norm", 0.0)
    bounds = f"clip = {spec.clip:g}" + (f", max_norm = {norm:g}" if norm else "")
    whose = "the update of 1 party was" if changed == 1 else f"updates of {changed} parties were"
    yield f"{whose} {what} ({bounds}){cost}"


def _guarantee(result: SimulationResult) -> Iterator[str]:
    """A line on what the noise guarantees, where there is any."""
    if (claim := result.privacy) is not None:
        yield str(claim)


def _leftovers(result: SimulationResult) -> Iterator[str]:
    """A line on what parties have not sent yet, where rounds are sparse."""
    if result.leftovers:
        norm = max(left.norm for left in result.leftovers)
        coordinates = max(left.coordinates for left in result.leftovers)
        yield f"left over at a party: norm {norm:.3g} in {counted(coordinates, 'coordinate')} at most"


def _servers(servers: Sequence[ServerReport]) -> Table:
    rows = [
        [
            server.name,
            ms_text(server.server_ms),
            bytes_text(server.received_bytes),
            bytes_text(server.sent_bytes),
            str(server.server_rounds),
        ]
        for server in servers
    ]
    return "servers", ["server", "ms", "received", "sent", "rounds between servers"], rows


def _costs(title: str, costs: SimulationResult | KeySetupReport, whole: str) -> Table:
    """A table of stages, and a row called ``whole``."""
    rows = [
        [
            stage.name,
            f"{ms_text(stage.client_ms.median)} / {ms_text(stage.client_ms.max)}",
            ms_text(stage.server_ms),
            bytes_text(stage.up_bytes.median),
            bytes_text(stage.down_bytes.median),
        ]
        for stage in costs.stages
    ]
    rows.append(
        [
            whole,
            f"{ms_text(costs.client_ms.median)} / {ms_text(costs.client_ms.max)}",
            ms_text(costs.server_ms),
            bytes_text(costs.up_bytes_per_party),
            bytes_text(costs.down_bytes_per_party),
        ]
    )
    return (
        title,
        ["stage", "party ms (median / max)", "coordinator ms", "up per party", "down per party"],
        rows,
    )
