"""Actions of ``blindsum pki`` on what is there: ``list``, ``expiring``, ``show``, ``revoke`` and so on."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindsum import pki
from blindsum.cli import passphrases
from blindsum.cli.files import named
from blindsum.cli.flags import flagged
from blindsum.pki.index import UNKNOWN
from blindsum.texts import counted

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

EXIT_FOUND = 3
"""Exit status of a command that has found something to do, apart from those of errors."""

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TIMES = ("not_before", "not_after", "this_update", "next_update")


def add(actions: Actions) -> None:
    """Describe the arguments of these actions."""
    listed = actions.add_parser("list", help="list what a CA has signed; its key is not needed")
    listed.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    listed.add_argument("--json", action="store_true", help="print one JSON object")
    listed.set_defaults(run=_list)

    expiring = actions.add_parser(
        "expiring", help="list certificates that end soon; exit status 3 if there are any"
    )
    expiring.add_argument(
        "places", type=named, metavar="PLACE", nargs="+", help="folder of a CA, or a file .pem or crl.pem"
    )
    expiring.add_argument(
        "--within", type=_duration, default="30d", metavar="TIME", help="e.g. 12h, 30d, 8w (default: 30d)"
    )
    expiring.add_argument("--json", action="store_true", help="print one JSON array")
    expiring.set_defaults(run=_expiring)

    show = actions.add_parser("show", help="print a certificate, a request, a key or a revocation list")
    show.add_argument(
        "file", type=named, metavar="FILE", help=".pem, .csr, .key (its public part) or crl.pem"
    )
    show.add_argument("--json", action="store_true", help="print one JSON object")
    passphrases.add_key(show)
    show.set_defaults(run=_show)

    revoke = actions.add_parser("revoke", help="write the revocation list, with these certificates")
    revoke.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    revoke.add_argument(
        "certificates",
        type=named,
        metavar="NAME|FILE|SERIAL",
        nargs="*",
        help="certificates to revoke: files, serial numbers, or names, which mean all that are valid",
    )
    revoke.add_argument("--why", default="", metavar="TEXT", help="why, for the CA's own index")
    revoke.add_argument("--days", type=int, default=pki.REVOCATION_DAYS, help="validity of the list")
    passphrases.add_ca(revoke)
    revoke.set_defaults(run=flagged(_revoke, "days", "algorithm"))

    index = actions.add_parser(
        "index", help="add certificates that were signed by a version without an index; mend a damaged one"
    )
    index.add_argument("folder", type=named, metavar="DIR", help="folder of the CA")
    index.add_argument("files", type=named, metavar="FILE", nargs="*", help="certificates of this CA")
    index.add_argument(
        "--rebuild", action="store_true", help="rebuild it; the old one stays as index.json.damaged"
    )
    index.add_argument(
        "--complete", action="store_true", help="confirm that no certificate is missing afterwards"
    )
    index.set_defaults(run=_index)

    roll = actions.add_parser("roll", help="make the CA that takes the place of another one")
    roll.add_argument("folder", type=named, metavar="DIR", help="folder of the old CA")
    roll.add_argument("new", type=named, metavar="NEW", help="folder of the new CA")
    roll.add_argument("--name", help="common name of the new CA (default: the old one, counted on)")
    roll.add_argument("--algorithm", choices=["ed25519", "p256"], default="ed25519", help="of the key")
    roll.add_argument(
        "--days", type=int, default=pki.CA_DAYS, help=f"validity of the new CA (default: {pki.CA_DAYS})"
    )
    roll.add_argument(
        "--status", action="store_true", help="make nothing: list who has no certificate of the new CA yet"
    )
    passphrases.add_new_key(roll)
    passphrases.add_ca(roll)
    roll.set_defaults(run=flagged(_roll, "days", "algorithm"))

    bundle = actions.add_parser("bundle", help="put CA certificates, or revocation lists, into one file")
    bundle.add_argument("files", type=named, metavar="FILE", nargs="+", help="ca.pem or crl.pem of each CA")
    bundle.add_argument(
        "--out", type=named, metavar="FILE", required=True, help="the file, replaced atomically"
    )
    bundle.set_defaults(run=_bundle)

    change = actions.add_parser("passphrase", help="encrypt a key, or change or remove its passphrase")
    change.add_argument("key", type=named, metavar="FILE.key", help="the key, replaced atomically")
    change.add_argument("--remove", action="store_true", help="decrypt it")
    passphrases.add_key(change)
    change.add_argument(
        "--new-passphrase-file",
        type=named,
        metavar="FILE",
        help=f"its first line is the new one; or set {passphrases.NEW_VARIABLE}, or type it in",
    )
    change.set_defaults(run=_passphrase)


def date(seconds: int) -> str:
    """A time for people; a dash where there is none."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M UTC") if seconds else "-"


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number with m, h, d or w, e.g. 30d")
    return float(int(found[1]) * _SECONDS[found[2]])


