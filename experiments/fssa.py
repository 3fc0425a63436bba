"""The four cases of FSSA §VII: time of a party and of the server, bytes of a party.

    python -m experiments.fssa [--quick] [--out FOLDER]

1: against n by corruption rate; 2: against D by corruption rate; 3: against n by dropout rate; 4: against D
by dropout rate. As in the paper parties are semi-honest, values have 16 bits, one thread works, and who drops
out does so between its key and its vector. Every case is measured twice: with keys of P-256, as in the paper,
and of X25519, which jobs have by default.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.rows import number
from experiments import output
from experiments.measure import Case, Cost, costs

PARTIES = (20, 50, 100, 200, 350, 500)
DIMS = (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000)
RATES = (0.05, 0.1, 0.2, 0.3)
FIXED_PARTIES, FIXED_DIM = 100, 10_000
FIXED_CORRUPT, FIXED_DROPOUT = 0.2, 0.3
PAPERS_SUITE = "p256"
SUITES = {PAPERS_SUITE: "P-256, as in the paper", "x25519": "X25519, the default"}


@dataclass(frozen=True)
class Sweep:
    """One of the four cases.

    Attributes
    ----------
    number : int
        As the paper numbers it.
    x : str
        What is on the axis: ``"parties"`` or ``"dim"``.
    rate : str
        What the lines differ in: ``"corrupt"`` or ``"dropout"``.
    """

    number: int
    x: str
    rate: str

    @property
    def title(self) -> str:
        """What varies, and what does not."""
        fixed = f"D = {FIXED_DIM:,}" if self.x == "parties" else f"n = {FIXED_PARTIES}"
        other = f"dropout {FIXED_DROPOUT:.0%}" if self.rate == "corrupt" else f"corrupt {FIXED_CORRUPT:.0%}"
        return f"{fixed}, {other}"

    def cases(self, quick: bool) -> list[Case]:
        """Its points, line after line."""
        sizes: tuple[int, ...] = PARTIES if self.x == "parties" else DIMS
        sizes, rates = (sizes[:2], RATES[1:3]) if quick else (sizes, RATES)
        return [self._case(suite, size, rate) for suite in SUITES for rate in rates for size in sizes]

    def _case(self, suite: str, size: int, rate: float) -> Case:
        by_parties, by_corrupt = self.x == "parties", self.rate == "corrupt"
        return Case(
            protocol="fssa",
            parties=size if by_parties else FIXED_PARTIES,
            dim=FIXED_DIM if by_parties else size,
            corrupt=rate if by_corrupt else FIXED_CORRUPT,
            dropout=FIXED_DROPOUT if by_corrupt else rate,
            suite=suite,
        )


SWEEPS = (
    Sweep(1, "parties", "corrupt"),
    Sweep(2, "dim", "corrupt"),
    Sweep(3, "parties", "dropout"),
    Sweep(4, "dim", "dropout"),
)

AXES = {"parties": "parties n", "dim": "coordinates D"}
RATE_NAMES = {"corrupt": "corrupt", "dropout": "dropped"}
QUANTITIES = {
    "client_ms": "one party, ms",
    "server_ms": "server, ms",
    "up_bytes": "a party sends, bytes",
}


def plot(sweep: Sweep, found: Sequence[Cost], path: Path) -> None:
    """Draw the three quantities of a sweep with the paper's keys, one line a rate."""
    found = _with_suite(found, PAPERS_SUITE)
    drawn, axes = output.figure(len(QUANTITIES))
    for place, (quantity, label) in zip(axes, QUANTITIES.items(), strict=True):
        for rate in sorted({getattr(cost.case, sweep.rate) for cost in found}):
            line = [cost for cost in found if getattr(cost.case, sweep.rate) == rate]
            sizes = [getattr(cost.case, sweep.x) for cost in line]
            name = f"{rate:.0%} {RATE_NAMES[sweep.rate]}"
            place.plot(
                sizes, [getattr(cost, quantity) for cost in line], marker="o", markersize=4, label=name
            )
        place.set_xlabel(AXES[sweep.x])
        place.set_ylabel(label)
        if sweep.x == "dim":
            place.set_xscale("log")
            place.set_yscale("log")
        else:
            place.set_ylim(bottom=0)
    axes[0].legend(fontsize="small")
    drawn.suptitle(f"FSSA case {sweep.number}: {sweep.title}, keys of P-256")
    output.save(drawn, path)


def section(sweep: Sweep, found: Sequence[Cost]) -> str:
    """Heading, picture and tables of a sweep: party / server in ms, and KiB that a party sends."""
    name = f"fssa-case-{sweep.number}"
    parts = [f"## Case {sweep.number}: {sweep.title}", f"![case {sweep.number}]({name}.svg)"]
    for suite, title in SUITES.items():
        parts.append(f"Keys of {title}. One party ms / server ms / KiB that a party sends:")
        parts.append(_table(sweep, _with_suite(found, suite)))
    return "\n\n".join(parts)


