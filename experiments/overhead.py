"""Secure over plain training, per iteration: rounds of the papers' models beside a plain sum and local steps.

    python -m experiments.overhead [--quick | --large] [--out FOLDER]

Rounds are simulated, with every message. Steps of training want torch; where it is missing they are those of
the run that measured them last, and marked. `overhead_runs` has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.rows import number
from experiments import output, wan
from experiments import overhead_runs as runs
from experiments.overhead_runs import PARTIES, PLAIN, STEPS, UNKNOWN, Case, Cost, Found, Model, Sizes


class Page:
    """Tables and text of what was found."""

    def __init__(self, found: Found, sizes: Sizes) -> None:
        self._found = found
        self._sizes = sizes

    def parts(self) -> list[str]:
        """Everything below the head."""
        picture = "![work of a round by coordinates and protocol](overhead.svg)"
        tables = [self._table(model) for model in self._sizes.models]
        return [self._short(), picture, *tables, self._papers(), self._steps(), self._how()]

    def iteration_ms(self, cost: Cost) -> float | None:
        """Local steps and a round, one after the other; none where no step was measured."""
        step = self._found.steps.get(cost.case.model.net)
        return None if step is None else STEPS * step.step_ms + cost.path_ms

    def rows(self) -> list[dict[str, Any]]:
        """The table for machines."""
        return [
            {
                "model": case.model.name,
                "dim": case.model.dim,
                "protocol": case.protocol,
                "parties": PARTIES,
                "party_ms": cost.party_ms,
                "server_ms": cost.server_ms,
                "path_ms": cost.path_ms,
                "up_bytes": cost.up_bytes,
                "down_bytes": cost.down_bytes,
                "numpy_sum_ms": self._found.sums[case.model],
                "iteration_ms": self.iteration_ms(cost) or UNKNOWN,
                "of_plain_iteration": self._ratio(cost) or UNKNOWN,
            }
            for case, cost in self._found.costs.items()
        ]

    def _plain(self, model: Model) -> Cost:
        return self._found.costs[Case(model, PLAIN)]

    def _ratio(self, cost: Cost) -> float | None:
        """An iteration with the protocol over one with `plain`."""
        ours, plain = self.iteration_ms(cost), self.iteration_ms(self._plain(cost.case.model))
        return None if ours is None or plain is None else ours / plain

    def _short(self) -> str:
        points = []
        for model in self._sizes.models:
            costs = {case.protocol: cost for case, cost in self._found.costs.items() if case.model == model}
            others = [cost for name, cost in costs.items() if name != PLAIN]
            if not others:
                continue
            least, most = min(others, key=lambda one: one.path_ms), max(others, key=lambda one: one.path_ms)
            plain = costs[PLAIN]
            ratios = {name: self._ratio(cost) for name, cost in costs.items() if name != PLAIN}
            known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
            text = (
                f"{model.name} (D = {model.dim:,}): a round of `plain` is {_ms(plain.path_ms)} of work one "
                f"after the other; with protection it is {_ms(least.path_ms)} (`{least.case.protocol}`) to "
                f"{_ms(most.path_ms)} (`{most.case.protocol}`)."
            )
            if known:
                best, worst = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
                text += (
                    f" An iteration with {STEPS} local steps takes {known[best]:.3f} (`{best}`) to "
                    f"{known[worst]:.3g} (`{worst}`) times as long as with `plain`."
                )
            points.append(text)
        return "\n".join(["## In short", "", output.points(points)])

    def _table(self, model: Model) -> str:
        header = [
            "protocol",
            "a party",
            "server",
            "path",
            "÷ `plain`",
            "÷ a sum in numpy",
            "in steps",
        ]
        header += ["iteration ÷ plain's", "up, MB", "down, MB"]
        lines = []
        plain = self._plain(model)
        step = self._found.steps.get(model.net)
        for protocol in self._sizes.protocols:
            cost = self._found.costs.get(Case(model, protocol))
            if cost is None:
                continue
            ratio = self._ratio(cost)
            lines.append(
                [
                    f"`{protocol}`",
                    *[number(value) for value in (cost.party_ms, cost.server_ms, cost.path_ms)],
                    number(cost.path_ms / plain.path_ms),
                    number(cost.path_ms / self._found.sums[model]),
                    "–" if step is None else number(cost.path_ms / step.step_ms),
                    "–" if ratio is None else f"{ratio:.3f}",
                    number(cost.up_bytes / 1e6),
                    number(cost.down_bytes / 1e6),
                ]
            )
        left = [
            f"* `{case.protocol}`: {why}."
            for case, why in self._found.left_out.items()
            if case.model == model
        ]
        trained = (
            "a step of training was not measured"
            if step is None
            else f"a step of training {number(step.step_ms)} ms{' †' if step.is_kept else ''}"
        )
        text = f"""
{PARTIES} parties, milliseconds. The sum of the vectors in numpy takes {number(self._found.sums[model])} ms;
{trained}.
"""
        parts = [
            f"## {model.name}, D = {model.dim:,} ({model.papers})",
            output.filled(text),
            output.table(header, lines),
        ]
        if left:
            parts += ["Not run:", "\n".join(left)]
        return "\n\n".join(parts)

    def _papers(self) -> str:
        """Beside the iterations of FLASHE, whose length in the clear its Table 4 gives."""
        lines = []
        for printed in wan.MODELS:
            model = next((one for one in self._sizes.models if one.name == printed.name), None)
            if model is None:
                continue
            plain, whole = self._plain(model), 1000 * printed.plain_iteration_s
            for protocol in self._sizes.protocols:
                cost = self._found.costs.get(Case(model, protocol))
                if cost is not None and protocol != PLAIN:
                    more = cost.path_ms - plain.path_ms
                    lines.append(
                        [
                            model.name,
                            f"`{protocol}`",
                            f"{whole / 1000:.2f}",
                            number(more),
                            f"{more / whole:.2%}",
                        ]
                    )
        header = ["model", "protocol", "their plain iteration, s", "more work here, ms", "overhead"]
        text = """
