"""Table II of the PSS thesis: sharing 20,000 to 80,000 inputs among 729 parties.

    python -m experiments.pss_sharing [--quick] [--out FOLDER]

The thesis' times beside ours of the same machine: its own radix-2 and radix-3 transforms in plain compiled
code, the crate tfhe-ntt, and this library's transforms. Needs cargo; builds a bench first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benches import kernels
from benches.kernels import Timing, pick
from benches.rows import number
from blindsum.cli import console
from experiments import output


@dataclass(frozen=True)
class Printed:
    """Milliseconds of one line of the thesis' table, by radix, on its CPU and its GPU."""

    inputs: int
    block: int
    gpu_2: float
    gpu_3: float
    cpu_2: float
    cpu_3: float


THESIS = (
    Printed(20_000, 500, 66.27, 116.86, 364.11, 410.18),
    Printed(20_000, 100, 19.08, 138.75, 380.79, 2021.93),
    Printed(20_000, 50, 11.44, 166.68, 352.43, 4038.77),
    Printed(40_000, 500, 68.34, 118.9, 729.34, 818.1),
    Printed(40_000, 100, 22.61, 167.24, 760.15, 4093.04),
    Printed(40_000, 50, 18.52, 297.2, 702.27, 8046.04),
    Printed(60_000, 500, 68.93, 120.32, 1091.81, 1239.7),
    Printed(60_000, 100, 25.69, 197.22, 1144.19, 6155.17),
    Printed(60_000, 50, 24.03, 384.44, 1051.93, 12091.13),
    Printed(80_000, 500, 69.36, 120.7, 1456.47, 1635.32),
    Printed(80_000, 100, 36.78, 297.86, 1522.24, 8151.86),
    Printed(80_000, 50, 28.8, 503.12, 1400.85, 16110.2),
)

HEADER = [
    "inputs, block",
    "thesis CPU radix-2",
    "radix-3",
    "thesis T4 radix-2",
    "radix-3",
    "its algorithm compiled: radix-2",
    "radix-3",
    "tfhe-ntt",
    "ours",
    "ours, whole sharing",
    "its algorithm ÷ ours",
    "thesis CPU ÷ ours",
]


def cells(printed: Printed, timings: Sequence[Timing]) -> list[str]:
    """One line of the table, milliseconds."""
    at = (printed.inputs, printed.block)
    known = list(timings)
    two, three = pick(known, "radix-2", "thesis", *at), pick(known, "radix-3", "thesis", *at)
    ours = pick(known, "transforms", backend(known), *at)
    own = [
        two,
        three,
        pick(known, "transforms", "tfhe-ntt", *at),
        ours,
        pick(known, "share", backend(known), *at),
    ]
    if two is None or three is None or ours is None:
        raise ValueError(f"the bench has no line for {at}")
    ratios = [(two + three) / ours, (printed.cpu_2 + printed.cpu_3) / ours]
    printed_ms = [printed.cpu_2, printed.cpu_3, printed.gpu_2, printed.gpu_3]
    texts = [*map(number, printed_ms), *("" if ms is None else number(ms) for ms in own)]
    return [f"{printed.inputs:,}, {printed.block}", *texts, *[f"{ratio:,.0f}" for ratio in ratios]]


def backend(timings: Sequence[Timing]) -> str:
    """The backend that this machine takes."""
    return next(one.backend for one in timings if one.work == "share")


def plot(timings: Sequence[Timing], lines: Sequence[Printed], path: Path) -> None:
    """Both transforms against the inputs, one panel a block size."""
    blocks = sorted({printed.block for printed in lines})
    drawn, axes = output.figure(len(blocks))
    for place, block in zip(axes, blocks, strict=True):
        at = [printed for printed in lines if printed.block == block]
        inputs = [printed.inputs for printed in at]

        def ours(work: str, who: str, at: Sequence[Printed] = at) -> list[float]:
            found = [pick(list(timings), work, who, printed.inputs, printed.block) for printed in at]
            return [float("nan") if ms is None else ms for ms in found]

        both = [sum(pair) for pair in zip(ours("radix-2", "thesis"), ours("radix-3", "thesis"), strict=True)]
        curves = {
            "thesis, CPU": [printed.cpu_2 + printed.cpu_3 for printed in at],
            "thesis, T4": [printed.gpu_2 + printed.gpu_3 for printed in at],
            "its algorithm, compiled": both,
            "tfhe-ntt": ours("transforms", "tfhe-ntt"),
            "ours": ours("transforms", backend(timings)),
        }
        for name, values in curves.items():
            place.plot(inputs, values, marker="o", markersize=4, label=name)
        place.set_yscale("log")
        place.set_title(f"blocks of {block}", fontsize="medium")
        place.set_xlabel("inputs")
        place.set_ylabel("ms")
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    output.save(drawn, path)


READING = """\
## How to read it

* The thesis measured on a 2.5 GHz Cascade Lake and a T4, with elements of up to 128 bits; it does not say
  in which language. Ours are elements of 47 bits, enough for sums of 16-bit values; 64-bit inputs take two
  such fields and twice the time. Most of the factor to its CPU column is therefore not due to a better
  algorithm: its own algorithm in plain compiled code on this machine is the fair comparison.
* Columns of transforms have no random elements and no bytes in them, on either side. "Whole sharing" has
  both: words in, 729 packed columns out, the random elements drawn from AES-256-CTR.
* Its radix-2 and radix-3 transforms both have the point 1, so that the first share of each block is its first
  input in the clear. Ours take points of a coset instead, which costs nothing.
* The thesis' text puts its GPU at 48 times its CPU for the radix-3 transform of 1,600 blocks. Its table has
  32.0 there; 48.6 is the ratio of the radix-2 transform.
* Our transforms evaluate at 729 points and no more, leave out the products with what is known to be zero,
  and work on eight blocks at a time.\
"""


def main(words: Sequence[str] | None = None) -> None:
    """Measure, draw and write."""
    options = output.options(words, "pss_sharing", "Table II of the PSS thesis.")
    with console.progress("sharing", 1) as bar:
        bar.update(0, "builds and runs a bench")
        timings = kernels.sharing(options.quick)
    sizes = {(one.inputs, one.block) for one in timings}
    lines = [printed for printed in THESIS if (printed.inputs, printed.block) in sizes]
    plot(timings, lines, options.out / "pss-sharing.svg")
    output.write_csv(options, "pss-sharing.csv", [asdict(one) for one in timings])
    intro = f"Milliseconds of one thread; our backend: {backend(timings)}."
    table = output.table(HEADER, [cells(printed, timings) for printed in lines])
    parts = [intro, table, "![milliseconds against inputs](pss-sharing.svg)", READING]
    output.write_page(options, "pss-sharing.md", "PSS thesis, Table II: sharing", parts)


if __name__ == "__main__":
    main()
