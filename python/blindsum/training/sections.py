"""What a report says in words and tables, part by part."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from blindsum.errors import ConfigError
from blindsum.spec import JobSpec
from blindsum.training import html
from blindsum.training.files import stage_sums
from blindsum.training.html import Card
from blindsum.training.record import TrainingRecord, TrainingRound
from blindsum.training.words import bytes_text, count_text, number_text, rounds_text, seconds_text

MAX_ROWS = 400
"""Rows of the table of lost parties; the files have all of them."""

NO_SPEC = "Not in this record: it was written by a version that did not keep it."

_MORE = {"accuracy", "auc", "f1", "precision", "recall"}
_LESS = {"loss", "error", "perplexity", "mae", "mse", "rmse"}

MAX_METRICS = 2
"""Metrics among the headline numbers."""


def headlines(record: TrainingRecord) -> str:
    """The numbers that a reader looks for first."""
    sums = [one for one in record.rounds if one.outcome == "sum"]
    without = len(record.rounds) - len(sums)
    found = [
        *(_metric(record, name) for name in record.measured[:MAX_METRICS]),
        Card(
            "Rounds with a sum",
            f"{len(sums)} of {len(record.rounds)}",
            f"{without} without" if without else "",
        ),
        _best(record),
        _parties(record),
        _time(record),
        _traffic(record),
        _exactness(record),
        _privacy(record),
    ]
    return html.cards(card for card in found if card is not None)


def _metric(record: TrainingRecord, name: str) -> Card | None:
    known = [
        (one, value)
        for one in record.rounds
        if (value := record.value(one, name)) is not None and math.isfinite(value)
    ]
    if not known:
        return None
    last, value = known[-1]
    said = []
    if name in _MORE | _LESS:
        best = record.best(name, "max" if name in _MORE else "min")
        said.append(f"best {number_text(record.value(best, name))} in round {best.number}")
    if (plain := last.plain_test.get(name)) is not None:
        said.append(f"plain FedAvg {number_text(plain)}")
    tested = any(name in one.test for one in record.rounds)
    kind = "test" if tested else "mean of the parties"
    return Card(f"{name}, {kind}, round {last.number}", number_text(value), "; ".join(said))


def _best(record: TrainingRecord) -> Card | None:
    """The model that the job's ``stop`` calls the best one, which is that before its round."""
    best = record.best_model
    if best is None:
        return None
    since = f"; {count_text(best.without_gain, 'round')} without a better one" if best.without_gain else ""
    said = f"model version {best.version}, measured in round {best.round}{since}"
    return Card(f"Best {best.metric}, mean of the parties", number_text(best.value), said)


def _parties(record: TrainingRecord) -> Card:
    lost = sum(len(one.lost) for one in record.rounds)
    sizes = [len(one.survivors) for one in record.rounds if one.outcome == "sum"]
    small = f"{min(sizes)} to {max(sizes)} in a sum; " if sizes else ""
    return Card("Parties", str(len(record.parties)), f"{small}{count_text(lost, 'dropout')}")


def _time(record: TrainingRecord) -> Card | None:
    times = [one.seconds for one in record.rounds]
    if not times:
        return None
    return Card(
        "Time in rounds",
        seconds_text(sum(times)),
        f"a round: {seconds_text(statistics.median(times))}, median",
    )


def _traffic(record: TrainingRecord) -> Card | None:
    up, down = sum(one.up for one in record.rounds), sum(one.down for one in record.rounds)
    if not up + down:
        return None
    return Card("Bytes", bytes_text(up + down), f"{bytes_text(up)} up, {bytes_text(down)} down")


def _exactness(record: TrainingRecord) -> Card | None:
    known = [one.deviation for one in record.rounds if one.deviation is not None]
    if not known:
        return None
    worst, bound = max(known), record.error_bound
    if bound is None:
        return Card("Largest deviation", f"{worst:.1e}", "from the mean in the clear")
    is_good = worst <= bound
    small = f"{'within' if is_good else 'MORE than'} the bound by quantisation, {bound:.1e}"
    return Card("Largest deviation", f"{worst:.1e}", small, is_good)


def _privacy(record: TrainingRecord) -> Card | None:
    known = [one.epsilon for one in record.rounds if one.epsilon is not None]
    return Card("Privacy spent", f"ε = {number_text(known[-1])}", "after the last round") if known else None


def strip_key(rows: Iterable[str]) -> str:
    """The meaning of the colours of the strip, those that are in one of its rows."""
    marks = set("".join(rows))
    meanings = (
        ("+", "in-sum", "in the sum"),
        ("-", "lost", "lost"),
        ("o", "no-sum", "no sum"),
        (".", "absent", "not in this round"),
    )
    inside = "".join(
        f'<li><i style="background:var(--{role})"></i>{text}</li>'
        for mark, role, text in meanings
        if mark in marks
    )
    return f'<ul class="key">{inside}</ul>'


def dropouts(record: TrainingRecord) -> str:
    """Who was lost, at which stage, why and when."""
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for one in record.rounds:
        for name, why in one.lost.items():
            found[name, one.lost_stages.get(name, ""), why].append(one.number)
    if not found:
        return html.paragraph("No party was lost.")
    often = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    rows = [[*what, len(numbers), rounds_text(numbers)] for what, numbers in often]
    more = len(rows) - MAX_ROWS
    note = f"And {more} further lines: the CSV file has all." if more > 0 else ""
    header = ["party", "stage", "reason", "rounds lost", "which"]
    inside = html.table(header, rows[:MAX_ROWS], numbers=[3])
    return html.card("Who was lost, and why", inside + html.paragraph(note))


