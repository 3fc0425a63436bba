"""``blindsum backup``: a copy of a store, even while a coordinator uses it."""

from __future__ import annotations

import argparse

from blindsum.cli.files import check_file, inputs, named

EXAMPLES = """\
example:
  blindsum backup --store job.sqlite --out backup.sqlite

The copy is the store as it was at one moment; a coordinator can be started with it. Do not copy the file in
another way while it is used. Before you use an older copy again, read "Back up" in docs/operations.md.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Copy a store to a new file. A coordinator may use it meanwhile."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--store", required=True, type=named, metavar="FILE", help="the coordinator's SQLite file"
    )
    parser.add_argument("--out", required=True, type=named, metavar="FILE", help="the copy; must not exist")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Copy."""
    from blindsum.coordinator import back_up

    check_file("--out", options.out, inputs(options, "store"))
    back_up(options.store, options.out)
    print(f"copy of {options.store}: {options.out}")
    return 0
