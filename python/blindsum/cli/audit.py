"""``blindsum audit``: verify and show the audit trail of a coordinator, also while it is written."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from blindsum.audit import EVENTS
from blindsum.cli.files import named

EXAMPLES = """\
examples:
  blindsum audit verify audit.jsonl
  blindsum audit verify audit.jsonl --head 3f1c...
  blindsum audit show audit.jsonl --job tumour --event round-ended

`blindsum serve --audit FILE` (audit = "FILE" in the file of blindsumd) writes the trail. Each line has the
hash of the line before, so a line that was changed, taken out or put in is found. Lines that were cut off at
the end are found with --head: the hash that an earlier `verify` printed, or that the log has where the
coordinator stopped. Note it where the coordinator's operator cannot change it.

exit status: 0 every line is as it was written, 1 a line is not, or the file cannot be read, 2 wrong arguments
"""
VERIFY = """\
example:
  blindsum audit verify audit.jsonl --head 9b0c6f0f4ee1f4d9f3c3f6dff4f8f8c1f9a3d6b8a1d5b3b8c0f4e2a6d7c8b9e0
"""
SHOW = """\
examples:
  blindsum audit show audit.jsonl --since 2026-11-27
  blindsum audit show audit.jsonl --name hospital-c --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Verify and show the audit trail of a coordinator."
    parser.epilog = EXAMPLES
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    verify = commands.add_parser(
        "verify", help="verify that no line was changed", epilog=VERIFY, formatter_class=raw
    )
    verify.description = (
        "Verify every line of an audit trail, and print how many there are and the last hash."
    )
    verify.add_argument("trail", type=named, metavar="FILE", help="the audit trail")
    verify.add_argument(
        "--head", metavar="HASH", help="the last hash at an earlier time; a line must have it"
    )
    verify.add_argument("--json", action="store_true", help="print JSON")
    verify.set_defaults(run=_verify)
    show = commands.add_parser("show", help="print entries", epilog=SHOW, formatter_class=raw)
    show.description = "Verify an audit trail and print its entries, or those that are asked for."
    show.add_argument("trail", type=named, metavar="FILE", help="the audit trail")
    show.add_argument("--job", metavar="NAME", help="only entries of this job")
    show.add_argument(
        "--name", metavar="NAME", help="only entries about this party or server; of rounds, those it was in"
    )
    show.add_argument(
        "--event", choices=EVENTS, metavar="EVENT", help=f"only entries of this kind: {', '.join(EVENTS)}"
    )
    show.add_argument("--since", type=_moment, metavar="DATE", help="only entries from this time on, UTC")
    show.add_argument("--json", action="store_true", help="print the entries as they are, a line each")
    show.set_defaults(run=_show)


def _moment(text: str) -> str:
    """A date, or the beginning of one and a time of day, as entries have it."""
    if re.fullmatch(r"\d{4}(-\d\d(-\d\d( \d\d(:\d\d(:\d\d)?)?)?)?)?", text) is None:
        raise argparse.ArgumentTypeError(
            f"must be a date such as 2026-11-27 or '2026-11-27 16:30', not {text!r}"
        )
    return text


def _verify(options: argparse.Namespace) -> int:
    from blindsum.audit import verify

    found = verify(options.trail, options.head)
    if options.json:
        fields = ("entries", "head", "first", "last", "torn")
        print(json.dumps({name: getattr(found, name) for name in fields}))
        return 0
    span = f", from {found.first} to {found.last}" if found.entries else ""
    print(f"{found.entries} entries{span}: every line is as it was written")
    print(f"hash of the last line: {found.head}")
    if found.torn:
        print(f"{found.torn} bytes of an unfinished line follow; a coordinator cuts them off when it starts")
    return 0


def _show(options: argparse.Namespace) -> int:
    from blindsum.audit import entries

    for entry in entries(options.trail):
        if not _is_wanted(entry, options):
            continue
        if options.json:
            print(json.dumps(entry, ensure_ascii=False))
        else:
            print(_told(entry))
    return 0


def _is_wanted(entry: dict[str, Any], options: argparse.Namespace) -> bool:
    if options.job is not None and entry.get("job") != options.job:
        return False
    if options.event is not None and entry["event"] != options.event:
        return False
    about = [entry.get("name"), entry.get("culprit"), entry.get("accuser"), *entry.get("roster", ())]
    if options.name is not None and options.name not in about:
        return False
    return bool(entry["time"] >= (options.since or ""))


_OWN = ("seq", "time", "event", "prev", "job", "round", "name", "times")
"""Fields that have a place of their own in a line for people."""


def _told(entry: dict[str, Any]) -> str:
    """An entry in one line: when, what, of which job and round, who, and the rest by name."""
    where = "".join(f" {name} {entry[name]}" for name in ("job", "round") if name in entry)
    who = f" {entry['name']}" if "name" in entry else ""
    often = f" ({entry['times']} times)" if "times" in entry else ""
    rest = ", ".join(
        f"{name}: {_plain(value)}" for name, value in entry.items() if name not in _OWN and value != ""
    )
    return f"{entry['time']}  {entry['event']}{where}{who}{often}" + (f"  {rest}" if rest else "")


def _plain(value: object) -> str:
    match value:
        case list():
            return " ".join(map(str, value)) or "none"
        case dict():
            return "; ".join(f"{name} ({why})" for name, why in value.items()) or "none"
        case float():
            return f"{value:.2f}"
        case _:
            return str(value)
