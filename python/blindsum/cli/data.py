"""``blindsum data``: the examples of a data set, dealt to parties, as files and a picture."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindsum.cli import EXIT_SUM, console
from blindsum.cli.files import check_folder, named
from blindsum.cli.flags import named_as_flags
from blindsum.errors import ConfigError

if TYPE_CHECKING:
    from blindsum.learning.dataset import Dataset
    from blindsum.learning.partitions import Indices, Parts

EXAMPLES = """\
examples:
  blindsum data --list
  blindsum data digits --partition dirichlet:0.5 --parties 10 --out parts
  blindsum data fashion-mnist --partition skewed:0.9 --parties 16 --index-only --out skewed
  blindsum data femnist --folder leaf/femnist --partition by-user --parties 100 --out writers

The folder gets a file for each party (party-0.npz: index, features, labels and, where known, users), the
test examples (test.npz), the picture (partition.svg) and what is in the table (partition.json). Nothing is
downloaded: where files are missing, the error says which, from where, and on which terms.
"""

MAX_ROWS = 20
"""Parties that the table shows."""


FORMS = "iid, dirichlet:ALPHA, skewed:SHARE, shards:COUNT or by-user"
"""How examples may be dealt."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Deal the examples of a data set to parties."
    parser.epilog = EXAMPLES
    parser.add_argument("name", nargs="?", metavar="NAME", help="the data set; --list shows all")
    parser.add_argument("--list", action="store_true", help="show the data sets that can be read")
    parser.add_argument("--partition", metavar="FORM", help=FORMS)
    text = "how many parties there are (by-user: default one for each user)"
    parser.add_argument("--parties", type=int, metavar="N", help=text)
    parser.add_argument("--out", type=named, metavar="DIR", help="folder of the files, without parties yet")
    parser.add_argument("--folder", type=named, metavar="DIR", help="where the files of the data set are")
    parser.add_argument("--seed", type=int, default=0, help="of the partition (default 0)")
    text = "examples of every party, at least (default 1)"
    parser.add_argument("--minimum", type=int, default=1, metavar="N", help=text)
    parser.add_argument("--index-only", action="store_true", help="write the indices alone, no examples")
    parser.add_argument("--json", action="store_true", help="print what is in partition.json, no table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List data sets, or make a partition."""
    if options.list:
        _list(options.json)
        return EXIT_SUM
    _check_name(options.name)
    if options.partition is None:
        raise ConfigError("--partition", f"must be given: one of {FORMS}")
    if options.out is None:
        raise ConfigError("--out", "must be given: the folder of the files")
    with named_as_flags("partition", "parties", "seed", "minimum", "folder", name="NAME"):
        _make(options)
    return EXIT_SUM


def _check_name(name: str | None) -> None:
    from blindsum.learning.data import SOURCES

    names = f"one of {', '.join(SOURCES)}; `blindsum data --list` says what they are"
    if name is None:
        raise ConfigError("NAME", f"must be given: {names}")
    if name not in SOURCES:
        raise ConfigError("NAME", f"{name!r} must be {names}")


def _list(as_json: bool) -> None:
    from blindsum.learning.data import SOURCES

    if as_json:
        fields = ("title", "size", "licence", "home", "files")
        print(json.dumps({name: {one: getattr(s, one) for one in fields} for name, s in SOURCES.items()}))
        return
    rows = [[name, one.size, one.licence, one.home] for name, one in SOURCES.items()]
    console.table("data sets", ["name", "training and test", "licence", "from"], rows)


def _make(options: argparse.Namespace) -> None:
    """Load, deal, write and report."""
    from blindsum import checks
    from blindsum.learning import data, partitions, pictures

    pictures.check_drawing()
    checks.setting("seed", options.seed, 0, checks.SEEDS)
    check_folder("--out", options.out)
    out = Path(options.out)
    if any(out.glob("party-*.npz")):
        rule = f"{out} has parties of another partition: give another folder, or remove them"
        raise ConfigError("--out", rule)
    train = data.load(options.name, folder=options.folder)
    parts = partitions.partition(
        options.partition,
        train.labels,
        options.parties,
        seed=options.seed,
        users=train.users,
        minimum=options.minimum,
    )
    if options.index_only:
        _write_parties(out, [{"index": part} for part in parts])
    else:
        test = data.load(options.name, part="test", folder=options.folder)
        _write_arrays(out / "test.npz", _arrays(test))
        _write_parties(out, (_arrays(train.take(part), part) for part in parts))
    title = f"{options.name}, {options.partition}, seed {options.seed}"
    pictures.draw(train.labels, parts, out / "partition.svg", names=train.names, title=title)
    _report(options, train, parts)


def _arrays(examples: Dataset, index: Indices | None = None) -> dict[str, Any]:
    arrays = {
        "index": index,
        "features": examples.features,
        "labels": examples.labels,
        "users": examples.users,
    }
    return {name: array for name, array in arrays.items() if array is not None}


def _write_parties(out: Path, parties: Any) -> None:
    for party, arrays in enumerate(parties):
        _write_arrays(out / f"party-{party}.npz", arrays)


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    np.savez(path, allow_pickle=False, **arrays)


def _visible(name: str) -> str:
    """The name of a label; in quotes where it would not be seen."""
    return name if name.strip() else repr(name)


def _report(options: argparse.Namespace, train: Dataset, parts: Parts) -> None:
    from blindsum.learning.partitions import describe

    found = describe(train.labels, parts)
    report = {
        "data": options.name,
        "partition": options.partition,
        "seed": options.seed,
        "minimum": options.minimum,
        "names": list(train.names),
        "parties": [asdict(one) for one in found],
    }
    text = json.dumps(report)
    (Path(options.out) / "partition.json").write_text(f"{text}\n", encoding="utf-8")
    if options.json:
        print(text)
        return
    header = ["party", "examples", "labels", "majority", "share"]
    rows = [
        [
            str(one.party),
            f"{one.examples:,}",
            str(one.labels),
            "–" if one.majority is None else _visible(train.names[int(one.majority)]),
            f"{one.share:.0%}",
        ]
        for one in found
    ]
    console.table(f"{options.name}: {options.partition}", header, rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        print(f"and {len(rows) - MAX_ROWS} more, which partition.json has")
    sizes = sorted(one.examples for one in found)
    print(
        f"{sum(sizes):,} examples, {len(sizes)} parties, from {sizes[0]:,} to {sizes[-1]:,} examples each; "
        f"in {options.out}: partition.svg, partition.json, party-0.npz …"
    )
