"""The sum, the mean and FLTrust of 16 clients on SPU, another program for computing with three servers.

    python -m experiments.peer_spu [--quick] [--out FOLDER]

SPU (https://github.com/secretflow/spu) is no dependency of Blindsum. It wants other versions of NumPy, so
that it belongs in an environment of its own:

    python3.11 -m venv spu && spu/bin/pip install spu
    PYTHONPATH=python spu/bin/python -m experiments.peer_spu

ABY3, semi-honest, numbers of 64 bits with 18 behind the point. Three processes talk over the loopback
interface without TLS. One process shares the vectors of all clients, and puts the result together.
"""

from __future__ import annotations

import json
import pickle
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches.rows import number
from experiments import output

CLIENTS = 16
SERVERS = 3
DIMS = (100_000, 1_000_000)
QUICK_DIMS = (1_000,)
REPEATS = 3
NORM = 32
"""Of vectors: their squares must stay far below 2^27, and their coordinates far above 2^-18."""
TIMEOUT_S = 300
SENT = re.compile(r"Link details: total send bytes (\d+), recv bytes \d+, send actions (\d+)")

Floats = NDArray[np.float32]

MISSING = """SPU is not installed in this Python, and nothing was measured. Blindsum does not need it.
To measure it: python3.11 -m venv spu && spu/bin/pip install spu
               PYTHONPATH=python spu/bin/python -m experiments.peer_spu"""


@dataclass(frozen=True)
class Measured:
    """What a job costs, least of its repetitions.

    Attributes
    ----------
    job : str
        ``sum``, ``mean`` or ``fltrust``.
    clients, dim : int
        n and D.
    share_s, open_s : float
        One process shares the vectors of all clients, and puts the result together.
    servers_s : float
        From the first server's start, when all are connected, to the last one's end.
    work_s : float
        Processor time of the server that has most.
    sent_mb, sends : float, int
        What the server that sends most sends, and how often.
    upload_mb : float
        What one client sends: two shares to each server.
    error : float
        The largest difference from the result in the clear, as a part of its largest coordinate.
    """

    job: str
    clients: int
    dim: int
    share_s: float
    servers_s: float
    work_s: float
    open_s: float
    sent_mb: float
    sends: int
    upload_mb: float
    error: float


