"""Parameters of JAX as the vector of a job: any pytree, such as those of Flax and Equinox. Extra: ``jax``."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np

from blindsum.arrays import Vector
from blindsum.errors import ConfigError
from blindsum.layouts import DTYPES, Entry, ModelLayout, Predicate, takes


class ModelVector(ModelLayout):
    """The arrays of floats in a pytree, as one vector.

    Arrays are immutable in JAX, so :meth:`load` gives a new tree, and :meth:`change` and :meth:`values`
    take one. What is no array of floats stays as it is in the tree: integers, random keys, functions,
    ``None``.

    Parameters
    ----------
    tree
        A pytree of arrays, e.g. the ``params`` of Flax. Its arrays say shapes, element types and devices.
    parameters
        Which arrays take part: ``"all"`` or ``"trainable"``, which is the same in JAX; or a function of a
        name and an array.
    buffers
        ``"float"`` or ``"none"``: JAX has no buffers, so neither has an effect; it is there as in
        :class:`blindsum.torch.ModelVector`.

    Raises
    ------
    blindsum.ConfigError
        Nothing takes part; or an array of complex numbers, or of floats of another size or order of bytes; or
        a float of Python.

    Examples
    --------
    ::

        vector = ModelVector(params)
        with bs.join(url, job="tumour", identity="hospital-a", ca="ca.pem", layout=vector) as job:
            for rnd in job.rounds():
                params = vector.load(rnd.model)
                params = train(params, data, **job.parameters)
                rnd.submit(vector.change(params), weight=len(data))
    """

    def __init__(
        self,
        tree: Any,
        *,
        parameters: Literal["trainable", "all"] | Predicate = "all",
        buffers: Literal["float", "none"] = "float",
    ) -> None:
        if buffers not in ("float", "none"):
            raise ConfigError("buffers", f"{buffers!r} must be 'float' or 'none'")
        self._tree = tree
        paths, self._structure = _flattened(tree)
        entries, self._places = [], []
        for place, (name, leaf) in enumerate(paths):
            dtype, shape = str(getattr(leaf, "dtype", "")), getattr(leaf, "shape", ())
            is_number = isinstance(leaf, float | complex) or _is_of_floats(dtype)
            if is_number and 0 not in shape and takes(parameters, name, leaf, True):
                if dtype not in DTYPES:
                    what = f"an array of {dtype}" if dtype else f"a {type(leaf).__name__} of Python"
                    rule = f"{name} is {what}, and must be an array of {', '.join(DTYPES)}"
                    raise ConfigError("tree", f"{rule}: convert it, or leave it out by parameters=…")
                _unmasked(name, leaf)
                self._places.append(place)
                entries.append(Entry(name, dtype, tuple(shape)))
        super().__init__(entries, "the tree must have an array of floats")

    def load(self, array: object) -> Any:
        """Give the tree with a model of the job in it, in the shapes, element types and devices that it has.

        Parameters
        ----------
        array
            ``dim`` floats, e.g. ``rnd.model``.

        Raises
        ------
        blindsum.InputError
            ``None``, as where a round was lost; another number of elements; a number that is not finite.
        """
        vector = self._checked_model(array)
        leaves = [leaf for _, leaf in _flattened(self._tree)[0]]
        for place, entry, piece in zip(self._places, self._entries, self._slices(), strict=True):
            leaves[place] = _like(leaves[place], vector[piece].reshape(entry.shape))
        self._tree = self._structure.unflatten(leaves)
        self._remember(vector)
        return self._tree

    def change(self, tree: Any) -> Vector:
        """What training has changed since :meth:`load`, shape ``(dim,)``: the update of a job that adds.

        Parameters
        ----------
        tree
            The tree after training.

        Raises
        ------
        blindsum.InputError
            Nothing was loaded, or a number is not finite: the error names the array.
        blindsum.ConfigError
            A tree of another structure, or with other shapes or element types.
        """
        return self._difference(self._values_of(tree))

    def values(self, tree: Any = None) -> Vector:
        """A tree as a vector, shape ``(dim,)``: float32, or float64 if an array is.

        Parameters
        ----------
        tree
            The tree; ``None`` is the one that was given, or that :meth:`load` gave last.

        Raises
        ------
        blindsum.InputError
            A number is not finite: the error names the array.
        blindsum.ConfigError
            A tree of another structure, or with other shapes or element types.
        """
        return self._finite(self._present() if tree is None else self._values_of(tree), "model")

    def _present(self) -> Vector:
        return self._values_of(self._tree)

    def _values_of(self, tree: Any) -> Vector:
        paths, structure = _flattened(tree)
        if structure != self._structure:
            rule = f"its structure is {structure}, must be {self._structure}"
            raise ConfigError("tree", f"{rule}: give the tree that load() gave, with other values")
        values: Vector = np.empty(self.dim, self._dtype)
        for place, entry, piece in zip(self._places, self._entries, self._slices(), strict=True):
            leaf = paths[place][1]
            have = (str(getattr(leaf, "dtype", type(leaf).__name__)), tuple(getattr(leaf, "shape", ())))
            if have != (entry.dtype, entry.shape):
                rule = f"{entry.name} is {have[0]} {have[1]} now, must be {entry.line}"
                raise ConfigError("tree", f"{rule}: give the tree that load() gave, with other values")
            values[piece] = _unmasked(entry.name, leaf).reshape(-1)
        return values


def _flattened(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Names and leaves of a tree, and its structure."""
    import jax

    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    return [(".".join(_word(key) for key in path) or "array", leaf) for path, leaf in paths], structure


def _unmasked(name: str, leaf: Any) -> Any:
    """A leaf as an array of numpy; the mask of one would be lost."""
    if isinstance(leaf, np.ma.MaskedArray):
        raise ConfigError("tree", f"{name} is a masked array: fill it, e.g. with filled(0), or leave it out")
    return np.asarray(leaf)


def _is_of_floats(dtype: str) -> bool:
    """Whether an element type is one of floats or complex numbers, in whatever order of bytes."""
    return re.fullmatch(r"b?float\w*|complex\d+|[<>][fc]\d+", dtype) is not None


def _word(key: Any) -> str:
    """A step of a path, without brackets and quotes."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _like(leaf: Any, values: Vector) -> Any:
    """Values as the leaf has them: its element type, on its devices, or as an array of numpy."""
    import jax

    if not isinstance(leaf, jax.Array):
        return values.astype(leaf.dtype)
    # A copy: JAX would use the memory of the job's model, and may be told to write to it (donation).
    return jax.device_put(jax.numpy.array(values, dtype=leaf.dtype, copy=True), leaf.sharding)
