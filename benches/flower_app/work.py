"""What the nodes of the bench do, so that the sum of any of them is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

PLAIN, PEER, OURS = "plain", "peer", "ours"
"""How updates come together: FedAvg as it is; flwr's SecAgg+; Blindsum."""

VICTIM = 1
"""The partition of the node that is lost, where one is."""

NOBODY = "-"
"""In a plan of losses: a round in which all nodes stay."""

KILLED = "killed in training"
"""The process ends, and nobody says so."""

PEER_STAGES = ("setup", "share_keys", "collect_masked_vectors", "unmask")
"""Of flwr's SecAgg+, in order: the node replies with an error in one of them."""

OUR_STAGES = ("before it joins", "training raises", "after its upload")
"""Where a node of ours is lost."""


def update(node: int, dim: int) -> Array:
    """What training changes at a node, the same in each round, shape ``(dim,)``."""
    return np.random.default_rng([7, node]).uniform(-0.5, 0.5, dim).astype(np.float32)


def weight(node: int) -> int:
    """The examples of a node."""
    return 100 + node


def mean(nodes: list[int], dim: int) -> NDArray[np.float64]:
    """The weighted mean of the updates of these nodes."""
    total = sum(map(weight, nodes))
    found = np.zeros(dim)
    for node in nodes:
        found += weight(node) / total * update(node, dim)
    return found


def lost_at(plan: str, number: int) -> str:
    """Where the victim is lost in a round: the plan has a word for each round, with commas between."""
    words = plan.split(",") if plan else []
    return words[number - 1] if number <= len(words) else NOBODY
