"""The page of a training run: one HTML file, which asks for nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

from blindsum import _native
from blindsum.errors import ConfigError
from blindsum.training import figures, html, sections
from blindsum.training.record import TrainingRecord

if TYPE_CHECKING:
    from blindsum.pki import AnyPath

KINDS = {
    "simulated": "Training run, simulated in one process",
    "processes": "Training run, as processes of one machine",
    "job": "Training run, a job between machines",
}


def report(record: TrainingRecord, path: AnyPath, *, command: str | None = None) -> None:
    """Write the page of a training run; see :meth:`TrainingRecord.report`.

    Raises
    ------
    blindsum.ConfigError
        plotly is not installed.
    """
    record.report(path, command=command)


def check_charts() -> None:
    """Check, before anything runs, that there is what draws.

    Raises
    ------
    blindsum.ConfigError
        It is not installed.
    """
    if find_spec("plotly") is None:
        raise ConfigError("report", "needs plotly, which is not installed: `pip install 'blindsum[report]'`")


def page(record: TrainingRecord, command: str | None = None) -> str:
    """The whole page.

    Parameters
    ----------
    record
        The run.
    command
        The command that made it, for its readers.

    Raises
    ------
    blindsum.ConfigError
        plotly is not installed.
    """
    check_charts()
    from plotly.offline import get_plotlyjs

    drawn, body = _body(record, command)
    plotly, script = _inside_script(get_plotlyjs()), _inside_script(_file("page.js"))
    data = json.dumps(figures.page_data(drawn, record), separators=(",", ":"), allow_nan=False)
    parts = {
        "title": escape(f"{record.job}: training run"),
        "kind": escape(KINDS[record.kind]),
        "job": escape(record.job),
        # guard: the-end-of-a-run-is-text
        "ended": escape(f"Protocol {record.protocol}: {record.ended}."),
        "style": _filled(_file("page.css"), {"dark": _file("dark.css")}),
        "body": body,
        "footer": escape(
            f"Blindsum {_native.__version__}. This file is complete: it loads nothing from elsewhere."
        ),
        # Nothing in a string ends the element that it is in.
        # guard: data-does-not-end-its-script
        "data": data.replace("<", "\\u003c"),
        "plotly": plotly,
        "script": script,
        "hashes": f"{_hash(plotly)} {_hash(script)}",
    }
    return _filled(_file("page.html"), parts)


def _body(record: TrainingRecord, command: str | None) -> tuple[list[figures.Figure], str]:
    """The charts in their order, and the parts of the page that they are in."""
    metrics = figures.metric_figures(record)
    if not record.rounds:
        nothing = html.paragraph("The run has no round that has ended.")
        return [], nothing + sections.the_job(record) + sections.how_made(record, command)
    strip, time, traffic = (
        figures.strip_figure(record),
        figures.time_figure(record),
        figures.bytes_figure(record),
    )
    exact = [figures.deviation_figure(record), figures.clipping_figure(record)]
    privacy = figures.privacy_figure(record)
    parties = (
        html.chart(strip, sections.strip_key((strip.strip or {}).get("rows", ()))),
        sections.dropouts(record),
        sections.without_sum(record),
    )
    stacked = f'<div class="stack">{"".join(parties)}</div>'
    parts = [
        sections.headlines(record),
        html.section("Learning", _in_grid([html.chart(one) for one in metrics])),
        html.section("Parties", stacked),
        html.section("Cost", _in_grid([html.chart(time), html.chart(traffic)]), sections.costs(record)),
        html.section("Exactness", _in_grid([html.chart(one) for one in exact])),
        html.section("Privacy", html.chart(privacy)),
        html.section("The job", sections.the_job(record)),
        html.section("Numbers", sections.all_rounds(record)),
        html.section("Origin", sections.how_made(record, command)),
    ]
    drawn = [*metrics, strip, time, traffic, *exact, privacy]
    return [one for one in drawn if one is not None], "\n".join(parts)


def _in_grid(parts: list[str]) -> str:
    return html.grid(*parts) if any(parts) else ""


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _filled(text: str, parts: Mapping[str, str]) -> str:
    """A text with its parts in place. What is put in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], text)


def _inside_script(code: str) -> str:
    """Code as it may stand in a ``<script>``: nothing in it ends the element or begins a comment.

    Both are only in strings and patterns, where a backslash before a sign that needs none changes nothing.
    """
    lines = code.replace("\r\n", "\n")
    return re.sub(
        r"<(?=/script|script)|<!--", lambda found: found[0].replace("<", "\\x3c"), lines, flags=re.IGNORECASE
    )


def _hash(code: str) -> str:
    """The hash by which the page's policy allows a script, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
