"""Table I of the PSS thesis: a whole round of 40 and of 100 parties, by state.

    python -m experiments.pss_rounds [--quick] [--out FOLDER]

Every party and the coordinator is a process of its own, as in the thesis, with mutual TLS between them; and
once more all in one process, which gives the work without the waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import blindsum as bs
from benches import rounds
from benches.rows import number
from blindsum.cli import console
from blindsum.simulation_result import SimulationResult
from experiments import output

STATES = ("Handshake", "Key Exchange", "Input Sharing", "Shares Collection", "Aggregation")
STAGES = ("advertise-keys", "share-vector", "aggregate")
ROUNDS = 5


@dataclass(frozen=True)
class Printed:
    """Milliseconds of the thesis' table by state, and its total."""

    parties: int
    inputs: int
    client: Sequence[float]
    client_total: float
    server: Sequence[float]
    server_total: float


THESIS = (
    Printed(40, 200, (62.525, 2785.85, 436.575, 410.55, 43.6), 3782.7, (410, 500, 4533, 423, 46), 5912),
    Printed(40, 600, (55.0, 2762.125, 790.8, 657.2, 61.225), 4387.57, (413, 560, 4892, 642, 6658), 13165),
    Printed(
        40, 1000, (56.875, 2841.575, 1372.825, 1022.525, 60.55), 5414.9, (413, 597, 5422, 1019, 288), 7739
    ),
    Printed(
        100, 200, (28.79, 16446.39, 2093.33, 1990.78, 52.19), 20663.67, (1224, 1705, 28173, 1869, 331), 33302
    ),
    Printed(
        100, 600, (29.54, 16451.39, 3111.2, 2524.84, 57.15), 22231.27, (1199, 1759, 29165, 2248, 863), 35234
    ),
    Printed(
        100,
        1000,
        (30.17, 16372.33, 5163.57, 3784.2, 151.39),
        25653.05,
        (1227, 1735, 31472, 3572, 1921),
        39927,
    ),
)
QUICK = (Printed(4, 200, (0.0,) * 5, 0.0, (0.0,) * 5, 0.0),)


@dataclass(frozen=True)
class Measured:
    """Ours for one line of the table: work in one process, and seconds of a round of processes."""

    printed: Printed
    work: SimulationResult
    wall: rounds.RoundCost

    @property
    def between_s(self) -> float:
        """Seconds of a round of processes that are in no stage: its offer, and telling the result."""
        return self.wall.seconds - sum(self.wall.stages[name] for name in STAGES)

    @property
    def row(self) -> dict[str, Any]:
        """For a CSV file."""
        stages = {stage.name: stage for stage in self.work.stages}
        row: dict[str, Any] = {"parties": self.printed.parties, "inputs": self.printed.inputs}
        for name in STAGES:
            row[f"{name}_client_ms"] = stages[name].client_ms.median
            row[f"{name}_server_ms"] = stages[name].server_ms
            row[f"{name}_wall_ms"] = 1000 * self.wall.stages[name]
        row["between_stages_wall_ms"] = 1000 * self.between_s
        row["client_ms"], row["server_ms"] = self.work.client_ms.median, self.work.server_ms
        row["round_wall_ms"], row["fastest_round_wall_ms"] = (
            1000 * self.wall.seconds,
            1000 * self.wall.fastest,
        )
        row["up_bytes"], row["down_bytes"] = self.work.up_bytes_per_party, self.work.down_bytes_per_party
        return row


def spec(parties: int, inputs: int) -> bs.JobSpec:
    """The thesis' job: semi-honest, 64-bit inputs, keys of P-256."""
    return bs.JobSpec(
        protocol="pss",
        parties=parties,
        dim=inputs,
        adversary="semi-honest",
        encoding="fixed64",
        suite="p256",
        rounds=ROUNDS + 1,
        model_update="none",
        join_deadline=60.0 + 3 * parties,
        input_deadline=120.0,
        stage_deadline=120.0,
    )


def measure(printed: Printed, quick: bool) -> Measured:
    """Simulate the round, then run it with processes."""
    job = spec(printed.parties, printed.inputs)
    if quick:
        job = job.replace(rounds=2)
    results = [bs.simulate(job, seed=seed) for seed in range(1 if quick else 3)]
    if not all(result.exact for result in results):
        raise ArithmeticError(f"{printed.parties} parties: a wrong sum")
    best = min(results, key=lambda result: result.client_ms.median)
    return Measured(printed, best, rounds.measure(job, lambda _status: None))


