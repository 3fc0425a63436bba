"""Updates in, means out: what counts as a vector, and when it is copied.

An update may be anything that offers the buffer protocol or ``__array__``: numpy arrays, PyTorch CPU
tensors, JAX arrays, ``array.array``, memory views. Its elements are taken in C order, whatever its
shape.

=========================  ===================================================
float32 or float64,        used in place, no copy
C-contiguous
float16, bfloat16          one copy, to float32 (exact)
strided, foreign byte      one copy
order, not aligned
tensors that require a     taken without it, as ``x.detach()`` gives them
gradient
masked arrays, also in     refused: fill them, e.g. ``x.filled(0)``
lists of any depth
integers, bool             refused: convert explicitly, ``x.astype(np.float32)``
everything else            refused
=========================  ===================================================

Where the job's encoding is ``"integers"``, an update is of integers:

=========================  ===================================================
uint32, uint64, int64,     used in place, no copy
C-contiguous
other integers             one copy, to uint32 or uint64
strided, foreign byte      one copy
order, not aligned
lists of Python integers   one copy, to uint64
floats, bool, int4         refused: convert explicitly, ``x.astype(np.uint64)``
masked arrays, also in     refused: fill them, e.g. ``x.filled(0)``
lists of any depth
negative integers, or too  refused, with the index of the first one
many bits
=========================  ===================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blindsum.errors import InputError, MemoryLimitError

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
    blindsum.MemoryLimitError
        It must be copied, and there is no memory for that.
    """
    array = _as_array(update, what)
    if dim is not None and array.size != dim:
        raise InputError(what, f"{array.size} elements (shape {array.shape}), but the job's dim is {dim}")
    is_double = array.dtype.newbyteorder("=") == np.float64
    with _room_for_a_copy(array, what):
        return _flat(array, np.float64 if is_double else np.float32)


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
    blindsum.MemoryLimitError
        It must be copied, and there is no memory for that.
    """
    array = _as_numbers(update, what)
    if dim is not None and array.size != dim:
        raise InputError(what, f"{array.size} elements (shape {array.shape}), but the job's dim is {dim}")
    with _room_for_a_copy(array, what):
        return _flat_integers(array, bits, what)


@contextmanager
def _room_for_a_copy(array: NDArray[Any], what: str) -> Iterator[None]:
    """Say what is wrong where there is no memory for one."""
    try:
        yield
    except MemoryError as error:
        rule = f"no memory is left for a copy of it: {array.size:,} elements of {array.dtype.name}"
        advice = "give an array that needs none, see docs/arrays.md, or a process that may take more"
        raise MemoryLimitError(f"{what}: {rule}; {advice}") from error


def _flat_integers(array: NDArray[Any], bits: int, what: str) -> IntegerVector:
    if array.dtype.kind == "O":
        array = _from_python_integers(array.reshape(-1).tolist(), bits, what)
    elif array.dtype.kind not in "iu":
        rule = f"elements are {array.dtype.name}, not integers that numpy can add"
        raise InputError(what, f"{rule}; convert them, e.g. x.astype(np.uint64)")
    flat = _flat(array, array.dtype.newbyteorder("="))
    largest = 2**bits - 1
    if flat.size and (int(flat.min()) < 0 or int(flat.max()) > largest):
        wrong = flat > largest if flat.dtype.kind == "u" else (flat < 0) | (flat > min(largest, 2**63 - 1))
        raise _out_of_range(int(np.argmax(wrong)), bits, what)
    if flat.dtype.itemsize == 8:
        return flat.view(np.uint64)
    return flat.view(np.uint32) if flat.dtype.itemsize == 4 else flat.astype(np.uint32)


def _flat(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The elements in C order, in aligned memory; a copy only where one is needed."""
    # guard: arrays-in-c-order
    flat = np.ascontiguousarray(array, dtype=dtype).reshape(-1)
    # What is contiguous is not copied above, wherever it begins.
    return flat if flat.flags.aligned else flat.copy()


def is_mapping(value: object) -> bool:
    """Whether values are found by keys, as in a ``dict``, whatever the class is."""
    return isinstance(value, Mapping) or (hasattr(value, "keys") and hasattr(value, "__getitem__"))


def _as_numbers(update: object, what: str) -> NDArray[Any]:
    # numpy would make floats of a list that mixes integers above and below 2**63.
    dtype = object if isinstance(update, (list, tuple)) else None
    array = array_of(update, what, dtype=dtype)
    if array.ndim == 0 and array.dtype.kind in "OSU" and not isinstance(array.item(), int):
        kind = type(update).__name__
        advice = "np.frombuffer(x, np.uint8)" if isinstance(update, bytes) else "list(x)"
        rule = f"{kind} is neither an array nor a list of integers"
        raise InputError(what, f"{rule}; give one, in the order of the coordinates, e.g. {advice}")
    return array


