"""The pictures of a comparison, as SVG: what a round costs against each axis with several values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from blindsum.comparison.columns import Row
from blindsum.comparison.grid import Grid
from blindsum.comparison.summary import AXIS_NAMES, median

QUANTITIES = {
    "party_ms": "one party, CPU ms",
    "coordinator_ms": "coordinator, CPU ms",
    "up_bytes_per_party": "a party sends",
    "peak_bytes": "peak memory",
    "virtual_seconds": "simulated network, s",
}

WIDE = 20
"""Values of which the largest is so many times the smallest are drawn on logarithmic scales."""

MAX_PANELS = 8
"""Lines of panels in one picture; further combinations have pictures of their own."""

MARKERS = "osD^vP*X"

Fixed = dict[str, Any]


def draw(grid: Grid, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw every picture into a folder; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    style = {"svg.hashsalt": "blindsum", "svg.fonttype": "none"}  # the same numbers give the same file
    with mpl.rc_context(style):
        return [_save(figure, folder / name) for name, figure in _figures(grid, rows)]


def _figures(grid: Grid, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    shown = [name for name in QUANTITIES if any(row[name] for row in rows)]
    if not shown:
        # Nothing ran to its end.
        return
    axes = [name for name in grid.varying() if name != "protocol"]
    if not axes:
        yield "by-protocol.svg", _bars(grid, rows, shown)
    for axis in axes:
        others = [name for name in axes if name != axis]
        combinations = itertools.product(*(getattr(grid, name) for name in others))
        panels = [dict(zip(others, values, strict=True)) for values in combinations]
        for first in range(0, len(panels), MAX_PANELS):
            ending = f"-{first // MAX_PANELS + 1}" if len(panels) > MAX_PANELS else ""
            part = panels[first : first + MAX_PANELS]
            yield f"by-{axis}{ending}.svg", _lines(grid, rows, axis, part, shown)


def _lines(
    grid: Grid, rows: Sequence[Row], axis: str, panels: Sequence[Fixed], shown: Sequence[str]
) -> Figure:
    """One column a quantity, one line of panels for each combination of the other axes."""
    figure, places = _panels(len(panels), len(shown))
    for fixed, line in zip(panels, places, strict=True):
        here = [row for row in rows if all(row[name] == value for name, value in fixed.items())]
        for name, place in zip(shown, line, strict=True):
            for number, protocol in enumerate(grid.protocol):
                own = [row for row in here if row["protocol"] == protocol]
                _curve(place, own, axis, name, protocol, number)
            _scales(place, here, axis, name)
            place.set_xlabel(AXIS_NAMES[axis])
            place.set_ylabel(QUANTITIES[name])
        line[0].set_title(
            ", ".join(f"{AXIS_NAMES[name]} {value}" for name, value in fixed.items()), loc="left"
        )
    places[0][0].legend(fontsize="small")
    return figure


def _curve(place: Any, rows: Iterable[Row], axis: str, name: str, protocol: str, number: int) -> None:
    """The medians of one protocol, and the range of its runs. Runs without a sum leave a gap."""
    at: dict[float, list[Row]] = {}
    for row in rows:
        at.setdefault(row[axis], []).append(row)
    sizes = sorted(at)
    summed = {size: [row for row in at[size] if row["outcome"] == "sum"] for size in sizes}
    medians = [_or_gap(median(summed[size], name)) for size in sizes]
    colour = f"C{number % 10}"
    marker = MARKERS[number % len(MARKERS)]
    place.plot(sizes, medians, color=colour, marker=marker, markersize=4, label=protocol)
    if any(len(same) > 1 for same in summed.values()):
        least = [_or_gap(min((row[name] for row in summed[size]), default=None)) for size in sizes]
        most = [_or_gap(max((row[name] for row in summed[size]), default=None)) for size in sizes]
        place.fill_between(sizes, least, most, color=colour, alpha=0.15, linewidth=0)


def _bars(grid: Grid, rows: Sequence[Row], shown: Sequence[str]) -> Figure:
    """One panel a quantity, one bar a protocol: where nothing but the protocol varies."""
    figure, places = _panels(1, len(shown))
    for name, place in zip(shown, places[0], strict=True):
        for number, protocol in enumerate(grid.protocol):
            own = [row for row in rows if row["protocol"] == protocol and row["outcome"] == "sum"]
            place.barh(protocol, _or_gap(median(own, name)), color=f"C{number % 10}")
        place.set_xlabel(QUANTITIES[name])
        place.invert_yaxis()
    return figure


def _scales(place: Any, rows: Iterable[Row], axis: str, name: str) -> None:
    found = [(row[axis], row[name]) for row in rows if row["outcome"] == "sum" and row[name] is not None]
    if not found:
        place.text(0.5, 0.5, "no run has a sum", transform=place.transAxes, ha="center")
        place.set(xticks=[], yticks=[])
        return
    sizes, values = zip(*found, strict=True)
    if _is_wide(sizes):
        place.set_xscale("log")
    if _is_wide(values):
        place.set_yscale("log")
    else:
        place.set_ylim(0, 1.1 * max(values) or 1)
    if name.endswith(("_bytes", "_bytes_per_party")):
        place.yaxis.set_major_formatter(EngFormatter("B"))


def _is_wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > WIDE * min(values)


def _panels(count: int, columns: int) -> tuple[Figure, list[list[Any]]]:
    figure = Figure(figsize=(4.2 * columns, 3.4 * count), layout="constrained")
    places = figure.subplots(count, columns, squeeze=False)
    for place in places.flat:
        place.grid(alpha=0.3)
    return figure, [list(line) for line in places]


def _or_gap(value: float | None) -> float:
    return float("nan") if value is None else value


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path
