"""Models of which a node has reported metrics: a node reports metrics once for each model.

Two sums of a metric over one model are of the same values, so where a node is missing in one of them the
difference is its value. A job of its own for each round does not know what other rounds had; the node does.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Any

MOST = 100_000
"""Models that are remembered; the oldest ones are forgotten first."""


def model_hash(record: Any) -> str:
    """The SHA-256 of the arrays of a message, in hexadecimal digits."""
    found = hashlib.sha256()
    for name, array in record.items():
        for part in (name.encode(), array.dtype.encode(), repr(tuple(array.shape)).encode(), array.data):
            found.update(len(part).to_bytes(8, "big"))
            found.update(part)
    return found.hexdigest()


def is_first_report(folder: str, model: str) -> bool:
    """Whether this node has not reported metrics of a model yet; it is remembered before this returns.

    Parameters
    ----------
    folder
        The node's folder (``blindsum-state``).
    model
        From :func:`model_hash`.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    path = Path(folder) / "measured"
    with open(path, "a+", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        # An older process of this node may still live.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read().split()
        if model in known:
            return False
        if len(known) >= MOST:
            file.seek(0)
            file.truncate()
            file.writelines(f"{one}\n" for one in known[-MOST // 2 :])
        file.write(f"{model}\n")
        file.flush()
        os.fsync(file.fileno())
    return True
