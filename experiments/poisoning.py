"""What a proved bound buys against poisoning, and what it does not: accuracy round by round.

    python -m experiments.poisoning [--quick] [--out FOLDER]

Twenty parties, two of them liars, train the demo's network on handwritten digits. Every round is a simulated
one of ``plain``, ``pss`` or ``pss-malicious``, with the encoding of the job. ``poisoning_runs`` has the
trainings; ``attacks`` is about rules that could do more, which three servers compute.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blindsum.demo import digits, network
from experiments import federated, output, trials
from experiments import poisoning_runs as runs
from experiments.federated import PARTIES
from experiments.poisoning_runs import (
    ATTACKS,
    BEYOND,
    BOUNDED,
    DIGIT,
    INSIDE,
    NONE,
    PLAIN,
    PROTOCOLS,
    PSS,
    Case,
    Results,
    Sizes,
)

MEANINGS = {
    NONE: "no attack",
    BEYOND: "beyond the bound",
    INSIDE: "inside the bound",
    DIGIT: "one digit, inside the bound",
}


def rows(found: Results) -> list[dict[str, object]]:
    """The table for machines: a row for each round of each case."""
    lines: list[dict[str, object]] = []
    for case, trainings in found.items():
        columns = {
            name: runs.per_round(trainings, name)
            for name in ("accuracy", "digit", "honest", "moved", "cut", "up_bytes")
        }
        for number in range(len(trainings[0])):
            of_round: dict[str, object] = {name: column[number] for name, column in columns.items()}
            lines.append(
                {
                    "protocol": case.protocol,
                    "attack": case.attack,
                    "max_norm": case.max_norm,
                    "parties": PARTIES,
                    "liars": 0 if case.attack == NONE else runs.LIARS,
                    "seeds": len(trainings),
                    "round": number + 1,
                    **of_round,
                    "left_out": sum(len(run[number].left_out) for run in trainings),
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
        picture = "![accuracy round by round, by protocol and attack, and by bound](poisoning.svg)"
        return [self._short(), picture, self._buys(), self._does_not(), self._bounds(), self._setting()]

    def line(
        self, protocol: str, attack: str, norm: float | None = None, what: str = "accuracy"
    ) -> list[float]:
        """A quantity, round by round; the mean over seeds."""
        return runs.per_round(self._runs(protocol, attack, norm), what)

    def _runs(self, protocol: str, attack: str, norm: float | None = None) -> list[list[runs.Round]]:
        return self._found[Case(protocol, attack, self._sizes.norm if norm is None else norm)]

    def _percent(self, protocol: str, attack: str, norm: float | None = None, what: str = "accuracy") -> str:
        return f"{100 * runs.last(self._runs(protocol, attack, norm), what)[0]:.1f}"

    def _cell(self, protocol: str, attack: str, norm: float | None = None, what: str = "accuracy") -> str:
        mean, spread = runs.last(self._runs(protocol, attack, norm), what)
        return f"{100 * mean:.1f} ± {100 * spread:.1f}"

    def _same(self, attack: str, protocols: Sequence[str]) -> bool:
        """Whether trainings with these protocols went the same way, to the last bit."""
        accuracies = [
            [[one.accuracy for one in run] for run in self._runs(protocol, attack)] for protocol in protocols
        ]
        return all(one == accuracies[0] for one in accuracies)

    def _short(self) -> str:
        header = ["attack", *[f"`{protocol}`" for protocol in PROTOCOLS]]
        lines = [
            [MEANINGS[attack], *[self._cell(protocol, attack) for protocol in PROTOCOLS]]
            for attack in ATTACKS
        ]
        text = f"""
Accuracy in percent after {self._sizes.rounds} rounds, with {runs.LIARS} liars among {PARTIES} parties and
`max_norm` = {self._sizes.norm:g}. The bound stops the liars who leave it. Those who stay inside are seen by
nobody, and it only limits how much they do.
"""
        return "\n\n".join(["## In short", _filled(text), output.table(header, lines)])

    def _buys(self) -> str:
        size = self._sizes.norm
        alike = self._same(BEYOND, (PLAIN, PSS))
        tests = Counter(test for run in self._runs(BOUNDED, BEYOND) for one in run for test in one.left_out)
        named = " and ".join(f"{count} times by `{test}`" for test, count in sorted(tests.items()))
        clipped = runs.LIARS * runs.CLIP * math.sqrt(network.DIM) / PARTIES
        bounded = runs.LIARS * size / PARTIES
        first, final = self.line(PLAIN, NONE, what="honest")[0], self.line(PLAIN, NONE, what="honest")[-1]
        ratio = self.line(BOUNDED, NONE, what="up_bytes")[0] / self.line(PSS, NONE, what="up_bytes")[0]
        points = f"""
