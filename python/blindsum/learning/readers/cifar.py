"""CIFAR-10 and CIFAR-100 in their form for Python: pickles, of which nothing is run."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.errors import DataError
from blindsum.learning.dataset import Dataset, images, joined

SHAPE = (3, 32, 32)
"""Channels, height and width of an image."""


def read(paths: Sequence[Path], meta: Path, label: str, names: str) -> Dataset:
    """Read batches of images.

    Parameters
    ----------
    paths
        The batches, in their order.
    meta
        The file with the names of the labels.
    label, names
        The entries of a batch with the labels, and of ``meta`` with their names.

    Raises
    ------
    blindsum.DataError
        A file is damaged.
    """
    called = unpickled(meta).get(names)
    if not isinstance(called, list) or not all(isinstance(name, bytes | str) for name in called):
        raise DataError(meta, f"its entry {names} is no list of names")
    texts = [name if isinstance(name, str) else name.decode("latin-1") for name in called]
    return joined([_batch(path, label, texts) for path in paths])


def _batch(path: Path, label: str, names: Sequence[str]) -> Dataset:
    content = unpickled(path)
    pixels, labels = content.get("data"), content.get(label)
    if not isinstance(pixels, PickledArray):
        raise DataError(path, "its entry data is no array")
    rows = pixels.bytes_of(path)
    count = len(rows)
    if rows.ndim != 2 or not count or rows.shape[1] != np.prod(SHAPE):
        raise DataError(path, f"its images have the shape {rows.shape}, not (n, 3072)")
    if not isinstance(labels, list) or len(labels) != count:
        raise DataError(path, f"its entry {label} is no list of {count} labels")
    if not all(type(one) is int and 0 <= one < len(names) for one in labels):
        raise DataError(path, f"a label is no whole number from 0 to {len(names) - 1}")
    return Dataset(images(rows.reshape(count, *SHAPE)), np.array(labels, dtype=np.int64), None, names)


def unpickled(path: Path) -> dict[str, Any]:
    """Read a pickled dictionary; arrays come as :class:`PickledArray`.

    Raises
    ------
    blindsum.DataError
        The file cannot be read, is no such pickle, or names something else than an array.
    """
    try:
        with path.open("rb") as file:
            content = _Unpickler(file, encoding="bytes").load()
    except _UNREADABLE as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise DataError(path, f"it is no pickle of arrays, lists and texts: {text}") from error
    if not isinstance(content, dict):
        raise DataError(path, "it holds no dictionary")
    return {
        key.decode("latin-1") if isinstance(key, bytes) else str(key): one for key, one in content.items()
    }


class PickledArray:
    """An array in a pickle: its shape and bytes as they stand there. Nothing of numpy has seen them."""

    def __init__(self, *_: object) -> None:
        self._state: object = None

    def __setstate__(self, state: object) -> None:
        self._state = state

    def bytes_of(self, path: Path) -> NDArray[np.uint8]:
        """The array, if it is one of bytes.

        Raises
        ------
        blindsum.DataError
            It is not.
        """
        match self._state:
            case (int(), tuple(shape), PickledType(name="u1" | b"u1"), False | 0, bytes(content)):
                if all(type(one) is int and one >= 0 for one in shape) and _size(shape) == len(content):
                    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
        raise DataError(path, "an array in it is none of bytes, or its shape does not fit its size")


class PickledType:
    """The type of an array in a pickle."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = name

    def __setstate__(self, _: object) -> None:
        """What else there is to a type means nothing for bytes."""


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for one in shape:
        size *= one
    return size


def _encoded(text: object, *_: object) -> bytes:
    """What Python 3 pickles bytes as for readers that are older."""
    if not isinstance(text, str):
        raise pickle.UnpicklingError("bytes are not pickled as a text")
    return text.encode("latin-1")


class _Unpickler(pickle.Unpickler):
    """Makes what stands for arrays, and refuses everything else that would be called or imported."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not called here") from None


_STAND_INS: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): PickledArray,
    # An argument of the one above.
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): PickledType,
    ("_codecs", "encode"): _encoded,
}

_UNREADABLE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What Python's unpickler raises over a damaged file."""
