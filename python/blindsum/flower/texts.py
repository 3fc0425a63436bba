"""Keys and words that both sides of a Flower app share."""

from __future__ import annotations

from blindsum.told_once import logger, told, warn_once

__all__ = [
    "DIRECT",
    "ENROL",
    "MEAN",
    "ONE",
    "POLICY",
    "PREFIX",
    "RECORD",
    "SIMULATION",
    "logger",
    "node_key",
    "run_key",
    "warn_once",
]

PREFIX = "blindsum-"
"""What keys of Blindsum begin with in Flower's configurations."""

POLICY = "blindsum-policy-"
"""What rules of a node's policy begin with there."""

RECORD = "blindsum"
"""The key of the ConfigRecord that Blindsum adds to messages and replies."""

DIRECT = "direct"
"""Nodes go to a coordinator over Blindsum's own connection."""

MESSAGES = "messages"
"""Frames of Blindsum travel in Flower's own messages."""

FRAMES = "blindsum-frames"
"""The key of the ArrayRecord with them."""

SIMULATION = "simulation"
"""Nodes reply with their arrays, and the protocol runs in the ServerApp's process."""

ENROL = "enrol"
"""Nodes reply with a signing request for a certificate of this run."""

MEAN = "mean"
"""Every node replies with the mean, which the strategy averages."""

ONE = "one"
"""The strategy gets one reply with the mean."""

_OF_NODES = {
    **{"revoked": "blindsum-crl", "state_dir": "blindsum-state", "servers": "blindsum-servers"},
    **{"identity": "blindsum-identity", "ca": "blindsum-ca", "give_up_after": "blindsum-give-up-after"},
}
"""Keys of a node by the arguments of :func:`blindsum.join`."""

_told = told


def run_key(name: str) -> str:
    """The key of the run's configuration that sets something."""
    return PREFIX + name.replace("_", "-")


def node_key(name: str) -> str:
    """The key of the node's configuration that sets an argument of :func:`blindsum.join`, or a rule."""
    if name.startswith("policy."):
        return POLICY + name.removeprefix("policy.").replace("_", "-")
    return _OF_NODES.get(name, name)
