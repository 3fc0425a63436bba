"""``blindsum pki``: certificates of parties, coordinators, servers and operators."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from blindsum import checks, pki
from blindsum.cli import EXIT_FAILED, passphrases, pki_records
from blindsum.cli.files import named
from blindsum.cli.flags import flagged
from blindsum.cli.pki_records import date
from blindsum.pki.authority import check_not_revoked

EXAMPLES = """\
examples:
  blindsum pki init ca                                # a CA in the folder ca
  blindsum pki issue ca agg --coordinator --host agg.example --host 10.0.0.5
  blindsum pki issue ca second --server --host second.example   # computes with a coordinator (mpc3)
  blindsum pki issue ca alice --operator              # administers a coordinator, is in no round
  blindsum pki request hospital-a                     # at the party: key stays, .csr goes out
  blindsum pki show hospital-a.csr                    # before it is signed: compare key fingerprints
  blindsum pki sign ca hospital-a.csr                 # at the CA: .csr in, hospital-a.pem out
  blindsum pki sign ca hospital-a.csr --replace       # the same request again: a renewal, with the same key
  blindsum pki revoke ca hospital-a --why "key lost"  # writes ca/crl.pem
  blindsum pki list ca                                # what the CA has signed
  blindsum pki expiring ca --within 30d               # exit status 3 if something ends by then
  blindsum pki roll ca ca-2                           # a new CA, and what both are trusted by meanwhile

exit status: 0 done, 2 wrong arguments or files, 1 the system failed or nothing was signed, 3 something ends
(`expiring`) or is still to be renewed (`roll --status`)
"""


FLAGS = ("days", "algorithm", "expect_fingerprint")
"""Settings whose flags have their names."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Make and show certificates. Private keys never need to leave their party."
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    init = actions.add_parser("init", help="make a CA")
    init.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    init.add_argument("--name", default="Blindsum CA", help="its common name")
    add_algorithm(init)
    add_days(init, pki.CA_DAYS)
    passphrases.add_new_key(init)
    init.set_defaults(run=flagged(_init, *FLAGS))

    issue = actions.add_parser("issue", help="make a key and its certificate in one place")
    issue.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    issue.add_argument("name", metavar="NAME", help="name of the party, coordinator, server or operator")
    _add_kind(issue)
    issue.add_argument("--out", type=named, metavar="DIR", help="folder of the files (default: the CA's)")
    add_algorithm(issue)
    add_days(issue, pki.IDENTITY_DAYS)
    passphrases.add_new_key(issue)
    passphrases.add_ca(issue)
    issue.set_defaults(run=flagged(_issue, *FLAGS))

    request = actions.add_parser("request", help="make a key and a signing request")
    request.add_argument("name", metavar="NAME", help="name of the party, coordinator, server or operator")
    request.add_argument("--out", type=named, metavar="DIR", default=".", help="folder of the files")
    add_algorithm(request)
    passphrases.add_new_key(request)
    request.set_defaults(run=flagged(_request, *FLAGS))

    sign = actions.add_parser("sign", help="turn a signing request into a certificate")
    sign.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    sign.add_argument("request", type=named, metavar="FILE", help="the request, NAME.csr")
    sign.add_argument("--name", help="name it must ask for (default: the file's name)")
    _add_kind(sign)
    sign.add_argument("--out", type=named, metavar="DIR", help="folder of the certificate")
    add_days(sign, pki.IDENTITY_DAYS)
    sign.add_argument("--replace", action="store_true", help="renew: take the place of an older certificate")
    sign.add_argument(
        "--expect-fingerprint",
        metavar="HEX",
        help="sign only a key with this fingerprint, as its sender has read it out by another way",
    )
    sign.add_argument(
        "--revoked-key",
        action="store_true",
        help="sign also a key of which a certificate was revoked",
    )
    sign.add_argument("--yes", action="store_true", help="do not ask at a terminal whether to sign")
    passphrases.add_ca(sign)
    sign.set_defaults(run=flagged(_sign, *FLAGS))

    pki_records.add(actions)


