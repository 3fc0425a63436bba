"""Accuracy of every rule under attack: parties that train on wrong labels, or send other vectors.

    python -m experiments.attacks [--quick] [--out FOLDER]

Twenty parties train the demo's network on handwritten digits. The updates become the whole numbers that three
servers compute with, and :mod:`blindsum.rules` makes one of them. ``federated`` has the training, ``poison``
the attacks, ``robust`` what the servers see and let through, and ``trials`` puts them together.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from blindsum.demo import network
from experiments import federated, output, poison, robust, trials
from experiments.federated import PARTIES
from experiments.trials import CAUTIOUS, CLIP, ENCODING, NONE, SPLITS, Case, Results, Run, Sizes, accuracy

SOME = 4
"""A number of attackers that the text is about, beside the most."""


def rows(found: Results) -> list[dict[str, object]]:
    """The table for machines."""
    lines: list[dict[str, object]] = []
    for case, runs in found.items():
        mean, spread = accuracy(runs)
        lines.append(
            {
                "split": case.split,
                "attack": case.attack,
                "attackers": case.attackers,
                "parties": PARTIES,
                "rule": case.rule,
                "told": case.told,
                "seeds": len(runs),
                "accuracy": mean,
                "deviation": spread,
                "least": min(run.accuracy for run in runs),
                "rounds_refused": sum(run.refused for run in runs),
                "honest_left_out": sum(run.honest_out for run in runs),
                "attackers_left_out": sum(run.attackers_out for run in runs),
                "honest_cut": sum(run.honest_cut for run in runs),
                "error_bound": max(run.bound for run in runs),
            }
        )
    return lines


class Page:
    """Tables and text of what was found."""

    def __init__(self, found: Results, sizes: Sizes) -> None:
        self._found = found
        self._sizes = sizes

    def parts(self) -> list[str]:
        """Everything below the head."""
        picture = "![accuracy against the part of attackers, one panel an attack](attacks.svg)"
        return [self._short(), picture, self._reading(), self._setting(), *self._tables(), self._caution()]

    def runs(self, split: str, attack: str, count: int, rule: str, told: int | None = None) -> list[Run]:
        """The runs of a case; without attackers all attacks are the same."""
        attack = attack if count else NONE
        return self._found[Case(split, attack, count, rule, count if told is None else told)]

    def _cell(self, split: str, attack: str, count: int, rule: str, told: int | None = None) -> str:
        mean, spread = accuracy(self.runs(split, attack, count, rule, told))
        return f"{100 * mean:.1f} ± {100 * spread:.1f}"

    def percent(self, split: str, attack: str, count: int, rule: str) -> float:
        """Mean accuracy in percent."""
        return 100 * accuracy(self.runs(split, attack, count, rule))[0]

    def worst(self, split: str, count: int, rule: str) -> tuple[float, str]:
        """The accuracy in percent under the attack that does most, and this attack."""
        return min((self.percent(split, attack, count, rule), attack) for attack in poison.ATTACKS)

    def _short(self) -> str:
        """The worst of each rule."""
        some, most = SOME, max(self._sizes.attackers)
        columns = [f"no attack, `{split}`" for split in SPLITS]
        columns += [f"{count / PARTIES:.0%}, `{split}`" for count in (some, most) for split in SPLITS]
        lines = []
        for rule in robust.RULES:
            cells = [f"{self.percent(split, NONE, 0, rule):.1f}" for split in SPLITS]
            for count in (some, most):
                found = [self.worst(split, count, rule) for split in SPLITS]
                cells += [f"{value:.1f} {attack}" for value, attack in found]
            lines.append([f"`{rule}`", *cells])
        text = f"""
