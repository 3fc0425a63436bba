"""The result of a comparison: a table with one row a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from blindsum import checks
from blindsum.comparison import summary
from blindsum.comparison.columns import COLUMNS, Column, write_csv
from blindsum.comparison.folder import replace
from blindsum.comparison.grid import Grid
from blindsum.errors import ConfigError
from blindsum.pki import AnyPath

NEEDS = {"markdown": None, "svg": "matplotlib", "parquet": "pyarrow"}
"""What a comparison is written as beside CSV, and the package that it takes."""


@dataclass(frozen=True)
class Comparison:
    """A table with one row a run, from :func:`blindsum.sweep`.

    In a notebook it shows its summary, which ``print(table)`` prints. ``pandas.DataFrame(table.rows)`` and
    ``polars.DataFrame(table.rows)`` take it as it is.

    Attributes
    ----------
    grid : blindsum.comparison.grid.Grid
        What was compared.
    rows : tuple of dict
        The rows, in the order of the grid. What the columns hold is in :attr:`columns`.
    """

    grid: Grid
    rows: tuple[Mapping[str, Any], ...] = field(repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, each with its name, its type and what it holds."""
        return COLUMNS

    def to_csv(self, path: AnyPath) -> None:
        """Write the table as CSV: UTF-8, with a header; empty cells are ``None``."""
        replace(Path(checks.path("path", path)), write_csv(self.rows))

    def to_parquet(self, path: AnyPath) -> None:
        """Write the table as Parquet.

        Raises
        ------
        blindsum.ConfigError
            pyarrow is not installed.
        """
        _need("parquet")
        from blindsum.comparison.parquet import write_parquet

        write_parquet(self.rows, Path(checks.path("path", path)))

    def to_markdown(self) -> str:
        """The summary: medians of the runs of each combination, and why others have no sum."""
        return summary.markdown(self.grid, self.rows)

    def plot(self, folder: AnyPath) -> list[Path]:
        """Draw times, bytes and memory against each axis with several values, one SVG file an axis.

        Raises
        ------
        blindsum.ConfigError
            matplotlib is not installed.
        """
        _need("svg")
        from blindsum.comparison.plots import draw

        return draw(self.grid, self.rows, Path(checks.folder("folder", folder)))

    def write(self, folder: AnyPath, formats: Collection[str] = tuple(NEEDS)) -> list[Path]:
        """Write the files of a comparison beside its ``runs.csv``; gives their paths."""
        place = Path(checks.folder("folder", folder))
        steps: dict[str, Callable[[], list[Path]]] = {
            "parquet": lambda: self._parquet(place / "runs.parquet"),
            "svg": lambda: self.plot(place),
        }
        drawn = {name: steps[name]() for name in steps if name in formats}
        written = [path for paths in drawn.values() for path in paths]
        if "markdown" in formats:
            pictures = "".join(f"\n![{path.stem}]({path.name})\n" for path in drawn.get("svg", []))
            replace(place / "summary.md", self.to_markdown() + pictures)
            written.append(place / "summary.md")
        return written

    def _parquet(self, path: Path) -> list[Path]:
        self.to_parquet(path)
        return [path]

    def __str__(self) -> str:
        return summary.text(self.grid, self.rows)

    def _repr_html_(self) -> str:
        return summary.html(self.grid, self.rows)


def check_formats(asked: Collection[str] | None) -> tuple[str, ...]:
    """The formats to write: those that are asked for, or all for which packages are installed.

    Raises
    ------
    blindsum.ConfigError
        One that does not exist, or whose package is not installed.
    """
    if asked is None:
        return tuple(name for name, package in NEEDS.items() if package is None or find_spec(package))
    if isinstance(asked, str | os.PathLike) or not isinstance(asked, Collection):
        raise ConfigError("write", f"{asked!r} must be a list of some of {', '.join(NEEDS)}")
    for name in asked:
        if name not in NEEDS:
            raise ConfigError("write", f"{name!r} must be one of {', '.join(NEEDS)}")
        _need(name)
    return tuple(name for name in NEEDS if name in asked)


def _need(name: str) -> None:
    package = NEEDS[name]
    if package is not None and find_spec(package) is None:
        raise ConfigError(
            "write", f"{name} needs {package}, which is not installed: run `pip install 'blindsum[compare]'`"
        )
