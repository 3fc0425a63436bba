"""``blindsum demo``: train on real data, processes and TLS included, one party killed on the way."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindsum.cli import EXIT_FAILED, EXIT_SUM, console
from blindsum.cli.files import check_folder, named
from blindsum.cli.signals import sigterm_interrupts
from blindsum.texts import counted

if TYPE_CHECKING:
    from blindsum.demo.run import DemoResult

EXAMPLES = """\
examples:
  blindsum demo
  blindsum demo --parties 12 --rounds 10 --no-kill
  blindsum demo --protocol plain --json
  blindsum demo --protocol flashe
  blindsum demo --flower --rounds 5                     # an app of Flower; needs blindsum[flower]

With --flower the nodes are those of Flower's simulation, Flower's FedAvg averages, and the same app runs
without Blindsum after it. Options that go with it: --protocol, --parties, --rounds, --seed, --json.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = (
        "Train a small network on the handwritten digits that ship with scikit-learn, split unevenly over "
        "parties that each run in a process of their own, with a coordinator, mutual TLS, and one party "
        "killed (SIGKILL) in the middle of a round; then compare with plain FedAvg."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--protocol", default="secagg+", metavar="P", help="default secagg+; mpc3 starts three servers"
    )
    parser.add_argument("--parties", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--rounds", type=int, default=20, metavar="R", help="default 20")
    parser.add_argument("--seed", type=int, default=7, help="of data and training (default 7)")
    parser.add_argument("--no-kill", dest="kill", action="store_false", help="kill no party")
    parser.add_argument("--out", type=named, metavar="DIR", help="folder of the plot (default blindsum-demo)")
    parser.add_argument("--flower", action="store_true", help="an app of Flower, in Flower's simulation")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Demonstrate and report."""
    if options.flower:
        from blindsum.cli import demo_flower

        return demo_flower.run(options)
    from blindsum.demo import run as demo
    from blindsum.demo.plot import check_plots, plot

    settings = demo.Settings(options.protocol, options.parties, options.rounds, options.kill, options.seed)
    title = f"{settings.protocol}, {counted(settings.parties, 'party')}"
    out = options.out or "blindsum-demo"
    check_folder("--out", out)
    check_plots()
    with sigterm_interrupts(), console.progress(title, settings.rounds, quiet=options.json) as bar:
        bar.update(0, "starting processes")
        result = demo.run(settings, lambda status: bar.update(*_progress(status, settings.parties)))
    folder = Path(out)
    picture = folder / "demo.png"
    plot(result, picture)
    report = {**result.to_dict(), "plot": str(picture)}
    (folder / "demo.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(report))
    else:
        _show(result, picture)
    return EXIT_FAILED if result.problems else EXIT_SUM


def _progress(status: dict[str, Any], parties: int) -> tuple[float, str]:
    """Rounds done, the current one counted by its stages, and a line about it."""
    done: float = status["rounds_done"]
    connected = f"{len(status['connected'])} of {parties} connected"
    current = status["round"]
    if current is None or current["state"] != "running" or not current["stages"]:
        return done, connected
    stage = current["stages"][-1]["name"]
    waiting = status["waiting_for"]
    text = f"round {current['number']} {stage}"
    if waiting:
        text += f", waiting for {', '.join(waiting[:3])}{' …' if len(waiting) > 3 else ''}"
    return done, f"{text}, {connected}"


def _show(result: DemoResult, picture: Path) -> None:
    rows = []
    for one in result.rounds:
        traffic = sum(stage["up"] + stage["down"] for stage in one.stages)
        dropped = "; ".join(f"{name} ({reason})" for name, reason in one.dropped.items())
        row = [
            str(one.number),
            f"{one.accuracy:.4f}",
            f"{one.plain_accuracy:.4f}",
            f"{one.deviation:.1e}",
            str(len(one.survivors)),
            f"{one.seconds:.2f}",
            console.bytes_text(traffic),
            dropped,
        ]
        rows.append(row)
    settings = result.settings
    parties = counted(settings.parties, "party")
    title = f"{settings.protocol}, {parties} with {_range(result.examples)} examples each"
    header = ["round", "accuracy", "plain", "deviation", "survivors", "s", "bytes", "dropped out"]
    console.table(title, header, rows)
    console.table(
        "a round, on average", ["stage", "ms", "up per party", "down per party"], _stage_rows(result)
    )
    worst = max(one.deviation for one in result.rounds)
    print(f"test accuracy {result.accuracy:.4f}, plain FedAvg {result.plain_accuracy:.4f}")
    if not result.weighted:
        print(f"all parties weigh alike: {settings.protocol} has no weights")
    print(f"largest deviation of a mean {worst:.2e}, quantisation allows {result.bound:.2e}")
    print(f"{result.seconds:.1f} s; plot: {picture}")
    for problem in result.problems:
        print(f"NOT AS PROMISED: {problem}")


def _stage_rows(result: DemoResult) -> list[list[str]]:
    """A row a stage: what it took on average, in the rounds that had it."""
    rows = []
    for name, same in result.stages().items():
        shares = sum(len(one.survivors) for one, _ in same)
        row = [
            name,
            console.ms_text(1000 * sum(stage["seconds"] for _, stage in same) / len(same)),
            console.bytes_text(sum(stage["up"] for _, stage in same) / shares),
            console.bytes_text(sum(stage["down"] for _, stage in same) / shares),
        ]
        rows.append(row)
    return rows


def _range(numbers: list[int]) -> str:
    return f"{min(numbers)} to {max(numbers)}"
