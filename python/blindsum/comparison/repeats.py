"""A simulation again, from the file that it was written to, and whether it gives the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from blindsum import _native, checks, os_errors, texts
from blindsum.cli.console import plain_table
from blindsum.comparison.columns import REPEATABLE, Row, read_csv
from blindsum.comparison.runs import SHORT_OF_MEMORY, impossible, measured, of_job
from blindsum.errors import ConfigError, InputError, SpecError
from blindsum.pki import AnyPath
from blindsum.simulation import OnProgress, simulate
from blindsum.spec import JobSpec

CHANGING = ("client_ms", "server_ms", "peak_rss_bytes", "origin", "threads", "scenario")
"""Names in a report whose values are others every time, or are no results."""

SCENARIO = ("drop", "drop_at", "latency", "liars", "lie", "rounds", "seed")
_ARGUMENTS = {"liars": "malicious", "lie": "misbehaviour"}


@dataclass(frozen=True)
class Compared:
    """One value of a simulation, before and now.

    Attributes
    ----------
    name : str
        The column of the table, or the field of the report.
    before, now : object
        What the file has, and what the repetition gave.
    """

    name: str
    before: Any
    now: Any

    @property
    def same(self) -> bool:
        """Whether both are equal."""
        return bool(self.before == self.now)


@dataclass(frozen=True)
class Repetition:
    """What came of a simulation that was repeated.

    Attributes
    ----------
    values : tuple of Compared
        Every value that the same job and seed must give again: no times, and no memory.
    now : dict
        The new row, or the new report, whole.
    version_before, version_now : str
        The version of Blindsum that wrote the file, and this one.
    """

    values: tuple[Compared, ...]
    now: Mapping[str, Any]
    version_before: str
    version_now: str

    @property
    def differing(self) -> tuple[str, ...]:
        """Names of the values that differ."""
        return tuple(value.name for value in self.values if not value.same)

    @property
    def same(self) -> bool:
        """Whether none differs."""
        return not self.differing

    def table(self) -> tuple[str, list[str], list[list[str]]]:
        """The values as a table: title, header and rows. Long values are cut."""
        rows = [
            [value.name, _cell(value.before), _cell(value.now), "" if value.same else "differs"]
            for value in self.values
        ]
        return "what the same job and seed must give again", ["value", "in the file", "now", ""], rows

    def verdict(self) -> list[str]:
        """Whether it is the same, in words, and which versions were compared."""
        versions = f"the file is of version {self.version_before}, and this is {self.version_now}"
        end = "the same again" if self.same else f"DIFFERENT: {', '.join(self.differing)}"
        return [end] if self.version_before == self.version_now else [versions, end]

    def __str__(self) -> str:
        return "\n".join([plain_table(*self.table()), *self.verdict()])


MAX_TEXT = 40
"""Letters of a value in a table."""


def _cell(value: object) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def simulate_again(
    path: AnyPath,
    row: int | None = None,
    *,
    updates: Sequence[object] | NDArray[Any] | None = None,
    weights: Sequence[float] | None = None,
    threads: int = 1,
    progress: OnProgress | None = None,
) -> Repetition:
    """Run a simulation again from the file that it was written to, and compare what must be the same.

    Parameters
    ----------
    path
        A table of :func:`blindsum.sweep`, ``runs.csv`` or ``runs.parquet``, or a report,
        ``SimulationResult.to_dict()`` or ``blindsum simulate --json`` in a file that ends in ``.json``.
    row
        Of a table, the number of the run (its column ``run``); ``None`` where there is but one.
    updates, weights
        What was given to :func:`blindsum.simulate`, where its updates were not random ones: they are in no
        file.
    threads
        Threads to work with; results do not depend on it.
    progress
        As for :func:`blindsum.simulate`.

    Raises
    ------
    blindsum.InputError
        The file is neither, has no such row, or lacks updates that were not given here.
    """
    file = Path(checks.path("path", path))
    if file.suffix.lower() == ".json":
        if row is not None:
            raise ConfigError(
                "row",
                f"{file} holds one report and has no runs to choose from: leave the number of the run out",
            )
        return _report_again(_read_report(file), file, updates, weights, threads, progress)
    if updates is not None or weights is not None:
        raise InputError("updates", f"the runs of {file} have random ones; leave updates and weights out")
    return _row_again(_row(_read_rows(file), row, file), progress)


def _row_again(before: Row, progress: OnProgress | None) -> Repetition:
    fields = _job(before)
    now: dict[str, Any] = dict.fromkeys(REPEATABLE)
    try:
        spec = (
            JobSpec.from_dict(fields) if before["job_hash"] else JobSpec.from_settings(list(fields.items()))
        )
    except SpecError as error:
        now |= impossible(error)
    else:
        scenario = {name: before[name] for name in ("drop", "latency", "seed")}
        now |= of_job(spec) | measured(spec, **scenario, progress=progress)
        now.pop(SHORT_OF_MEMORY, None)
    values = tuple(Compared(name, before[name], now[name]) for name in REPEATABLE)
    return Repetition(values, now, before["version"], _native.__version__)


def _job(row: Row) -> dict[str, Any]:
    """What the column ``spec`` has."""
    where = f"run {row['run']}, column spec"
    try:
        fields = json.loads(row["spec"])
    except (TypeError, ValueError) as error:
        raise InputError(where, "must be a job as JSON; was the file changed?") from error
    if not isinstance(fields, dict):
        raise InputError(where, "must be an object of JSON; was the file changed?")
    return fields


def _report_again(
    before: Mapping[str, Any],
    file: Path,
    updates: Sequence[object] | NDArray[Any] | None,
    weights: Sequence[float] | None,
    threads: int,
    progress: OnProgress | None,
) -> Repetition:
    scenario = before["scenario"]
    if scenario["updates"] == "given" and updates is None:
        raise InputError(
            "updates", f"{file} is of updates that were given, and no file has them; give them again"
        )
    if scenario["updates"] == "random" and updates is not None:
        raise InputError("updates", f"{file} is of random updates; leave updates and weights out")
    arguments = {_ARGUMENTS.get(name, name): scenario[name] for name in SCENARIO}
    spec = JobSpec.from_dict(before["spec"])
    result = simulate(spec, updates, weights=weights, **arguments, threads=threads, progress=progress)
    now = json.loads(json.dumps(result.to_dict()))
    stable_before, stable_now = _stable(before), _stable(now)
    names = dict.fromkeys([*stable_before, *stable_now])
    values = tuple(Compared(name, stable_before.get(name), stable_now.get(name)) for name in names)
    return Repetition(values, now, before["origin"]["version"], _native.__version__)


def _stable(value: Any) -> Any:
    """A report without what changes every time."""
    if isinstance(value, Mapping):
        return {name: _stable(inner) for name, inner in value.items() if name not in CHANGING}
    return [_stable(inner) for inner in value] if isinstance(value, list) else value


def _read_report(file: Path) -> Mapping[str, Any]:
    try:
        report = json.loads(texts.read(file))
    except OSError as error:
        raise InputError(str(file), os_errors.unreadable(error, "give the file of a simulation")) from error
    except ValueError as error:
        raise InputError(
            str(file), f"is no JSON ({error}); give the output of `blindsum simulate --json`"
        ) from error
    needed = ("spec", "scenario", "origin")
    lacking = [
        name for name in needed if not isinstance(report, dict) or not isinstance(report.get(name), dict)
    ]
    lacking += [name for name in SCENARIO if not lacking and name not in report["scenario"]]
    if lacking:
        raise InputError(
            str(file),
            f"has no {lacking[0]}, so that it cannot be repeated; give the output of "
            "`blindsum simulate --json` of this version",
        )
    found: Mapping[str, Any] = report
    return found


def _read_rows(file: Path) -> list[dict[str, Any]]:
    is_parquet = file.suffix.lower() == ".parquet"
    if is_parquet and find_spec("pyarrow") is None:
        rule = "needs pyarrow, which is not installed: give the CSV, or `pip install 'blindsum[compare]'`"
        raise InputError(str(file), rule)
    try:
        return _read_parquet(file) if is_parquet else read_csv(texts.read(file))
    except OSError as error:
        raise InputError(str(file), os_errors.unreadable(error, "give the file of a comparison")) from error
    except InputError as error:
        raise InputError(f"{file}: {error.field}", error.rule) from error
    except ValueError as error:
        raise InputError(str(file), f"{error}; give the table of a comparison") from error


def _read_parquet(file: Path) -> list[dict[str, Any]]:
    from blindsum.comparison.parquet import read_parquet

    return read_parquet(file)


def _row(rows: Sequence[Row], number: int | None, file: Path) -> Row:
    if number is None and len(rows) == 1:
        return rows[0]
    if number is None:
        raise InputError(str(file), f"has {len(rows)} runs; say which, e.g. {file}:1 (row=1 in Python)")
    wanted = checks.setting("row", number, 1, checks.PARTIES)
    found = next((row for row in rows if row["run"] == wanted), None)
    if found is None:
        there = f"runs {rows[0]['run']} to {rows[-1]['run']}" if rows else "no runs"
        raise InputError(str(file), f"has no run {wanted}: it has {there}; give one of them")
    return found
