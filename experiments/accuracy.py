"""Whether training with each protocol is training without one: models and accuracy, round by round.

    python -m experiments.accuracy [--quick] [--out FOLDER]

Six parties train small nets with `blindsum.simulate_training`, once with each protocol and each encoding,
from the same seeds. `accuracy_runs` has the trainings. A model that is farther off than the encoding may
make it ends the experiment with an error.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments import accuracy_runs as runs
from experiments import output, tasks
from experiments.accuracy_runs import Case, Found, Sizes, Training
from experiments.tasks import Task


def rows(found: Found) -> list[dict[str, object]]:
    """The table for machines: a row for each round of each training."""
    lines: list[dict[str, object]] = []
    for case, trainings in found.items():
        swept = case.setting not in runs.SETTINGS
        differs = "not compared" if swept else runs.differing(found, case)
        size = len(case.task.test)
        for training in trainings:
            lines += [
                {
                    "data": case.task.data,
                    "net": case.task.net.name,
                    "dim": case.task.net.dim,
                    "protocol": case.protocol,
                    "setting": case.setting,
                    "seed": training.seed,
                    "round": one.number,
                    "survivors": one.survivors,
                    "accuracy": one.right / size,
                    "plain_accuracy": one.plain_right / size,
                    "deviation": one.deviation,
                    "max_error": case.spec.max_error,
                    "replayed": one.replayed,
                    "bound": one.bound,
                    "distance": one.distance,
                    "differs_from_plain": differs,
                    "clipped": training.clipped,
                }
                for one in training.rounds
            ]
    return lines


class Page:
    """Tables and text of what was found."""

    def __init__(
        self, found: Found, refused: Mapping[Case, str], missing: Mapping[str, str], sizes: Sizes
    ) -> None:
        self.found = found
        self._refused = refused
        self._missing = missing
        self.sizes = sizes
        self.tasks = list(dict.fromkeys(case.task for case in found))

    def parts(self) -> list[str]:
        """Everything below the head."""
        picture = "![accuracy round by round, and distance by bits](accuracy.svg)"
        return [
            self._short(),
            picture,
            self._protocols(),
            self._encodings(),
            self._sweep(),
            self._accuracy(),
            self._literature(),
            self._setting(),
        ]

    def trainings(self, task: Task, protocol: str, setting: str) -> list[Training]:
        """Those of a case."""
        return self.found[Case(task, protocol, setting)]

    def _of(self, setting: str, task: Task | None = None) -> list[Training]:
        return [
            training
            for case, trainings in self.found.items()
            for training in trainings
            if case.setting == setting and task in (None, case.task)
        ]

    def _short(self) -> str:
        compared = [
            case for case in self.found if case.setting in runs.SETTINGS and case.protocol != runs.PLAIN
        ]
        same = [case for case in compared if not runs.differing(self.found, case)]
        others = [case for case in compared if case not in same]
        trainings = [one for found in self.found.values() for one in found]
        share = max(one.replayed / one.bound for training in trainings for one in training.rounds)
        rounds = sum(len(training.rounds) for training in trainings)
        points = f"""
In {len(same)} of {len(compared)} cases (a data set, an encoding, a protocol that protects) every model of
every round is that of `plain`, to the last bit{self._exceptions(others)}.

{rounds:,} rounds have a sum, and no mean is off by more than `max_error` of its job. Models are off
those that are made of the same updates in float64 by at most {share:.0%} of what `max_error` and the
rounding of the models allow.

{self._in_accuracy()}
"""
        return "\n".join(["## In short", "", output.points(points)])

    def _exceptions(self, others: Sequence[Case]) -> str:
        if not others:
            return ""
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(case.protocol for case in others))
        settings = ", ".join(f'"{name}"' for name in dict.fromkeys(case.setting for case in others))
        return (
            f". The others are {names} with {settings}: what rounds at random is drawn again there, "
            "and the models stay within the bound"
        )

    def _in_accuracy(self) -> str:
        said = []
        for setting in runs.SETTINGS:
            apart = [abs(one.right - one.plain_right) for t in self._of(setting) for one in t.rounds]
            if apart:
                said.append(f'{max(apart)} with "{setting}"')
        return (
            "Plain FedAvg, which trains by itself from the same seeds, labels other test examples rightly "
            f"than the jobs do: the counts differ by at most {', '.join(said)}, in any round."
        )

    def _protocols(self) -> str:
        """Whose models are those of `plain`."""
        header = ["data", "protocol", *runs.SETTINGS]
        lines = []
        for task in self.tasks:
            for protocol in self.sizes.protocols:
                if protocol == runs.PLAIN:
                    continue
                cells = [self._differs(Case(task, protocol, setting)) for setting in runs.SETTINGS]
                lines.append([task.data, f"`{protocol}`", *cells])
        text = """
