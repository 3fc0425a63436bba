"""The same protocol where Flower simulates: over all updates, in the ServerApp's process.

Nodes of a simulation wait for each other in vain where fewer of them run at once than a round needs. And
one process has no secrets from itself. So nodes reply with their arrays, and the ServerApp runs every party
of the job: encodings, clipping, errors and the loss of nodes are those of a deployment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from blindsum import simulation
from blindsum.arrays import Vector
from blindsum.flower.direct import Sum
from blindsum.flower.records import check_weight, weight_of
from blindsum.flower.refusals import Refusal
from blindsum.flower.settings import NodeSettings, looks_like_ours
from blindsum.policy import Policy
from blindsum.spec import JobSpec

MAX_THREADS = 8

_ACTOR = "flwr.simulation.ray_transport.ray_actor"
"""The module whose ``run`` calls a ClientApp in a simulation."""

FOLDER = "simulation-state"
"""In a message of a simulation: the folder in which its nodes have theirs."""


def is_simulated_grid(grid: Any) -> bool:
    """Whether a grid is that of Flower's simulation."""
    return "InMemoryGrid" in {kind.__name__ for kind in type(grid).__mro__}


def is_simulated_node(config: Mapping[str, object]) -> bool:
    """Whether this process is a node of Flower's simulation.

    The node itself decides: it has a partition and nothing of Blindsum in its configuration, and Flower's own
    actor of its simulation has called this. Nodes of a deployment often have a partition, too, and their apps
    may use Ray; a SuperNode calls them from elsewhere.
    """
    if "partition-id" not in config or any(looks_like_ours(key) for key in config):
        return False
    return _in_actor()


def _in_actor() -> bool:
    """Whether the actor of Flower's simulation has called this, in a worker of Ray."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    frame = sys._getframe()
    while (frame := frame.f_back) is not None:  # type: ignore[assignment]
        if frame.f_code.co_name == "run" and frame.f_globals.get("__name__") == _ACTOR:
            return True
    return False


def check_node(config: Mapping[str, object], settings: NodeSettings) -> None:
    """Refuse to reply with arrays outside of a simulation.

    Raises
    ------
    blindsum.ConfigError
        This is no simulation; ``field`` is ``"blindsum-transport"``.
    """
    if not is_simulated_node(config) and not settings.allows_plain:
        raise Refusal(
            "blindsum-transport",
            "is 'simulation' at the server, which asks for this node's arrays as they are, and this node is "
            "in no simulation: set it to 'direct' in the run's configuration, or leave it out",
        )


def node_settings(context: Any, settings: NodeSettings, told: Mapping[str, object]) -> NodeSettings:
    """The settings of a node; one of a simulation whose transport is messages takes those of the ServerApp.

    Nodes of a simulation have no configuration of their own, and no secrets from the ServerApp, which runs on
    the same machine. A node of a deployment takes nothing from the server side.
    """
    folder = told.get(FOLDER)
    if not isinstance(folder, str) or not is_simulated_node(context.node_config):
        return settings
    policy = Policy(allowed_protocols=None, require_adversary=None, min_corrupt=0.0, min_honest=0)
    state = os.path.join(folder, f"node-{context.node_id}")
    return NodeSettings(state=state, trusts_run=True, policy=policy, allows_repeats=True)


def weight_in(metrics: Mapping[str, object], key: str, spec: JobSpec) -> int:
    """The weight of a reply in a simulation, where the ServerApp reads it; 0 where there are no examples.

    Raises
    ------
    blindsum.InputError
        No whole number of 0 or more, or above the run's largest weight.
    """
    weight = weight_of(metrics, key)
    check_weight(weight, key, spec.max_weight)
    return weight


def summed(
    spec: JobSpec,
    updates: Sequence[Vector],
    weights: Sequence[int],
    metrics: Sequence[Mapping[str, float]],
    seed: int,
) -> Sum | str:
    """Run one round over the updates of the nodes that replied.

    Parameters
    ----------
    spec
        The job, for all nodes that were sampled. Those without an update are dropouts.
    updates, weights, metrics
        Of each node that replied, in one order.
    seed
        The seed of all random numbers.

    Returns
    -------
    Sum or str
        The sum, with numbers for names; or why the round has none.
    """
    lost = spec.parties - len(updates)
    if lost > spec.tolerated:
        return (
            f"too few parties are left: {len(updates)} of {spec.parties} replied, and the job bears the loss "
            f"of {spec.tolerated}"
        )
    # The nodes that are left run the round with the bounds of the job.
    smaller = spec.replace(parties=len(updates)) if lost else spec
    result = simulation.simulate(
        smaller,
        updates,
        weights=weights,
        metrics=metrics if spec.metrics else None,
        seed=seed,
        threads=min(MAX_THREADS, os.cpu_count() or 1),
    )
    if result.outcome != "sum" or result.mean is None:
        return result.fault or "no sum"
    return Sum(
        mean=result.mean,
        total_weight=sum(weights),
        survivors=tuple(str(place) for place in range(len(updates))),
        metrics=result.metrics,
        result="",
    )
