"""The log of a command that runs for long: what goes wrong is on stderr, unless told otherwise."""

from __future__ import annotations

import argparse
import functools
import logging
import os

from blindsum import logs
from blindsum.cli import console
from blindsum.cli.flags import named_as_flags

DEFAULT = "warn"
VARIABLE = "BLINDSUM_LOG"
"""Environment variable with the levels of commands that are not given ``--log``."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe ``--log`` and ``--log-format``."""
    parser.add_argument(
        "--log",
        default=os.environ.get(VARIABLE) or DEFAULT,
        metavar="LEVEL",
        help="log to stderr: off, error, warn, info or debug, or a list, e.g. warn,blindsum_net=debug "
        f"(default: {VARIABLE} of the environment, or {DEFAULT})",
    )
    parser.add_argument(
        "--log-format", default="text", metavar="FORMAT", help="how lines look: text (default) or json"
    )


@functools.cache
def start(level: str, format: str) -> None:
    """Log from now on; a process has one log.

    Raises
    ------
    blindsum.ConfigError
        No such level or format, or there is a log of another level.
    """
    with named_as_flags("log", "log_format"):
        logs.to_stderr(level, format)
    if format == "json":
        console.notes_as_json()
        logging.getLogger("blindsum").addHandler(console.JsonNotes())
