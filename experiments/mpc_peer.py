"""SPU beside `mpc3`, measured in the same run, where a Python with SPU is given."""

from __future__ import annotations

import csv
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.rows import number
from experiments import output, peer_spu
from experiments.output import HERE
from experiments.three_servers import Case, Cost, measured

RULES = {"sum": "fedavg", "fltrust": "fltrust"}
"""What SPU is asked for, and the rule that is nearest to it."""
RUNS = 3


@dataclass(frozen=True)
class Peer:
    """What was measured of SPU and, right after it, of the same jobs here.

    Attributes
    ----------
    rows : sequence of mapping
        By job and dimension, what `peer_spu` wrote of it.
    costs : mapping of Case to Cost
        Ours, semi-honest.
    """

    rows: Sequence[Mapping[str, str]] = ()
    costs: Mapping[Case, Cost] | None = None


def beside(python: Path | None, quick: bool) -> Peer:
    """Measure SPU with this Python, if there is one, and then `mpc3`.

    Raises
    ------
    subprocess.CalledProcessError
        SPU is not there, or fails; what it says is shown.
    """
    if python is None:
        return Peer()
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python.absolute()), "-m", "experiments.peer_spu", "--out", folder]
        paths = [str(HERE.parent / "python"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        subprocess.run(
            [*command, *(["--quick"] if quick else [])], check=True, cwd=HERE.parent, env=environment
        )
        with (Path(folder) / "peer-spu.csv").open() as file:
            rows = list(csv.DictReader(file))
    cases = [case for case in map(_case, rows) if case is not None]
    return Peer(rows, {case: measured(case, RUNS) for case in cases})


def _case(row: Mapping[str, str]) -> Case | None:
    rule = RULES.get(row["job"])
    return None if rule is None else Case(rule, "semi-honest", int(row["clients"]), int(row["dim"]))


def section(peer: Peer) -> str:
    """The part of the page."""
    title = f"## Beside SPU, {peer_spu.CLIENTS} clients, semi-honest"
    if not peer.costs:
        how = (
            "Not measured: `--spu PYTHON` wants a Python in which SPU is installed, and none was given.\n"
            "[SPU alone](peer-spu.md) was measured at another time."
        )
        return f"{title}\n\n{how}"
    header = ["job", "D", "", "share, all clients, s", "work of a server, s", "open, s"]
    header += ["a client sends, MB", "a server sends, MB", "messages of a server"]
    lines = []
    for row in peer.rows:
        case = _case(row)
        if case is None:
            continue
        spu = [float(row[name]) for name in ("share_s", "work_s", "open_s", "upload_mb", "sent_mb", "sends")]
        ours = _ours(peer.costs[case])
        what = [row["job"], f"{case.dim:,}"]
        lines.append([*what, "SPU", *map(number, spu)])
        lines.append([*what, "Blindsum", *map(number, ours)])
        lines.append([*what, "SPU ÷ Blindsum", *[number(a / b) for a, b in zip(spu, ours, strict=True)]])
    return "\n\n".join([title, HOW, output.table(header, lines)])


def _ours(cost: Cost) -> list[float]:
    share_s, open_s = (cost.case.parties * cost.upload_ms / 1000, cost.result_ms / 1000)
    sent = (cost.up_bytes / 1e6, cost.between_bytes / 1e6)
    return [share_s, cost.slowest_ms / 1000, open_s, *sent, 2 * cost.rounds]


HOW = """\
SPU (ABY3, words of 64 bits, 18 of them behind the point) and then Blindsum, in one run on one machine; least
of three, and median of three. Work of a server is processor time of the one that has most. SPU's clients are
one process, which makes the shares of all of them; ours convert, share, hash and seal as well, one after the
other. Our server also opens, checks and agrees on the uploads, and for FLTrust checks all lengths, makes the
root's vector of shares and hides whose vector it is; SPU's knows the root. SPU's threads share the work of a
server, ours uses one here. Neither has a network in these times."""
