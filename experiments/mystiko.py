"""Tables I and II and Figure 5 of MYSTIKO: synchronisation and communication of 2 to 40 parties.

    python -m experiments.mystiko [--quick] [--out FOLDER]

Sums under Paillier's scheme in a ring, by broadcast and by all-reduce, beside `mpc3`, `secagg+` and `flashe`
in the same run. `mystiko_rounds.py` says how the time of a round is composed and what is extrapolated,
`mystiko_page.py` has the figures of the paper.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benches import rounds
from blindsum.cli import console
from blindsum.errors import SpecError
from experiments import mystiko_page, output
from experiments.mystiko_page import Found
from experiments.mystiko_rounds import FULL, PROTOCOLS, QUICK, Case, Round, Sizes, control, measure, simulated

ROUNDS = 3
"""Of processes, one of which warms up."""


def found_of(sizes: Sizes) -> Found:
    """Run everything, and show how far it is."""
    cases = [(name, parties) for name in PROTOCOLS for parties in sizes.parties if _is_job(name, parties)]
    found: dict[tuple[str, int, str], Round] = {}
    with console.progress("simulated", len(cases)) as bar:
        for done, (name, parties) in enumerate(cases):
            bar.update(done, f"{name}, n = {parties}")
            for model, one in zip(sizes.models, measure(sizes, name, parties), strict=True):
                found[name, parties, model] = one
    checks = []
    with console.progress("processes", len(sizes.checked)) as bar:
        for done, (name, (parties, dim)) in enumerate(sizes.checked.items()):
            bar.update(done, f"{name}, n = {parties}, D = {dim:,}")
            case = Case(name, parties, dim)
            job = case.spec.replace(rounds=ROUNDS, model_update="none", stage_deadline=120.0)
            cost = rounds.measure(job.replace(input_deadline=120.0), lambda _status: None)
            checks.append((simulated(case), cost))
    controls = [control(sizes, case) for case in sizes.controls]
    return Found(sizes, found, checks, controls)


def _is_job(name: str, parties: int) -> bool:
    try:
        _ = Case(name, parties, 1).spec
    except SpecError:
        return False
    return True


def plot(found: Found, path: Path) -> None:
    """Figure 5: synchronisation above, communication below, one column a model."""
    sizes = found.sizes
    drawn, axes = output.figure(len(sizes.models), 2)
    for column, model in enumerate(sizes.models):
        for row, label in enumerate(("synchronisation, s", "communication, s")):
            place = axes[row * len(sizes.models) + column]
            for color, name in enumerate(PROTOCOLS):
                line = [
                    (n, found.rounds[name, n, model])
                    for n in sizes.parties
                    if (name, n, model) in found.rounds
                ]
                times = [one.communication_s if row else one.synchronisation_s for _, one in line]
                place.plot(
                    [n for n, _ in line], times, color=f"C{color}", marker="o", markersize=4, label=name
                )
            place.set_yscale("log")
            place.set_title(f"{model}, {sizes.models[model]:,}", fontsize="medium")
            place.set_xlabel("parties")
            place.set_ylabel(label)
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    output.save(drawn, path)


def main(words: Sequence[str] | None = None) -> None:
    """Measure, draw and write."""
    options = output.options(words, "Tables I and II and Figure 5 of MYSTIKO.")
    load = os.getloadavg()[0]
    found = found_of(QUICK if options.quick else FULL)
    output.write_csv(options.out / "mystiko.csv", [one.row for one in found.rounds.values()])
    plot(found, options.out / "mystiko.svg")
    busy = (
        f"Load of the machine: {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end, of which 1\n"
        "to 2 are this experiment. Every length was simulated once."
    )
    pages = (mystiko_page.prices, mystiko_page.synchronisation, mystiko_page.slowdowns)
    more = (mystiko_page.scaling, mystiko_page.checks)
    parts = [busy, *[part(found) for part in (*pages, *more)], mystiko_page.READING]
    page = options.out / "mystiko.md"
    output.write_page(page, "MYSTIKO: ring, broadcast and all-reduce", "python -m experiments.mystiko", parts)
    print(page)


if __name__ == "__main__":
    main()
