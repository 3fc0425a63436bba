"""Frames of Blindsum in a record of Flower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blindsum.errors import NetworkError

KIND = "blindsum.frame"
"""The ``stype`` of their arrays: the bytes are the frame, and no file of NumPy."""


def packed(frames: Sequence[bytes]) -> Any:
    """Frames as an ``ArrayRecord``, which Flower cuts in pieces where they are large, in their order."""
    from flwr.app import Array, ArrayRecord

    arrays = [Array("uint8", (len(frame),), KIND, frame) for frame in frames]
    return ArrayRecord({f"{place:06d}": array for place, array in enumerate(arrays)})


def unpacked(record: Any) -> list[bytes]:
    """The frames of such a record; of ``None`` there are none.

    Raises
    ------
    blindsum.NetworkError
        It holds something else.
    """
    frames = list[bytes]()
    for key in sorted(record or ()):
        array = record[key]
        if array.stype != KIND:
            raise NetworkError(
                f"frame {key}: is an array of the kind {array.stype!r}, and must be of {KIND!r}: install the "
                "same version of Blindsum at the ServerApp and at all nodes"
            )
        frames.append(bytes(array.data))
    return frames
