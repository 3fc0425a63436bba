"""SVHN, digits on houses, cropped to squares of 32 pixels: files of MATLAB, which scipy reads."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from blindsum.errors import BlindsumError, DataError
from blindsum.learning.dataset import Dataset, images

NAMES = tuple("0123456789")


def read(path: Path) -> Dataset:
    """Read images and their labels.

    Raises
    ------
    blindsum.BlindsumError
        scipy is not installed.
    blindsum.DataError
        The file is damaged.
    """
    try:
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ImportError as error:
        raise BlindsumError("SVHN needs scipy; install it with `pip install 'blindsum[data]'`") from error
    damaged = (
        MatReadError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        NotImplementedError,
        OSError,
        OverflowError,
        TypeError,
        ValueError,
        struct.error,
        zlib.error,
    )
    try:
        content = loadmat(path, variable_names=["X", "y"])
    except damaged as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise DataError(path, f"it is no file of MATLAB that can be read: {text}") from error
    pixels, labels = content.get("X"), content.get("y")
    if getattr(pixels, "dtype", None) != np.uint8 or pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3):
        raise DataError(path, "its X is no array of bytes of shape (32, 32, 3, n)")
    count = pixels.shape[3]
    if not count or getattr(labels, "shape", None) != (count, 1) or labels.dtype.kind not in "iuf":
        raise DataError(path, f"its y is no array of labels of shape ({count}, 1)")
    if not np.isin(labels, np.arange(1, 11)).all():
        raise DataError(path, "a label in y is no whole number from 1 to 10")
    # 10 stands for the digit 0.
    digits = labels[:, 0].astype(np.int64) % 10
    return Dataset(images(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))), digits, None, NAMES)
