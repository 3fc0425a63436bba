"""Rounds of three servers over connections that take their time.

They run in a network namespace of their own, whose loopback device delays every packet (netem). Not every
machine can do that: the kernel may lack netem, or forbid namespaces. The reason is said then, and rounds run
through relays in user space (`benches.relay`), which delay what goes over a connection by as much.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benches import rounds as rounds_of
from benches.relay import Link, relays
from blindsum.errors import BlindsumError
from experiments.three_servers import Case

PROGRAMS = ("unshare", "ip", "tc")
PATIENCE = 900.0
"""Seconds that a command may take."""
WAIT = 120.0
"""Seconds that a stage may take."""
ROUNDS = 3
"""That count, of each job; one more warms up."""

_PREPARE = 'ip link set lo up && tc qdisc add dev lo root netem delay "$1" && shift && exec "$@"'


class CommandFailedError(Exception):
    """A command in a namespace failed; the text is what it said last."""


@dataclass(frozen=True)
class Delayed:
    """What rounds took where every packet takes a delay.

    Attributes
    ----------
    seconds : mapping of Case to float
        The median of the rounds of each job that was run.
    hindrance : str or None
        Why the others were not, where there are others.
    relayed : str or None
        Why relays delayed them and not the kernel, if so.
    """

    seconds: Mapping[Case, float]
    hindrance: str | None
    relayed: str | None = None


def run(words: Sequence[str], delay_ms: float) -> str:
    """Run a command in a network namespace of its own; gives what it prints.

    Parameters
    ----------
    words
        The command. It reaches nothing but its own loopback device.
    delay_ms
        What every packet takes there, one way.

    Raises
    ------
    CommandFailedError
        It failed, or there can be no such namespace or no such delay.
    """
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise CommandFailedError(f"{program} is not installed")
    alone = ["unshare", "--net", *(["--map-root-user"] if os.getuid() else [])]
    whole = [*alone, "sh", "-c", _PREPARE, "sh", f"{delay_ms:g}ms", *words]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            # Each program becomes the next one: this reaches the command, which ends what it has started.
            process.terminate()
            process.communicate()
            raise CommandFailedError(f"it took more than {PATIENCE:g} s") from error
    if process.returncode != 0:
        said = err.strip().splitlines() or [f"exit status {process.returncode}"]
        raise CommandFailedError(said[-1])
    return out


def hindrance() -> str | None:
    """Why packets cannot be delayed on this machine, in the words of the tool that says so; else nothing."""
    try:
        run(["true"], 1.0)
    except CommandFailedError as error:
        return str(error)
    return None


def command(case: Case, rounds: int) -> list[str]:
    """The measurement of a case."""
    sizes = {"parties": case.parties, "dim": case.dim, "bits": case.bits, "rounds": rounds}
    words = [sys.executable, "-m", "blindsum", "bench", "round", "--json", "--protocol", "mpc3"]
    words += ["--rule", case.rule, "--adversary", case.adversary]
    return words + [word for name, size in sizes.items() for word in (f"--{name}", str(size))]


def through_relays(case: Case, rounds: int) -> float:
    """Seconds of a round of a case, the median of so many: processes reach each other through relays."""
    job = case.spec.replace(rounds=rounds + 1, model_update="none")
    job = job.replace(stage_deadline=WAIT, input_deadline=WAIT)
    with relays(Link(math.inf, 2 * case.delay_ms / 1000)) as relay:
        return rounds_of.measure(job, lambda _status: None, relay).seconds


def measured(
    cases: Sequence[Case], rounds: int = ROUNDS, on_case: Callable[[Case], object] = lambda _case: None
) -> Delayed:
    """Run rounds of cases over processes and mutual TLS, each packet as late as the messages of the case.

    Parameters
    ----------
    cases
        Rounds whose options follow from their size, as those of `fedavg` and `fltrust`.
    rounds
        How many count.
    on_case
        Called before each case.
    """
    reason = hindrance()
    seconds: dict[Case, float] = {}
    for case in cases:
        on_case(case)
        try:
            if reason is not None:
                seconds[case] = through_relays(case, rounds)
                continue
            report = json.loads(run(command(case, rounds), case.delay_ms))
        except (CommandFailedError, BlindsumError) as error:
            failed = f"{case.rule}, {case.adversary}, {case.delay_ms:g} ms: {error}"
            return Delayed(seconds, failed, reason)
        seconds[case] = report["measured"]["seconds"]
    return Delayed(seconds, None, reason)
