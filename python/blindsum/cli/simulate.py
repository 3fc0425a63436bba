"""``blindsum simulate``: rounds of a protocol in one process."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from blindsum.cli import EXIT_ABORT, EXIT_FAILED, EXIT_SUM, console
from blindsum.cli.files import named
from blindsum.cli.flags import named_as_flags
from blindsum.cli.jobs import add_spec_arguments, flags_of_job, spec_from, spec_from_file_alone
from blindsum.cli.repeat import repeat
from blindsum.lies import LIES
from blindsum.metrics_text import metrics_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blindsum.simulation_result import KeySetupReport, ServerReport, SimulationResult
    from blindsum.spec import JobSpec

EXAMPLES = """\
examples:
  blindsum simulate --protocol secagg+ --parties 100 --dim 1e5 --drop 0.1
  blindsum simulate --protocol secagg --parties 20 --dim 1000 --drop-at unmask:2 --json
  blindsum simulate --protocol plain --parties 10 --dim 1000 --set clip=0.5 --set max_weight=100
  blindsum simulate --protocol secagg --clients 20 --dim 1000 --bits 64
  blindsum simulate --protocol flashe --parties 10 --dim 1e5 --drop-at deliver-key:1 --rounds 5
  blindsum simulate --protocol mpc3 --rule fltrust --parties 16 --dim 1000
  blindsum simulate --protocol pss-malicious --parties 20 --dim 1000 --liars 2 --lie out-of-bound
  blindsum simulate --job job.toml --drop 0.1
  blindsum simulate --protocol secagg+ --parties 5 --dim 10 --faults 1e5 --seed 1
  blindsum simulate --protocol secagg --parties 20 --dim 1000 --json > run.json
  blindsum simulate --repeat run.json

Where no encoding is named, values of more than 32 bits are integers, with exact sums.
Where updates are clipped, a line says how many coordinates that cut off; the largest error of the mean counts
what quantisation costs, against the clipped updates.

exit status: 0 there is a sum and it is right, or a repetition gave the same, 1 the sum of a round is WRONG
("exact" is false with --json), or a repetition gave something else, 2 wrong arguments, 3 a round ended
without one (the fault is named) or a campaign broke a promise
"""

# Flags for rounds that campaigns have no use for, and what they are where they are not given.
ROUNDS_ONLY: dict[str, object] = {
    "rounds": 1,
    "drop": 0.0,
    "drop_at": [],
    "latency": 0.0,
    "liars": 0,
    "threads": 1,
}


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = (
        "Run rounds of a protocol with random updates in this process: every message is made, "
        "sealed, opened and checked as in production; only the network is left out."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--job", type=named, metavar="FILE", help="the job, TOML or JSON, in place of the flags for a job"
    )
    add_spec_arguments(parser, own=["job", "rounds"])
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        metavar="R",
        help="rounds to play (default 1), however many the job has",
    )
    parser.add_argument(
        "--drop",
        type=float,
        default=0.0,
        metavar="FRACTION",
        help="fraction of the parties that vanishes before the input stage, rounded down",
    )
    parser.add_argument(
        "--drop-at",
        action="append",
        default=[],
        metavar="STAGE:COUNT",
        help="further parties that vanish at a stage, by its name or number; also of a key set-up",
    )
    parser.add_argument(
        "--latency",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="what every message takes in virtual time, also between servers (default 0)",
    )
    parser.add_argument(
        "--liars",
        type=int,
        default=0,
        metavar="K",
        help="corrupt parties that send false values (default 0), for pss-malicious",
    )
    parser.add_argument(
        "--lie",
        default="mixed",
        metavar="KIND",
        help=f"the kind of false values: {', '.join(LIES)} (default mixed)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of every random number (default 0)")
    parser.add_argument(
        "--faults",
        type=_steps,
        metavar="N",
        help="in place of rounds, whole jobs in which machines are killed, connections break, backups come "
        "back and members lie, until N things have happened, e.g. 1e5; --seed is that of the first job",
    )
    parser.add_argument(
        "--repeat",
        type=named,
        metavar="FILE[:RUN]",
        help="repeat a run of a --json file or of a `blindsum compare` table, and name the differences",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads to work with (default 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Simulate and report."""
    from blindsum.simulation import simulate

    if options.repeat is not None:
        return repeat(options, _said_of_simulation(options))
    spec = spec_from(options) if options.job is None else spec_from_file_alone(options)
    if options.faults is not None:
        return _campaign(spec, options)
    named = named_as_flags(*ROUNDS_ONLY, "seed")
    with named, console.progress("simulating", options.rounds, quiet=options.json) as bar:
        result = simulate(
            spec,
            drop=options.drop,
            drop_at=options.drop_at,
            latency=options.latency,
            liars=options.liars,
            lie=options.lie,
            rounds=options.rounds,
            seed=options.seed,
            threads=options.threads,
            progress=lambda done, _total, text: bar.update(done, text),
        )
    if options.json:
        print(json.dumps(result.to_dict()))
    else:
        _show(result, spec)
    if _wrong_rounds(result):
        return EXIT_FAILED
    return EXIT_SUM if result.outcome == "sum" else EXIT_ABORT


