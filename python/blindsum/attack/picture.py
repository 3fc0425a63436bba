"""The picture of a result: true images, and below them those that the attack finds in each place."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from blindsum.attack.inversion import Floats
from blindsum.attack.results import Seen

SIDE = 8
"""Pixels of a side of an image."""

MAX_IMAGES = 12
"""Images of a row; further ones are left out."""

LABEL, SIZE, GAP, EDGE = 230, 40, 6, 12
"""Of a row, in units of the picture: room for its text, the side of an image, room between images, and the
edge."""


def picture(seen: Sequence[Seen]) -> str:
    """An SVG with a row for each place; it loads nothing from elsewhere."""
    width = 2 * EDGE + LABEL + max(min(len(one.images), MAX_IMAGES) for one in seen) * (SIZE + GAP) - GAP
    height = 2 * EDGE + len(seen) * (SIZE + GAP) - GAP
    rows = "\n".join(
        part for place, one in enumerate(seen) for part in _row(one, EDGE + place * (SIZE + GAP))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="images that an attack finds" font-family="sans-serif" '
        f'font-size="14">\n<rect width="{width}" height="{height}" fill="#ffffff"/>\n{rows}\n</svg>\n'
    )


def _row(one: Seen, top: int) -> Iterator[str]:
    yield f'<text x="{EDGE}" y="{top + SIZE / 2 + 5:g}" fill="#1b2330">{escape(one.title)}</text>'
    for place, image in enumerate(one.images[:MAX_IMAGES]):
        left = EDGE + LABEL + place * (SIZE + GAP)
        yield (
            f'<image x="{left}" y="{top}" width="{SIZE}" height="{SIZE}" style="image-rendering:pixelated" '
            f'href="{_address(image)}"/>'
        )


def _address(image: Floats) -> str:
    """An image as the address of itself: the darker, the more ink."""
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
