"""The page of what proved vectors cost."""

from __future__ import annotations

from benches.pss_malicious import LIARS, MAX_NORM, PROOF_HEADER, Cost, Measured, proof_cells
from benches.rows import HEADER as ROW_HEADER
from blindsum.cli.console import markdown_table

HEADER = [*ROW_HEADER[:-1], "pss"]
COSTS = "100 parties, 10 lost before they share, active; parties, updates and server in one process"
PROOFS = "every word has 16 bits; one client, one thread"


def notes(found: Measured) -> list[str]:
    """What must be known to read the tables."""
    made = [f"{row.work}: {row.note}" for row in found.rows if row.note]
    refused = [cost for cost in found.costs if cost.refused]
    made += [f"D = {cost.dim:,} with {cost.bits} bits, since with more: {cost.refused}" for cost in refused]
    if found.absent:
        made.append(f"proofs were not measured: {found.absent}")
    return made


def markdown(found: Measured, origin: str) -> str:
    """The whole page; ``origin`` says where the numbers come from."""
    missed = [row.work for row in found.rows if row.ratio is not None and row.ratio < 1]
    lines = [
        "# `blindsum bench pss-malicious`",
        "",
        "Written by `blindsum bench pss-malicious`. A ratio below 1 is a target that is missed.",
        "",
        origin,
        "* Work is CPU time of all parties and the server together: parties × that of one party, the median,",
        "  and that of the server. Nobody is lost. Least of three runs, those of `pss` in turns with them.",
        f"  `max_norm` is {MAX_NORM:g}, and 1 where `bound` is `l2`; `clip` is 1.",
        f"* {LIARS} liars lie in {LIARS} ways. A run in which one is not found, somebody honest is left out,",
        "  or the sum is wrong ends the bench with an error.",
        "",
        markdown_table(HEADER, [row.cells for row in found.rows]),
        "",
        f"Missed: {', '.join(missed)}." if missed else "None is missed.",
        "",
        *[f"* {note}." for note in notes(found)],
        "",
        "## What a round costs",
        "",
        f"{COSTS}; a tenth of the parties may lie. Milliseconds are CPU work, the least of three runs, with",
        "10⁵ coordinates of one.",
        "",
        markdown_table(Cost.HEADER, [cost.cells for cost in found.costs]),
        "",
        "## Beside Prio3",
        "",
        f"{PROOFS.capitalize()}, by `cargo bench -p blindsum-bench --bench proofs`: least CPU time of",
        "several runs. *prio* is Prio3SumVec of the crate prio with two aggregators, in its field of 128",
        "bits, and with three proofs in its field of 64 bits; chunks are as long as the crate recommends.",
        "Its vectors are secret unless both aggregators work together, and its sums are right only if",
        "neither lies. Ours have 100 verifiers, of which any ten may lie and pool what they see. *They send*",
        "what verifiers tell others about one client's vector. Sealing and signatures are in neither.",
        "",
        markdown_table(PROOF_HEADER, proof_cells(found.proofs)),
    ]
    return "\n".join(lines) + "\n"
