"""``blindsum admin``: see how the jobs of a running coordinator stand, and give orders to them."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING, Any

from blindsum.cli import hosted_round, passphrases
from blindsum.cli.files import named
from blindsum.cli.jobs import spec_from_file
from blindsum.cli.operators import lines_of, summary

if TYPE_CHECKING:
    from blindsum.admin import Admin

EXAMPLES = """\
examples, with `--at https://agg.example:9444 --identity alice --ca ca.pem` behind each:
  blindsum admin jobs
  blindsum admin describe tumour
  blindsum admin pause tumour --reason "hospital-b moves its server"
  blindsum admin resume tumour --reason "it has moved"
  blindsum admin extend tumour --rounds 80 --reason "the loss still falls"
  blindsum admin ban tumour hospital-c --for 2h --reason "its training fails in each round"
  blindsum admin unban tumour hospital-c --reason "it was mended"
  blindsum admin add second.toml --reason "the study of spring"
  blindsum admin round tumour --parties hospital-a,hospital-b,hospital-c --tag 3 --out mean.npy
  blindsum admin reload --reason "new certificate"
  blindsum admin drain --reason "upgrade"
  blindsum admin end tumour --reason "the study is over"

The coordinator has an admin address: `blindsum serve --admin HOST:PORT`, or `admin = "HOST:PORT"` in the
configuration of blindsumd. It lets in certificates of operators alone: blindsum pki issue CA NAME --operator.
Each order is recorded in the coordinator's store with the operator's name, the time and the reason.
See docs/operating.md.

exit status: 0 done, 1 the order was refused and nothing was done, the round was lost, or the coordinator was
not reached, 2 wrong arguments or credentials, 3 `reload` was done in part: the lines that begin with "not
done:" say what was not
"""

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "See the state of a running coordinator's jobs, and give orders to them."
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    jobs = actions.add_parser("jobs", help="every job, a line each")
    add_connection(jobs)
    jobs.add_argument("--json", action="store_true", help="print a JSON list")
    jobs.set_defaults(run=_jobs)

    describe = actions.add_parser("describe", help="one job: stage, parties, last rounds, last orders")
    describe.add_argument("job", metavar="NAME")
    add_connection(describe)
    describe.add_argument("--json", action="store_true", help="print a JSON object")
    describe.set_defaults(run=_describe)

    pause = _order(actions, "pause", "finish the round under way and begin none until resume")
    pause.set_defaults(values=())
    resume = _order(actions, "resume", "go on with a job that was paused or has failed")
    resume.set_defaults(values=())
    end = _order(actions, "end", "finish the round under way; the job is done then")
    end.set_defaults(values=())

    extend = _order(actions, "extend", "give a job more rounds or other deadlines")
    extend.add_argument("--rounds", type=_rounds, metavar="N", help="rounds in all; 0: until it is stopped")
    for name, text in (
        ("join", "that a round waits for parties"),
        ("stage", "that a stage waits for answers"),
        ("input", "that the stage of training waits"),
    ):
        flag = f"--{name}-deadline"
        extend.add_argument(flag, type=duration, metavar="TIME", help=f"time {text}, e.g. 30m")
    extend.set_defaults(values=("rounds", "join_deadline", "stage_deadline", "input_deadline"))

    ban = _order(actions, "ban", "leave a party out", "party")
    ban.add_argument(
        "--for", dest="seconds", type=duration, metavar="TIME", help="e.g. 2h (default: until unban)"
    )
    ban.set_defaults(values=("party", "seconds"))
    unban = _order(actions, "unban", "end the ban of a party", "party")
    unban.set_defaults(values=("party",))

    drain = actions.add_parser("drain", help="finish rounds under way, begin none, and end the coordinator")
    drain.add_argument("job", metavar="NAME", nargs="?", default="", help="stop this job alone")
    drain.add_argument(
        "--within",
        type=duration,
        metavar="TIME",
        help="stop then at the latest (default: the input deadline)",
    )
    add_connection(drain)
    _add_reason(drain)
    drain.set_defaults(run=_ordered, command="drain", values=("within",))

    new = actions.add_parser("add", help="add a job")
    new.add_argument("file", type=named, metavar="FILE", help="the job, TOML or JSON")
    add_connection(new)
    new.add_argument("--hosted", action="store_true", help="a program begins its rounds, as `round` does")
    _add_reason(new)
    new.set_defaults(run=_add)

    hosted_round.add(actions, add_connection, duration)

    reload = actions.add_parser(
        "reload", help="read certificates, limits and new jobs again from their files"
    )
    add_connection(reload)
    _add_reason(reload)
    reload.set_defaults(run=_reload)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Where the coordinator is, and who asks."""
    parser.add_argument("--at", required=True, metavar="URL", help="its admin address, https://HOST:PORT")
    parser.add_argument(
        "--identity",
        required=True,
        type=named,
        metavar="PREFIX",
        help="an operator's PREFIX.pem and PREFIX.key",
    )
    parser.add_argument("--ca", required=True, type=named, metavar="FILE", help="certificate of the job's CA")
    parser.add_argument(
        "--server-name", metavar="NAME", help="name in its certificate, if not the URL's host"
    )
    passphrases.add_key(parser)


