"""Frames of Blindsum in a record of Flower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from blindsum.errors import NetworkError


def packed(frames: Sequence[bytes]) -> Any:
    """Frames as an ``ArrayRecord``, which Flower cuts in pieces where they are large, in their order."""
    from flwr.app import Array, ArrayRecord

    arrays = [Array(np.frombuffer(frame, dtype=np.uint8)) for frame in frames]
    return ArrayRecord({f"{place:06d}": array for place, array in enumerate(arrays)})


def unpacked(record: Any) -> list[bytes]:
    """The frames of such a record; of ``None`` there are none.

    Raises
    ------
    blindsum.NetworkError
        It holds something else than bytes.
    """
    frames = list[bytes]()
    for key in sorted(record or ()):
        try:
            frame = record[key].numpy()
        except (ValueError, TypeError, EOFError) as error:
            raise NetworkError(f"frame {key} is damaged ({error}): send the message again") from None
        if frame.dtype != np.uint8 or frame.ndim != 1:
            raise NetworkError(
                f"frame {key} is of {frame.dtype} and {frame.ndim} dimensions, and must be a row of uint8: "
                "install the same version of Blindsum at the ServerApp and at all nodes"
            )
        frames.append(frame.tobytes())
    return frames
