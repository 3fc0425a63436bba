"""Keys and words that both sides of a Flower app share."""

from __future__ import annotations

import logging

logger = logging.getLogger("blindsum")

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

_told = set[str]()


def warn_once(key: str, text: str, *values: object) -> None:
    """Write a warning to the logger ``blindsum``, once in this process for each ``key``."""
    if key not in _told:
        _told.add(key)
        logger.warning(text, *values)
