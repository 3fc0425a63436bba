"""``blindsum serve``: a coordinator for one job."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindsum import logs
from blindsum.cli import EXIT_FAILED, EXIT_SUM, console, log, passphrases
from blindsum.cli.events import Json, Lines
from blindsum.cli.examples import example
from blindsum.cli.files import check_file, inputs, named, write_array
from blindsum.cli.flags import named_as_flags
from blindsum.cli.follow import EMBEDDED, follow, servers_from
from blindsum.cli.jobs import spec_from_file
from blindsum.cli.model_files import model_in
from blindsum.cli.output import Output
from blindsum.cli.signals import on_hangup, on_stop, stop_signals
from blindsum.early import StoppedEarly
from blindsum.early import stop as stop_early

if TYPE_CHECKING:
    from blindsum.coordinator import ModelStart
    from blindsum.spec import JobSpec

LOOK_EVERY = 0.5
"""Seconds between looks whether output that nobody read can be written now."""
_READ = (
    "job",
    "store",
    "ca",
    "identity",
    "cert",
    "key",
    "crl",
    "membership_identity",
    "membership_ca",
    "dashboard_token_file",
)
"""Options of files that stay what they are. Not ``model``: the final model may replace the first one."""
#: States in which there are no more rounds, though the job is not done.
BROKEN_OFF = ("failed", "stopped")

EXAMPLES = """\
example:
  blindsum serve --job job.toml --ca ca/ca.pem --identity ca/agg --listen 0.0.0.0:9443 --store job.sqlite

The three servers of an mpc3 job, each at another organisation, all with the same list:
  blindsum serve --job job.toml --ca ca.pem --identity agg --servers URL,URL,URL --listen 0.0.0.0:9443
  blindsum serve --job job.toml --ca ca.pem --identity second --servers URL,URL,URL --server 1 --state-dir s

The key service of a paillier job at another organisation (decryptor = "keys.example" in the job):
  blindsum serve --job job.toml --ca ca.pem --identity keys --servers URL,URL --server decryptor --state-dir s

job.toml holds fields of JobSpec; examples/job.toml:
{job}
With bits = 33 to 64 the encoding is "integers" unless it is given.

Leases of parties in etcd, with a certificate for clients of etcd and the CA of etcd:
  blindsum serve --job job.toml --ca ca.pem --identity agg --membership etcd://etcd.example:2379 \\
    --membership-identity to-etcd --membership-ca etcd-ca.pem

Metrics for Prometheus, and health checks (docs/metrics.md):
  blindsum serve --job job.toml --ca ca.pem --identity agg --store job.sqlite --metrics 127.0.0.1:9090

A page for people, who give the token of a file (docs/dashboard.md):
  openssl rand -hex 16 > token
  blindsum serve --job job.toml --ca ca.pem --identity agg --dashboard 127.0.0.1:9091 \\
    --dashboard-token-file token

In a flashe job the coordinator learns neither sums nor models. A party writes the final model (blindsum
join --out). Rounds that give the parties the key are shown as key set-ups.

With --json it prints one JSON object a line: {{"event": "ready", "address", "hosts", "metrics"}} at first,
{{"event": "status", ...}} after every change, {{"event": "stopped"}} at the end. If nobody reads them, the
oldest ones are dropped.