def thesis_table() -> str:
    """The thesis' milliseconds."""
    rows = [
        [side, f"{printed.parties}", f"{printed.inputs:,}", *map(number, states), number(total)]
        for side in ("client", "server")
        for printed in THESIS
        for states, total in [_side(printed, side)]
    ]
    return output.table(["", "parties", "inputs", *STATES, "total"], rows)


def _side(printed: Printed, side: str) -> tuple[Sequence[float], float]:
    if side == "client":
        return printed.client, printed.client_total
    return printed.server, printed.server_total


def our_table(row_of: Sequence[Mapping[str, Any]]) -> str:
    """Ours: work of a party and of the server by stage, then the clock on the wall."""
    rows = []
    for kind, total in (("client", "client_ms"), ("server", "server_ms"), ("wall", "round_wall_ms")):
        title = {"client": "client, work", "server": "server, work", "wall": "round of processes, wall"}[kind]
        rows += [
            [
                title,
                f"{row['parties']}",
                f"{row['inputs']:,}",
                *[number(row[f"{name}_{kind}_ms"]) for name in STAGES],
                number(row["between_stages_wall_ms"]) if kind == "wall" else "–",
                number(row[total]),
            ]
            for row in row_of
        ]
    return output.table(["", "parties", "inputs", *STAGES, "between stages", "total"], rows)


def ratios(found: Sequence[Measured]) -> str:
    """The server's total of the thesis, which spans the protocol, against our round on the wall."""
    rows = []
    for one in found:
        ours = 1000 * one.wall.seconds
        totals = (one.printed.server_total, one.printed.server_total - one.printed.server[0])
        rows.append(
            [
                f"{one.printed.parties}",
                f"{one.printed.inputs:,}",
                *map(number, totals),
                number(ours),
                *(number(total / ours) for total in totals),
            ]
        )
    header = ["parties", "inputs", "thesis, server total, ms", "without Handshake", "our round, ms"]
    return output.table([*header, "ratio", "ratio without Handshake"], rows)


CORRESPONDENCE = (
    (
        "Handshake: connect, get a signing key from the server",
        "not in a round: connections and certificates are there before the first one, and stay",
    ),
    (
        "Key Exchange: publish a key, take everybody's, agree",
        "`advertise-keys` publishes; the agreements are in the party's `share-vector`, and most of it",
    ),
    ("Input Sharing: share, seal, send to the server", "`share-vector`"),
    (
        "Shares Collection: the server passes shares on, parties open them",
        "the server's part of it in `share-vector`, the party's in `aggregate`",
    ),
    ("Aggregation: add, send the sum of shares, rebuild", "`aggregate`"),
)

READING = """\
## How to read it

* The thesis' server waits in most of its states, as all its processes share one machine of 24 cores; its
  server's total is the time of the protocol. Ours to compare is the round of processes on the wall, on the
  few cores named above, with TLS, which the thesis does not have.
* The thesis takes keys of P-256, and so does this experiment; the default X25519 is several times faster.
  Inputs have 64 bits on both sides.
* A row of the thesis that stands apart, the server's Aggregation with 40 parties and 600 inputs (6,658 ms
  between 46 and 288), is as printed. Its client rows for the larger job are headed 1000 clients, its server
  rows 100; we read 100.
* A round that is measured here starts with its offer to connected parties and ends when the sum is there. Its
  Handshake is over by then, so that the ratio without the thesis' Handshake is the fair one. What is in no
  stage, "between stages", is the offer of the round, the answers to it, and telling the result.\
"""


def main(words: Sequence[str] | None = None) -> None:
    """Measure and write."""
    options = output.options(words, "pss_rounds", "Table I of the PSS thesis.", needs_timers=True)
    lines = QUICK if options.quick else THESIS
    found = []
    with console.progress("rounds", len(lines)) as bar:
        for done, printed in enumerate(lines):
            bar.update(done, f"{printed.parties} parties, {printed.inputs} inputs")
            found.append(measure(printed, options.quick))
    table = [one.row for one in found]
    output.write_csv(options, "pss-rounds.csv", table)
    parts = [
        "## Ours, milliseconds",
        our_table(table),
        f"Rounds of processes: the median of {found[0].wall.rounds}; work: the median of the parties.",
        "## The thesis, milliseconds",
        thesis_table(),
    ]
    if not options.quick:
        parts += ["## The whole", ratios(found)]
    parts += ["## How the states correspond", output.table(["state of the thesis", "here"], CORRESPONDENCE)]
    output.write_page(options, "pss-rounds.md", "PSS thesis, Table I: rounds", [*parts, READING])


if __name__ == "__main__":
    main()
