"""The charts of a report, as plain data for Plotly; the page gives them their colours.

Every trace has a ``role``: the name of its colour in ``page.css``. Names of parties, metrics and stages are
escaped here, since Plotly reads tags in its texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from blindsum.training.files import stage_sums
from blindsum.training.record import TrainingRecord, TrainingRound
from blindsum.training.words import UNITS, bytes_text, bytes_unit, count_text, number_text, seconds_text

FEW_ROUNDS = 120
"""So many rounds have bars and markers; more have areas and lines, which a browser draws faster."""

PALETTE = 8
"""Colours of stages; further stages begin again."""

MAX_LABEL = 26
"""Letters of a party's name beside the strip; the whole name is shown under the pointer."""

MAX_LABELS = 30
"""Names beside the strip; of more parties every second or third."""

HEIGHT = 300
"""Of a chart, in pixels."""

Trace = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One chart.

    Attributes
    ----------
    name : str
        Its name in the page.
    title : str
        What it shows.
    summary : str
        The same with its numbers, for whoever cannot see it.
    note : str
        What a reader should know about it.
    traces : list of dict
        Traces of Plotly.
    layout : dict
        Layout of Plotly, beside what all charts have in common.
    strip : dict or None
        The parties of the strip, from which the page makes the one trace.
    """

    name: str
    title: str
    summary: str
    note: str
    traces: list[Trace]
    layout: dict[str, Any]
    strip: dict[str, Any] | None = field(default=None)

    @property
    def height(self) -> int:
        """Its height, in pixels."""
        return int(self.layout.get("height", HEIGHT))

    def data(self) -> dict[str, Any]:
        """What the page draws."""
        layout = self.layout | {"height": self.height}
        return {"name": self.name, "traces": self.traces, "layout": layout, "strip": self.strip}


def metric_figures(record: TrainingRecord) -> list[Figure]:
    """A chart for each metric: of the parties, of the caller's evaluation, of plain FedAvg."""
    return [_metric(record, name, place) for place, name in enumerate(record.measured)]


def _metric(record: TrainingRecord, name: str, place: int) -> Figure:
    kinds = (
        ("test", "test, after the round", [one.test.get(name) for one in record.rounds]),
        ("parties", "parties, before the round", [one.metrics.get(name) for one in record.rounds]),
        ("plain", "test, plain FedAvg", [one.plain_test.get(name) for one in record.rounds]),
    )
    traces, said, not_finite = [], [], 0
    for role, text, values in kinds:
        finite = [_finite(value) for value in values]
        not_finite += sum(value is not None for value in values) - sum(value is not None for value in finite)
        if not any(value is not None for value in finite):
            continue
        trace = _line(record, role, text, finite)
        trace["hovertemplate"] = "%{y:.4g}"
        if role == "plain":
            # It lies on the line of the test where the sum is as good: that is seen through its gaps.
            trace |= {"line": {"dash": "dash", "width": 1.5}}
            trace["mode"] = "lines" if len(record.rounds) > 1 else "markers"
        if role == "parties" and any(one.reported.get(name, 1.0) < 1 for one in record.rounds):
            trace["customdata"] = [one.reported.get(name) for one in record.rounds]
            trace["hovertemplate"] = "%{y:.4g}, by %{customdata:.0%} of the weight"
        traces.append(trace)
        said.append(f"{text}: {_course(record.rounds, finite)}")
    note = f"{not_finite} values are not finite and have no point." if not_finite else ""
    layout = {"yaxis": {"title": {"text": _label(name)}}}
    return Figure(
        f"metric-{place}",
        name,
        f"{name} by round. {'. '.join(said) or 'No round has a value'}.",
        note,
        [*traces, *_without_sum(record)],
        layout,
    )


def _course(rounds: Sequence[TrainingRound], values: Sequence[float | None]) -> str:
    """The first, the last, the smallest and the largest value, in words."""
    known = [(value, one.number) for one, value in zip(rounds, values, strict=True) if value is not None]
    (first, begin), (last, end) = known[0], known[-1]
    low, high = min(known), max(known)
    return (
        f"{number_text(first)} in round {begin}, {number_text(last)} in round {end}, "
        f"least {number_text(low[0])} in round {low[1]}, most {number_text(high[0])} in round {high[1]}"
    )


