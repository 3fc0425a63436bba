"""A CA, a coordinator and parties of both kinds, as processes; what they print is kept in a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("BLINDSUM", str(HERE.parents[1] / ".venv/bin/blindsum"))


class World:
    """Everything of one job; a context that ends the processes it has started, and no others."""

    def __init__(self, job: dict[str, Any], parties: Sequence[str], limits: Sequence[str] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="interop-world-"))
        self.job, self.names = job, list(parties)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.heavy = job.get("encoding", {}).get("max_weight", 1)
        self._blindsum("pki", "init", "ca")
        self._blindsum("pki", "issue", "ca", "agg", "--coordinator", "--host", "localhost")
        for at, name in enumerate(self.names):
            algorithm = "p256" if at % 2 else "ed25519"
            self._blindsum("pki", "issue", "ca", name, "--algorithm", algorithm)
        (self.folder / "job.json").write_text(json.dumps(job))
        self.limits = [part for limit in limits for part in ("--limit", limit)]
        self.port = 0
        self.serve()

    def serve(self) -> None:
        """Starts the coordinator, again at the same port."""
        args = ["serve", "--job", "job.json", "--ca", "ca/ca.pem", "--identity", "ca/agg", "--json"]
        args += ["--listen", f"127.0.0.1:{self.port}", "--store", "job.sqlite", "--log", "info", *self.limits]
        self._start("serve", [PROGRAM, *args], {})
        self.port = int(self.wait("serve", "ready")["address"].rsplit(":", 1)[1])
        self.url = f"https://localhost:{self.port}"

    def _blindsum(self, *args: str) -> str:
        command = ["nice", PROGRAM, *args]
        done = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout

    def _start(self, name: str, command: Sequence[str], env: dict[str, str]) -> None:
        out, err = (self.folder / f"{name}.{kind}" for kind in ("out", "err"))
        with out.open("ab") as stdout, err.open("ab") as stderr:
            self.running[name] = subprocess.Popen(
                ["nice", *command], cwd=self.folder, env=os.environ | env, stdout=stdout, stderr=stderr
            )

    def _env(self, name: str) -> dict[str, str]:
        heavy, dim = str(self.heavy), str(self.job["dim"])
        return {"PARTY": name, "HEAVY": heavy, "DIM": dim, "PYTHONPATH": str(HERE)}

    def theirs(self, name: str) -> None:
        """Starts a party of the program."""
        args = ["join", self.url, "--job", self.job["job"], "--ca", "ca/ca.pem", "--identity", f"ca/{name}"]
        args += ["--train", "training:step", "--json", "--log", "info", "--out", f"{name}.npy"]
        if self.job["protocol"] == "plain":
            args += ["--policy", "allowed_protocols=plain", "--policy", "require_adversary=none"]
        self._start(name, [PROGRAM, *args], self._env(name))

    def mine(self, name: str, *more: str) -> None:
        """Starts a party of this folder."""
        args = [self.url, "--job", self.job["job"], "--ca", "ca/ca.pem", "--identity", f"ca/{name}"]
        args += [
            "--train",
            "training:step",
            "--protocols",
            "plain,secagg,secagg+",
            "--state",
            f"{name}.state",
        ]
        self._start(
            name, [sys.executable, str(HERE / "client.py"), *args, *more], self._env(name) | {"SLOW": "0"}
        )

    def kill(self, name: str) -> None:
        self.running.pop(name).send_signal(signal.SIGKILL)

    def events(self, name: str) -> list[dict[str, Any]]:
        events = []
        for line in (self.folder / f"{name}.out").read_text().splitlines():
            try:
                events.append(json.loads(line))
            except json.JSONDecodeError:
                continue  # a line that is being written
        return events

    def wait(self, name: str, event: str, seconds: float = 60, **more: Any) -> dict[str, Any]:
        """Waits for an event of a process."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for found in self.events(name):
                if found.get("event") == event and all(found.get(key) == more[key] for key in more):
                    return found
            time.sleep(0.1)
        raise TimeoutError(f"{name} did not say {event} {more}; see {self.folder}")

    def finish(self, names: Sequence[str], seconds: float = 120) -> dict[str, int | None]:
        """Waits for processes to end; their exit codes, None for one that goes on."""
        until = time.monotonic() + seconds
        codes: dict[str, int | None] = {}
        for name in names:
            try:
                codes[name] = self.running[name].wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                codes[name] = None
        return codes

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def faults(self) -> str:
        return self._blindsum("faults", "--store", "job.sqlite")

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
