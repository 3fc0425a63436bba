"""HAR, activities from the sensors of a telephone: text files with one example a line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blindsum import texts
from blindsum.errors import DataError
from blindsum.learning.dataset import Dataset

FEATURES = 561
"""Numbers of an example."""


def read(features: Path, labels: Path, users: Path, names: Path) -> Dataset:
    """Read measurements, activities and who did them.

    Raises
    ------
    blindsum.DataError
        A file is damaged, or the files do not belong together.
    """
    called = [line.split() for line in _text(names).splitlines() if line.strip()]
    if not called or [line[0] for line in called] != [str(one + 1) for one in range(len(called))]:
        raise DataError(names, "its lines do not begin with the numbers from 1 on")
    if any(len(line) != 2 for line in called):
        raise DataError(names, "a line of it is not a number and a name")
    table = _table(features, np.float32)
    if table.shape[1] != FEATURES or not np.isfinite(table).all():
        raise DataError(features, f"a line of it is not {FEATURES} finite numbers")
    columns = []
    for path in (labels, users):
        column = _table(path, np.int64)
        if column.shape != (len(table), 1):
            raise DataError(
                path, f"it does not have {len(table)} lines with one number, as {features} has lines"
            )
        columns.append(column[:, 0])
    if columns[0].min() < 1 or columns[0].max() > len(called):
        raise DataError(labels, f"a label is not from 1 to {len(called)}")
    return Dataset(table, columns[0] - 1, columns[1], [line[1] for line in called])


def _table(path: Path, kind: DTypeLike) -> NDArray[Any]:
    content = _text(path)
    if not content.strip():
        raise DataError(path, "it is empty")
    try:
        return np.loadtxt(io.StringIO(content), dtype=kind, ndmin=2)
    except (ValueError, OverflowError) as error:
        raise DataError(path, f"it is no table of numbers: {error}") from error


def _text(path: Path) -> str:
    try:
        return texts.read(path)
    except (OSError, ValueError) as error:
        raise DataError(path, f"it cannot be read: {error}") from error
