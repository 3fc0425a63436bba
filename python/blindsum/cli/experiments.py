"""``blindsum experiments``: the grids of papers, or one's own in their place, as comparisons."""

from __future__ import annotations

import argparse

from blindsum.cli import EXIT_SUM, compare, console
from blindsum.comparison.experiments import EXPERIMENTS
from blindsum.errors import ConfigError

EXAMPLES = """\
examples:
  blindsum experiments
  blindsum experiments fssa-secagg --parties 20,50 --dim 1000 --out fssa
  blindsum experiments fssa-parties --set corrupt=0.1 --repeat 3 --jobs 1 --out case-1
  blindsum experiments mystiko --protocol paillier-ring,plain --parties 3 --dim 100 --out ring

Without a name this lists the experiments. A flag for the grid replaces an axis of the paper; --set replaces
an option of the paper or adds one. Some of the papers' grids take hours. A clone of the project has more
experiments, and pages that set the papers' numbers beside ours: see experiments/README.md there.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments: a name, and those of ``blindsum compare``."""
    parser.description = "Run the grid of a paper's experiment, or your own in its place, as a comparison."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help=f"one of {', '.join(EXPERIMENTS)}; without it they are listed"
    )
    compare.add_arguments(parser, required=False)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List experiments, or run one."""
    if options.name is None:
        rows = [[name, one.about, one.source] for name, one in EXPERIMENTS.items()]
        console.table("experiments", ["name", "what it shows", "from"], rows)
        return EXIT_SUM
    if options.name not in EXPERIMENTS:
        raise ConfigError("NAME", f"{options.name!r} must be one of {', '.join(EXPERIMENTS)}")
    if options.out is None:
        raise ConfigError("--out", "must name a folder for the table: give one")
    return compare.compare(options, EXPERIMENTS[options.name].grid)