Coordinates, of the models of all rounds and seeds, that are not those of `plain` with the same encoding. 0:
the models are the same to the last bit.
"""
        notes = [
            f"* `{protocol}`, {setting}: {why}."
            for (protocol, setting), why in {
                (case.protocol, case.setting): why for case, why in self._refused.items()
            }.items()
        ]
        parts = ["## Every protocol against `plain`", output.filled(text), output.table(header, lines)]
        if notes:
            parts += ["There is no such job:", "\n".join(notes)]
        return "\n\n".join(parts)

    def _differs(self, case: Case) -> str:
        return f"{runs.differing(self.found, case):,}" if case in self.found else "–"

    def _encodings(self) -> str:
        """How far off the encodings are, of all protocols together."""
        header = ["data", "encoding", "`max_error`", "mean off by", "model off by", "allowed"]
        header += ["clipped", "from plain FedAvg", "accuracy", "plain FedAvg"]
        lines = [
            [task.data, setting, *self._numbers(self._of(setting, task))]
            for task in self.tasks
            for setting in runs.SETTINGS
        ]
        text = f"""
The largest over all protocols, seeds and rounds. *Mean off by* is the largest error of a coordinate of a
round's mean. *Model off by* is that of a model after {self.sizes.rounds} rounds against one that is made of
the same updates in float64, and *allowed* is what `max_error` and the rounding of the model allow it.
*From plain FedAvg* is the largest difference of a coordinate from the model that plain FedAvg makes: it
trains on from its own models, so that training carries on what rounding began. No bound of the encoding
limits that.
"""
        return "\n\n".join(
            ["## Every encoding against float64", output.filled(text), output.table(header, lines)]
        )

    def _numbers(self, trainings: Sequence[Training]) -> list[str]:
        if not trainings:
            return ["–"] * 8
        rounds = [one for training in trainings for one in training.rounds]
        last = [training.rounds[-1] for training in trainings]
        size = len(trainings[0].case.task.test)
        bound = max(training.case.spec.max_error for training in trainings)
        return [
            f"{bound:.2e}",
            f"{max(one.deviation for one in rounds):.2e}",
            f"{max(one.replayed for one in last):.2e}",
            f"{max(one.bound for one in last):.2e}",
            str(sum(training.clipped for training in trainings)),
            f"{max(one.distance for one in last):.2e}",
            f"{100 * statistics.fmean(one.right for one in last) / size:.2f} %",
            f"{100 * statistics.fmean(one.plain_right for one in last) / size:.2f} %",
        ]

    def by_bits(self, task: Task) -> list[tuple[int, list[Training]]]:
        """Trainings of one protocol by the number of bits."""
        found = [(16, self.trainings(task, runs.SWEPT, runs.STOCHASTIC))]
        found += [(bits, self.trainings(task, runs.SWEPT, f"{bits} bits")) for bits in self.sizes.sweep]
        return sorted(found, key=lambda one: one[0])

    def _sweep(self) -> str:
        header = ["data", "bits", "`max_error`", "mean off by", "model off by", "allowed", "clipped"]
        header += ["from plain FedAvg", "accuracy", "plain FedAvg"]
        lines = [
            [task.data, str(bits), *self._numbers(trainings)]
            for task in self.tasks
            for bits, trainings in self.by_bits(task)
        ]
        text = f"""
`{runs.SWEPT}` alone, as all protocols give the same. If the encoding alone parts a job from plain FedAvg, the
distance must shrink with the step of the encoding. {self._shrinks()}
"""
        return "\n\n".join(
            ["## The difference is the encoding's", output.filled(text), output.table(header, lines)]
        )

    def _shrinks(self) -> str:
        said = []
        for task in self.tasks:
            (few, coarse), *_, (many, fine) = self.by_bits(task)
            ratios = [
                max(training.rounds[-1].distance for training in trainings) for trainings in (coarse, fine)
            ]
            said.append(
                f"From {few} to {many} bits the step shrinks by {2 ** (many - few):,}, and the distance "
                f"on {task.data} by {ratios[0] / ratios[1]:,.0f}."
            )
        return " ".join(said)

    def _accuracy(self) -> str:
        """Accuracy per round, of the first seed."""
        parts = ["## Accuracy by round"]
        for task in self.tasks:
            size = len(task.test)
            settings = [name for name in runs.SETTINGS if Case(task, runs.SWEPT, name) in self.found]
            columns = {name: self.trainings(task, runs.SWEPT, name)[0].rounds for name in settings}
            header = ["round", "plain FedAvg", *[f"`{runs.SWEPT}`, {name}" for name in settings]]
            lines = []
            for place in range(self.sizes.rounds):
                plain = columns[settings[0]][place].plain_right
                counts = [plain, *[columns[name][place].right for name in settings]]
                lines.append([str(place + 1), *[f"{100 * count / size:.2f}" for count in counts]])
            parts += [f"### {task.data}, {task.net.name}, percent, seed 0", output.table(header, lines)]
        text = f"""