def _said_of_simulation(options: argparse.Namespace) -> list[str]:
    """Flags that say what is simulated, where they are given."""
    defaults = {name: value for name, value in ROUNDS_ONLY.items() if name != "threads"}
    defaults |= {"seed": 0, "lie": "mixed", "faults": None, "job": None}
    names = [name for name, default in defaults.items() if getattr(options, name) != default]
    return [*(f"--{name.replace('_', '-')}" for name in names), *flags_of_job(options)]


def _steps(text: str) -> int:
    """Read a whole number of 1 or more, also written like 1e5."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (number.is_integer() and number >= 1):
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, as in 1e5, not {text!r}")
    return int(number)


def _campaign(spec: JobSpec, options: argparse.Namespace) -> int:
    """Whole jobs in which everything goes wrong that can."""
    from blindsum.campaigns import campaign
    from blindsum.errors import ConfigError, PromiseBroken

    idle = [flag for flag, default in ROUNDS_ONLY.items() if getattr(options, flag) != default]
    if idle:
        flags = " and ".join(f"--{flag.replace('_', '-')}" for flag in idle)
        raise ConfigError("--faults", f"a campaign draws what happens: leave {flags} out")
    steps = options.faults
    with console.progress("simulating", steps, quiet=options.json) as bar:
        try:
            tally = campaign(
                spec,
                steps=steps,
                seed=options.seed,
                progress=lambda done: bar.update(min(done, steps), f"{done} steps"),
            )
        except PromiseBroken as broken:
            if options.json:
                print(json.dumps({"seed": broken.seed, "kind": broken.kind, "broken": broken.what}))
            else:
                print("\n".join(broken.story))
                print(f"broken: {broken.what}")
                print(f"the same again: the same command with --faults 1 --seed {broken.seed}")
            return EXIT_ABORT
    if options.json:
        print(json.dumps(dataclasses.asdict(tally)))
    else:
        for name, value in dataclasses.asdict(tally).items():
            print(f"{name:>10} {value}")
        print("every promise was kept")
    return EXIT_SUM


def _wrong_rounds(result: SimulationResult) -> list[int]:
    """Numbers of the rounds, from 1 on, whose sum is not that of the updates."""
    report = result.to_dict()
    rounds = report.get("rounds") or [report]
    return [
        number
        for number, round_ in enumerate(rounds, 1)
        if round_["outcome"] == "sum" and not round_["exact"]
    ]


def _show(result: SimulationResult, spec: JobSpec) -> None:
    from blindsum.options import Integers

    setup = result.key_setup
    if setup is not None:
        _show_costs("key set-up", setup, "set-up")
        if setup.fault is None:
            print(f"{setup.holders} of {result.parties} parties hold the key of the job")
        else:
            print(f"the key set-up failed: {setup.fault}")
    title = f"{result.protocol}, {result.parties} parties, {result.dim} coordinates"
    _show_costs(title, result, "round")
    if result.servers:
        _show_servers(result.servers)
    if result.outcome == "sum":
        error = 0.0 if result.max_abs_error is None else result.max_abs_error
        exact = "exact" if result.error_bound is None else f"as in the clear within {result.error_bound:.2e}"
        exact = exact if result.exact else "WRONG"
        # Of integers the sum is asked for; that their mean is rounded to a double is no loss of the protocol.
        mean = "" if isinstance(spec.encoding, Integers) else f", largest error of the mean {error:.2e}"
        what = "sum" if result.error_bound is None else "result"
        print(f"{what} of {result.survivors} survivors: {exact}{mean}")
        if result.metrics:
            print(f"metrics: {metrics_text(result.to_dict()['metrics'])}")
        _show_clipping(result, spec)
        _show_leftovers(result)
    else:
        print(f"no sum: {result.fault}")
    for one in result.excluded:
        if one.evidence:
            print(f"party {one.party} has lied: {one.test}, shown by {len(one.evidence) // 2} bytes")
        else:
            print(f"party {one.party} showed nothing to those who accuse it, or was lost: {one.test}")
    if "rounds" in result.to_dict() and (wrong := _wrong_rounds(result)):
        print(f"rounds with a WRONG sum: {', '.join(map(str, wrong))}")
    chosen = ", ".join(f"{name} {value}" for name, value in spec.chosen.items())
    if chosen:
        print(f"chosen: {chosen}")
    print(f"peak memory {console.bytes_text(result.peak_rss_bytes)}")


def _show_clipping(result: SimulationResult, spec: JobSpec) -> None:
    """A line on what clipping cut off, where it did."""
    changed = len({*result.clipped_by_party, *result.scaled_by_party})
    if not changed:
        return
    ways = []
    if result.scaled_by_party:
        ways.append(f"multiplied by {min(result.scaled_by_party.values()):.3g} or more")
    if result.clipped:
        ways.append(f"clipped, {result.clipped} coordinates")
    what = " and ".join(ways)
    error = result.max_abs_error_unclipped
    cost = "" if error is None else f"; error of the mean against unclipped updates {error:.2e}"
    norm = getattr(spec.encoding, "max_norm", 0.0)
    bounds = f"clip = {spec.clip:g}" + (f", max_norm = {norm:g}" if norm else "")
    print(f"updates of {changed} parties were {what} ({bounds}){cost}")


def _show_leftovers(result: SimulationResult) -> None:
    """A line on what parties have not sent yet, where rounds are sparse."""
    if result.leftovers:
        norm = max(left.norm for left in result.leftovers)
        coordinates = max(left.coordinates for left in result.leftovers)
        print(f"left over at a party: norm {norm:.3g} in {coordinates} coordinates at most")


def _show_servers(servers: Sequence[ServerReport]) -> None:
    """A table of servers."""
    rows = [
        [
            server.name,
            console.ms_text(server.server_ms),
            console.bytes_text(server.received_bytes),
            console.bytes_text(server.sent_bytes),
            str(server.server_rounds),
        ]
        for server in servers
    ]
    console.table("servers", ["server", "ms", "received", "sent", "rounds between servers"], rows)


def _show_costs(title: str, costs: SimulationResult | KeySetupReport, whole: str) -> None:
    """A table of stages, and a row called ``whole``."""
    rows = [
        [
            stage.name,
            f"{console.ms_text(stage.client_ms.median)} / {console.ms_text(stage.client_ms.max)}",
            console.ms_text(stage.server_ms),
            f"{console.bytes_text(stage.up_bytes.median)}",
            f"{console.bytes_text(stage.down_bytes.median)}",
        ]
        for stage in costs.stages
    ]
    rows.append(
        [
            whole,
            f"{console.ms_text(costs.client_ms.median)} / {console.ms_text(costs.client_ms.max)}",
            console.ms_text(costs.server_ms),
            console.bytes_text(costs.up_bytes_per_party),
            console.bytes_text(costs.down_bytes_per_party),
        ]
    )
    header = ["stage", "party ms (median / max)", "coordinator ms", "up per party", "down per party"]
    console.table(title, header, rows)
