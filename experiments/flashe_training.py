"""FLASHE's Figures 9 to 11: how training converges with 16 bits and sparse updates, and what a round costs.

    python -m experiments.flashe_training [--quick | --large] [--out FOLDER]

Trainings are real rounds of `flashe`, by `blindsum.simulate_training`, dense and sparse with the
schedule of the paper. Iterations are simulated rounds of the sizes of its models.
`flashe_training_runs` has both; `flashe_density` and `flashe_regression` have more of
`min_contributors` and `divisor`, in jobs over mutual TLS.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.rows import number
from experiments import flashe_training_runs as runs
from experiments import output, tasks
from experiments.flashe_training_runs import (
    BATCHED,
    DENSE,
    FLASHE,
    FLOAT,
    OPTIONS,
    PARTIES,
    PLAIN,
    SINGLE,
    SPARSE,
    Case,
    Iterations,
    Lines,
    Sizes,
)
from experiments.tasks import Task

AFTER = 5
"""Accuracy is the mean over so many last rounds."""
NEAR = 0.01
"""What is as good as the float training: an accuracy so far below its last one."""


def rows(found: Lines) -> list[dict[str, Any]]:
    """The table of trainings for machines: a row for each round of each."""
    return [
        {
            "data": case.task.data,
            "dim": case.task.net.dim,
            "training": case.name,
            "seed": seed,
            "round": place + 1,
            "accuracy": line.accuracy[place],
            "up_bytes": 0.0 if case.name == FLOAT else line.up[place],
            "changed": line.opened[place],
            "clipped": line.clipped,
        }
        for case, trainings in found.items()
        for seed, line in enumerate(trainings)
        for place in range(len(line.accuracy))
    ]


def iteration_rows(found: Iterations) -> list[dict[str, Any]]:
    """The table of iterations for machines."""
    return [
        {
            "model": name,
            "scheme": scheme,
            "party_ms": one.party_ms,
            "server_ms": one.server_ms,
            "up_bytes": one.up_bytes,
            "down_bytes": one.down_bytes,
            "source": one.source,
        }
        for (name, scheme), one in found.items()
    ]


class Page:
    """Tables and text of what was found."""

    def __init__(self, found: Lines, iterations: Iterations, sizes: Sizes) -> None:
        self._found = found
        self._iterations = iterations
        self._sizes = sizes
        self.tasks = list(dict.fromkeys(case.task for case in found))

    def parts(self) -> list[str]:
        """Everything below the head."""
        picture = "![accuracy by round, and by bytes that a party has sent](flashe-training.svg)"
        converged = [part for task in self.tasks for part in self._table(task)]
        return [
            self._short(),
            picture,
            "## Convergence (Figure 9)",
            *converged,
            self._sparse(),
            self._papers(),
            self._setting(),
        ]

    def mean(self, task: Task, name: str) -> list[float]:
        """Accuracy by round, the mean over seeds."""
        lines = self._found[Case(task, name)]
        return [statistics.fmean(values) for values in zip(*(one.accuracy for one in lines), strict=True)]

    def sent(self, task: Task, name: str) -> list[float]:
        """Bytes that a party has sent after each round, the mean over seeds."""
        lines = self._found[Case(task, name)]
        total, found = 0.0, []
        for values in zip(*(one.up for one in lines), strict=True):
            total += statistics.fmean(values)
            found.append(total)
        return found

    def late(self, task: Task, name: str) -> float:
        """Accuracy in percent of the last rounds."""
        return 100 * statistics.fmean(self.mean(task, name)[-AFTER:])

    def reached(self, task: Task, name: str) -> int | None:
        """The first round with an accuracy near the last one of the float training, if there is one."""
        wanted = self.late(task, FLOAT) / 100 - NEAR
        return next((n for n, value in enumerate(self.mean(task, name), 1) if value >= wanted), None)

    def _short(self) -> str:
        points = []
        for task in self.tasks:
            exact, dense = self.late(task, FLOAT), self.late(task, DENSE)
            scheduled, papers = self.late(task, runs.SCHEDULED), self.late(task, runs.PAPERS)
            least = min(OPTIONS, key=lambda name: self.late(task, name))
            points.append(
                f"{task.data}: float {exact:.1f} %, 16 bits {dense:.1f} % ({dense - exact:+.2f} points), top "
                f"10 % with the paper's schedule {papers:.1f} % where one contributor is enough "
                f"({papers - exact:+.2f}) and {scheduled:.1f} % with the default of two "
                f"({scheduled - exact:+.2f}). The least is {self.late(task, least):.1f} %, of “{least}”."
            )
        for model in self._sizes.models:
            dense_one, sparse = self._iterations[model.name, FLASHE], self._iterations[model.name, SPARSE]
            single = self._iterations[model.name, SINGLE]
            points.append(
                f"{model.name} (D = {model.parameters:,}): with a density of 10 % a party sends "
                f"{dense_one.up_bytes / sparse.up_bytes:.1f} times less, and a round takes "
                f"{sparse.path_ms / dense_one.path_ms:.2f} times the work of a dense one. Paillier with a "
                f"value in each ciphertext takes {single.path_ms / sparse.path_ms:,.0f} times the work and "
                f"sends {single.up_bytes / sparse.up_bytes:.0f} times the bytes."
            )
        return "\n".join(["## In short", "", output.points(points)])

    def _table(self, task: Task) -> list[str]:
        header = ["training", "accuracy", "against float", "within a point from round"]
        header += ["a party sent until then, MB", "in all, MB", "changed in a late round", "clipped"]
        rows = []
        for name in (FLOAT, *OPTIONS):
            lines = self._found[Case(task, name)]
            reached, sent = self.reached(task, name), self.sent(task, name)
            no_bytes = name == FLOAT
            rows.append(
                [
                    name,
                    f"{self.late(task, name):.1f} %",
                    f"{self.late(task, name) - self.late(task, FLOAT):+.2f}",
                    str(reached or "–"),
                    "–" if no_bytes or reached is None else number(sent[reached - 1] / 1e6),
                    "–" if no_bytes else number(sent[-1] / 1e6),
                    f"{statistics.fmean(one.opened[-1] for one in lines):.1%}",
                    str(sum(one.clipped for one in lines)),
                ]
            )
        return [
            f"### {task.data}, {task.net.name}, D = {task.net.dim:,}",
            output.table(header, rows),
            self._costs(task),
        ]

    def _costs(self, task: Task) -> str:
        """What density and contributors cost, in points."""
        at_once, scheduled = self.late(task, runs.AT_ONCE), self.late(task, runs.SCHEDULED)
        papers, senders = self.late(task, runs.PAPERS), self.late(task, runs.SENDERS)
        last = {
            name: statistics.fmean(one.opened[-1] for one in self._found[Case(task, name)])
            for name in (runs.PAPERS, runs.SCHEDULED)
        }
        text = f"""
