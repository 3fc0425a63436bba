"""The training function of ``blindsum join --train``: where it is, and what it is called with."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

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
    """Find the ``module:function`` of ``--train``; see :func:`imported`."""
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
    name, colon, function = text.partition(":")
    if not colon or not name or not function:
        raise ConfigError(option, f"{text!r} must be MODULE:FUNCTION, e.g. training:step")
    if not all(part.isidentifier() for part in name.split(".")):
        rule = (
            f"{name!r} is no name of a module: go to its folder, or put that on PYTHONPATH, and give the "
            "name as `import` takes it, e.g. training:step"
        )
        raise ConfigError(option, rule)
    module = _module(option, name, os.path.abspath(folder))
    found = getattr(module, function, None)
    if not callable(found):
        what = "has no function" if found is None else f"has no function but a {type(found).__name__} called"
        raise ConfigError(option, f"module {name} {what} {function}; {_functions_of(module)}")
    made: Callable[..., Any] = found
    return made


MOST_NAMES = 12
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
    more = f" and {len(own) - MOST_NAMES} more" if len(own) > MOST_NAMES else ""
    return f"it has {', '.join(own[:MOST_NAMES])}{more}"


def training_file(text: str) -> str | None:
    """The file in which :func:`training_function` found ``module:function``; ``None`` if it has none."""
    return getattr(sys.modules.get(text.partition(":")[0]), "__file__", None)


def _module(option: str, name: str, folder: str) -> Any:
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            # Its own imports: what is missing is something else.
            raise _not_imported(option, name, error) from error
        hint = ": leave .py out" if name.endswith(".py") else f"; looked in {folder} and on PYTHONPATH"
        raise ConfigError(option, f"there is no module {name}{hint}") from error
    except (Exception, SystemExit) as error:
        # Whatever the user's own code raises; it is told with its place.
        raise _not_imported(option, name, error) from error


def _not_imported(option: str, name: str, error: BaseException) -> ConfigError:
    what = traceback.format_exception_only(error)[-1].strip()
    return ConfigError(option, f"module {name} cannot be imported: {what}{_place(error)}")


def _place(error: BaseException) -> str:
    """The last line of the user's own files that led to an error."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f" ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_OF_OTHERS)]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


_OF_OTHERS = (
    "<frozen ",
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    *(path for path in sysconfig.get_paths().values() if path != sysconfig.get_path("data")),
)
"""Beginnings of the files of Python, of installed packages and of this one."""