def _list(options: argparse.Namespace) -> int:
    index = pki.certificates(options.folder)
    authority = pki.show(Path(options.folder) / "ca.pem")
    now = time.time()
    if options.json:
        said = [dataclasses.asdict(entry) | {"state": entry.state(now)} for entry in index.entries]
        print(
            json.dumps(
                {
                    "ca": authority,
                    "list_number": index.list_number,
                    "unknown_until": index.unknown_until,
                    "certificates": said,
                }
            )
        )
        return 0
    print(f"CA {authority['subject']}, ends {date(authority['not_after'])}")
    rows = [("NAME", "ROLE", "ENDS", "STATE", "SERIAL")]
    rows += [
        (entry.name, entry.role, date(entry.not_after), entry.state(now), entry.serial)
        for entry in index.entries
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    reasons = ["", *map(_reason, index.entries)]
    for row, reason in zip(rows, reasons, strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(f"{cells}  {reason}".rstrip())
    if index.unknown_until is not None:
        print(
            f"certificates that were signed before {date(index.unknown_until)} may be missing: an"
            " earlier version kept"
            f" no index. Add them: blindsum pki index {options.folder} FILE..."
        )
    return 0


def _reason(entry: pki.Entry) -> str:
    if entry.revoked is None:
        return ""
    when = UNKNOWN if entry.revoked.when is None else date(entry.revoked.when)
    return f"revoked {when}" + (f": {entry.revoked.why}" if entry.revoked.why else "")


def _expiring(options: argparse.Namespace) -> int:
    found = pki.expiring(options.places, options.within)
    if options.json:
        print(json.dumps([dataclasses.asdict(ending) for ending in found]))
    else:
        now = time.time()
        for one in found:
            what = f"{one.what} of {one.role}" if one.what == "certificate" else one.what
            verb = "ended" if one.ends < now else "ends"
            print(f"{one.place}: {what} {one.name} {verb} {date(one.ends)}")
    return EXIT_FOUND if found else 0


def _show(options: argparse.Namespace) -> int:
    fields = pki.show(options.file, passphrases.of_key(options, Path(options.file)))
    if options.json:
        print(json.dumps(fields))
        return 0
    others = fields.pop("others", [])
    _print_fields(fields)
    for other in others:
        print()
        _print_fields({"kind": fields["kind"], **other})
    return 0


def _print_fields(fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        print(f"{name.replace('_', ' '):<15} {_readable(name, value)}")


def _readable(name: str, value: Any) -> str:
    if name in _TIMES:
        return datetime.fromtimestamp(value, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


def _revoke(options: argparse.Namespace) -> int:
    meant = [entry for what in options.certificates for entry in pki.find(options.folder, what)]
    path = pki.revoke(
        options.folder,
        options.certificates,
        options.days,
        why=options.why,
        ca_passphrase=passphrases.of_ca(options),
    )
    for entry in meant:
        was = entry.revoked is not None
        what = "was on the list already:" if was else "revoked"
        print(f"{what} {entry.role} {entry.name}, serial number {entry.serial}")
    print(f"revocation list {path}: give it to every party and coordinator")
    return 0


def _index(options: argparse.Namespace) -> int:
    index = pki.learn(options.folder, options.files, rebuild=options.rebuild, complete=options.complete)
    print(f"the index of CA {options.folder} has {counted(len(index.entries), 'certificate')}")
    if index.unknown_until is not None:
        print(f"certificates that were signed before {date(index.unknown_until)} may be missing")
    return 0


def _roll(options: argparse.Namespace) -> int:
    if options.status:
        missing = pki.unrenewed(options.folder, options.new)
        for entry in missing:
            print(f"{entry.role} {entry.name} has no certificate of {options.new} yet")
        return EXIT_FOUND if missing else 0
    rolled = pki.roll(
        options.folder,
        options.new,
        options.name,
        options.algorithm,
        options.days,
        passphrase=passphrases.of_new_key(options),
        ca_passphrase=passphrases.of_ca(options),
    )
    print(f"new CA certificate {rolled.authority}")
    print(f"both CAs           {rolled.bundle}: give it to everybody in the place of the old ca.pem, first")
    print(f"both lists         {rolled.lists}: give it to everybody who has a list, after that")
    print(f"then sign all requests with {options.new}; see docs/certificates.md")
    return 0


def _bundle(options: argparse.Namespace) -> int:
    print(f"written {pki.bundle(options.files, options.out)}")
    return 0


def _passphrase(options: argparse.Namespace) -> int:
    from blindsum.errors import ConfigError

    if options.remove and options.new_passphrase_file is not None:
        raise ConfigError("--new-passphrase-file", "there is no new one with --remove; leave one of them out")
    old = passphrases.of_key(options, Path(options.key))
    new = None
    if not options.remove:
        new = passphrases.chosen(
            options.new_passphrase_file, "--new-passphrase-file", passphrases.NEW_VARIABLE
        )
    path = pki.change_passphrase(options.key, old, new)
    print(f"key {path}: {'decrypted' if new is None else 'encrypted with the new passphrase'}")
    return 0
