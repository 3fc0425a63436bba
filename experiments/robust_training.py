"""Robust rules under attack through jobs of `mpc3`: accuracy, a back door, an attack that aims at FLTrust.

    python -m experiments.robust_training [--quick | --large] [--out FOLDER]

Twenty parties, four of them attackers, train the demo's network on handwritten digits. Every round is one of
`mpc3` in the simulator: parties share encoded vectors, three servers compute the rule on shares, and the
result is compared with the rule in the clear. `robust_training_runs` has the trainings, `aimed` and `poison`
the attacks. `attacks` has more attackers, and some that do not use the encoding; it computes rules in the
clear.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blindsum.demo import network
from experiments import aimed, federated, output, trials
from experiments import robust_training_runs as runs
from experiments.aimed import ANTI_FLTRUST, BACKDOOR
from experiments.federated import PARTIES
from experiments.robust_training_runs import ATTACKERS, FLTRUST, NONE, Case, Found, Run, Sizes


def rows(found: Found) -> list[dict[str, object]]:
    """The table for machines: a row for each training."""
    return [
        {
            "split": case.split,
            "attack": case.attack,
            "rule": case.rule,
            "parties": PARTIES,
            "attackers": 0 if case.attack == NONE else ATTACKERS,
            "seed": seed,
            "rounds": run.sums,
            "accuracy": run.late_accuracy,
            "success": run.late_success,
            "least_accuracy": min(run.accuracy),
            "deviation": run.deviation,
            "left_out": run.left_out,
            "honest_cut": run.cut,
        }
        for case, trainings in found.items()
        for seed, run in enumerate(trainings)
    ]


class Page:
    """Tables and text of what was found."""

    def __init__(self, found: Found, sizes: Sizes) -> None:
        self._found = found
        self._sizes = sizes

    def parts(self) -> list[str]:
        """Everything below the head."""
        picture = "![accuracy by round and attack, and success of the back door](robust-training.svg)"
        tables = [part for split in self._sizes.splits for part in self._tables(split)]
        return [self._short(), picture, *tables, self._literature(), self._through(), self._setting()]

    def runs(self, split: str, attack: str, rule: str) -> list[Run]:
        """The trainings of a case."""
        return self._found[Case(split, attack, rule)]

    def percent(self, split: str, attack: str, rule: str, what: str = "late_accuracy") -> float:
        """A quantity of the last rounds, the mean over seeds."""
        return 100 * runs.over_seeds([getattr(run, what) for run in self.runs(split, attack, rule)])[0]

    def _cell(self, split: str, attack: str, rule: str, what: str = "late_accuracy") -> str:
        values = [getattr(run, what) for run in self.runs(split, attack, rule)]
        mean, spread = runs.over_seeds(values)
        return f"{100 * mean:.1f} ± {100 * spread:.1f}" if len(values) > 1 else f"{100 * mean:.1f}"

    def _short(self) -> str:
        points = []
        for split in self._sizes.splits:
            success = {
                rule: self.percent(split, BACKDOOR, rule, "late_success") for rule in self._sizes.rules
            }
            best, worst = min(success, key=success.__getitem__), max(success, key=success.__getitem__)
            keeps = [rule for rule, value in success.items() if value < 20]
            kept = ", ".join(f"`{rule}`" for rule in keeps) or "none"
            points.append(
                f"The back door (`{split}`): under `fedavg` {success['fedavg']:.1f} % of the marked images "
                f"get the label that attackers want, and accuracy is "
                f"{self.percent(split, BACKDOOR, 'fedavg'):.1f} % where it is "
                f"{self.percent(split, NONE, 'fedavg'):.1f} % without attackers. "
                f"Success is least with `{best}` ({success[best]:.1f} %) and most with `{worst}` "
                f"({success[worst]:.1f} %); below 20 %: {kept}."
            )
            calm = self.percent(split, NONE, FLTRUST)
            aimed_at = self.percent(split, ANTI_FLTRUST, FLTRUST)
            others = [
                self.percent(split, attack, FLTRUST)
                for attack in self._sizes.attacks
                if attack not in (NONE, ANTI_FLTRUST)
            ]
            points.append(
                f"The attack that aims at FLTrust (`{split}`) leaves `fltrust` {aimed_at:.1f} % accuracy, "
                f"where it has {calm:.1f} % without attackers and at least {min(others):.1f} % under every "
                "other attack here."
            )
        return "\n".join(["## In short", "", output.points(points)])

    def _tables(self, split: str) -> list[str]:
        attacks = self._sizes.attacks
        header = ["rule", *attacks]
        accuracy = [
            [f"`{rule}`", *[self._cell(split, attack, rule) for attack in attacks]]
            for rule in self._sizes.rules
        ]
        success = [
            [
                f"`{rule}`",
                self._cell(split, NONE, rule, "late_success"),
                self._cell(split, BACKDOOR, rule, "late_success"),
                self._cell(split, BACKDOOR, rule),
            ]
            for rule in self._sizes.rules
        ]
        share = ATTACKERS / PARTIES
        return [
            f"## `{split}`: {trials.SPLITS[split]}",
            output.filled(f"Accuracy in percent, with {share:.0%} of attackers."),
            output.table(header, accuracy),
            output.filled(
                f"Marked images of other digits that are labelled {aimed.TARGET}, in percent, without "
                "attackers and with the back door; and the accuracy with it."
            ),
            output.table(["rule", "success, none", "success, backdoor", "accuracy, backdoor"], success),
        ]

    def _literature(self) -> str:
        split = self._sizes.splits[-1]
        change = self.percent(split, NONE, FLTRUST) - self.percent(split, ANTI_FLTRUST, FLTRUST)
        worst = max(self.percent(one, BACKDOOR, FLTRUST, "late_success") for one in self._sizes.splits)
        scaled = max(self.percent(one, BACKDOOR, "fedavg", "late_success") for one in self._sizes.splits)
        points = f"""
