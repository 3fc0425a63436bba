"""``blindsum join``: take part in a job with a training function of yours."""

from __future__ import annotations

import argparse
import dataclasses
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from blindsum.cli import EXIT_FAILED, console, log, passphrases
from blindsum.cli.examples import example
from blindsum.cli.files import check_file, inputs, named, write_array
from blindsum.cli.flags import named_as_flags
from blindsum.cli.follow import servers_from
from blindsum.cli.model_files import model_in
from blindsum.cli.serve import identity_from
from blindsum.cli.signals import on_hangup, stop_signals
from blindsum.cli.told import Told, TrainingError
from blindsum.cli.training import (
    RoundNumber,
    is_zero,
    refused,
    training_file,
    training_function,
    update_of,
)

if TYPE_CHECKING:
    from blindsum.errors import InputError
    from blindsum.policy import Policy
    from blindsum.rounds import Round
    from blindsum.session import Session

MASK_MIB = 256
MAX_MIB = 2**63 >> 20

EXAMPLES = """\
example:
  blindsum join https://agg.example:9443 --job tumour --identity hospital-a --ca ca.pem --train training:step

with training.py in this folder; examples/training.py:
{training}

model is a read-only array of float32, or of float64 for fixed64, integers and bits above 24. round is the
number of the round, an int that also has .number and .parties, so that round.number is right here and in
blindsum.join.

A round that is lost (too few parties were left, this party was too slow, its policy refused the round) is
told, and the next one is waited for. Where the update was clipped, a line says by how much, here and nowhere
else. In sparse rounds it says how much of the updates is left over: it goes into the next update, and what is
left at the end of the job was not sent.

The connection is direct: https_proxy and other variables of proxies are not looked at. The URL has no path,
no user and no password.

The function may sit a round out: it returns None, or weight 0. An update that cannot be used (NaN, a wrong
length, a weight that the job does not allow) is refused here, with the reason; this party sits that round out
and stays for the next. With --json the "outcome" of such rounds is "skipped". It is "unknown" if the update
is out and this party ends before the coordinator says whether it counts: with --state-dir, start it again to
learn it. It is "unknown" as well if somebody broke the protocol once the update was out, and "missed" if the
update counts and this party cannot get the result.

Where an operator of the coordinator pauses the job, a line says by whom and why, and another one that rounds
begin again; with --json the "outcome" is "held" with a "reason", and "resumed".

A changed certificate, CA or revocation list is read again by itself, or on SIGHUP. See docs/operations.md.

--policy, with the defaults; a job that breaks a rule is refused, and the rule named:
  allowed_protocols=secagg,secagg+,fssa,pss,pss-malicious,mpc3  plain, flashe and paillier-… must be named
  allowed_rules=fedavg,weighted,clipped,multi-krum,trimmed-mean  of mpc3; others must be named
  require_adversary=active                     or semi-honest, or none
  min_corrupt=0.1        fraction of corrupt parties that the job must tolerate
  min_corrupt_parties=1  as many at least, however few parties the job has
  min_honest=2           fewest honest parties in a sum, beside the corrupt ones
  min_cohort=3           fewest parties in a round
  min_cohort_change=0    fewest honest parties that all sums together may tell apart
  max_weight=none        largest weight of an update
  max_dim=268435456      longest vector
  max_message=4294967296 bytes of the longest message
  max_parties=10000      most parties of a job
  max_rounds=none        most rounds of a job, also after its operator has extended it; with job_hash, if it
                         is left out, those of the job
  job_hash=none          the job's hash, where its specification was agreed on
  require_privacy=no     or yes: the sums of the job must have noise
  max_epsilon=none       largest epsilon of this party's data over all jobs, at max_delta; needs --state-dir
  max_delta=none         the delta of max_epsilon, as 1e-5
  privacy_unit=data      name of the data; each name has a ledger of its own

Jobs that the defaults refuse, and the policy that takes them:
{recipes}
exit status: 0 the job is over, 1 the policy refuses the job, the training function raised or the
coordinator is lost, 2 wrong arguments or credentials, 3 the job is over and the last round gave this party
nothing, 130 stopped by SIGTERM or Ctrl-C
"""