def array_of(update: object, what: str, dtype: Any = None) -> NDArray[Any]:
    """The array that something is, whatever its elements are, without a copy where possible.

    Parameters
    ----------
    update
        What numpy makes an array of, or a PyTorch tensor.
    what
        What it is, for error messages.
    dtype
        The element type to make; ``None`` takes that of ``update``.

    Raises
    ------
    blindsum.InputError
        No array, or a masked one.
    """
    update = _plain_tensor(update, what)
    if is_mapping(update) and not hasattr(update, "__array__"):
        rule = f"a {type(update).__name__} is not an array"
        raise InputError(what, f"{rule}; give one array, in the order of the coordinates")
    if _hides_elements(update):
        raise _masked(what)
    try:
        array = np.asanyarray(update) if dtype is None else np.array(update, dtype=dtype)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(what, f"not usable as an array: {error}") from error
    except MemoryError as error:
        rule = "no memory is left to make an array of it; give an array of numpy"
        raise MemoryLimitError(f"{what}: {rule}") from error
    if isinstance(array, np.ma.MaskedArray):
        raise _masked(what)
    return np.asarray(array)


MAX_DIMENSIONS = 64
"""Dimensions that an array of numpy has at most."""


def _hides_elements(values: object, depth: int = 0) -> bool:
    """Whether this is a masked array, or a list has one at any depth."""
    if isinstance(values, (list, tuple, deque)) and depth < MAX_DIMENSIONS:
        return any(_hides_elements(one, depth + 1) for one in values)
    return isinstance(values, np.ma.MaskedArray)


def _masked(what: str) -> InputError:
    rule = "a masked array hides elements, and every element is sent"
    return InputError(what, f"{rule}; fill it, e.g. x.filled(0)")


def _plain_tensor(update: object, what: str) -> object:
    """A tensor without what stands between it and numpy; anything else as it is."""
    tensor: Any = update
    if str(getattr(tensor, "dtype", "")) == "torch.bfloat16" and callable(getattr(tensor, "float", None)):
        tensor = tensor.float()
    if not callable(getattr(tensor, "detach", None)):
        return tensor
    for is_so, kind, advice in (
        (str(getattr(tensor, "layout", "torch.strided")) != "torch.strided", "sparse", ".to_dense()"),
        (getattr(tensor, "is_quantized", False), "quantised", ".dequantize()"),
        (str(getattr(tensor, "device", "cpu")) != "cpu", f"on {getattr(tensor, 'device', '')}", ".cpu()"),
    ):
        if is_so:
            raise InputError(what, f"the tensor is {kind}, and must be dense and on the CPU; call {advice}")
    if getattr(tensor, "requires_grad", False):
        tensor = tensor.detach()
    for is_so, resolved in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")):
        if callable(getattr(tensor, is_so, None)) and getattr(tensor, is_so)():
            tensor = getattr(tensor, resolved)()
    return tensor


def _from_python_integers(values: list[object], bits: int, what: str) -> NDArray[np.uint64]:
    for index, value in enumerate(values):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise InputError(what, f"element {index} is a {type(value).__name__}, not an integer", index)
        if not 0 <= int(value) < 2**bits:
            raise _out_of_range(index, bits, what)
    return np.array(values, dtype=np.uint64)


def _out_of_range(index: int, bits: int, what: str) -> InputError:
    return InputError(what, f"coordinate {index} must be an integer from 0 to 2**{bits} - 1", index)


def _as_array(update: object, what: str) -> Floats:
    is_tree = isinstance(update, (list, tuple)) or (is_mapping(update) and not hasattr(update, "__array__"))
    if is_tree:
        raise InputError(
            what,
            f"a {type(update).__name__} is not an array; "
            "np.asarray(x, np.float32) makes one of numbers, "
            "blindsum.flatten(x) joins several arrays to one vector",
        )
    array = array_of(update, what)
    kind, name = array.dtype.kind, array.dtype.name
    if array.dtype.newbyteorder("=") in (np.float16, np.float32, np.float64) or name == "bfloat16":
        return array
    if kind in "SUO":
        raise InputError(what, f"{type(update).__name__} is not an array of float32 or float64")
    advice = (
        "take real and imaginary parts apart" if kind == "c" else "convert them, e.g. x.astype(np.float32)"
    )
    raise InputError(what, f"elements are {name}, not float32 or float64; {advice}")


def in_order(field: str, values: object, what: str) -> list[Any]:
    """The values in the order of the parties' ranks.

    Parameters
    ----------
    field
        What an error calls them.
    values
        A list, or something else that has an order.
    what
        What the list has, in words.

    Raises
    ------
    blindsum.InputError
        A mapping, a set or a text, or no list at all.
    """
    if is_mapping(values) or isinstance(values, Set | str | bytes):
        rule = f"must be a list of {what}, in the order of the parties, not a {type(values).__name__}"
        raise InputError(field, f"{rule}; give [values of party 0, of party 1, …]")
    try:
        return list(values)  # type: ignore[call-overload, no-any-return]
    except TypeError as error:
        raise InputError(field, f"must be a list of {what}, not {values!r}") from error