It limits what liars add. Within `clip` alone {runs.LIARS} liars can move the mean by
{runs.LIARS} · clip · √D / n = {clipped:.2f}, within the bound by {runs.LIARS} · `max_norm` / n =
{bounded:.2f}. The mean of honest updates is {first:.2f} long in the first round without attack and
{final:.2f} in the last.

In `plain` and `pss` a sign-flip that is boosted {runs.BOOST} times leaves {self._percent(PLAIN, BEYOND)}%,
and nobody sees who it was. {"Both have the same sums, so their lines are one." if alike else ""}
Masks and shares hide a liar's vector as well as an honest one.

In `pss-malicious` both liars are named in every round ({named}), and the sum is that of the other
{PARTIES - runs.LIARS} parties: {self._percent(BOUNDED, BEYOND)}%. A liar who leaves the bound does nothing to
the sum, one who stays inside does something.

The measured attack in `plain` and `pss` stays within `clip`. A liar there can also send words that no
update gives, and move a coordinate farther; where the sum is one that honest parties cannot have, `pss`
ends the round. That is not played here.

The price: a party sends {ratio:.0f} times the bytes of `pss`, with {runs.BITS} bits.
"""
        return "\n".join(["## What the bound buys", "", *_listed(points)])

    def _does_not(self) -> str:
        same = self._same(INSIDE, PROTOCOLS)
        points = f"""
It does not tell training from anything else. Liars who send the opposite of their update, just as long as
`max_norm`, pass: {self._percent(BOUNDED, INSIDE)}% in place of {self._percent(BOUNDED, NONE)}%.
{"All protocols have the same sums then." if same else ""} In the first rounds honest updates are about as
long as the bound, later much shorter; the bound is not, so that liars weigh more and more.

It does not see an aim. Liars whose ones are labelled seven, with updates as long as `max_norm`, cost
{self._lost("accuracy")} points of accuracy on all images, but {self._lost("digit")} points on the ones:
{self._percent(BOUNDED, DIGIT, what="digit")}% of them are right in place of
{self._percent(BOUNDED, NONE, what="digit")}%.

It does not help where many lie: the bound is for each party, and c liars have c times of it.
[Rules of three servers](attacks.md) such as FLTrust look at directions, and do more.
"""
        return "\n".join(["## What it does not", "", *_listed(points)])

    def _lost(self, what: str) -> str:
        calm, hit = self._runs(BOUNDED, NONE), self._runs(BOUNDED, DIGIT)
        mean, spread = runs.lost(calm, hit, what)
        return f"{100 * mean:.1f} ± {100 * spread:.1f}"

    def _bounds(self) -> str:
        header = ["`max_norm`", "cut", "no attack, early", "no attack", "inside, early", "inside"]
        header += ["ones, no attack", "ones, attacked"]
        early = min(5, self._sizes.rounds) - 1
        best = max(
            self._sizes.norms, key=lambda norm: runs.last(self._runs(BOUNDED, INSIDE, norm), "accuracy")
        )
        lines = []
        for norm in self._sizes.norms:
            cut = sum(self.line(BOUNDED, NONE, norm, "cut"))
            cells = [f"{norm:g}", f"{cut / (self._sizes.rounds * (PARTIES - runs.LIARS)):.0%}"]
            for attack in (NONE, INSIDE):
                cells.append(f"{100 * self.line(BOUNDED, attack, norm)[early]:.1f}")
                cells.append(self._cell(BOUNDED, attack, norm))
            cells += [self._cell(BOUNDED, attack, norm, "digit") for attack in (NONE, DIGIT)]
            lines.append(cells)
        text = f"""
`pss-malicious` with other bounds. `cut` is the part of honest updates that were longer, and shortened;
`early` is round {early + 1}; `ones` are the images of that digit, with liars who are after it. A wide bound
leaves liars much. A narrow one makes training slow, and then an honest update is no longer than a liar's.
Of these, `max_norm` = {best:g} is best against liars inside.
"""
        return "\n\n".join(["## How tight", _filled(text), output.table(header, lines)])

    def _setting(self) -> str:
        sizes = self._sizes
        points = f"""
Data: scikit-learn's 1,797 handwritten digits of 8 × 8 pixels, {digits.TEST} of them for the test,
dealt to {PARTIES} parties with other digits for each (Dirichlet, α = {federated.ALPHA}), as in
[attacks](attacks.md). {runs.LIARS} liars, `corrupt` = {runs.CORRUPT}, drawn at random.

