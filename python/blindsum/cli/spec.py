"""``blindsum spec``: what a job file means."""

from __future__ import annotations

import argparse
import json
from typing import Any

from blindsum.cli import EXIT_SUM
from blindsum.cli.files import named

EXAMPLES = """\
examples:
  blindsum spec job.toml            the whole job, with every default, and its hash, in TOML
  blindsum spec job.toml --json     {"spec": {...}, "hash": "...", "quorum": 5, "chosen": {...}, ...}
  blindsum spec --schema            the JSON schema of job files (draft 2020-12)

A field that is 0 may leave a number to the protocol. Comments, and "quorum" and "chosen", say which one
that is with all parties. The hash is what a party asks for with --policy job_hash=HASH.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Check a job file, and print the complete job with its hash."
    parser.epilog = EXAMPLES
    parser.add_argument("job", nargs="?", type=named, metavar="JOB", help="a job file, TOML or JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of job files")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, usage=parser.error)


def run(options: argparse.Namespace) -> int:
    """Print."""
    from blindsum import _native
    from blindsum.cli.jobs import spec_from_file
    from blindsum.texts import counted

    if options.schema and options.job is not None:
        options.usage("argument --schema: not allowed with argument JOB")
    if options.schema:
        print(json.dumps(_native.job_schema(), indent=2, ensure_ascii=False))
        return EXIT_SUM
    if options.job is None:
        options.usage("one of the arguments JOB --schema is required")
    spec = spec_from_file(options.job, "JOB")
    claim = spec.privacy_after()
    if options.json:
        numbers = ("quorum", "least_roster", "dropouts", "tolerated")
        names = ("hash", *numbers, "chosen", "server_memory", "memory")
        noise = {} if claim is None else {"privacy": claim.to_dict()}
        print(json.dumps({"spec": spec.to_dict()} | {name: getattr(spec, name) for name in names} | noise))
        return EXIT_SUM
    print(f"# hash {spec.hash}")
    print(f"# a sum is of at least {spec.quorum} of {counted(spec.parties, 'party')}")
    lost, planned = counted(spec.tolerated, "party"), counted(spec.dropouts, "party")
    root = "" if spec.root is None else f" other than {spec.root}, without which there is none"
    print(f"# a round of all has a sum also after the loss of {lost}{root}; planned dropouts: {planned}")
    if spec.least_roster > spec.quorum:
        print(f"# a round begins with at least {spec.least_roster}")
    for name, number in spec.chosen.items():
        print(f"# {name}: {number} with all parties")
    if spec.server_memory:
        print(f"# each of the three servers computes with up to {spec.server_memory} bytes")
    shares = (f"{count} in a {task}" for task, count in spec.memory.items())
    print(f"# bytes of memory of a process: about {', '.join(shares)}")
    if claim is not None:
        print(f"# {claim}")
    for name, value in spec.to_dict().items():
        print(f"{name} = {_toml(value)}")
    return EXIT_SUM


def _toml(value: Any) -> str:
    """A value as TOML has it: JSON but for tables, and for one control character."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
