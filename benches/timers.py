"""The timers of the native module, which are in no wheel: what needs them says so before it does any work."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import wraps

from blindsum import _native
from blindsum.errors import ConfigError


def need(what: str) -> None:
    """Check that the native module was built with the timers.

    Parameters
    ----------
    what
        What needs them, for the error.

    Raises
    ------
    blindsum.ConfigError
        It was not, as by ``make demo`` and in a wheel.
    """
    if "timers" not in _native.build_features:
        rule = "needs a native module with timers, and this one has none: run `make bench`, which builds it"
        raise ConfigError(what, rule)


def timed(run: Callable[[argparse.Namespace], int], what: str) -> Callable[[argparse.Namespace], int]:
    """A command that checks first that there are timers."""

    @wraps(run)
    def checked(options: argparse.Namespace) -> int:
        need(what)
        return run(options)

    return checked
