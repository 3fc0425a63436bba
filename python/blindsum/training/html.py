"""Pieces of the page: escaped text, tables, cards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from blindsum.training.figures import Figure

ONE_LINE = 5
"""Cards in one line where there is room."""


@dataclass(frozen=True)
class Card:
    """A headline number.

    Attributes
    ----------
    name : str
        What it is.
    big : str
        The number.
    small : str
        What else belongs to it.
    is_good : bool or None
        Whether it is as it should be; ``None`` where nobody can say.
    """

    name: str
    big: str
    small: str = ""
    is_good: bool | None = None

    def html(self) -> str:
        """The card as part of a ``<dl>``."""
        mood = {None: "", True: " good", False: " bad"}[self.is_good]
        # guard: small-text-of-a-card-is-text
        small = f'<dd class="small">{escape(self.small)}</dd>' if self.small else ""
        return f'<div><dt>{escape(self.name)}</dt><dd class="big{mood}">{escape(self.big)}</dd>{small}</div>'


def cards(found: Iterable[Card]) -> str:
    """Headline numbers side by side."""
    shown = [card.html() for card in found]
    # Two lines of many, else all in one.
    columns = len(shown) if len(shown) <= ONE_LINE else math.ceil(len(shown) / 2)
    return f'<dl class="cards" style="--columns:{columns}">{"".join(shown)}</dl>'


def section(title: str, *parts: str) -> str:
    """A part of the page with its heading; nothing where it has no content."""
    inside = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(title)}</h2>\n{inside}\n</section>" if inside else ""


def card(title: str, inside: str) -> str:
    """A box with a heading."""
    return f'<div class="card"><h3>{escape(title)}</h3>{inside}</div>'


def folded(title: str, inside: str) -> str:
    """A box that opens at a click."""
    return f'<details class="card"><summary>{escape(title)}</summary>{inside}</details>'


def grid(*parts: str) -> str:
    """Boxes side by side where there is room."""
    return f'<div class="grid">{"".join(part for part in parts if part)}</div>'


def chart(figure: Figure | None, below: str = "") -> str:
    """The place of a chart, with its text for whoever cannot see it."""
    if figure is None:
        return ""
    note = paragraph(figure.note)
    image = (
        f'<div class="chart" id="chart-{figure.name}" style="min-height:{figure.height}px" role="group" '
        # guard: the-label-of-a-chart-is-text
        f'aria-label="{escape(figure.summary)}"></div>'
    )
    return (
        f'<figure class="card"><figcaption>{escape(figure.title)}</figcaption>{image}{below}{note}</figure>'
    )


def paragraph(text: str) -> str:
    """A quiet line; nothing for no text."""
    return f'<p class="note">{escape(text)}</p>' if text else ""


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[int] = (), kind: str = ""
) -> str:
    """A table that scrolls where it is long.

    Parameters
    ----------
    header
        Names of the columns.
    rows
        Their cells; the first of each is the heading of its row.
    numbers
        Columns that hold numbers, which stand at the right.
    kind
        A class of ``page.css`` for the whole.
    """
    right = frozenset(numbers)
    top = "".join(
        f'<th scope="col"{_class(place, right)}>{escape(name)}</th>' for place, name in enumerate(header)
    )
    lines = "\n".join(
        f"<tr>{''.join(_cell(place, one, right) for place, one in enumerate(row))}</tr>" for row in rows
    )
    body = f"<table{_named(kind)}><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"
    return _scrolled(body)


def pairs(rows: Iterable[tuple[str, object]]) -> str:
    """Names and values as a table of two columns."""
    lines = "".join(
        # guard: names-in-pairs-are-text, values-in-pairs-are-text
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return _scrolled(f'<table class="pairs"><tbody>{lines}</tbody></table>')


def _scrolled(inside: str) -> str:
    """A part that scrolls where it is long or wide, also by the keyboard."""
    return f'<div class="scroll" role="region" aria-label="table" tabindex="0">{inside}</div>'


def _cell(place: int, value: object, right: frozenset[int]) -> str:
    text = escape(str(value))
    if place == 0:
        return f'<th scope="row"{_class(place, right)}>{text}</th>'
    return f"<td{_class(place, right)}>{text}</td>"


def _class(place: int, right: frozenset[int]) -> str:
    return _named("number" if place in right else "")


def _named(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
