"""The measurements of chapter 5 of the thesis on three servers, with `mpc3`.

    python -m experiments.mpc_tables [--quick] [--out FOLDER] [--spu PYTHON]

Rounds of 16 clients by phase, FLTrust, the number of clients and of parameters, delays, and all rules side by
side, each semi-honest and active; and SPU beside them, where a Python with SPU is given. `thesis.py` has what
the thesis prints, `mpc_plan.py` what is run, `three_servers.py` how, and `mpc_page.py` what is said about it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from blindsum.cli import console
from experiments import mpc_page, mpc_peer, mpc_plan, netem, output, thesis
from experiments.mpc_page import Found
from experiments.mpc_plan import Sizes
from experiments.three_servers import ADVERSARIES, Case, Cost, converted_ms, measured

STYLES = {"semi-honest": "-", "active": "--"}


def measure(sizes: Sizes, rounds: int = netem.ROUNDS) -> Found:
    """Run everything that can be run here, and show how far it is; over a network so many rounds of each."""
    cases = mpc_plan.everything(sizes)
    costs: dict[Case, Cost] = {}
    left_out: dict[Case, str] = {}
    with console.progress("three servers", len(cases)) as bar:
        for done, case in enumerate(cases):
            bar.update(done, f"{case.rule}, {case.adversary}, n = {case.parties}, D = {case.dim:,}")
            reason = mpc_plan.hindrance(case)
            if reason is None:
                costs[case] = measured(case, mpc_plan.runs(case))
            else:
                left_out[case] = reason
        delayed = netem.measured(
            mpc_plan.delays(sizes),
            rounds,
            lambda case: bar.update(
                len(cases), f"{case.rule}, {case.adversary}, {case.delay_ms:g} ms, network"
            ),
        )
    converted = {dim: converted_ms(dim) for dim in sizes.models.values()}
    return Found(sizes, costs, left_out, converted, delayed)


def plot_scaling(found: Found, cases: Sequence[Case], axis: str, label: str, path: Path) -> None:
    """Draw the slowest server's work, and what it sends the others, one line a rule and adversary."""
    drawn, places = output.figure(2)
    colors: dict[str, str] = {}
    for rule, adversary in dict.fromkeys((case.rule, case.adversary) for case in cases):
        line = [case for case in cases if (case.rule, case.adversary) == (rule, adversary)]
        line = [case for case in line if case in found.costs]
        x = [getattr(case, axis) for case in line]
        color = colors.setdefault(rule, f"C{len(colors)}")
        work = [found.costs[case].slowest_ms for case in line]
        sent = [found.costs[case].between_bytes / 1e6 for case in line]
        name = f"{rule}, {adversary}" + (f", D = {line[0].dim:,}" if axis == "parties" else "")
        for place, y in zip(places, (work, sent), strict=True):
            place.plot(x, y, STYLES[adversary], color=color, marker="o", markersize=4, label=name)
    for place, y_label in zip(
        places, ("slowest server, ms of CPU time", "sent to the others, MB"), strict=True
    ):
        place.set_xscale("log")
        place.set_yscale("log")
        if axis == "parties":
            place.set_xticks(found.sizes.clients, found.sizes.clients)
            place.set_xticks([], minor=True)
        place.set_xlabel(label)
        place.set_ylabel(y_label)
    drawn.legend(*places[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    output.save(drawn, path)


def plot_delays(found: Found, path: Path) -> None:
    """Draw virtual time against the delay, and the thesis' times."""
    drawn, (place,) = output.figure(1)
    for color, rule in enumerate(("fedavg", "fltrust")):
        for adversary in ADVERSARIES:
            line = [
                case
                for case in mpc_plan.delays(found.sizes)
                if (case.rule, case.adversary) == (rule, adversary)
            ]
            shown = [(case.delay_ms, found.costs[case].virtual_s) for case in line if case.delay_ms]
            place.plot(
                *zip(*shown, strict=True),
                STYLES[adversary],
                color=f"C{color}",
                marker="o",
                markersize=4,
                label=f"{rule}, {adversary}, modelled",
            )
    printed = [(delay, times[1]) for delay, times in thesis.DELAYS.items() if delay]
    place.plot(
        *zip(*printed, strict=True), color="black", marker="s", markersize=4, label="thesis, FedAvg, measured"
    )
    place.set_yscale("log")
    place.set_xlabel("delay, ms")
    place.set_ylabel("a round, s")
    place.legend(fontsize="x-small")
    output.save(drawn, path)


def times(seconds: float) -> str:
    """What a time is."""
    return (
        "Each time is the median of three runs, or that of one run where a case is long: `runs` in the CSV\n"
        f"file. The load of the experiment itself is 1; it took {seconds / 60:.0f} minutes."
    )


def main(words: Sequence[str] | None = None) -> None:
    """Measure, draw and write."""
    options = output.options(
        words, "mpc_tables", "The tables of the thesis on three servers, with mpc3.", has_spu=True
    )
    sizes = mpc_plan.QUICK if options.quick else mpc_plan.FULL
    start = time.monotonic()
    peer = mpc_peer.beside(options.spu, options.quick)
    found = measure(sizes, 1 if options.quick else netem.ROUNDS)
    rows = [one.row for _, one in sorted(found.costs.items(), key=lambda pair: str(pair[0]))]
    output.write_csv(options, "mpc-tables.csv", rows)
    scaling = (
        (mpc_plan.clients(sizes), "parties", "clients", "mpc-tables-clients.svg"),
        (mpc_plan.parameters(sizes), "dim", "parameters D", "mpc-tables-parameters.svg"),
    )
    for cases, axis, label, name in scaling:
        plot_scaling(found, cases, axis, label, options.out / name)
    plot_delays(found, options.out / "mpc-tables-delays.svg")
    sections = (
        *(mpc_page.targets, mpc_page.phases, mpc_page.trusted, mpc_page.clients),
        *(mpc_page.parameters, mpc_page.delays, mpc_page.rules),
    )
    parts = [times(time.monotonic() - start), mpc_page.HOW, *[part(found) for part in sections]]
    if peer is not None:
        mpc_peer.write(peer, options)
    output.write_page(options, "mpc-tables.md", "Three servers: the tables of the thesis", parts)


if __name__ == "__main__":
    main()
