"""``blindsum join``: take part in a job with a training function of yours."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from blindsum.cli import EXIT_ABORT, EXIT_FAILED, EXIT_SUM
from blindsum.cli.files import check_file
from blindsum.cli.serve import identity_from

if TYPE_CHECKING:
    from blindsum.session import Policy, Round, RoundResult

MASK_MIB = 256
MOST_MIB = 2**63 >> 20

EXAMPLES = """\
example:
  blindsum join https://agg.example:9443 --job tumour --identity hospital-a --ca ca.pem --train training:step

with training.py in this folder:
  def step(model, round):          # model: read-only float32 array, round: its number
      return update, examples      # or only the update, for weight 1

exit status: 0 the job is over, 3 the last round gave no result (the fault is named), 2 wrong arguments
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Take part in a job: your function trains, nobody sees its result."
    parser.epilog = EXAMPLES
    parser.add_argument("url", metavar="URL", help="the coordinator, https://HOST:PORT")
    parser.add_argument("--job", required=True, metavar="NAME", help="name of the job")
    parser.add_argument("--ca", required=True, metavar="FILE", help="certificate of the job's CA")
    parser.add_argument("--identity", metavar="PREFIX", help="PREFIX.pem and PREFIX.key, or their folder")
    parser.add_argument("--cert", metavar="FILE", help="the certificate, in place of --identity")
    parser.add_argument("--key", metavar="FILE", help="its key, in place of --identity")
    parser.add_argument("--crl", metavar="FILE", help="the CA's revocation list")
    parser.add_argument("--train", required=True, metavar="MODULE:FUNCTION", help="the training step")
    parser.add_argument("--server-name", metavar="NAME", help="name in the coordinator's certificate")
    parser.add_argument("--state-dir", metavar="DIR", help="remember the round under way there")
    parser.add_argument("--give-up-after", type=float, default=120.0, metavar="S", help="seconds")
    parser.add_argument(
        "--mask-memory",
        type=int,
        default=MASK_MIB,
        metavar="MIB",
        help=f"MiB of masks computed ahead while waiting (flashe; default {MASK_MIB}, 0: none)",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="RULE=VALUE",
        help="a rule of Policy, e.g. min_cohort=5 or allowed_protocols=secagg,secagg+",
    )
    parser.add_argument("--out", metavar="FILE", help="write the model after the last round there, .npy")
    parser.add_argument("--log", metavar="LEVEL", help="log to stderr: error, warn, info, debug")
    parser.add_argument("--json", action="store_true", help="print one JSON object per round")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Take part until the job is over."""
    from blindsum import _native
    from blindsum.errors import ConfigError, Fault, RoundAborted
    from blindsum.session import join

    check_file("--out", options.out)
    if not 0 <= options.mask_memory < MOST_MIB:
        raise ConfigError("--mask-memory", f"0 <= {options.mask_memory} < {MOST_MIB} MiB must hold")

    if options.log:
        _native.log_to_stderr(options.log)
    train = training_function(options.train)
    policy = policy_from(options.policy)
    status = EXIT_SUM
    with join(
        options.url,
        job=options.job,
        identity=identity_from(options),
        ca=options.ca,
        revoked=options.crl,
        policy=policy,
        server_name=options.server_name,
        state_dir=options.state_dir,
        give_up_after=options.give_up_after,
        mask_memory=options.mask_memory << 20,
    ) as session:
        for current in session.rounds():
            try:
                outcome = _take_part(current, train)
                report = _report(current.number, outcome)
                status = EXIT_SUM
            except (Fault, RoundAborted) as error:
                report = {"round": current.number, "outcome": "abort", "fault": str(error)}
                status = EXIT_ABORT
            except _TrainingError as error:
                report = {"round": current.number, "outcome": "abort", "fault": str(error)}
                _say(report, options.json)
                return EXIT_FAILED
            _say(report, options.json)
        if options.out:
            _write_model(options.out, session.final_model)
    return status


class _TrainingError(Exception):
    """The user's function raised; its traceback has been printed."""


def _take_part(current: Round, train: Callable[..., Any]) -> RoundResult:
    if current.needs_update:
        try:
            step = train(current.model, current.number)
        except Exception as error:
            # The one traceback that a user wants to see: the one of the user's own function.
            traceback.print_exc()
            raise _TrainingError(f"the training function raised {type(error).__name__}: {error}") from error
        update, weight = step if isinstance(step, tuple) else (step, 1)
        current.submit(update, weight)
    return current.outcome()


def _write_model(path: str, model: Any) -> None:
    import numpy as np

    from blindsum.errors import HiddenModelError

    if model is None:
        raise HiddenModelError(
            "--out: the last model is not here: this party missed the last round, and the coordinator does "
            "not know it; a party of that round has it in its file"
        )
    np.save(path, model)


def _report(number: int, outcome: RoundResult) -> dict[str, Any]:
    return {
        "round": number,
        "outcome": "sum",
        "survivors": list(outcome.survivors),
        "total_weight": outcome.total_weight,
        "model_version": outcome.model_version,
        "result": outcome.result,
        "seconds": dataclasses.asdict(outcome.timings),
    }


def _say(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report), flush=True)
    elif report["outcome"] == "sum":
        print(f"round {report['round']}: sum of {len(report['survivors'])} parties", flush=True)
    else:
        print(f"round {report['round']}: no result: {report['fault']}", flush=True)


def training_function(text: str) -> Callable[..., Any]:
    """Find ``module:function``, also in the current folder."""
    from blindsum.errors import ConfigError

    module_name, colon, name = text.partition(":")
    if not colon or not module_name or not name:
        raise ConfigError("--train", f"{text!r} must be MODULE:FUNCTION, e.g. training:step")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError("--train", f"module {module_name} cannot be imported: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError("--train", f"module {module_name} has no function {name}")
    found: Callable[..., Any] = function
    return found


def policy_from(rules: list[str]) -> Policy:
    """A policy from ``RULE=VALUE`` texts."""
    import dataclasses

    from blindsum.errors import ConfigError
    from blindsum.session import Policy

    names = [field.name for field in dataclasses.fields(Policy)]
    values: dict[str, Any] = {}
    for rule in rules:
        name, equals, text = rule.partition("=")
        if not equals or name not in names:
            raise ConfigError("--policy", f"{rule!r} must be RULE=VALUE with one of {', '.join(names)}")
        try:
            values[name] = _rule_value(name, text)
        except ValueError as error:
            raise ConfigError("--policy", f"{rule!r}: {name} must be a whole number") from error
    return Policy(**values)


def _rule_value(name: str, text: str) -> Any:
    match name:
        case "allowed_protocols":
            return [item for item in text.split(",") if item]
        case "require_adversary":
            return text
        case _:
            return int(text)
