"""``blindsum watch``: a terminal view of a running coordinator's jobs."""

from __future__ import annotations

import argparse
import sys
import time

from blindsum.cli.admin import add_connection, connected
from blindsum.cli.operators import lines_of

EXAMPLES = """\
examples:
  blindsum watch --at https://agg.example:9444 --identity alice --ca ca.pem
  blindsum watch tumour --at https://agg.example:9444 --identity alice --ca ca.pem --once

It shows of each job the stage and since when, who is connected, ready and awaited, who was lost and why, the
last rounds and the last orders. Ctrl-C ends it. `blindsum admin` gives orders.

exit status: 0 shown, or ended by Ctrl-C, 1 the coordinator was not reached, or there is no such job, 2 wrong
arguments or credentials
"""

CLEAR = "\x1b[H\x1b[2J"
"""Moves to the first place of a terminal, and clears it."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Watch the jobs of a running coordinator in a terminal."
    parser.epilog = EXAMPLES
    parser.add_argument("job", metavar="NAME", nargs="?", default="", help="one job (default: all)")
    add_connection(parser)
    parser.add_argument(
        "--every", type=float, default=1.0, metavar="SECONDS", help="time between two looks (default: 1)"
    )
    parser.add_argument("--once", action="store_true", help="show it once and end, for scripts")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show how jobs stand, again and again."""
    from blindsum.errors import ConfigError, NetworkError

    if not 0.1 <= options.every <= 3600:
        raise ConfigError("--every", f"0.1 <= {options.every} <= 3600 seconds must hold")
    admin, was_there = connected(options), False
    while True:
        try:
            jobs = [admin.describe(options.job)] if options.job else admin.jobs()
            text = "\n".join(line for job in jobs for line in lines_of(job))
            was_there = True
        except NetworkError as error:
            # A coordinator that was there may be started again.
            if options.once or not was_there:
                raise
            text = f"no answer, trying again: {error}"
        clear = CLEAR if sys.stdout.isatty() and not options.once else ""
        print(f"{clear}{text}", flush=True)
        if options.once:
            return 0
        try:
            time.sleep(options.every)
        except KeyboardInterrupt:
            return 0
