"""The training function of ``blindsum join --train``: where it is, and what it is called with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from blindsum.cli.modules import module, split
from blindsum.errors import ConfigError

if TYPE_CHECKING:
    from blindsum.rounds import Round


class RoundNumber(int):
    """The number of a round, as a training function is given it: an ``int`` with what else a round says.

    So ``step(model, round)`` may write ``round`` or ``round.number``, as in :func:`blindsum.join`.

    Attributes
    ----------
    number : int
        The same number.
    parties : tuple of str
        Names of the parties of the round.
    """

    number: int
    parties: tuple[str, ...]

    @classmethod
    def of(cls, current: Round) -> Self:
        """The number of a round."""
        made = cls(current.number)
        made.number = current.number
        made.parties = tuple(current.parties)
        return made


def training_function(text: str) -> Callable[..., Any]:
    """Find the ``module:function`` of ``--train``, also in the current folder; see :func:`imported`."""
    return imported("--train", text)


def imported(option: str, text: str, folder: str | os.PathLike[str] = ".") -> Callable[..., Any]:
    """Find ``module:function``, also in a folder.

    Parameters
    ----------
    option
        What names it, for errors.
    text
        The module, a colon, and the function or class.
    folder
        Where modules are looked for first.

    Raises
    ------
    blindsum.ConfigError
        There is none, or its module cannot be imported: the error says why and in which line of it.
    """
    name, function = split(option, text, "MODULE:FUNCTION, e.g. training:step")
    found = getattr(module(option, name, folder), function, None)
    if not callable(found):
        what = "has no function" if found is None else f"has no function but a {type(found).__name__} called"
        raise ConfigError(option, f"module {name} {what} {function}")
    made: Callable[..., Any] = found
    return made


def training_file(text: str) -> str | None:
    """The file in which :func:`training_function` found ``module:function``; ``None`` if it has none."""
    return getattr(sys.modules.get(text.partition(":")[0]), "__file__", None)