Accuracy in percent without attackers, and under the attack that does most, of {some / PARTIES:.0%} and
{most / PARTIES:.0%} of the parties. {self.percent("iid", NONE, 0, trials.ROOT_ALONE):.1f} is what the
servers reach with their {federated.ROOT} images alone.
"""
        return "\n\n".join(["## In short", _filled(text), output.table(["rule", *columns], lines)])

    def _tables(self) -> list[str]:
        counts = (0, *self._sizes.attackers)
        header = ["rule", *[f"{count / PARTIES:.0%} attackers" for count in counts]]
        parts = []
        for split, meaning in SPLITS.items():
            parts.append(f"## `{split}`: {meaning}")
            for attack in poison.ATTACKS:
                lines = [
                    [f"`{rule}`", *[self._cell(split, attack, count, rule) for count in counts]]
                    for rule in robust.RULES
                ]
                parts += [f"### {attack}", output.table(header, lines)]
        return parts

    def _caution(self) -> str:
        """What it costs to be told of more attackers than there are."""
        few, most = SOME, max(self._sizes.attackers)
        columns = [(NONE, 0), *[(attack, few) for attack in poison.ATTACKS]]
        header = ["split", "rule", "told", *[f"{attack}, {count / PARTIES:.0%}" for attack, count in columns]]
        lines = []
        for split in SPLITS:
            for rule in CAUTIOUS:
                for told in (None, most):
                    cells = [self._cell(split, attack, count, rule, told) for attack, count in columns]
                    said = "the number" if told is None else str(told)
                    lines.append([f"`{split}`", f"`{rule}`", said, *cells])
        text = f"""
In a real job nobody knows the number of attackers. Here the rules that must be told one are told {most},
whatever the truth is; without attackers the true number makes `multi_krum` and `trimmed_mean` plain
means. It costs little where all have the same digits. Where they differ `multi_krum` leaves out honest
parties that it needs.
"""
        return "\n\n".join(["## Told too many", _filled(text), output.table(header, lines)])

    def _setting(self) -> str:
        sizes = self._sizes
        points = f"""
Data: scikit-learn's 1,797 handwritten digits of 8 × 8 pixels, 360 of them for the test. {PARTIES} parties
share the rest but for {federated.ROOT} images, which the servers have as the root of `fltrust`. Attackers
are drawn at random.

Training: the network of the demo, D = {network.DIM:,}; {federated.LOCAL_STEPS} local steps of
{federated.BATCH} images, rate {federated.LEARNING_RATE}; {sizes.rounds} rounds, the mean is added to the
model. Accuracy is the mean over the last {trials.AFTER} rounds in percent, then over {sizes.seeds} seeds,
with the standard deviation between them. All rules and attacks of a seed have the same images, parties,
batches and first model. Other processors may round differently, which may change last digits.

Numbers: updates are cut to the norm {ENCODING.clip} and rounded at random to {ENCODING.bits} bits. Of the
honest ones {self._cut():.2%} were cut where nobody attacked; a model that attackers have broken makes
longer ones. The rules get these whole numbers, as three servers would have them. Their results are exact,
or off by the bound that `blindsum.rules.error_bound` says: in the last rounds it was at most
{self._largest_bound()}

Attackers send what the servers let through, not what the encoding gives: at the gate of `clipped`,
`fltrust`, `krum`, `multi_krum` and `cosine` vectors up to {ENCODING.reach / ENCODING.top:.1f} times as
long as the clip, at `median` and `trimmed_mean` any coordinate of the encoding's range, at `fedavg` and
`weighted` anything whose sum could be honest. The gate left out {self._out("honest_out"):,} vectors of
honest parties and {self._out("attackers_out"):,} of attackers, and {self._out("refused"):,} sums were
refused.

What rules are told: `krum`, `multi_krum` (f) and `trimmed_mean` (at either end) the true number of
attackers; `multi_krum` keeps n - f; `clipped` the norm {CLIP}; `weighted` the number of images, of which
attackers say the most that a party has; `fltrust` what the servers' root images give; the others nothing.

