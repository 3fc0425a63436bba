"""The job specification: what is agreed before anything is sent."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blindsum import _native
from blindsum.errors import SpecError


@dataclass(frozen=True, slots=True)
class Tensor:
    """A run of coordinates with its own clipping bound.

    Attributes
    ----------
    name : str
        Name, for reports.
    len : int
        Number of coordinates.
    clip : float
        Bound on the absolute value of a coordinate.
    """

    name: str
    len: int
    clip: float


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """What is agreed before anything is sent. Checked when it is made; its hash is in every key.

    Attributes
    ----------
    protocol : str
        One of :func:`blindsum.protocols`.
    parties : int
        Largest number of parties in a round.
    dim : int
        Number of coordinates of an update.
    job : str
        Name of the job, ``[a-z0-9._-]{1,64}``.
    adversary : str
        Against whom it must hold: ``"active"`` or ``"semi-honest"``.
    suite : str
        Key agreement: ``"x25519"`` or ``"p256"``.
    min_parties : int
        Smallest number of survivors whose sum may be opened, and of parties in a round; 0 chooses, by
        ``parties``, ``corrupt`` and ``dropout``: :attr:`quorum` says what.
    rounds : int
        Number of rounds; 0 goes on until the job is stopped.
    encoding : str
        ``"quantised"``, ``"fixed64"`` (64-bit fixed point, 16 fractional bits) or ``"integers"``
        (unsigned integers as they are, with exact sums).
    bits : int
        Bits of a quantised value, 2 to 32, or of an integer, 1 to 64.
    clip : float
        Bound on a coordinate or on the L2 norm, by ``clipping``.
    clipping : str
        ``"tensor"`` (every coordinate), ``"l2"`` (the norm of the vector) or ``"aciq"`` (every
        coordinate; from the second round on the bounds are found from the means of earlier rounds, per
        tensor, and never wider than ``clip``).
    rounding : str
        ``"stochastic"`` (unbiased) or ``"nearest"``.
    max_weight : int
        Largest weight of an update; 1 gives every party the same weight.
    tensors : sequence of Tensor
        Clipping bounds per tensor; empty applies ``clip`` to all coordinates.
    neighbours : int
        Neighbours of a party in the graph of ``secagg+``; 0 finds the smallest safe number.
    threshold : int
        Shares that reconstruct a party's secret; 0 finds it.
    packing : int
        Words packed into one sharing polynomial of ``fssa`` and ``pss``; 0 chooses.
    masking : str
        Masks that hide a word in ``flashe``: ``"double"``, ``"single"``, or ``"cheaper"``, whichever is
        expected to cost less at the job's dropouts.
    key_rounds : int
        Rounds that a key of the job serves in ``flashe`` before another one is made; 0 keeps it.
    density : float
        Part of the coordinates of each tensor that a party sends in ``flashe``; 1 sends all. Below 1 rounds
        are sparse: a party sends its largest coordinates and adds the others to its next update.
    density_start : float
        Density of the first round, where it falls to ``density`` step by step.
    density_steps : int
        Steps in which the density falls; 0 begins with ``density``.
    density_rounds : int
        Rounds of a step.
    min_contributors : int
        Parties that must have sent a coordinate of a sparse round for its sum to be opened; 0 means 2.
    corrupt : float
        Fraction of the parties that may work together with the server.
    dropout : float
        Fraction of the parties that may drop out of a round.
    join_deadline : float
        Seconds that a round waits for parties to join.
    stage_deadline : float
        Seconds that a stage waits for answers.
    input_deadline : float
        Seconds that the input stage waits: training happens in it.
    model_update : str
        What the mean does to the job's model: ``"add"``, ``"replace"`` or ``"none"``. ``None`` chooses
        ``"add"`` or, for integers, of which no model is made, ``"none"``.

    Raises
    ------
    blindsum.SpecError
        A field breaks a rule; the error quotes it.

    Examples
    --------
    >>> spec = JobSpec(protocol="plain", parties=10, dim=1000, bits=16)
    >>> spec.word_bits
    20
    """

    protocol: str
    parties: int
    dim: int
    job: str = "job"
    adversary: str = "active"
    suite: str = "x25519"
    min_parties: int = 0
    rounds: int = 1
    encoding: str = "quantised"
    bits: int = 16
    clip: float = 1.0
    clipping: str = "tensor"
    rounding: str = "stochastic"
    max_weight: int = 1
    tensors: Sequence[Tensor] = ()
    neighbours: int = 0
    threshold: int = 0
    packing: int = 0
    masking: str = "cheaper"
    key_rounds: int = 0
    density: float = 1.0
    density_start: float = 1.0
    density_steps: int = 0
    density_rounds: int = 1
    min_contributors: int = 0
    corrupt: float = 0.1
    dropout: float = 0.1
    join_deadline: float = 60.0
    stage_deadline: float = 30.0
    input_deadline: float = 600.0
    model_update: str | None = None
    _checked: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", tuple(_tensor(item) for item in self.tensors))
        if self.model_update is None:
            chosen = "none" if self.encoding == "integers" else "add"
            object.__setattr__(self, "model_update", chosen)
        fields = self._fields()
        for name, value in fields.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise SpecError(name, f"must be a finite number, not {value}")
        try:
            text = json.dumps(fields, allow_nan=False, default=_scalar)
        except (TypeError, ValueError) as error:
            raise SpecError("JSON", f"values must be plain numbers and text: {error}") from error
        object.__setattr__(self, "_checked", json.loads(_native.validate_job(text)))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> JobSpec:
        """Make a specification from a mapping, e.g. a parsed TOML or JSON file.

        Raises
        ------
        blindsum.SpecError
            An unknown field, a missing one, or a rule that is broken.
        """
        names = [item.name for item in dataclasses.fields(cls) if item.init]
        for name in fields:
            if name not in names:
                raise SpecError(name, f"no such field; there are {', '.join(names)}")
        for name in ("protocol", "parties", "dim"):
            if name not in fields:
                raise SpecError(name, "must be given")
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain data, the inverse of :meth:`from_dict`."""
        spec: dict[str, Any] = dict(self._checked["spec"])
        return spec

    def to_json(self) -> str:
        """Every field as a JSON object."""
        return json.dumps(self.to_dict())

    def replace(self, **changes: Any) -> JobSpec:
        """Give a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages of a round; the n-th is what parties answer n-th."""
        return tuple(self._checked["stages"])

    @property
    def input_stage(self) -> str:
        """The stage in which a party sends its vector."""
        return self.stages[int(self._checked["input_stage"])]

    @property
    def key_setup_stages(self) -> tuple[str, ...]:
        """Names of the stages in which parties get the key of the job; empty where they need none."""
        return tuple(self._checked["key_setup_stages"])

    @property
    def hides_sum(self) -> bool:
        """Whether only the parties learn sums, their weights, and the models that follow from them."""
        return bool(self._checked["hides_sum"])

    @property
    def word_bits(self) -> int:
        """Bits of a word on the wire, so wide that no sum can wrap."""
        return int(self._checked["word_bits"])

    @property
    def packed_bytes(self) -> int:
        """Bytes of one party's vector on the wire."""
        return int(self._checked["packed_bytes"])

    @property
    def parameters(self) -> dict[str, int]:
        """What the protocol chose where the job leaves it open, for a round of ``parties``.

        ``neighbours`` and ``threshold`` for ``secagg`` and ``secagg+``; for ``fssa`` and ``pss``
        ``threshold`` (shares that rebuild a sum), ``packing`` (words in a polynomial), ``random``
        (its uniform elements), ``blocks`` (polynomials of a vector) and ``share_bytes`` (bytes of a
        share of one block); for ``flashe`` ``masks`` (that hide a word: 2 or 1).
        """
        return {name: int(value) for name, value in self._checked["parameters"].items()}

    @property
    def quorum(self) -> int:
        """Smallest number of survivors whose sum may be opened: fewer parties begin no round."""
        return int(self._checked["min_parties"])

    @property
    def dropouts(self) -> int:
        """Parties that may be lost in a round of ``parties``: ``dropout`` of them, rounded down."""
        return int(self._checked["dropouts"])

    @property
    def max_error(self) -> float:
        """Largest difference between the opened mean and the mean of the clipped updates.

        For integers only the mean is rounded: their sum is exact.
        """
        return float(self._checked["max_error"])

    @property
    def hash(self) -> str:
        """Hash of every field, 64 hexadecimal digits; part of every key and signature."""
        return str(self._checked["hash"])

    def _fields(self) -> dict[str, Any]:
        items = ((item.name, getattr(self, item.name)) for item in dataclasses.fields(self) if item.init)
        return {
            name: [dataclasses.asdict(tensor) for tensor in value] if name == "tensors" else value
            for name, value in items
        }


def protocols() -> tuple[str, ...]:
    """Names of the protocols that this build has."""
    return tuple(_native.protocols())


def _tensor(item: object) -> Tensor:
    if isinstance(item, Tensor):
        return item
    if isinstance(item, Mapping) and set(item) == {"name", "len", "clip"}:
        return Tensor(**item)
    raise SpecError("tensors", f"must hold blindsum.Tensor(name, len, clip), not {item!r}")


def _scalar(value: Any) -> Any:
    """Numpy scalars as Python ones."""
    if callable(getattr(value, "item", None)):
        return value.item()
    raise TypeError(f"{value!r} is a {type(value).__name__}")
