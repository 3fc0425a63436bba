"""Arrays that take no part in sums keep their element type from round to round.

Flower's average of one reply turns arrays of integers and truth values into ``float64``. In the next round
they would take part: clipped, rounded, and no more what they were.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.flower.records import only_arrays
from blindsum.layouts import DTYPES

BFLOAT16 = "bfloat16"


class FixedArrays:
    """The arrays of the first round that are of no floats."""

    def __init__(self) -> None:
        self._dtypes: dict[str, str] | None = None

    def restored(self, messages: list[Any]) -> list[Any]:
        """Messages in which these arrays have their first element type again.

        Parameters
        ----------
        messages
            Train messages of one round.

        Returns
        -------
        list of Message
            The same messages where nothing is to be done, else copies.
        """
        from flwr.app import ArrayRecord, Message, RecordDict

        key, record = only_arrays(messages[0].content, "the train message")
        if self._dtypes is None:
            self._dtypes = {name: array.dtype for name, array in record.items() if not _is_float(array.dtype)}
        changed = {
            name for name, dtype in self._dtypes.items() if name in record and record[name].dtype != dtype
        }
        if not changed:
            return messages
        found = []
        for message in messages:
            own = message.content.array_records[key]
            arrays = {
                name: _as_type(array, self._dtypes[name]) if name in changed else array
                for name, array in own.items()
            }
            content = RecordDict(dict(message.content))
            content[key] = ArrayRecord(arrays)
            said = message.metadata
            found.append(
                Message(
                    content,
                    dst_node_id=said.dst_node_id,
                    message_type=said.message_type,
                    group_id=said.group_id,
                    ttl=said.ttl,
                )
            )
        return found


def _is_float(dtype: str) -> bool:
    return dtype == BFLOAT16 or dtype in DTYPES


def _as_type(array: Any, dtype: str) -> Any:
    """An array in another element type; whole numbers are rounded to the nearest."""
    from flwr.app import Array

    values: NDArray[Any] = array.numpy()
    if np.dtype(dtype).kind in "iu":
        values = np.rint(values)
    return Array(np.asarray(values.astype(dtype)))
