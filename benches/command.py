"""``blindsum bench``: measurements."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches import flower_command
from benches.provenance import Run, listed
from benches.timers import timed
from blindsum.cli import EXIT_SUM, console
from blindsum.cli.files import check_file, named
from blindsum.cli.jobs import add_spec_arguments, spec_from
from blindsum.cli.signals import sigterm_interrupts

if TYPE_CHECKING:
    from benches import flashe
    from benches.pss import Measured
    from benches.rounds import RoundCost
    from benches.rows import Row
    from blindsum.spec import JobSpec

Work = Callable[[Callable[[str], object]], object]

EXAMPLES = """\
examples:
  blindsum bench round --protocol secagg+ --parties 10 --dim 1e5      # processes and TLS, beside plain
  blindsum bench load --protocol plain --parties 5000 --dim 10        # memory of idle connections
  blindsum bench load --protocol plain --parties 1000 --dim 10000 --rounds 2
  blindsum bench link --protocol secagg+ --parties 3 --dim 1000000    # 40 Mbit/s and 50 ms
  blindsum bench secagg                                               # targets and measurements
  blindsum bench secagg --scale --markdown docs/benchmarks/secagg.md
  blindsum bench pss --markdown docs/benchmarks/pss.md
  blindsum bench pss-malicious --markdown docs/benchmarks/pss-malicious.md
  blindsum bench flashe --markdown docs/benchmarks/flashe.md
  blindsum bench paillier --markdown docs/benchmarks/paillier.md
  blindsum bench flower --markdown docs/benchmarks/flower.md

Build with `make bench` (release profile): other builds are several times slower.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Measure what things cost on this machine."
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(metavar="WHAT", required=True)

    rounds = actions.add_parser("round", help="rounds over real processes and mutual TLS, beside plain")
    add_spec_arguments(rounds, own=["rounds"])
    rounds.add_argument("--rounds", type=int, default=5, metavar="R", help="rounds that count (default 5)")
    rounds.add_argument("--json", action="store_true", help="print one JSON object")
    rounds.set_defaults(run=timed(_rounds, "bench round"))

    load = actions.add_parser("load", help="many parties over TLS: what they cost the coordinator in memory")
    add_spec_arguments(load, own=["rounds"])
    load.add_argument(
        "--rounds", type=int, default=0, metavar="R", help="rounds they take part in (default 0)"
    )
    load.add_argument("--json", action="store_true", help="print one JSON object")
    load.set_defaults(run=timed(_load, "bench load"))

    link = actions.add_parser("link", help="whether what parties send keeps a slow and long link full")
    add_spec_arguments(link, own=["rounds"])
    link.add_argument(
        "--megabits", type=float, default=40.0, metavar="M", help="10⁶ bits a second (default 40)"
    )
    link.add_argument(
        "--round-trip", type=float, default=50.0, metavar="MS", help="milliseconds (default 50)"
    )
    link.add_argument("--json", action="store_true", help="print one JSON object")
    link.set_defaults(run=timed(_link, "bench link"))

    secagg = actions.add_parser("secagg", help="secagg and secagg+ against their targets")
    secagg.add_argument("--scale", action="store_true", help="also thousands of parties; takes minutes")
    secagg.add_argument("--markdown", type=named, metavar="FILE", help="write the table into this file")
    secagg.add_argument("--json", action="store_true", help="print one JSON object")
    secagg.set_defaults(run=timed(_secagg, "bench secagg"))

    pss = actions.add_parser("pss", help="fssa and pss against their targets; takes minutes")
    pss.add_argument("--markdown", type=named, metavar="FILE", help="write the tables into this file")
    pss.add_argument("--json", action="store_true", help="print one JSON object")
    pss.set_defaults(run=timed(_pss, "bench pss"))

    proved = actions.add_parser("pss-malicious", help="pss-malicious against its targets; takes minutes")
    proved.add_argument("--markdown", type=named, metavar="FILE", help="write the tables into this file")
    proved.add_argument("--json", action="store_true", help="print one JSON object")
    proved.set_defaults(run=_pss_malicious)

    flashe = actions.add_parser("flashe", help="flashe against other homomorphic encryption; takes minutes")
    flashe.add_argument("--markdown", type=named, metavar="FILE", help="write the tables into this file")
    flashe.add_argument("--json", action="store_true", help="print one JSON object")
    flashe.set_defaults(run=timed(_flashe, "bench flashe"))

    paillier = actions.add_parser("paillier", help="Paillier's scheme on one core, and that of others")
    paillier.add_argument("--markdown", type=named, metavar="FILE", help="write the tables into this file")
    paillier.add_argument("--json", action="store_true", help="print one JSON object")
    paillier.set_defaults(run=_paillier)

    flower_command.add(actions)


