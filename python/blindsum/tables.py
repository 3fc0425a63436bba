"""What the generated tables of options have in common; see :mod:`blindsum.options`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

UNSET: Any = None
"""An option that is not given: the core fills in its default."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A run of coordinates with its own clipping bound.

    Attributes
    ----------
    name : str
        Name, for reports and warnings. No two tensors of a job have the same one; several may have an
        empty one.
    len : int
        Number of coordinates.
    clip : float
        Bound on the absolute value of a coordinate.
    """

    name: str
    len: int
    clip: float


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that every party may report in a round, such as the accuracy of the model on its data.

    Attributes
    ----------
    name : str
        Its name, 1 to 64 of ``a-z 0-9 _ . -``; no two metrics of a job have the same one.
    low, high : float
        The least and the greatest value. What is beyond counts as the nearer one.
    """

    name: str
    low: float
    high: float


Parameter: TypeAlias = "bool | int | float | str | tuple[Parameter, ...]"
"""A hyperparameter: a number, text, a truth value, or a tuple of these."""


class Parameters(Mapping[str, Any]):
    """The hyperparameters of a job: a read-only table that can be hashed, as the job can.

    Lists of the job file are tuples here. ``train(net, **job.parameters)`` hands them on.

    Examples
    --------
    >>> parameters = Parameters({"learning_rate": 0.1, "betas": [0.9, 0.999]})
    >>> parameters["betas"]
    (0.9, 0.999)
    """

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries: dict[str, Parameter] = {name: _fixed(value) for name, value in entries.items()}

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


def _fixed(value: Any) -> Parameter:
    """A value that nobody can change."""
    return tuple(_fixed(item) for item in value) if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, kw_only=True)
class Table:
    """A protocol, an encoding or a server step with its options; options that are not given are ``None``."""

    name: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """The name and the options that were given, as in a file."""
        options = ((item.name, getattr(self, item.name)) for item in dataclasses.fields(self))
        return {"name": self.name} | {name: value for name, value in options if value is not UNSET}

    def __str__(self) -> str:
        return self.name


class Protocol(Table):
    """A protocol with its options."""


class Encoding(Table):
    """An encoding with its options."""


class ServerStep(Table):
    """What adding to the model means, with its options."""


class Stop(Table):
    """When a job ends before its rounds are done, with its options."""


class Privacy(Table):
    """What hides a party in the sum itself, with its options."""
