"""``blindsum compare``: protocols side by side, over a grid of sizes, dropouts, bits and latency."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindsum.cli import EXIT_FAILED, EXIT_SUM, console
from blindsum.cli.files import named
from blindsum.cli.flags import named_as_flags
from blindsum.cli.signals import sigterm_interrupts

if TYPE_CHECKING:
    from blindsum.comparison.table import Comparison

EXAMPLES = """\
examples:
  blindsum compare --protocol secagg,secagg+,fssa --parties 10,20 --dim 1000 --drop 0,0.1 --out grid
  blindsum compare --protocol secagg+:neighbours=20,secagg+:neighbours=60 --parties 100 --dim 1e5 --out n
  blindsum compare --protocol secagg+ --parties 100 --dim 1e4 --bits 8,16,32 --repeat 5 --jobs 1 --out bits
  blindsum compare --protocol secagg,mpc3 --parties 20 --dim 1e4 --latency 0,0.02 --set dropout=0.3 --out far
  blindsum simulate --repeat grid/runs.csv:7

The folder gets runs.csv (a row for each run), summary.md, pictures (with matplotlib) and runs.parquet (with
pyarrow). Ctrl-C keeps the rows that are done; the same command goes on with the others. Runs that are
impossible, or end without a sum, have rows that say why.

exit status: 0 every run has a row, and every sum is right, 1 a run failed by an error or has a WRONG sum,
or no run at all is possible, 2 wrong arguments, or a folder of another grid, 130 interrupted
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = (
        "Simulate a round of every combination, each in a process of its own, and write a table with times, "
        "bytes, memory and whether the sum was exact."
    )
    parser.epilog = EXAMPLES
    add_arguments(parser, required=True)
    parser.set_defaults(run=lambda options: compare(options, {}))


def add_arguments(parser: argparse.ArgumentParser, required: bool) -> None:
    """Add the arguments that :func:`compare` reads; without ``required`` none of the axes must be given."""
    grid = parser.add_argument_group("the grid; several values are separated by commas")
    text = "protocols, also as NAME:OPTION=VALUE"
    grid.add_argument("--protocol", required=required, type=_texts, metavar="P", help=text)
    grid.add_argument("--parties", required=required, type=_whole, metavar="N", help="parties of a round")
    grid.add_argument(
        "--dim", required=required, type=_whole, metavar="D", help="coordinates of an update, also as 1e5"
    )
    grid.add_argument(
        "--drop",
        type=_numbers,
        metavar="F",
        help="fractions of the parties that vanish before the input stage (default 0)",
    )
    grid.add_argument("--bits", type=_whole, metavar="B", help="bits of a value (default: that of the job)")
    grid.add_argument(
        "--latency",
        type=_numbers,
        metavar="SECONDS",
        help="delay of every message in virtual time (default 0)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="an option of all jobs, e.g. --set dropout=0.3 --set adversary=semi-honest",
    )
    text = "runs of each combination, with other seeds (default 1)"
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help=text)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first run of each combination (default 0)"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="runs side by side (default: one a core; 1 for times to quote)"
    )
    parser.add_argument("--out", required=required, type=named, metavar="DIR", help="folder of the table")
    parser.add_argument(
        "--write",
        type=_texts,
        metavar="FORMATS",
        help="beside CSV some of markdown, svg, parquet (default: those whose packages are installed)",
    )


def compare(options: argparse.Namespace, grid: Mapping[str, Any]) -> int:
    """Compare and report.

    ``grid`` has arguments of :func:`blindsum.sweep` for what no flag says.
    """
    from blindsum.comparison.grid import AXES, Grid
    from blindsum.comparison.sweeps import sweep

    settings = {**grid.get("settings", {}), **dict(map(setting, options.set))}
    given = {name: value for name in AXES if (value := getattr(options, name)) is not None}
    asked = {**grid, **given, "repeat": options.repeat, "seed": options.seed, "settings": settings}
    flags = (*AXES, "repeat", "seed", "jobs", "out", "write")
    with named_as_flags(*flags, **{f"settings.{name}": f"--set {name}" for name in settings}):
        total = len(Grid.of(**asked))
        done = 0
        with sigterm_interrupts(), console.progress("comparing", total) as bar:

            def show(count: int, _total: int, text: str) -> None:
                nonlocal done
                done = count
                bar.update(count, text)

            try:
                table = sweep(**asked, jobs=options.jobs, out=options.out, write=options.write, progress=show)
            except KeyboardInterrupt:
                place = Path(options.out) / "runs.csv"
                console.note(
                    f"{done} of {total} runs are in {place}; the same command goes on with the others"
                )
                raise
    _show(table, options.out)
    if all(row["outcome"] == "impossible" for row in table.rows):
        return EXIT_FAILED
    failed = any(
        row["outcome"] == "error" or (row["outcome"] == "sum" and not row["exact"]) for row in table.rows
    )
    return EXIT_FAILED if failed else EXIT_SUM


def _show(table: Comparison, out: str) -> None:
    """The summary, and where the files are."""
    from blindsum.comparison import summary
    from blindsum.texts import counted

    header, lines = summary.lines(table.grid, table.rows)
    console.table("medians of each combination", header, lines)
    for line in (*summary.rounded_away(table.rows), *summary.without_sum(table.rows)):
        print(line)
    files = sorted(path.name for path in Path(out).iterdir() if not path.name.startswith("."))
    print(f"{counted(len(table.rows), 'run')}; in {out}: {', '.join(files)}")


def setting(text: str) -> tuple[str, str]:
    """The name and the value of ``--set OPTION=VALUE``."""
    from blindsum.errors import ConfigError

    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError("--set", f"{text!r} must be OPTION=VALUE")
    return name, value


def _texts(text: str) -> list[str]:
    """Texts separated by commas."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(
            f"must be values separated by commas, without empty ones, not {text!r}"
        )
    return found


def _numbers(text: str) -> list[float]:
    """Numbers separated by commas."""
    return [_number(part) for part in _texts(text)]


def _whole(text: str) -> list[int]:
    """Whole numbers separated by commas, also written like 1e5."""
    found = _numbers(text)
    for part, number in zip(_texts(text), found, strict=True):
        if not number.is_integer():
            raise argparse.ArgumentTypeError(f"must be whole numbers, as in 1000,1e5, not {part!r}")
    return [int(number) for number in found]


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"must be numbers separated by commas, not {text!r}")
    return number
