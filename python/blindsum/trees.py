"""Networks as vectors: the arrays of a tree, one after the other, and back.

A tree is an array, or a mapping or a sequence of trees: a ``state_dict``, the parameters of a JAX model, a
list of arrays. The name of an array is its way through the tree, as in ``layers.0.weight``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from blindsum.arrays import Floats, as_vector
from blindsum.errors import InputError

Tree: TypeAlias = Any
"""An array, or a mapping or a sequence of trees."""


def flatten(arrays: Tree, dtype: type[np.floating[Any]] = np.float32) -> Floats:
    """Join the arrays of a tree to one vector, e.g. the ``state_dict`` of a network.

    Arrays of integers and truth values are left out, such as BatchNorm's ``num_batches_tracked``: the mean of
    counters is no counter. :func:`unflatten` gives them back from its template. Tensors that require a
    gradient are taken without it. Two names of one tensor are two entries.

    Parameters
    ----------
    arrays
        A mapping (its values, in its order), a sequence or another iterable of float arrays; each of them may
        be such a tree, too.
    dtype
        Element type of the vector: ``np.float32`` or ``np.float64``.

    Returns
    -------
    numpy.ndarray
        A new array, shape ``(sum of sizes,)``, each array in C order.

    Raises
    ------
    blindsum.InputError
        An entry is not an array of floats, or has numbers beyond the range of ``dtype``; all are integers;
        another ``dtype``. The error names the entry.

    Examples
    --------
    >>> weights = {"w": np.ones((2, 2)), "layers": [{"b": np.zeros(1)}]}
    >>> flatten(weights)
    array([1., 1., 1., 1., 0.], dtype=float32)
    """
    element = np.dtype(dtype)
    if element not in (np.float32, np.float64):
        raise InputError(f"dtype: must be float32 or float64, not {element.name}: integers would be cut off")
    vectors, left_out = [], 0
    for name, array in entries(arrays):
        if _is_counter(array):
            left_out += 1
        else:
            vectors.append(_narrowed(_vector_of(name, array), element, name))
    if left_out and not vectors:
        raise InputError(
            "arrays: all entries are integers, which are left out; convert those that are averaged"
        )
    return np.concatenate(vectors) if vectors else np.empty(0, element)


def unflatten(vector: object, like: Tree) -> Tree:
    """Cut a vector into the arrays of a tree again, the inverse of :func:`flatten`.

    Parameters
    ----------
    vector
        Shape ``(sum of sizes,)``.
    like
        A tree of arrays that have the wanted shapes and element types, e.g. ``net.state_dict()``.

    Returns
    -------
    dict or list
        A tree like ``like``: mappings become dicts (an ``OrderedDict`` stays one), other iterables lists or
        tuples. Arrays have the element types of ``like``: views of ``vector`` where it has the same, copies
        otherwise. PyTorch tensors come back as such, on their device, so that
        ``net.load_state_dict(unflatten(vector, net.state_dict()))`` works. Arrays of integers and truth
        values, which :func:`flatten` leaves out, are those of ``like`` itself.

    Raises
    ------
    blindsum.InputError
        ``vector`` is ``None``, as the result of a round without a sum is; it is no vector of floats; sizes
        do not add up; a number is beyond the range of the element type of its entry.
    """
    if vector is None:
        advice = "go on with the model that you have"
        raise InputError(f"vector: None, which result() gives for a round without a result; {advice}")
    whole = as_vector(vector, what="vector")
    like = list(like) if isinstance(like, Iterator) else like
    together = sum(_size(array) for _, array in entries(like) if not _is_counter(array))
    if (shape := tuple(_shape(vector))) != (together,):
        raise InputError(f"vector: shape {shape}, but the arrays have {together} elements together")
    return _rebuilt(like, _Rest(whole), "")


class _Rest:
    """What is left of a vector."""

    def __init__(self, vector: Floats) -> None:
        self._vector = vector

    def take(self, size: int) -> Floats:
        taken, self._vector = self._vector[:size], self._vector[size:]
        return taken


def entries(tree: Tree, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a tree with their names, in order."""
    if isinstance(tree, Mapping):
        items: Iterable[tuple[Any, Any]] = tree.items()
    elif isinstance(tree, (list, tuple)) or (not name and _gives_arrays(tree)):
        items = enumerate(tree)
    else:
        yield name, tree
        return
    for key, item in items:
        yield from entries(item, _inside(name, key))


def _gives_arrays(tree: object) -> bool:
    """Whether this is no array, and gives some one after the other, as ``net.parameters()`` does."""
    return isinstance(tree, Iterable) and not hasattr(tree, "__array__")


def _inside(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


def _rebuilt(like: Tree, rest: _Rest, name: str) -> Tree:
    if isinstance(like, Mapping):
        made = {key: _rebuilt(item, rest, _inside(name, key)) for key, item in like.items()}
        return OrderedDict(made) if isinstance(like, OrderedDict) else made
    if isinstance(like, (list, tuple)) or (not name and _gives_arrays(like)):
        parts = [_rebuilt(item, rest, _inside(name, key)) for key, item in enumerate(like)]
        if not isinstance(like, tuple):
            return parts
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    return like if _is_counter(like) else _like(like, rest.take(_size(like)), name)


def _like(template: Any, values: Floats, name: str) -> Any:
    """Values in the shape and element type of a template."""
    shaped = values.reshape(_shape(template))
    if _is_torch(template):
        # PyTorch's names of its types are numpy's, where numpy has one.
        of_torch = str(template.dtype).removeprefix("torch.")
        if of_torch in ("float16", "float32"):
            _narrowed(values, np.dtype(of_torch), name)
        return template.new_tensor(shaped)
    element = np.dtype(getattr(template, "dtype", values.dtype))
    return _narrowed(shaped, element.newbyteorder("="), name)


def _narrowed(values: Floats, element: np.dtype[Any], name: str) -> Floats:
    """Values of another element type, none of which is lost."""
    if values.dtype == element:
        return values
    with np.errstate(over="ignore", under="ignore"):
        narrowed: Floats = values.astype(element)
    lost = np.isinf(narrowed) & np.isfinite(values)
    if lost.any():
        index = int(np.argmax(lost))
        rule = f"number {index} is beyond the range of {element.name}"
        raise InputError(f"{_entry(name)}: {rule}; take a wider type, e.g. dtype=np.float64", index)
    return narrowed


def _vector_of(name: str, array: object) -> Floats:
    if array is None:
        raise InputError(f"{_entry(name)}: None is not an array; leave out what has no values")
    return as_vector(array, what=_entry(name))


def _entry(name: str) -> str:
    return f"entry {name!r}" if name else "array"


def _is_torch(array: Any) -> bool:
    return callable(getattr(array, "new_tensor", None)) and hasattr(array, "dtype")


def _is_counter(array: Any) -> bool:
    """Whether these are integers or truth values."""
    if _is_torch(array):
        return not (array.dtype.is_floating_point or array.dtype.is_complex)
    if array is None or isinstance(array, str):
        return False
    dtype = getattr(array, "dtype", None)
    kind = getattr(dtype, "kind", None) if dtype is not None else np.asarray(array).dtype.kind
    return kind in ("i", "u", "b")


def _shape(array: Any) -> Sequence[int]:
    return tuple(array.shape) if hasattr(array, "shape") else np.shape(array)


def _size(array: Any) -> int:
    return int(np.prod(_shape(array), dtype=np.int64))