FLASHE prints 0.5 to 5.3 % more time for an iteration with its scheme than in the clear (§6.2), with training
and links between five regions in it. The table sets the work that a protocol adds here against the length of
that iteration in the clear: hours of its Table 4 over its iterations. It adds no bytes of other protocols;
`flashe_wan` does that for FLASHE's links.
"""
        parts = ["## What the papers say, and what is seen here", output.filled(text)]
        parts.append(output.table(header, lines) if lines else "None of its models was run.")
        thesis = """
The thesis on three servers (B. Akhtar, Virginia Tech, 2024) measures end-to-end rounds of VGG-11 and not the
training beside them: see [three servers](mpc-tables.md).
"""
        return "\n\n".join([*parts, output.filled(thesis)])

    def _steps(self) -> str:
        header = ["net", "a step, ms", "on", "measured"]
        lines = [
            [
                f"`{step.net}`{' †' if step.is_kept else ''}",
                number(step.step_ms),
                step.device,
                f"{step.origin['date']}, {step.origin['machine']}, commit {step.origin['commit']}",
            ]
            for step in self._found.steps.values()
        ]
        missing = [model.net for model in self._sizes.models if model.net not in self._found.steps]
        said = f" Not measured: {', '.join(f'`{name}`' for name in missing)}." if missing else ""
        text = f"""
One step of stochastic gradient descent on {runs.BATCH} examples, with the nets of
`blindsum.learning.nets`. †: of another run.{said}
"""
        parts = ["## Steps of training", output.filled(text)]
        return "\n\n".join([*parts, output.table(header, lines)] if lines else parts)

    def _how(self) -> str:
        points = [
            "Rounds are simulated by `blindsum.simulate`: all messages are made, sealed, opened and checked, "
            "and every sum is compared with that in the clear. Times are CPU time of one thread. Keys of a "
            "job, where there are any, are made before.",
            "*A party* is the median party. *Server* is the coordinator, or the slowest of three servers. "
            "*Path* is both, one after the other: what a round takes where everybody has a machine and the "
            "network takes nothing.",
            f"*Iteration* is {STEPS} steps of training and the path. With more of them the overhead falls.",
            "In `paillier-ring` the parties add their vectors one after the other, so that a round waits for "
            "the work of more than one of them. Its path here has that of one.",
            "Values have 16 bits. Jobs are against active adversaries where nothing else is said.",
        ]
        return "\n".join(["## How to read this", "", output.points(points)])


def _ms(value: float) -> str:
    return f"{number(value)} ms" if value < 1000 else f"{number(value / 1000)} s"


def plot(found: Found, sizes: Sizes, path: Path) -> None:
    """Draw the path of each protocol against the coordinates."""
    drawn, axes = output.figure(1)
    (panel,) = axes
    for place, protocol in enumerate(sizes.protocols):
        costs = [cost for case, cost in found.costs.items() if case.protocol == protocol]
        costs.sort(key=lambda one: one.case.model.dim)
        dims = [cost.case.model.dim for cost in costs]
        style = "--" if protocol == PLAIN else "-"
        panel.loglog(
            dims,
            [cost.path_ms for cost in costs],
            style,
            color=f"C{place}",
            marker="o",
            markersize=3,
            label=protocol,
        )
    panel.set_xlabel("coordinates")
    panel.set_ylabel("work of a party and of the server, ms")
    panel.legend(fontsize="x-small")
    output.save(drawn, path)


def main(words: Sequence[str] | None = None) -> None:
    """Measure, draw and write."""
    options = output.options(words, "overhead", "Secure over plain training, per iteration.", has_large=True)
    sizes = runs.QUICK if options.quick else runs.LARGE if options.large else runs.FULL
    found = runs.run(options, sizes)
    page = Page(found, sizes)
    output.write_csv(options, "overhead.csv", page.rows())
    if found.steps:
        output.write_csv(options, runs.STEPS_FILE, [runs.step_row(step) for step in found.steps.values()])
    plot(found, sizes, options.out / "overhead.svg")
    output.write_page(options, "overhead.md", "Secure over plain training", page.parts())


if __name__ == "__main__":
    main()
