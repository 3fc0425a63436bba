"""Files of a node that are written whole, and locks that end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from blindsum.durable import flush_folder

MODE = 0o600


def write(path: Path, data: bytes) -> None:
    """Write a file in the place of another, durably: a reader sees the old or the new one.

    Whoever calls this is the only writer of the file.

    Raises
    ------
    OSError
        It cannot be written; the old one is there then.
    """
    new = path.with_name(f"{path.name}.new")
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, MODE)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    flush_folder(path.parent)


class FileLock:
    """A lock between processes. It is its process's alone: a process that is forked from it holds nothing.

    The system's lock is on the opened file, which a forked process shares: one that lives longer, such as a
    worker that loads data, would keep it.

    Parameters
    ----------
    path
        The file of the lock, which is made; its content is never looked at.

    Raises
    ------
    OSError
        It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _forking:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT, MODE)
            _opened.add(self)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self) -> None:
        """Wait for the lock, and hold it."""
        assert self._file is not None
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def is_taken(self) -> bool:
        """Hold the lock where nobody else does, and give whether it is held."""
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_there(self) -> bool:
        """Whether the file of the lock is still the one at its path."""
        assert self._file is not None
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Let the lock go, also where another process has a copy of the opened file."""
        with _forking:
            file, self._file = self._file, None
            _opened.discard(self)
            # A process that is forked in between would have a copy of the file that nobody closes.
            if file is not None:
                fcntl.flock(file, fcntl.LOCK_UN)
                os.close(file)

    def _forget(self) -> None:
        """Close the copy in a forked process: to unlock it would unlock that of the parent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


_opened = set[FileLock]()
_forking = threading.RLock()
"""Held while a process is forked, so that no file is opened in between and left out."""


def _forget_all() -> None:
    for lock in _opened:
        lock._forget()
    _opened.clear()
    _forking.release()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_forget_all)