def _rounds(options: argparse.Namespace) -> int:
    from benches.rounds import measure, unprotected
    from blindsum.errors import ConfigError

    if options.rounds < 1:
        raise ConfigError("--rounds", f"1 <= {options.rounds} must hold")
    asked = _without_model(options)
    # One round to warm up; parties may take long to start where there are many for few cores.
    patience = {"join_deadline": 60.0 + asked.parties, "input_deadline": 120.0, "stage_deadline": 120.0}
    spec = spec_from(options, rounds=options.rounds + 1, model_update=asked.model_update, **patience)
    costs = []
    for job in [spec] if spec.protocol.name == "plain" else [unprotected(spec), spec]:
        with sigterm_interrupts(), console.progress(job.protocol.name, job.rounds, quiet=options.json) as bar:
            costs.append(measure(job, _shown(bar)))
    plain, measured = costs[0], costs[-1]
    ratios = {
        "seconds": measured.seconds / plain.seconds,
        "up_bytes": measured.up_bytes / plain.up_bytes,
        "down_bytes": measured.down_bytes / plain.down_bytes,
    }
    to_raw = {cost.protocol: cost.fastest / cost.raw.fastest for cost in costs}
    if options.json:
        whole = {
            "measured": dataclasses.asdict(measured),
            "plain": dataclasses.asdict(plain),
            "ratio": ratios,
            "ratio_to_raw_tls": to_raw,
        }
        print(json.dumps(whole))
    else:
        _show_rounds(costs, ratios, to_raw)
    return EXIT_SUM


def _without_model(options: argparse.Namespace) -> JobSpec:
    """Make the job that is asked for, without a model unless bounds of earlier rounds travel with it."""
    from blindsum.errors import SpecError

    try:
        return spec_from(options, model_update="none")
    except SpecError as error:
        if error.field.rpartition(".")[2] != "clipping":
            raise
        return spec_from(options, model_update="add")


def _shown(bar: console.Progress) -> Callable[[dict[str, Any]], None]:
    return lambda status: bar.update(status["rounds_done"], "rounds done")


def _show_rounds(costs: list[RoundCost], ratios: dict[str, float], to_raw: dict[str, float]) -> None:
    rows = [
        [
            cost.protocol,
            f"{1000 * cost.seconds:.1f}",
            f"{1000 * cost.fastest:.1f}",
            f"{1000 * cost.raw.fastest:.1f}",
            f"{to_raw[cost.protocol]:.2f}",
            console.bytes_text(cost.up_bytes),
            console.bytes_text(cost.down_bytes),
        ]
        for cost in costs
    ]
    up, down = f"{ratios['up_bytes']:.3f}", f"{ratios['down_bytes']:.3f}"
    rows.append(["ratio", f"{ratios['seconds']:.2f}", "", "", "", up, down])
    cost = costs[-1]
    title = f"{cost.parties} parties, {cost.dim} coordinates, {cost.rounds} rounds on the loopback interface"
    header = [
        "protocol",
        "ms per round",
        "fastest",
        "raw TLS",
        "fastest ÷ raw",
        "up per party",
        "down per party",
    ]
    console.table(title, header, rows)
    for name, seconds in cost.stages.items():
        print(f"  {name:<16} {1000 * seconds:8.1f} ms")
    for cost in costs:
        most = ", ".join(f"{name} {console.bytes_text(bytes_)}" for name, bytes_ in cost.most_bytes.items())
        print(f"most memory of a process, {cost.protocol}: {most or 'not told by this system'}")


def _load(options: argparse.Namespace) -> int:
    from benches.load import measure
    from blindsum.errors import ConfigError

    if options.rounds < 0:
        raise ConfigError("--rounds", f"0 <= {options.rounds} must hold")
    asked = spec_from(options)
    patience = dict.fromkeys(["join_deadline", "input_deadline", "stage_deadline"], 3600.0)
    # A job has a round at least; where none is wanted nobody asks for it.
    spec = spec_from(options, rounds=max(1, options.rounds), min_parties=asked.parties, **patience)
    with sigterm_interrupts(), console.progress("load", 1, quiet=options.json) as bar:
        cost = measure(spec, options.rounds, lambda text: bar.update(0, text))
    if options.json:
        print(json.dumps({"protocol": spec.protocol.name, "dim": spec.dim, **dataclasses.asdict(cost)}))
        return EXIT_SUM
    rows = [
        ["before the first party", console.bytes_text(cost.before_bytes)],
        ["all connected, idle", console.bytes_text(cost.idle_bytes)],
        ["an idle connection", console.bytes_text(cost.connection_bytes)],
        ["the most until the end", console.bytes_text(cost.most_bytes)],
    ]
    title = f"{spec.protocol.name}: {cost.parties} parties, {spec.dim} coordinates, memory of the coordinator"
    console.table(title, ["when", "memory"], rows)
    for number, seconds in enumerate(cost.rounds, 1):
        print(f"  round {number}: {seconds:.2f} s")
    return EXIT_SUM


