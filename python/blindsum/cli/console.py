"""What people see: progress on stderr, tables on stdout, with ``rich`` where it is installed.

Progress is drawn only on a terminal; elsewhere a line is printed now and then, so that logs show that
something goes on. With ``--json`` nothing but JSON reaches stdout.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

LINE_EVERY = 10.0
"""Seconds between lines of progress where there is no terminal."""


class Progress(Protocol):
    """How far long work is."""

    def update(self, done: float, text: str) -> None:
        """So many units are done; ``text`` says what is under way."""


@contextmanager
def progress(label: str, total: float, quiet: bool = False) -> Iterator[Progress]:
    """Show how far ``total`` units of work are.

    Parameters
    ----------
    label
        What the work is.
    total
        Its units.
    quiet
        Show nothing.
    """
    if quiet:
        yield _Silent()
    elif not sys.stderr.isatty():
        yield _Lines(label, total)
    else:
        yield from _drawn(label, total)


def _drawn(label: str, total: float) -> Iterator[Progress]:
    try:
        from rich import progress as bars
        from rich.console import Console
    except ImportError:
        line = _OneLine(label, total)
        try:
            yield line
        finally:
            line.clear()
        return
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.fields[what]}"),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(label, total=total, what="")
        yield _Bar(drawn, task)


class _Silent:
    def update(self, done: float, text: str) -> None:
        """Show nothing."""


class _Bar:
    def __init__(self, drawn: Any, task: Any) -> None:
        self._drawn, self._task = drawn, task

    def update(self, done: float, text: str) -> None:
        self._drawn.update(self._task, completed=done, what=text)


class _OneLine:
    """Without rich: one line that is written again and again."""

    def __init__(self, label: str, total: float) -> None:
        self._label, self._total = label, total

    def update(self, done: float, text: str) -> None:
        percent = 100 * done / self._total if self._total else 100
        sys.stderr.write(f"\r\x1b[K{self._label}: {percent:3.0f} %  {text}")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _Lines:
    """Without a terminal: a line every few seconds."""

    def __init__(self, label: str, total: float) -> None:
        self._label, self._total = label, total
        self._last = time.monotonic()

    def update(self, done: float, text: str) -> None:
        now = time.monotonic()
        if now - self._last >= LINE_EVERY:
            self._last = now
            print(f"{self._label}: {done:g} of {self._total:g}, {text}", file=sys.stderr, flush=True)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are aligned to the right."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(plain_table(title, header, rows))
        return
    drawn = Table(title=title, title_justify="left")
    for place, name in enumerate(header):
        drawn.add_column(name, justify="left" if place == 0 else "right")
    for row in rows:
        drawn.add_row(*row)
    # A terminal has its own width; elsewhere nothing is cut.
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(drawn)


def plain_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table with spaces."""
    widths = [max(len(row[place]) for row in [header, *rows]) for place in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([first, *rest]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([title, line(header), rule, *map(line, rows)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table in Markdown."""
    marks = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, marks, *rows])


def never_fail() -> None:
    """Write from now on whatever there is to write, in place of a traceback.

    Letters that the terminal's encoding lacks become escapes. What goes to a stream that is closed, as after
    ``>&-``, is lost.
    """
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        # What stands in its place, as in a test, takes every text.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_closed() -> None:
    """Open standard streams that are closed: else the next file, such as a store, has a stream's number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


_form = {"json": False}


def notes_as_json() -> None:
    """Write notes as JSON from now on, a line each, as the log has them."""
    _form["json"] = True


def note(text: str, level: str = "INFO") -> None:
    """Say something on stderr."""
    if _form["json"]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        message = text.removeprefix("blindsum: ")
        text = json.dumps({"timestamp": now, "level": level, "message": message, "target": "blindsum.cli"})
    print(text, file=sys.stderr, flush=True)


class JsonNotes(logging.Handler):
    """Writes what Python logs as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        note(self.format(record), record.levelname)


def bytes_text(count: float) -> str:
    """Bytes for people, in binary units."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def ms_text(milliseconds: float) -> str:
    """Milliseconds with three digits that matter."""
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:.0f}"
