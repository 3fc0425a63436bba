"""Protocols side by side: every combination of parties, coordinates, dropouts, bits and latency."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

from blindsum import checks
from blindsum.comparison.folder import Folder
from blindsum.comparison.grid import Grid
from blindsum.comparison.table import Comparison, check_formats
from blindsum.comparison.workers import Workers
from blindsum.pki import AnyPath
from blindsum.tables import Protocol
from blindsum.texts import counted

OnRuns: TypeAlias = Callable[[int, int, str], object]
"""Called with the runs done, the runs of the grid, and the one that has ended."""

MAX_JOBS = 1024
"""Runs side by side."""


def sweep(
    *,
    protocol: str | Protocol | Sequence[str | Protocol],
    parties: int | Sequence[int],
    dim: int | Sequence[int],
    drop: float | Sequence[float] = 0.0,
    bits: int | Sequence[int] | None = None,
    latency: float | Sequence[float] = 0.0,
    settings: Mapping[str, object] | None = None,
    repeat: int = 1,
    seed: int = 0,
    jobs: int | None = None,
    out: AnyPath | None = None,
    write: Collection[str] | None = None,
    progress: OnRuns | None = None,
) -> Comparison:
    """Simulate a round of every combination, each in a process of its own, and give a table.

    Every run has a row: one that is impossible (``secagg`` with two parties), that ended without a sum
    (too many dropouts) or that failed says why in ``reason``, and takes nothing away from the others.

    Parameters
    ----------
    protocol
        Protocols: names, names with options (``"secagg+:neighbours=20"``) or classes such as
        ``blindsum.SecAggPlus(neighbours=20)``.
    parties, dim
        Sizes of the problem.
    drop
        Fractions of the parties that vanish before the input stage, as for :func:`blindsum.simulate`. A job
        is made for its ``dropout``, by default a tenth; ``settings={"dropout": 0.3}`` makes all for more.
    bits
        Bits of a value; ``None`` leaves them to the jobs.
    latency
        Seconds of virtual time that every message takes.
    settings
        Further options of all jobs, by name: ``{"adversary": "semi-honest"}``.
    repeat
        Runs of each combination, with the seeds ``seed``, ``seed + 1``, …
    seed
        The first seed.
    jobs
        Runs side by side; ``None`` is one for each core that this process may use. They disturb each other's
        times, ``wall_seconds`` most: quote times of ``jobs=1``.
    out
        A folder for the table, which has each row as soon as it is there. A comparison that was interrupted
        goes on where it stopped when it is called with the same grid and folder; runs that failed run again.
        ``None`` writes nothing.
    write
        What is written to ``out`` at the end beside ``runs.csv``: some of ``"markdown"``, ``"svg"`` and
        ``"parquet"``. ``None`` writes what the installed packages allow.
    progress
        Called at the beginning and after every run; an exception in it ends the comparison.

    Returns
    -------
    Comparison
        The rows, with methods that write and show them.

    Raises
    ------
    blindsum.ConfigError
        An argument that cannot be right, or a folder that holds another grid; nothing ran then.

    Examples
    --------
    >>> table = sweep(protocol=["plain", "secagg"], parties=[2, 10], dim=100)
    >>> [(row["protocol"], row["parties"], row["outcome"]) for row in table.rows]
    [('plain', 2, 'sum'), ('plain', 10, 'sum'), ('secagg', 2, 'impossible'), ('secagg', 10, 'sum')]
    """
    grid = Grid.of(
        protocol=protocol,
        parties=parties,
        dim=dim,
        drop=drop,
        bits=bits,
        latency=latency,
        settings=settings,
        repeat=repeat,
        seed=seed,
    )
    count = cores() if jobs is None else checks.setting("jobs", jobs, 1, MAX_JOBS)
    formats = check_formats(write)
    with ExitStack() as stack:
        folder = None if out is None else stack.enter_context(Folder(out, grid))
        rows = {} if folder is None else folder.rows
        cells = [cell for cell in grid.cells() if cell.run not in rows]
        workers = stack.enter_context(Workers(grid, count))
        if progress is not None:
            progress(len(rows), len(grid), "starting")
        for row in workers.rows(cells):
            rows[row["run"]] = row
            if folder is not None:
                folder.add(row)
            if progress is not None:
                progress(len(rows), len(grid), _named(row))
        table = Comparison(grid, tuple(rows[run] for run in sorted(rows)))
        if folder is not None:
            folder.sort()
            table.write(folder.path, formats)
    return table


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _named(row: Mapping[str, Any]) -> str:
    size = f"{counted(row['parties'], 'party')}, {counted(row['dim'], 'coordinate')}"
    return f"{row['protocol']}, {size}: {row['outcome']}"
