"""The tables of ``blindsum bench flower``, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable

from benches.flashe_page import Table
from benches.flower import LOSS_NODES, PEER, TARGET, Cost, Loss, Measured
from benches.rows import HEADER, number
from blindsum.cli.console import bytes_text


def tables(found: Measured) -> list[Table]:
    """All that there is to show; what was not measured is left out."""
    rows = [row.cells for row in found.rows]
    note = (
        f"A round must take at most {TARGET} times as long as one of plain FedAvg in the same run. A ratio "
        "below 1 is a target that is missed. Nodes train nothing: their updates are there at once."
    )
    made = [Table("Targets", HEADER, rows, note)]
    for where in found.settings.where:
        costs = [cost for cost in found.costs if cost.where == where]
        made.append(_costs(where, costs, found))
    made.append(_losses(found))
    return [table for table in made if table.rows]


def _costs(where: str, costs: list[Cost], found: Measured) -> Table:
    settings = found.settings
    rows = [
        [
            f"{cost.dim:,}, {cost.way}",
            " ".join("no sum" if seconds is None else f"{seconds:.2f}" for seconds in cost.seconds),
            _text(cost.median, "{:.2f}".format),
            _text(cost.ratio(found.plain(cost)), number),
            *(["" if count is None else bytes_text(count) for count in (cost.up, cost.down)]),
            bytes_text(cost.server_memory),
            bytes_text(cost.node_memory),
            f"{cost.deviation:.1e}",
        ]
        for cost in costs
    ]
    lost = [f"{cost.dim:,}, {cost.way}: {reason}." for cost in costs for reason in cost.reasons]
    header = [
        "coordinates",
        "rounds in order, s",
        "median, s",
        "÷ plain",
        "up per node",
        "down per node",
        "memory of the ServerApp",
        "of a ClientApp",
        "deviation",
    ]
    first = (
        "In the first round of a run processes start; it is not in the median."
        if settings.rounds > 1
        else "The first round of a run, in which processes start."
    )
    notes = {
        "deployment": (
            f"A SuperLink and {settings.nodes} SuperNodes as processes on 127.0.0.1, over TLS. {first} Bytes "
            "are all that a node sends and receives in a round, with TLS and Flower's questions for "
            "messages, over both ports; relays count them, which all rounds go through."
        ),
        "simulation": (
            f"A SuperLink that simulates {settings.nodes} SuperNodes by Ray. {first} Blindsum's protocol "
            "runs in the ServerApp's process there; nothing goes over a network, and no bytes are counted."
        ),
    }
    note = " ".join([notes[where], *lost])
    return Table(f"A {where}", header, rows, note, f"flower-{where}.csv", rows)


def _text(measured: float | None, form: Callable[[float], str]) -> str:
    return "" if measured is None else form(measured)


def _losses(found: Measured) -> Table:
    rows = [
        [f"{loss.where}, {loss.way}", loss.stage.replace("_", " "), _what(loss), f"{loss.seconds:.2f}"]
        for loss in found.losses
    ]
    nodes = min(found.settings.nodes, LOSS_NODES)
    note = (
        f"{nodes} nodes × {found.settings.dims[0]:,} coordinates, a run for each way. One "
        "node is lost in each round but the first, in another stage. It replies with an error, except where "
        "it is killed: then its process ends in training, and Flower notices that a minute later. "
        f"Stages of {PEER} have the names that it gives them, and it has reconstruction_threshold = 0.5."
    )
    return Table("A node is lost", ["", "where", "sum of", "s"], rows, note, "flower-losses.csv", rows)


def _what(loss: Loss) -> str:
    return f"{loss.survivors} nodes" if loss.survivors else "none: the round is lost"
