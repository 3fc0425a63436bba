"""``blindsum attack``: training images out of updates, and how little is left under each protocol."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from blindsum.cli import EXIT_FAILED, EXIT_SUM, console
from blindsum.cli.files import check_folder, named
from blindsum.cli.flags import named_as_flags
from blindsum.cli.signals import sigterm_interrupts

if TYPE_CHECKING:
    from blindsum.attack.results import AttackResult

EXAMPLES = """\
examples:
  blindsum attack
  blindsum attack --protocol secagg+ --parties 10 --images 1
  blindsum attack --protocol mpc3 --trials 0 --json
  blindsum attack --noise 0.5,1,2 --trials 1000 --out attack

The folder gets attack.html, a page that loads nothing from elsewhere, its picture as attack.svg, and
attack.json. The data are the handwritten digits of scikit-learn, the network is that of `blindsum demo`.
Everything happens on this machine: real rounds over mutual TLS, with a tap on each server.

exit status: 0 the attack finds images under plain and no other protocol shows any to a server, 1 otherwise,
2 wrong arguments
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = (
        "Reconstruct training images from the plain update of a party. Try the same on everything that the "
        "servers of each protocol get, and on the mean that is released, with noise and without. Then tell "
        "from the mean whether the data of a party is in it."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--protocol",
        type=_texts,
        metavar="P",
        help="protocols to compare with plain, separated by commas (default all)",
    )
    parser.add_argument("--parties", type=int, default=5, metavar="N", help="parties of a round (default 5)")
    parser.add_argument("--images", type=int, default=4, metavar="B", help="images of a party (default 4)")
    parser.add_argument(
        "--trials",
        type=int,
        default=100,
        metavar="T",
        help="rounds with a party, and without it, in each game of membership; 0 plays none (default 100)",
    )
    parser.add_argument(
        "--noise",
        type=_numbers,
        metavar="Z",
        help="noise multipliers of these games, beside none (default 0.5,2)",
    )
    parser.add_argument("--seed", type=int, default=7, help="of data, model and attack (default 7)")
    parser.add_argument(
        "--out", type=named, metavar="DIR", help="folder of page and numbers (default blindsum-attack)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Attack and report."""
    from blindsum import attack
    from blindsum.attack.page import page
    from blindsum.attack.picture import picture

    usual = attack.Settings()
    settings = attack.Settings(
        tuple(options.protocol or ()),
        options.parties,
        options.images,
        options.trials,
        usual.multipliers if options.noise is None else tuple(options.noise),
        options.seed,
    )
    out = options.out or "blindsum-attack"
    flags = ("parties", "images", "trials", "seed", "protocol")
    with named_as_flags(*flags, multipliers="--noise"):
        settings.check()
        check_folder("--out", out)
        with sigterm_interrupts(), console.progress("attacking", 100, quiet=options.json) as bar:
            result = attack.run(settings, lambda done, text: bar.update(round(100 * done), text))
    folder = Path(out)
    made = folder / "attack.html"
    made.write_text(page(result), encoding="utf-8")
    (folder / "attack.svg").write_text(picture(result.seen), encoding="utf-8")
    report = {**result.to_dict(), "page": str(made)}
    (folder / "attack.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(report))
    else:
        _show(result, made)
    return EXIT_FAILED if result.problems else EXIT_SUM


def _show(result: AttackResult, made: Path) -> None:
    from blindsum.attack.tables import tables

    for one in tables(result):
        console.table(one.title, one.header, one.rows)
        print(one.note)
        print()
    for name, why in result.impossible.items():
        print(f"{name} was not attacked: {why}")
    print(f"{result.seconds:.1f} s; pictures: {made}")
    for problem in result.problems:
        print(f"NOT AS PROMISED: {problem}")
    print(result.summary)


def _texts(text: str) -> list[str]:
    """Texts separated by commas."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(
            f"must be names separated by commas, without empty ones, not {text!r}"
        )
    return found


def _numbers(text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(part) for part in _texts(text)]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be numbers separated by commas, not {text!r}") from error
