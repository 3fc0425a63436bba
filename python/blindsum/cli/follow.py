"""``blindsum serve --server 1``: a server of a job beside its coordinator."""

from __future__ import annotations

import argparse
import json
from typing import Any

from blindsum.cli import EXIT_SUM, console
from blindsum.cli.flags import named_as_flags
from blindsum.cli.jobs import spec_from_file
from blindsum.cli.output import Output
from blindsum.cli.signals import on_hangup, on_stop

WAIT = 0.5
"""Seconds between looks whether the server has ended."""

_OF_COORDINATORS = ("store", "model", "out", "stay", "admin", "membership_identity", "membership_ca")


EMBEDDED = "embedded"
"""Leases of parties are kept in the process."""


def follow(options: argparse.Namespace, identity: Any, limits: dict[str, float]) -> int:
    """Compute with the coordinator until the job is over or a signal to stop comes."""
    from blindsum.errors import ConfigError, Fault, NetworkError
    from blindsum.server import Server

    for name in _OF_COORDINATORS:
        if getattr(options, name):
            raise ConfigError(f"--{name.replace('_', '-')}", "only the coordinator has one, --server 0")
    if options.membership != EMBEDDED:
        raise ConfigError("--membership", "only the coordinator has one, --server 0")
    if not options.state_dir:
        raise ConfigError("--state-dir", f"needed with --server {options.server}: no round may come twice")
    spec = spec_from_file(options.job)
    with named_as_flags("listen", "servers", "results", "state_dir"):
        server = Server(
            spec,
            servers=servers_from(options.servers),
            place=options.server,
            identity=identity,
            ca=options.ca,
            listen=options.listen,
            revoked=options.crl,
            state_dir=options.state_dir,
            limits=limits,
            results=options.results,
        )

    def stop() -> None:
        console.note("blindsum: stopping; the same signal again ends at once")
        server.stop()

    on_stop(stop)
    on_hangup(server.reload)
    out = Output()
    if options.json:
        fields = {"address": server.address, "job": spec.job, "server": options.server}
        out.line(json.dumps({"event": "ready", **fields}))
    else:
        out.line(f"blindsum: server {options.server} of job {spec.job} at https://{server.address}")
    try:
        while not server.wait(WAIT):
            out.go_on()
    except Fault as error:
        # What the coordinator said concerns the whole job, and no single round.
        raise NetworkError(str(error)) from error
    out.line(json.dumps({"event": "stopped"}) if options.json else "blindsum: stopped")
    out.finish()
    return EXIT_SUM


def servers_from(urls: str) -> list[str]:
    """The URLs of a list joined by commas."""
    return [url.strip() for url in urls.split(",") if url.strip()]
