"""Equality of results that hold arrays."""

from __future__ import annotations

import dataclasses
from typing import Any


class Comparable:
    """A dataclass that is equal to another one of its class if all fields are, arrays element by element.

    NaN is equal to NaN, as nothing else would make a result equal to itself. What holds arrays has no hash.
    """

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [field.name for field in dataclasses.fields(self) if field.compare]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]


def _same(one: Any, other: Any) -> bool:
    # A coordinator's process needs no NumPy.
    import numpy as np

    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
            return False
        has_nan = one.dtype.kind == "f" and other.dtype.kind == "f"
        return bool(np.array_equal(one, other, equal_nan=has_nan))
    return bool(one == other)