def _link(options: argparse.Namespace) -> int:
    from benches.link import measure
    from benches.relay import Link
    from blindsum.errors import ConfigError

    for name, value in (("--megabits", options.megabits), ("--round-trip", options.round_trip)):
        if not 0 < value <= 1e6:
            raise ConfigError(name, f"0 < {value} <= 1000000 must hold")
    spec = spec_from(options, rounds=1)
    link = Link(options.megabits, options.round_trip / 1000)
    with sigterm_interrupts(), console.progress("link", 1, quiet=options.json):
        cost = measure(spec, link)
    if options.json:
        link_and_cost = {**dataclasses.asdict(link), **dataclasses.asdict(cost)}
        print(json.dumps({"protocol": spec.protocol.name, **link_and_cost}))
        return EXIT_SUM
    rows = [
        ["a party sends", console.bytes_text(cost.up_bytes)],
        ["the link needs", f"{cost.least:.2f} s"],
        ["the stage took", f"{cost.seconds:.2f} s"],
        ["of the link's time", f"{100 * cost.least / cost.seconds:.0f} %"],
    ]
    title = (
        f"{spec.protocol.name}: {spec.parties} parties, each over {link.megabits:g} Mbit/s and "
        f"{1000 * link.round_trip:g} ms"
    )
    console.table(title, ["", ""], rows)
    return EXIT_SUM


def _secagg(options: argparse.Namespace) -> int:
    from benches import peer
    from benches.rows import HEADER
    from benches.secagg import steps

    rows: list[Row] = []
    run = _begin(options, "secagg")
    _work(options, ((name, _adds_rows(rows, step)) for name, step in steps(options.scale)))
    facts = {**_facts(run), "peer": peer.installed()}
    if options.markdown:
        Path(options.markdown).write_text(_markdown(rows, facts), encoding="utf-8")
    if options.json:
        print(json.dumps({**facts, "rows": [row.to_dict() for row in rows]}))
        return EXIT_SUM
    console.table(facts["machine"], HEADER, [row.cells for row in rows])
    for row in rows:
        if row.note:
            print(f"{row.work}: {row.note}")
    if facts["peer"] is None:
        print("flwr is not installed; `make bench` installs it and measures it in the same run")
    return EXIT_SUM


def _pss(options: argparse.Namespace) -> int:
    from benches.pss import Cost, Measured, steps

    found = Measured()
    run = _begin(options, "pss")
    _work(options, steps(found))
    facts = _facts(run)
    if options.markdown:
        Path(options.markdown).write_text(_pss_markdown(found, facts), encoding="utf-8")
    if options.json:
        print(json.dumps({**facts, **found.to_dict()}))
        return EXIT_SUM
    header = _pss_header()
    console.table(facts["machine"], header, [row.cells for row in found.rows])
    for row in found.rows:
        if row.note:
            print(f"{row.work}: {row.note}")
    console.table(_COSTS, Cost.HEADER, [cost.cells for cost in found.costs])
    return EXIT_SUM


def _begin(options: argparse.Namespace, name: str) -> Run:
    """Take note of where the numbers of this run come from."""
    scale = ["--scale"] if getattr(options, "scale", False) else []
    page = ["--markdown", options.markdown] if options.markdown else []
    return Run.begin(["blindsum", "bench", name, *scale, *page])


def _facts(run: Run) -> dict[str, Any]:
    """The machine, and where else numbers come from, as of now."""
    from blindsum.origin import machine

    return {"machine": machine(), "origin": run.row}


def _work(options: argparse.Namespace, steps: Iterable[tuple[str, Work]]) -> None:
    """Do all that is to be measured, and show how far it is."""
    check_file("--markdown", options.markdown)
    work = list(steps)
    with sigterm_interrupts(), console.progress("measuring", len(work), quiet=options.json) as bar:
        for done, (name, step) in enumerate(work):
            bar.update(done, name)
            step(partial(_say, bar, done, name))


def _adds_rows(rows: list[Row], step: Callable[[], list[Row]]) -> Work:
    return lambda _on_text: rows.extend(step())


def _say(bar: console.Progress, done: int, name: str, text: str) -> None:
    bar.update(done, f"{name}: {text}")


_COSTS = "100 parties, 10 lost before they share; parties, updates and server in one process"


def _pss_header() -> list[str]:
    from benches.pss import PEER
    from benches.rows import HEADER

    return [*HEADER[:-1], PEER]


