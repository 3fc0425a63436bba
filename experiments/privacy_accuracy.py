"""What noise costs in accuracy: a frozen net with a new last layer, a whole net, and where noise is added.

    python -m experiments.privacy_accuracy [--quick] [--out FOLDER]

After the use cases of the thesis on three servers (Figures 5.14 and 5.15) and of MYSTIKO (Figure 6), on
handwritten digits. `privacy_accuracy_runs` has the trainings.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from experiments import output
from experiments import privacy_accuracy_runs as runs
from experiments.privacy_accuracy_runs import CENTRAL, DISTRIBUTED, LOCAL, NONE, Case, Found, Sizes


def ends(found: Found, case: Case) -> list[float]:
    """Accuracies after the last round, in percent, one for each seed."""
    return [100 * one[-1] for one in found[case]]


def spread(values: Sequence[float]) -> float:
    """Their standard deviation; 0 of a single one."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def shown(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    return f"{statistics.fmean(values):.1f} ± {spread(values):.1f}"


def apart(one: Sequence[float], other: Sequence[float]) -> str:
    """The mean of the differences of equal seeds, and the standard error of it."""
    differences = [a - b for a, b in zip(one, other, strict=True)]
    return f"{statistics.fmean(differences):+.1f} ± {spread(differences) / len(differences) ** 0.5:.1f}"


