"""A model of another library as one vector: what :mod:`blindsum.torch`, ``.jax`` and ``.sklearn`` share.

A *layout* is the list of a model's tensors in the order of their coordinates, a line for each:
``"conv1.weight float32 16x1x3x3"``. A scalar has the shape ``1``. A job with a layout is of this one model.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import logging
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blindsum import _native
from blindsum.arrays import Vector, as_vector
from blindsum.display import Shown
from blindsum.errors import ConfigError, InputError, LayoutError
from blindsum.places import ADVICE
from blindsum.tables import Tensor

logger = logging.getLogger("blindsum")

DTYPES = ("float16", "bfloat16", "float32", "float64")
"""Element types that a vector has room for."""

Predicate: TypeAlias = Callable[[str, Any], bool]
"""Whether a tensor takes part, by its name and itself."""

Clips: TypeAlias = float | Mapping[str, float] | Callable[[str, NDArray[Any]], float]
"""One bound for all tensors, one for each name, or a function of a name and values that gives it."""


@dataclass(frozen=True)
class Entry:
    """A tensor of a model.

    Attributes
    ----------
    name : str
        Its name, as the library has it.
    dtype : str
        Its element type, one of :data:`DTYPES`.
    shape : tuple of int
        Its shape.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def line(self) -> str:
        """Its line in a layout."""
        return f"{self.name} {self.dtype} {'x'.join(map(str, self.shape)) or '1'}"


class ModelLayout(Shown, ABC):
    """A model as one vector of floats. The libraries' ``ModelVector`` is made of it.

    Raises
    ------
    blindsum.ConfigError
        No tensor takes part, or a name that a layout cannot have.
    """

    def __init__(self, entries: Iterable[Entry], nothing: str) -> None:
        self._entries = tuple(entries)
        if not self._entries:
            raise ConfigError("parameters", f"no tensor takes part, and a job needs one at least: {nothing}")
        for entry in self._entries:
            if not entry.name or any(letter.isspace() for letter in entry.name):
                rule = f"{entry.name!r} is the name of a tensor, and must have no spaces: rename that part"
                raise ConfigError("layout", rule)
        self._ends = tuple(itertools.accumulate(entry.size for entry in self._entries))
        double = any(entry.dtype == "float64" for entry in self._entries)
        self._dtype = np.dtype(np.float64 if double else np.float32)
        self._base: Vector | None = None
        # What was trained when its change was taken.
        self._trained: int | None = None
        self._is_told = False

    @property
    def dim(self) -> int:
        """The number of coordinates, ``dim`` of the job."""
        return self._ends[-1]

    @property
    def layout(self) -> tuple[str, ...]:
        """A line for each tensor in the order of the coordinates, ``layout`` of the job."""
        return tuple(entry.line for entry in self._entries)

    @property
    def layout_hash(self) -> str:
        """SHA-256 of the layout's lines, each with its line break; 64 hexadecimal digits."""
        text = "".join(f"{line}\n" for line in self.layout)
        return hashlib.sha256(text.encode()).hexdigest()

    def tensors(self, clip: Clips) -> tuple[Tensor, ...]:
        """The table of tensors for the job's encoding, e.g. ``Quantised(tensors=vector.tensors(clip=0.5))``.

        Parameters
        ----------
        clip
            The bound of a coordinate: one number for all, a mapping by name, or a function that is called
            with the name and the present values of each tensor, in its shape.

        Raises
        ------
        blindsum.ConfigError
            A mapping without a tensor of the model, or with a name that it does not have.
        """
        if isinstance(clip, Mapping):
            names = [entry.name for entry in self._entries]
            for name in names:
                if name not in clip:
                    raise ConfigError("clip", f"has no bound for {name}: give each tensor one")
            for name in clip:
                if name not in names:
                    raise ConfigError(
                        "clip", f"{name!r} is no tensor of the model: {names[0]!r} is the first one"
                    )
        values = self._present() if callable(clip) else None
        found = []
        for entry, piece in zip(self._entries, self._slices(), strict=True):
            if isinstance(clip, Mapping):
                bound = clip[entry.name]
            elif values is not None and callable(clip):
                bound = clip(entry.name, values[piece].reshape(entry.shape))
            else:
                bound = clip  # type: ignore[assignment]
            found.append(Tensor(entry.name, entry.size, float(bound)))
        return tuple(found)

    def _shown(self) -> dict[str, object]:
        return {"dim": self.dim, "tensors": len(self._entries), "layout hash": self.layout_hash}

    def _slices(self) -> Iterable[slice]:
        """The coordinates of each tensor."""
        return (slice(end - entry.size, end) for entry, end in zip(self._entries, self._ends, strict=True))

    def _name_at(self, index: int) -> str:
        """The tensor and the place in it that a coordinate is of."""
        number = bisect.bisect_right(self._ends, index)
        entry = self._entries[number]
        place = np.unravel_index(index - self._ends[number] + entry.size, entry.shape) if entry.shape else ()
        return f"{entry.name}{[int(one) for one in place]}" if entry.shape else entry.name

    def _checked_model(self, array: object) -> Vector:
        """What is to be loaded, as a vector of finite numbers."""
        if array is None:
            rule = "there is none, as where a round was lost: go on with the model that you have"
            raise InputError("model", rule)
        try:
            vector = as_vector(array, None, "model")
        except InputError as error:
            rule = f"{error.rule}; load() takes rnd.model, or the model or mean of a result"
            raise InputError(error.field, rule) from error
        if vector.size != self.dim:
            own = f"this model has {self.dim} in {len(self._entries)} tensors"
            raise InputError(
                "model", f"{vector.size} elements, and {own}; both sides must build the same model"
            )
        if (index := _native.first_not_finite(vector)) is not None:
            raise InputError(
                "model", f"{self._name_at(index)} is {vector[index]}, and must be a finite number", index
            )
        return vector

    def _remember(self, vector: Vector) -> None:
        """Remember what the model holds after a load: what was loaded, in the precision of its tensors."""
        self._trained = None
        narrow = any(np.dtype(vector.dtype).itemsize > _width(entry.dtype) for entry in self._entries)
        if narrow:
            self._base = self._present()
        else:
            # Nobody writes to what the core gives; anything else may change while the caller trains.
            self._base = vector if not vector.flags.writeable else vector.copy()

    def _difference(self, values: Vector) -> Vector:
        """The values less what was loaded, in the memory of the values."""
        if self._base is None:
            rule = "no model was loaded that it could be a change of; call load(rnd.model) before you train"
            raise InputError("update", rule)
        self._look_at(values)
        np.subtract(values, self._base, out=values, casting="same_kind")
        return self._finite(values, "update")

    def _look_at(self, values: Vector) -> None:
        """Warn once of a model that goes on without a load: its changes have those of earlier rounds, too."""
        trained = zlib.crc32(values.data)
        if self._trained not in (None, trained) and not self._is_told:
            self._is_told = True
            logger.warning(
                "this model was trained after its change was computed, and no model was loaded in "
                "between: the change includes that of the round before. Call load(rnd.model) in each "
                "round "
                "before you train"
            )
        self._trained = trained

    def _finite(self, values: Vector, what: str) -> Vector:
        if (index := _native.first_not_finite(values)) is not None:
            rule = f"{self._name_at(index)} is {values[index]}, and must be a finite number"
            advice = ADVICE if what == "update" else "look at how it was made"
            raise InputError(what, f"{rule}; {advice}", index)
        return values

    @abstractmethod
    def values(self) -> Vector:
        """The present model, shape ``(dim,)``."""

    @abstractmethod
    def _present(self) -> Vector:
        """The present values, in memory of their own."""


