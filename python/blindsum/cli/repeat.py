"""``blindsum simulate --repeat``: a simulation again, from the file that it was written to."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from typing import TYPE_CHECKING

from blindsum.cli import EXIT_FAILED, EXIT_SUM, console
from blindsum.cli.flags import named_as_flags
from blindsum.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blindsum.comparison.repeats import Repetition


def repeat(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Repeat the simulation of ``--repeat`` and say whether it gives the same.

    ``given`` are other flags that say what is simulated: the file does.
    """
    from blindsum.comparison.repeats import simulate_again

    if given:
        raise ConfigError("--repeat", f"the file has the whole simulation: leave {' and '.join(given)} out")
    path, row = file_and_row(options.repeat)
    with (
        console.progress("simulating", 1, quiet=options.json) as bar,
        named_as_flags(row="--repeat", path="--repeat"),
    ):
        found = simulate_again(
            path, row, threads=options.threads, progress=lambda _done, _total, text: bar.update(0, text)
        )
    if options.json:
        values = [{**dataclasses.asdict(value), "same": value.same} for value in found.values]
        versions = {"version_before": found.version_before, "version_now": found.version_now}
        print(json.dumps({"same": found.same, "values": values, **versions}))
    else:
        _show(found)
    return EXIT_SUM if found.same else EXIT_FAILED


def file_and_row(text: str) -> tuple[str, int | None]:
    """The file and the number of the run in ``FILE:ROW``; a file may have such a name itself."""
    path, colon, number = text.rpartition(":")
    if colon and path and number.isascii() and number.isdigit() and not os.path.exists(text):
        return path, int(number)
    return text, None


def _show(found: Repetition) -> None:
    console.table(*found.table())
    for line in found.verdict():
        print(line)