def _without_sum(record: TrainingRecord) -> list[Trace]:
    """Bands at the rounds that ended without a sum; the strip and a table have their reasons."""
    lost = [one for one in record.rounds if one.outcome == "abort"]
    if not lost:
        return []
    band = {
        "type": "bar",
        "role": "no-sum",
        "name": "no sum",
        "x": [one.number for one in lost],
        "y": [1] * len(lost),
        "width": 1,
        "yaxis": "y2",
        "opacity": 0.35,
        "hoverinfo": "skip",
    }
    return [band]


def time_figure(record: TrainingRecord) -> Figure:
    """Seconds of each stage in each round, on top of each other."""
    sums = [stage_sums(one) for one in record.rounds]
    names = list(dict.fromkeys(name for one in sums for name in one))
    rest = [
        max(0.0, one.seconds - sum(stage.seconds for stage in found.values()))
        for one, found in zip(record.rounds, sums, strict=True)
    ]
    parts = [(name, [one[name].seconds if name in one else 0.0 for one in sums]) for name in names]
    traces = [
        _stacked(record, f"stage-{place % PALETTE}", name, values)
        for place, (name, values) in enumerate(parts)
    ]
    if any(value > 1e-3 for value in rest):
        parts.append(("joining, and between stages", rest))
        traces.append(_stacked(record, "plain", *parts[-1]))
    for trace in traces:
        trace["hovertemplate"] = "%{y:.3~g} s"
    whole = sum(one.seconds for one in record.rounds)
    shares = [f"{name} {sum(values) / whole:.0%}" for name, values in parts if whole > 0]
    return Figure(
        "time",
        "Time by stage",
        f"Seconds of each round by stage, {seconds_text(whole)} together: {', '.join(shares)}.",
        "A stage lasts until its slowest answer that counts. Parties train in the stage of the updates.",
        traces,
        {"barmode": "stack", "yaxis": {"title": {"text": "seconds"}, "rangemode": "tozero"}},
    )


def bytes_figure(record: TrainingRecord) -> Figure:
    """Bytes up and down in each round."""
    up, down = [one.up for one in record.rounds], [one.down for one in record.rounds]
    unit = bytes_unit(max([*up, *down], default=0))
    size = 1024 ** UNITS.index(unit)
    traces = []
    for role, text, counts in (("up", "up, from all parties", up), ("down", "down, to all parties", down)):
        scaled = [count / size for count in counts]
        few = len(record.rounds) <= FEW_ROUNDS
        trace = _bars(record, role, text, scaled) if few else _line(record, role, text, scaled)
        trace["hovertemplate"] = f"%{{y:.4~g}} {unit}"
        traces.append(trace)
    summary = f"Bytes of each round. Together {bytes_text(sum(up))} up and {bytes_text(sum(down))} down."
    note = "Protocol messages of all parties together, without TLS and HTTP/2 around them."
    layout = {"barmode": "group", "yaxis": {"title": {"text": unit}, "rangemode": "tozero"}}
    return Figure("bytes", "Bytes", summary, note, traces, layout)


def deviation_figure(record: TrainingRecord) -> Figure | None:
    """How far means are from those in the clear, beside the bound by quantisation."""
    values = [_finite(one.deviation) for one in record.rounds]
    known = [value for value in values if value is not None]
    if not known:
        return None
    trace = _line(record, "test", "largest deviation of the mean", values)
    trace |= {"hovertemplate": "%{y:.2e}", "mode": "markers" if len(known) <= FEW_ROUNDS else "lines"}
    traces = [trace]
    said = f"Largest deviation {max(known):.2e}"
    if record.error_bound is not None:
        bound = _line(record, "plain", "bound by quantisation", [record.error_bound] * len(record.rounds))
        traces.append(bound | {"mode": "lines", "line": {"dash": "dash"}, "hovertemplate": "%{y:.2e}"})
        said += f", allowed {record.error_bound:.2e}"
    layout = {
        "yaxis": {
            "type": "log",
            "title": {"text": "largest difference"},
            "exponentformat": "power",
            "dtick": 1,
        }
    }
    zeros = sum(value == 0 for value in known)
    note = f"{zeros} rounds have no deviation at all and no point on this logarithmic scale." if zeros else ""
    return Figure("deviation", "Deviation from the mean in the clear", f"{said}.", note, traces, layout)


def clipping_figure(record: TrainingRecord) -> Figure | None:
    """Coordinates that clipping cut off."""
    counts = [one.clipped for one in record.rounds]
    known = [count for count in counts if count is not None]
    if not known:
        return None
    draw = _bars if len(counts) <= FEW_ROUNDS else _line
    trace = draw(record, "parties", "coordinates cut off", counts) | {"hovertemplate": "%{y}"}
    layout = {"yaxis": {"title": {"text": "coordinates"}, "rangemode": "tozero"}}
    said = f"Coordinates that clipping cut off, {sum(known)} together, at most {max(known)} in a round."
    return Figure("clipping", "Clipping", said, "Of all survivors together.", [trace], layout)


