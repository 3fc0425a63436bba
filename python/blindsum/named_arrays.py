"""A model of named arrays, as frameworks send it, as one vector and back.

Floats take part, scalars among them. Empty arrays have no coordinate. Arrays of integers and truth values,
such as BatchNorm's counter, stay those of the server. How an array of a framework is read and made, a
subclass says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.arrays import Vector
from blindsum.errors import ConfigError, InputError
from blindsum.layouts import DTYPES


@dataclass(frozen=True)
class Part:
    """An array that takes part.

    Attributes
    ----------
    name : str
        Its key in the model.
    dtype : str
        Its element type, one of :data:`blindsum.layouts.DTYPES`.
    shape : tuple of int
        Its shape; ``()`` is a scalar.
    begin, end : int
        Its coordinates in the vector.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class NamedArrays:
    """The arrays that a server sent, in the order of their keys.

    Parameters
    ----------
    arrays
        A mapping of names to arrays of the framework.

    Attributes
    ----------
    dim : int
        Coordinates of the vector.
    fixed : tuple of str
        Keys of arrays that stay those of the server: integers and truth values.

    Raises
    ------
    blindsum.ConfigError
        No array of floats, or one of an element type that cannot take part.
    """

    sent = "message"
    """What the server sent, in words."""

    replied = "reply"
    """What comes back, in words."""

    def __init__(self, arrays: Any) -> None:
        self._arrays: Mapping[str, Any] = arrays
        parts, fixed, end = list[Part](), list[str](), 0
        for name, array in arrays.items():
            dtype = self._dtype_of(name, array)
            if dtype not in DTYPES:
                fixed.append(name)
                continue
            shape = self._shape_of(array)
            begin, end = end, end + math.prod(shape)
            parts.append(Part(name, dtype, shape, begin, end))
        self._parts = tuple(parts)
        self.dim, self.fixed = end, tuple(fixed)
        if end == 0:
            rule = "no array of floats takes part, and a sum needs a coordinate: give the model as arrays of "
            raise ConfigError("arrays", rule + ", ".join(DTYPES))
        double = any(part.dtype == "float64" for part in parts)
        self._dtype = np.dtype(np.float64 if double else np.float32)

    def difference(self, local: Any) -> Vector:
        """What training changed: the arrays of a reply less those that the server sent.

        Parameters
        ----------
        local
            The arrays of the reply, in any order of keys.

        Returns
        -------
        numpy.ndarray
            Shape ``(dim,)``; float64 if an array is, else float32.

        Raises
        ------
        blindsum.InputError
            Another set of keys or another shape than the server's, or a number that is not finite.
        """
        return self._vector(local, self._arrays, frozenset())

    def change(self, local: Any) -> Vector:
        """A change of the server's arrays, as a reply gives it, as a vector; as :meth:`difference`.

        Arrays that stay those of the server may be left out.
        """
        return self._vector(local, None, frozenset(self.fixed))

    def _vector(self, local: Any, base: Mapping[str, Any] | None, optional: frozenset[str]) -> Vector:
        missing = sorted(set(self._arrays) - set(local) - optional)
        further = sorted(set(local) - set(self._arrays))
        if missing or further:
            rule = f"without {', '.join(map(repr, missing))}" if missing else f"with {further[0]!r} besides"
            raise InputError(
                "arrays",
                f"the {self.replied} comes {rule}; reply with the same keys as the {self.sent} "
                f"({len(self._arrays)} arrays)",
            )
        vector = np.empty(self.dim, self._dtype)
        for part in self._parts:
            array = local[part.name]
            shape = self._shape_of(array)
            if shape != part.shape:
                raise InputError(
                    f"arrays[{part.name!r}]",
                    f"has the shape {shape} in the {self.replied}, and "
                    f"{part.shape} in the {self.sent}; reply with the shape of the {self.sent}",
                )
            change = self._values_of(part.name, array)
            if base is not None:
                change = change - self._values_of(part.name, base[part.name])
            if not np.isfinite(change).all():
                index = int(np.flatnonzero(~np.isfinite(change))[0])
                where = [int(one) for one in np.unravel_index(index, part.shape)] if part.shape else ""
                raise InputError(
                    f"arrays[{part.name!r}]{where}",
                    "is not finite after training; check the learning rate "
                    "and the data, and reply with finite numbers",
                    part.begin + index,
                )
            vector[part.begin : part.end] = change
        return vector

    def _moved(self, mean: Vector) -> dict[str, Any]:
        """The server's arrays plus a mean, each rounded to its own element type."""
        found = dict(self._arrays.items())
        for part in self._parts:
            values = self._values_of(part.name, self._arrays[part.name]) + mean[part.begin : part.end]
            found[part.name] = self._array_of(values, part)
        return found

    def _changes(self, mean: Vector) -> dict[str, Any]:
        """A mean as arrays with the names and shapes of the server's; without those that stay."""
        return {
            part.name: self._array_of(np.asarray(mean[part.begin : part.end], np.float64), part)
            for part in self._parts
        }

    def _dtype_of(self, name: str, array: Any) -> str:
        """The name of an array's element type, without the order of bytes."""
        return dtype_name(name, array.dtype)

    def _shape_of(self, array: Any) -> tuple[int, ...]:
        return tuple(int(size) for size in array.shape)

    def _values_of(self, name: str, array: Any) -> NDArray[np.float64]:
        """The numbers of an array, flat."""
        raise NotImplementedError

    def _array_of(self, values: NDArray[np.float64], part: Part) -> Any:
        """Numbers as an array of the framework, rounded to the nearest of its element type."""
        raise NotImplementedError


def dtype_name(name: str, dtype: Any) -> str:
    """The name of an element type that takes part or stays, without the order of bytes.

    Raises
    ------
    blindsum.ConfigError
        Another one, as complex numbers or texts.
    """
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.name in DTYPES or found.kind in "iub":
        return str(found.name)
    rule = f"is of {dtype}, and must be of {', '.join(DTYPES)}, integers or truth values: convert it"
    raise ConfigError(f"arrays[{name!r}]", rule)


def values_of(name: str, values: NDArray[Any], replied: str) -> NDArray[np.float64]:
    """The numbers of a NumPy array, flat.

    Raises
    ------
    blindsum.InputError
        It is of no numbers.
    """
    if values.dtype.kind not in "fiub":
        raise InputError(f"arrays[{name!r}]", f"is of {values.dtype} in the {replied}; reply with floats")
    flat: NDArray[np.float64] = np.asarray(values, np.float64).reshape(-1)
    return flat
