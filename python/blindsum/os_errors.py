"""Errors of the system in plain words: without numbers, and without a path that is said already."""

from __future__ import annotations

import errno
import os

_WORDS = {
    errno.ENOENT: "there is no such file or folder",
    errno.EACCES: "this user may not do that there",
    errno.EPERM: "this user may not do that there",
    errno.EEXIST: "it exists already",
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a part of its path is no folder",
    errno.ENOSPC: "there is no room left on the disk",
    errno.EROFS: "the disk is read-only",
    errno.ECONNREFUSED: "nothing listens there: start it, or correct host and port",
    errno.EADDRINUSE: "another program uses that address",
}


def words(error: OSError) -> str:
    """What failed, for people."""
    if error.errno in _WORDS:
        return _WORDS[error.errno]
    text = error.strerror or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def unreadable(error: OSError, advice: str = "give the path of one that is there") -> str:
    """Why a file cannot be read, and what to do."""
    match error:
        case FileNotFoundError():
            why = f"there is no such file; {advice}"
        case IsADirectoryError():
            why = f"it is a folder; {advice}"
        case PermissionError():
            why = "this user may not read it; change its permissions, or give another file"
        case _:
            why = words(error)
    return f"cannot be read: {why}"


def in_words(error: OSError) -> str:
    """An error of a file that nobody has put into words yet."""
    if error.errno == errno.ENOSPC:
        return "there is no space left on the disk: make room, or write elsewhere"
    if error.filename is None:
        return words(error)
    match error:
        case FileNotFoundError():
            why = "there is no such file or folder; give the path of one that is there"
        case PermissionError():
            why = "this user may not use it; change its permissions, or give another path"
        case _:
            why = words(error)
    return f"{os.fsdecode(error.filename)}: {why}"
