"""The page of a result: one HTML file with everything in it."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Mapping
from html import escape
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from blindsum import _native
from blindsum.attack.inversion import Floats
from blindsum.attack.results import AttackResult, Seen
from blindsum.attack.tables import Table, tables
from blindsum.training import html

SIDE = 8
"""Pixels of a side of an image."""


def page(result: AttackResult) -> str:
    """The page: pictures of what the attack finds in each place, and the tables."""
    pictures = "".join(_seen(one) for one in result.seen)
    first = html.card("The images of one party, and what the attack makes of each vector", pictures)
    impossible = [(name, why) for name, why in result.impossible.items()]
    parts = [
        html.section("Pictures", first),
        *(html.section(_title(one), html.paragraph(one.note), _table(one)) for one in tables(result)),
        html.section("Protocols without such a round", html.pairs(impossible) if impossible else ""),
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


def _seen(one: Seen) -> str:
    images = "".join(
        f'<img alt="{escape(one.title)}, image {place}" src="{_data(image)}">'
        for place, image in enumerate(one.images, 1)
    )
    return f'<div class="seen"><span>{escape(one.title)}</span><div>{images}</div></div>'


def _data(image: Floats) -> str:
    """An image as the address of itself."""
    levels = np.round(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8).reshape(SIDE, SIDE)
    return f"data:image/png;base64,{base64.b64encode(png(levels)).decode()}"


def png(levels: NDArray[np.uint8]) -> bytes:
    """A PNG file of grey levels, shape ``(rows, columns)``; 0 is black."""
    rows, columns = levels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in levels)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


def _style() -> str:
    """The style of the reports of training."""
    folder = files("blindsum.training")
    dark = folder.joinpath("dark.css").read_text(encoding="utf-8")
    return _filled(folder.joinpath("page.css").read_text(encoding="utf-8"), {"dark": dark})


def _filled(text: str, parts: Mapping[str, str]) -> str:
    """A text with its parts in place. What is put in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], text)