Plain FedAvg in the first column has all parties. Where a party is lost in each round (`{runs.LOSSES}`), it is
compared with plain FedAvg of the survivors above.
"""
        return "\n\n".join([*parts, output.filled(text)])

    def _literature(self) -> str:
        apart = [
            abs(one.right - one.plain_right) / len(training.case.task.test)
            for setting in runs.SETTINGS
            for training in self._of(setting)
            for one in training.rounds
        ]
        few = [
            abs(one.right - one.plain_right) / len(training.case.task.test)
            for training in self._of(runs.STOCHASTIC)
            for one in training.rounds
        ]
        points = f"""
The thesis on three servers (B. Akhtar, Virginia Tech, 2024) compares accuracy with and without secure
aggregation once for each net, on CIFAR: differences from -0.0011 to 0.0390 (Table 5.21) and from -0.0383 to
0.0307 (Table 5.22). It puts them down to random flips and crops of images, which were other ones in each
run. Here both have the same seeds, and the largest difference in any round is {max(apart):.4f}.

FLASHE trains with 16 bits, and draws that beside full precision without numbers of the latter (Figure 9).
Here accuracy with 16 bits is that of float training but for {max(few):.4f} at most, in any round.
"""
        return "\n".join(["## What the papers say, and what is seen here", "", output.points(points)])

    def _setting(self) -> str:
        nets = "; ".join(
            f"{task.data} ({len(task.train):,} examples for training, {len(task.test):,} for the test): "
            f"{task.net.name}, D = {task.net.dim:,}, {task.steps} local steps of {task.batch} images, rate "
            f"{task.rate:g}"
            for task in self.tasks
        )
        points = f"""
{nets}.

{runs.PARTIES} parties of equal weight, partition `{runs.PARTITION}`, {self.sizes.rounds} rounds,
seeds: {self.sizes.seeds}. `clip` = {runs.CLIP:g}. In `{runs.LOSSES}` another party vanishes in each round
before it gives its update.

All rounds are those of the real protocol, by `blindsum.simulate_training`: every message is made, sealed,
opened and checked. With one seed all protocols round an update in the same way.
"""
        points += "".join(f"\n\nNot run: {why}" for why in self._missing.values())
        return "\n".join(["## Setting", "", output.points(points)])


def plot(page: Page, path: Path) -> None:
    """Draw accuracy by round, and the distance from plain FedAvg by bits."""
    drawn, axes = output.figure(2, len(page.tasks))
    for row, task in enumerate(page.tasks):
        left, right = axes[2 * row], axes[2 * row + 1]
        size = len(task.test)
        trained = page.trainings(task, runs.SWEPT, runs.STOCHASTIC)[0].rounds
        numbers = [one.number for one in trained]
        left.plot(numbers, [100 * one.plain_right / size for one in trained], linewidth=4, alpha=0.4)
        for protocol in page.sizes.protocols:
            rounds = page.trainings(task, protocol, runs.STOCHASTIC)[0].rounds
            left.plot(numbers, [100 * one.right / size for one in rounds], linewidth=1, label=protocol)
        left.set_title(f"{task.data}: all protocols; wide: plain FedAvg", fontsize="medium")
        left.set_xlabel("round")
        left.set_ylabel("accuracy, %")
        left.xaxis.get_major_locator().set_params(integer=True)
        left.legend(fontsize="x-small", loc="lower right")
        bits = [count for count, _ in page.by_bits(task)]
        for what, label in (("distance", "from plain FedAvg"), ("replayed", "off"), ("bound", "allowed")):
            values = [
                max(getattr(one.rounds[-1], what) for one in trainings) for _, trainings in page.by_bits(task)
            ]
            right.semilogy(bits, values, marker="o", markersize=3, label=label)
        right.set_title(f"{task.data}: models at the end, by bits", fontsize="medium")
        right.set_xlabel("bits")
        right.set_ylabel("largest difference of a coordinate")
        right.legend(fontsize="x-small")
    output.save(drawn, path)


def main(words: Sequence[str] | None = None) -> None:
    """Train, and write."""
    options = output.options(words, "accuracy", "Accuracy of every protocol against plain training.")
    sizes = runs.QUICK if options.quick else runs.FULL
    found, refused = runs.run(sizes)
    output.write_csv(options, "accuracy.csv", rows(found))
    missing = tasks.missing([task.data for task in sizes.tasks])
    page = Page(found, refused, missing, sizes)
    plot(page, options.out / "accuracy.svg")
    title = "Training with every protocol, and with none"
    output.write_page(options, "accuracy.md", title, page.parts(), timed=False)


if __name__ == "__main__":
    main()
