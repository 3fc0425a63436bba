"""The folder of a comparison: rows are in it as soon as they are there, and it goes on where it stopped."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from blindsum import _native, checks, texts
from blindsum.comparison.columns import csv_lines, read_csv, write_csv
from blindsum.comparison.grid import Grid, differences
from blindsum.errors import ConfigError, InputError

GRID = "grid.json"
RUNS = "runs.csv"


class Folder:
    """A folder that one comparison writes to. Use it in a ``with`` statement.

    Attributes
    ----------
    path : Path
        The folder.
    rows : dict
        Rows that it has, by the number of their run. Runs that failed by an error are not among them: they
        run again.

    Raises
    ------
    blindsum.ConfigError
        It cannot be a folder or not be written to, holds another grid or is used by another process.
    """

    def __init__(self, out: str | os.PathLike[str], grid: Grid) -> None:
        text = checks.folder("out", out)
        self.path = Path(text)
        self.rows: dict[int, dict[str, Any]] = {}
        asked = {**grid.to_dict(), "version": _native.__version__}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / GRID).open("a+", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                "out", f"{text} cannot be written to: {error.strerror}; give another folder"
            ) from error
        try:
            self._begin(asked)
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row down behind the others."""
        self.rows[row["run"]] = dict(row)
        with (self.path / RUNS).open("a", encoding="utf-8", newline="") as file:
            file.write(csv_lines([row]))

    def in_order(self) -> list[dict[str, Any]]:
        """The rows in the order of the grid."""
        return [self.rows[run] for run in sorted(self.rows)]

    def sort(self) -> None:
        """Write the rows again, in order."""
        replace(self.path / RUNS, write_csv(self.in_order()))

    def _begin(self, asked: Mapping[str, Any]) -> None:
        """Take the folder, and the rows that it has."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            rule = f"{self.path} is used by another comparison now: wait for its end, or give another folder"
            raise ConfigError("out", rule) from error
        self._lock.seek(0)
        there = self._lock.read()
        if there:
            self._check_same(there, asked)
            self._read_rows()
        else:
            if (self.path / RUNS).exists():
                rule = f"{self.path} has a {RUNS} but no {GRID} that says of what: give another folder"
                raise ConfigError("out", rule)
            self._lock.write(json.dumps(asked, indent=1) + "\n")
            self._lock.flush()
        self.sort()

    def _check_same(self, there: str, asked: Mapping[str, Any]) -> None:
        try:
            fields = json.loads(there)
        except ValueError as error:
            raise ConfigError(
                "out", f"{self.path / GRID} is damaged ({error}): give another folder"
            ) from error
        found = differences(fields, json.loads(json.dumps(asked)))
        if found:
            rule = (
                f"{self.path} holds another grid: {'; '.join(found)}: give another folder, or the same grid"
            )
            raise ConfigError("out", rule)

    def _read_rows(self) -> None:
        """Read the rows; a last line that is not whole was being written when the machine went down."""
        path = self.path / RUNS
        if not path.exists():
            return
        try:
            text = texts.read(path)
            rows = read_csv(text[: text.rfind("\n") + 1])
        except (InputError, ValueError) as error:
            raise ConfigError("out", f"{path}: {error}") from error
        self.rows = {row["run"]: row for row in rows if row["outcome"] != "error"}


def replace(path: Path, text: str) -> None:
    """Write a file so that at every moment there is the old or the new one, whole."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        # The name that the caller knows.
        raise OSError(error.errno, error.strerror, str(path)) from error
