"""``blindsum ledger``: what a party's data has cost in jobs with noise."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import TYPE_CHECKING

from blindsum.cli.files import named
from blindsum.cli.flags import named_as_flags
from blindsum.texts import counted

if TYPE_CHECKING:
    from blindsum.ledgers import PrivacyLedger

EXAMPLES = """\
examples:
  blindsum ledger state
  blindsum ledger state --unit ward-3 --delta 1e-6 --json
  blindsum ledger state --witness /other/disk/witness

A party with --state-dir charges every update of a job with noise to a ledger in that folder, before the
update leaves. The ledger counts all jobs and all coordinators of that folder. With `--policy max_epsilon=8
--policy max_delta=1e-5`, `blindsum join` takes part in no round that would make it more.

exit status: 0 the ledgers are as they were written, 1 one is damaged or older than its witness, 2 wrong
arguments
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Show what a party's data has cost in all jobs with noise."
    parser.epilog = EXAMPLES
    parser.add_argument("state_dir", type=named, metavar="DIR", help="the --state-dir of the party")
    parser.add_argument("--unit", metavar="NAME", help="the privacy_unit of its policy (default: all)")
    parser.add_argument("--delta", type=float, default=1e-5, metavar="D", help="delta (default: 1e-5)")
    parser.add_argument("--witness", type=named, metavar="FILE", help="its --ledger-witness, to verify it")
    parser.add_argument("--json", action="store_true", help="print JSON, one ledger a line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the ledgers."""
    from blindsum.errors import ConfigError
    from blindsum.ledgers import ledger_units, privacy_ledger

    with named_as_flags("unit", "delta", "witness", state_dir="DIR"):
        units = ledger_units(options.state_dir)
        if options.unit is not None:
            units = [options.unit]
        if not units:
            rule = "has no ledger: no job with noise has had an update of its party"
            raise ConfigError("state_dir", f"{options.state_dir} {rule}")
        if options.witness is not None and len(units) > 1:
            raise ConfigError("witness", "is of one ledger: say which by --unit")
        for unit in units:
            _show(
                privacy_ledger(options.state_dir, unit, delta=options.delta, witness=options.witness),
                options.json,
            )
    return 0


def _show(ledger: PrivacyLedger, as_json: bool) -> None:
    if as_json:
        releases = [
            {
                "job_hash": one.job_hash,
                "round": one.round,
                "time": one.time.isoformat(),
                "honest": one.honest,
            }
            for one in ledger.releases
        ]
        found = {"unit": ledger.unit, "delta": ledger.delta, "epsilon": ledger.epsilon, "releases": releases}
        print(json.dumps(found))
        return
    after = counted(len(ledger.releases), "release")
    print(f"{ledger.unit}: epsilon {ledger.epsilon:.4g} at delta {ledger.delta:g} after {after}")
    for job, number in Counter(one.job_hash for one in ledger.releases).items():
        times = [one.time for one in ledger.releases if one.job_hash == job]
        days = f"{min(times):%Y-%m-%d} to {max(times):%Y-%m-%d}"
        print(f"  job {job[:12]}: {counted(number, 'release')}, {days}")
