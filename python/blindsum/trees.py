"""Networks as vectors: the arrays of a tree, one after the other, and back.

A tree is an array, or a mapping or a sequence of trees: a ``state_dict``, the parameters of a JAX model, a
list of arrays. The name of an array is its way through the tree, as in ``layers.0.weight``.
"""

from __future__ import annotations

import functools
import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from blindsum.arrays import Floats, Vector, as_vector, is_mapping
from blindsum.errors import InputError

logger = logging.getLogger("blindsum")

Tree: TypeAlias = Any
"""An array, or a mapping or a sequence of trees."""


def flatten(arrays: Tree, dtype: type[np.floating[Any]] = np.float32) -> Floats:
    """Join the arrays of a tree to one vector, e.g. the ``state_dict`` of a network.

    Arrays of integers and truth values that are values of a mapping are left out, such as BatchNorm's
    ``num_batches_tracked``: the mean of counters is no counter. The log names them once, in a warning.
    :func:`unflatten` gives them back from its template. All other integers are refused: those in lists and
    tuples, and single numbers. JSON writes 1 for 1.0, and the values must not decide which coordinates
    there are. Tensors that require a gradient are taken without it. Two names of one tensor are two entries.

    The update of a job that adds (``model_update="add"``) is the difference that training made:
    ``flatten(net.state_dict()) - rnd.model``.

    Parameters
    ----------
    arrays
        A mapping (its values, in its order), a sequence or another iterable of float arrays; each of them may
        be such a tree, too. A set has no order and is refused.
    dtype
        Element type of the vector: ``np.float32`` or ``np.float64``. Numbers are rounded to it: in float32 a
        number below about 1e-45 becomes 0.

    Returns
    -------
    numpy.ndarray
        A new array, shape ``(sum of sizes,)``, each array in C order.

    Raises
    ------
    blindsum.InputError
        An entry is not an array of floats, or has numbers beyond the range of ``dtype``; all are integers;
        a tree is too deep or contains itself; another ``dtype``. The error names the entry.

    Examples
    --------
    >>> weights = {"w": np.ones((2, 2)), "layers": [{"b": np.zeros(1)}]}
    >>> flatten(weights)
    array([1., 1., 1., 1., 0.], dtype=float32)
    """
    try:
        element = np.dtype(dtype)
    except TypeError as error:
        raise InputError("dtype", f"must be float32 or float64, not {dtype!r}") from error
    if element not in (np.float32, np.float64):
        kind = element.name if element.isnative else f"{element.str}, of another byte order"
        raise InputError("dtype", f"must be float32 or float64, not {kind}; give np.float32 or np.float64")
    vectors = [_narrowed(vector, element, name) for name, vector in float_entries(arrays)]
    return np.concatenate(vectors) if vectors else np.empty(0, element)


def float_entries(tree: Tree) -> list[tuple[str, Vector]]:
    """The vectors of a tree with their names, in order, without the counters, which the log names.

    Raises
    ------
    blindsum.InputError
        As for :func:`flatten`.
    """
    vectors, left_out = [], []
    for entry in entries(tree):
        if _is_counter(entry):
            left_out.append(entry.name)
        else:
            vectors.append((entry.name, _vector_of(entry)))
    if left_out and not vectors:
        raise InputError(
            "arrays", "all entries are integers, which are left out; convert those that are averaged"
        )
    if left_out:
        _tell_left_out(tuple(left_out))
    return vectors


@functools.lru_cache(maxsize=256)
def _tell_left_out(names: tuple[str, ...]) -> None:
    """Warn once that these entries are left out."""
    shown = ", ".join(map(repr, names[:MAX_NAMES])) + (", …" if len(names) > MAX_NAMES else "")
    logger.warning(
        "left out of the vector, as they are integers: entry %s. Where one is to be averaged, make it float, "
        "e.g. x.astype(np.float32)",
        shown,
    )


