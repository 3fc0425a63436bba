"""Reading and writing the files of certificates, whole and for their owner alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from blindsum import _native, os_errors
from blindsum.durable import flush_folder
from blindsum.errors import IdentityError
from blindsum.os_errors import unreadable

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def with_ending(path: Path, ending: str) -> Path:
    """The path with an ending. Names may contain dots, which ``with_suffix`` would cut."""
    return Path(f"{path}{ending}")


def read(path: Path, what: str) -> str:
    """The text of a file of PEM or JSON.

    Raises
    ------
    blindsum.IdentityError
        It cannot be read, or is no text.
    """
    try:
        return _native.pem_text(path.read_bytes())
    except OSError as error:
        raise IdentityError(f"{what} {path}: {unreadable(error)}") from error
    except IdentityError as error:
        raise IdentityError(f"{what} {path}: {error}") from error


def need(text: str, section: str, what: str, advice: str) -> None:
    """Refuse a text without a section of PEM.

    Raises
    ------
    blindsum.IdentityError
        It has none.
    """
    if f"{section}-----" not in text:
        raise IdentityError(f"{what}: has no section {section}; {advice}")


def refuse_existing(*paths: Path, advice: str = "move it away first") -> None:
    """Refuse to write over a file.

    Raises
    ------
    blindsum.IdentityError
        One of them exists.
    """
    for path in paths:
        if path.exists():
            raise IdentityError(f"{path} exists and is not overwritten; {advice}")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, for their owner alone. A folder that is there keeps its mode.

    Raises
    ------
    blindsum.IdentityError
        It cannot be made.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        raise not_written(folder, error) from error


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist.

    Raises
    ------
    blindsum.IdentityError
        It exists, or cannot be written.
    """
    make_folder(path.parent)
    new = _beside(path, text, FILE_MODE)
    try:
        # A link is refused where the file exists; a rename would replace it.
        os.link(new, path)
    except FileExistsError:
        refuse_existing(path)
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        new.unlink()
    flush_folder(path.parent)


def replace(path: Path, text: str) -> None:
    """Write a file in the place of another, all at once: a reader sees the old text or the new one.

    What is there keeps its mode.

    Raises
    ------
    blindsum.IdentityError
        It cannot be written.
    """
    make_folder(path.parent)
    mode = path.stat().st_mode & 0o777 if path.exists() else FILE_MODE
    new = _beside(path, text, mode)
    try:
        new.replace(path)
    except OSError as error:
        new.unlink()
        raise not_written(path, error) from error
    flush_folder(path.parent)


def _beside(path: Path, text: str, mode: int) -> Path:
    """Write a text to a new file beside ``path``, down to the disk."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        new.unlink(missing_ok=True)
        raise not_written(path, error) from error
    return new


def not_written(path: Path, error: OSError) -> IdentityError:
    """The error of a file that could not be written."""
    return IdentityError(
        f"{path}: cannot be written: {os_errors.words(error)}; give a folder that this user may write to"
    )
