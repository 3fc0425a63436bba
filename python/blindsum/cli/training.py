"""The training function of ``blindsum join --train``: where it is, and what it is called with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from blindsum.checks import count
from blindsum.cli.modules import module, split
from blindsum.errors import ConfigError

if TYPE_CHECKING:
    from blindsum.errors import InputError
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
    home = module(option, name, folder)
    found = getattr(home, function, None)
    if not callable(found):
        what = "has no function" if found is None else f"has no function but a {type(found).__name__} called"
        raise ConfigError(option, f"module {name} {what} {function}; {_functions_of(home)}")
    made: Callable[..., Any] = found
    return made


MAX_NAMES = 12
"""Functions of a module that an error lists."""


def _functions_of(module: Any) -> str:
    """The functions that a module defines itself, for an error."""
    name = module.__name__
    own = [
        text
        for text, value in vars(module).items()
        if callable(value) and not text.startswith("_") and getattr(value, "__module__", None) == name
    ]
    if not own:
        return "it defines none: write one there"
    more = f" and {len(own) - MAX_NAMES} more" if len(own) > MAX_NAMES else ""
    return f"it has {', '.join(own[:MAX_NAMES])}{more}"


def training_file(text: str) -> str | None:
    """The file in which :func:`training_function` found ``module:function``; ``None`` if it has none."""
    return getattr(sys.modules.get(text.partition(":")[0]), "__file__", None)


def update_of(step: Any) -> tuple[Any, Any, Any]:
    """The update, the weight and the metrics that a training function gave; ``None`` for what it left out."""
    from blindsum.errors import InputError

    if not isinstance(step, tuple):
        return step, None, None
    if len(step) in (2, 3):
        return (*step, None)[:3]
    raise InputError(
        "training function",
        f"returned a tuple of {len(step)} values; it must return the update, or "
        "(update, weight), (update, weight, metrics), or None to sit the round out",
    )


def is_zero(weight: Any) -> bool:
    """Whether a weight says that there is no update."""
    return count(weight) == 0


def refused(error: InputError) -> str:
    """Why an update was refused, without anything of its values: the coordinator logs it."""
    if error.index is not None:
        return "an element is not finite, or out of range"
    return "its form, its weight or its metrics do not fit the job"
