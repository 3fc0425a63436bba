"""Short texts that a node remembers in its folder, across processes and runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from blindsum.flower.durable import FileLock, write

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
    OSError
        The folder cannot be written.
    """
    place = Path(folder)
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
    """The lines of such a file; there are none where it does not exist."""
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