Training: the network of the demo, D = {network.DIM:,}; {federated.LOCAL_STEPS} local steps of
{federated.BATCH} images, rate {federated.LEARNING_RATE}; {sizes.rounds} rounds, the mean is added to the
model. Accuracy is the mean over the last {min(trials.AFTER, sizes.rounds)} rounds, then over {sizes.seeds}
{"seeds" if sizes.seeds > 1 else "seed"}, with the standard deviation between them. All cases of a seed have
the same images, parties, batches, liars and first model. Other processors may round differently, which may
change last digits.

Rounds: `blindsum.simulate` with `bits` = {runs.BITS}, `clip` = {runs.CLIP}. Every sum was exact. The jobs of
`plain` and `pss` have no `max_norm`, since nobody could hold a liar to it; honest parties shorten their
updates to the same length themselves, which is the bound less {runs.ROUNDING:.3f} for rounding.

Beyond the bound: {-runs.BOOST} times the mean of what the liars have after training, cut to `clip` in each
coordinate. In `pss-malicious` liars are those of the simulator, which by turns claim a word above the
largest one and a norm that is not that of their words. The boosted vector itself cannot be put into a
simulated proof; whoever wants it accepted has to claim something of this kind.

Inside: the same direction, as long as the bound. One digit: their images of {runs.FROM} have the label
{runs.TO}, and the update is made as long as the bound. Of four pairs that were tried this one does about
most. Liars do not know the updates of others.

Not played: liars who deal wrong shares or give wrong sums of columns, which `pss-malicious` finds as well.
"""
        return "\n".join(["## Setting", "", *_listed(points)])


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 110)


def _listed(points: str) -> list[str]:
    lines = [" ".join(point.split()) for point in points.split("\n\n")]
    return [textwrap.fill(f"* {line}", 110, subsequent_indent="  ", break_on_hyphens=False) for line in lines]


# The picture.

COLOURS = {NONE: "C2", BEYOND: "C3", INSIDE: "C1"}
STYLES: dict[str, dict[str, Any]] = {
    PLAIN: {"linewidth": 5, "alpha": 0.3},
    PSS: {"linestyle": "--", "linewidth": 1.6},
    BOUNDED: {"linewidth": 1, "marker": "o", "markersize": 3},
}


BOUND_COLOURS = ("C0", "C4", "C9", "k")


def plot(page: Page, sizes: Sizes, path: Path) -> None:
    """Draw accuracy against rounds: by protocol and attack, and what is left inside the bound."""
    drawn, axes = output.figure(3)
    protocols, inside, digit = axes
    for protocol in PROTOCOLS:
        for attack, colour in COLOURS.items():
            label = f"{protocol}: {MEANINGS[attack]}"
            _draw(protocols, page.line(protocol, attack), label, color=colour, **STYLES[protocol])
    protocols.set_title(f"All protocols, max_norm = {sizes.norm:g}", fontsize="medium")
    for place, norm in enumerate(sizes.norms):
        colour = BOUND_COLOURS[place]
        for panel, attack, what in ((inside, INSIDE, "accuracy"), (digit, DIGIT, "digit")):
            _draw(panel, page.line(BOUNDED, NONE, norm, what), None, color=colour, linestyle=":")
            _draw(panel, page.line(BOUNDED, attack, norm, what), f"max_norm = {norm:g}", color=colour)
    inside.set_title(f"{BOUNDED}: inside (dotted: no attack)", fontsize="medium")
    digit.set_title(f"{BOUNDED}: liars after one digit (dotted: none)", fontsize="medium")
    for panel in axes:
        panel.set_ylim(0, 100)
        panel.set_xlabel("round")
        panel.set_ylabel("accuracy, %")
        panel.xaxis.get_major_locator().set_params(integer=True)
        # Clear of the lines: in the first panel these are at the top and below 40.
        panel.legend(fontsize="x-small", loc=(0.38, 0.35) if panel is protocols else "lower right")
    digit.set_ylabel("accuracy on ones, %")
    output.save(drawn, path)


def _draw(panel: Any, values: Sequence[float], label: str | None, **style: Any) -> None:
    panel.plot(range(1, len(values) + 1), [100 * value for value in values], label=label, **style)


def main(words: Sequence[str] | None = None) -> None:
    """Train, and write."""
    options = output.options(words, "poisoning", "Accuracy under poisoning, with and without a proved bound.")
    sizes = runs.QUICK if options.quick else runs.FULL
    found = {
        case: [runs.train(case, seed, sizes.rounds) for seed in range(sizes.seeds)]
        for case in runs.cases(sizes)
    }
    output.write_csv(options, "poisoning.csv", rows(found))
    page = Page(found, sizes)
    plot(page, sizes, options.out / "poisoning.svg")
    output.write_page(options, "poisoning.md", "Poisoning and a proved bound", page.parts(), timed=False)


if __name__ == "__main__":
    main()
