"""Plain FedAvg with the same seeds and the same dropouts, computed in this process in the clear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blindsum.demo import network
from blindsum.demo.digits import Examples

Array = NDArray[np.float32]

CLIP = 2.0
"""Bound on a coordinate of an update; the job's ``clip``."""


def plain_mean(
    model: Array, data: Sequence[Examples], survivors: Sequence[int], seed: int, number: int, weighted: bool
) -> NDArray[np.float64]:
    """Mean of the survivors' updates of one round, in double precision; if asked, weighted by examples."""
    total = np.zeros(network.DIM)
    for rank in survivors:
        part = data[rank]
        update = network.local_update(model, part.images, part.labels, [seed, number, rank])
        total += weight(part, weighted) * np.clip(update.astype(np.float64), -CLIP, CLIP)
    return total / sum(weight(data[rank], weighted) for rank in survivors)


def weight(part: Examples, weighted: bool) -> int:
    """What the update of a party weighs."""
    return len(part) if weighted else 1


def plain_fedavg(
    model: Array,
    data: Sequence[Examples],
    rounds: Sequence[tuple[int, Sequence[int]]],
    seed: int,
    weighted: bool,
) -> list[Array]:
    """Run FedAvg from ``model``; gives the model after each round.

    Parameters
    ----------
    model
        Where to start, shape ``(DIM,)``.
    data
        The parties' examples, by rank.
    rounds
        Number and survivors (ranks) of each round.
    seed
        The run's seed.
    weighted
        Whether an update weighs as much as there are examples; otherwise all weigh alike.
    """
    models = []
    for number, survivors in rounds:
        mean = plain_mean(model, data, survivors, seed, number, weighted)
        model = (model + mean).astype(np.float32)
        models.append(model)
    return models