def add_algorithm(parser: argparse.ArgumentParser) -> None:
    """The algorithm of a key that is made."""
    parser.add_argument("--algorithm", choices=["ed25519", "p256"], default="ed25519", help="of the key")


def add_days(parser: argparse.ArgumentParser, days: int) -> None:
    """How long what is signed is valid."""
    parser.add_argument("--days", type=int, default=days, help=f"validity (default: {days})")


def _add_kind(parser: argparse.ArgumentParser) -> None:
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--coordinator", action="store_true", help="a coordinator, not a party")
    kind.add_argument(
        "--server", action="store_true", help="a server that computes with a coordinator (mpc3), not a party"
    )
    kind.add_argument(
        "--operator", action="store_true", help="an operator, who administers a coordinator, not a party"
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
    path = pki.init(
        options.folder,
        options.name,
        options.algorithm,
        options.days,
        passphrase=passphrases.of_new_key(options),
    )
    print(f"CA certificate {path}: give it to every party and coordinator")
    print(f"CA key         {path.with_suffix('.key')}: keep it secret")
    return 0


def _issue(options: argparse.Namespace) -> int:
    identity = pki.issue(
        options.folder,
        options.name,
        hosts=_hosts(options),
        computes=options.server,
        operator=options.operator,
        out=options.out,
        algorithm=options.algorithm,
        days=options.days,
        passphrase=passphrases.of_new_key(options),
        ca_passphrase=passphrases.of_ca(options),
    )
    print(f"certificate {identity.certificate}")
    print(f"key         {identity.key}")
    return 0


def _request(options: argparse.Namespace) -> int:
    path = pki.request(
        options.name, options.out, options.algorithm, passphrase=passphrases.of_new_key(options)
    )
    print(f"request {path}: send it to the CA")
    print(f"key     {path.with_name(options.name + '.key')}: it stays here")
    print(f"key fingerprint {pki.show(path)['key_fingerprint']}: give it to the CA over another channel")
    return 0


def _sign(options: argparse.Namespace) -> int:
    hosts = _hosts(options)
    name = checks.name(
        Path(options.request).name.removesuffix(".csr") if options.name is None else options.name
    )
    asked = pki.show(options.request)
    expected: str | None = options.expect_fingerprint
    if asked["kind"] == "signing request":
        _print_request(options, name, asked)
        if not options.revoked_key:
            check_not_revoked(
                Path(options.request), asked["key_fingerprint"], pki.certificates(options.folder)
            )
        if expected is None:
            # What is confirmed is what is signed, also if the file changes meanwhile.
            expected = asked["key_fingerprint"]
            if not options.yes and sys.stdin.isatty() and not _confirmed():
                print("not signed")
                return EXIT_FAILED
    path = pki.sign(
        options.folder,
        options.request,
        name,
        hosts=hosts,
        computes=options.server,
        operator=options.operator,
        out=options.out,
        days=options.days,
        replace=options.replace,
        expect_fingerprint=expected,
        revoked_key=options.revoked_key,
        ca_passphrase=passphrases.of_ca(options),
    )
    print(f"certificate {path}: send it back")
    return 0


def _print_request(options: argparse.Namespace, name: str, asked: dict[str, Any]) -> None:
    names = [one for one in asked["names"] or [asked["subject"]] if one]
    print(f"names       {', '.join(names) or 'none: the request asks for no name'}")
    print(f"key         {asked['key']}, fingerprint {asked['key_fingerprint']}")
    if options.expect_fingerprint is None:
        print(
            "            the party sees the same by `blindsum pki show NAME.csr`: compare before you send it"
        )
    for entry in pki.certificates(options.folder).of_name(name)[-1:]:
        same = "the same key as" if entry.key_fingerprint == asked["key_fingerprint"] else "ANOTHER KEY THAN"
        print(f"            {same} the latest certificate of {name}, which ends {date(entry.not_after)}")


def _confirmed() -> bool:
    return input("sign it? [y/N] ").strip().lower() in ("y", "yes")
