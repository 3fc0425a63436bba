"""The tables of ``blindsum bench flashe``, for a terminal and for a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from dataclasses import dataclass, field

from benches.flashe import KEPT, MODELS, NUMBERS, SETS, SWEEP_DIM, TIMED, Measured, SweepPoint
from benches.he.measure import CIPHERTEXTS, HeCost
from benches.rows import HEADER, number
from blindsum.cli.console import markdown_table

PAPER = {
    "Paillier": ((8.0 * 2**20, 20.02, 11.52, 5.41), (128 * 2**20, 317.62, 182.58, 86.58)),
    "Paillier, batched": ((96.51 * 2**10, 0.46, 0.37, 0.06), (1.51 * 2**20, 4.02, 2.44, 1.01)),
    "FV": ((513.09 * 2**20, 30.18, 29.23, 6.50), (8.02 * 2**30, 479.22, 450.18, None)),
    "FV, batched": ((2**20, 1.15, 1.14, 0.01), (16 * 2**20, 1.66, 1.68, 0.18)),
    "CKKS": ((6.60 * 2**30, 66.74, 45.93, 187.28), None),
    "CKKS, batched": ((1.65 * 2**20, 0.02, 0.01, 0.05), (26.4 * 2**20, 0.29, 0.20, 0.87)),
    "FLASHE": ((40.02 * 2**10, 0.17, 0.18, 0.01), (640.02 * 2**10, 0.20, 0.20, 0.11)),
}
"""Printed in Table 2 of FLASHE for the fewest and the most numbers, on 16 virtual cores: bytes, seconds to
encrypt, decrypt and add. ``None``: out of memory."""


@dataclass(frozen=True)
class Table:
    """A table with a title and what must be known to read it.

    Attributes
    ----------
    title, header, rows, note
        What is shown.
    file : str
        Where the table is too long for a page: the CSV file beside the page that has all of its rows.
    few : list of list of str
        The rows that the page shows then.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""
    file: str = ""
    few: list[list[str]] = field(default_factory=list)

    @property
    def markdown(self) -> str:
        """As a section of a page."""
        every = f"[{self.file}]({self.file}) has all {len(self.rows)} rows." if self.file else ""
        note = " ".join(part for part in (self.note, every) if part)
        rows = self.few if self.file else self.rows
        return "\n\n".join([f"## {self.title}", *([note] if note else []), markdown_table(self.header, rows)])

    @property
    def csv(self) -> str:
        """Every row, as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()


def tables(found: Measured) -> list[Table]:
    """All that there is to show.

    Parameters
    ----------
    found
        Parts that were not measured are left out.
    """
    notes = "\n".join(f"* {row.work}: {row.note}." for row in found.rows if row.note)
    made = [Table("Targets", HEADER[:-1], [row.cells[:-1] for row in found.rows], notes)]
    made += [_costs(numbers, found) for numbers in NUMBERS]
    made += [_printed(), _masks(found), _dropout(found), _ahead(found)]
    made += [_sparse(found), _sparse_work(found), _sparse_jobs(found)]
    return [table for table in made if table.rows]


def _bytes(count: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{number(count / size)} {unit}"
    return f"{number(count)} B"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "out of memory"
    return f"{number(seconds)} s" if seconds >= 1 else f"{number(1000 * seconds)} ms"


def _costs(numbers: int, found: Measured) -> Table:
    """Table 2 of the paper for one length; the first line is ours, the others are divided by it."""
    costs = [cost for cost in found.costs if cost.numbers == numbers]
    header = ["", "ciphertext", "encrypt", "decrypt", "add 10", "bytes ÷ ours", "encrypt ÷ ours"]
    return Table(
        f"{numbers:,} numbers",
        header,
        [_cost_cells(cost, costs[0]) for cost in costs],
        f"Times marked ~ are those of {CIPHERTEXTS} ciphertexts, multiplied." if _parts(costs) else "",
    )


def _parts(costs: list[HeCost]) -> bool:
    return any(cost.extrapolated for cost in costs)


def _cost_cells(cost: HeCost, ours: HeCost) -> list[str]:
    about = "~ " if cost.extrapolated else ""
    return [
        cost.scheme,
        about + _bytes(cost.ciphertext_bytes),
        *[about + _time(seconds) for seconds in (cost.encrypt_s, cost.decrypt_s, cost.add_s)],
        _ratio(cost.ciphertext_bytes / ours.ciphertext_bytes),
        _ratio(cost.encrypt_s / ours.encrypt_s),
    ]


def _ratio(value: float) -> str:
    """Three digits that matter, and no more where a number is large."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else number(value)


