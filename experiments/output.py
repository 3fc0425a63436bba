"""Where results go: CSV for machines, Markdown for people, with the facts of the machine on top."""

from __future__ import annotations

import argparse
import csv
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches.rows import machine
from blindsum.cli.console import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
QUICK_RESULTS = HERE.parent / "build" / "experiments"


@dataclass(frozen=True)
class Options:
    """What an experiment is asked for.

    Attributes
    ----------
    quick : bool
        Small sizes and few repetitions: says that it works.
    out : pathlib.Path
        Folder of the results.
    spu : pathlib.Path or None
        A Python with SPU, to be measured in the same run.
    """

    quick: bool
    out: Path
    spu: Path | None = None


def options(words: Sequence[str] | None, description: str, has_spu: bool = False) -> Options:
    """Read the command line of an experiment, which has SPU as a peer or has not."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, seconds; not for quoting")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="results (default experiments/results)")
    parser.set_defaults(spu=None)
    if has_spu:
        parser.add_argument("--spu", type=Path, metavar="PYTHON", help="a Python with SPU, to measure it too")
    given = parser.parse_args(words)
    out = given.out or (QUICK_RESULTS if given.quick else RESULTS)
    out.mkdir(parents=True, exist_ok=True)
    return Options(quick=given.quick, out=out, spu=given.spu)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of equal keys; floats with five digits that matter."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _cell(value) for name, value in row.items()})


def _cell(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) else value


def write_page(path: Path, title: str, command: str, parts: Sequence[str], timed: bool = True) -> None:
    """Write a page of results: title, command, machine where times matter, and the parts."""
    origin = (
        facts() if timed else "No number here depends on the machine: nothing is timed, and seeds are fixed."
    )
    head = [f"# {title}", f"Written by `{command}`.", origin]
    path.write_text("\n\n".join([*head, *parts]) + "\n")


def facts() -> str:
    """The machine and what else a number depends on."""
    lines = [
        f"* Machine: {machine()}, of which {os.cpu_count()} are this process's, {platform.system()}.",
        "* Build: native module and benches in the release profile (`make experiments`).",
        "* Least of the repetitions; the machine did other work at the same time, so that times are upper",
        "  bounds.",
    ]
    return "\n".join(lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return markdown_table(header, rows)


def figure(columns: int, rows: int = 1) -> tuple[Figure, list[Any]]:
    """Axes side by side, with a grid."""
    import matplotlib as mpl

    mpl.use("Agg")
    # The same numbers give the same file.
    mpl.rcParams["svg.hashsalt"] = "blindsum"
    mpl.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot as plt

    size = (4.6 * columns, 3.6 * rows)
    drawn, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    flat = [one for line in axes for one in line]
    for one in flat:
        one.grid(alpha=0.3)
    return drawn, flat


def save(drawn: Figure, path: Path) -> None:
    """Write a picture as SVG and forget it."""
    from matplotlib import pyplot as plt

    drawn.savefig(path, format="svg", metadata={"Date": None})
    plt.close(drawn)