SIGTERM drains: the round under way ends, none begins, and the coordinator stops, after --limit
drain_deadline=SECONDS (default: the job's input_deadline) at the latest. A second SIGTERM, or SIGINT
(Ctrl-C), tells the parties and stops at once. With --store a later start goes on from there. SIGHUP
reads the certificate, its key, the CA and the revocation list again, which also happens by itself when one
changes. `blindsum status`, `model` and `backup` read the store meanwhile. See docs/operations.md.

A job that is in the store goes on from the store's model. --model counts at the first start only; a later
start warns that it is not used.

When the job is done, the coordinator stays for parties that were lost in the last round and for survivors
that have not confirmed the result, at most --limit farewell=30 seconds. With --store you can start it again
for parties that come later.

exit status: 0 the job is over, or it was stopped by a signal, 1 the job failed or the system did, 2 wrong
arguments or credentials, 130 a second signal came while it stopped
"""


QUIET = f"{log.DEFAULT},blindsum_job::waits=error"
"""The default log without the lines that this command prints itself: for whom a job waits."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Run a coordinator for one job, over mutual TLS."
    parser.epilog = EXAMPLES.format(job=example("job.toml"))
    parser.add_argument("--job", required=True, type=named, metavar="FILE", help="the job, TOML or JSON")
    parser.add_argument("--ca", required=True, type=named, metavar="FILE", help="certificate of the job's CA")
    parser.add_argument(
        "--identity", type=named, metavar="PREFIX", help="PREFIX.pem and PREFIX.key, or their folder"
    )
    parser.add_argument("--cert", type=named, metavar="FILE", help="the certificate, in place of --identity")
    parser.add_argument("--key", type=named, metavar="FILE", help="its key, in place of --identity")
    passphrases.add_key(parser)
    parser.add_argument("--crl", type=named, metavar="FILE", help="the CA's revocation list")
    parser.add_argument(
        "--servers",
        default="",
        metavar="URL,URL[,URL]",
        help="all three servers of an mpc3 job, or the coordinator and the decryptor of a paillier job, "
        "as everybody reaches them",
    )
    parser.add_argument(
        "--server",
        type=_place,
        default=0,
        metavar="0|1|2|decryptor",
        help="which of them this is; 0, the coordinator",
    )
    parser.add_argument(
        "--state-dir",
        type=named,
        metavar="DIR",
        help="with --server 1, 2 or decryptor: remembers the latest round there",
    )
    parser.add_argument("--listen", default="127.0.0.1:9443", metavar="HOST:PORT", help="port 0: a free one")
    parser.add_argument(
        "--choice",
        choices=("first", "turns", "random"),
        default="first",
        help="which parties take part where more are ready than a round takes (default: first)",
    )
    parser.add_argument(
        "--change",
        type=int,
        default=1,
        metavar="N",
        help="least number of parties that turns and random replace together (default: 1)",
    )
    parser.add_argument(
        "--admin",
        metavar="HOST:PORT",
        help="accept operators there, with blindsum admin and blindsum watch (default: off)",
    )
    parser.add_argument(
        "--hosted",
        action="store_true",
        help="begin no round: a program does, by `blindsum admin round` or in Python (needs --admin)",
    )
    parser.add_argument(
        "--store", type=named, metavar="FILE", help="SQLite file that remembers rounds and models"
    )
    parser.add_argument(
        "--audit", type=named, metavar="FILE", help="write the audit trail there, see `blindsum audit`"
    )
    parser.add_argument(
        "--model", type=named, metavar="FILE", help="model to start from, .npy (default: zeros)"
    )
    parser.add_argument(
        "--out", type=named, metavar="FILE", help="write the final model there, .npy (needs --store)"
    )
    parser.add_argument(
        "--results", type=named, metavar="DIR", help="write each result that this server learns there, .npy"
    )
    parser.add_argument(
        "--membership",
        default=EMBEDDED,
        metavar="WHERE",
        help="where leases of parties are kept: embedded (default), or etcd://HOST:PORT[,HOST:PORT...]",
    )
    parser.add_argument(
        "--membership-identity",
        type=named,
        metavar="PREFIX",
        help="what etcd is shown, PREFIX.pem and PREFIX.key (default: the coordinator's own)",
    )
    parser.add_argument(
        "--membership-ca",
        type=named,
        metavar="FILE",
        help="the CA of etcd's certificate (default: the job's)",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="answer scrapes (/metrics) and health checks (/livez, /readyz) there, by plain HTTP",
    )
    parser.add_argument(
        "--dashboard",
        metavar="HOST:PORT",
        help="show the job in a browser, over plain HTTP (needs --dashboard-token-file)",
    )
    parser.add_argument(
        "--dashboard-token-file",
        type=named,
        metavar="FILE",
        help="its first line is the token that the dashboard asks for",
    )
    parser.add_argument(
        "--limit", action="append", default=[], metavar="NAME=NUMBER", help="a limit, e.g. reconnect_grace=2"
    )
    parser.add_argument("--stay", action="store_true", help="go on listening when the job is over")
    log.add(parser)
    parser.add_argument("--json", action="store_true", help="print events as JSON lines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until the job is over or a signal to stop comes."""
    with stop_signals():
        on_stop(stop_early)
        try:
            return _run(options)
        except StoppedEarly:
            console.note("blindsum: stopped before it was ready")
            if options.json:
                out = Output()
                Json(out).say("stopped", {})
                out.finish()
            return EXIT_SUM


def _place(text: str) -> int:
    """The place of a server in the list; a decryptor stands behind the coordinator."""
    places = {"0": 0, "1": 1, "2": 2, "decryptor": 1}
    if text not in places:
        raise argparse.ArgumentTypeError(f"must be 0, 1, 2 or decryptor, not {text!r}")
    return places[text]


def _run(options: argparse.Namespace) -> int:
    from blindsum.coordinator import Coordinator
    from blindsum.errors import ConfigError

    log.start(options.log, options.log_format)
    if options.log == log.DEFAULT:
        logs.change(QUIET)
    if options.server:
        return follow(options, identity_from(options), limits_from(options.limit))
    if options.audit:
        check_file("--audit", options.audit, inputs(options, *_READ))
    if options.state_dir:
        raise ConfigError("--state-dir", "only other servers have one; a coordinator has --store")
    if options.out and not options.store:
        raise ConfigError("--out", "needs --store, where the models are")
    if options.hosted and not options.admin:
        raise ConfigError("--hosted", "needs --admin HOST:PORT, where a program begins the rounds")
    check_file("--out", options.out, inputs(options, *_READ))
    spec = spec_from_file(options.job)
    if options.out and spec.model_update == "none":
        raise ConfigError("--out", "the job has no model: model_update is none; use --results")
    if options.out and spec.hides_sum:
        raise ConfigError(
            "--out",
            f"only the parties of a {spec.protocol.name} job have its model: write it at a party, "
            "with blindsum join --out",
        )
    with named_as_flags(
        *("listen", "servers", "store", "audit", "results", "membership"),
        *("metrics", "admin", "dashboard", "dashboard_token_file", "change"),
    ):
        coordinator = Coordinator(
            spec,
            identity=identity_from(options),
            ca=options.ca,
            listen=options.listen,
            revoked=options.crl,
            store=options.store,
            audit=options.audit,
            model=_model(options.model, spec),
            limits=limits_from(options.limit),
            stop_when_done=not options.stay,
            servers=servers_from(options.servers),
            results=options.results,
            membership=options.membership,
            membership_identity=options.membership_identity,
            membership_ca=options.membership_ca,
            metrics=options.metrics,
            admin=options.admin,
            dashboard=options.dashboard,
            dashboard_token_file=options.dashboard_token_file,
            choice=options.choice,
            change=options.change,
            hosted=options.hosted,
        )

    def stop() -> None:
        console.note("blindsum: stopping immediately; the same signal again ends without goodbyes")
        coordinator.stop()

    def drain() -> None:
        console.note(
            "blindsum: draining: the round under way ends, and none begins; a second signal stops "
            "immediately. "
            "Parties wait for --give-up-after (120 s by default), and end then"
        )
        coordinator.drain("SIGTERM")

    def reload() -> None:
        console.note("blindsum: certificate, key, CA and revocation list are read again")
        coordinator.reload()

    on_stop(stop, drain=drain)
    on_hangup(reload)
    out = Output()
    say = Json(out).say if options.json else Lines(out).say
    hosts = list(coordinator.hosts)
    say(
        "ready",
        {
            "address": coordinator.address,
            "metrics": coordinator.metrics,
            "admin": coordinator.admin,
            "dashboard": coordinator.dashboard,
            "hosts": hosts,
            "job": spec.job,
            "protocol": spec.protocol.name,
            "starts_from": dataclasses.asdict(coordinator.starts_from),
            "model": _named(coordinator.starts_from, spec, options),
            "warnings": list(_warned_of(options)),
        },
    )
    last = _watch(coordinator, say, out)
    say("stopped", {"rounds_done": last.get("rounds_done", 0)})
    out.finish()
    if last.get("state") in BROKEN_OFF:
        return EXIT_FAILED
    if options.out and last:
        _write_model(options.store, spec.job, last["model_version"], options.out)
    return EXIT_SUM


def _warned_of(options: argparse.Namespace) -> Iterator[str]:
    """What an operator who left an option out may not expect."""
    if not options.store:
        yield "without --store FILE rounds and models are forgotten when this ends"
    if not options.crl:
        yield "without --crl FILE no party can be revoked"


def _named(start: ModelStart, spec: JobSpec, options: argparse.Namespace) -> str:
    """The model that the job starts from, in words."""
    short = f"(hash {start.hash[:16]})"
    zeros = "as the job says" if spec.initial == "zeros" else "--model FILE to start from yours"
    zeros = f"as {options.model} has them" if options.model else zeros
    words = {
        "zeros": f"starts from zeros; {zeros}",
        "awaited": "starts from the model of the first party that can give one (join --initial FILE)",
        "party": f"starts from the model that {start.party} gave {short}",
        "given": f"starts from {options.model} {short}",
        "store": f"goes on from model version {start.version} of {options.store} {short}",
        "parties": f"goes on from model version {start.version}, which only the parties have",
    }
    return words.get(start.kind, "keeps no model")


def _watch(coordinator: Any, say: Any, out: Output) -> dict[str, Any]:
    from blindsum.errors import BlindsumError

    last: dict[str, Any] = {}
    try:
        for status in coordinator.statuses(quiet_after=LOOK_EVERY):
            if status is None:
                out.go_on()
            else:
                last = status
                say("status", status)
    except BlindsumError:
        # That the job failed, or its coordinator cannot go on, was a status, with the reason.
        if last.get("state") not in BROKEN_OFF:
            raise
    return last


def identity_from(options: argparse.Namespace) -> Any:
    """The identity that ``--identity`` or ``--cert`` and ``--key`` name."""
    from blindsum.errors import ConfigError
    from blindsum.pki import Identity

    if options.identity and not (options.cert or options.key):
        found = Identity.find(options.identity)
    elif options.cert and options.key and not options.identity:
        found = Identity(Path(options.cert), Path(options.key))
    else:
        raise ConfigError("--identity", "give either --identity, or --cert and --key")
    return dataclasses.replace(found, passphrase=passphrases.of_key(options, found.key))


def _model(path: str | None, spec: JobSpec) -> Any:
    """The model of a file, checked; ``None`` where none is named."""
    if path is None:
        return None
    from blindsum.first_model import first_model

    return first_model(model_in(path, "--model"), spec, f"--model {path}")


def _write_model(store: str, job: str, version: int, path: str) -> None:
    from blindsum.coordinator import stored_model

    model = stored_model(store, job, version)
    if model is not None:
        write_array(path, model)


def limits_from(settings: list[str]) -> dict[str, float]:
    """Read ``NAME=NUMBER`` of every ``--limit``."""
    from blindsum.errors import ConfigError

    limits: dict[str, float] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        try:
            number = float(text)
        except ValueError as error:
            raise ConfigError("--limit", f"{setting!r} must be NAME=NUMBER") from error
        limits[name] = int(number) if number.is_integer() and "." not in text else number
    return limits
