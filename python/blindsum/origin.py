"""Where numbers come from: version, build, Python, machine and time. It stands beside what goes to files."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from blindsum import _native


def origin() -> dict[str, str]:
    """Version and build of this package, Python, machine and the time now (UTC, ISO 8601), as plain data."""
    return {
        "version": _native.__version__,
        "build": build(),
        "python": platform.python_version(),
        "machine": f"{machine()}, {platform.system()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def build() -> str:
    """Profile and features of the native module."""
    features = f" with {', '.join(_native.build_features)}" if _native.build_features else ""
    return f"{_native.build_profile}{features}"


@cache
def machine() -> str:
    """The processor, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} logical cores" if names else platform.machine()
