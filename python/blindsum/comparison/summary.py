"""What a comparison says, for people: medians of the runs of each combination, as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from blindsum.cli.console import bytes_text, markdown_table, ms_text, plain_table
from blindsum.comparison.columns import Row
from blindsum.comparison.grid import AXES, Grid, dropped
from blindsum.display import html_table
from blindsum.texts import counted

AXIS_NAMES = {
    "protocol": "protocol",
    "parties": "parties",
    "dim": "dim",
    "drop": "drop",
    "bits": "bits",
    "latency": "latency, s",
}

MAX_SHOWN = 200
"""Lines of a table in a notebook; more are in the files."""


def _seconds(value: float) -> str:
    return f"{value:.3g}"


def _count(value: float) -> str:
    return f"{value:g}"


MEASURES = (
    ("survivors", "survivors", _count),
    ("party_ms", "party ms", ms_text),
    ("coordinator_ms", "coordinator ms", ms_text),
    ("up_bytes_per_party", "up per party", bytes_text),
    ("down_bytes_per_party", "down per party", bytes_text),
    ("virtual_seconds", "virtual s", _seconds),
    ("peak_bytes", "peak memory", bytes_text),
)
"""Columns of the table that are shown, with their headers."""

ORIGINS = {"version": "Version", "build": "Build", "machine": "Machine", "jobs": "Runs side by side"}
"""Columns that are the same in all rows, unless the comparison went on elsewhere."""


def combinations(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each combination of the axes, in order."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in AXES), []).append(row)
    return found


def median(rows: Iterable[Row], name: str) -> float | None:
    """The median of a column over the rows that have it; ``None`` if none has."""
    values = [row[name] for row in rows if row[name] is not None]
    return statistics.median(values) if values else None


def lines(grid: Grid, rows: Iterable[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the table: the axes that vary, how runs ended, and medians of those with a sum."""
    axes = [name for name in AXES if name == "protocol" or name in grid.varying()]
    header = [
        *(AXIS_NAMES[name] for name in axes),
        "outcome",
        "dropped",
        *(title for _, title, _ in MEASURES),
    ]
    table = []
    for values, same in combinations(rows).items():
        of_axes = [str(value) for name, value in zip(AXES, values, strict=True) if name in axes]
        summed = [row for row in same if row["outcome"] == "sum"]
        medians = [(median(summed, name), text) for name, _, text in MEASURES]
        cells = ["" if value is None else text(value) for value, text in medians]
        ran = any(row["outcome"] != "impossible" for row in same)
        gone = str(dropped(same[0]["parties"], same[0]["drop"])) if ran else ""
        table.append([*of_axes, outcome(same), gone, *cells])
    return header, table


def outcome(rows: Sequence[Row]) -> str:
    """How runs of one combination ended: ``sum``, and what happened more or less often."""
    kinds = [_kind(row) for row in rows]
    if len(set(kinds)) == 1:
        return kinds[0]
    return ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds))


def _kind(row: Row) -> str:
    return "WRONG sum" if row["outcome"] == "sum" and not row["exact"] else str(row["outcome"])


def head(grid: Grid, rows: Sequence[Row]) -> list[str]:
    """What is the same in all runs, how they ended, and where their numbers come from."""
    same = {name: getattr(grid, name)[0] for name in AXES if name not in grid.varying()}
    fixed = [f"{AXIS_NAMES[name]} {value}" for name, value in same.items() if value is not None]
    fixed += [f"{name} {value}" for name, value in grid.settings]
    count = f"{len(rows)} of {counted(len(grid), 'run')}"
    runs = f"{count}, {grid.repeat} of each combination, seeds from {grid.seed}"
    kinds = [_kind(row) for row in rows]
    counts = ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds))
    found = [f"Runs: {runs}. They ended so: {counts}."]
    if fixed:
        found.append(f"In all of them: {', '.join(fixed)}.")
    for name, what in ORIGINS.items():
        values = list(dict.fromkeys(str(row[name]) for row in rows))
        several = " (several: compare times within each only)" if len(values) > 1 else ""
        found.append(f"{what}: {'; '.join(values)}{several}.")
    dates = sorted(row["date"] for row in rows)
    return [*found, f"Begun: {dates[0]} to {dates[-1]}."] if dates else found


def rounded_away(rows: Iterable[Row]) -> list[str]:
    """A line for each fraction of parties that is less than one party: nobody dropped out there."""
    found = {
        (row["drop"], row["parties"]): True
        for row in rows
        if row["outcome"] != "impossible" and row["drop"] > 0 and dropped(row["parties"], row["drop"]) == 0
    }
    return [
        f"drop {drop:g} of {counted(parties, 'party')} is 0 parties, rounded down: nobody dropped out"
        for drop, parties in found
    ]


def without_sum(rows: Iterable[Row]) -> list[str]:
    """A line for each reason why runs have no sum, with the runs."""
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        if row["outcome"] != "sum":
            reasons.setdefault(f"{row['outcome']}: {row['reason']}", []).append(row)
    return [f"{reason} ({_runs(same)})" for reason, same in reasons.items()]


def _runs(rows: Sequence[Row]) -> str:
    numbers = ", ".join(str(row["run"]) for row in rows[:5])
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    protocols = ", ".join(dict.fromkeys(f"`{row['protocol']}`" for row in rows))
    return f"{protocols}; run{'s' if len(rows) > 1 else ''} {numbers}{more}"


def markdown(grid: Grid, rows: Sequence[Row]) -> str:
    """The summary as a page in Markdown."""
    header, table = lines(grid, rows)
    parts = [
        f"# Comparison of {', '.join(f'`{name}`' for name in grid.protocol)}",
        "\n".join(f"* {line}" for line in head(grid, rows)),
        markdown_table(header, table),
        "Numbers are medians of the runs of a line that have a sum. ms is CPU work; virtual s is the "
        "simulated network, without work; peak memory is that of the run's own process. To repeat a run, "
        "give its number: `blindsum simulate --repeat runs.csv:NUMBER`.",
    ]
    if notes := rounded_away(rows):
        parts.append("\n".join(f"* {line}" for line in notes))
    if reasons := without_sum(rows):
        parts += ["## Runs without a sum", "\n".join(f"* {line}" for line in reasons)]
    return "\n\n".join(parts) + "\n"


def text(grid: Grid, rows: Sequence[Row]) -> str:
    """The summary as plain text."""
    header, table = lines(grid, rows)
    return "\n".join(
        [plain_table("medians of each combination", header, table), *rounded_away(rows), *without_sum(rows)]
    )


def html(grid: Grid, rows: Sequence[Row]) -> str:
    """The summary for a notebook."""
    header, table = lines(grid, rows)
    notes = [*head(grid, rows)[:2], *rounded_away(rows), *without_sum(rows)]
    if len(table) > MAX_SHOWN:
        notes.append(f"{len(table) - MAX_SHOWN} more lines are in to_markdown().")
    return html_table("Comparison", header, table[:MAX_SHOWN], notes)
