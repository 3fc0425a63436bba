"""Keys and words that both sides of a Flower app share."""

from __future__ import annotations

from blindsum.told_once import logger, told, warn_once

__all__ = ["DIRECT", "ENROL", "MEAN", "ONE", "RECORD", "SIMULATION", "logger", "warn_once"]

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

_told = told
