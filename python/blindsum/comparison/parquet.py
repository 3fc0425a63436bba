"""The table of a comparison as Parquet, with pyarrow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from blindsum.comparison.columns import COLUMNS, Row, check_header

TYPES = {int: pa.uint64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
"""Seeds have up to 64 bits, and no whole number is below 0."""


def write_parquet(rows: Iterable[Row], path: Path) -> None:
    """Write rows, with the meaning of each column in its metadata."""
    fields = [
        pa.field(column.name, TYPES[column.kind], metadata={"meaning": column.meaning}) for column in COLUMNS
    ]
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(fields))
    beside = path.with_name(f".{path.name}.new")
    pq.write_table(table, beside)
    beside.replace(path)


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """Read rows.

    Raises
    ------
    blindsum.InputError
        It is no table of a comparison, or one of another version.
    """
    table = pq.read_table(path)
    check_header(table.column_names)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
