"""``blindsum bench flower``: its arguments and what it shows."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindsum.cli import EXIT_SUM, console
from blindsum.cli.files import check_file, named
from blindsum.cli.signals import sigterm_interrupts

if TYPE_CHECKING:
    from benches.flower import Measured, Settings

EXAMPLES = """\
examples:
  blindsum bench flower --markdown docs/benchmarks/flower.md          # half an hour on two cores
  blindsum bench flower --nodes 4 --dim 1000 --rounds 2 --no-losses --where simulation
  blindsum bench flower --transport direct --turns 3 --where deployment --json
"""


def add(actions: Any) -> None:
    """Describe the arguments."""
    parser = actions.add_parser(
        "flower", help="rounds of Flower, beside plain FedAvg and flwr's SecAgg+; takes half an hour"
    )
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--nodes", type=int, default=10, metavar="N", help="default 10")
    parser.add_argument(
        "--dim", default="100000,1000000", metavar="D", help="coordinates, several with commas between"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="R", help="rounds of a run (default 3)")
    parser.add_argument(
        "--turns", type=int, default=1, metavar="T", help="runs of each way, in turns (default 1)"
    )
    parser.add_argument(
        "--where", default="deployment,simulation", metavar="W", help="deployment, simulation (default both)"
    )
    parser.add_argument(
        "--transport",
        metavar="T",
        help="of Blindsum in a deployment (default all)",
    )
    parser.add_argument("--protocol", default="secagg+", metavar="P", help="of Blindsum (default secagg+)")
    parser.add_argument(
        "--no-losses", dest="losses", action="store_false", help="run no rounds in which a node is lost"
    )
    parser.add_argument("--markdown", type=named, metavar="FILE", help="write the tables into this file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure and show."""
    from benches import flower, flower_page
    from benches.provenance import Run, listed
    from blindsum.flower.installed import need, version
    from blindsum.origin import machine

    settings = _settings(options)
    flower.check(settings)
    check_file("--markdown", options.markdown)
    need("blindsum bench flower")
    origin = Run.begin(["blindsum", "bench", "flower", *_words(options)])
    found = flower.Measured(settings)

    def write() -> None:
        """Write the page, after each part: the next one may fail."""
        if options.markdown:
            page = Path(options.markdown)
            page.write_text(_markdown(found, listed(origin.row), version()), encoding="utf-8")
            for table in flower_page.tables(found):
                if table.file:
                    page.with_name(table.file).write_text(table.csv, encoding="utf-8")

    _work(options, list(flower.steps(settings, found)), write)
    facts = {"machine": machine(), "origin": origin.row, "flwr": version()}
    if options.json:
        print(json.dumps({**facts, **found.to_dict()}))
        return EXIT_SUM
    print(f"{facts['machine']}, flwr {facts['flwr']}")
    for table in flower_page.tables(found):
        console.table(table.title, table.header, table.rows)
        print(table.note)
    return EXIT_SUM


def _settings(options: argparse.Namespace) -> Settings:
    from benches.flower import Settings, transports
    from blindsum.errors import ConfigError

    try:
        dims = tuple(int(float(word)) for word in options.dim.split(","))
    except ValueError:
        raise ConfigError("--dim", f"{options.dim!r} must be a number, or several with commas") from None
    return Settings(
        nodes=options.nodes,
        dims=dims,
        rounds=options.rounds,
        turns=options.turns,
        where=tuple(options.where.split(",")),
        transports=transports() if options.transport is None else tuple(options.transport.split(",")),
        protocol=options.protocol,
        losses=options.losses,
    )


def _words(options: argparse.Namespace) -> list[str]:
    """The arguments that say what is measured, where they are not the default."""
    words = []
    defaults = {"nodes": 10, "dim": "100000,1000000", "rounds": 3, "turns": 1, "protocol": "secagg+"}
    defaults |= {"where": "deployment,simulation", "transport": None, "markdown": None}
    for name, default in defaults.items():
        value = getattr(options, name)
        if value != default:
            words += [f"--{name}", str(value)]
    return words if options.losses else [*words, "--no-losses"]


def _work(
    options: argparse.Namespace,
    steps: Iterable[tuple[str, Callable[[Callable[[str], object]], None]]],
    write: Callable[[], None],
) -> None:
    """Do all that is to be measured, show how far it is, and write down each part."""
    work = list(steps)
    with sigterm_interrupts(), console.progress("measuring", len(work), quiet=options.json) as bar:
        for done, (name, step) in enumerate(work):
            bar.update(done, name)

            def on_text(text: str, done: int = done, name: str = name) -> None:
                bar.update(done, f"{name}: {text}")

            step(on_text)
            write()


def _markdown(found: Measured, origin: str, flwr: str) -> str:
    from benches.flower_page import tables

    head = [
        "# `blindsum bench flower`",
        "Written by `blindsum bench flower`.",
        f"{origin}\n* flwr {flwr}.",
    ]
    return "\n\n".join([*head, *[table.markdown for table in tables(found)]]) + "\n"
