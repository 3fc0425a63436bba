"""``blindsum report``: a training run as a page, a table and JSON lines."""

from __future__ import annotations

import argparse
import shlex
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from blindsum.cli.files import check_file, inputs, named
from blindsum.cli.flags import named_as_flags
from blindsum.errors import BlindsumError, ConfigError
from blindsum.texts import printable

if TYPE_CHECKING:
    from blindsum.training.record import Evaluate, TrainingRecord

EXAMPLES = """\
examples:
  blindsum report --store job.sqlite
  blindsum report --store job.sqlite --job tumour --evaluate training:evaluate
  blindsum report --store job.sqlite --csv rounds.csv --jsonl run.jsonl
  blindsum report run.jsonl --out report.html

The page is one file that any browser opens, without a network. It has names of parties, reasons of dropouts,
times, bytes and metrics, and nothing of an update or a model. A coordinator may use the store meanwhile.
"""

DEFAULT = "report.html"

OF_A_STORE = ("job", "evaluate")
"""Options that only a store needs."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = (
        "Write the report of a training run: of a job in a store, or of a file of JSON lines."
    )
    parser.epilog = EXAMPLES
    parser.add_argument("file", nargs="?", type=named, metavar="FILE", help="a run as JSON lines")
    parser.add_argument("--store", type=named, metavar="FILE", help="the coordinator's SQLite file")
    parser.add_argument("--job", metavar="NAME", help="name of the job in the store (default: the only one)")
    parser.add_argument(
        "--evaluate",
        metavar="MODULE:FUNCTION",
        help="called with each model that the store still has; gives numbers by their names",
    )
    text = f"the page (default {DEFAULT}; none if only --csv or --jsonl is given)"
    parser.add_argument("--out", type=named, metavar="FILE", help=text)
    parser.add_argument("--csv", type=named, metavar="FILE", help="a table with one row a round")
    parser.add_argument("--jsonl", type=named, metavar="FILE", help="everything, to be read again")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read and write."""
    from blindsum.training.report import check_charts
    from blindsum.training.words import count_text

    _check_source(options)
    wanted = {"--out": options.out, "--csv": options.csv, "--jsonl": options.jsonl}
    if not any(wanted.values()):
        wanted["--out"] = DEFAULT
    _check_files(wanted, [*inputs(options, "store"), ("the run", options.file)])
    if wanted["--out"]:
        with named_as_flags(report="--out"):
            check_charts()
    record = _record(options)
    writers = {"--out": _page(record, options), "--csv": record.to_csv, "--jsonl": record.to_jsonl}
    written = {option: path for option, path in wanted.items() if path is not None}
    for option, path in written.items():
        writers[option](path)
    sums = sum(one.outcome == "sum" for one in record.rounds)
    files = ", ".join(written.values())
    print(
        f"job {printable(record.job)}: {count_text(len(record.rounds), 'round')}, {sums} with a sum: {files}"
    )
    return 0


def _check_source(options: argparse.Namespace) -> None:
    """Refuse no source, two of them, and options that belong to the other one."""
    if options.file is None and options.store is None:
        raise ConfigError("--store", "is missing: give the coordinator's store, or a file of JSON lines")
    if options.file is not None and options.store is not None:
        raise ConfigError("--store", f"a run comes from one place: leave {options.file} or --store out")
    given = [name for name in OF_A_STORE if getattr(options, name) is not None]
    if options.file is not None and given:
        flag = f"--{given[0].replace('_', '-')}"
        raise ConfigError(flag, f"belongs to a store: leave it out, {options.file} has the whole run")


def _check_files(wanted: Mapping[str, str | None], sources: list[tuple[str, str | None]]) -> None:
    """Refuse files that cannot be written, and those that would replace an input or each other."""
    before = list(sources)
    for option, path in wanted.items():
        check_file(option, path, before)
        before.append((option, path))


def _record(options: argparse.Namespace) -> TrainingRecord:
    from blindsum.training.record import TrainingRecord

    if options.file is not None:
        return TrainingRecord.from_jsonl(options.file)
    evaluate = None if options.evaluate is None else _evaluation(options.evaluate)
    with named_as_flags("job"):
        return TrainingRecord.from_store(options.store, options.job, evaluate=evaluate)


def _evaluation(text: str) -> Evaluate:
    """The user's function, whose own errors are shown with its traceback."""
    from blindsum.cli.training import training_function

    try:
        function = training_function(text)
    except ConfigError as error:
        raise ConfigError("--evaluate", error.rule) from error

    def evaluate(model: Any) -> Any:
        try:
            return function(model)
        except Exception as error:
            traceback.print_exc()
            raise BlindsumError(
                f"--evaluate {text}: raised {type(error).__name__}: {error}; mend the function, and run again"
            ) from error

    return evaluate


def _page(record: TrainingRecord, options: argparse.Namespace) -> Any:
    """Writes the page, with the command that makes it again."""
    words = ["blindsum", "report"]
    if options.file is not None:
        words.append(options.file)
    for name in ("store", *OF_A_STORE, "out", "csv", "jsonl"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", value]
    return lambda path: record.report(path, command=shlex.join(words))
