"""Short texts that a node remembers in its folder, across processes and runs."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from blindsum.errors import StoreError
from blindsum.flower.durable import FileLock, write
from blindsum.os_errors import words

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk that is full, or of its user's share."""

MOST = 100_000
"""Texts of a file; the older half is forgotten where there are more."""


def changed(
    folder: str | Path, name: str, change: Callable[[list[str]], list[str]], *, is_bounded: bool = True
) -> None:
    """Change the lines of a file; they are on the disk before this returns.

    A process that ends meanwhile leaves the lines of before.

    Parameters
    ----------
    folder
        The node's folder (``blindsum-state``).
    name
        The file in it.
    change
        Gives the new lines. They are written where they are others.
    is_bounded
        Whether there are :data:`MOST` lines at most.

    Raises
    ------
    blindsum.StoreError
        The folder cannot be read or written.
    """
    try:
        _change(Path(folder), name, change, is_bounded=is_bounded)
    except OSError as error:
        raise unwritable(Path(folder), error) from error


def unwritable(folder: Path, error: OSError) -> StoreError:
    """The error of a node's folder. Another one would not know what the node has trained."""
    cure = "name a folder that this process may write, in --node-config of the SuperNode"
    if error.errno in NO_ROOM:
        cure = "make room there"
    elif folder.is_dir() and any(folder.iterdir()):
        cure = "let this process write it again: another folder would not know what this node has trained"
    return StoreError(f"blindsum-state {folder}: {words(error)}; {cure}")


def _change(place: Path, name: str, change: Callable[[list[str]], list[str]], *, is_bounded: bool) -> None:
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    # An older process of this node may still live. The lock is no file that another takes the place of.
    with FileLock(place / f"{name}.lock") as lock:
        lock.take()
        known = lines(place / name)
        wanted = change(list(known))
        if wanted == known:
            return
        kept = wanted[-MOST // 2 :] if is_bounded and len(wanted) > MOST else wanted
        write(place / name, "".join(f"{line}\n" for line in kept).encode())


def lines(file: Path) -> list[str]:
    """The lines of such a file; there are none where it does not exist.

    Raises
    ------
    blindsum.StoreError
        It is damaged.
    """
    try:
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    except UnicodeDecodeError as error:
        cure = "restore it; where there is no copy, remove it while no run is under way"
        raise StoreError(f"{file}: is damaged ({error.reason} at byte {error.start}); {cure}") from None
