"""Many parties at one coordinator over real TLS: its memory for idle connections, and in a round."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blindsum import _native
from blindsum.errors import ConfigError
from blindsum.policy import Policy, rules_of
from blindsum.spec import JobSpec
from blindsum.testing import Cluster

OnText = Callable[[str], object]

_OTHER_FILES = 256
_SETTLE = 2.0
_PATIENCE = 3600.0


@dataclass(frozen=True)
class LoadCost:
    """What parties cost their coordinator, a process of its own.

    Attributes
    ----------
    parties : int
        How many were connected, each over a connection of its own.
    before_bytes : int
        Memory of the coordinator before the first one came.
    idle_bytes : int
        The same when all were there and nothing was said for a while.
    connection_bytes : float
        What one idle connection adds.
    most_bytes : int
        The most memory that the coordinator had until the end of the rounds.
    rounds : list of float
        Seconds of each round, as the parties saw it; empty where none was run.
    """

    parties: int
    before_bytes: int
    idle_bytes: int
    connection_bytes: float
    most_bytes: int
    rounds: list[float]


def measure(spec: JobSpec, rounds: int, on_text: OnText) -> LoadCost:
    """Connect all parties of a job from this process, and let them take part in its rounds.

    Parameters
    ----------
    spec
        The job.
    rounds
        How many rounds are run; 0 leaves the parties idle.
    on_text
        Called with news.

    Raises
    ------
    blindsum.ConfigError
        This process may not open so many files, or parties send to several servers.
    blindsum.BlindsumError
        A party was refused, or a round gave no sum.
    """
    check_one_server(spec, "bench load")
    _make_room(spec.parties)
    # So many parties of one process are slow to answer: nobody is to be lost for it.
    patient = dict.fromkeys(
        ["keepalive", "chunk_timeout", "hello_timeout", "reconnect_grace", "lease"], _PATIENCE
    )
    limits = {"connections": spec.parties + 8, "models_kept": 1, "failed_rounds": 1, **patient}
    with (
        tempfile.TemporaryDirectory(prefix="blindsum-load-") as name,
        Cluster(spec, [], Path(name), limits=limits) as cluster,
    ):
        before = _memory(cluster.coordinator_pid, "VmRSS")
        on_text(f"{spec.parties} parties connect")
        with crowd(spec, cluster.url, Path(name) / "pki") as parties:
            time.sleep(_SETTLE)
            idle = _memory(cluster.coordinator_pid, "VmRSS")
            seconds = []
            update = np.linspace(-1, 1, spec.dim).tolist()
            for number in range(rounds):
                on_text(f"round {number + 1} of {rounds}")
                begin = time.monotonic()
                parties.round(update)
                seconds.append(time.monotonic() - begin)
            most = _memory(cluster.coordinator_pid, "VmHWM")
    return LoadCost(spec.parties, before, idle, (idle - before) / spec.parties, most, seconds)


def check_one_server(spec: JobSpec, what: str) -> None:
    """Refuse a job whose parties send to several servers: the parties of this process know one.

    Raises
    ------
    blindsum.ConfigError
        They do.
    """
    if spec.needs_servers:
        rule = f"parties of {spec.protocol.name} send to three servers, and {what} knows one: use bench round"
        raise ConfigError("--protocol", rule)


@contextmanager
def crowd(spec: JobSpec, url: str, certificates: Path) -> Iterator[_native.Crowd]:
    """Connect all parties of a job from this process; ``certificates`` is the folder of its CA."""
    ca = (certificates / "ca.pem").read_text()
    authority = (ca, (certificates / "ca.key").read_text())
    pems = [
        _native.pki_issue(authority, f"party-{rank:05}", "party", [], "ed25519", 1)
        for rank in range(spec.parties)
    ]
    parties = _native.Crowd(url, spec.job, pems, ca, rules_of(_policy(spec)))
    try:
        yield parties
    finally:
        parties.close()


def _policy(spec: JobSpec) -> Policy:
    """Take this very job, which is this process's own, whatever it is."""
    return Policy(
        allowed_protocols=[spec.protocol.name],
        require_adversary=None,
        min_corrupt=0.0,
        min_corrupt_parties=0,
        min_honest=0,
        min_cohort=1,
        job_hash=spec.hash,
    )


def memory(pid: int, field: str) -> int | None:
    """Give a field of Linux's account of a process, in bytes, unless it has ended or has no account."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = (line.split()[1] for line in lines if line.startswith(f"{field}:"))
    kilobytes = next(found, None)
    return None if kilobytes is None else int(kilobytes) * 1024


def _memory(pid: int, field: str) -> int:
    """The same, where it must be there."""
    found = memory(pid, field)
    if found is None:
        raise ConfigError("bench load", f"/proc/{pid}/status has no {field}: it needs Linux")
    return found


def _make_room(connections: int) -> None:
    """Let this process open a file for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if hard != resource.RLIM_INFINITY and hard < needed:
        rule = f"{connections} connections need {needed} open files, and the system allows {hard}: ulimit -Hn"
        raise ConfigError("--parties", rule)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
