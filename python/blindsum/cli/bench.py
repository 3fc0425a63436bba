"""``blindsum bench``: measurements. They are part of the source tree, not of the wheel."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import blindsum

ROOT = Path(blindsum.__file__).resolve().parents[2]
"""Of the source tree, where this package is used from one."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments: those of ``benches/command.py``."""
    if not (ROOT / "benches" / "command.py").is_file():
        parser.set_defaults(run=_absent)
        parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        return
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    import_module("benches.command").add(parser)


def _absent(_options: argparse.Namespace) -> int:
    from blindsum.errors import ConfigError

    raise ConfigError(
        "bench", "needs a clone of the project: the measurements are not in the wheel; run `make bench` there"
    )
