"""What the page of `mystiko` says of rounds that were not run: extrapolated, or not possible."""

from __future__ import annotations

import textwrap

import blindsum as bs
from benches.rows import number
from experiments import output
from experiments.mystiko_page import TOLERANCE, Found
from experiments.mystiko_rounds import PROTOCOLS

WIDTH = 110


def section(found: Found) -> str:
    """What was extrapolated and from what, lengths that were simulated as well, and impossible rounds."""
    parts = [*_starred(found), *_controls(found), *_impossible(found)]
    return "\n\n".join(["## What was not run", *(parts or ["Nothing."])])


def _starred(found: Found) -> list[str]:
    rows = list(found.rounds.values())
    models = []
    for model, dim in found.sizes.models.items():
        far = sum(one.extrapolated for one in rows if one.case.dim == dim)
        if far:
            models.append(f"{far} of the {sum(one.case.dim == dim for one in rows)} rounds of {model}")
    if not models:
        return []
    text = (
        f"A star (\\*) marks what was not run: {', '.join(models)}. Work and bytes of each stage follow from "
        "two shorter rounds of the same protocol with as many parties, by what each further parameter cost. "
        "Of Paillier these are the two longest that were run; of the others the longest that was run and "
        "one of half its length, since a parameter takes longer if the vector does not fit into the caches."
    )
    return [textwrap.fill(text, WIDTH)]


def _controls(found: Found) -> list[str]:
    if not found.controls:
        return []
    lines = [
        [
            run.case.protocol,
            f"{run.case.parties}",
            f"{run.case.dim:,}",
            number(guess.work_s),
            number(run.work_s),
            f"{run.work_s / guess.work_s:.2f}",
        ]
        for guess, run in found.controls
    ]
    header = ["protocol", "parties", "D", "work, extrapolated, s", "simulated, s", "÷ extrapolated"]
    bounds = [name for name in PROTOCOLS if (found.error(name) or 0) > 1 + TOLERANCE]
    verdict = f"No control took more than {TOLERANCE:.0%} longer than extrapolated."
    if bounds:
        verdict = (
            f"Controls of {', '.join(bounds)} took more than {TOLERANCE:.0%} longer than extrapolated: "
            "starred times of these protocols are lower bounds (≥)."
        )
    intro = "Lengths that were extrapolated and, for once, simulated as well:"
    return [intro, output.table(header, lines), textwrap.fill(verdict, WIDTH)]


def _impossible(found: Found) -> list[str]:
    if not found.impossible:
        return []
    limit = number(bs.Policy().max_message / 1e9)
    intro = (
        f"No job can run these, since a party takes messages of at most {limit} GB by default (`max_message` "
        "of its policy):"
    )
    lines = [
        [case.protocol, f"{case.parties}", f"{case.dim:,}", number(case.largest / 1e9)]
        for case in found.impossible.values()
    ]
    table = output.table(["protocol", "parties", "D", "largest message, GB"], lines)
    return [textwrap.fill(intro, WIDTH), table]
