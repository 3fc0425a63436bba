"""The picture of a result: true images, and below them those that the attack finds in each place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

import numpy as np

from blindsum.attack.inversion import Floats
from blindsum.attack.results import Seen

SIDE = 8
"""Pixels of a side of an image."""

LEVELS = 16
"""Steps from white to black, as the images of the data set have them."""

MAX_IMAGES = 12
"""Images of a row; further ones are left out."""

LABEL, SIZE, GAP, EDGE = 230, 40, 6, 12
"""Of a row, in units of the picture: room for its text, the side of an image, room between images, and the
edge."""


def picture(seen: Sequence[Seen]) -> str:
    """An SVG with a row for each place; it loads nothing from elsewhere."""
    width = 2 * EDGE + LABEL + max(min(len(one.images), MAX_IMAGES) for one in seen) * (SIZE + GAP) - GAP
    height = 2 * EDGE + len(seen) * (SIZE + GAP) - GAP
    tops = range(EDGE, height - EDGE, SIZE + GAP)
    rows = "\n".join(part for one, top in zip(seen, tops, strict=True) for part in _row(one, top))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="images that an attack finds" font-family="sans-serif" '
        f'font-size="14">\n<rect width="{width}" height="{height}" fill="#fff"/>\n{rows}\n</svg>\n'
    )


def _row(one: Seen, top: int) -> Iterator[str]:
    yield f'<text x="{EDGE}" y="{top + SIZE / 2 + 5:g}" fill="#1b2330">{escape(one.title)}</text>'
    for place, image in enumerate(one.images[:MAX_IMAGES]):
        left = EDGE + LABEL + place * (SIZE + GAP)
        scale = f"translate({left} {top}) scale({SIZE / SIDE:g})"
        yield f'<g transform="{scale}" shape-rendering="crispEdges">{"".join(_paths(image))}</g>'


def _paths(image: Floats) -> Iterator[str]:
    """The pixels of an image, those of one brightness together: 1 is black."""
    levels = np.round(LEVELS * np.clip(image, 0, 1)).astype(int).reshape(SIDE, SIDE)
    runs: dict[int, str] = defaultdict(str)
    for row, line in enumerate(levels):
        for level, same in groupby(range(SIDE), key=lambda column, line=line: int(line[column])):  # type: ignore[misc]
            columns = list(same)
            runs[level] += f"M{columns[0]} {row}h{len(columns)}v1h-{len(columns)}z"
    yield f'<path fill="#eee" d="M0 0h{SIDE}v{SIDE}h-{SIDE}z"/>'
    for level, path in sorted(runs.items()):
        if level:
            grey = round(238 * (1 - level / LEVELS))
            yield f'<path fill="#{grey:02x}{grey:02x}{grey:02x}" d="{path}"/>'
