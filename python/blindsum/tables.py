"""What the generated tables of options have in common; see :mod:`blindsum.options`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

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
