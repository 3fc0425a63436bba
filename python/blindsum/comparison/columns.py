"""The table of a comparison: what a row has, and how rows are written and read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blindsum.errors import InputError


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes
    ----------
    name : str
        Its name.
    kind : type
        ``int``, ``float``, ``bool`` or ``str``; every cell may also be ``None``, which CSV has as empty.
    meaning : str
        What it holds, with its unit.
    repeats : bool
        Whether the same run gives the same value again.
    """

    name: str
    kind: type
    meaning: str
    repeats: bool = False


COLUMNS = (
    Column("run", int, "number of the run, from 1 on, in the order of the grid"),
    Column("protocol", str, "the protocol, with the options that were given to it"),
    Column("parties", int, "parties of the job"),
    Column("dim", int, "coordinates of an update"),
    Column("drop", float, "fraction of the parties that vanishes before the input stage"),
    Column("bits", int, "bits of a value; empty if the encoding has no such option"),
    Column("latency", float, "virtual seconds that every message takes"),
    Column("repeat", int, "which of the runs with these values it is, from 1 on"),
    Column("seed", int, "seed of every random number"),
    Column("outcome", str, "`sum`, `abort`, `impossible` or `error`", True),
    Column("reason", str, "why there is no sum", True),
    Column("survivors", int, "parties whose update is in the sum", True),
    Column("exact", bool, "whether the sum equals that of the survivors computed in the clear", True),
    Column("max_abs_error", float, "largest error of the mean, by quantisation", True),
    Column("party_ms", float, "CPU work of a party, milliseconds, median of the parties"),
    Column("party_ms_max", float, "the same of the party with the most"),
    Column("coordinator_ms", float, "CPU work of the coordinator, milliseconds"),
    Column("servers_ms", float, "CPU work of all servers together, milliseconds"),
    Column("up_bytes_per_party", int, "bytes that a party sends", True),
    Column("down_bytes_per_party", int, "bytes that a party is sent", True),
    Column("setup_party_ms", float, "like `party_ms`, of the key set-up; empty if there is none"),
    Column("setup_coordinator_ms", float, "like `coordinator_ms`, of the key set-up"),
    Column("setup_up_bytes_per_party", int, "bytes that a party sends in the key set-up", True),
    Column("setup_down_bytes_per_party", int, "bytes that a party is sent in the key set-up", True),
    Column(
        "virtual_seconds", float, "the round on the simulated network: delays and deadlines, no work", True
    ),
    Column("cpu_seconds", float, "CPU time of the run's process for the whole simulation"),
    Column("wall_seconds", float, "time that passed meanwhile"),
    Column("peak_bytes", int, "the most memory that the run's own process held"),
    Column("start_bytes", int, "memory that it held before the simulation began"),
    Column("stages", str, "JSON: what each stage cost"),
    Column("chosen", str, "JSON: the protocol's choice: threshold, neighbours, …", True),
    Column("spec", str, "JSON: the whole job; if it is impossible, the settings that were asked for"),
    Column("job_hash", str, "hash of the job; empty if it is impossible", True),
    Column("jobs", int, "runs side by side, of which this was one"),
    Column("version", str, "version of Blindsum"),
    Column("build", str, "build of its native module"),
    Column("python", str, "version of Python"),
    Column("machine", str, "processor and system"),
    Column("date", str, "when the run began, UTC"),
)
"""Every column, in order."""

NAMES = tuple(column.name for column in COLUMNS)
REPEATABLE = tuple(column.name for column in COLUMNS if column.repeats)
"""Columns that a repetition must give again."""

Row = Mapping[str, Any]


def write_csv(rows: Iterable[Row]) -> str:
    """Rows as CSV, with the header."""
    return csv_lines([dict(zip(NAMES, NAMES, strict=True)), *rows])


def csv_lines(rows: Iterable[Row]) -> str:
    """Rows as lines of CSV. A cell has no line breaks, so that a line is a row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_text(row[name]) for name in NAMES])
    return text.getvalue()


def read_csv(text: str) -> list[dict[str, Any]]:
    """Rows from CSV, of the types of the columns.

    Raises
    ------
    blindsum.InputError
        It is no table of a comparison, or one of another version.
    """
    lines = csv.reader(io.StringIO(text))
    header = next(lines, [])
    check_header(header)
    return [_typed(number, dict(zip(header, line, strict=False))) for number, line in enumerate(lines, 2)]


def check_header(header: Sequence[str]) -> None:
    """Refuse a table that has not the columns of a comparison."""
    missing = [name for name in NAMES if name not in header]
    if missing:
        raise InputError(
            f"column {missing[0]}", "is missing; give a table that this version of `blindsum compare` wrote"
        )


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else " ".join(str(value).splitlines())


def _typed(line: int, cells: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for column in COLUMNS:
        text = cells.get(column.name, "")
        try:
            row[column.name] = _value(column.kind, text)
        except ValueError as error:
            rule = f"{text!r} must be a {_KINDS[column.kind]}"
            raise InputError(
                f"line {line}, column {column.name}", f"{rule}; was the file changed?"
            ) from error
    return row


_KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}


def _value(kind: type, text: str) -> Any:
    if not text:
        return None
    if kind is not bool:
        return kind(text)
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def plain_json(value: object) -> str:
    """A value as JSON without spaces, its names in order: equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