def _pss_markdown(found: Measured, facts: dict[str, Any]) -> str:
    from benches.pss import PEER, Cost

    lines = [
        "# `blindsum bench pss`",
        "",
        "Written by `blindsum bench pss`. A ratio below 1 is a target that is missed.",
        "",
        listed(facts["origin"]),
        f"* Peer: the crate {PEER} in the same run of `cargo bench -p blindsum-bench --bench pss`: the",
        "  inverse transform of a block's 64 values and the forward one to 1,024 points, both negacyclic.",
        "",
        console.markdown_table(_pss_header(), [row.cells for row in found.rows]),
        "",
        *[f"* {row.work}: {row.note}." for row in found.rows if row.note],
        "",
        "## What a round costs",
        "",
        f"{_COSTS}; a tenth of the parties corrupt. Milliseconds are CPU work, the least of three runs.",
        "",
        console.markdown_table(Cost.HEADER, [cost.cells for cost in found.costs]),
    ]
    return "\n".join(lines) + "\n"


def _pss_malicious(options: argparse.Namespace) -> int:
    from benches import pss_malicious_page as page
    from benches.pss_malicious import PROOF_HEADER, Cost, Measured, proof_cells, steps

    found = Measured()
    run = _begin(options, "pss-malicious")
    _work(options, steps(found))
    facts = _facts(run)
    if options.markdown:
        Path(options.markdown).write_text(page.markdown(found, listed(facts["origin"])), encoding="utf-8")
    if options.json:
        print(json.dumps({**facts, **found.to_dict()}))
        return EXIT_SUM
    console.table(facts["machine"], page.HEADER, [row.cells for row in found.rows])
    console.table(page.COSTS, Cost.HEADER, [cost.cells for cost in found.costs])
    console.table(page.PROOFS, PROOF_HEADER, proof_cells(found.proofs))
    for note in page.notes(found):
        print(note)
    return EXIT_SUM


def _paillier(options: argparse.Namespace) -> int:
    from benches import paillier_page
    from benches.paillier import PEER_HEADER, Measured, peer_cells, steps

    found = Measured()
    run = _begin(options, "paillier")
    _work(options, steps(found))
    facts = _facts(run)
    if options.markdown:
        Path(options.markdown).write_text(
            paillier_page.markdown(found, listed(facts["origin"])), encoding="utf-8"
        )
    if options.json:
        print(json.dumps({**facts, **found.to_dict()}))
        return EXIT_SUM
    console.table(facts["machine"], paillier_page.HEADER, [row.cells for row in found.rows])
    console.table("others", PEER_HEADER, [peer_cells(peer) for peer in found.peers])
    if found.absent:
        print(paillier_page.absent(found))
    return EXIT_SUM


def _flashe(options: argparse.Namespace) -> int:
    from benches.flashe import Measured, steps
    from benches.flashe_page import tables

    found = Measured()
    run = _begin(options, "flashe")
    _work(options, steps(found))
    facts = _facts(run)
    if options.markdown:
        page = Path(options.markdown)
        page.write_text(_flashe_markdown(found, facts), encoding="utf-8")
        for table in tables(found):
            if table.file:
                page.with_name(table.file).write_text(table.csv, encoding="utf-8")
    if options.json:
        print(json.dumps({**facts, **found.to_dict()}))
        return EXIT_SUM
    print(facts["machine"])
    for table in tables(found):
        console.table(table.title, table.header, table.rows)
        print(table.note)
    print(_absent(found))
    return EXIT_SUM


def _absent(found: flashe.Measured) -> str:
    if not found.absent:
        return "Nothing that can be measured is absent."
    return (
        f"Absent here: {', '.join(found.absent)}. `make bench` installs all but\n"
        "  openfhe, whose wheels suit few versions of Python."
    )


def _flashe_markdown(found: flashe.Measured, facts: dict[str, Any]) -> str:
    from benches.flashe_page import tables

    head = [
        "# `blindsum bench flashe`",
        "Written by `blindsum bench flashe`. A ratio below 1 is a target that is missed.",
        f"{listed(facts['origin'])}\n"
        "* One core is used. Least of several runs; those of other libraries are CPU time of a process of\n"
        "  their own on one core.\n"
        f"* {_absent(found)}",
    ]
    return "\n\n".join([*head, *[table.markdown for table in tables(found)]]) + "\n"


def _markdown(rows: list[Row], facts: dict[str, Any]) -> str:
    from benches.rows import HEADER

    peer = f"flwr {facts['peer']}, its own functions in the same run" if facts["peer"] else "not installed"
    lines = [
        "# `blindsum bench secagg`",
        "",
        "Written by `blindsum bench secagg`. A ratio below 1 is a target that is missed.",
        "",
        listed(facts["origin"]),
        f"* Peer: {peer}.",
        "",
        console.markdown_table(HEADER, [row.cells for row in rows]),
        "",
        *[f"* {row.work}: {row.note}." for row in rows if row.note],
    ]
    return "\n".join(lines) + "\n"
