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
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blindsum.errors import InputError

Vector: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
"""A flat, C-contiguous vector of native floats."""

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
        raise InputError(f"{what}: {array.size} elements (shape {array.shape}), the job's dim is {dim}")
    if array.dtype.newbyteorder("=") == np.float64:
        return np.ascontiguousarray(array, dtype=np.float64).reshape(-1)
    return np.ascontiguousarray(array, dtype=np.float32).reshape(-1)


def _as_array(update: object, what: str) -> Floats:
    if isinstance(update, (list, tuple, dict)):
        raise InputError(
            f"{what}: a {type(update).__name__} is not an array; "
            "blindsum.flatten(...) joins several arrays to one vector"
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
        raise InputError(f"vector: shape {vector.shape}, the arrays have {sum(sizes)} elements together")
    ends = np.cumsum(sizes)
    parts = [
        vector[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes, strict=True)
    ]
    return dict(zip(like, parts, strict=True)) if isinstance(like, Mapping) else parts
