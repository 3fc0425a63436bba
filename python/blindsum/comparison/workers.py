"""Runs side by side, each in a process of its own: so its peak of memory is its own, and its end only its."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import IO, Any, Self

from blindsum.comparison import runs
from blindsum.comparison.grid import Cell, Grid
from blindsum.spec import JobSpec

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Numpy's own threads would take time and memory from the other runs."""


class Workers:
    """Runs cells of a grid. Use it in a ``with`` statement, whose end ends every process."""

    def __init__(self, grid: Grid, jobs: int) -> None:
        self._grid = grid
        self._jobs = jobs
        self._threads = ThreadPoolExecutor(jobs)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._ended = True
            for process in self._running:
                process.kill()
        self._threads.shutdown(cancel_futures=True)

    def rows(self, cells: Iterable[Cell]) -> Iterator[dict[str, Any]]:
        """Finished rows, in the order in which they end.

        Runs that found too little memory beside the others come last, one at a time.
        """
        asked = list(cells)
        done: queue.SimpleQueue[tuple[Cell, Future[dict[str, Any]]]] = queue.SimpleQueue()
        for cell in asked:
            future = self._threads.submit(self._row, cell, self._jobs)
            future.add_done_callback(partial(_put, done, cell))
        again = []
        for _ in asked:
            cell, ended = done.get()
            row = ended.result()
            if row.pop(runs.SHORT_OF_MEMORY, False) and self._jobs > 1:
                again.append(cell)
            else:
                yield row
        for cell in again:
            row = self._row(cell, 1)
            row.pop(runs.SHORT_OF_MEMORY, None)
            yield row

    def _row(self, cell: Cell, jobs: int) -> dict[str, Any]:
        row, spec = runs.empty_row(self._grid, cell, jobs)
        return row if spec is None else row | self._measured(spec, cell)

    def _measured(self, spec: JobSpec, cell: Cell) -> dict[str, Any]:
        """The measured cells, from a process of their own."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            try:
                process = self._start(errors)
            except OSError as error:
                return _error(f"no process could be started for the run: {error.strerror}; give fewer jobs")
            if process is None:
                return _error("the comparison was stopped before the run began; start it again")
            try:
                said = _talk(process, runs.request(spec, cell))
            finally:
                with self._lock:
                    self._running.discard(process)
            if process.returncode == 0:
                found: dict[str, Any] = json.loads(said)
                return found
            errors.seek(0)
            return _failed(process.returncode, errors.read())

    def _start(self, errors: IO[str]) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._ended:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", runs.__name__],
                env=os.environ | ONE_THREAD,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # What is written is out, so that a dead process is seen then, not when its pipe is closed.
                bufsize=0,
                # Ctrl-C reaches this process only, which then ends the others.
                start_new_session=True,
            )
            self._running.add(process)
            return process


def _put(done: queue.SimpleQueue[tuple[Cell, Future[Any]]], cell: Cell, ended: Future[Any]) -> None:
    done.put((cell, ended))


def _talk(process: subprocess.Popen[bytes], asked: str) -> str:
    """Tell a process what to run, and wait for what it says and for its end."""
    assert process.stdin is not None
    assert process.stdout is not None
    # Standard input stays open meanwhile: where it closes, the process ends.
    with process:
        with suppress(BrokenPipeError):
            process.stdin.write(asked.encode())
        said: bytes = process.stdout.read()
        process.wait()
        return said.decode()


def _failed(status: int, errors: str) -> dict[str, Any]:
    """The outcome of a run whose process failed."""
    if status == -signal.SIGKILL:
        reason = (
            "the process of the run was killed, as the system does where memory runs out: "
            "compare on a machine with more memory, or leave this size out"
        )
        return {**_error(reason), runs.SHORT_OF_MEMORY: True}
    if status < 0:
        name = signal.Signals(-status).name
        return _error(f"the process of the run was ended by {name}: repeat the run, and report it as a bug")
    last = next((line for line in reversed(errors.splitlines()) if line.strip()), "no message")
    return _error(f"the process of the run failed with {last.strip()}: repeat the run to see more")


def _error(reason: str) -> dict[str, Any]:
    return {"outcome": "error", "reason": reason}
