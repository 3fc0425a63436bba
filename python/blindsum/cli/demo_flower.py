"""``blindsum demo --flower``: an app of Flower with Blindsum, and the same app without."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from blindsum.cli import EXIT_FAILED, EXIT_SUM, console
from blindsum.cli.flags import named_as_flags
from blindsum.cli.signals import sigterm_interrupts
from blindsum.texts import counted

if TYPE_CHECKING:
    from blindsum.demo.flower import FlowerResult


def run(options: argparse.Namespace) -> int:
    """Demonstrate and report."""
    from blindsum.demo import flower
    from blindsum.errors import ConfigError

    if not options.kill:
        rule = "cannot be given with --flower, which kills no party: leave it out"
        raise ConfigError("--no-kill", rule)
    if options.out is not None:
        rule = "cannot be given beside --flower, which writes no files: leave it out, or take --json"
        raise ConfigError("--out", rule)
    settings = flower.Settings(options.protocol, options.parties, options.rounds, options.seed)
    title = f"Flower, {counted(settings.parties, 'node')}"
    with (
        named_as_flags("protocol", "parties", "rounds"),
        sigterm_interrupts(),
        console.progress(title, 2 * settings.rounds, quiet=options.json) as bar,
    ):
        bar.update(0, "starting Flower's simulation")
        result = flower.run(settings, bar.update)
    if options.json:
        print(json.dumps(result.to_dict()))
    else:
        _show(result)
    return EXIT_FAILED if result.problems else EXIT_SUM


def _show(result: FlowerResult) -> None:
    settings = result.settings
    rows = [
        [
            str(one.number),
            f"{one.accuracy:.4f}",
            f"{one.plain_accuracy:.4f}",
            f"{one.deviation:.1e}",
            f"{one.seconds:.2f}",
            f"{one.plain_seconds:.2f}",
        ]
        for one in result.rounds
    ]
    examples = f"{min(result.examples)} to {max(result.examples)} images each"
    title = (
        f"Flower's FedAvg through {settings.protocol}, {counted(settings.parties, 'node')} with {examples}"
    )
    console.table(title, ["round", "accuracy", "plain", "deviation", "s", "plain, s"], rows)
    worst = max(one.deviation for one in result.rounds)
    if not result.weighted:
        print(f"all nodes weigh alike: {settings.protocol} has no weights")
    print("Flower simulated the nodes, so the protocol ran in the process of the ServerApp.")
    print("In a deployment nodes run it among themselves, and the server gets sums alone.")
    print(f"largest deviation of a mean {worst:.2e}, quantisation allows {result.bound:.2e}")
    for problem in result.problems:
        print(f"NOT AS PROMISED: {problem}")
    print(f"{result.seconds:.1f} s; the first round of a run has the start of Ray in it")
    print(f"test accuracy {result.accuracy:.4f}, plain FedAvg {result.plain_accuracy:.4f}")