def _printed() -> Table:
    rows = []
    for name, lines in PAPER.items():
        for numbers, line in zip((NUMBERS[0], NUMBERS[-1]), lines, strict=True):
            cells = ["out of memory"] * 4 if line is None else [_bytes(line[0]), *map(_time, line[1:])]
            rows.append([name, f"{numbers:,}", *cells])
    note = "A c5.4xlarge instance with 16 virtual cores; what is above was measured on one core."
    header = ["", "numbers", "ciphertext", "encrypt", "decrypt", "add 10"]
    return Table("Table 2 as the paper prints it", header, rows, note)


def _masks(found: Measured) -> Table:
    rows = [
        [
            f"{point.parties}",
            f"{point.survivors}",
            number(point.double_masks),
            number(point.double_expected),
            number(point.single_masks),
            number(point.single_expected),
        ]
        for point in found.sweep
    ]
    header = [
        "n",
        "survivors",
        "double, counted",
        "double, Theorem 2",
        "single, counted",
        "single, Theorem 2",
    ]
    note = f"Masks that a survivor computes for each word, mean of {SETS} random sets of survivors."
    if found.sweep:
        apart = max(abs(point.double_masks / point.double_expected - 1) for point in found.sweep)
        note += f" With double masking they are at most {apart:.0%} away from those of the theorem."
    few = _few(found, rows, (0, 0.1, 0.5))
    return Table("Masks, counted and by Theorem 2", header, rows, note, "flashe-masks.csv", few)


def _lost(point: SweepPoint) -> str:
    """The part of the parties that is lost."""
    return f"{1 - point.survivors / point.parties:.2g}"


def _few(found: Measured, rows: list[list[str]], dropouts: Collection[float]) -> list[list[str]]:
    """The rows of the sweep with these dropouts."""
    named = {f"{dropout:.2g}" for dropout in dropouts}
    return [row for point, row in zip(found.sweep, rows, strict=True) if _lost(point) in named]


def _turns(found: Measured) -> str:
    """From which dropout on single masking is the faster one, for each number of parties."""
    first: dict[int, str] = {}
    for point in sorted(found.sweep, key=lambda point: -point.survivors):
        if point.single_ms < point.double_ms:
            first.setdefault(point.parties, _lost(point))
    turns = [f"{dropout} ({parties} parties)" for parties, dropout in sorted(first.items())]
    return f"Single masking is the faster one from these dropouts on: {', '.join(turns)}." if turns else ""


def _dropout(found: Measured) -> Table:
    rows = [
        [
            f"{point.parties}",
            _lost(point),
            number(point.double_ms),
            number(point.single_ms),
            "double" if point.double_ms <= point.single_ms else "single",
            "double" if point.double_expected <= point.single_expected else "single",
        ]
        for point in found.sweep
    ]
    header = ["n", "dropout", "double, ms", "single, ms", "faster", "fewer masks"]
    note = (
        f"Encryption and decryption of {SWEEP_DIM:,} values of 16 bits, one core; the median of {TIMED} "
        'random sets of survivors. `masking = "cheaper"` chooses by Theorem 2 and the dropout of the job. '
        + _turns(found)
    )
    title = "Dropout, double against single masking (Figure 12)"
    return Table(
        title, header, rows, note.rstrip(), "flashe-dropout.csv", _few(found, rows, (0, 0.1, 0.4, 0.5))
    )


