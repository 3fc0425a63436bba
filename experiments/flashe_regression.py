"""Whether a linear regression converges with sparse `flashe`, by the number of parties, in real jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import blindsum as bs
from experiments import output
from experiments.jobs import Array, play

WEIGHTS = 64
EXAMPLES = 200
NOISE = 0.1
RATE = 0.6
SEED = 7
ROUNDS = 200
EARLIER = 60
PARTIES = (3, 5, 10)
DENSITY = 0.1
CONTRIBUTORS = (0, 2, 1)
"""``min_contributors`` of the jobs; 0 is a dense one."""


def job(parties: int, least: int, rounds: int) -> bs.JobSpec:
    """A job in which all parties take part in every round."""
    protocol = bs.Flashe(density=DENSITY, min_contributors=least) if least else bs.Flashe()
    return bs.JobSpec(
        protocol=protocol,
        parties=parties,
        min_parties=parties,
        dim=WEIGHTS,
        rounds=rounds,
        encoding=bs.Quantised(clip=4.0, bits=16),
    )


def cases(quick: bool) -> Iterator[tuple[int, int]]:
    """Numbers of parties, and ``min_contributors``."""
    for parties in PARTIES[:1] if quick else PARTIES:
        for least in CONTRIBUTORS[1:2] if quick else CONTRIBUTORS:
            yield parties, least


def trained(parties: int, least: int, rounds: int) -> dict[str, Any]:
    """Train from zeros, and say how far from the solution the model is."""
    draws = np.random.default_rng([SEED, parties])
    inputs = draws.normal(size=(parties, EXAMPLES, WEIGHTS))
    targets = inputs @ draws.normal(size=WEIGHTS) + NOISE * draws.normal(size=(parties, EXAMPLES))
    solution = np.linalg.lstsq(inputs.reshape(-1, WEIGHTS), targets.reshape(-1), rcond=None)[0]

    def step(rank: int, model: Array, number: int) -> Array:
        error = inputs[rank] @ model - targets[rank]
        return np.asarray(-RATE * inputs[rank].T @ error / EXAMPLES, np.float32)

    results = play(job(parties, least, rounds), np.zeros(WEIGHTS, np.float32), step)
    far = [float(np.linalg.norm(result.model - solution)) for result in results]
    return {
        "parties": parties,
        "density": DENSITY if least else 1.0,
        "min_contributors": least or "all",
        "at_first": float(np.linalg.norm(solution)),
        "earlier": far[min(EARLIER, rounds) - 1],
        "distance": far[-1],
        "opened": float(np.mean([np.count_nonzero(result.mean) for result in results])) / WEIGHTS,
    }


def table(rows: Sequence[dict[str, Any]], rounds: int) -> str:
    """All jobs."""
    names = ["parties", "density · parties", "`min_contributors`", "at first"]
    names += [f"after {min(EARLIER, rounds)} rounds", f"after {rounds} rounds", "opened"]
    shown = [
        [
            str(row["parties"]),
            f"{row['density'] * row['parties']:.2g}",
            str(row["min_contributors"]),
            f"{row['at_first']:.2f}",
            f"{row['earlier']:.2g}",
            f"{row['distance']:.2g}",
            f"{row['opened']:.1%}",
        ]
        for row in rows
    ]
    return output.table(names, shown)


def main(words: Sequence[str] | None = None) -> None:
    """Train in all ways and write."""
    options = output.options(
        words, "flashe_regression", "A linear regression with sparse flashe, by parties and contributors."
    )
    rounds = 2 if options.quick else ROUNDS
    rows = [trained(*case, rounds) for case in cases(options.quick)]
    output.write_csv(options, "flashe-regression.csv", rows)
    about = (
        f"Distance to the solution of a linear regression, from zeros, in {rounds} rounds of a real job in "
        f"which all parties take part. {WEIGHTS} weights; inputs and true weights are standard normal; each "
        f"party has {EXAMPLES} examples of its own with noise of {NOISE}; an update is the party's gradient "
        f"times -{RATE}. The solution is that of least squares over the examples of all parties. Density "
        f"{DENSITY:g} with `divisor` = `parties`, and dense rounds (`all`) beside it; clip 4, 16 bits, data "
        f"of seed {SEED}. One run each: where coordinates starve runs differ much. *Opened* is the part of "
        "the coordinates of a mean that are not 0."
    )
    sections = [about, table(rows, rounds)]
    title = "A regression in sparse flashe"
    output.write_page(options, "flashe-regression.md", title, sections, timed=False, seeded=False)


if __name__ == "__main__":
    main()
