"""Whole rounds of `mpc3` over mutual TLS: every party and each of the three servers is a process.

    python -m experiments.mpc_network [--quick] [--out FOLDER]

What `mpc_tables` adds up from simulated work is measured here from the offer of a round to its end, with the
processes' memory. All processes share this machine, so that a round takes at least all work over its cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benches import rounds
from benches.rows import number
from blindsum.cli import console
from experiments import output, thesis
from experiments.three_servers import ADVERSARIES, Case

ROUNDS = 5
"""That count, of each job; one more warms up."""
PATIENCE = 600.0
"""Seconds that a stage may take."""
SERVERS = ("coordinator", "second", "third")


@dataclass(frozen=True)
class Measured:
    """A round of processes."""

    case: Case
    cost: rounds.RoundCost

    @property
    def row(self) -> dict[str, Any]:
        """For a CSV file; memory in bytes, 0 if the system does not say."""
        return {
            "rule": self.case.rule,
            "adversary": self.case.adversary,
            "parties": self.case.parties,
            "dim": self.case.dim,
            "bits": self.case.bits,
            "rounds": self.cost.rounds,
            "seconds": self.cost.seconds,
            "fastest_s": self.cost.fastest,
            **{f"{name}_s": seconds for name, seconds in self.cost.stages.items()},
            "up_bytes": self.cost.up_bytes,
            "down_bytes": self.cost.down_bytes,
            "tls_alone_s": self.cost.raw.seconds,
            **{f"{name}_memory": self.cost.most_bytes.get(name, 0) for name in SERVERS},
        }


def cases(quick: bool) -> list[Case]:
    """FedAvg of the thesis' clients and of its smallest model, and FLTrust of a shorter vector."""
    parties = 4 if quick else thesis.CLIENTS
    fedavg, fltrust = (200, 20) if quick else (thesis.MODELS[thesis.BASELINE], 100_000)
    dims = {"fedavg": fedavg, "fltrust": fltrust}
    return [Case(rule, adversary, parties, dim) for rule, dim in dims.items() for adversary in ADVERSARIES]


def measured(case: Case, count: int) -> Measured:
    """Run so many rounds of a case, after one that warms up."""
    job = case.spec.replace(rounds=count + 1, model_update="none")
    job = job.replace(stage_deadline=PATIENCE, input_deadline=PATIENCE, join_deadline=PATIENCE)
    return Measured(case, rounds.measure(job, lambda _status: None))


def table(found: Sequence[Measured]) -> str:
    """A row for each case."""
    header = ["rule", "adversary", "parties", "D", "round, s", "fastest, s", "TLS alone, s"]
    header += ["a party sends, MB", "is sent, MB", "memory of the servers, MB"]
    rows = []
    for one in found:
        cost, memory = one.cost, [one.row[f"{name}_memory"] / 1e6 for name in SERVERS]
        rows.append(
            [
                one.case.rule,
                one.case.adversary,
                f"{one.case.parties}",
                f"{one.case.dim:,}",
                *(number(value) for value in (cost.seconds, cost.fastest, cost.raw.seconds)),
                *(number(count / 1e6) for count in (cost.up_bytes, cost.down_bytes)),
                " / ".join(map(number, memory)),
            ]
        )
    return output.table(header, rows)


def reading(found: Sequence[Measured]) -> str:
    """What the thesis prints for the same round, and what stands beside it here."""
    ours = {one.case.adversary: one.cost for one in found if one.case.rule == "fedavg"}
    printed = "\n".join(
        f"* {adversary}: {number(phases.whole)} s in the thesis, {number(ours[adversary].seconds)} s here."
        for adversary, phases in thesis.PHASES.items()
    )
    return f"""\
## How to read it

A round begins with its offer to connected parties and ends when its result is there. "TLS alone" moves as
many bytes between one coordinator and all parties, without a protocol. Seconds are the median of
{found[0].cost.rounds} rounds after one that warms up. Memory is the most that the process has ever held.

A round of FedAvg with {thesis.CLIENTS} clients and {thesis.BASELINE}, on 24 cores there and on those named
above here:

{printed}"""


def main(words: Sequence[str] | None = None) -> None:
    """Measure and write."""
    options = output.options(words, "mpc_network", "Rounds of mpc3 over mutual TLS.")
    found = []
    todo = cases(options.quick)
    with console.progress("rounds of processes", len(todo)) as bar:
        for done, case in enumerate(todo):
            bar.update(done, f"{case.rule}, {case.adversary}, n = {case.parties}, D = {case.dim:,}")
            found.append(measured(case, 1 if options.quick else ROUNDS))
    output.write_csv(options, "mpc-network.csv", [one.row for one in found])
    parts = [table(found)] if options.quick else [table(found), reading(found)]
    output.write_page(options, "mpc-network.md", "Three servers over mutual TLS", parts)


if __name__ == "__main__":
    main()