def privacy_figure(record: TrainingRecord) -> Figure | None:
    """The privacy that is spent."""
    values = [_finite(one.epsilon) for one in record.rounds]
    if not any(value is not None for value in values):
        return None
    trace = _line(record, "test", "ε spent", values) | {"hovertemplate": "%{y:.4g}"}
    layout = {"yaxis": {"title": {"text": "ε"}, "rangemode": "tozero"}}
    said = f"Privacy spent, ε: {_course(record.rounds, values)}."
    return Figure(
        "privacy", "Privacy spent (ε)", said, "After each round; smaller is more private.", [trace], layout
    )


def strip_figure(record: TrainingRecord) -> Figure:
    """Who was in the sum of which round, who was lost: a row a party, a column a round."""
    parties = record.parties
    rank = {name: place for place, name in enumerate(parties)}
    rows = [bytearray(b"." * len(record.rounds)) for _ in parties]
    reasons: dict[str, int] = {}
    lost: list[list[tuple[int, int]]] = [[] for _ in parties]
    for place, one in enumerate(record.rounds):
        # Where the roster is not known, a round without a sum was one of all others, too.
        without = () if one.outcome == "sum" else (one.roster or parties)
        for mark, names in ((b"o", without), (b"+", one.survivors), (b"-", one.lost)):
            for name in names:
                rows[rank[name]][place] = mark[0]
        for name, why in one.lost_words.items():
            number = reasons.setdefault(_label(why, 160), len(reasons))
            lost[rank[name]].append((place, number))
    strip = {
        "parties": [_label(name, 64) for name in parties],
        "rounds": [one.number for one in record.rounds],
        "rows": [row.decode() for row in rows],
        "lost": lost,
        "reasons": list(reasons),
        "faults": {str(one.number): _label(one.fault, 160) for one in record.rounds if one.fault},
    }
    every = max(1, math.ceil(len(parties) / MAX_LABELS))
    shown = range(0, len(parties), every)
    layout = {
        "height": min(max(18 * len(parties) + 90, 150), 640),
        "hovermode": "closest",
        "yaxis": {
            "autorange": "reversed",
            "tickvals": list(shown),
            "ticktext": [_label(parties[place], MAX_LABEL) for place in shown],
            "showgrid": False,
        },
    }
    count = sum(len(one.lost) for one in record.rounds)
    sizes = f"{count_text(len(record.rounds), 'round')}, {count_text(count, 'dropout')}"
    said = f"{len(parties)} parties, {sizes}. The tables below name them with reasons."
    return Figure("strip", "Who was in the sum", said, "", [], layout, strip)


def _line(record: TrainingRecord, role: str, text: str, values: Iterable[float | None]) -> Trace:
    few = len(record.rounds) <= FEW_ROUNDS
    return {
        "type": "scatter",
        "role": role,
        "name": _label(text),
        "x": [one.number for one in record.rounds],
        "y": list(values),
        "mode": "lines+markers" if few else "lines",
        "line": {"width": 2 if few else 1.4},
    }


def _bars(record: TrainingRecord, role: str, text: str, values: Iterable[float | None]) -> Trace:
    numbers = [one.number for one in record.rounds]
    return {"type": "bar", "role": role, "name": _label(text), "x": numbers, "y": list(values)}


def _stacked(record: TrainingRecord, role: str, text: str, values: Iterable[float]) -> Trace:
    if len(record.rounds) <= FEW_ROUNDS:
        return _bars(record, role, text, values)
    area = {"mode": "lines", "stackgroup": "stages", "line": {"width": 0, "shape": "hvh"}}
    return _line(record, role, text, values) | area


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _label(text: str, most: int = 40) -> str:
    """A text as Plotly shows it: no tag, and not too long."""
    line = " ".join(text.split())
    return escape(line if len(line) <= most else f"{line[: most - 1]}…", quote=False)


def page_data(figures: Iterable[Figure], record: TrainingRecord) -> Mapping[str, Any]:
    """All that the page's own code reads."""
    numbers = [one.number for one in record.rounds]
    span = [min(numbers) - 0.5, max(numbers) + 0.5] if numbers else None
    return {"figures": [figure.data() for figure in figures], "span": span}
