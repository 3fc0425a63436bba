"""FSSA against SecAgg and SecAgg+ (FSSA §VII-E): where which is faster, and what it costs in bytes.

    python -m experiments.fssa_secagg [--quick] [--out FOLDER]

All three are ours and use the same code for vectors, keys and sealing; semi-honest, 16-bit values, a tenth of
the parties corrupt, a tenth drops out between its key and its vector. One thread works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from blindsum.bench.rows import number
from experiments import output
from experiments.measure import Case, Cost, costs

PROTOCOLS = ("fssa", "secagg", "secagg+")
COLOURS = {"fssa": "tab:blue", "secagg": "tab:red", "secagg+": "tab:green"}
PARTIES = (20, 50, 100, 200, 500)
DIMS = (1_000, 10_000, 100_000)
LARGE_DIM, LARGE_PARTIES = 1_000_000, (20, 50, 100)
RATE = 0.1

Quantity = Callable[[Cost], float]
Grid = dict[tuple[int, int], dict[str, Cost]]

QUANTITIES: dict[str, tuple[str, Quantity]] = {
    "one party": ("ms", lambda cost: cost.client_ms),
    "server": ("ms", lambda cost: cost.server_ms),
    "all parties and server": ("ms", lambda cost: cost.total_ms),
    "bytes of a party, both ways": ("KiB", lambda cost: cost.bytes / 1024),
}


def cases(quick: bool) -> list[Case]:
    """The grid of n and D."""
    sizes = [(n, dim) for n in PARTIES for dim in DIMS] + [(n, LARGE_DIM) for n in LARGE_PARTIES]
    if quick:
        sizes = [(20, 1_000), (30, 1_000)]
    return [Case(protocol, n, dim, RATE, RATE) for n, dim in sizes for protocol in PROTOCOLS]


def grid(found: Sequence[Cost]) -> Grid:
    """Costs by n and D, then by protocol."""
    places: Grid = {}
    for cost in found:
        places.setdefault((cost.case.parties, cost.case.dim), {})[cost.case.protocol] = cost
    return places


def section(title: str, unit: str, quantity: Quantity, places: Grid) -> str:
    """A table of one quantity; the least of a row is bold."""
    header = ["n", "D", *[f"`{protocol}`" for protocol in PROTOCOLS], "fssa ÷ secagg", "fssa ÷ secagg+"]
    rows = []
    for (parties, dim), by_protocol in sorted(places.items()):
        values = {protocol: quantity(cost) for protocol, cost in by_protocol.items()}
        least = min(values.values())
        cells = [
            f"**{number(values[name])}**" if values[name] == least else number(values[name])
            for name in PROTOCOLS
        ]
        ratios = [f"{values['fssa'] / values[other]:.2f}" for other in PROTOCOLS[1:]]
        rows.append([f"{parties}", f"{dim:,}", *cells, *ratios])
    return f"## {title.capitalize()}, {unit}\n\n" + output.table(header, rows)


def winners(places: Grid) -> str:
    """For every quantity and number of parties, the D at which FSSA costs less than each of the others."""
    lines = []
    for title, (_, quantity) in QUANTITIES.items():
        for other in PROTOCOLS[1:]:
            lines.append(f"* {title}, against `{other}`: {_wins(quantity, other, places)}.")
    return "\n".join(["## Crossover: where `fssa` costs less", "", *lines])


def _wins(quantity: Quantity, other: str, places: Grid) -> str:
    by_parties: dict[int, list[str]] = {}
    for (parties, dim), by_protocol in sorted(places.items()):
        by_parties.setdefault(parties, [])
        if quantity(by_protocol["fssa"]) < quantity(by_protocol[other]):
            by_parties[parties].append(f"{dim:,}")
    if not any(by_parties.values()):
        return "nowhere on this grid"
    tried: dict[int, int] = {}
    for parties, _ in places:
        tried[parties] = tried.get(parties, 0) + 1
    said = []
    for parties, dims in by_parties.items():
        where = "every D" if len(dims) == tried[parties] else f"D = {' and '.join(dims)}"
        said.append(f"n = {parties}: {where if dims else 'no D'}")
    return "; ".join(said)


def plot(places: Grid, path: Path) -> None:
    """One row a D, one column a quantity, n on the axis."""
    sizes: dict[int, list[int]] = {}
    for parties, dim in sorted(places):
        sizes.setdefault(dim, []).append(parties)
    drawn, axes = output.figure(len(QUANTITIES), len(sizes))
    panels = iter(axes)
    for dim, all_parties in sorted(sizes.items()):
        for title, (unit, quantity) in QUANTITIES.items():
            place = next(panels)
            for protocol in PROTOCOLS:
                values = [quantity(places[parties, dim][protocol]) for parties in all_parties]
                place.plot(
                    all_parties, values, marker="o", markersize=4, color=COLOURS[protocol], label=protocol
                )
            place.set_yscale("log")
            place.set_title(f"{title}, D = {dim:,}", fontsize="medium")
            place.set_xlabel("parties n")
            place.set_ylabel(unit)
    axes[0].legend(fontsize="small")
    output.save(drawn, path)


READING = """\
## How to read it

* `secagg` and `secagg+` need 4 stages, `fssa` 3. Every stage waits for the slowest party, so that over real
  networks a stage saved counts for more than milliseconds of work.
* The paper finds its parties slower than SecAgg's, its server and the total faster, and more bytes. Both of
  its sides are Python programs in which expanding a mask is dear; here AES instructions expand masks at the
  speed of memory, and vector instructions share.
* SecAgg+ came later than the paper's comparison. Its work grows with the logarithm of n.\
"""


def main(words: Sequence[str] | None = None) -> None:
    """Measure, draw and write."""
    options = output.options(words, "FSSA against SecAgg and SecAgg+.")
    found = costs("fssa and secagg", cases(options.quick), options.quick)
    places = grid(found)
    plot(places, options.out / "fssa-secagg.svg")
    output.write_csv(options.out / "fssa-secagg.csv", [cost.row for cost in found])
    tables = [section(title, *how, places) for title, how in QUANTITIES.items()]
    picture = "![time and bytes against parties](fssa-secagg.svg)"
    page = options.out / "fssa-secagg.md"
    parts = [picture, winners(places), *tables, READING]
    output.write_page(page, "FSSA against SecAgg", "python -m experiments.fssa_secagg", parts)
    print(page)


if __name__ == "__main__":
    main()
