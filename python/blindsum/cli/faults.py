"""``blindsum faults``: what members did wrong, from a store, even while a coordinator uses it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from blindsum.cli.files import check_file, check_folder, inputs, named
from blindsum.cli.stores import job_name

EXAMPLES = """\
examples:
  blindsum faults --store job.sqlite
  blindsum faults --store job.sqlite --job tumour --out evidence/ --json

Each fault is a line: the round, whose fault it is, who says so, what it is. --out writes what shows each to a
file of its own: the message that the coordinator refused, or the bytes that another party could not use.
Where one party accuses another, one of the two says something false. The bytes alone do not show which.
A store keeps a hundred faults of a job that the coordinator saw itself. It also keeps a hundred claims of
parties: one for each accuser and accused, with how often it was repeated.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = (
        "List the faults of a job with their culprits. A coordinator may use the store meanwhile."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--store", required=True, type=named, metavar="FILE", help="the coordinator's SQLite file"
    )
    parser.add_argument("--job", metavar="NAME", help="name of the job (default: the only one)")
    parser.add_argument("--out", type=named, metavar="DIR", help="a folder for what shows the faults")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read and print."""
    from blindsum.coordinator import stored_faults, stored_jobs

    if options.out is not None:
        check_folder("--out", options.out)
    name = job_name([job["job"] for job in stored_jobs(options.store)], options.job)
    faults = stored_faults(options.store, name)
    for number, fault in enumerate(faults):
        said = {
            "round": fault.round,
            "culprit": fault.culprit,
            "accuser": fault.accuser,
            "what": fault.what,
            "bytes": fault.length,
            "times": fault.times,
        }
        if options.out is not None:
            file = Path(options.out, f"{number:03}-round-{fault.round}.bin")
            check_file("--out", str(file), inputs(options, "store"))
            file.write_bytes(fault.evidence)
            said["file"] = str(file)
        if options.json:
            print(json.dumps(said))
        else:
            by = "" if fault.accuser is None else f", says {fault.accuser}"
            shown = f" ({said['file']})" if "file" in said else ""
            times = "" if fault.times == 1 else f", {fault.times} times, the latest"
            print(f"round {fault.round}: {fault.culprit}{by}{times}: {fault.what}{shown}")
    if not faults and not options.json:
        print(f"no faults of job {name}")
    return 0