def connected(options: argparse.Namespace) -> Admin:
    """The admin interface that the options name; nothing is connected yet."""
    import dataclasses

    from blindsum.admin import Admin
    from blindsum.cli.flags import named_as_flags
    from blindsum.pki import Identity

    found = Identity.find(options.identity)
    identity = dataclasses.replace(found, passphrase=passphrases.of_key(options, found.key))
    with named_as_flags("server_name", url="--at"):
        return Admin(options.at, identity=identity, ca=options.ca, server_name=options.server_name)


def duration(text: str) -> float:
    """Seconds of a time such as ``90``, ``90s``, ``30m``, ``2h`` or ``7d``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 30m, 2h or 7d, not {text!r}")
    return float(found[1]) * UNITS[found[2] or "s"]


def _rounds(text: str) -> int | str:
    """A whole number; what else it may not be is said with the other rules of an order."""
    try:
        return int(text)
    except ValueError:
        return text


def _order(actions: Any, command: str, text: str, *arguments: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(command, help=text)
    parser.add_argument("job", metavar="NAME")
    for argument in arguments:
        parser.add_argument(argument, metavar=argument.upper())
    add_connection(parser)
    _add_reason(parser)
    parser.set_defaults(run=_ordered, command=command)
    return parser


def _add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; it is recorded with the order")


def _ordered(options: argparse.Namespace) -> int:
    from blindsum.cli.flags import named_as_flags

    values = {name: getattr(options, name) for name in options.values}
    admin = connected(options)
    flags = ("rounds", "join_deadline", "stage_deadline", "input_deadline", "within", "reason")
    with named_as_flags(*flags, seconds="--for", party="PARTY"):
        print(admin.order(options.job, options.command, options.reason, **values))
    return 0


def _add(options: argparse.Namespace) -> int:
    spec = spec_from_file(options.file)
    print(connected(options).add(spec, options.reason, hosted=options.hosted))
    return 0


def _reload(options: argparse.Namespace) -> int:
    from blindsum.cli import EXIT_PART
    from blindsum.cli.console import note
    from blindsum.errors import OrderError

    try:
        lines = connected(options).reload(options.reason)
    except OrderError as error:
        if error.code != "in-part":
            raise
        print(error.reason)
        note(
            "blindsum: reload was done in part: correct the items after `not done:`, and reload again", "WARN"
        )
        return EXIT_PART
    for line in lines:
        print(line)
    return 0


def _jobs(options: argparse.Namespace) -> int:
    jobs = connected(options).jobs()
    if options.json:
        print(json.dumps(jobs))
        return 0
    for job in jobs:
        print(summary(job))
    return 0


def _describe(options: argparse.Namespace) -> int:
    job = connected(options).describe(options.job)
    print(json.dumps(job) if options.json else "\n".join(lines_of(job)))
    return 0
