"""FSSA against SecAgg and SecAgg+ (FSSA §VII-E): where which is faster, and what it costs in bytes.

    python -m experiments.fssa_secagg [--quick] [--out FOLDER]

All three are ours and use the same code for vectors, keys and sealing; semi-honest, 16-bit values, a tenth of
the parties corrupt, a tenth drops out between its key and its vector. One thread works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import blindsum as bs
from benches.rows import number
from experiments import output
from experiments.measure import Case, Cost, costs

PROTOCOLS = ("fssa", "secagg", "secagg+")
COLOURS = {"fssa": "tab:blue", "secagg": "tab:red", "secagg+": "tab:green"}
PARTIES = (20, 50, 100, 200, 500)
DIMS = (1_000, 10_000, 100_000)
LARGE_DIM, LARGE_PARTIES = 1_000_000, (20, 50, 100)
RATE = 0.1
LATENCY = 0.1
"""Seconds of a message, where waiting is counted."""

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
    won: dict[int, dict[int, bool]] = {}
    for (parties, dim), by_protocol in sorted(places.items()):
        won.setdefault(parties, {})[dim] = quantity(by_protocol["fssa"]) < quantity(by_protocol[other])
    flat = {win for by_dim in won.values() for win in by_dim.values()}
    if len(flat) == 1:
        return f"{'everywhere' if True in flat else 'nowhere'} on this grid"
    where = {parties: _dims(by_dim) for parties, by_dim in won.items()}
    said = []
    for phrase in dict.fromkeys(where.values()):
        sizes = " and ".join(str(n) for n in where if where[n] == phrase)
        said.append(f"n = {sizes}: {phrase}")
    return "; ".join(said)


def _dims(won: dict[int, bool]) -> str:
    """Those D that were won, as a bound where they are the smallest ones."""
    dims = [dim for dim in won if won[dim]]
    if len(dims) in (0, len(won)):
        return "every D" if dims else "no D"
    if dims == list(won)[: len(dims)]:
        return f"D ≤ {dims[-1]:,}"
    return f"D = {' and '.join(f'{dim:,}' for dim in dims)}"


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


def waits() -> str:
    """What fewer stages buy: seconds of a round in which messages take time and nobody's work does."""
    rows = []
    for protocol in PROTOCOLS:
        cells = [f"`{protocol}`"]
        for adversary in ("semi-honest", "active"):
            job = bs.JobSpec(protocol=protocol, parties=PARTIES[0], dim=DIMS[0], adversary=adversary)
            result = bs.simulate(job, latency=LATENCY)
            if not result.exact:
                raise ArithmeticError(f"{protocol}, {adversary}: {result.fault or 'a wrong sum'}")
            cells += [f"{len(job.stages)}", number(result.virtual_seconds)]
        rows.append(cells)
    header = ["", "stages, semi-honest", "seconds", "stages, active", "seconds"]
    text = (
        f"Every message takes {LATENCY:g} s, nobody drops out, and work takes no time. A stage is a\n"
        "message of each party and one back to it."
    )
    return f"## What a stage less buys\n\n{text}\n\n{output.table(header, rows)}"


READING = """\
## How to read it

* Against `secagg` the paper finds its parties slower, its server and the total faster, and more bytes. Here
  its parties are faster as well: they agree on one key with everybody instead of two, which is most of the
  work, and they expand no masks. Only few parties with long vectors pay more for sharing than for masks.
* `secagg+`, which the paper does not compare with, talks to a number of neighbours that grows with the
  logarithm of n. "Crossover" above says where its parties are faster. Its server removes masks, and that of
  `fssa` does not.
* `fssa` pays in bytes: about n/l elements of 4 bytes for each coordinate, both ways, where the others send
  one packed word. For short vectors the keys and shares of `secagg` weigh more.
* Every stage waits for the slowest party, so that over real networks a stage saved counts for more than
  milliseconds of work. That fewer stages lose fewer parties is the paper's argument; it is not measured here.
* The server of `fssa` passes on n² columns, which it keeps until the stage ends; those of the others keep one
  vector.\
"""


def main(words: Sequence[str] | None = None) -> None:
    """Measure, draw and write."""
    options = output.options(words, "fssa_secagg", "FSSA against SecAgg and SecAgg+.")
    found = costs("fssa and secagg", cases(options.quick), options.quick)
    places = grid(found)
    plot(places, options.out / "fssa-secagg.svg")
    output.write_csv(options, "fssa-secagg.csv", [cost.row for cost in found])
    tables = [section(title, *how, places) for title, how in QUANTITIES.items()]
    picture = "![time and bytes against parties](fssa-secagg.svg)"
    parts = [picture, winners(places), *tables, waits(), READING]
    output.write_page(options, "fssa-secagg.md", "FSSA against SecAgg", parts)


if __name__ == "__main__":
    main()
