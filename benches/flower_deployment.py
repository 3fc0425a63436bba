"""Processes of Flower on 127.0.0.1: a SuperLink with SuperNodes over TLS, or one that simulates nodes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches import ROOT
from benches.counted import Counted, counting
from blindsum import pki
from blindsum.errors import BlindsumError

APP = Path(__file__).parent / "flower_app"
PROGRAMS = Path(sys.executable).parent
START = 300.0
"""Seconds in which a SuperLink must listen."""

TRIES = 3
RAY_IS_LATE = "The current node timed out during startup"
"""What Ray says where it has not started within 30 s, as on a busy machine: then it is tried again."""

PYPROJECT = """\
[project]
name = "flowerbench"
version = "1.0.0"
description = "What blindsum bench flower measures"
license = "Apache-2.0"
dependencies = ["blindsum[flower]"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.flwr.app]
publisher = "blindsum"

[tool.flwr.app.components]
serverapp = "flowerbench.server:app"
clientapp = "flowerbench.client:{how}"

[tool.flwr.app.config]
{config}
"""


@dataclass(frozen=True)
class Ran:
    """What a run was.

    Attributes
    ----------
    rounds : list of dict
        ``seconds``, ``survivors`` (0: no sum) and ``deviation`` of each.
    server_memory, node_memory : int
        The most bytes of memory of the process of the ServerApp, and of one of a ClientApp.
    up, down : int or None
        Bytes of all nodes in all rounds; ``None`` where they were not counted.
    reasons : tuple of str
        Why rounds have no sum.
    """

    rounds: list[dict[str, Any]]
    server_memory: int
    node_memory: int
    up: int | None
    down: int | None
    reasons: tuple[str, ...] = ()


class Federation:
    """A SuperLink to which apps are given.

    Parameters
    ----------
    folder
        For certificates, logs and apps.
    environment
        Of the programs of Flower.
    nodes
        How many there are.
    simulated
        Whether the SuperLink simulates them.
    relays
        What counts the bytes between nodes and the SuperLink, and between nodes and our coordinator.
    coordinator_port
        Where our coordinator listens, behind its relay.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        nodes: int,
        simulated: bool,
        relays: tuple[Counted, ...] = (),
        coordinator_port: int = 0,
    ) -> None:
        self._folder, self._environment = folder, environment
        self._nodes, self._simulated = nodes, simulated
        self._relays, self._coordinator_port = relays, coordinator_port
        self._runs = 0

    def run(self, how: str, rounds: int, dim: int, *, lost: str = "", **settings: str) -> Ran:
        """Run the app of the bench.

        Parameters
        ----------
        how
            :data:`benches.flower_app.work.PLAIN`, ``PEER`` or ``OURS``.
        rounds, dim
            How many rounds of vectors of which length.
        lost
            Where a node is lost in each round: see :func:`benches.flower_app.work.lost_at`.
        settings
            Of Blindsum, such as ``transport``.

        Raises
        ------
        blindsum.BlindsumError
            The run failed; the error has the end of what it printed.
        """
        self._runs += 1
        app = self._folder / f"app-{self._runs}"
        out = self._folder / f"out-{self._runs}"
        out.mkdir()
        config: dict[str, str | int | float] = {
            "how": how,
            "rounds": rounds,
            "dim": dim,
            "nodes": self._nodes,
            "lost": lost,
            "out": str(out),
            "timeout": 600.0,
        }
        if how == "ours":
            config |= {f"blindsum-{name.replace('_', '-')}": value for name, value in settings.items()}
            config |= {} if self._simulated else self._coordinator()
        shutil.copytree(APP, app / "flowerbench", ignore=shutil.ignore_patterns("__pycache__"))
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in config.items())
        (app / "pyproject.toml").write_text(PYPROJECT.format(how=how, config=lines), encoding="utf-8")
        before = [(relay.up, relay.down) for relay in self._relays]
        printed = self.flwr_run(app)
        try:
            told = json.loads((out / "server.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BlindsumError(f"the run of Flower failed:\n{printed[-3000:]}") from None
        moved = [
            (relay.up - up, relay.down - down) for relay, (up, down) in zip(self._relays, before, strict=True)
        ]
        return Ran(
            rounds=told["rounds"],
            server_memory=told["memory"],
            node_memory=max(int(file.read_text(encoding="utf-8")) for file in out.glob("node-*")),
            up=sum(up for up, _ in moved) if moved else None,
            down=sum(down for _, down in moved) if moved else None,
            reasons=tuple(told["reasons"]),
        )

    def flwr_run(self, app: Path, config: str = "") -> str:
        """Run any app, and give what it printed; ``config`` is as for ``--run-config``."""
        words = ["flwr", "run", str(app), "bench", "--stream"]
        if config:
            words += ["--run-config", config]
        if self._simulated:
            cores = os.cpu_count() or 1
            words += [
                "--federation-config",
                f"num-supernodes={self._nodes} client-resources-num-cpus=1 init-args-num-cpus={cores}",
            ]
        for _ in range(TRIES):
            done = subprocess.run(
                words,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if RAY_IS_LATE not in done.stdout:
                break
        return done.stdout

    def _coordinator(self) -> dict[str, str]:
        """The settings of our coordinator, which stands behind a relay."""
        job = self._folder / "job"
        return {
            "blindsum-coordinator-identity": str(job / "agg"),
            "blindsum-coordinator-ca": str(job),
            "blindsum-listen": f"127.0.0.1:{self._coordinator_port}",
            "blindsum-url": f"https://127.0.0.1:{self._relays[1].port}",
        }


def free_port() -> int:
    """A port of 127.0.0.1 at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def simulation(folder: Path, nodes: int) -> Iterator[Federation]:
    """Run a SuperLink that simulates the nodes."""
    with ExitStack() as started:
        port = free_port()
        environment = _environment(folder, f'address = "127.0.0.1:{port}"\ninsecure = true\n')
        link = ("flower-superlink", "--insecure", "--simulation", *_address(port))
        process = _start(started, folder, environment, "superlink", link)
        _wait_for(port, process, folder)
        yield Federation(folder, environment, nodes, simulated=True)


@contextmanager
def deployment(folder: Path, nodes: int) -> Iterator[Federation]:
    """Run a SuperLink and the nodes, each a process, with TLS and relays that count."""
    with ExitStack() as started:
        tls, job = folder / "tls", folder / "job"
        pki.init(tls)
        pki.issue(tls, "link", hosts=["127.0.0.1"], algorithm="p256")
        pki.init(job)
        pki.issue(job, "agg", hosts=["127.0.0.1"])
        port, coordinator_port = free_port(), free_port()
        relays = (started.enter_context(counting(port)), started.enter_context(counting(coordinator_port)))
        ca = tls / "ca.pem"
        environment = _environment(folder, f'address = "127.0.0.1:{port}"\nroot-certificates = "{ca}"\n')
        keys = ("--ssl-certfile", f"{tls / 'link'}.pem", "--ssl-keyfile", f"{tls / 'link'}.key")
        link = ("flower-superlink", *_address(port), *keys, "--ssl-ca-certfile", str(ca))
        process = _start(started, folder, environment, "superlink", link)
        _wait_for(port, process, folder)
        for node in range(nodes):
            pki.issue(job, f"node-{node}")
            config = (
                f'partition-id={node} num-partitions={nodes} blindsum-identity="{job / f"node-{node}"}" '
                f'blindsum-ca="{job}" blindsum-state="{folder / f"state-{node}"}"'
            )
            words = (
                *("flower-supernode", "--superlink", f"127.0.0.1:{relays[0].port}"),
                *("--root-certificates", str(ca), "--host", "127.0.0.1", "--port", str(free_port())),
                *("--node-config", config),
            )
            _start(started, folder, environment, f"supernode-{node}", words)
        yield Federation(folder, environment, nodes, False, relays, coordinator_port)


def _address(port: int) -> tuple[str, ...]:
    return ("--host", "127.0.0.1", "--port", str(port), "--disable-runtime-dependency-installation")


def _environment(folder: Path, link: str) -> dict[str, str]:
    """What the programs of Flower find in their environment: a home with the address of the SuperLink."""
    home = folder / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "bench"\n[superlink.bench]\n{link}', encoding="utf-8"
    )
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DISABLE_DASHBOARD": "1",
        "FLWR_HOME": str(home),
        "PATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def _start(
    started: ExitStack, folder: Path, environment: Mapping[str, str], name: str, words: tuple[str, ...]
) -> subprocess.Popen[bytes]:
    """Start a program that ends with the ``with`` statement; its log is a file."""
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)
    started.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program with all that it has started: processes of apps are in sessions of their own."""
    below = _descendants(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    for pid in below:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        # A process may end between the two looks.
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found, todo = list[int](), [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _wait_for(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until a SuperLink listens."""
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as found:
            if found.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    log = (folder / "superlink.log").read_text(encoding="utf-8", errors="replace")
    raise BlindsumError(f"the SuperLink of Flower does not listen:\n{log[-3000:]}")