The schedule is worth {scheduled - at_once:+.2f} points against a density of 10 % from the first round
on. That a coordinate needs two contributors costs {papers - scheduled:+.2f} points: a late round
changes {last[runs.SCHEDULED]:.0%} of the coordinates, and {last[runs.PAPERS]:.0%} where one is enough.
To divide by the senders of a coordinate, and not by all, is worth {senders - scheduled:+.2f} points.
"""
        return output.filled(text)

    def _sparse(self) -> str:
        header = ["model", "scheme", "a party, ms", "server, ms", "÷ plain", "up, MB", "÷ plain"]
        header += ["down, MB", ""]
        lines = []
        for (name, scheme), one in self._iterations.items():
            plain = self._iterations[name, PLAIN]
            lines.append(
                [
                    name,
                    scheme,
                    number(one.party_ms),
                    number(one.server_ms),
                    number(one.path_ms / plain.path_ms),
                    number(one.up_bytes / 1e6),
                    number(one.up_bytes / plain.up_bytes),
                    number(one.down_bytes / 1e6),
                    one.source,
                ]
            )
        text = f"""
An aggregation of {PARTIES} parties without training and links. *{PLAIN}* and *{FLASHE}* are dense.
*{BATCHED}* is `paillier-broadcast`, which sends each party the ciphertexts of all others; the key
service opens the sum. *{SINGLE}* has one value in each ciphertext, as sparse updates of Paillier must
have whose places differ. It is extrapolated from the ciphertexts of the batched round, and has a bit
for each coordinate that says which are sent. Longer rounds of Paillier than {self._sizes.paillier:,}
coordinates are extrapolated as well.
"""
        return "\n\n".join(
            ["## A sparse iteration (Figures 10 and 11)", output.filled(text), output.table(header, lines)]
        )

    def _papers(self) -> str:
        plain, sparse, single = (
            [self._iterations[model.name, scheme] for model in self._sizes.models]
            for scheme in (PLAIN, SPARSE, SINGLE)
        )
        saved = [one.up_bytes / other.up_bytes for one, other in zip(plain, sparse, strict=True)]
        inflated = [one.up_bytes / other.up_bytes for one, other in zip(single, plain, strict=True)]
        faster = [one.path_ms / other.path_ms for one, other in zip(single, sparse, strict=True)]
        header = ["", "paper (§6.4)", "here"]
        lines = [
            ["uplink, dense plaintext ÷ sparse FLASHE", "about 5", _span(saved, 1)],
            ["uplink, sparse Paillier ÷ dense plaintext", "about 20", _span(inflated, 1)],
            ["work, sparse Paillier ÷ sparse FLASHE", "16 to 63", _span(faster, 0)],
        ]
        bits = runs.spec_of(SPARSE, 1_000).word_bits
        text = f"""
