"""Updates in, means out: what counts as a vector, and when it is copied.

An update may be anything that offers the buffer protocol or ``__array__``: numpy arrays, PyTorch CPU
tensors, JAX arrays, ``array.array``, memory views. Its elements are taken in C order, whatever its
shape.

=========================  ===================================================
float32 or float64,        used in place, no copy
C-contiguous
float16, bfloat16          one copy, to float32 (exact)
strided, foreign byte      one copy
order
integers, bool             refused: convert explicitly, ``x.astype(np.float32)``
everything else            refused
=========================  ===================================================

Where the job's encoding is ``"integers"``, an update is of integers:

=========================  ===================================================
uint32, uint64, int64,     used in place, no copy
C-contiguous
other integers             one copy, to uint32 or uint64
lists of Python integers   one copy, to uint64
floats, bool               refused: convert explicitly, ``x.astype(np.uint64)``
negative integers, or too  refused, with the index of the first one
many bits
=========================  ===================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blindsum.errors import InputError

Vector: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
"""A flat, C-contiguous vector of native floats."""

IntegerVector: TypeAlias = NDArray[np.uint32] | NDArray[np.uint64]
"""A flat, C-contiguous vector of native unsigned integers."""

Sums: TypeAlias = NDArray[np.uint64] | NDArray[np.object_]
"""Exact sums: uint64 where no sum of the job has more than 64 bits, else Python integers."""

Floats: TypeAlias = NDArray[np.floating[Any]]


def as_vector(update: object, dim: int | None = None, what: str = "update") -> Vector:
    """Give ``update`` as a flat, contiguous float32 or float64 array, without a copy where possible.

    Parameters
    ----------
    update
        Anything with the buffer protocol or ``__array__``, of any shape.
    dim
        Number of elements that it must have; ``None`` takes any.
    what
        What it is, for error messages.

    Returns
    -------
    numpy.ndarray
        Shape ``(dim,)``.

    Raises
    ------
    blindsum.InputError
        Not an array of floats, or not of ``dim`` elements.
    """
    array = _as_array(update, what)
    if dim is not None and array.size != dim:
        raise InputError(f"{what}: {array.size} elements (shape {array.shape}), but the job's dim is {dim}")
    if array.dtype.newbyteorder("=") == np.float64:
        return np.ascontiguousarray(array, dtype=np.float64).reshape(-1)
    return np.ascontiguousarray(array, dtype=np.float32).reshape(-1)


def as_integers(
    update: object, dim: int | None = None, bits: int = 64, what: str = "update"
) -> IntegerVector:
    """Give ``update`` as a flat, contiguous uint32 or uint64 array, without a copy where possible.

    Parameters
    ----------
    update
        Integers: anything with the buffer protocol or ``__array__``, of any shape, or a flat list.
    dim
        Number of elements that it must have; ``None`` takes any.
    bits
        Bits that an element may have.
    what
        What it is, for error messages.

    Returns
    -------
    numpy.ndarray
        Shape ``(dim,)``.

    Raises
    ------
    blindsum.InputError
        Not integers, not ``dim`` of them, or one that is not from 0 to ``2**bits - 1``.
    """
    array = _as_numbers(update, what)
    if dim is not None and array.size != dim:
        raise InputError(f"{what}: {array.size} elements (shape {array.shape}), but the job's dim is {dim}")
    if array.dtype.kind == "O":
        array = _from_python_integers(array.reshape(-1).tolist(), bits, what)
    elif array.dtype.kind not in "iu":
        raise InputError(
            f"{what}: elements are {array.dtype.name}, not integers; convert them, e.g. x.astype(np.uint64)"
        )
    flat = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(-1)
    largest = 2**bits - 1
    if flat.size and (int(flat.min()) < 0 or int(flat.max()) > largest):
        wrong = flat > largest if flat.dtype.kind == "u" else (flat < 0) | (flat > min(largest, 2**63 - 1))
        raise _out_of_range(int(np.argmax(wrong)), bits, what)
    if flat.dtype.itemsize == 8:
        return flat.view(np.uint64)
    return flat.view(np.uint32) if flat.dtype.itemsize == 4 else flat.astype(np.uint32)


def _as_numbers(update: object, what: str) -> NDArray[Any]:
    # numpy would make floats of a list that mixes integers above and below 2**63.
    is_list = isinstance(update, (list, tuple))
    try:
        return np.array(update, dtype=object) if is_list else np.asarray(update)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(f"{what}: not usable as an array: {error}") from error


def _from_python_integers(values: list[object], bits: int, what: str) -> NDArray[np.uint64]:
    for index, value in enumerate(values):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise InputError(f"{what}: element {index} is a {type(value).__name__}, not an integer", index)
        if not 0 <= int(value) < 2**bits:
            raise _out_of_range(index, bits, what)
    return np.array(values, dtype=np.uint64)


def _out_of_range(index: int, bits: int, what: str) -> InputError:
    return InputError(f"{what}: coordinate {index} must be an integer from 0 to 2**{bits} - 1", index)


def _as_array(update: object, what: str) -> Floats:
    if isinstance(update, (list, tuple, dict)):
        raise InputError(
            f"{what}: a {type(update).__name__} is not an array; "
            "np.asarray(x, np.float32) makes one of numbers, "
            "blindsum.flatten(x) joins several arrays to one vector"
        )
    if str(getattr(update, "dtype", "")) == "torch.bfloat16" and hasattr(update, "float"):
        update = update.float()
    try:
        array = np.asarray(update)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        hint = "; call .detach().cpu() first" if hasattr(update, "detach") else ""
        raise InputError(f"{what}: not usable as an array: {error}{hint}") from error
    kind, name = array.dtype.kind, array.dtype.name
    if array.dtype.newbyteorder("=") in (np.float16, np.float32, np.float64) or name == "bfloat16":
        return array
    if kind in "iub":
        raise InputError(f"{what}: elements are {name}, not floats; convert them, e.g. x.astype(np.float32)")
    if kind == "O":
        name = type(update).__name__
    raise InputError(f"{what}: {name} is not an array of float32 or float64")


def flatten(
    arrays: Mapping[str, ArrayLike] | Iterable[ArrayLike],
    dtype: type[np.floating[Any]] = np.float32,
) -> Floats:
    """Join arrays to one vector, e.g. the parameters of a network.

    Parameters
    ----------
    arrays
        A mapping (its values, in its order) or a sequence of float arrays.
    dtype
        Element type of the vector.

    Returns
    -------
    numpy.ndarray
        A new array, shape ``(sum of sizes,)``, each array in C order.

    Raises
    ------
    blindsum.InputError
        An element is not an array of floats.

    Examples
    --------
    >>> weights = {"w": np.ones((2, 2)), "b": np.zeros(1)}
    >>> flatten(weights)
    array([1., 1., 1., 1., 0.], dtype=float32)
    """
    items = list(arrays.values()) if isinstance(arrays, Mapping) else list(arrays)
    vectors = [as_vector(item, what=f"arrays[{place}]") for place, item in enumerate(items)]
    total = np.empty(sum(vector.size for vector in vectors), dtype=dtype)
    start = 0
    for vector in vectors:
        total[start : start + vector.size] = vector
        start += vector.size
    return total


def unflatten(
    vector: Floats, like: Mapping[str, ArrayLike] | Sequence[ArrayLike]
) -> dict[str, Floats] | list[Floats]:
    """Cut a vector into arrays again, the inverse of :func:`flatten`.

    Parameters
    ----------
    vector
        Shape ``(sum of sizes,)``.
    like
        A mapping or sequence of arrays that have the wanted shapes.

    Returns
    -------
    dict or list
        Views of ``vector``: a dict where ``like`` is a mapping, a list otherwise.

    Raises
    ------
    blindsum.InputError
        The sizes do not add up.
    """
    items = list(like.values()) if isinstance(like, Mapping) else list(like)
    shapes = [np.shape(item) for item in items]
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    if vector.ndim != 1 or vector.size != sum(sizes):
        raise InputError(f"vector: shape {vector.shape}, but the arrays have {sum(sizes)} elements together")
    ends = np.cumsum(sizes)
    parts = [
        vector[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes, strict=True)
    ]
    return dict(zip(like, parts, strict=True)) if isinstance(like, Mapping) else parts