MAX_NAMES = 8
"""Names of entries that a warning shows."""


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
        values, which :func:`flatten` leaves out, are those of ``like`` itself. Numbers are rounded to the
        element types of ``like``: one below the range of its entry becomes 0.

    Raises
    ------
    blindsum.InputError
        ``vector`` is ``None``, as the result of a round without a sum is; it is no vector of floats; sizes
        do not add up; a number is beyond the range of the element type of its entry; ``like`` has an entry
        that :func:`flatten` refuses, such as a masked array.
    """
    if vector is None:
        advice = "go on with the model that you have"
        raise InputError("vector", f"None, which result() gives for a round without a result; {advice}")
    whole = as_vector(vector, what="vector")
    like = list(like) if isinstance(like, Iterator) else like
    templates = [entry for entry in entries(like) if not _is_counter(entry)]
    for entry in templates:
        _check_template(entry)
    together = sum(_size(entry.array) for entry in templates)
    if (shape := tuple(_shape(vector))) != (together,):
        raise InputError("vector", f"shape {shape}, but the arrays have {together} elements together")
    return _rebuilt(like, _Rest(whole), "")


class _Rest:
    """What is left of a vector."""

    def __init__(self, vector: Floats) -> None:
        self._vector = vector

    def take(self, size: int) -> Floats:
        taken, self._vector = self._vector[:size], self._vector[size:]
        return taken


class Entry(NamedTuple):
    """An array of a tree.

    Attributes
    ----------
    name : str
        Its way through the tree; empty where the tree is this array alone.
    array : Any
        The array.
    has_key : bool
        Whether it is a value of a mapping.
    """

    name: str
    array: Any
    has_key: bool


MAX_DEPTH = 100
"""Mappings and sequences within each other that a tree may have."""


def entries(tree: Tree) -> Iterator[Entry]:
    """The arrays of a tree, in order.

    Raises
    ------
    blindsum.InputError
        It has a set, or is too deep, as one that contains itself.
    """
    return _entries(tree, "", has_key=False, depth=0)


def _entries(tree: Tree, name: str, *, has_key: bool, depth: int) -> Iterator[Entry]:
    if isinstance(tree, Set):
        raise InputError(_entry(name), f"a {type(tree).__name__} has no order; give a list of arrays")
    if depth > MAX_DEPTH:
        first = name.partition(".")[0]
        rule = f"is nested more than {MAX_DEPTH} deep, or contains itself"
        raise InputError(_entry(first), f"{rule}; give a tree with fewer levels")
    of_mapping = _is_table(tree)
    if of_mapping:
        items = _items(tree)
    elif _is_list(tree, name):
        items = enumerate(tree)
    else:
        yield Entry(name, tree, has_key)
        return
    for key, item in items:
        yield from _entries(item, _inside(name, key), has_key=of_mapping, depth=depth + 1)


def _is_table(tree: object) -> bool:
    """Whether trees are found by keys in this, and it is no array itself."""
    return is_mapping(tree) and not hasattr(tree, "__array__")


def _items(tree: Any) -> Iterable[tuple[Any, Any]]:
    return ((key, tree[key]) for key in tree.keys())  # noqa: SIM118 - not each gives its keys one by one


def _is_list(tree: object, name: str) -> bool:
    """Whether this gives trees one after the other; a whole tree may do so as ``net.parameters()`` does."""
    if isinstance(tree, (list, tuple, deque)):
        return True
    is_array = hasattr(tree, "__array__") or isinstance(tree, (str, bytes))
    return not name and isinstance(tree, Iterable) and not is_array


def _inside(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


def _rebuilt(like: Tree, rest: _Rest, name: str) -> Tree:
    if _is_table(like):
        made = {key: _rebuilt(item, rest, _inside(name, key)) for key, item in _items(like)}
        return OrderedDict(made) if isinstance(like, OrderedDict) else made
    if _is_list(like, name):
        parts = [_rebuilt(item, rest, _inside(name, key)) for key, item in enumerate(like)]
        if not isinstance(like, tuple):
            return parts
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    # Other integers are refused before anything is rebuilt.
    return like if _has_integers(like) else _like(like, rest.take(_size(like)), name)


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
    """Values rounded to another element type, none of which may be beyond its range.

    A value below its range becomes 0, as any value becomes the nearest one.
    """
    if values.dtype == element:
        return values
    with np.errstate(over="ignore", under="ignore"):
        narrowed: Floats = values.astype(element)
    lost = np.isinf(narrowed) & np.isfinite(values)
    if lost.any():
        index = int(np.argmax(lost))
        rule = f"number {index} is beyond the range of {element.name}"
        raise InputError(_entry(name), f"{rule}; take a wider type, e.g. dtype=np.float64", index)
    return narrowed


def _vector_of(entry: Entry) -> Vector:
    what = _entry(entry.name)
    if entry.array is None:
        raise InputError(what, "None is not an array; leave out what has no values")
    if not isinstance(entry.array, np.ma.MaskedArray):
        _refuse_integers(entry)
    return as_vector(entry.array, what=what)


def _check_template(entry: Entry) -> None:
    """Refuse what :func:`flatten` would refuse, whatever its values are."""
    what, array = _entry(entry.name), entry.array
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(what, "the template is masked; give one without a mask, e.g. x.filled(0)")
    _refuse_integers(entry)
    if _is_torch(array):
        return
    element = _element(array)
    if element is None or not (element.kind in "fc" or element.name.startswith(("bfloat", "float"))):
        kind = type(array).__name__ if element is None or element.kind in "OSU" else element.name
        raise InputError(what, f"the template, {kind}, is not an array of floats; give one")


def _refuse_integers(entry: Entry) -> None:
    """Refuse integers that are not left out: which entries count must not depend on values."""
    if _has_integers(entry.array):
        what = "integers in a list are" if hasattr(entry.array, "shape") else "an integer is"
        rule = f"{what} neither averaged nor left out"
        raise InputError(_entry(entry.name), f"{rule}; make them floats, or leave the entry out")


def _entry(name: str) -> str:
    return f"entry {name!r}" if name else "array"


def _is_torch(array: Any) -> bool:
    return callable(getattr(array, "new_tensor", None)) and hasattr(array, "dtype")


def _is_counter(entry: Entry) -> bool:
    """Whether this is left out: an array of integers or truth values under a key."""
    is_array = hasattr(entry.array, "dtype") and not isinstance(entry.array, np.generic)
    is_masked = isinstance(entry.array, np.ma.MaskedArray)
    return entry.has_key and is_array and not is_masked and _has_integers(entry.array)


def _has_integers(array: Any) -> bool:
    """Whether these are integers or truth values."""
    if _is_torch(array):
        return not (array.dtype.is_floating_point or array.dtype.is_complex)
    element = _element(array)
    return element is not None and element.kind in "iub"


def _element(array: Any) -> np.dtype[Any] | None:
    """The element type in numpy's terms; ``None`` where there is none."""
    if array is None or isinstance(array, (str, bytes)):
        return None
    try:
        return np.dtype(array.dtype) if hasattr(array, "dtype") else np.asarray(array).dtype
    except (TypeError, ValueError, RuntimeError):
        return None


def _shape(array: Any) -> Sequence[int]:
    return tuple(array.shape) if hasattr(array, "shape") else np.shape(array)


def _size(array: Any) -> int:
    return int(np.prod(_shape(array), dtype=np.int64))
