"""Lines on standard output that never wait for a reader."""

from __future__ import annotations

import collections
import io
import os
import select
import sys
import time

MAX_WAITING = 1000
"""Lines kept where nobody reads; the oldest are dropped then."""

LAST_WAIT = 2.0
"""Seconds at the end in which what is left may still be read."""


class Output:
    """Standard output, for a program that must go on where nobody reads it, e.g. a pipe that is full."""

    def __init__(self) -> None:
        self._waiting: collections.deque[bytes] = collections.deque()
        self._rest = b""
        sys.stdout.flush()
        self._encoding = sys.stdout.encoding or "utf-8"
        try:
            self._file: int | None = sys.stdout.fileno()
        except (io.UnsupportedOperation, ValueError):
            # No file at all, as in a test that looks at the output.
            self._file = None

    def line(self, text: str) -> None:
        """Write a line, now or when there is room for it."""
        if self._file is None:
            print(text, flush=True)
            return
        self._waiting.append(f"{text}\n".encode(self._encoding, "backslashreplace"))
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
        self.go_on()

    def go_on(self) -> None:
        """Write what there is room for.

        Raises
        ------
        BrokenPipeError
            The reader has gone.
        """
        while (self._rest or self._waiting) and self._has_room(0.0):
            self._write_piece()

    def finish(self) -> None:
        """Give a slow reader a moment for the rest."""
        until = time.monotonic() + LAST_WAIT
        while self._rest or self._waiting:
            if not self._has_room(until - time.monotonic()):
                return
            self._write_piece()

    def _write_piece(self) -> None:
        assert self._file is not None
        if not self._rest:
            self._rest = self._waiting.popleft()
        # Where a pipe has room at all, it has room for so much.
        written = os.write(self._file, self._rest[: select.PIPE_BUF])
        self._rest = self._rest[written:]

    def _has_room(self, seconds: float) -> bool:
        poll = select.poll()
        assert self._file is not None
        poll.register(self._file, select.POLLOUT)
        return bool(poll.poll(max(0.0, seconds) * 1000))
