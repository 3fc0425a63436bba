"""What FLASHE's paper claims, beside what `flashe_wan` finds. All numbers are computed from its lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from experiments import output
from experiments.flashe_lines import Line
from experiments.wan import MODELS, Model, Printed

CORES = 16
"""Of a client and of the server in the paper. The others' work is divided by them, ours is not."""
FAMILIES = {
    "Paillier, batched": "Paillier",
    "FV, batched": "BFV, TenSEAL, N = 8192",
    "CKKS, batched": "CKKS, TenSEAL, N = 8192",
}
"""The paper's modes, and how the names of what stands beside them here begin."""
PROCESSES = re.compile(r"\| a round ÷ one of plain, ([^|]*): wall \|[^|]*\| ([\d.]+) *\|")


def _span(values: Sequence[float], unit: str, digits: int = 0) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}{unit}"


def _of(model: Model, mode: str) -> Printed:
    return next(line for line in model.printed if line.mode == mode)


def compared(found: Sequence[Line]) -> str:
    """What the paper says of its models, and what comes out here: savings, times and traffic."""
    ours = {line.model.name: line for line in found if line.scheme == "FLASHE"}
    rows, smaller = [], []
    for mode, name in FAMILIES.items():
        printed = [(_of(model, mode), _of(model, "FLASHE")) for model in MODELS]
        here = [(line, ours[line.model.name]) for line in found if line.scheme.startswith(name)]
        saved = [100 * (1 - own.dollars / other.dollars) for other, own in printed]
        saved_here = [100 * (1 - own.dollars / other.dollars) for other, own in here]
        smaller.append(max(saved_here) < max(saved) and min(saved_here) < min(saved))
        rows.append(
            [
                mode,
                _span(saved, " %"),
                _span(saved_here, " %"),
                _span([other.hours / own.hours for other, own in printed], "×", 1),
                _span([other.iteration_s / own.iteration_s for other, own in here], "×", 1),
                _span([other.gigabytes / own.gigabytes for other, own in printed], "×", 1),
                _span([other.aggregation.bytes / own.aggregation.bytes for other, own in here], "×", 1),
            ]
        )
    header = ["against FLASHE", "dollars saved, paper", "here", "iteration, paper", "here"]
    header += ["traffic, paper", "here"]
    come_out = {
        (
            True,
            True,
        ): "The savings of the paper do not come out here: those against every scheme are smaller.",
        (False, False): "The savings here are as large as those of the paper.",
    }.get((any(smaller), all(smaller)), "Some of the paper's savings do not come out here.")
    reasons = (
        "The others' ciphertexts are added and sent by programs of today, on links whose round trips are "
        f"assumed, and their work is divided by {CORES} without loss; training takes as long as in the paper."
    )
    return "\n\n".join(
        [
            "## What the paper says, and what is seen here",
            output.table(header, rows),
            textwrap.fill(f"{come_out} {reasons}", 110),
            _overhead(ours.values(), found),
            "The paper's §6.3 gives savings of 26–73, 49–89 and 69–94 % for the three schemes. By its own\n"
            "Table 4 these are the ranges of its three models; the columns above are by scheme.",
        ]
    )


def _overhead(ours: Iterable[Line], found: Sequence[Line]) -> str:
    plain = {line.model.name: line for line in found if line.scheme == "plaintext"}
    paper = [_of(model, "FLASHE").hours / model.printed[0].hours for model in MODELS]
    model = max(line.iteration_s / plain[line.model.name].iteration_s for line in ours)
    jobs, ratio = over_processes()
    return textwrap.fill(
        f"FLASHE's own overhead is at most {100 * (max(paper) - 1):.0f} % in the paper. "
        f"The tables above have {100 * (model - 1):.2f} %: CPU time of a simulator, ideal links, training. "
        f"Measured in rounds without training ({jobs}) it is {100 * (ratio - 1):.0f} % "
        "([benchmarks](../../docs/benchmarks/flashe.md)).",
        110,
    )


def over_processes() -> tuple[str, float]:
    """How many times as long as a round of `plain` a round takes over processes, as the benchmarks say.

    Raises
    ------
    ValueError
        The page has no such row.
    """
    page = output.HERE.parent / "docs" / "benchmarks" / "flashe.md"
    row = PROCESSES.search(page.read_text())
    if row is None:
        raise ValueError(f"{page.name}: no row that matches {PROCESSES.pattern}; write it with `make bench`")
    return row[1], float(row[2])
