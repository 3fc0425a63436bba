"""Whether flwr is installed, for commands that run it themselves."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

from blindsum.errors import BlindsumError


def need(what: str) -> None:
    """Check, before any work, that flwr and the ray of its simulation are installed.

    Parameters
    ----------
    what
        What needs them, for the error.

    Raises
    ------
    blindsum.BlindsumError
        One of them is not.
    """
    for name in ("flwr", "ray"):
        if find_spec(name) is None:
            raise BlindsumError(
                f"{what} needs {name}, which is not installed in this environment of Python; install it with "
                "`pip install 'blindsum[flower]'`"
            )


def version() -> str:
    """The version of flwr."""
    return metadata.version("flwr")