class Page:
    """Tables and text of what was found."""

    def __init__(self, found: Found, sizes: Sizes) -> None:
        self._found = found
        self._sizes = sizes
        self._beside = max(sizes.beside)

    def case(self, noise: str, parties: int, epsilon: float) -> Case:
        """A training of the last layer."""
        protocol = "secagg+" if noise in (NONE, DISTRIBUTED) else "plain"
        return Case(runs.FINE_TUNED, protocol, noise, parties, epsilon, self._sizes.rounds)

    def ends(self, noise: str, parties: int, epsilon: float = 0.0) -> list[float]:
        """Its accuracies in the end."""
        return ends(self._found, self.case(noise, parties, epsilon))

    def whole(self, rate: float, epsilon: float) -> Case:
        """A training of a whole small net."""
        sizes, noise = self._sizes, DISTRIBUTED if epsilon else NONE
        return Case(
            runs.whole_net(rate), runs.PAILLIER, noise, sizes.small_parties, epsilon, sizes.small_rounds
        )

    def peak(self, epsilon: float) -> tuple[float, list[float]]:
        """The rate with the best mean, and its accuracies."""
        return max(
            ((rate, ends(self._found, self.whole(rate, epsilon))) for rate in self._sizes.rates),
            key=lambda pair: statistics.fmean(pair[1]),
        )

    def parts(self) -> list[str]:
        """Everything below the head."""
        picture = "![accuracy against ε, where noise is added, and round by round](privacy-accuracy.svg)"
        return [
            self._short(),
            picture,
            self._parties(),
            self._by_round(),
            self._places(),
            self._mystiko(),
            self._setting(),
        ]

    def _short(self) -> str:
        sizes = self._sizes
        few, many, last = min(sizes.parties), max(sizes.parties), max(sizes.epsilons)
        free = self.ends(NONE, many)
        lines = [
            f"With ε = {last:g} after {sizes.rounds} rounds {many} parties reach "
            f"{shown(self.ends(DISTRIBUTED, many, last))} %, without noise {shown(free)} %; {few} parties "
            f"reach {shown(self.ends(DISTRIBUTED, few, last))} %. The noise of a sum does not depend on how "
            "many have given to it, so its part in the mean falls as 1 / parties.",
            f"Of {self._beside} parties at ε = {last:g}: distributed noise has "
            f"{self._apart(DISTRIBUTED, CENTRAL, last)} points against noise that a trusted server would add "
            f"once, and {self._apart(DISTRIBUTED, LOCAL, last)} points against noise with which every party "
            "protects itself alone (differences of equal seeds, with their standard errors).",
            "This ε protects a party with all of its data. The papers' ε protects a record, or has no unit: "
            "their numbers cannot be compared with these.",
        ]
        return "\n".join(["## In short", "", output.points(lines)])

    def _apart(self, one: str, other: str, epsilon: float) -> str:
        return apart(self.ends(one, self._beside, epsilon), self.ends(other, self._beside, epsilon))

    def _parties(self) -> str:
        sizes = self._sizes
        header = ["parties", "honest", *[f"ε = {one:g}" for one in sizes.epsilons], "no noise"]
        lines = []
        for parties in sizes.parties:
            honest = runs.claim(self.case(DISTRIBUTED, parties, sizes.epsilons[0]).spec).honest
            cells = [shown(self.ends(DISTRIBUTED, parties, one)) for one in sizes.epsilons]
            lines.append([str(parties), str(honest), *cells, shown(self.ends(NONE, parties))])
        text = f"""
A net is trained with {runs.PUBLIC} public images and frozen: {100 * runs.frozen()[2]:.1f} % of the test
images are right with the layer that it had. Parties train a last layer of {runs.FINE_TUNED.net.dim}
parameters from zeros, in jobs of `secagg+` with noise. Accuracy in percent after {sizes.rounds} rounds:
mean and standard deviation of {sizes.seeds} trainings with other parts, batches and noise. Noise is that of
the honest survivors that the claim counts on.
"""
        return "\n\n".join(
            [
                "## Parties and ε (after Figures 5.14 and 5.15 of the thesis)",
                output.filled(text),
                output.table(header, lines),
            ]
        )

    def _by_round(self) -> str:
        sizes = self._sizes
        parties, target = max(sizes.parties), max(sizes.epsilons)
        case = self.case(DISTRIBUTED, parties, target)
        header = ["round", "ε so far", "accuracy"]
        lines = []
        for place in range(sizes.rounds):
            said = runs.claim(case.spec, place + 1)
            values = [100 * one[place] for one in self._found[case]]
            lines.append([str(place + 1), f"{said.epsilon:.2f}", shown(values)])
        text = f"""
The thesis shows accuracy and ε by epoch, for σ of 2 and 4. Here {parties} parties, ε = {target:g} in the
end: the multiplier is {runs.claim(case.spec).noise_multiplier:.3f}. Every release counts, without
amplification: whoever chooses the parties of a round sees them.
"""
        return "\n\n".join(["### Round by round", output.filled(text), output.table(header, lines)])

    def _places(self) -> str:
        sizes = self._sizes
        header = [
            "parties",
            "ε",
            "central",
            "distributed",
            "local",
            "distributed − central",
            "distributed − local",
        ]
        lines = []
        for parties in sizes.beside:
            for epsilon in sizes.epsilons:
                central, shares, local = (
                    self.ends(noise, parties, epsilon) for noise in (CENTRAL, DISTRIBUTED, LOCAL)
                )
                cells = [shown(one) for one in (central, shares, local)]
                differences = [apart(shares, central), apart(shares, local)]
                lines.append([str(parties), f"{epsilon:g}", *cells, *differences])
        ratios = ", ".join(
            f"{parties / runs.claim(self.case(DISTRIBUTED, parties, sizes.epsilons[0]).spec).honest:.2f} of "
            f"{parties} parties"
            for parties in sizes.beside
        )
        text = f"""
"Distributed" is a job of `secagg+` with `privacy`. The other two are no options of Blindsum, and are
simulated beside it: jobs of `plain` with the same clipping and rounding, and noise of the same mechanism
and multiplier, which an exact sampler draws and this experiment adds to the sum. "Central" is added once,
as by a trusted server that sees all updates. "Local" is that of one mechanism for each party, as where
nobody is trusted and updates are not masked. So the variance of distributed noise is that of central
noise times parties by honest survivors ({ratios}), and that of local noise is as many times as there are
parties. Differences are of equal seeds, with their standard errors.
"""
        return "\n\n".join(
            ["## Central, distributed and local noise", output.filled(text), output.table(header, lines)]
        )

    def _mystiko(self) -> str:
        sizes = self._sizes
        header = ["ε", "best accuracy", "of rate", "less than without noise"]
        free = statistics.fmean(self.peak(0.0)[1])
        lines = []
        for epsilon in (*sizes.small_epsilons, 0.0):
            rate, values = self.peak(epsilon)
            lines.append(
                [
                    f"{epsilon:g}" if epsilon else "no noise",
                    shown(values),
                    f"{rate:g}",
                    f"{free - statistics.fmean(values):.1f}",
                ]
            )
        net = runs.whole_net(sizes.rates[0]).net
        rates = " and ".join(f"{rate:g}" for rate in sizes.rates)
        text = f"""
MYSTIKO's Figure 6 has the accuracy on validation data against ε, for larger nets and data, and takes for
each ε the best of several learning rates and batch sizes. Its noise is that of DP-SGD, for a record. Here
{sizes.small_parties} parties train all {net.dim} parameters of a {net.name} in {sizes.small_rounds} rounds
of `{runs.PAILLIER}`, {sizes.small_seeds} trainings each, and the better of the rates {rates} counts, by the
test images. Such a choice is not free of charge: it looks at data that no ε here counts.
"""
        return "\n\n".join(
            [
                "## A whole net (after Figure 6 of MYSTIKO)",
                output.filled(text),
                output.table(header, lines),
            ]
        )

    def _setting(self) -> str:
        task = runs.FINE_TUNED
        points = f"""
Digits of 8 by 8 pixels, dealt at random: {len(runs.frozen()[0]):,} images of parties, {len(task.test)} for
the test. One image is {100 / len(task.test):.2f} points. The thesis has a vision transformer and CIFAR-10.

{task.steps} local steps of {task.batch} images, rate {task.rate:g}; updates are clipped to a norm of
{runs.CLIP:g} and rounded to {runs.BITS} bits. These were chosen with trials on the same digits, with and
without noise, and the same for all ε.

δ = {runs.DELTA:g}, `corrupt` and `dropout` {runs.CORRUPT:g}, `spare` 0, `adjacency = "zero-out"`, nobody is
lost.
"""
        return "\n".join(["## Setting", "", output.points(points)])

    def plot(self, path: Path) -> None:
        """Draw accuracy against ε by parties, by where noise is added, of whole nets, and by round."""
        sizes = self._sizes
        drawn, axes = output.figure(2, 2)
        for parties in sizes.parties:
            self._line(axes[0], DISTRIBUTED, parties, f"{parties} parties")
        free = statistics.fmean(self.ends(NONE, max(sizes.parties)))
        axes[0].axhline(free, color="black", linewidth=1, label="no noise")
        for noise in (CENTRAL, DISTRIBUTED, LOCAL):
            self._line(axes[1], noise, self._beside, noise)
        axes[1].set_title(f"{self._beside} parties", fontsize="medium")
        peaks = [self.peak(one)[1] for one in sizes.small_epsilons]
        axes[2].errorbar(
            sizes.small_epsilons,
            [statistics.fmean(one) for one in peaks],
            [spread(one) for one in peaks],
            marker="o",
            capsize=3,
            label=runs.PAILLIER,
        )
        axes[2].axhline(statistics.fmean(self.peak(0.0)[1]), color="black", linewidth=1, label="no noise")
        for epsilon in sizes.epsilons:
            trainings = self._found[self.case(DISTRIBUTED, max(sizes.parties), epsilon)]
            means = [100 * statistics.fmean(values) for values in zip(*trainings, strict=True)]
            axes[3].plot(range(1, len(means) + 1), means, marker=".", label=f"ε = {epsilon:g}")
        axes[3].set_title(f"{max(sizes.parties)} parties", fontsize="medium")
        for one in axes[:3]:
            one.set_xscale("log")
            one.set_xlabel("ε after all rounds")
        axes[3].set_xlabel("round")
        for one in axes:
            one.set_ylabel("accuracy, %")
            one.legend(fontsize="x-small")
        output.save(drawn, path)

    def _line(self, axes: object, noise: str, parties: int, label: str) -> None:
        values = [self.ends(noise, parties, one) for one in self._sizes.epsilons]
        axes.errorbar(  # type: ignore[attr-defined]
            self._sizes.epsilons,
            [statistics.fmean(one) for one in values],
            [spread(one) for one in values],
            marker="o",
            markersize=4,
            capsize=3,
            label=label,
        )


