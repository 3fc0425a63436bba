"""IDX, the format of MNIST and Fashion-MNIST: big-endian numbers, then one byte a pixel or label."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.errors import DataError
from blindsum.learning.dataset import Dataset, images

SIDE = 28
"""Pixels of a side."""
UNSIGNED_BYTES = 8
"""The type of the values that the header names."""


def read(images_path: Path, labels_path: Path, names: Sequence[str]) -> Dataset:
    """Read images and their labels.

    Raises
    ------
    blindsum.DataError
        A file is damaged, or the two do not belong together.
    """
    pixels = read_array(images_path, 3)
    labels = read_array(labels_path, 1)
    if pixels.shape[1:] != (SIDE, SIDE):
        raise DataError(
            images_path, f"its images have {pixels.shape[1]} × {pixels.shape[2]} pixels, not 28 × 28"
        )
    if len(pixels) != len(labels):
        raise DataError(labels_path, f"it has {len(labels)} labels for {len(pixels)} images in {images_path}")
    if not len(labels):
        raise DataError(labels_path, "it has no example")
    if labels.max() >= len(names):
        raise DataError(labels_path, f"it has the label {labels.max()}, and the last one is {len(names) - 1}")
    return Dataset(images(pixels)[:, None], labels.astype(np.int64), None, names)


def read_array(path: Path, axes: int) -> NDArray[Any]:
    """Read an array of bytes with so many axes; a name that ends in ``.gz`` is unpacked.

    Raises
    ------
    blindsum.DataError
        The file is damaged, or has another type or number of axes.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(4 + 4 * axes)
            magic = bytes([0, 0, UNSIGNED_BYTES, axes])
            if len(header) < 4 + 4 * axes or header[:4] != magic:
                raise DataError(path, f"it does not begin as an IDX file of bytes with {axes} axes")
            shape = tuple(int.from_bytes(header[place : place + 4]) for place in range(4, len(header), 4))
            size = math.prod(shape)
            # Nothing is reserved for a size that the header only claims.
            content = file.read(size + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(path, f"it cannot be unpacked: {error}") from error
    except (OSError, OverflowError, MemoryError) as error:
        raise DataError(path, f"it cannot be read: {error or 'too large'}") from error
    if len(content) != size:
        kind = "fewer" if len(content) < size else "more"
        raise DataError(path, f"it has {kind} bytes than the {size} that its header says")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
