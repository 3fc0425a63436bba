"""Frames of Blindsum in a record of Flower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blindsum.errors import InputError
from blindsum.flower.texts import FRAMES

KIND = "blindsum.frame"
"""The ``stype`` of their arrays: the bytes are the frame, and no file of NumPy."""


MAX_FRAMES = 100_000
"""Frames in one message."""


def packed(frames: Sequence[bytes]) -> Any:
    """Frames as an ``ArrayRecord``, which Flower cuts in pieces where they are large, in their order."""
    from flwr.app import Array, ArrayRecord

    arrays = [Array("uint8", (len(frame),), KIND, frame) for frame in frames]
    return ArrayRecord({f"{place:06d}": array for place, array in enumerate(arrays)})


def unpacked(record: Any) -> list[bytes]:
    """The frames of such a record; of ``None`` there are none.

    Raises
    ------
    blindsum.InputError
        It holds something else, or too many.
    """
    if record is None:
        return []
    from flwr.app import ArrayRecord

    if not isinstance(record, ArrayRecord) or len(record) > MAX_FRAMES:
        raise _wrong(f"must be an ArrayRecord of at most {MAX_FRAMES} arrays")
    frames = list[bytes]()
    for key in sorted(record):
        array = record[key]
        if array.stype != KIND or not isinstance(array.data, bytes):
            raise _wrong(f"must have arrays of the kind {KIND!r} alone")
        frames.append(array.data)
    return frames


def _wrong(rule: str) -> InputError:
    version = "install the same version of Blindsum at the ServerApp and at all nodes"
    return InputError(FRAMES, f"{rule}; {version}")