def jobs(dim: int) -> tuple[dict[str, Callable[[Any], Any]], dict[str, Floats], Floats]:
    """What is computed: functions for SPU, what comes out in the clear, and the vectors, ``(n, D)``."""
    import jax.numpy as jnp
    from jax import lax

    rng = np.random.default_rng(1)
    largest = NORM * np.sqrt(3 / dim)
    vectors = rng.uniform(-largest, largest, (CLIENTS, dim)).astype(np.float32)
    root = rng.uniform(-largest, largest, dim) + vectors[: CLIENTS // 2].sum(axis=0)
    length = float(np.linalg.norm(root))
    unit = (root / length).astype(np.float32)

    def fltrust(x: Any) -> Any:
        inverse = lax.rsqrt(jnp.einsum("cd,cd->c", x, x))
        trust = jnp.maximum(0, (x @ unit) * inverse)
        return (trust * inverse * (length / jnp.sum(trust))) @ x

    functions: dict[str, Callable[[Any], Any]] = {
        "sum": lambda x: jnp.sum(x, axis=0),
        "mean": lambda x: np.full(CLIENTS, 1 / CLIENTS, dtype=np.float32) @ x,
        "fltrust": fltrust,
    }
    lengths = np.linalg.norm(vectors, axis=1)
    trust = np.maximum(0, vectors @ unit / lengths)
    expected: dict[str, Floats] = {
        "sum": vectors.sum(axis=0),
        "mean": vectors.mean(axis=0),
        "fltrust": np.float32(length / trust.sum()) * ((trust / lengths) @ vectors),
    }
    return functions, expected, vectors


def config() -> Any:
    """ABY3 on words of 64 bits, with a log of what is sent."""
    from spu import libspu

    chosen = libspu.RuntimeConfig(protocol=libspu.ProtocolKind.ABY3, field=libspu.FieldType.FM64)
    chosen.enable_pphlo_profile = True
    return chosen


def measure(job: str, dim: int, repeats: int) -> Measured:
    """Run a job in three processes."""
    from spu import api, libspu
    from spu.utils import frontend

    functions, expected, vectors = jobs(dim)
    io = api.Io(SERVERS, config())
    executable, _ = frontend.compile(
        frontend.Kind.JAX,
        functions[job],
        (vectors,),
        {},
        ["x"],
        [libspu.Visibility.VIS_SECRET],
        lambda flat: [f"y{place}" for place in range(len(flat))],
    )
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        shares = io.make_shares(vectors, libspu.Visibility.VIS_SECRET)
        share_s = time.perf_counter() - start
        ended, results = play(executable, shares)
        start = time.perf_counter()
        opened = io.reconstruct(results)
        open_s = time.perf_counter() - start
        found.append((share_s, *ended, open_s))
    error = float(np.abs(opened - expected[job]).max() / np.abs(expected[job]).max())
    share_s, servers_s, work_s, sent, sends, open_s = (min(column) for column in zip(*found, strict=True))
    upload = sum(len(chunk) for share in shares for chunk in share.share_chunks) / CLIENTS
    return Measured(
        job, CLIENTS, dim, share_s, servers_s, work_s, open_s, sent / 1e6, int(sends), upload / 1e6, error
    )


def play(executable: Any, shares: Sequence[Any]) -> tuple[tuple[float, float, float, float], list[Any]]:
    """Start three servers: seconds, processor time, bytes and messages, and the shares of the result."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ports").write_text(json.dumps(free_ports()))
        (folder / "executable").write_bytes(pickle.dumps(executable))
        for rank, share in enumerate(shares):
            (folder / f"in{rank}").write_bytes(pickle.dumps(share))
        command = [sys.executable, "-m", "experiments.peer_spu", "--server"]
        logs = [(folder / f"log{rank}").open("w") for rank in range(SERVERS)]
        servers = [
            subprocess.Popen([*command, str(rank), name], stdout=log, stderr=subprocess.STDOUT)
            for rank, log in enumerate(logs)
        ]
        try:
            for server in servers:
                server.wait(timeout=TIMEOUT_S)
        finally:
            for server, log in zip(servers, logs, strict=True):
                server.kill()
                server.wait()
                log.close()
        said = [(folder / f"log{rank}").read_text() for rank in range(SERVERS)]
        for server, text in zip(servers, said, strict=True):
            if server.returncode:
                raise RuntimeError(f"a server of SPU failed: {text[-2000:]}")
        results = [pickle.loads((folder / f"out{rank}").read_bytes()) for rank in range(SERVERS)]
        times = [json.loads((folder / f"times{rank}").read_text()) for rank in range(SERVERS)]
    links = [SENT.search(text) for text in said]
    sent = [(float(link[1]), float(link[2])) for link in links if link]
    seconds = max(one["end"] for one in times) - min(one["start"] for one in times)
    work = max(one["work"] for one in times)
    return (seconds, work, max(one[0] for one in sent), max(one[1] for one in sent)), results


def free_ports() -> list[int]:
    """Ports that nobody listens at."""
    ports = []
    taken = [socket.socket() for _ in range(SERVERS)]
    for one in taken:
        with closing(one):
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
    return ports


def serve(rank: int, folder: Path) -> None:
    """Be one of the servers."""
    from spu import api, libspu

    description = libspu.link.Desc()
    for place, port in enumerate(json.loads((folder / "ports").read_text())):
        description.add_party(f"server{place}", f"127.0.0.1:{port}")
    executable = pickle.loads((folder / "executable").read_bytes())
    share = pickle.loads((folder / f"in{rank}").read_bytes())
    link = libspu.link.create_brpc(description, rank)
    runtime = api.Runtime(link, config())
    link.barrier()
    start, before = time.time(), resource.getrusage(resource.RUSAGE_SELF)
    runtime.set_var(executable.input_names[0], share)
    runtime.run(executable)
    result = runtime.get_var(executable.output_names[0])
    after = resource.getrusage(resource.RUSAGE_SELF)
    end = time.time()
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (folder / f"out{rank}").write_bytes(pickle.dumps(result))
    (folder / f"times{rank}").write_text(json.dumps({"start": start, "end": end, "work": work}))
    link.barrier()
    link.stop_link()


def page(found: Sequence[Measured], version: str) -> list[str]:
    """Everything below the title."""
    header = ["job", "D", "share, s", "servers, s", "work of a server, s", "open, s"]
    header += ["a server sends, MB", "sends", "a client sends, MB", "error"]
    lines = [
        [
            one.job,
            f"{one.dim:,}",
            *[number(value) for value in (one.share_s, one.servers_s, one.work_s, one.open_s)],
            number(one.sent_mb),
            str(one.sends),
            number(one.upload_mb),
            f"{one.error:.1e}",
        ]
        for one in found
    ]
    text = f"""\
* SPU {version}, ABY3, semi-honest, {CLIENTS} clients; least of {REPEATS}. How it is installed and run is said
  at the top of `experiments/peer_spu.py`.
* `sum` is SPU's own sum, with the division left to the receiver, as Blindsum does. `mean` divides inside: it
  is a product with a known row, which is faster here. In `fltrust` the servers know the root.
* Shares are made and put together by one process, without a network. Servers send each other plain TCP.
  Nobody agrees on survivors, and no gate looks at lengths. Vectors have the norm {NORM}: with norms of 600
  and 10⁶ coordinates `fltrust` was all wrong.
* The error is that of numbers with 18 bits behind the point, as a part of the largest coordinate."""
    return [text, "## Costs", output.table(header, lines)]


def main(words: Sequence[str] | None = None) -> None:
    """Measure SPU where it is installed."""
    given = sys.argv[1:] if words is None else list(words)
    if given[:1] == ["--server"]:
        serve(int(given[1]), Path(given[2]))
        return
    options = output.options(given, "peer_spu", "SPU's three servers, as a peer.")
    try:
        import spu
    except ImportError:
        sys.exit(MISSING)
    dims = QUICK_DIMS if options.quick else DIMS
    repeats = 1 if options.quick else REPEATS
    found = [measure(job, dim, repeats) for dim in dims for job in ("sum", "mean", "fltrust")]
    output.write_csv(options, "peer-spu.csv", [asdict(one) for one in found])
    output.write_page(options, "peer-spu.md", "SPU, three servers", page(found, spu.__version__))


if __name__ == "__main__":
    main()
