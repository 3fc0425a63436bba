"""``blindsum train``: a whole federation on one machine, from a model and data of yours to a report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from blindsum.cli import EXIT_ABORT, EXIT_FAILED, EXIT_SUM, console
from blindsum.cli.compare import setting
from blindsum.cli.files import check_folder, named
from blindsum.cli.flags import named_as_flags
from blindsum.cli.signals import sigterm_interrupts
from blindsum.errors import ConfigError
from blindsum.texts import printable

if TYPE_CHECKING:
    from blindsum.training.record import TrainingRecord, TrainingRound

EXAMPLES = """\
examples:
  blindsum train run.toml                     # simulated in this process, in virtual time
  blindsum train run.toml --plain             # beside plain FedAvg with the same seeds
  blindsum train run.toml --processes         # a coordinator and parties as processes, over mutual TLS
  blindsum train run.toml --set protocol=flashe --set rounds=50 --out flashe

run.toml names your model, your data and your training function, and has the job:

  [training]
  net = "mymodel:Net"           # a network of PyTorch, an estimator of scikit-learn, or a tree of JAX
  data = "mymodel:parts"        # parts(parties, seed) gives one item for each party
  train = "mymodel:train"       # train(net, data, **parameters); may give metrics, by name
  test = "mymodel:test"         # test(net) gives numbers by name, such as the accuracy on test data
  seed = 7

  [job]
  protocol = "secagg+"
  parties = 10
  rounds = 20

  [job.parameters]
  learning_rate = 0.1

In place of net and train, step = "mymodel:step" names a function of arrays, step(model, data, turn), evaluate
one of a model, and model = "model.npy" what the job starts from. drop, latency and compute (seconds, or
"measured") are those of blindsum.simulate_training.

The folder of --out has report.html, rounds.csv and record.jsonl, and best-model.npy of a job with stop. A
simulated run that was stopped goes on from there if the same command is given again.

exit status: 0 the last round had a sum, 1 it failed, 2 wrong arguments, 3 the last round had no sum,
130 stopped by Ctrl-C or SIGTERM
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Train a model of yours with many parties on this machine, and write a report."
    parser.epilog = EXAMPLES
    parser.add_argument("file", type=named, metavar="FILE", help="description of the run, TOML")
    parser.add_argument("--processes", action="store_true", help="a process for each party, over mutual TLS")
    parser.add_argument("--plain", action="store_true", help="train plain FedAvg beside it, for comparison")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a field or option of the job in place of the file's, e.g. --set protocol=flashe",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="in place of the file's")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the protocol (default 1)")
    parser.add_argument(
        "--out", default="blindsum-train", type=named, metavar="DIR", help="folder of the report"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a round")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train and report."""
    from blindsum.training.callbacks import Raised
    from blindsum.training.checkpoints import STATE

    changes = [setting(text) for text in options.set]
    if options.processes and options.plain:
        raise ConfigError("--plain", "goes with a simulated run only: leave --processes or --plain out")
    check_folder("--out", options.out)
    table = _Table(options.json, None if options.processes else options.out)
    try:
        with sigterm_interrupts(), named_as_flags("threads", "out"):
            if options.processes:
                record = _as_processes(options, changes, table)
            else:
                record = _simulated(options, changes, table)
    except KeyboardInterrupt:
        what = (
            "a run of processes starts over" if options.processes else "the same command goes on from there"
        )
        is_kept = table.last or (not options.processes and (Path(options.out) / STATE).exists())
        so_far = f"{options.out} has what there is so far, and {what}" if is_kept else "no round is over yet"
        console.note(f"stopped; {so_far}")
        raise
    except Raised as error:
        # The one traceback that a user wants to see: the one of the user's own function.
        console.note(error.own_trace(), "ERROR")
        onward = "" if options.processes or not table.last else "; the same command goes on from there"
        so_far = f"{options.out} has what there is up to round {table.last}{onward}" if table.last else ""
        console.note("; ".join(text for text in (str(error), so_far) if text), "ERROR")
        return EXIT_FAILED
    _write(record, Path(options.out), table)
    last = record.rounds[-1] if record.rounds else None
    return EXIT_SUM if last is not None and last.outcome == "sum" else EXIT_ABORT


def _simulated(options: argparse.Namespace, changes: list[tuple[str, str]], table: _Table) -> TrainingRecord:
    from blindsum.training.callbacks import told
    from blindsum.training.description import described
    from blindsum.training.simulated import simulate_training

    run = described(options.file, changes)
    settings = dict(run.settings) | ({} if options.seed is None else {"seed": options.seed})
    return simulate_training(
        run.spec,
        told(run.step, "the training step"),
        run.parts,
        model=run.model,
        evaluate=None if run.evaluate is None else told(run.evaluate, "evaluate"),
        plain=options.plain,
        threads=options.threads,
        out=options.out,
        progress=table.add,
        **settings,
    )


def _as_processes(
    options: argparse.Namespace, changes: list[tuple[str, str]], table: _Table
) -> TrainingRecord:
    from blindsum.training.processes import run_processes

    run = run_processes(options.file, changes, table.add, console.note)
    if run.stopped is not None:
        _write(run.record, Path(options.out), table)
        raise run.stopped
    return run.record


class _Table:
    """Rounds as they end: a line for each."""

    def __init__(self, as_json: bool, before: str | None) -> None:
        self.as_json = as_json
        # The folder in which earlier rounds of this run may be.
        self._before = before
        self._header = False
        # The latest round that is over.
        self.last = 0

    def add(self, one: TrainingRound) -> None:
        """Show a round."""
        from blindsum.training.files import round_line

        self.last = one.number
        if self.as_json:
            print(round_line(one), end="", flush=True)
            return
        if not self._header:
            if self._before is not None and one.number > 1:
                console.note(f"goes on after round {one.number - 1}, which {self._before} has")
            print("round  parties  seconds  bytes sent  numbers", flush=True)
            self._header = True
        numbers = {**one.metrics, **{f"test {name}": value for name, value in one.test.items()}}
        numbers |= {f"plain {name}": value for name, value in one.plain_test.items()}
        shown = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value is not None)
        lost = "; ".join(f"{name} ({why})" for name, why in one.lost_words.items())
        text = f"{one.number:5}  {len(one.survivors):7}  {one.seconds:7.2f}  {console.bytes_text(one.up):>10}"
        if one.outcome != "sum":
            shown = f"no sum: {one.fault}  {shown}"
        line = f"{text}  {shown}{f'  lost: {lost}' if lost else ''}".rstrip()
        # Names and reasons are what parties say.
        print(printable(line), flush=True)


def _write(record: TrainingRecord, out: Path, table: _Table) -> None:
    """The files of a run."""
    from blindsum.training.checkpoints import BEST, write_best
    from blindsum.training.record import best_words

    record.to_jsonl(out / "record.jsonl")
    record.to_csv(out / "rounds.csv")
    record.report(out / "report.html")
    write_best(record, out)
    if not table.as_json:
        if (best := record.best_model) is not None:
            print(f"best model: {best_words(best)}; {out / BEST}")
        print(f"{printable(record.ended)}; {out / 'report.html'}")