class HeldModel(ModelLayout):
    """A model that is changed where it is: a network of PyTorch, an estimator of scikit-learn."""

    def load(self, array: object) -> Self:
        """Write a model of the job into this one, in the shapes, element types and places that it has.

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
        for place, piece in enumerate(self._slices()):
            self._write(place, vector[piece])
        self._remember(vector)
        return self

    def change(self) -> Vector:
        """What training has changed since :meth:`load`, shape ``(dim,)``: the update of a job that adds.

        The element type is that of :meth:`values`. A tensor of float16 is compared with what it held after
        the load, so a model that was not trained has a change of 0.

        Raises
        ------
        blindsum.InputError
            Nothing was loaded, or a number is not finite: the error names the tensor.
        """
        return self._difference(self._present())

    def values(self) -> Vector:
        """The present model, shape ``(dim,)``: float32, or float64 if a tensor is.

        Raises
        ------
        blindsum.InputError
            A number is not finite: the error names the tensor.
        """
        return self._finite(self._present(), "model")

    def _present(self) -> Vector:
        values: Vector = np.empty(self.dim, self._dtype)
        for place, piece in enumerate(self._slices()):
            self._read(place, values[piece])
        return values

    @abstractmethod
    def _write(self, place: int, values: Vector) -> None:
        """Set a tensor, whose place in the layout this is, to these values."""

    @abstractmethod
    def _read(self, place: int, into: Vector) -> None:
        """Copy the values of a tensor."""


def takes(choice: object, name: str, tensor: object, is_trainable: bool) -> bool:
    """Whether a tensor takes part by the caller's choice of ``parameters``.

    Raises
    ------
    blindsum.ConfigError
        No such choice.
    """
    if choice == "trainable":
        return is_trainable
    if choice == "all":
        return True
    if callable(choice):
        return bool(choice(name, tensor))
    raise ConfigError(
        "parameters", f"{choice!r} must be 'trainable', 'all' or a function of a name and a tensor"
    )


def lines_of(layout: object) -> tuple[str, ...]:
    """The lines of a layout, which may be that of a ``ModelVector``.

    Raises
    ------
    blindsum.ConfigError
        Neither a ``ModelVector`` nor lines.
    """
    if isinstance(layout, ModelLayout):
        return layout.layout
    is_list = isinstance(layout, Sequence) and not isinstance(layout, (str, bytes))
    if not is_list or not all(isinstance(line, str) for line in layout):  # type: ignore[attr-defined]
        raise ConfigError(
            "layout", f"must be a ModelVector or a list of lines, not a {type(layout).__name__}"
        )
    return tuple(layout)  # type: ignore[arg-type]


def check(own: Sequence[str], agreed: Sequence[str], dim: int) -> None:
    """Refuse a job that is of another model than this party's.

    Parameters
    ----------
    own
        The layout of this party's model.
    agreed, dim
        Those of the job; no lines where it binds none.

    Raises
    ------
    blindsum.LayoutError
        They differ; it names the first difference.
    """
    if not agreed:
        have = sum(math.prod(map(int, line.rsplit(" ", 1)[1].split("x"))) for line in own)
        if have != dim:
            rule = f"this party's model has {have} elements, the job has dim = {dim}"
            raise LayoutError(None, f"{rule}; both sides must build the same model")
        return
    for entry, (mine, theirs) in enumerate(itertools.zip_longest(own, agreed)):
        if mine != theirs:
            rule = f"entry {entry}: this party has {mine or 'none'}, the job has {theirs or 'none'}"
            raise LayoutError(entry, f"{rule}; both sides must build the same model")


def _width(dtype: str) -> int:
    """Bytes of an element."""
    return {"float64": 8, "float32": 4}.get(dtype, 2)