The thesis on three servers (B. Akhtar, Virginia Tech, 2024) describes the scaled back door (§2.1.3) and
offers FedAvg and FLTrust on three servers; it measures no accuracy under attack. Here FedAvg takes the back
door in ({scaled:.1f} % at most), and with FLTrust it succeeds with {worst:.1f} % at most.

Cao et al. (2021) report that FLTrust holds against the scaling attack and against an attack that is adapted
to it, which they find by gradients, with larger images and more parties. Here the adapted attack costs it
{change:.1f} points (`{split}`). It is told everything: the root's update, all honest ones and the rule; it
keeps to one vector for all attackers.

Bagdasaryan et al. (2020) scale so that one round plants the back door. Here attackers scale in every round,
by {PARTIES / ATTACKERS:g}.
"""
        return "\n".join(["## What the papers say, and what is seen here", "", output.points(points)])

    def _through(self) -> str:
        """What the protocol itself did."""
        whole = [run for trainings in self._found.values() for run in trainings]
        largest = {
            rule: max(
                run.deviation
                for case, trainings in self._found.items()
                if case.rule == rule
                for run in trainings
            )
            for rule in self._sizes.rules
        }
        header = ["rule", "largest error of a coordinate"]
        lines = [[f"`{rule}`", f"{value:.1e}"] for rule, value in largest.items()]
        text = f"""
All {sum(run.sums for run in whole):,} rounds are jobs of `mpc3` with `adversary = "semi-honest"`, by
`blindsum.simulate_training`, and all have a result. It is compared with the rule in the
clear; what is left is what the encoding and the servers round.
{sum(run.left_out for run in whole)} vectors did not pass the gate.
"""
        return "\n\n".join(["## Through the protocol", output.filled(text), output.table(header, lines)])

    def _setting(self) -> str:
        sizes = self._sizes
        points = f"""
Data: scikit-learn's handwritten digits of 8 × 8 pixels. {PARTIES} parties share the training images but for
{federated.ROOT}, which are those of the root of `fltrust`: one party more, which is no attacker.

Training: the network of the demo, D = {network.DIM:,}; {federated.LOCAL_STEPS} local steps of
{federated.BATCH} images, rate {federated.LEARNING_RATE}; rounds: {sizes.rounds}; seeds: {sizes.seeds}.
Accuracy and success are means over the last {trials.AFTER} rounds, then over seeds, with the standard
deviation between them.

Back door: the mark is two by two bright pixels in a corner. Attackers train on their images and on marked
copies with the label {aimed.TARGET}, and send {PARTIES / ATTACKERS:g} times the change. Success is measured
on marked test images of all other digits.

Attackers use the encoding: 16 bits, and an L2 norm of {runs.ENCODING.clip:g} at most, to which longer vectors
are shortened. What could be sent beside it, and what the gate does about it:
[rules under attack](attacks.md).

Rules are told the true number of attackers (`krum`, `multi-krum`, `trimmed-mean`), the norm {trials.CLIP}
(`clipped`), and weights, of which attackers say the most that the job takes, {runs.WEIGHT} (`weighted`).
"""
        return "\n".join(["## Setting", "", output.points(points)])


def plot(page: Page, sizes: Sizes, path: Path) -> None:
    """Draw accuracy by round of FedAvg and FLTrust, and success of the back door by rule."""
    drawn, axes = output.figure(3, len(sizes.splits))
    panels = iter(axes)
    for split in sizes.splits:
        for rule in ("fedavg", FLTRUST):
            panel = next(panels)
            for attack in sizes.attacks:
                _draw(panel, [run.accuracy for run in page.runs(split, attack, rule)], attack)
            panel.set_title(f"{rule}, {split}", fontsize="medium")
            panel.set_ylabel("accuracy, %")
            panel.legend(fontsize="x-small", loc="lower left")
        panel = next(panels)
        for rule in sizes.rules:
            _draw(panel, [run.success for run in page.runs(split, BACKDOOR, rule)], rule)
        panel.set_title(f"back door, {split}", fontsize="medium")
        panel.set_ylabel("success, %")
        panel.legend(fontsize="x-small", loc="center right")
    for panel in axes:
        panel.set_ylim(-2, 102)
        panel.set_xlabel("round")
    output.save(drawn, path)


def _draw(panel: Any, trainings: Sequence[Sequence[float]], label: str) -> None:
    means = [100 * sum(values) / len(values) for values in zip(*trainings, strict=True)]
    panel.plot(range(1, len(means) + 1), means, label=label)


def main(words: Sequence[str] | None = None) -> None:
    """Train, and write."""
    options = output.options(
        words, "robust_training", "Robust rules under attack, through jobs of mpc3.", has_large=True
    )
    sizes = runs.QUICK if options.quick else runs.LARGE if options.large else runs.FULL
    found = runs.run(sizes)
    output.write_csv(options, "robust-training.csv", rows(found))
    page = Page(found, sizes)
    plot(page, sizes, options.out / "robust-training.svg")
    title = "Robust rules under attack, through three servers"
    output.write_page(options, "robust-training.md", title, page.parts(), timed=False)


if __name__ == "__main__":
    main()
