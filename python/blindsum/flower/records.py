"""The arrays of a Flower message as one vector, and back.

Floats take part: ``float16``, ``bfloat16``, ``float32`` and ``float64``, scalars among them. Empty arrays
have no coordinate. Arrays of integers and truth values, such as BatchNorm's counter, stay those of the
server.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.arrays import Vector
from blindsum.checks import whole_number
from blindsum.errors import ConfigError, InputError
from blindsum.layouts import DTYPES

BFLOAT16 = "bfloat16"
"""NumPy has no such element type: an array of it is one of two bytes each."""


@dataclass(frozen=True)
class Part:
    """An array that takes part.

    Attributes
    ----------
    name : str
        Its key in the ArrayRecord.
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


class ModelArrays:
    """The arrays of the server's message, in the order of their keys.

    Parameters
    ----------
    record
        An ``ArrayRecord``.

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

    def __init__(self, record: Any) -> None:
        self._record = record
        parts, fixed, end = list[Part](), list[str](), 0
        for name, array in record.items():
            dtype = _dtype(name, array.dtype)
            if dtype not in DTYPES:
                fixed.append(name)
                continue
            shape = tuple(int(size) for size in array.shape)
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
        """What training changed: a node's arrays less those of the message.

        Parameters
        ----------
        local
            The ``ArrayRecord`` of the node's reply, in any order of keys.

        Returns
        -------
        numpy.ndarray
            Shape ``(dim,)``; float64 if an array is, else float32.

        Raises
        ------
        blindsum.InputError
            Another set of keys or another shape than the server's, or a number that is not finite.
        """
        missing = sorted(set(self._record) - set(local))
        further = sorted(set(local) - set(self._record))
        if missing or further:
            rule = f"without {', '.join(map(repr, missing))}" if missing else f"with {further[0]!r} besides"
            raise InputError(
                f"arrays: the reply comes {rule}; reply with the same keys as the message "
                f"({len(self._record)} arrays)"
            )
        vector = np.empty(self.dim, self._dtype)
        for part in self._parts:
            array = local[part.name]
            if tuple(array.shape) != part.shape:
                raise InputError(
                    f"arrays[{part.name!r}]: has the shape {tuple(array.shape)} in the reply, and "
                    f"{part.shape} in the message; reply with the shape of the message"
                )
            change = _values(part.name, array) - _values(part.name, self._record[part.name])
            if not np.isfinite(change).all():
                index = int(np.flatnonzero(~np.isfinite(change))[0])
                where = [int(one) for one in np.unravel_index(index, part.shape)] if part.shape else ""
                raise InputError(
                    f"arrays[{part.name!r}]{where}: is not finite after training; check the learning rate "
                    "and the data, and reply with finite numbers",
                    part.begin + index,
                )
            vector[part.begin : part.end] = change
        return vector

    def moved(self, mean: Vector) -> Any:
        """The arrays of the message plus a mean, each rounded to its own element type.

        Parameters
        ----------
        mean
            Shape ``(dim,)``.

        Returns
        -------
        flwr.app.ArrayRecord
            With the keys of the message, in their order.
        """
        from flwr.app import ArrayRecord

        found = dict(self._record)
        for part in self._parts:
            values = _values(part.name, self._record[part.name]) + mean[part.begin : part.end]
            found[part.name] = _array(values, part)
        return ArrayRecord(found)


def only_arrays(content: Any, where: str) -> tuple[str, Any]:
    """The key and the one ``ArrayRecord`` of a message's content.

    Raises
    ------
    blindsum.InputError
        None, or several.
    """
    found = list(content.array_records.items())
    if len(found) != 1:
        raise InputError(
            f"arrays: {where} holds {len(found)} ArrayRecords, and must hold exactly one: put all arrays "
            "that are to be summed in one, as FedAvg does"
        )
    key, record = found[0]
    return str(key), record


def weight_of(metrics: Mapping[str, object], key: str) -> int:
    """The weight of a reply: its number of examples, a whole number.

    Raises
    ------
    blindsum.InputError
        None, or no whole number of 0 or more. ``12.0`` is one, ``12.5`` is not.
    """
    value = metrics.get(key)
    whole = whole_number(value)
    if whole is None and isinstance(value, float) and value.is_integer():
        whole = int(value)
    if whole is None or whole < 0:
        shown = "is missing" if value is None else f"{value!r} is no whole number of 0 or more"
        raise InputError(
            f"metrics[{key!r}]: {shown}; reply with the number of examples, e.g. "
            f"MetricRecord({{{key!r}: len(trainset)}})"
        )
    return whole


def metrics_of(
    metrics: Mapping[str, object], declared: Iterable[str], weighted_by: str
) -> tuple[dict[str, float], list[str]]:
    """The metrics of a reply that the job sums, and the names of those that it does not."""
    names = set(declared)
    found = {
        name: float(value)
        for name, value in metrics.items()
        if name in names and isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return found, sorted(set(metrics) - set(found) - {weighted_by})


def only_metrics(content: Any) -> dict[str, Any]:
    """All metrics of a reply; those of several MetricRecords together."""
    return {name: value for record in content.metric_records.values() for name, value in record.items()}


def mean_content(
    key: str,
    arrays: Any,
    weighted_by: str,
    total_weight: int,
    metrics: Mapping[str, float | None],
) -> Any:
    """The content of a reply with the mean, as a strategy takes it: one ArrayRecord and one MetricRecord."""
    from flwr.app import MetricRecord, RecordDict

    told = {name: value for name, value in metrics.items() if value is not None}
    return RecordDict({key: arrays, "metrics": MetricRecord({weighted_by: total_weight, **told})})


def _dtype(name: str, dtype: str) -> str:
    """The element type of an array by its name, without the order of bytes."""
    if dtype == BFLOAT16:
        return dtype
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.name in DTYPES or found.kind in "iub":
        return found.name
    rule = f"is of {dtype}, and must be of {', '.join(DTYPES)}, integers or truth values: convert it"
    raise ConfigError(f"arrays[{name!r}]", rule)


def _values(name: str, array: Any) -> NDArray[np.float64]:
    """The numbers of an array, flat.

    Raises
    ------
    blindsum.InputError
        Its bytes are not those of such an array.
    """
    try:
        raw = np.lib.format.read_array(io.BytesIO(array.data), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raw = None
    if not isinstance(raw, np.ndarray) or raw.shape != tuple(array.shape):
        rule = "its bytes are no array of its shape; make it by flwr.app.Array(…)"
        raise InputError(f"arrays[{name!r}]: {rule}")
    if array.dtype == BFLOAT16 and raw.dtype.itemsize == 2:
        words = np.ascontiguousarray(raw).reshape(-1).view(np.uint16)
        return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if raw.dtype.kind not in "fiub":
        raise InputError(f"arrays[{name!r}]: is of {raw.dtype} in the reply; reply with floats")
    flat: NDArray[np.float64] = np.asarray(raw, np.float64).reshape(-1)
    return flat


def _array(values: NDArray[np.float64], part: Part) -> Any:
    """Numbers as an array of Flower, rounded to the nearest of its element type."""
    from flwr.app import Array

    if part.dtype != BFLOAT16:
        return Array(np.asarray(values.reshape(part.shape), np.dtype(part.dtype)))
    words = values.astype(np.float32).view(np.uint32)
    # To the nearest, and of two equally near ones to the even one.
    nearest = (words + 0x7FFF + ((words >> 16) & 1)) >> 16
    raw = nearest.astype(np.uint16).reshape(part.shape).view("V2")
    buffer = io.BytesIO()
    np.save(buffer, raw, allow_pickle=False)
    return Array(BFLOAT16, part.shape, "numpy.ndarray", buffer.getvalue())
