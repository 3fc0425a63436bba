"""Accuracy of the thesis on three servers (§5.7): nets, workers and skewed data, through jobs of `mpc3`.

    python -m experiments.thesis_skew [--quick | --large [--folder FOLDER]] [--out FOLDER]

Parties train small nets on Fashion-MNIST and on handwritten digits, one step of 64 images between two rounds,
as in the thesis, and ten steps where it says so. `--large` trains the thesis' nets on CIFAR-10, with torch.
`thesis_skew_runs` has the trainings; plain FedAvg from the same seeds is beside each.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import output
from experiments import thesis_skew_runs as runs
from experiments.thesis_skew_runs import IID, LOCAL, SKEW, WORKERS, AnyTask, Case, Found, Sizes, Training

LATE = 0.05
"""Accuracy is the mean over this part of the rounds, the last ones, and over five at least."""
POINTS = 50
"""About so many rounds of a training are in the table for machines."""

TABLES = {
    "5.21, CIFAR-10": {
        "DenseNet-121": (0.5995, 0.5947),
        "VGG-11": (0.5823, 0.5834),
        "ResNet-18": (0.5918, 0.5528),
        "Simple DLA": (0.5516, 0.5192),
    },
    "5.22, CIFAR-100": {
        "DenseNet-121": (0.5151, 0.4844),
        "VGG-11": (0.4776, 0.4897),
        "ResNet-18": (0.4770, 0.5070),
        "Simple DLA": (0.4386, 0.4769),
    },
}
"""What the thesis prints: accuracy with three servers, and in plain text, after 2500 iterations."""


def late(values: Sequence[float]) -> float:
    """The mean over the last rounds, in percent."""
    count = max(5, round(LATE * len(values)))
    return 100 * statistics.fmean(values[-count:])


def apart(training: Training) -> float:
    """The largest difference of accuracy in a round from plain FedAvg, in points."""
    return 100 * max(abs(a - b) for a, b in zip(training.accuracy, training.plain, strict=True))


def rows(found: Found) -> list[dict[str, Any]]:
    """The table for machines: some rounds of each training, and the last one."""
    lines = []
    for case, training in found.items():
        count = len(training.accuracy)
        every = max(1, count // POINTS)
        for place in sorted({*range(0, count, every), count - 1}):
            lines.append(
                {
                    "data": case.task.data,
                    "net": case.task.net.name,
                    "dim": case.task.net.dim,
                    "workers": case.workers,
                    "partition": case.partition,
                    "local_steps": case.task.steps,
                    "round": place + 1,
                    "accuracy": training.accuracy[place],
                    "plain_accuracy": training.plain[place],
                    "deviation": training.deviation,
                    "clipped": training.clipped,
                }
            )
    return lines


class Page:
    """Tables and text of what was found."""

    def __init__(self, found: Found, missing: Mapping[str, str], sizes: Sizes) -> None:
        self._found = found
        self._missing = missing
        self._sizes = sizes
        self.data = list(dict.fromkeys(case.task.data for case in found))

    def parts(self) -> list[str]:
        """Everything below the head."""
        picture = "![accuracy by epoch: nets, workers, skews](thesis-skew.svg)"
        return [self._short(), picture, self._nets(), self._workers(), self._skews(), self._setting()]

    def varied(self, data: str) -> AnyTask:
        """The task of a data set whose workers and skews are varied."""
        return next(case.task for case in self._found if case.task.data == data)

    def nets(self, data: str) -> list[Training]:
        """All nets, with the thesis' workers and skew."""
        return self._those(
            lambda case: (
                (case.task.data, case.workers, case.skew, case.task.steps)
                == (data, WORKERS, SKEW, self.varied(data).steps)
            )
        )

    def workers(self, data: str) -> list[Training]:
        """One net, by workers."""
        task = self.varied(data)
        found = self._those(lambda case: case.task == task and case.skew == SKEW)
        return sorted(found, key=lambda one: one.case.workers)

    def skews(self, data: str, local: bool = False) -> list[Training]:
        """One net, by skew."""
        task = self.varied(data)
        steps = LOCAL if local else task.steps
        found = self._those(
            lambda case: (
                (case.task.data, case.task.net, case.task.steps, case.workers)
                == (data, task.net, steps, WORKERS)
            )
        )
        return sorted(found, key=lambda one: one.case.skew)

    def _those(self, wanted: Callable[[Case], bool]) -> list[Training]:
        return [training for case, training in self._found.items() if wanted(case)]

    def _short(self) -> str:
        whole = list(self._found.values())
        rounds = sum(len(one.accuracy) for one in whole)
        size = {one.case.task.data: len(one.case.task.test) for one in whole}
        ends = [late(one.accuracy) - late(one.plain) for one in whole]
        points = [
            f"In {len(whole)} trainings, {rounds:,} rounds of `mpc3` in all, accuracy in the end differs "
            "from "
            f"that of plain FedAvg from the same seeds by {min(ends):+.2f} to {max(ends):+.2f} points; in a "
            f"single round by {max(apart(one) for one in whole):.2f} at most. One test image is "
            + " and ".join(f"{100 / count:.2f} points ({data})" for data, count in size.items())
            + "."
        ]
        for data in self.data:
            once, local = self.skews(data), self.skews(data, local=True)
            points.append(
                f"{data}: with one step between rounds a skew of {once[-1].case.skew:g} costs "
                f"{late(once[0].accuracy) - late(once[-1].accuracy):+.1f} points against data that are dealt "
                f"at random; with {LOCAL} steps, and as many epochs, "
                f"{late(local[0].accuracy) - late(local[-1].accuracy):+.1f}."
            )
        return "\n".join(["## In short", "", output.points(points)])

    def _nets(self) -> str:
        header = ["data", "net", "D", "rounds", "`mpc3`", "plain FedAvg", "difference", "mean off by"]
        lines = []
        for data in self.data:
            for one in self.nets(data):
                ours, plain = late(one.accuracy), late(one.plain)
                numbers = [f"{ours:.2f} %", f"{plain:.2f} %", f"{ours - plain:+.3f}"]
                net = one.case.task.net
                lines.append(
                    [data, net.name, f"{net.dim:,}", str(len(one.accuracy)), *numbers, f"{one.deviation:.1e}"]
                )
        theirs = [
            [table, net, f"{100 * ours:.2f} %", f"{100 * plain:.2f} %", f"{100 * (ours - plain):+.2f}"]
            for table, nets in TABLES.items()
            for net, (ours, plain) in nets.items()
        ]
        text = f"""
{WORKERS} workers, a skew of {SKEW:g}, {self._sizes.epochs} epochs. The same seeds on either side: what
differs is what the encoding rounds.
"""
        thesis = """
The thesis' own trainings differ by points, in both directions. It ascribes that to random flips and
crops, which were not the same on both sides. Here both sides have the same seeds.
"""
        return "\n\n".join(
            [
                "## Nets (Tables 5.21 and 5.22, Figures 5.5 to 5.7)",
                output.filled(text),
                output.table(header, lines),
                "As the thesis prints it:",
                output.table(["table", "net", "three servers", "plain text", "difference"], theirs),
                output.filled(thesis),
            ]
        )

    def _workers(self) -> str:
        header = ["data", "net", "workers", "rounds", "`mpc3`", "plain FedAvg"]
        lines, said = [], []
        for data in self.data:
            found = self.workers(data)
            for one in found:
                rounds = str(len(one.accuracy))
                cells = [f"{late(one.accuracy):.2f} %", f"{late(one.plain):.2f} %"]
                lines.append([data, one.case.task.net.name, str(one.case.workers), rounds, *cells])
            first, last = found[0], found[-1]
            said.append(
                f"On {data} {last.case.workers} workers have "
                f"{late(last.accuracy) - late(first.accuracy):+.1f} points against {first.case.workers}."
            )
        text = f"""
As many epochs for all, so that more workers have fewer rounds. The thesis finds that workers may matter
for ten labels, and do not for a hundred. {" ".join(said)}
"""
        return "\n\n".join(
            ["## Workers (Figures 5.8 to 5.10)", output.filled(text), output.table(header, lines)]
        )

    def _skews(self) -> str:
        header = ["data", "net", "steps of a round", "rounds", "skew", "`mpc3`", "plain FedAvg", "difference"]
        lines = []
        for data in self.data:
            for local in (False, True):
                for one in self.skews(data, local):
                    ours, plain = late(one.accuracy), late(one.plain)
                    lines.append(
                        [
                            data,
                            one.case.task.net.name,
                            str(one.case.task.steps),
                            str(len(one.accuracy)),
                            "at random" if one.case.skew == IID else f"{one.case.skew:g}",
                            f"{ours:.2f} %",
                            f"{plain:.2f} %",
                            f"{ours - plain:+.3f}",
                        ]
                    )
        text = f"""
The thesis finds a large effect of the skew for ten labels: even with 0.5 accuracy is below the one in
plain text. Here a round comes after each step of {runs.BATCH} images, as there, and the nets have no
normalisation over a batch: the mean of the steps is nearly a step of one large batch from all parties.
With {LOCAL} steps parties move away from each other before their updates are added.
"""
        return "\n\n".join(
            ["## Skews (Figures 5.11 to 5.13)", output.filled(text), output.table(header, lines)]
        )

    def _setting(self) -> str:
        tasks_of = {one.case.task.data: one.case.task for one in self._found.values()}
        sizes = "; ".join(
            f"{data}: {len(task.train):,} images, {len(task.test):,} for the test"
            for data, task in tasks_of.items()
        )
        points = f"""
{sizes}. The thesis has CIFAR-10 and CIFAR-100 and larger nets: `--large`. Its top-5 accuracy is that of
a hundred labels, and is not repeated.

Batches of {runs.BATCH}, rate {runs.RATE:g}, plain SGD, as in the thesis; {self._sizes.epochs} epochs
(the thesis: about 50). One seed. Accuracy is the mean over the last {LATE:.0%} of the rounds, five at
least.

Partitions are those of `blindsum.learning.partitions`, `skewed` for the thesis' rule (§4.5.2).

Jobs are `mpc3` with the rule `fedavg`, `adversary = "semi-honest"` and 16 bits, by
`blindsum.simulate_training`. Every mean is within `max_error` of that of the same updates.
"""
        points += "".join(f"\n\nNot run: {why}" for why in self._missing.values())
        return "\n".join(["## Setting", "", output.points(points)])


