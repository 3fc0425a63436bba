"""Where results go: CSV for machines, Markdown for people, with the facts of the machine on top."""

from __future__ import annotations

import csv
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches import timers
from benches.provenance import Run, listed
from blindsum.cli import Parser
from blindsum.cli.console import markdown_table, never_fail
from blindsum.cli.files import check_folder, named
from blindsum.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
QUICK_RESULTS = HERE.parent / "build" / "experiments"
LARGE_RESULTS = QUICK_RESULTS / "large"


@dataclass(frozen=True)
class Options:
    """What an experiment is asked for.

    Attributes
    ----------
    quick : bool
        Small sizes and few repetitions: says that it works.
    out : pathlib.Path
        Folder of the results.
    run : benches.provenance.Run
        Where its numbers come from.
    spu : pathlib.Path or None
        A Python with SPU, to be measured in the same run.
    large : bool
        Sizes that want hours, and some of them a GPU.
    folder : pathlib.Path or None
        Where files of data are that are not found by themselves.
    """

    quick: bool
    out: Path
    run: Run
    spu: Path | None = None
    large: bool = False
    folder: Path | None = None


def options(
    words: Sequence[str] | None,
    name: str,
    description: str,
    has_spu: bool = False,
    needs_timers: bool = False,
    has_large: bool = False,
) -> Options:
    """Read the command line of the experiment of a name.

    It may have SPU as a peer, time processes, or have larger sizes.
    """
    never_fail()
    words = sys.argv[1:] if words is None else words
    parser = Parser(prog=f"python -m experiments.{name}", description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes, seconds; not for quoting")
    parser.add_argument("--out", type=_folder, metavar="FOLDER", help="results (default experiments/results)")
    parser.set_defaults(spu=None, large=False, folder=None)
    if has_large:
        size.add_argument(
            "--large", action="store_true", help="sizes that take hours; into build/experiments/large"
        )
        parser.add_argument("--folder", type=_folder, metavar="FOLDER", help="files of data, for --large")
    if has_spu:
        parser.add_argument("--spu", type=Path, metavar="PYTHON", help="a Python with SPU, to measure it too")
    given = parser.parse_args(words)
    if needs_timers:
        try:
            timers.need(f"experiments.{name}")
        except ConfigError as error:
            parser.error(str(error))
    out = given.out or (QUICK_RESULTS if given.quick else LARGE_RESULTS if given.large else RESULTS)
    try:
        check_folder("--out", str(out))
    except ConfigError as error:
        parser.error(str(error))
    return Options(
        quick=given.quick,
        out=out,
        run=Run.begin(["python", "-m", f"experiments.{name}", *words]),
        spu=given.spu,
        large=given.large,
        folder=given.folder,
    )


def _folder(text: str) -> Path:
    return Path(named(text))


def write_csv(options: Options, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of equal keys; floats with five digits that matter.

    Each row says where it comes from (`benches.provenance.COLUMNS`): from this run, unless it says it itself.
    """
    origin = options.run.row
    with (options.out / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys([*rows[0], *origin])), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: cell(value) for name, value in {**origin, **row}.items()})


def cell(value: Any) -> Any:
    """A value as files have it: floats with five digits that matter."""
    return f"{value:.5g}" if isinstance(value, float) else value


def write_page(
    options: Options, name: str, title: str, parts: Sequence[str], timed: bool = True, seeded: bool = True
) -> None:
    """Write a page of results: title, command, where the numbers come from, and the parts."""
    head = [f"# {title}", f"Written by `{options.run.command}`.", listed(options.run.row)]
    seeds = "seeds are fixed" if seeded else "but parties round at random, so that the next run gives others"
    fixed = f"No number here depends on the machine: nothing is timed, {'and ' if seeded else ''}{seeds}."
    page = options.out / name
    page.write_text("\n\n".join([*head, *([] if timed else [fixed]), *parts]) + "\n")
    print(page)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return markdown_table(header, rows)


def filled(text: str) -> str:
    """A paragraph in lines of a page's width."""
    return textwrap.fill(" ".join(text.split()), 110, break_on_hyphens=False)


def points(texts: str | Sequence[str]) -> str:
    """A list in Markdown, of texts or of the paragraphs of one."""
    whole = texts.strip().split("\n\n") if isinstance(texts, str) else texts
    lines = [" ".join(point.split()) for point in whole]
    return "\n".join(
        textwrap.fill(f"* {line}", 110, subsequent_indent="  ", break_on_hyphens=False) for line in lines
    )


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
