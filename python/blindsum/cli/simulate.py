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
from blindsum.misbehaviours import MISBEHAVIOURS
from blindsum.texts import counted

if TYPE_CHECKING:
    from blindsum.simulation_result import SimulationResult
    from blindsum.spec import JobSpec

EXAMPLES = """\
examples:
  blindsum simulate --protocol secagg+ --parties 100 --dim 1e5 --drop 0.1
  blindsum simulate --protocol secagg --parties 20 --dim 1000 --drop-at unmask:2 --json
  blindsum simulate --protocol plain --parties 10 --dim 1000 --set clip=0.5 --set max_weight=100
  blindsum simulate --protocol secagg --clients 20 --dim 1000 --bits 64
  blindsum simulate --protocol flashe --parties 10 --dim 1e5 --drop-at deliver-key:1 --rounds 5
  blindsum simulate --protocol mpc3 --rule fltrust --parties 16 --dim 1000
  blindsum simulate --protocol pss-malicious --parties 20 --dim 1000 --malicious 2 --misbehaviour non-bit
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

COUNTS = {
    "steps": "events: a frame came, a task ended, a machine was started",
    "episodes": "jobs from beginning to end",
    "rounds": "rounds with a result",
    "results": "results that parties received",
    "kills": "machines that were killed",
    "cuts": "connections that broke, also between servers",
    "ended": "sessions of parties that ended by themselves",
    "rollbacks": "parties and servers that came back with records of an earlier time",
    "restored": "coordinators that came back with a store of an earlier time",
    "lies": "messages that a corrupt party or coordinator falsified",
    "shown": "faults that were stored with their evidence",
    "leases": "leases of parties that ran out, or were lost",
    "releases": "results that the second and third server of mpc3 recorded before they opened them",
    "spoilt": "rounds without a result where the only fault was a corrupt member",
}
"""What the numbers of a campaign count."""

# Flags for rounds that campaigns have no use for, and what they are where they are not given.
ROUNDS_ONLY: dict[str, object] = {
    "rounds": 1,
    "drop": 0.0,
    "drop_at": [],
    "latency": 0.0,
    "malicious": 0,
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
        help="delay of every message in virtual time, also between servers (default 0)",
    )
    parser.add_argument(
        "--malicious",
        "--liars",
        type=int,
        default=0,
        metavar="N",
        help="corrupt parties that misbehave (default 0), for pss-malicious; --liars is the older name",
    )
    parser.add_argument(
        "--misbehaviour",
        "--lie",
        default="mixed",
        metavar="KIND",
        help=f"what they do: {', '.join(MISBEHAVIOURS)} (default mixed); --lie is the older name",
    )
    parser.add_argument("--seed", type=int, default=0, help="of every random number (default 0)")
    parser.add_argument(
        "--faults",
        type=_steps,
        metavar="N",
        help="in place of rounds, whole jobs in which machines are killed, connections break, backups come "
        "back and corrupt members misbehave, until N steps are done, e.g. 1e5; --seed is that of the "
        "first job",
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
    from blindsum.simulation_text import wrong_rounds

    if options.repeat is not None:
        return repeat(options, _said_of_simulation(options))
    spec = spec_from(options) if options.job is None else spec_from_file_alone(options)
    if options.faults is not None:
        return _campaign(spec, options)
    named = named_as_flags(*ROUNDS_ONLY, "misbehaviour", "seed")
    with named, console.progress("simulating", options.rounds, quiet=options.json) as bar:
        result = simulate(
            spec,
            drop=options.drop,
            drop_at=options.drop_at,
            latency=options.latency,
            malicious=options.malicious,
            misbehaviour=options.misbehaviour,
            rounds=options.rounds,
            seed=options.seed,
            threads=options.threads,
            progress=lambda done, _total, text: bar.update(done, text),
        )
    if options.json:
        print(json.dumps(result.to_dict()))
    else:
        _show(result, options.drop)
    if wrong_rounds(result):
        return EXIT_FAILED
    return EXIT_SUM if result.outcome == "sum" else EXIT_ABORT


def _said_of_simulation(options: argparse.Namespace) -> list[str]:
    """Flags that say what is simulated, where they are given."""
    defaults = {name: value for name, value in ROUNDS_ONLY.items() if name != "threads"}
    defaults |= {"seed": 0, "misbehaviour": "mixed", "faults": None, "job": None}
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
            print(f"{name:>10} {value:>9}  {COUNTS[name]}")
        print("every promise was kept")
    return EXIT_SUM


def _show(result: SimulationResult, drop: float) -> None:
    """What ``print(result)`` prints, in tables of the terminal."""
    from blindsum.comparison.grid import dropped
    from blindsum.simulation_text import parts

    for part in parts(result):
        if isinstance(part, str):
            print(part)
        else:
            console.table(*part)
    if drop > 0 and dropped(result.parties, drop) == 0:
        parties = counted(result.parties, "party")
        print(f"no party dropped out: drop {drop:g} of {parties} is 0, rounded down")
