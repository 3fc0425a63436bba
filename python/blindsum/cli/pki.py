"""``blindsum pki``: certificates of parties and coordinators."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import Any

from blindsum import pki
from blindsum.cli.files import named

EXAMPLES = """\
examples:
  blindsum pki init ca                                # a CA in the folder ca
  blindsum pki issue ca agg --coordinator --host agg.example --host 10.0.0.5
  blindsum pki issue ca second --server --host second.example   # computes with a coordinator (mpc3)
  blindsum pki request hospital-a                     # at the party: key stays, .csr goes out
  blindsum pki sign ca hospital-a.csr                 # at the CA: .csr in, hospital-a.pem out
  blindsum pki sign ca hospital-a.csr --replace       # the same request again: a renewal, with the same key
  blindsum pki revoke ca hospital-a.pem               # writes ca/crl.pem
  blindsum pki show hospital-a.csr                    # before it is signed: compare key fingerprints
  blindsum pki show hospital-a.pem
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Make and show certificates. Private keys never need to leave their party."
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    init = actions.add_parser("init", help="make a CA")
    init.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    init.add_argument("--name", default="Blindsum CA", help="its common name")
    _add_key(init, pki.CA_DAYS)
    init.set_defaults(run=_init)

    issue = actions.add_parser("issue", help="make a key and its certificate in one place")
    issue.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    issue.add_argument("name", metavar="NAME", help="name of the party or coordinator")
    _add_kind(issue)
    issue.add_argument("--out", type=named, metavar="DIR", help="folder of the files (default: the CA's)")
    _add_key(issue, pki.IDENTITY_DAYS)
    issue.set_defaults(run=_issue)

    request = actions.add_parser("request", help="make a key and a signing request")
    request.add_argument("name", metavar="NAME", help="name of the party or coordinator")
    request.add_argument("--out", type=named, metavar="DIR", default=".", help="folder of the files")
    _add_key(request, None)
    request.set_defaults(run=_request)

    sign = actions.add_parser("sign", help="turn a signing request into a certificate")
    sign.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    sign.add_argument("request", type=named, metavar="FILE", help="the request, NAME.csr")
    sign.add_argument("--name", help="name it must ask for (default: the file's name)")
    _add_kind(sign)
    sign.add_argument("--out", type=named, metavar="DIR", help="folder of the certificate")
    sign.add_argument("--days", type=int, default=pki.IDENTITY_DAYS, help="validity")
    sign.add_argument("--replace", action="store_true", help="renew: take the place of an older certificate")
    sign.set_defaults(run=_sign)

    revoke = actions.add_parser("revoke", help="write the revocation list, with these certificates")
    revoke.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    revoke.add_argument("certificates", type=named, metavar="FILE", nargs="*", help="certificates to revoke")
    revoke.add_argument("--days", type=int, default=pki.REVOCATION_DAYS, help="validity of the list")
    revoke.set_defaults(run=_revoke)

    show = actions.add_parser(
        "show", help="say what is in a certificate, a request, a key or a revocation list"
    )
    show.add_argument(
        "file", type=named, metavar="FILE", help=".pem, .csr, .key (what is public of it) or crl.pem"
    )
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.set_defaults(run=_show)


def _add_key(parser: argparse.ArgumentParser, days: int | None) -> None:
    parser.add_argument("--algorithm", choices=["ed25519", "p256"], default="ed25519", help="of the key")
    if days is not None:
        parser.add_argument("--days", type=int, default=days, help=f"validity (default: {days})")


def _add_kind(parser: argparse.ArgumentParser) -> None:
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--coordinator", action="store_true", help="a coordinator, not a party")
    kind.add_argument(
        "--server", action="store_true", help="a server that computes with a coordinator (mpc3), not a party"
    )
    parser.add_argument(
        "--host", action="append", default=[], metavar="HOST", help="host name or address of it"
    )


def _hosts(options: argparse.Namespace) -> list[str] | None:
    from blindsum.errors import ConfigError

    hosts: list[str] = options.host
    serves = options.coordinator or options.server
    if serves and not hosts:
        who = "server" if options.server else "coordinator"
        raise ConfigError("--host", f"a {who} needs at least one, e.g. --host localhost")
    if hosts and not serves:
        raise ConfigError("--host", "only a coordinator or server has hosts; add --coordinator or --server")
    return hosts if serves else None


def _init(options: argparse.Namespace) -> int:
    path = pki.init(options.folder, options.name, options.algorithm, options.days)
    print(f"CA certificate {path}: give it to every party and coordinator")
    print(f"CA key         {path.with_suffix('.key')}: keep it secret")
    return 0


def _issue(options: argparse.Namespace) -> int:
    identity = pki.issue(
        options.folder,
        options.name,
        hosts=_hosts(options),
        computes=options.server,
        out=options.out,
        algorithm=options.algorithm,
        days=options.days,
    )
    print(f"certificate {identity.certificate}")
    print(f"key         {identity.key}")
    return 0


def _request(options: argparse.Namespace) -> int:
    path = pki.request(options.name, options.out, options.algorithm)
    print(f"request {path}: send it to the CA")
    print(f"key     {path.with_name(options.name + '.key')}: it stays here")
    return 0


def _sign(options: argparse.Namespace) -> int:
    hosts = _hosts(options)
    path = pki.sign(
        options.folder,
        options.request,
        options.name,
        hosts=hosts,
        computes=options.server,
        out=options.out,
        days=options.days,
        replace=options.replace,
    )
    fields = pki.show(path)
    print(f"names       {', '.join(fields['names'])}")
    print(f"key         {fields['key']}, fingerprint {fields['key_fingerprint']}")
    print("            the party sees the same by `blindsum pki show NAME.csr`: compare before you send it")
    print(f"certificate {path}: send it back")
    return 0


def _revoke(options: argparse.Namespace) -> int:
    path = pki.revoke(options.folder, options.certificates, options.days)
    print(f"revocation list {path}: give it to every party and coordinator")
    return 0


def _show(options: argparse.Namespace) -> int:
    fields = pki.show(options.file)
    if options.json:
        print(json.dumps(fields))
        return 0
    for name, value in fields.items():
        print(f"{name.replace('_', ' '):<15} {_readable(name, value)}")
    return 0


def _readable(name: str, value: Any) -> str:
    if name in ("not_before", "not_after", "this_update", "next_update"):
        return datetime.fromtimestamp(value, tz=UTC).isoformat(sep=" ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