def _with_suite(found: Sequence[Cost], suite: str) -> list[Cost]:
    return [cost for cost in found if cost.case.suite == suite]


def _table(sweep: Sweep, found: Sequence[Cost]) -> str:
    rates = sorted({getattr(cost.case, sweep.rate) for cost in found})
    sizes = sorted({getattr(cost.case, sweep.x) for cost in found})
    by_place = {(getattr(cost.case, sweep.x), getattr(cost.case, sweep.rate)): cost for cost in found}
    header = [AXES[sweep.x], *[f"{rate:.0%} {RATE_NAMES[sweep.rate]}" for rate in rates]]
    rows = [[f"{size:,}", *[_cell(by_place[size, rate]) for rate in rates]] for size in sizes]
    return output.table(header, rows)


def _cell(cost: Cost) -> str:
    return f"{number(cost.client_ms)} / {number(cost.server_ms)} / {number(cost.up_bytes / 1024)}"


def reading(found: Sequence[tuple[Sweep, Sequence[Cost]]]) -> str:
    """The paper's trends beside those of these costs: case 1 and case 2 are by corruption rate."""
    (_, by_parties), (_, by_dim) = found[0], found[1]
    dims = sorted({cost.case.dim for cost in by_dim})
    grows = "; ".join(f"with D = {dim:,} {_by_rate(by_dim, dim)}" for dim in (dims[0], dims[-1]))
    points = f"""\
* A party's time grows linearly with n and with D in the paper, and with the corruption rate. Here it is
  linear in n as well, but because of the key agreements, one with each other party; the sharing, D·n/l
  shares, shows only in long vectors, and so does the corruption rate, which makes l smaller. From the least
  corruption rate to the largest a party's time is, {grows}.
* Key agreements weigh most where vectors are short: {_by_suite(by_dim, dims[0])}.
* The server's time hardly depends on n in the paper. Here the rebuilding is so fast that passing on n²
  columns is seen beside it: {_by_parties(by_parties)}.
* Bytes of a party hardly depend on n, grow linearly with D and grow with both rates, as in the paper: they
  are 4·D·n/l and 16 more a column, with l = n − d − c.
* The paper draws averages of five runs of a Python program; absolute times do not compare, shapes do. Its
  rates are not all of those here."""
    lines = [" ".join(point.split()) for point in points.split("\n* ")]
    wrapped = [textwrap.fill(f"* {line.removeprefix('* ')}", 110, subsequent_indent="  ") for line in lines]
    return "\n".join(["## What the paper says, and what is seen here", "", *wrapped])


def _by_rate(found: Sequence[Cost], dim: int) -> str:
    line = [cost for cost in _with_suite(found, PAPERS_SUITE) if cost.case.dim == dim]
    first, last = (pick(line, key=lambda cost: cost.case.corrupt).client_ms for pick in (min, max))
    return f"{number(first)} and {number(last)} ms ({last / first:.2f}×)"


def _by_suite(found: Sequence[Cost], dim: int) -> str:
    lines = {suite: [c for c in _with_suite(found, suite) if c.case.dim == dim] for suite in SUITES}
    times = [f"{number(line[0].client_ms)} ms with {SUITES[suite]}" for suite, line in lines.items()]
    case = lines[PAPERS_SUITE][0].case
    return f"a party of {case.parties} with D = {dim:,} takes {' and '.join(times)}"


def _by_parties(found: Sequence[Cost]) -> str:
    line = [cost for cost in _with_suite(found, PAPERS_SUITE) if cost.case.corrupt == found[0].case.corrupt]
    first, last = (pick(line, key=lambda cost: cost.case.parties) for pick in (min, max))
    return (
        f"{number(first.server_ms)} ms with {first.case.parties} parties, "
        f"{number(last.server_ms)} ms with {last.case.parties}"
    )


def main(words: Sequence[str] | None = None) -> None:
    """Measure, draw and write."""
    options = output.options(words, "fssa", "The four cases of FSSA §VII.")
    rows, parts, sweeps = [], [], []
    for sweep in SWEEPS:
        found = costs(f"case {sweep.number}", sweep.cases(options.quick), options.quick)
        plot(sweep, found, options.out / f"fssa-case-{sweep.number}.svg")
        rows += [{"experiment": f"case {sweep.number}", **cost.row} for cost in found]
        parts.append(section(sweep, found))
        sweeps.append((sweep, found))
    output.write_csv(options, "fssa.csv", rows)
    output.write_page(options, "fssa.md", "FSSA, the four cases of §VII", [*parts, reading(sweeps)])


if __name__ == "__main__":
    main()
