"""The grid of a comparison: what is crossed with what, and the runs that follow."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blindsum import _native, checks
from blindsum.errors import ConfigError
from blindsum.spec import protocols
from blindsum.tables import Protocol

AXES = ("protocol", "parties", "dim", "drop", "bits", "latency")
"""What is crossed; the last ones vary fastest."""

MAX_RUNS = 100_000
"""Runs of a comparison."""

MAX_REPEAT = 10_000
"""Runs of one cell."""


@dataclass(frozen=True)
class Cell:
    """One run of a comparison.

    Attributes
    ----------
    run : int
        Its number, from 1 on, in the order of the grid.
    protocol : str
        A protocol, or one with options: ``"secagg+:neighbours=20"``.
    parties, dim : int
        Size of the problem.
    drop : float
        Fraction of the parties that vanishes before the input stage.
    bits : int or None
        Bits of a value; ``None`` leaves them to the job.
    latency : float
        Seconds of virtual time that a message takes.
    repeat : int
        Which of the runs with these values it is, from 1 on.
    seed : int
        Seed of every random number of this run.
    """

    run: int
    protocol: str
    parties: int
    dim: int
    drop: float
    bits: int | None
    latency: float
    repeat: int
    seed: int


@dataclass(frozen=True)
class Grid:
    """What is compared. Made by :meth:`of`, which checks it.

    Attributes
    ----------
    protocol, parties, dim, drop, bits, latency : tuple
        The values of each axis, as in :class:`Cell`.
    settings : tuple of pairs
        Options that all jobs have, by name.
    repeat : int
        Runs of each cell, with the seeds ``seed``, ``seed + 1``, …
    seed : int
        The first seed.
    """

    protocol: tuple[str, ...]
    parties: tuple[int, ...]
    dim: tuple[int, ...]
    drop: tuple[float, ...]
    bits: tuple[int | None, ...]
    latency: tuple[float, ...]
    settings: tuple[tuple[str, Any], ...]
    repeat: int
    seed: int

    @classmethod
    def of(
        cls,
        *,
        protocol: object,
        parties: object,
        dim: object,
        drop: object = 0.0,
        bits: object = None,
        latency: object = 0.0,
        settings: Mapping[str, object] | None = None,
        repeat: int = 1,
        seed: int = 0,
    ) -> Grid:
        """Check the axes, each one value or several.

        Raises
        ------
        blindsum.ConfigError
            An axis without a value, a value that is there twice or of the wrong kind, a protocol or an option
            that does not exist, or too many runs. A value that a protocol cannot have is no error: its runs
            say why they are impossible.
        """
        repeat = checks.setting("repeat", repeat, 1, MAX_REPEAT)
        grid = cls(
            protocol=_axis("protocol", protocol, _protocol),
            parties=_axis("parties", parties, _count),
            dim=_axis("dim", dim, _count),
            drop=_axis("drop", drop, checks.fraction),
            bits=(None,) if bits is None else _axis("bits", bits, _count),
            latency=_axis("latency", latency, checks.seconds),
            settings=tuple(_setting(name, value) for name, value in (settings or {}).items()),
            repeat=repeat,
            seed=checks.setting("seed", seed, 0, checks.SEEDS - repeat + 1),
        )
        for text in grid.protocol:
            name, _ = read_protocol(text)
            for setting, _ in grid.settings:
                _refuse_foreign(f"settings.{setting}", setting.rpartition(".")[2], name)
        if len(grid) > MAX_RUNS:
            raise ConfigError(
                "grid",
                f"{len(grid)} runs, at most {MAX_RUNS}: give fewer values, or compare in several grids",
            )
        return grid

    def __len__(self) -> int:
        """The number of runs."""
        count = self.repeat
        for name in AXES:
            count *= len(getattr(self, name))
        return count

    def cells(self) -> Iterator[Cell]:
        """Every run, in order."""
        axes = [getattr(self, name) for name in AXES]
        runs = itertools.product(*axes, range(1, self.repeat + 1))
        for run, (protocol, parties, dim, drop, bits, latency, repeat) in enumerate(runs, 1):
            seed = self.seed + repeat - 1
            yield Cell(run, protocol, parties, dim, drop, bits, latency, repeat, seed)

    def job_settings(self, cell: Cell) -> list[tuple[str, object]]:
        """The flat settings of a cell's job, for :meth:`blindsum.JobSpec.from_settings`."""
        name, options = read_protocol(cell.protocol)
        bits = [] if cell.bits is None else [("bits", cell.bits)]
        sizes: list[tuple[str, object]] = [("parties", cell.parties), ("dim", cell.dim)]
        return [("protocol", name), *options, *sizes, *bits, *self.settings]

    def to_dict(self) -> dict[str, Any]:
        """The grid as plain data."""
        fields: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return {**fields, "settings": dict(self.settings)}

    def varying(self) -> list[str]:
        """The axes with more than one value."""
        return [name for name in AXES if len(getattr(self, name)) > 1]


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What differs between two grids as plain data, one text for each name."""
    names = [name for name in dict.fromkeys([*here, *there]) if there.get(name) != here.get(name)]
    return [
        f"{name} is {json.dumps(there.get(name))} there and {json.dumps(here.get(name))} here"
        for name in names
    ]


def read_protocol(text: str) -> tuple[str, list[tuple[str, object]]]:
    """The name of a protocol and its options, from ``NAME`` or ``NAME:OPTION=VALUE:…``."""
    name, *options = text.split(":")
    return name, [(option, value) for option, _, value in (one.partition("=") for one in options)]


def _axis(field: str, values: object, check: Any) -> tuple[Any, ...]:
    """The values of an axis, checked one by one."""
    is_one = isinstance(values, str | numbers.Number | Protocol) or not isinstance(values, Iterable)
    given = [values] if is_one else list(values)  # type: ignore[call-overload]
    found = tuple(check(field, value) for value in given)
    if not found:
        raise ConfigError(field, "must have at least one value: give one, or several separated by commas")
    twice = [value for place, value in enumerate(found) if value in found[:place]]
    if twice:
        raise ConfigError(
            field, f"{twice[0]!r} is there twice: give each value once; repeat=N runs each N times"
        )
    return found


def _protocol(field: str, value: object) -> str:
    if isinstance(value, Protocol):
        said = value.to_dict()
        value = ":".join([said.pop("name"), *(f"{name}={one}" for name, one in said.items())])
    if not isinstance(value, str):
        rule = f"{value!r} must be the name of a protocol, or one such as blindsum.SecAggPlus()"
        raise ConfigError(field, rule)
    name, options = read_protocol(value)
    if name not in protocols():
        raise ConfigError(field, f"{name!r} must be one of {', '.join(protocols())}")
    for option, setting in options:
        if option not in _options() or not setting:
            rule = (
                "must be NAME or NAME:OPTION=VALUE with an option of the protocol, e.g. secagg+:neighbours=20"
            )
            raise ConfigError(field, f"{value!r} {rule}")
        _refuse_foreign(field, option, name)
    return value


def _count(field: str, value: object) -> int:
    return checks.setting(field, value, 1, checks.PARTIES)


def _setting(name: str, value: object) -> tuple[str, object]:
    field, _, option = name.rpartition(".")
    if option in AXES:
        raise ConfigError(f"settings.{name}", f"is an axis of the grid: give {option} its values there")
    if option not in _options(field):
        raise ConfigError(
            f"settings.{name}",
            "is no option of a job or of what it chooses: `blindsum spec --schema` lists them",
        )
    try:
        return name, json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"settings.{name}", f"{value!r} must be a number, a text or a list") from error


def _refuse_foreign(field: str, option: str, protocol: str) -> None:
    """Refuse an option of other protocols alone: every run with it would be impossible."""
    schema = _native.job_schema()
    tables = {place: set(table["properties"]) for place, table in schema["$defs"].items() if "." in place}
    owners = [place.partition(".")[2] for place, names in tables.items() if option in names]
    elsewhere = option in schema["properties"] or any(
        option in names for place, names in tables.items() if not place.startswith("protocol.")
    )
    if elsewhere or protocol in owners:
        return
    rule = f"{option} is an option of {', '.join(owners)}, not of {protocol}"
    raise ConfigError(field, f"{rule}: give it with a protocol that has it, as in {owners[0]}:{option}=VALUE")


def dropped(parties: int, drop: float) -> int:
    """How many of so many parties a fraction is: rounded down, as the core does."""
    return math.floor(parties * drop + 1e-9)


def _options(field: str = "") -> set[str]:
    """Names of all options of jobs and of the tables that they choose; of a field those of its tables."""
    schema = _native.job_schema()
    tables = {place: table["properties"] for place, table in schema["$defs"].items() if "." in place}
    if field:
        found = [table for place, table in tables.items() if place.startswith(f"{field}.")]
    else:
        found = [schema["properties"], *tables.values()]
    return {name for table in found for name in table} - {"name"}