`scaled` is `label-flip` times n over the number of attackers. In `min-max` all attackers send the same
vector, and know all honest updates, which here they could not. The other attackers act by themselves.
"""
        return "\n".join(["## Setting", "", *_listed(points)])

    def _cut(self) -> float:
        """The part of honest updates that were cut without attackers."""
        calm = [run for case, runs in self._found.items() if not case.attackers for run in runs]
        return sum(run.honest_cut for run in calm) / (len(calm) * self._sizes.rounds * PARTIES)

    def _out(self, what: str) -> int:
        return sum(getattr(run, what) for runs in self._found.values() for run in runs)

    def _of_whom(self) -> str:
        """Where sums were refused."""
        where = {
            (case.attack, case.rule) for case, runs in self._found.items() if any(run.refused for run in runs)
        }
        said = [f"`{rule}` under {attack}" for attack, rule in sorted(where)]
        return f", in {' and '.join(said)}" if said else ""

    def _largest_bound(self) -> str:
        largest = dict.fromkeys(("clipped", "fltrust", "cosine"), 0.0)
        for case, runs in self._found.items():
            if case.rule in largest:
                largest[case.rule] = max(largest[case.rule], *[run.bound for run in runs])
        said = [f"{bound:.0e} in a coordinate of `{rule}`" for rule, bound in largest.items()]
        return f"{', '.join(said[:-1])} and {said[-1]}."

    def _reading(self) -> str:
        most = max(self._sizes.attackers)

        def at(split: str, attack: str, rule: str, count: int = most) -> str:
            return f"{self.percent(split, attack, count, rule):.1f}"

        def lost(rule: str) -> str:
            both = [
                self.percent(split, NONE, 0, "fedavg") - self.percent(split, NONE, 0, rule)
                for split in SPLITS
            ]
            return f"{both[0]:.1f} points (`iid`) and {both[1]:.1f} (`dirichlet`)"

        every = [
            self.percent(split, attack, count, "fltrust")
            for split in SPLITS
            for attack in poison.ATTACKS
            for count in self._sizes.attackers
        ]
        few = self._sizes.attackers[0]
        part, least = f"{most / PARTIES:.0%}", f"{few / PARTIES:.0%}"
        points = f"""
`fltrust` is never below {min(every):.1f}. Without attackers it costs {lost("fltrust")} against `fedavg`.
It needs images that are like everybody's; here they are drawn from the same set.

`fedavg` is carried away by {least} of attackers who send long vectors
({at("iid", "scaled", "fedavg", few)}, `iid`). Against the other attacks it holds with
{SOME / PARTIES:.0%} and loses much with {part}. `weighted` is worse where parties differ, since an
attacker says the weight that it likes: {at("dirichlet", "sign-flip", "weighted", SOME)} against
{at("dirichlet", "sign-flip", "fedavg", SOME)} with {SOME / PARTIES:.0%} of sign-flip.

`clipped` makes `scaled` as weak as `label-flip`, and does nothing about directions. With its norm of
{CLIP} it also shortens honest updates, so that an attacker counts as much as anybody:
{at("dirichlet", "min-max", "clipped")} at {part} of min-max, `dirichlet`, where `fedavg` has
{at("dirichlet", "min-max", "fedavg")}.

`krum` takes one party's update. That costs {lost("krum")} without any attacker. Copies are nearest to
each other, so with {part} of min-max it takes those: {at("iid", "min-max", "krum")} and
{at("dirichlet", "min-max", "krum")}. It is told f = {most}, and n = {PARTIES} is above 2f + 2.

`multi_krum` is the best of the rules without a root against `label-flip` and `scaled`, with the true
number of attackers. `min-max` is made to look no stranger than honest updates do:
{at("dirichlet", "min-max", "multi_krum")} at {part}, `dirichlet`.

`median` and `trimmed_mean` stay above {self.worst("iid", most, "median")[0]:.0f} at {part} where all have
the same digits. Where they differ, honest values lie so far apart that attackers among them move the
middle: {at("dirichlet", "min-max", "median")} and {at("dirichlet", "min-max", "trimmed_mean")} at {part}
of min-max.

`cosine` counts out the copies of `min-max` ({at("dirichlet", "min-max", "cosine")} at {part}), for which
it is made. Attackers that act by themselves are as unlike as honest parties are:
{at("dirichlet", "sign-flip", "cosine")} at {part} of sign-flip, where the mean has
{at("dirichlet", "sign-flip", "fedavg")}. It limits no length but by the gate, which is no help against
`scaled`: {at("iid", "scaled", "cosine")}. Attackers who send a copy with some noise each could get around
it; that is not measured.

