"""One run of a comparison: the simulation, and its row of the table.

As a program (``python -m blindsum.comparison.runs``) it is the process of one run: it reads a request, a line
of JSON on standard input, and writes the measured part of the row as JSON on standard output. It ends when
its standard input does, so that none is left behind when the process that has started it is killed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from blindsum.comparison.columns import NAMES, plain_json
from blindsum.comparison.grid import Cell, Grid
from blindsum.errors import ConfigError, InputError, MemoryLimitError, SpecError
from blindsum.origin import origin
from blindsum.simulation import OnProgress, simulate
from blindsum.simulation_result import SimulationResult
from blindsum.spec import JobSpec

SHORT_OF_MEMORY = "short_of_memory"
"""A key of a measured part: the run found too little memory, and may find more when it is alone."""


def empty_row(grid: Grid, cell: Cell, jobs: int) -> tuple[dict[str, Any], JobSpec | None]:
    """A row before its run, and the job; where the job is impossible, the finished row and ``None``."""
    row = dict.fromkeys(NAMES) | dataclasses.asdict(cell) | {"jobs": jobs} | origin()
    settings = grid.job_settings(cell)
    try:
        spec = JobSpec.from_settings(settings)
    except SpecError as error:
        return row | impossible(error) | {"spec": plain_json(dict(settings))}, None
    return row | of_job(spec), spec


def of_job(spec: JobSpec) -> dict[str, Any]:
    """The cells that a job has before it runs."""
    return {
        "bits": getattr(spec.encoding, "bits", None),
        "chosen": plain_json(spec.chosen),
        "spec": plain_json(spec.to_dict()),
        "job_hash": spec.hash,
    }


def impossible(error: Exception) -> dict[str, Any]:
    """The outcome of a run that cannot be."""
    return {"outcome": "impossible", "reason": str(error)}


def measured(
    spec: JobSpec, *, drop: float, latency: float, seed: int, progress: OnProgress | None = None
) -> dict[str, Any]:
    """Simulate a round and give the measured cells of its row."""
    start = _memory()
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        result = simulate(spec, drop=drop, latency=latency, seed=seed, progress=progress)
    except MemoryLimitError as error:
        return {**impossible(error), SHORT_OF_MEMORY: True}
    except (ConfigError, InputError) as error:
        return impossible(error)
    seconds = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    return _cells(result) | seconds | {"start_bytes": start}


def _cells(result: SimulationResult) -> dict[str, Any]:
    servers_ms = sum(server.server_ms for server in result.servers) if result.servers else result.server_ms
    setup = result.key_setup
    of_setup = (
        {}
        if setup is None
        else {
            "setup_party_ms": setup.client_ms.median,
            "setup_coordinator_ms": setup.server_ms,
            "setup_up_bytes_per_party": setup.up_bytes_per_party,
            "setup_down_bytes_per_party": setup.down_bytes_per_party,
        }
    )
    return {
        "outcome": result.outcome,
        "reason": result.fault,
        "survivors": result.survivor_count,
        "exact": result.exact,
        "max_abs_error": result.max_abs_error,
        "party_ms": result.client_ms.median,
        "party_ms_max": result.client_ms.max,
        "coordinator_ms": result.server_ms,
        "servers_ms": servers_ms,
        "up_bytes_per_party": result.up_bytes_per_party,
        "down_bytes_per_party": result.down_bytes_per_party,
        **of_setup,
        "virtual_seconds": result.virtual_seconds,
        "peak_bytes": result.process_peak_bytes,
        "stages": plain_json([dataclasses.asdict(stage) for stage in result.stages]),
    }


def request(spec: JobSpec, cell: Cell) -> str:
    """What the process of a run is told: a line."""
    job = {"drop": cell.drop, "latency": cell.latency, "seed": cell.seed}
    return json.dumps({"spec": spec.to_dict(), **job}) + "\n"


def _memory() -> int | None:
    """Bytes of memory that this process holds; ``None`` if the system does not tell."""
    try:
        with open("/proc/self/status", encoding="utf-8") as status:
            lines = dict(line.split(":", 1) for line in status)
    except OSError:
        return None
    return int(lines["VmRSS"].split()[0]) * 1024


def main() -> int:
    """Be the process of one run; the exit status."""
    asked: Mapping[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    spec = JobSpec.from_dict(asked["spec"])
    found = measured(spec, drop=asked["drop"], latency=asked["latency"], seed=asked["seed"])
    print(json.dumps(found), flush=True)
    return 0


def _end_with_input() -> None:
    # Nothing more is sent. Only the process that has started this one holds the other end.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
