"""What the bounds of `clipping = "aciq"` cost dense updates: bits by which they are too wide."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from experiments import output
from vectors.model.aciq import Tensor, reach

Array = NDArray[np.float64]

BITS = (16, 8, 4)
PARTIES = (3, 10, 100)
DIM = 10_000
ROUNDS = 40
SETTLED = 20
CLIP = 100.0
"""The job's bound, in standard deviations of an update, ..."""
SCALES = (1.0, 2.0**0.5, 1000.0)
"""... times these."""


def factor(bits: int) -> float:
    """The bound with which a standard Gaussian, clipped and rounded to 2^bits levels, loses least (ACIQ).

    It is where half the derivative of the mean square error, alpha * (erfc + 1 / (3 * 4^bits)) - 2 * density,
    changes its sign.
    """
    low, high = 0.5, 20.0
    while high - low > 1e-9:
        alpha = (low + high) / 2
        density = math.exp(-alpha * alpha / 2) / math.sqrt(2 * math.pi)
        rising = alpha * (math.erfc(alpha / math.sqrt(2)) + 1 / (3 * 4**bits)) > 2 * density
        low, high = (low, alpha) if rising else (alpha, high)
    return low


def bounds(parties: int, scale: float) -> tuple[list[float], int]:
    """The bounds of all rounds, in standard deviations, and how many values were cut off."""
    rng = np.random.default_rng(parties)
    tensor = Tensor(DIM, CLIP * scale)
    found, cut = [], 0
    for _ in range(ROUNDS):
        bound = tensor.bound()
        found.append(bound)
        updates = rng.normal(size=(parties, DIM))
        cut += int(np.sum(np.abs(updates) > bound))
        tensor.observe(reach([float(np.abs(updates).max())], bound))
    return found, cut


def main(words: Sequence[str] | None = None) -> None:
    """Simulate bounds and write."""
    options = output.options(words, "aciq_bounds", "Bounds of clipping = aciq for dense updates.")
    rows = []
    for parties in PARTIES[:1] if options.quick else PARTIES:
        for scale in SCALES:
            found, cut = bounds(parties, scale)
            settled = float(np.median(found[SETTLED:]))
            few = next(number for number, bound in enumerate(found) if bound <= 2 * settled)
            row = {"parties": parties, "clip": CLIP * scale, "bound": settled, "rounds": few, "cut": cut}
            rows.append(row | {f"lost_{bits}": float(np.log2(settled / factor(bits))) for bits in BITS})
    output.write_csv(options, "aciq-bounds.csv", rows)
    names = ["parties", "`clip` / σ", "bound / σ", "rounds until there", "values cut off"]
    names += [f"bits lost of {bits}" for bits in BITS]
    shown = [
        [str(row["parties"]), f"{row['clip']:g}", f"{row['bound']:.1f}", str(row["rounds"]), str(row["cut"])]
        + [f"{row[f'lost_{bits}']:.1f}" for bits in BITS]
        for row in rows
    ]
    best = ", ".join(f"{factor(bits):.2f} σ for {bits} bits" for bits in BITS)
    about = (
        f"Normal updates of {DIM:,} coordinates that have nothing in common, with the standard deviation "
        f"σ, and the bound of the last {ROUNDS - SETTLED} of {ROUNDS} rounds (median). *Rounds until there*: "
        "after so many the bound was at most twice as wide. *Bits lost*: against the bound with which one "
        f"such update loses least, which is {best}."
    )
    parts = [about, output.table(names, shown)]
    output.write_page(options, "aciq-bounds.md", "What the bounds of aciq cost", parts, timed=False)


if __name__ == "__main__":
    main()
