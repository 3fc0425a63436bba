"""How objects show themselves in a notebook: small tables that take the colours of the page.

Everything is escaped. Nothing of an update, a model, a key or a path is in them, as notebooks are passed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_CELL = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;background:none;color:inherit"

MAX_TEXT = 300
"""Letters of a cell; what is longer ends in …"""


class Shown:
    """What shows itself in a notebook, and as a line, by what :meth:`_shown` gives."""

    def _shown(self) -> Mapping[str, object]:
        """What is shown, by its name."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_pairs(f"blindsum.{type(self).__name__}", self._shown())


def html_pairs(title: str, pairs: Mapping[str, object]) -> str:
    """Names and values as a table of two columns; what is ``None`` is left out."""
    rows = [[name, value] for name, value in pairs.items() if value is not None]
    lines = "".join(f"<tr>{_cell('th', name)}{_cell('td', value)}</tr>" for name, value in rows)
    return f"<table><caption {_LEFT}>{escape(title)}</caption><tbody>{lines}</tbody></table>"


def html_table(
    title: str, header: Sequence[object], rows: Iterable[Sequence[object]], notes: Iterable[object] = ()
) -> str:
    """A table with a header, and lines of text below it."""
    top = "".join(_cell("th", name) for name in header)
    lines = "".join(f"<tr>{''.join(_cell('td', value) for value in row)}</tr>" for row in rows)
    below = "".join(f"<div>{escape(_short(note))}</div>" for note in notes)
    caption = f"<caption {_LEFT}>{escape(title)}</caption>"
    return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>{below}"


_LEFT = 'style="text-align:left"'


def _cell(tag: str, value: object) -> str:
    return f'<{tag} style="{_CELL}">{escape(_short(value))}</{tag}>'


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
