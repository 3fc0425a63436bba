"""``blindsum status``: what a store says about its jobs, even while a coordinator uses it."""

from __future__ import annotations

import argparse
import json

from blindsum.cli.files import named
from blindsum.cli.operators import ended_lines, ended_of, failed_advice
from blindsum.metrics_text import metrics_text, standing_lines
from blindsum.texts import counted

EXAMPLES = """\
examples:
  blindsum status --store job.sqlite
  blindsum status --store job.sqlite --json

"running" means that the job is not over. The store does not say whether a coordinator runs it now.
`blindsum admin describe` asks the coordinator itself for the stage of the round and for whom it waits.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Print the state of the jobs of a store. A coordinator may use it meanwhile."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--store", required=True, type=named, metavar="FILE", help="the coordinator's SQLite file"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read and print."""
    from blindsum.coordinator import stored_jobs
    from blindsum.errors import StoreError

    jobs = stored_jobs(options.store)
    if not jobs and not options.json:
        raise StoreError(
            f"store {options.store}: has no job; `blindsum serve --store` makes one when it starts"
        )
    if options.json:
        print(json.dumps(jobs))
        return 0
    for job in jobs:
        of = f" of {job['rounds']}" if job["rounds"] else ""
        print(
            f"job {job['job']} ({job['protocol']}): {job['state']}, {job['rounds_done']}{of} rounds done, "
            f"model version {job['model_version']}"
        )
        if job["model_from"]:
            print(f"  the first model is from {job['model_from']}")
        latest = job["round"]
        if job["state"] == "running" and (latest is None or latest["state"] != "running"):
            verb = "is" if job["min_parties"] == 1 else "are"
            least = counted(job["min_parties"], "party")
            print(f"  a round begins when at least {least} {verb} here")
        if job["state"] == "running":
            print(f"  who is connected and awaited is not in the store: blindsum admin describe {job['job']}")
        if job["held"]:
            print(f"  {job['held']}")
        if job["reason"]:
            what = "done" if job["state"] == "done" else "failed"
            print(f"  {what}: {job['reason']}{failed_advice(job)}")
        if latest is not None and latest["state"] in ("done", "aborted") and not latest.get("unknown"):
            print("\n".join(ended_lines(ended_of(latest))))
        elif latest is not None:
            reason = f": {latest['reason']}" if latest["reason"] else ""
            parties = f", {counted(len(latest['parties']), 'party')}" if latest["parties"] else ""
            print(f"  round {latest['number']}: {latest['state']}{reason}{parties}")
        if job["metrics"] and (latest is None or job["metrics"]["round"] != latest["number"]):
            print(f"  metrics of round {job['metrics']['round']}: {metrics_text(job['metrics']['metrics'])}")
        for line in standing_lines(job):
            print(f"  {line}")
    return 0
