"""What a command finds by an import path: ``module:name``, also in the current folder."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from typing import Any

from blindsum.errors import ConfigError


def split(option: str, text: str, example: str) -> tuple[str, str]:
    """The module and the name of ``module:name``.

    Raises
    ------
    blindsum.ConfigError
        It is not of this form; ``field`` is the option.
    """
    name, colon, what = text.partition(":")
    if not colon or not name or not what:
        raise ConfigError(option, f"{text!r} must be {example}")
    if not all(part.isidentifier() for part in name.split(".")):
        rule = (
            f"{name!r} is no name of a module: go to its folder, or put that on PYTHONPATH, and give the "
            f"name as `import` takes it, e.g. {example.rpartition(' ')[2]}"
        )
        raise ConfigError(option, rule)
    return name, what


def module(option: str, name: str, folder: str | os.PathLike[str] = ".") -> Any:
    """Import a module, which may be in a folder.

    Raises
    ------
    blindsum.ConfigError
        There is none, or it cannot be imported: the error says why and in which line of it.
    """
    place = os.path.abspath(folder)
    if place not in sys.path:
        sys.path.insert(0, place)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            # Its own imports: what is missing is something else.
            raise _not_imported(option, name, error) from error
        hint = ": leave .py out" if name.endswith(".py") else f"; looked in {place} and on PYTHONPATH"
        raise ConfigError(option, f"there is no module {name}{hint}") from error
    except (Exception, SystemExit) as error:
        # Whatever the user's own code raises; it is told with its place.
        raise _not_imported(option, name, error) from error


def _not_imported(option: str, name: str, error: BaseException) -> ConfigError:
    return ConfigError(option, f"module {name} cannot be imported: {raised(error)}")


def raised(error: BaseException) -> str:
    """What the user's own code has raised, and where."""
    what = traceback.format_exception_only(error)[-1].strip()
    return f"{what}{_place(error)}"


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
