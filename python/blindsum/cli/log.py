"""The log of a command that runs for long: what goes wrong is on stderr, unless told otherwise."""

from __future__ import annotations

import argparse
import functools

from blindsum import _native

DEFAULT = "warn"


def add(parser: argparse.ArgumentParser) -> None:
    """Describe ``--log``."""
    text = f"log to stderr: off, error, warn, info or debug (default: {DEFAULT})"
    parser.add_argument("--log", default=DEFAULT, metavar="LEVEL", help=text)


@functools.cache
def start(level: str) -> None:
    """Log from now on; a process has one log.

    Raises
    ------
    blindsum.ConfigError
        No such level, or there is a log of another level.
    """
    _native.log_to_stderr(level)