Here a party sends a bit for each coordinate, which says whether its word is sent, and words of
{bits} bits. One ciphertext of Paillier is {runs.CIPHERTEXT} bytes.

Figure 9 is a picture. In numbers the paper has the best accuracy with 16 bits alone: 72.0, 57.7 and
88.4 % for its three models. Tasks here are smaller, so that lines can be compared with each other and
not with the paper's.
"""
        said = "\n\n".join(output.filled(part) for part in text.strip().split("\n\n"))
        return "\n\n".join(
            ["## What the paper says, and what is seen here", output.table(header, lines), said]
        )

    def _setting(self) -> str:
        sizes = self._sizes
        missing = tasks.missing([task.data for task in sizes.tasks])
        points = f"""
{PARTIES} parties of equal weight, partition `dirichlet:0.5`; rounds: {sizes.rounds}; seeds: {sizes.seeds};
accuracy is the mean over the last {AFTER} rounds and over seeds. *Within a point* is the first round with an
accuracy of at most {100 * NEAR:g} point less than float has in the end.

The schedule: densities of 80, 40, 20 and 10 %, each for {sizes.step_rounds} rounds, as in the paper.
What a party does not send it adds to its next update. Where nothing is said `min_contributors` is 2,
the default, and sums are divided by all parties.

Local training: {
            "; ".join(f"{t.data}: {t.steps} steps of {t.batch}, rate {t.rate:g}" for t in self.tasks)
        }. The paper trains with Adam.

More of `min_contributors` and `divisor`, in jobs over mutual TLS: [density](flashe-density.md),
[regression](flashe-regression.md). Figures 7 and 8: [over five regions](flashe-wan.md).
"""
        points += "".join(f"\n\nNot run: {why}" for why in missing.values())
        return "\n".join(["## Setting", "", output.points(points)])


def _span(values: Sequence[float], digits: int) -> str:
    texts = dict.fromkeys(f"{value:,.{digits}f}" for value in (min(values), max(values)))
    return " to ".join(texts)


def plot(page: Page, path: Path) -> None:
    """Draw accuracy by round and by bytes, a row for each data set."""
    drawn, axes = output.figure(2, len(page.tasks))
    for row, task in enumerate(page.tasks):
        rounds, sent = axes[2 * row], axes[2 * row + 1]
        for place, name in enumerate((FLOAT, *OPTIONS)):
            accuracy = [100 * value for value in page.mean(task, name)]
            style = {"color": f"C{place}", "label": name, "linewidth": 1}
            rounds.plot(range(1, len(accuracy) + 1), accuracy, **style)
            if name != FLOAT:
                sent.semilogx([value / 1e6 for value in page.sent(task, name)], accuracy, **style)
        rounds.set_xlabel("round")
        sent.set_xlabel("MB that a party has sent")
        for panel in (rounds, sent):
            panel.set_title(task.data, fontsize="medium")
            panel.set_ylabel("accuracy, %")
            panel.legend(fontsize="x-small", loc="lower right")
    output.save(drawn, path)


def main(words: Sequence[str] | None = None) -> None:
    """Train, simulate iterations, and write."""
    options = output.options(
        words, "flashe_training", "FLASHE's Figures 9 to 11, through real rounds.", has_large=True
    )
    sizes = runs.QUICK if options.quick else runs.LARGE if options.large else runs.FULL
    found, iterations = runs.lines(sizes), runs.iterations(sizes)
    output.write_csv(options, "flashe-training.csv", rows(found))
    output.write_csv(options, "flashe-sparse.csv", iteration_rows(iterations))
    page = Page(found, iterations, sizes)
    plot(page, options.out / "flashe-training.svg")
    output.write_page(options, "flashe-training.md", "Training with FLASHE", page.parts())


if __name__ == "__main__":
    main()
