"""Warnings that are written once in a process."""

from __future__ import annotations

import logging

logger = logging.getLogger("blindsum")

told = set[str]()
"""The keys of the warnings that were written."""


def warn_once(key: str, text: str, *values: object) -> None:
    """Write a warning to the logger ``blindsum``, once in this process for each ``key``."""
    if key not in told:
        told.add(key)
        logger.warning(text, *values)
