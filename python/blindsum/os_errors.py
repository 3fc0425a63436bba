"""Errors of the system in plain words: without numbers, and without a path that is said already."""

from __future__ import annotations

import errno

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
