"""SPU beside `mpc3`, measured in the same run, where a Python with SPU is given."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.rows import number
from experiments import output, peer_spu
from experiments.output import HERE, Options
from experiments.three_servers import Case, Cost, measured

RULES = {"sum": "fedavg", "fltrust": "fltrust"}
"""What SPU is asked for, and the rule that is nearest to it."""
RUNS = 3
VERSION = re.compile(r"\* SPU (\S+),")
COLUMNS = {
    "share_s": "share, all clients, s",
    "work_s": "work of a server, s",
    "open_s": "open, s",
    "upload_mb": "a client sends, MB",
    "sent_mb": "a server sends, MB",
    "sends": "messages of a server",
}


@dataclass(frozen=True)
class Peer:
    """What was measured of SPU and, right after it, of the same jobs here.

    Attributes
    ----------
    version : str
        Of SPU.
    rows : sequence of mapping
        By job and dimension, what `peer_spu` wrote of it.
    costs : mapping of Case to Cost
        Ours, semi-honest.
    """

    version: str
    rows: Sequence[Mapping[str, str]]
    costs: Mapping[Case, Cost]


def beside(python: Path | None, quick: bool) -> Peer | None:
    """Measure SPU with this Python, if there is one, and then `mpc3`.

    Raises
    ------
    SystemExit
        This is no Python, or has no SPU, or SPU fails.
    """
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python.absolute()), "-m", "experiments.peer_spu", "--out", folder]
        paths = [str(HERE.parent / "python"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        try:
            subprocess.run(
                [*command, *(["--quick"] if quick else [])], check=True, cwd=HERE.parent, env=environment
            )
            text = (Path(folder) / "peer-spu.csv").read_text()
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"--spu: {python} must be a Python with SPU, as {peer_spu.__name__} says: {error}")
        version = VERSION.search((Path(folder) / "peer-spu.md").read_text())
    rows = list(csv.DictReader(text.splitlines()))
    cases = [case for case in map(_case, rows) if case is not None]
    costs = {case: measured(case, RUNS) for case in cases}
    return Peer(version[1] if version else "?", rows, costs)


def _case(row: Mapping[str, str]) -> Case | None:
    rule = RULES.get(row["job"])
    return None if rule is None else Case(rule, "semi-honest", int(row["clients"]), int(row["dim"]))


def lines(peer: Peer) -> list[dict[str, Any]]:
    """For each job of both: what SPU takes, what we take, and how many times that is."""
    found = []
    for row in peer.rows:
        case = _case(row)
        if case is None:
            continue
        spu = [float(row[name]) for name in ("share_s", "work_s", "open_s", "upload_mb", "sent_mb", "sends")]
        ours = _ours(peer.costs[case])
        ratios = [a / b for a, b in zip(spu, ours, strict=True)]
        for who, values in (("SPU", spu), ("Blindsum", ours), ("SPU ÷ Blindsum", ratios)):
            what = {"job": row["job"], "dim": case.dim, "of": who}
            found.append(what | dict(zip(COLUMNS, values, strict=True)))
    return found


def write(peer: Peer, options: Options) -> None:
    """Write a page and a table."""
    found = lines(peer)
    output.write_csv(options, "mpc-peer.csv", found)
    header = ["job", "D", "", *COLUMNS.values()]
    cells = [
        [line["job"], f"{line['dim']:,}", line["of"], *(number(line[name]) for name in COLUMNS)]
        for line in found
    ]
    head = f"* SPU {peer.version}, ABY3, words of 64 bits, 18 of them behind the point; least of three."
    parts = [f"{head}\n{HOW}", output.table(header, cells)]
    title = f"Three servers beside SPU, {peer_spu.CLIENTS} clients, semi-honest"
    output.write_page(options, "mpc-peer.md", title, parts)


def _ours(cost: Cost) -> list[float]:
    share_s, open_s = (cost.case.parties * cost.upload_ms / 1000, cost.result_ms / 1000)
    sent = (cost.up_bytes / 1e6, cost.between_bytes / 1e6)
    return [share_s, cost.slowest_ms / 1000, open_s, *sent, 2 * cost.rounds]


HOW = """\
* Blindsum right after it, in the same run on the same machine; median of three.
* Work of a server is processor time of the one that has most. SPU's clients are one process, which makes the
  shares of all of them; ours convert, share, hash and seal as well, one after the other.
* Our server also opens, checks and agrees on the uploads, and sends the others what opens the sum. SPU's
  servers give their shares of the result to the process that puts them together, which is not counted.
* For FLTrust ours checks all lengths, and the root's vector is shared like the others; SPU's servers know it.
* Neither has a network in these times."""
