"""Files and folders that a command writes when its work is done, checked before it begins."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

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
    """Write an array as ``.npy``, to the file of this very name: ``numpy.save`` would add an ending to it."""
    import numpy as np

    with open(path, "wb") as file:
        np.save(file, array)


def check_file(option: str, path: str | None) -> None:
    """Refuse a file that could not be written at the end.

    Parameters
    ----------
    option
        The option that names it, for the error.
    path
        The file; it may exist and is replaced then. ``None`` where none is asked for.

    Raises
    ------
    blindsum.ConfigError
        It is a folder, its folder does not exist, or it may not be written.
    """
    if path is None:
        return
    file = Path(path)
    if file.is_dir():
        raise ConfigError(option, f"{path or repr(path)} must be a file, not a folder")
    if not file.parent.is_dir():
        raise ConfigError(option, f"{path}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError(option, f"{path} may not be written")


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
        raise ConfigError(option, f"{path} cannot be a folder: {error.strerror}") from error
    if not os.access(path, os.W_OK):
        raise ConfigError(option, f"{path} may not be written to")