def without_sum(record: TrainingRecord) -> str:
    """Rounds that ended without a sum, by their reasons."""
    found: dict[str, list[int]] = defaultdict(list)
    for one in record.rounds:
        if one.outcome == "abort":
            found[one.fault or "no reason is known"].append(one.number)
    if not found:
        return ""
    rows = [[reason, len(numbers), rounds_text(numbers)] for reason, numbers in found.items()]
    return html.card("Rounds without a sum", html.table(["reason", "rounds", "which"], rows, numbers=[1]))


def costs(record: TrainingRecord) -> str:
    """What each stage cost on average, and the key set-ups."""
    rows = list(_stage_rows(record.rounds))
    if record.key_setups:
        rows += [[f"key set-up: {row[0]}", *row[1:]] for row in _stage_rows(record.key_setups)]
    if not rows:
        return ""
    header = ["stage", "rounds", "median time", "longest", "up per round", "down per round"]
    return html.card("What each stage cost", html.table(header, rows, numbers=range(1, 6)))


def _stage_rows(rounds: tuple[TrainingRound, ...]) -> Iterator[list[object]]:
    found = defaultdict(list)
    for one in rounds:
        for name, stage in stage_sums(one).items():
            found[name].append(stage)
    for name, stages in found.items():
        times = [stage.seconds for stage in stages]
        yield [
            name,
            len(stages),
            seconds_text(statistics.median(times)),
            seconds_text(max(times)),
            bytes_text(sum(stage.up for stage in stages) / len(stages)),
            bytes_text(sum(stage.down for stage in stages) / len(stages)),
        ]


def the_job(record: TrainingRecord) -> str:
    """The specification and the hyperparameters."""
    agreed = list(_flat(_told(record.spec)))
    spec = html.pairs(agreed) if agreed else html.paragraph(NO_SPEC)
    chosen = list(_flat(record.parameters))
    parameters = html.card("Hyperparameters", html.pairs(chosen)) if chosen else ""
    return html.grid(html.card("Job specification", spec), parameters)


def _told(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as people read it: metrics with their ranges, and what a 0 stands for."""
    try:
        job = JobSpec.from_dict(spec)
    except (ConfigError, TypeError):
        # A record of another version: it is told as it is.
        quorum, chosen = None, dict.fromkeys(_CHOSEN)
    else:
        quorum, chosen = job.quorum, dict[str, int | None](job.chosen)
    told = dict(spec)
    if isinstance(metrics := spec.get("metrics"), list | tuple):
        told["metrics"] = [_metric_text(one) for one in metrics]
    if spec.get("min_parties") == 0:
        everybody = quorum is not None and quorum == spec.get("parties")
        told["min_parties"] = "all parties (chosen)" if everybody else _chosen(quorum, spec.get("parties"))
    if spec.get("rounds") == 0:
        told["rounds"] = "until the job is stopped"
    if isinstance(protocol := spec.get("protocol"), Mapping):
        told["protocol"] = {
            name: _chosen(chosen[name]) if value == 0 and name in chosen else value
            for name, value in protocol.items()
        }
    return told


_CHOSEN = ("neighbours", "threshold", "packing")
"""Options of protocols that are chosen where they are 0."""


def _chosen(value: int | None, of: object = None) -> str:
    """What the job left open."""
    if value is None:
        return "chosen by the protocol"
    return f"{value} (chosen)" if of is None else f"{value} of {of} (chosen)"


def _metric_text(metric: object) -> str:
    """A metric with its range."""
    match metric:
        case {"name": str(name), "low": int() | float() as low, "high": int() | float() as high}:
            return f"{name} ({low:g} to {high:g})"
    return str(metric)


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    """Tables in tables as names with dots. Empty values are left out."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value not in (None, "", [], ()):
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            yield f"{before}{name}", text


def all_rounds(record: TrainingRecord) -> str:
    """Every round as a row: the numbers behind the charts."""
    names = record.measured
    tested = [name for name in names if any(name in one.test for one in record.rounds)]
    plain = [name for name in names if any(name in one.plain_test for one in record.rounds)]
    metrics = [name for name in names if any(name in one.metrics for one in record.rounds)]
    has_clipping = any(one.clipped is not None for one in record.rounds)
    has_deviation = any(one.deviation is not None for one in record.rounds)
    has_privacy = any(one.epsilon is not None for one in record.rounds)
    header = [
        *("round", "outcome", "in the sum", "lost"),
        *(f"{name}, test" for name in tested),
        *(f"{name}, plain FedAvg" for name in plain),
        *(f"{name}, parties" for name in metrics),
        *("time", "up", "down"),
        *(["clipped"] if has_clipping else []),
        *(["deviation"] if has_deviation else []),
        *(["ε"] if has_privacy else []),
    ]
    rows = [
        [
            *(one.number, one.outcome, len(one.survivors), len(one.lost)),
            *(number_text(one.test.get(name)) for name in tested),
            *(number_text(one.plain_test.get(name)) for name in plain),
            *(number_text(one.metrics.get(name)) for name in metrics),
            *(seconds_text(one.seconds), bytes_text(one.up), bytes_text(one.down)),
            *(["" if one.clipped is None else one.clipped] if has_clipping else []),
            *([number_text(one.deviation)] if has_deviation else []),
            *([number_text(one.epsilon)] if has_privacy else []),
        ]
        for one in record.rounds
    ]
    numbers = [place for place in range(len(header)) if place != 1]
    return html.folded(
        f"{count_text(len(rows), 'round')} as a table", html.table(header, rows, numbers=numbers, kind="wide")
    )


def how_made(record: TrainingRecord, command: str | None) -> str:
    """The command, and where the numbers come from."""
    code = f"<pre><code>{escape(command)}</code></pre>" if command else ""
    return html.card("How this was made", code + html.pairs(_flat(record.origin)))