RECIPES = {
    "plain, with min_parties = 3 in the job; the coordinator reads every update": (
        *("--policy", "allowed_protocols=plain"),
        *("--policy", "require_adversary=none"),
    ),
    'two parties, with adversary = "semi-honest"; each learns the other\'s update from the sum': (
        *("--policy", "require_adversary=semi-honest"),
        *("--policy", "min_honest=1"),
        *("--policy", "min_cohort=2"),
    ),
    "flashe; the coordinator reads every update if one party helps it": (
        *("--policy", "allowed_protocols=flashe"),
    ),
}
"""Jobs that the default policy refuses, and what takes them."""


REAL_RULES = ("min_corrupt", "max_epsilon", "max_delta")
"""Rules that are real numbers."""

NONE_RULES = ("require_adversary", "max_weight", "max_rounds", "job_hash", "max_epsilon", "max_delta")
"""Rules that can be ``none``."""


def number(text: str) -> float:
    """A number as it is written: 300, or 300.0."""
    return float(text) if set(text) & set(".eEnN") else int(text)


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Take part in a job: your function trains, and its result stays hidden."
    recipes = "".join(f"  {job}\n    {' '.join(words)}\n" for job, words in RECIPES.items())
    parser.epilog = EXAMPLES.format(training=example("training.py"), recipes=recipes)
    parser.add_argument(
        "url",
        metavar="URL[,URL,URL]",
        help="the coordinator, https://HOST:PORT; all three servers, joined by commas, of an mpc3 job",
    )
    parser.add_argument("--job", required=True, metavar="NAME", help="name of the job")
    parser.add_argument("--ca", required=True, type=named, metavar="FILE", help="certificate of the job's CA")
    parser.add_argument(
        "--identity", type=named, metavar="PREFIX", help="PREFIX.pem and PREFIX.key, or their folder"
    )
    parser.add_argument("--cert", type=named, metavar="FILE", help="the certificate, in place of --identity")
    parser.add_argument("--key", type=named, metavar="FILE", help="its key, in place of --identity")
    passphrases.add_key(parser)
    parser.add_argument("--crl", type=named, metavar="FILE", help="the CA's revocation list")
    parser.add_argument("--train", required=True, metavar="MODULE:FUNCTION", help="the training step")
    parser.add_argument(
        "--weight", type=number, metavar="N", help="weight of updates that come without one (default: 1)"
    )
    parser.add_argument("--server-name", metavar="NAME", help="name in the coordinator's certificate")
    parser.add_argument("--state-dir", type=named, metavar="DIR", help="remember the round under way there")
    parser.add_argument(
        "--ledger-witness",
        type=named,
        metavar="FILE",
        help="a file on another disk, against a state folder that is put back to an earlier state",
    )
    parser.add_argument("--give-up-after", type=float, default=120.0, metavar="S", help="seconds")
    parser.add_argument(
        "--mask-memory",
        type=int,
        default=MASK_MIB,
        metavar="MIB",
        help=f"MiB of masks computed ahead while waiting (flashe; default {MASK_MIB}, 0: none)",
    )
    parser.add_argument(
        "--initial",
        type=named,
        metavar="FILE",
        help="a model, .npy, that this party gives if the job takes its first model from a party and asks it",
    )
    parser.add_argument("--location", default="", metavar="TEXT", help="where this party is, for rings")
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="RULE=VALUE",
        help="what this party agrees to: a rule of blindsum.Policy, see below",
    )
    parser.add_argument(
        "--out", type=named, metavar="FILE", help="write the model after the last round there, .npy"
    )
    log.add(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per round")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Take part until the job is over."""
    with stop_signals():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    from blindsum.errors import ConfigError
    from blindsum.joining import join

    check_file("--out", options.out, inputs(options, "ca", "identity", "cert", "key", "crl", "initial"))
    if not 0 <= options.mask_memory < MAX_MIB:
        raise ConfigError("--mask-memory", f"0 <= {options.mask_memory} < {MAX_MIB} MiB must hold")

    log.start(options.log, options.log_format)
    train = training_function(options.train)
    check_file("--out", options.out, [("--train", training_file(options.train))])
    policy = policy_from(options.policy)
    initial = None if options.initial is None else model_in(options.initial, "--initial")
    flags = ("job", "weight", "server_name", "give_up_after", "location", "state_dir", "ledger_witness")
    with named_as_flags(*flags, url="URL", servers="URL"):
        urls = servers_from(options.url)
        session = join(
            urls if len(urls) > 1 else options.url,
            job=options.job,
            identity=identity_from(options),
            ca=options.ca,
            revoked=options.crl,
            policy=policy,
            server_name=options.server_name,
            state_dir=options.state_dir,
            ledger_witness=options.ledger_witness,
            give_up_after=options.give_up_after,
            mask_memory=options.mask_memory << 20,
            location=options.location,
            initial=initial,
            weight=options.weight,
        )
    told = Told(options.json)
    try:
        with session:
            return _take_part(session, options, train, told)
    except TrainingError as error:
        told.failed(error)
        return EXIT_FAILED
    except BaseException:
        # The session has left the job: an update that is out may count.
        told.left()
        raise


def _take_part(session: Session, options: argparse.Namespace, train: Callable[..., Any], told: Told) -> int:
    from blindsum.errors import ConfigError, RoundUnknown

    if options.out and session.spec.model_update == "none":
        raise ConfigError("--out", "the job has no model: its model_update is none")
    on_hangup(session.reload)
    told.joined(session)
    over = False
    while not over:
        try:
            _take_rounds(session, train, told)
            over = True
        except TrainingError as error:
            session.training_failed(error.cause)
            raise
        except RoundUnknown as error:
            # Of a round from before this process was started; others come.
            told.unknown(error)
    told.ended(session.done_early)
    if options.out:
        _write_model(options.out, session.final_model)
    return told.status


def _take_rounds(session: Session, train: Callable[..., Any], told: Told) -> None:
    """Take part in round after round until the job is over."""
    from blindsum.errors import RoundUnknown

    for current in session.rounds(told.lost, told.held):
        told.begins(current)
        if not _submit(current, train, told):
            continue
        try:
            if current.result() is not None:
                told.done(current.number, current.outcome())
        except RoundUnknown as error:
            told.unknown(error)


def _submit(current: Round, train: Callable[..., Any], told: Told) -> bool:
    """Train and give the update; false if there is none for this round."""
    from blindsum.errors import InputError

    if not current.needs_update:
        return True
    try:
        step = train(current.model, RoundNumber.of(current))
    except Exception as error:
        if isinstance(error, InputError) and error.index is not None:
            # A ModelVector found it before the core does.
            return _sits_out(current, error, told)
        # The one traceback that a user wants to see: the one of the user's own function.
        console.note(traceback.format_exc().rstrip(), "ERROR")
        raise TrainingError(current.number, error) from error
    except SystemExit as error:
        raise TrainingError(current.number, error) from error
    try:
        update, weight, metrics = update_of(step)
        if update is None or is_zero(weight):
            current.skip()
            told.skipped(current.number, "the training function gave no update, or weight 0")
            return False
        current.submit(update, weight, metrics)
    except InputError as error:
        return _sits_out(current, error, told)
    return True


def _sits_out(current: Round, error: InputError, told: Told) -> bool:
    """Take no part in the round, with an update that was refused; gives false."""
    current.skip(refused(error))
    told.skipped(current.number, f"{error}; this party sits the round out")
    return False


def _write_model(path: str, model: Any) -> None:
    from blindsum.errors import HiddenModelError

    if model is None:
        raise HiddenModelError(
            "--out: this party does not have the last model: it missed the last round, and the coordinator "
            "of this job never has the model; a party of that round has it in its file"
        )
    write_array(path, model)


def policy_from(rules: list[str]) -> Policy:
    """A policy from ``RULE=VALUE`` texts."""
    from blindsum.errors import ConfigError
    from blindsum.policy import Policy

    names = [field.name for field in dataclasses.fields(Policy)]
    values: dict[str, Any] = {}
    for rule in rules:
        name, equals, text = rule.partition("=")
        if not equals or name not in names:
            raise ConfigError("--policy", f"{rule!r} must be RULE=VALUE with one of {', '.join(names)}")
        try:
            values[name] = _rule_value(name, text)
        except KeyError as error:
            raise ConfigError("--policy", f"{rule!r}: {name} must be yes or no") from error
        except ValueError as error:
            kind = "a number" if name in REAL_RULES else "a whole number"
            raise ConfigError("--policy", f"{rule!r}: {name} must be {kind}") from error
    try:
        return Policy(**values)
    except ConfigError as error:
        raise ConfigError(f"--policy {error.field.removeprefix('policy.')}", error.rule) from error


def _rule_value(name: str, text: str) -> Any:
    if text == "none" and name in NONE_RULES:
        return None
    match name:
        case "allowed_protocols" | "allowed_rules":
            return [item for item in text.split(",") if item]
        case "require_adversary" | "job_hash" | "privacy_unit":
            return text
        case "require_privacy":
            return {"yes": True, "no": False}[text]
        case _:
            return float(text) if name in REAL_RULES else int(text)