def rows(found: Found) -> list[dict[str, object]]:
    """The table for machines: a row for each training."""
    return [
        {
            "net": case.task.net.name,
            "dim": case.task.net.dim,
            "protocol": case.protocol,
            "noise": case.noise,
            "parties": case.parties,
            "rounds": case.rounds,
            "rate": case.task.rate,
            "epsilon": case.epsilon,
            "delta": runs.DELTA,
            "multiplier": runs.claim(case.noisy).noise_multiplier if case.epsilon else 0.0,
            "seed": seed,
            "accuracy": one[-1],
        }
        for case, trainings in found.items()
        for seed, one in enumerate(trainings)
    ]


def round_rows(found: Found) -> list[dict[str, object]]:
    """The same by round, of the trainings with noise of the job: means over the seeds."""
    return [
        {
            "net": case.task.net.name,
            "parties": case.parties,
            "rate": case.task.rate,
            "epsilon": case.epsilon,
            "round": place + 1,
            "epsilon_so_far": runs.claim(case.spec, place + 1).epsilon,
            "accuracy": statistics.fmean(values),
            "deviation": spread(values),
        }
        for case, trainings in found.items()
        if case.noise == DISTRIBUTED
        for place, values in enumerate(zip(*trainings, strict=True))
    ]


def main(words: Sequence[str] | None = None) -> None:
    """Train, and write."""
    options = output.options(words, "privacy_accuracy", "Accuracy of trainings with noise, against ε.")
    sizes = runs.QUICK if options.quick else runs.FULL
    found = runs.run(sizes)
    output.write_csv(options, "privacy-accuracy.csv", rows(found))
    output.write_csv(options, "privacy-rounds.csv", round_rows(found))
    page = Page(found, sizes)
    page.plot(options.out / "privacy-accuracy.svg")
    title = "What noise costs in accuracy"
    output.write_page(options, "privacy-accuracy.md", title, page.parts(), timed=False)


if __name__ == "__main__":
    main()
