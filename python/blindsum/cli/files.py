"""Files and folders that a command writes when its work is done, checked before it begins."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blindsum import os_errors
from blindsum.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def named(text: str) -> str:
    """The path of an option; the ``type`` of every option that names a file or folder.

    Raises
    ------
    argparse.ArgumentTypeError
        It is empty, as of a variable that is not set.
    """
    from blindsum import checks

    try:
        return checks.path("path", text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.rule) from error


def write_array(path: str, array: NDArray[np.generic]) -> None:
    """Write an array as ``.npy``, for this user alone.

    It goes to the file of this very name: ``numpy.save`` would add an ending to it. A model tells of the data
    that it was trained with.
    """
    import numpy as np

    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as file:
        os.fchmod(file.fileno(), PRIVATE)
        np.save(file, array)


PRIVATE = 0o600
"""The mode of files that only their owner reads."""


def check_file(option: str, path: str | None, beside: Sequence[tuple[str, str | None]] = ()) -> None:
    """Refuse a file that could not be written at the end, or that would replace an input of the command.

    Parameters
    ----------
    option
        The option that names it, for the error.
    path
        The file; it may exist and is replaced then. ``None`` where none is asked for.
    beside
        The command's inputs, each with the option that names it; ``None`` where an option is not given.

    Raises
    ------
    blindsum.ConfigError
        It is a folder, its folder does not exist, it may not be written, or it is an input.
    """
    from blindsum.checks import same_file

    if path is None:
        return
    file = Path(path)
    if file.is_dir():
        raise ConfigError(option, f"{path or repr(path)} must be a file, not a folder")
    if not file.parent.is_dir():
        raise ConfigError(option, f"{path}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError(option, f"{path} may not be written")
    for name, given in beside:
        if given is not None and same_file(path, given):
            raise ConfigError(option, f"{path} is a file of {name} and would be replaced: give another one")


def inputs(options: argparse.Namespace, *names: str) -> list[tuple[str, str | None]]:
    """The files that these options of a command name, for :func:`check_file`; absent options have none."""
    found: list[tuple[str, str | None]] = []
    for name in names:
        option = f"--{name.replace('_', '-')}"
        path: str | None = getattr(options, name)
        found.append((option, path))
        if path is not None:
            found += [(option, path + ending) for ending in _ENDINGS.get(name, ())]
    return found


_ENDINGS = {
    "identity": (".pem", ".key"),
    "membership_identity": (".pem", ".key"),
    "ca": ("/ca.pem",),
    "store": ("-wal", "-shm", "-journal"),
}
"""Endings of further files that an option names; those of a store are SQLite's."""


def check_folder(option: str, path: str) -> None:
    """Make a folder for what comes at the end, where it does not exist yet.

    Parameters
    ----------
    option
        The option that names it, for the error.
    path
        The folder.

    Raises
    ------
    blindsum.ConfigError
        It cannot be made, or not written to.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(option, f"{path} cannot be a folder: {os_errors.words(error)}") from error
    if not os.access(path, os.W_OK):
        raise ConfigError(option, f"{path} may not be written to")