def plot(page: Page, path: Path) -> None:
    """Draw accuracy by epoch: nets, workers, skews, and skews with more steps; a row for each data set."""
    drawn, axes = output.figure(4, len(page.data))
    panels = iter(axes)
    for data in page.data:
        for title, trainings, label in (
            ("nets", page.nets(data), lambda case: case.task.net.name),
            ("workers", page.workers(data), lambda case: f"{case.workers} workers"),
            ("skews", page.skews(data), lambda case: case.partition),
            (f"skews, {LOCAL} steps", page.skews(data, local=True), lambda case: case.partition),
        ):
            panel = next(panels)
            for one in trainings:
                task = one.case.task
                epoch = len(task.train) / (one.case.workers * task.batch * task.steps)
                epochs = [(place + 1) / epoch for place in range(len(one.accuracy))]
                panel.plot(
                    epochs, [100 * value for value in one.accuracy], label=label(one.case), linewidth=1
                )
            panel.set_title(f"{data}: {title}", fontsize="medium")
            panel.set_xlabel("epoch")
            panel.set_ylabel("accuracy, %")
            panel.legend(fontsize="x-small", loc="lower right")
    output.save(drawn, path)


def main(words: Sequence[str] | None = None) -> None:
    """Train, and write."""
    options = output.options(
        words, "thesis_skew", "Accuracy by nets, workers and skew, through three servers.", has_large=True
    )
    sizes = runs.QUICK if options.quick else runs.large(options.folder) if options.large else runs.FULL
    found, missing = runs.run(sizes)
    output.write_csv(options, "thesis-skew.csv", rows(found))
    page = Page(found, missing, sizes)
    plot(page, options.out / "thesis-skew.svg")
    title = "Nets, workers and skewed data with three servers"
    output.write_page(options, "thesis-skew.md", title, page.parts(), timed=False)


if __name__ == "__main__":
    main()
