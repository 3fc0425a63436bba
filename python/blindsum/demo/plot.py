"""The picture of a demonstration."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path

from blindsum.demo.run import DemoResult
from blindsum.errors import BlindsumError


def check_plots() -> None:
    """Check, before anything runs, that there is what draws.

    Raises
    ------
    blindsum.BlindsumError
        It is not installed.
    """
    if find_spec("matplotlib") is None:
        raise BlindsumError("the demo needs matplotlib; install it with `pip install 'blindsum[demo]'`")


def plot(result: DemoResult, path: Path) -> None:
    """Draw accuracy and seconds per round to a PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rounds = result.rounds
    numbers = [one.number for one in rounds]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 7), sharex=True, layout="constrained")
    settings = result.settings

    secure = f"{settings.protocol}: {result.accuracy:.3f}"
    plain = f"plain FedAvg: {result.plain_accuracy:.3f}"
    top.plot(numbers, [one.plain_accuracy for one in rounds], color="0.6", linewidth=5, label=plain)
    top.plot(
        numbers, [one.accuracy for one in rounds], color="tab:blue", marker="o", markersize=4, label=secure
    )
    top.set_ylabel("test accuracy")
    top.set_title(
        f"{settings.parties} parties, {sum(result.examples)} handwritten digits, nobody saw an update"
    )
    top.grid(alpha=0.3)

    for name, same in result.stages().items():
        # A round that has no such stage leaves a gap.
        heights = {one.number: 1000 * stage["seconds"] for one, stage in same}
        line = [heights.get(number, math.nan) for number in numbers]
        bottom.plot(numbers, line, marker="o", markersize=4, label=name)
    bottom.set_yscale("log")
    bottom.set_ylabel("milliseconds per stage")
    bottom.set_xlabel("round")
    bottom.set_xticks(numbers)
    bottom.legend(fontsize="small", ncols=2)
    bottom.grid(alpha=0.3)

    for one in rounds:
        if one.dropped:
            for axes in (top, bottom):
                axes.axvline(one.number, color="tab:red", linestyle=":")
            label = f"{', '.join(one.dropped)} killed"
            top.annotate(
                label, (one.number, top.get_ylim()[0]), (5, 8), textcoords="offset points", color="tab:red"
            )
    top.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)
