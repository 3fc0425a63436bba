"""Where numbers come from: which code, when, which machine, beside how much other work, by which command."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import blindsum as bs
from blindsum import _native, origin

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("commit", "version", "date", "machine", "build", "load_before", "load_after", "command")
"""Of every row of a CSV file, behind its own."""
SOURCES = ("Cargo.lock", "Cargo.toml", "crates")
"""What the native module is built from."""


@dataclass(frozen=True)
class Run:
    """A run of measurements that has begun.

    Attributes
    ----------
    command : str
        As it was typed, with its arguments.
    date : str
        When it began: UTC, to the minute.
    load : float
        Load average of the last minute when it began.
    commit : str
        As `commit` gave it when it began.
    """

    command: str
    date: str
    load: float
    commit: str

    @classmethod
    def begin(cls, words: Sequence[str]) -> Run:
        """Take the time and the load now; ``words`` are the command."""
        return cls(
            shlex.join(words), datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"), os.getloadavg()[0], commit()
        )

    @property
    def row(self) -> dict[str, str]:
        """The cells of `COLUMNS`, as of now."""
        return {
            "commit": self.commit,
            "version": bs.__version__,
            "date": self.date,
            "machine": f"{origin.machine()}, {platform.system()}",
            "build": build(),
            "load_before": f"{self.load:.1f}",
            "load_after": f"{os.getloadavg()[0]:.1f}",
            "command": self.command,
        }


def listed(row: Mapping[str, str]) -> str:
    """The origin of numbers as a list in Markdown, of the cells of `COLUMNS`."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return "\n".join(
        [
            f"* Code: commit {row['commit']}, version {row['version']}.",
            f"* Begun: {row['date']}.",
            f"* Machine: {row['machine']}, of which {usable} are this process's.",
            f"* Build of the native module: {row['build']}.",
            f"* Load average of a minute: {row['load_before']} before, {row['load_after']} after. "
            "Times are upper bounds where it is above what the run itself needs.",
        ]
    )


def commit() -> str:
    """The commit of the checkout, and whether files differ from it; ``"unknown"`` outside of a checkout."""
    try:
        name = _git("rev-parse", "--short=12", "HEAD").strip()
        # Pages are written while experiments run; they do not change what is measured.
        changed = _git("status", "--porcelain", "--", ".", ":!experiments/results", ":!docs")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name} + changes" if changed.strip() else name


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def build() -> str:
    """Profile and features of the native module, and whether its sources are younger than it is."""
    return origin.build() + (", older than its sources" if _is_older_than_its_sources() else "")


def _is_older_than_its_sources() -> bool:
    built = Path(_native.__file__).stat().st_mtime
    files = (path for name in SOURCES for path in [ROOT / name, *(ROOT / name).glob("*/src/**/*.rs")])
    return any(path.stat().st_mtime > built for path in files if path.is_file())