What servers check is no defence by itself. A sum that is refused costs the round: so it was in
{self._out("refused"):,} rounds{self._of_whom()}. Ten in a row would end a job, which is not played here.
A clip of the encoding that is near the norm of honest updates leaves attackers less room at the gate than
the one here.
"""
        literature = f"""
Cao et al. (2021) say that FLTrust with about 100 root images comes near FedAvg without attackers, up to
40% and more of attackers, and that other rules do not. So it is here. Their attack that is made against
FLTrust itself is not among ours.

Shejwalkar and Houmansadr (2021) found min-max strong against Krum, Multi-Krum, median and trimmed mean,
and stronger the less alike the data. So it is here. Against the plain mean it does least of the four: it
stays within the spread of honest updates.

Blanchard et al. (2017) prove that one attacker can make a mean whatever it likes, and that Krum
withstands f attackers if 2f + 2 < n and updates spread little for their length. With D = {network.DIM:,}
they do not spread little, and Krum fails.

Yin et al. (2018) prove what median and trimmed mean withstand if all data come from one distribution.
They fail where they do not.

Fung et al. (2020) made FoolsGold for attackers who share a goal, and expect nothing of it against one who
acts alone. Our `cosine` is less than FoolsGold: it does not remember earlier rounds.

The thesis on three servers (B. Akhtar, Virginia Tech, 2024) offers FedAvg and FLTrust there and measures
no accuracy under attack. It expects that rules which leave out much lose accuracy on skewed data. So it
is with `krum`, and hardly with `fltrust`.

Most of these used larger images and networks, and more parties. Orders can be compared with them,
percents cannot. No attack here plants a back door: `scaled` is measured by the accuracy on all test
images.
"""
        parts = [
            "## What is seen",
            "",
            *_listed(points),
            "",
            "## What others found",
            "",
            *_listed(literature),
        ]
        return "\n".join(parts)


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 110)


def _listed(points: str) -> list[str]:
    lines = [" ".join(point.split()) for point in points.split("\n\n")]
    return [textwrap.fill(f"* {line}", 110, subsequent_indent="  ", break_on_hyphens=False) for line in lines]


def plot(page: Page, sizes: Sizes, path: Path) -> None:
    """Draw accuracy against the part of attackers: a row a split, a column an attack."""
    drawn, axes = output.figure(len(poison.ATTACKS), len(SPLITS))
    counts = (0, *sizes.attackers)
    parts = [100 * count / PARTIES for count in counts]
    panels = iter(axes)
    for split in SPLITS:
        for attack in poison.ATTACKS:
            panel = next(panels)
            for place, rule in enumerate(robust.RULES):
                line = [100 * accuracy(page.runs(split, attack, count, rule))[0] for count in counts]
                style = "--" if rule in robust.SUMS else "-"
                panel.plot(parts, line, style, color=f"C{place}", marker="o", markersize=3, label=rule)
            panel.set_title(f"{attack}, {split}", fontsize="medium")
            panel.set_ylim(0, 100)
            panel.set_xticks(parts)
            panel.set_xlabel("attackers, %")
            panel.set_ylabel("accuracy, %")
    axes[0].legend(fontsize="x-small", loc="lower left")
    output.save(drawn, path)


def main(words: Sequence[str] | None = None) -> None:
    """Train, and write."""
    options = output.options(words, "attacks", "Accuracy of every rule under attack.")
    sizes = trials.QUICK if options.quick else trials.FULL
    found = {
        case: [trials.train(case, seed, sizes.rounds) for seed in range(sizes.seeds)]
        for case in trials.cases(sizes)
    }
    output.write_csv(options, "attacks.csv", rows(found))
    page = Page(found, sizes)
    plot(page, sizes, options.out / "attacks.svg")
    output.write_page(options, "attacks.md", "Rules under attack", page.parts(), timed=False)


if __name__ == "__main__":
    main()
