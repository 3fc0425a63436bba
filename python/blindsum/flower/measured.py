"""Models of which a node has reported metrics: a node reports metrics once for each model.

Two sums of a metric over one model are of the same values, so where a node is missing in one of them the
difference is its value. A job of its own for each round does not know what other rounds had; the node does.
"""

from __future__ import annotations

import hashlib
from typing import Any

from blindsum.flower import remembered


def model_hash(record: Any) -> str:
    """The SHA-256 of the arrays of a message, in hexadecimal digits."""
    found = hashlib.sha256()
    for name, array in sorted(record.items()):
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
    blindsum.StoreError
        The folder cannot be written.
    """
    first = False

    def change(known: list[str]) -> list[str]:
        nonlocal first
        first = model not in known
        return [*known, model] if first else known

    remembered.changed(folder, "measured", change)
    return first
