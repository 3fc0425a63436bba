"""The page of a result: one HTML file with everything in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

from blindsum import _native
from blindsum.attack.picture import picture
from blindsum.attack.results import AttackResult
from blindsum.attack.tables import Table, tables
from blindsum.training import html


def page(result: AttackResult) -> str:
    """The page: pictures of what the attack finds in each place, and the tables."""
    first = html.card("The images of one party, and those that the attack finds", picture(result.seen))
    parts = [
        html.section("Pictures", first),
        *(html.section(_title(one), html.paragraph(one.note), _table(one)) for one in tables(result)),
        html.section("Not attacked", html.pairs(result.impossible.items()) if result.impossible else ""),
    ]
    fill = {
        "style": _style(),
        "summary": escape(result.summary),
        "body": "\n".join(parts),
        "footer": escape(
            f"Blindsum {_native.__version__}. This file is complete: it loads nothing from elsewhere."
        ),
    }
    return _filled(files(__package__).joinpath("page.html").read_text(encoding="utf-8"), fill)


def _title(one: Table) -> str:
    return one.title[0].upper() + one.title[1:]


def _table(one: Table) -> str:
    return html.table(one.header, one.rows)


def _style() -> str:
    """The style of the reports of training."""
    folder = files("blindsum.training")
    dark = folder.joinpath("dark.css").read_text(encoding="utf-8")
    return _filled(folder.joinpath("page.css").read_text(encoding="utf-8"), {"dark": dark})


def _filled(text: str, parts: Mapping[str, str]) -> str:
    """A text with its parts in place. What is put in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], text)
