"""The arrays of a Flower message as one vector, and back.

Floats take part: ``float16``, ``bfloat16``, ``float32`` and ``float64``, scalars among them. Empty arrays
have no coordinate. Arrays of integers and truth values, such as BatchNorm's counter, stay those of the
server.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.arrays import Vector
from blindsum.checks import MAX_WEIGHT, count, in_words
from blindsum.errors import InputError
from blindsum.named_arrays import NamedArrays, Part, dtype_name, values_of

BFLOAT16 = "bfloat16"
"""NumPy has no such element type: an array of it is one of two bytes each."""


class ModelArrays(NamedArrays):
    """The arrays of the server's message, an ``ArrayRecord``, in the order of their keys."""

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

        return ArrayRecord(self._moved(mean))

    def _dtype_of(self, name: str, array: Any) -> str:
        return BFLOAT16 if array.dtype == BFLOAT16 else dtype_name(name, array.dtype)

    def _values_of(self, name: str, array: Any) -> NDArray[np.float64]:
        try:
            raw = np.lib.format.read_array(io.BytesIO(array.data), allow_pickle=False)
        except (ValueError, EOFError, OSError):
            raw = None
        if not isinstance(raw, np.ndarray) or raw.shape != tuple(array.shape):
            rule = "its bytes are no array of its shape; make it by flwr.app.Array(…)"
            raise InputError(f"arrays[{name!r}]", rule)
        if array.dtype == BFLOAT16 and raw.dtype.itemsize == 2:
            words = np.ascontiguousarray(raw).reshape(-1).view(np.uint16)
            return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return values_of(name, raw, self.replied)

    def _array_of(self, values: NDArray[np.float64], part: Part) -> Any:
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
            "arrays",
            f"{where} holds {len(found)} ArrayRecords, and must hold exactly one: put all arrays "
            "that are to be summed in one, as FedAvg does",
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
    whole = count(value)
    if whole is None or not 0 <= whole <= MAX_WEIGHT:
        shown = (
            "is missing" if value is None else f"{in_words(value)} is no whole number from 0 to {MAX_WEIGHT}"
        )
        raise InputError(
            f"metrics[{key!r}]",
            f"{shown}; reply with the number of examples, e.g. MetricRecord({{{key!r}: len(trainset)}})",
        )
    return whole


def check_weight(weight: int, key: str, most: int) -> None:
    """Refuse the weight of a reply that is above the largest one of the job.

    Raises
    ------
    blindsum.InputError
        It is.
    """
    if weight > most:
        raise InputError(
            f"metrics[{key!r}]",
            f"{weight} is more than blindsum-max-weight = {most}, the most examples of a "
            f"node: set blindsum-max-weight = {weight} or more in [tool.flwr.app.config] of pyproject.toml; "
            "where a standing job says it, its operator does",
        )


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
