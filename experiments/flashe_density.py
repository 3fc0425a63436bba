"""What density, divisor and the fewest contributors do to training with sparse `flashe`, in real jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import blindsum as bs
from blindsum.demo import digits, network
from experiments import output
from experiments.jobs import Array, play

PARTIES = 6
ROUNDS = 20
SEED = 7
DENSITIES = (0.5, 0.1, 0.05, 0.01)
CONTRIBUTORS = (1, 2)
DIVISORS = ("parties", "senders")


def job(rounds: int, **options: Any) -> bs.JobSpec:
    """A job of the digits, with equal weights."""
    return bs.JobSpec(
        protocol=bs.Flashe(**options),
        parties=PARTIES,
        min_parties=PARTIES,
        dim=network.DIM,
        rounds=rounds,
        encoding=bs.Quantised(clip=2.0, bits=16),
    )


def cases(quick: bool) -> Iterator[dict[str, Any]]:
    """Options of the jobs; the first one is dense."""
    yield {}
    for density in DENSITIES[:1] if quick else DENSITIES:
        for least in CONTRIBUTORS[1:] if quick else CONTRIBUTORS:
            for divisor in DIVISORS:
                yield {"density": density, "min_contributors": least, "divisor": divisor}


def trained(rounds: int, options: dict[str, Any]) -> dict[str, object]:
    """Train, and say how well, how long the first and the last steps were, and what was left over."""
    examples, test = digits.load(SEED)
    parts = digits.deal(examples, PARTIES, SEED)

    def step(rank: int, model: Array, number: int) -> Array:
        part = parts[rank]
        return network.local_update(model, part.images, part.labels, [SEED, number, rank])

    results = play(job(rounds, **options), network.initial_model(SEED), step)
    norms = [float(np.linalg.norm(result.mean)) for result in results]
    left = results[-1].leftover
    return {
        "density": options.get("density", 1.0),
        "min_contributors": options.get("min_contributors", "all"),
        "divisor": options.get("divisor", "all"),
        "accuracy": network.accuracy(np.asarray(results[-1].model, np.float32), test.images, test.labels),
        "step": float(np.mean(norms)),
        "opened": float(np.mean([np.count_nonzero(result.mean) for result in results])) / network.DIM,
        "left": 0.0 if left is None else left.norm,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """All jobs."""
    names = ["density", "`min_contributors`", "`divisor`", "accuracy", "mean step", "opened", "left over"]
    shown = [
        [
            f"{row['density']:g}",
            str(row["min_contributors"]),
            row["divisor"],
            f"{row['accuracy']:.3f}",
            f"{row['step']:.3f}",
            f"{row['opened']:.1%}",
            f"{row['left']:.2f}",
        ]
        for row in rows
    ]
    return output.table(names, shown)


def main(words: Sequence[str] | None = None) -> None:
    """Train in all ways and write."""
    options = output.options(
        words, "flashe_density", "Accuracy of sparse flashe by density, contributors and divisor."
    )
    rounds = 2 if options.quick else ROUNDS
    rows = [trained(rounds, case) for case in cases(options.quick)]
    output.write_csv(options, "flashe-density.csv", rows)
    about = (
        f"Handwritten digits, {PARTIES} parties with unequal data and equal weights, {rounds} rounds of a "
        f"real job, {network.DIM:,} coordinates, 16 bits, seed {SEED}. *Mean step* is the average L2 norm of "
        "the mean of a round, *opened* the part of its coordinates that are not 0, *left over* the norm of "
        "what one party has not sent at the end."
    )
    parts = [about, table(rows)]
    title = "Density in sparse flashe"
    output.write_page(options, "flashe-density.md", title, parts, timed=False, seeded=False)


if __name__ == "__main__":
    main()
