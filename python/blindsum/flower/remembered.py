"""Short texts that a node remembers in its folder, across processes and runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

MOST = 100_000
"""Texts of a file; the older half is forgotten where there are more."""


def changed(folder: str, name: str, change: Callable[[list[str]], list[str]]) -> None:
    """Change the lines of a file; they are on the disk before this returns.

    Parameters
    ----------
    folder
        The node's folder (``blindsum-state``).
    name
        The file in it.
    change
        Gives the new lines. They are written where they are others.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    path = Path(folder) / name
    with open(path, "a+", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        # An older process of this node may still live.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read().splitlines()
        wanted = change(list(known))
        if wanted == known:
            return
        if wanted[: len(known)] == known and len(wanted) <= MOST:
            file.writelines(f"{line}\n" for line in wanted[len(known) :])
        else:
            file.seek(0)
            file.truncate()
            kept = wanted if len(wanted) <= MOST else wanted[-MOST // 2 :]
            file.writelines(f"{line}\n" for line in kept)
        file.flush()
        os.fsync(file.fileno())
