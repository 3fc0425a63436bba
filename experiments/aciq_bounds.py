"""What the bounds of `clipping = "aciq"` cost dense updates: bits by which they are too wide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from experiments import output
from vectors.model.aciq import Tensor, factor

Array = NDArray[np.float64]

BITS = (16, 8, 4)
PARTIES = (3, 10, 100)
DIM = 10_000
ROUNDS = 40
SETTLED = 20
CLIP = 100.0
"""The job's bound, in standard deviations of an update."""


def rounded(values: Array, bound: float, bits: int, rounding: str, rng: np.random.Generator) -> Array:
    """Values as they are sent and decoded."""
    last = 2**bits - (2 if rounding == "nearest" else 1)
    levels = (np.clip(values, -bound, bound) + bound) * (last / (2 * bound))
    whole = np.rint(levels) if rounding == "nearest" else np.floor(levels + rng.random(values.shape))
    found: Array = np.minimum(whole, last) * (2 * bound / last) - bound
    return found


def bounds(bits: int, parties: int, rounding: str) -> tuple[float, float]:
    """The bound once it has settled, in standard deviations, and the part of rounds with the job's own."""
    rng = np.random.default_rng([bits, parties])
    tensor = Tensor(DIM, CLIP, rounding=rounding)
    found = []
    for number in range(ROUNDS):
        bound = tensor.bound(bits)
        if number >= SETTLED:
            found.append(bound)
        updates = rng.normal(size=(parties, DIM))
        mean = np.mean([rounded(update, bound, bits, rounding, rng) for update in updates], axis=0)
        tensor.observe_dense(bits, mean.tolist(), parties, parties)
    return float(np.median(found)), float(np.mean(np.asarray(found) == CLIP))


def main(words: Sequence[str] | None = None) -> None:
    """Simulate bounds and write."""
    options = output.options(words, "aciq_bounds", "Bounds of clipping = aciq for dense updates.")
    rows = []
    for bits in BITS:
        for parties in PARTIES[:1] if options.quick else PARTIES:
            for rounding in ("stochastic", "nearest"):
                bound, whole = bounds(bits, parties, rounding)
                rows.append(
                    {
                        "bits": bits,
                        "parties": parties,
                        "rounding": rounding,
                        "bound": bound,
                        "best": factor(bits),
                        "lost": float(np.log2(bound / factor(bits))),
                        "whole": whole,
                    }
                )
    output.write_csv(options, "aciq-bounds.csv", rows)
    names = [
        "bits",
        "parties",
        "`rounding`",
        "bound / σ",
        "best / σ",
        "bits lost",
        "rounds with the job's `clip`",
    ]
    shown = [
        [
            str(row["bits"]),
            str(row["parties"]),
            str(row["rounding"]),
            f"{row['bound']:.1f}",
            f"{row['best']:.2f}",
            f"{row['lost']:.1f}",
            f"{row['whole']:.0%}",
        ]
        for row in rows
    ]
    about = (
        f"Normal updates of {DIM:,} coordinates that have nothing in common, a job's `clip` of {CLIP:g} "
        f"standard deviations σ, the bound of the last {ROUNDS - SETTLED} of {ROUNDS} rounds (median), "
        "beside the one with which one such update loses least. The last column is the part of these rounds "
        "whose bound is the job's."
    )
    parts = [about, output.table(names, shown)]
    output.write_page(options, "aciq-bounds.md", "What the bounds of aciq cost", parts, timed=False)


if __name__ == "__main__":
    main()
