"""A coordinator and its parties as processes of this machine, over mutual TLS on the loopback interface.

Certificates are made on the spot in a folder of the caller's. Leaving the ``with`` statement ends every
process, whatever happened.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from blindsum import pki
from blindsum.errors import BlindsumError
from blindsum.options import Mpc3
from blindsum.spec import JobSpec

OTHER_SERVERS = {1: "127.0.0.2", 2: "127.0.0.3"}
"""Addresses of this machine for the second and the third server: servers are told apart by their hosts."""

LOOK_EVERY = 0.2
"""Seconds between looks whether every process is still there."""


@dataclass(frozen=True)
class PartyProcess:
    """One party, which runs as a process.

    Attributes
    ----------
    name : str
        Its name.
    train : str
        ``module:function`` of its training step.
    environment : mapping
        Environment variables that it gets in addition to this process's own.
    options : sequence of str
        Further arguments of ``blindsum join``.
    """

    name: str
    train: str
    environment: Mapping[str, str]
    options: Sequence[str] = ()


class Cluster:
    """One job with its processes.

    Parameters
    ----------
    spec
        The job.
    parties
        What runs, one process each.
    folder
        For certificates, logs and the store.
    model
        The model of round 1.
    limits
        Limits of the coordinator.
    results
        A folder for what servers write of the results that they learn, with one inside for each of them.
    through
        Is given the address and the port that a server listens on, and gives the port of the same address by
        which all others reach it. Without it they connect directly.
    goes_on
        Whether the job goes on without a party whose process ends by itself, as far as its rounds can.

    Attributes
    ----------
    store : Path
        The coordinator's file.
    url : str
        Where it is, once it runs; of all three servers, joined by commas, where there are three.
    ended : dict of str to str
        The parties without which the job went on, and what each said last.
    """

    def __init__(
        self,
        spec: JobSpec,
        parties: Sequence[PartyProcess],
        folder: Path,
        *,
        model: NDArray[np.float32] | None = None,
        limits: Mapping[str, float] | None = None,
        results: Path | None = None,
        through: Callable[[str, int], int] | None = None,
        goes_on: bool = False,
    ) -> None:
        self.spec = spec
        self.store = folder / "job.sqlite"
        self.url = ""
        self.ended: dict[str, str] = {}
        self._goes_on = goes_on
        self._folder = folder
        self._parties = parties
        self._model = model
        self._limits = dict(limits or {})
        self._results = results
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._killed: set[str] = set()
        self._reader: threading.Thread | None = None
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._ports = free_ports() if spec.needs_servers else {}
        self._through = through or (lambda _host, port: port)
        hosts = {0: "127.0.0.1", **OTHER_SERVERS}
        self._reached = {place: self._through(hosts[place], port) for place, port in self._ports.items()}

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self._start_coordinator()
            self._start_servers()
            for party in self._parties:
                self._start_party(party)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def statuses(self) -> Iterator[dict[str, Any]]:
        """Give the job's status after every change, until the job is over.

        Raises
        ------
        blindsum.BlindsumError
            A process ended that should not have; the error has the end of its log.
        """
        while True:
            try:
                event = self._events.get(timeout=LOOK_EVERY)
            except queue.Empty:
                self._look_after()
                self._check_left()
                continue
            if event is None or event["event"] == "stopped":
                break
            if event["event"] == "status":
                yield event
        for name, process in self._running.items():
            if process.wait(timeout=30) != 0:
                self._has_failed(name)

    def log(self, name: str) -> list[str]:
        """What a process has said so far, by lines."""
        text = (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return text.strip().splitlines()

    def told(self, name: str) -> list[dict[str, Any]]:
        """What a party has told of its rounds so far, each as `blindsum join --json` prints it."""
        path = self._told(name)
        # The last line may be under way.
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def _told(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of the parties."""
        return tuple(party.name for party in self._parties)

    @property
    def coordinator_pid(self) -> int:
        """The process of the coordinator."""
        return self._running["coordinator"].pid

    @property
    def server_pids(self) -> dict[str, int]:
        """The processes of the servers by their names: the coordinator first, and others where there are."""
        names = {"coordinator": "coordinator"}
        if self._ports:
            names |= {"second": "server-1", "third": "server-2"}
        return {name: self._running[process].pid for name, process in names.items()}

    def kill(self, name: str) -> None:
        """End a party at once, with SIGKILL."""
        self._killed.add(name)
        self._running[name].kill()

    def _prepare(self) -> None:
        pki.init(self._folder / "pki")
        pki.issue(self._folder / "pki", "coordinator", hosts=["localhost", "127.0.0.1"])
        if self._ports:
            for place, host in OTHER_SERVERS.items():
                pki.issue(self._folder / "pki", f"server-{place}", hosts=[host], computes=True)
        for party in self._parties:
            pki.issue(self._folder / "pki", party.name)
        (self._folder / "job.json").write_text(self.spec.to_json(), encoding="utf-8")
        if self._model is not None:
            np.save(self._folder / "model.npy", self._model)

    def _start_coordinator(self) -> None:
        certificates = self._folder / "pki"
        port = self._ports.get(0, 0)
        words = ["serve", "--json", "--listen", f"127.0.0.1:{port}", "--job", str(self._folder / "job.json")]
        words += ["--identity", str(certificates / "coordinator"), "--ca", str(certificates / "ca.pem")]
        words += ["--store", str(self.store)]
        if self._ports:
            words += ["--servers", self._servers]
        words += self._keep_results("coordinator")
        if self._model is not None:
            words += ["--model", str(self._folder / "model.npy")]
        for name, number in self._limits.items():
            words += ["--limit", f"{name}={number}"]
        process = self._start("coordinator", words, {}, subprocess.PIPE)
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()
        ready = self._events.get()
        if ready is None:
            process.wait()
            raise self._failure("coordinator")
        port = int(ready["address"].rpartition(":")[2])
        self.url = self._servers if self._ports else f"https://localhost:{self._through('127.0.0.1', port)}"

    @property
    def _servers(self) -> str:
        """The URLs of all three servers."""
        hosts = {0: "localhost", **OTHER_SERVERS}
        return ",".join(f"https://{host}:{self._reached[place]}" for place, host in hosts.items())

    def _start_servers(self) -> None:
        certificates = self._folder / "pki"
        for place, host in OTHER_SERVERS.items() if self._ports else ():
            name = f"server-{place}"
            words = ["serve", "--json", "--job", str(self._folder / "job.json"), "--servers", self._servers]
            words += ["--server", str(place), "--listen", f"{host}:{self._ports[place]}"]
            words += ["--identity", str(certificates / name), "--ca", str(certificates / "ca.pem")]
            words += ["--state-dir", str(self._folder / name), *self._keep_results(name)]
            self._start(name, words, {}, subprocess.DEVNULL)

    def _keep_results(self, name: str) -> list[str]:
        return [] if self._results is None else ["--results", str(self._results / name)]

    def _start_party(self, party: PartyProcess) -> None:
        certificates = self._folder / "pki"
        words = ["join", self.url, "--json", "--job", self.spec.job, "--train", party.train]
        words += ["--identity", str(certificates / party.name), "--ca", str(certificates / "ca.pem")]
        # The job is this process's own: the parties take this very one, whatever it is.
        rules = [f"job_hash={self.spec.hash}", f"allowed_protocols={self.spec.protocol.name}"]
        rules += [f"allowed_rules={self.spec.protocol.rule}"] if isinstance(self.spec.protocol, Mpc3) else []
        rules += ["require_adversary=none", "min_corrupt=0", "min_honest=0", "min_cohort=1"]
        rules += [f"max_dim={self.spec.dim}", f"max_parties={self.spec.parties}", f"max_message={2**62}"]
        words += [word for rule in rules for word in ("--policy", rule)]
        words += party.options
        with self._told(party.name).open("w", encoding="utf-8") as told:
            self._start(party.name, words, party.environment, told)

    def _start(
        self, name: str, words: list[str], environment: Mapping[str, str], stdout: int | IO[str]
    ) -> subprocess.Popen[str]:
        # Many processes share few cores here: one thread each for numpy is fastest.
        extra = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **environment}
        with (self._folder / f"{name}.log").open("w", encoding="utf-8") as log, _signals_deferred():
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "blindsum", *words],
                env=os.environ | extra,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=log,
                text=True,
                # Ctrl-C reaches this process only, which then ends the others.
                start_new_session=True,
            )
        return self._running[name]

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._events.put(json.loads(line))
        self._events.put(None)

    def _look_after(self) -> None:
        for name, process in self._running.items():
            if process.poll() not in (None, 0):
                self._has_failed(name)

    def _check_left(self) -> None:
        """Nobody comes any more: too few parties for a round stay too few."""
        left = len(self._parties) - len(self.ended)
        if self.ended and left < self.spec.least_roster:
            ended = "; ".join(f"{name} {why}" for name, why in self.ended.items())
            have, need = f"{left} of {len(self._parties)} parties are left", self.spec.least_roster
            raise BlindsumError(f"{have}, and a round needs {need}: {ended}")

    def _has_failed(self, name: str) -> None:
        if name in self._killed or name in self.ended:
            return
        if not self._goes_on or all(party.name != name for party in self._parties):
            raise self._failure(name)
        self.ended[name] = f"ended with status {self._running[name].returncode}"
        if last := self.log(name)[-1:]:
            self.ended[name] += f", and said last: {last[0]}"

    def _failure(self, name: str) -> BlindsumError:
        status = self._running[name].returncode
        return BlindsumError(
            f"{name} ended with status {status}: {' | '.join(self.log(name)[-5:]) or 'no log'}"
        )

    def _end(self) -> None:
        # A second signal comes soon after the first one where a whole group is told to end.
        with _signals_deferred():
            self._end_processes()

    def _end_processes(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                # At once: a coordinator that gets SIGTERM lets its round end.
                process.send_signal(signal.SIGINT)
        for process in self._running.values():
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._reader is not None:
            self._reader.join()


def free_ports() -> dict[int, int]:
    """A port for each of three servers that nobody has now."""
    ports = {}
    for place, host in {0: "127.0.0.1", **OTHER_SERVERS}.items():
        with socket.create_server((host, 0)) as listener:
            ports[place] = listener.getsockname()[1]
    return ports


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM until the end, so that no process is forgotten while it starts or is ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    ends = (signal.SIGINT, signal.SIGTERM)
    before = {end: signal.signal(end, lambda number, _frame: came.append(number)) for end in ends}
    try:
        yield
    finally:
        for end, handler in before.items():
            signal.signal(end, handler)
        for number in came:
            signal.raise_signal(number)