def _ahead(found: Measured) -> Table:
    rows = [
        [
            f"{ahead.model}, {ahead.parameters:,}",
            f"{ahead.lost}",
            number(ahead.encrypt_ms),
            number(ahead.encrypt_ahead_ms),
            number(ahead.decrypt_ms),
            number(ahead.decrypt_ahead_ms),
        ]
        for ahead in found.ahead
    ]
    header = ["", "lost", "encrypt, ms", "masks ahead", "decrypt, ms", "masks ahead"]
    note = (
        "Ten parties, one core. Masks are computed ahead for a round that nobody drops out of; where two do, "
        "decryption computes the masks that are missing."
    )
    return Table("Masks computed ahead (Figure 13)", header, rows, note)


def _sparse(found: Measured) -> Table:
    rows = [
        [
            f"{line.model}, {line.parameters:,}",
            *map(_bytes, (line.dense_bytes, line.mask_bytes, line.plain_bytes, line.flashe_bytes)),
            "not measured" if line.paillier_bytes is None else _bytes(line.paillier_bytes),
            f"{line.flashe_bytes - line.plain_bytes} B",
            _bytes(line.sum_bytes),
        ]
        for line in found.sparse
    ]
    header = [
        f"{KEPT:.0%} of",
        "dense, plain",
        "mask",
        "sparse, plain (computed)",
        "sparse, FLASHE",
        "sparse, Paillier (computed)",
        "FLASHE − plain",
        "sum, FLASHE",
    ]
    note = (
        f"What a party sends of the paper's {len(MODELS)} models: the mask, and words of 20 bits, or "
        "ciphertexts with one number each, since those of different coordinates cannot be batched. Ten "
        "parties keep coordinates at random; the sum that they are sent has what anybody kept. The paper's "
        "text says that a tenth of the coordinates takes a fifth of the bytes in the clear, the same with "
        "FLASHE, and up to 48 times that with Paillier. Computed columns are bytes by arithmetic: "
        "`plain` has no sparse rounds, and sparse vectors under Paillier were not encrypted."
    )
    return Table("Sparse traffic (Figure 11)", header, rows, note)


def _sparse_work(found: Measured) -> Table:
    rows = [
        [
            f"{line.model}, {line.kept:,}",
            f"{line.double_masks:,.0f}",
            f"{line.single_masks:,.0f}",
            *map(number, (line.permute_ms, line.encrypt_ms, line.add_ms, line.decrypt_ms)),
        ]
        for line in found.sparse
    ]
    header = [
        "",
        "masks, double",
        "masks, single",
        "permute, ms",
        "encrypt, ms",
        "add 10, ms",
        "decrypt, ms",
    ]
    note = (
        "The same vectors, one core. Masks of single words that a party computes, counted exactly; times are "
        "those of the scheme with fewer."
    )
    return Table("Sparse vectors: masks and work", header, rows, note)


def _sparse_jobs(found: Measured) -> Table:
    rows = []
    for job in found.jobs:
        cost, plain, dense = job.cost, found.jobs[0].cost, found.jobs[1].cost
        what = "dense" if job.density == 1 else f"{job.density:.2g}"
        rows.append(
            [
                f"{cost.protocol}, {what}",
                number(1000 * cost.fastest),
                number(1000 * cost.seconds),
                *(number(cost.fastest / other.fastest) for other in (plain, dense)),
                " + ".join(number(1000 * seconds) for seconds in cost.stages.values()),
                _bytes(cost.up_bytes),
                number(cost.up_bytes / plain.up_bytes),
                _bytes(cost.down_bytes),
                number(cost.down_bytes / plain.down_bytes),
            ]
        )
    header = [
        "density",
        "fastest, ms",
        "median, ms",
        "÷ plain",
        "÷ dense",
        "stages, ms",
        "up",
        "÷ plain",
        "down",
        "÷ plain",
    ]
    note = ""
    if found.jobs:
        cost = found.jobs[0].cost
        note = (
            f"{cost.parties} processes × {cost.dim:,} coordinates and a coordinator share the machine, with "
            "mutual TLS on the loopback interface; bytes are those of one party in a round, TLS and HTTP/2 "
            "included. A party is sent everybody's sets of coordinates, and the words that anybody sent. "
            "Updates are random, so that sets overlap by chance only; more overlap means fewer words."
        )
    return Table("Sparse rounds over processes (Figure 11, end to end)", header, rows, note)
