"""Rounds by ``blindsum simulate`` in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def report(protocol: str, parties: int, dim: int, fields: list[str], *words: str) -> dict[str, Any]:
    """Simulate a round in a process of its own, so that its memory is its own.

    Parameters
    ----------
    protocol, parties, dim
        Of the job.
    fields
        Further fields of the job, ``"name=value"``.
    words
        Further words of the command line.

    Raises
    ------
    subprocess.CalledProcessError
        There was no sum.
    """
    command = [sys.executable, "-m", "blindsum", "simulate", "--json", "--protocol", protocol]
    command += ["--parties", str(parties), "--dim", str(dim), *words]
    for setting in fields:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result
