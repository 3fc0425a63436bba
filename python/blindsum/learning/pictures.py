"""The picture of a partition: how much of which label each party has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from blindsum import checks
from blindsum.errors import BlindsumError
from blindsum.learning.partitions import Indices, label_counts

MAX_BARS = 20
"""Labels that are drawn as bars, each in a colour; more are drawn as a map."""
MAX_GAPS = 100
"""Parties between which there are gaps; the gaps of more would hide the bars."""


def check_drawing() -> None:
    """Check, before anything else is done, that there is what draws.

    Raises
    ------
    blindsum.BlindsumError
        matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise BlindsumError(
            "a picture of a partition needs matplotlib; install it with `pip install 'blindsum[data]'`"
        )


def draw(
    labels: ArrayLike,
    parts: Sequence[ArrayLike],
    path: str | os.PathLike[str],
    *,
    names: Sequence[str] | None = None,
    title: str = "",
) -> None:
    """Draw a partition as SVG.

    Up to :data:`MAX_BARS` labels are stacked bars; more are a map of labels and parties. The same partition
    gives the same file.

    Parameters
    ----------
    labels
        The label of each example, shape ``(n,)``.
    parts
        The indices of each party.
    path
        The file.
    names
        Names of the labels where these are the numbers from 0 on.
    title
        What stands above.

    Raises
    ------
    blindsum.BlindsumError
        matplotlib is not installed.
    blindsum.ConfigError
        ``labels`` or ``parts`` are no labels, or no indices into them.
    """
    check_drawing()
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    found, counts = label_counts(labels, parts)
    shown = [str(label) if names is None else names[label] for label in found]
    with mpl.rc_context({"svg.hashsalt": "blindsum", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.subplots()
        (_bars if len(shown) <= MAX_BARS else _map)(figure, axes, shown, counts)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="party", title=title, xlim=(-0.5, len(parts) - 0.5))
        figure.savefig(checks.path("path", path), format="svg", metadata={"Date": None})


def _bars(figure: Any, axes: Any, names: Sequence[str], counts: Indices) -> None:
    """One bar a party, in as many colours as there are labels. One shape a label keeps the file small."""
    from matplotlib import colormaps

    edges = np.arange(len(counts) + 1) - 0.5
    tops = np.cumsum(counts, axis=1)
    colours = colormaps["tab10" if len(names) <= 10 else "tab20"]
    for label, name in enumerate(names):
        low = tops[:, label] - counts[:, label]
        axes.stairs(tops[:, label], edges, baseline=low, fill=True, color=colours(label), label=name)
    if len(counts) <= MAX_GAPS:
        axes.vlines(edges[1:-1], 0, 1, transform=axes.get_xaxis_transform(), color="white", linewidth=0.5)
    axes.set_ylabel("examples")
    figure.legend(loc="outside right upper", fontsize="small", reverse=True)


def _map(figure: Any, axes: Any, names: Sequence[str], counts: Indices) -> None:
    """One column a party, one row a label: the darker, the more examples."""
    image = axes.imshow(counts.T, aspect="auto", interpolation="nearest", cmap="Blues", origin="lower")
    axes.set_ylabel(f"label, {len(names)} from {names[0]!r} to {names[-1]!r}")
    figure.colorbar(image, label="examples")
