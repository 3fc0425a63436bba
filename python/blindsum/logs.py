"""What the native core logs: connections, rounds, refusals, in lines without any value of an update or a key.

The core is quiet unless one of these is called, once in a process::

    import logging
    import blindsum.logs

    logging.basicConfig(level=logging.INFO)
    blindsum.logs.to_logging("info")

Levels are ``off``, ``error``, ``warn``, ``info``, ``debug`` or ``trace``, or a list with levels of parts of
the program, e.g. ``"warn,blindsum_net=debug"``.
"""

from __future__ import annotations

import logging
import threading

from blindsum import _native

_LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
_WAIT = 3600.0


def to_logging(levels: str = "info") -> None:
    """Give the core's lines to :mod:`logging` from now on, at loggers below ``blindsum.core``.

    The logger of a line is named by its part of the program, e.g. ``blindsum.core.net.coordinator``. Lines
    are taken by a thread of their own, so the core never waits for a handler; where 4,096 of them wait,
    more are left out, and a warning says how many.

    Raises
    ------
    blindsum.ConfigError
        No such level, or this process has a log already.
    """
    _native.log_to_feed(levels)
    threading.Thread(target=_pass_on, name="blindsum-log", daemon=True).start()


def to_stderr(levels: str = "warn", format: str = "text") -> None:
    """Write the core's lines to standard error from now on, as ``text`` or as ``json``.

    Raises
    ------
    blindsum.ConfigError
        No such level or format, or this process has a log already.
    """
    _native.log_to_stderr(levels, format)


def change(levels: str) -> None:
    """Change which lines are logged from now on.

    Raises
    ------
    blindsum.ConfigError
        No such level, or this process has no log.
    """
    _native.change_log(levels)


def _pass_on() -> None:
    while True:
        line = _native.next_log_line(_WAIT)
        if line is None:
            continue
        level, part, text, left_out = line
        logger = logging.getLogger(f"blindsum.core.{part.removeprefix('blindsum_').replace('::', '.')}")
        if left_out:
            logger.warning("%d lines of the core's log were left out here: they came too fast", left_out)
        logger.log(_LEVELS[level], "%s", text)
