"""How objects show themselves: small tables in a notebook, in the colours of the page, and a line elsewhere.

Everything is escaped. Nothing of an update, a model, a key or a path is in them, as notebooks are passed on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from html import escape

MAX_TEXT = 300
"""Letters of a cell; what is longer ends in …"""

MAX_NAMES = 8
"""Names of a list; how many more there are is said."""

_LEFT = 'style="text-align:left"'


class Shown(ABC):
    """What shows itself by names and values; ``None`` is left out."""

    @abstractmethod
    def _shown(self) -> Mapping[str, object]:
        """What is shown, by its name."""

    def _repr_html_(self) -> str:
        return html_pairs(f"blindsum.{type(self).__name__}", self._shown())

    def __repr__(self) -> str:
        pairs = ", ".join(
            f"{name}: {_short(value)}" for name, value in self._shown().items() if value is not None
        )
        return f"<blindsum.{type(self).__name__} {pairs}>"


def html_pairs(title: str, pairs: Mapping[str, object]) -> str:
    """Names and values as a table of two columns; what is ``None`` is left out."""
    rows = [(name, value) for name, value in pairs.items() if value is not None]
    lines = "".join(f"<tr>{_cell('th', name)}{_cell('td', value)}</tr>" for name, value in rows)
    return f"<table>{_caption(title)}<tbody>{lines}</tbody></table>"


def html_table(
    title: str, header: Sequence[object], rows: Iterable[Sequence[object]], notes: Iterable[object] = ()
) -> str:
    """A table with a header, and lines of text below it."""
    top = "".join(_cell("th", name) for name in header)
    lines = "".join(f"<tr>{''.join(_cell('td', value) for value in row)}</tr>" for row in rows)
    below = "".join(f"<div>{escape(_short(note))}</div>" for note in notes)
    return f"<table>{_caption(title)}<thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>{below}"


def names_text(names: Sequence[str]) -> str:
    """Names of parties, the first ones of many."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _caption(title: str) -> str:
    return f"<caption {_LEFT}><b>{escape(title)}</b></caption>"


def _cell(tag: str, value: object) -> str:
    return f"<{tag} {_LEFT}>{escape(_short(value))}</{tag}>"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
