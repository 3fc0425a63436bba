"""``blindsum admin round``: begin a round of a job whose rounds a program begins, and wait for its result."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from blindsum.cli.files import check_file, named

if TYPE_CHECKING:
    from blindsum.admin import Admin
    from blindsum.hosted import HostedResult


def add(actions: Any, connection: Callable[[argparse.ArgumentParser], None], duration: Any) -> None:
    """Describe the arguments of the action."""
    parser = actions.add_parser("round", help="begin a round of a hosted job, and wait for its result")
    parser.add_argument("job", metavar="NAME")
    parser.add_argument("--parties", required=True, metavar="NAME,NAME", help="who takes part: their names")
    parser.add_argument("--tag", type=int, metavar="N", help="your number of the step, which parties receive")
    parser.add_argument(
        "--model", type=named, metavar="FILE", help="model to start from, .npy (default: the job's own)"
    )
    parser.add_argument(
        "--about", metavar="TEXT", help="what the step is about, such as the model's hash (needs --tag)"
    )
    parser.add_argument(
        "--join-within", type=duration, metavar="TIME", help="time in which they must come (default: job's)"
    )
    parser.add_argument("--deadline", type=duration, metavar="TIME", help="the round ends then at the latest")
    parser.add_argument("--out", type=named, metavar="FILE", help="write the mean there, .npy")
    connection(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from blindsum.cli.admin import connected
    from blindsum.cli.flags import named_as_flags
    from blindsum.cli.model_files import model_in
    from blindsum.errors import ConfigError, RoundLost

    check_file("--out", options.out, [("--model", options.model)])
    parties = _names(options.parties)
    if options.about is not None and options.tag is None:
        raise ConfigError("--about", "needs a tag, for which parties wait: give the step a number, --tag N")
    model = None if options.model is None else model_in(options.model, "--model")
    admin = connected(options)
    if options.out or options.model:
        _check_files(admin, options)
    try:
        with (
            named_as_flags("parties", "tag", "about", "join_within", "deadline"),
            _model_named(options.model),
        ):
            result = admin.round(
                options.job,
                parties,
                model,
                tag=options.tag,
                about=options.about,
                join_within=options.join_within,
                deadline=options.deadline,
            )
    except RoundLost as lost:
        _tell_lost(lost, options.json)
        return 1
    if options.out:
        _write(options.out, result)
    print(json.dumps(_fields(result)) if options.json else "\n".join(_lines(result, options.out)))
    return 0


def _names(text: str) -> list[str]:
    """The names of parties in a text.

    Raises
    ------
    blindsum.ConfigError
        There is none, or one is empty.
    """
    from blindsum.errors import ConfigError

    names = [name.strip() for name in text.split(",")]
    if not any(names):
        rule = f"must be names of parties with commas between, as in hospital-a,hospital-b, not {text!r}"
        raise ConfigError("--parties", rule)
    if not all(names):
        raise ConfigError("--parties", f"has an empty name in {text!r}: take a comma out, or name the party")
    return names


def _check_files(admin: Admin, options: argparse.Namespace) -> None:
    """Refuse files that a job has no use for, before a round of it begins.

    Raises
    ------
    blindsum.ConfigError
        A file for the mean, where the sums are hidden; a model, where the coordinator has none.
    """
    from blindsum.errors import ConfigError
    from blindsum.spec import JobSpec

    job = options.job
    spec = JobSpec.from_dict(admin.describe(job)["specification"])
    if options.out and spec.hides_sum:
        raise ConfigError(
            "--out",
            f"no mean comes here: {spec.protocol} of job {job!r} hides sums from its coordinator. Leave "
            "--out out, and write the mean at a party, with blindsum join --out",
        )
    if options.model and spec.model_update == "none":
        rule = f"job {job!r} keeps no model (model_update = none): leave --model out"
        raise ConfigError("--model", f"{options.model}: {rule}")
    if options.model and spec.hides_sum:
        rule = f"only the parties of job {job!r} have its model: leave --model out"
        raise ConfigError("--model", f"{options.model}: {rule}")


@contextmanager
def _model_named(path: str | None) -> Iterator[None]:
    """In an error about the model, name its option and its file."""
    from blindsum.errors import ConfigError, InputError

    try:
        yield
    except InputError as error:
        raise ConfigError("--model", f"{path}: {error.rule}") from error


def _write(path: str, result: HostedResult) -> None:
    from blindsum.cli.files import write_array

    # Jobs whose sums are hidden were refused.
    assert result.mean is not None
    write_array(path, result.mean)


def _fields(result: HostedResult) -> dict[str, Any]:
    """A result as plain data; the mean is in the file of ``--out``."""
    return {
        "round": result.number,
        "tag": result.tag,
        "survivors": list(result.survivors),
        "lost": dict(result.lost),
        "total_weight": result.total_weight,
        "metrics": dict(result.metrics),
        "result": result.result,
        "model_version": result.model_version,
        "seconds": result.seconds,
    }


def _lines(result: HostedResult, out: str | None) -> list[str]:
    from blindsum.display import names_text

    of = "" if result.tag is None else f", tag {result.tag}"
    weight = "" if result.total_weight is None else f", total weight {result.total_weight}"
    told = f"sum of {names_text(result.survivors)}{weight}, {result.seconds:.1f} s"
    lines = [f"round {result.number}{of}: {told}"]
    lines += [f"  lost: {name}: {why}" for name, why in result.lost.items()]
    lines += [f"  {name}: {value}" for name, value in result.metrics.items()]
    lines.append(f"  result {result.result}")
    return lines + ([f"  mean: {out}"] if out else [])


def _tell_lost(lost: Any, as_json: bool) -> None:
    from blindsum.cli.console import note

    if as_json:
        told = {"round": lost.number, "tag": lost.tag, "reason": lost.reason, "lost": dict(lost.lost)}
        print(json.dumps(told))
        return
    note(f"blindsum: the round has no result: {lost.reason}", "WARN")
    for name, why in lost.lost.items():
        note(f"  lost: {name}: {why}", "WARN")
