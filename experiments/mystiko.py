"""Tables I and II and Figure 5 of MYSTIKO: synchronisation and communication of 2 to 40 parties.

    python -m experiments.mystiko [--quick] [--out FOLDER]

Sums under Paillier's scheme in a ring, by broadcast and by all-reduce, beside `mpc3`, `secagg+`, `flashe` and
`plain`, which protects nothing, in the same run. `mystiko_rounds.py` says how the time of a round is composed
and what is extrapolated, `mystiko_page.py` has the figures of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benches import rounds
from blindsum.cli import console
from blindsum.errors import SpecError
from experiments import mystiko_far, mystiko_page, output
from experiments.mystiko_page import Found
from experiments.mystiko_rounds import (
    FULL,
    PROTOCOLS,
    QUICK,
    Case,
    Round,
    Sizes,
    control,
    impossible,
    measure,
    simulated,
)

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
                if one is not None:
                    found[name, parties, model] = one
    checks = []
    with console.progress("processes", len(sizes.checked)) as bar:
        for done, (name, (parties, dim)) in enumerate(sizes.checked.items()):
            bar.update(done, f"{name}, n = {parties}, D = {dim:,}")
            case = Case(name, parties, dim)
            job = case.spec.replace(rounds=ROUNDS, model_update="none", stage_deadline=120.0)
            cost = rounds.measure(job.replace(input_deadline=120.0), lambda _status: None)
            checks.append((simulated(case), cost))
    controls = []
    with console.progress("controls", len(sizes.controls)) as bar:
        for done, case in enumerate(sizes.controls):
            bar.update(done, f"{case.protocol}, n = {case.parties}, D = {case.dim:,}")
            controls.append(control(sizes, case))
    there = {
        (name, parties, model): Case(name, parties, dim)
        for name, parties in cases
        for model, dim in sizes.models.items()
    }
    missing = {key: case for key, case in there.items() if key not in found}
    return Found(sizes, found, checks, controls, missing)


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
    options = output.options(words, "mystiko", "Tables I and II and Figure 5 of MYSTIKO.", needs_timers=True)
    found = found_of(QUICK if options.quick else FULL)
    like = next(iter(found.rounds.values()))
    table = [one.row for one in found.rounds.values()]
    table += [impossible(case, like) for case in found.impossible.values()]
    output.write_csv(options, "mystiko.csv", table)
    plot(found, options.out / "mystiko.svg")
    busy = "Every length was simulated once. The load of the experiment itself is 1 to 2."
    pages = (mystiko_page.prices, mystiko_page.synchronisation, mystiko_page.slowdowns)
    more = (mystiko_page.scaling, mystiko_page.checks, mystiko_far.section)
    parts = [busy, *[part(found) for part in (*pages, *more)], mystiko_page.READING]
    output.write_page(options, "mystiko.md", "MYSTIKO: ring, broadcast and all-reduce", parts)


if __name__ == "__main__":
    main()
