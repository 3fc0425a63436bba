"""A round over a slow and long link: whether what a party sends keeps it full.

The link is a relay in this process: each direction of each connection carries so many bits a second, and
what has gone through arrives half a round trip later.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benches.load import crowd
from blindsum.coordinator import stored_rounds
from blindsum.spec import JobSpec
from blindsum.testing import Cluster

_PIECE = 16 * 1024
_LATE = 0.01


@dataclass(frozen=True)
class Link:
    """A link.

    Attributes
    ----------
    megabits : float
        What each direction carries, in 10⁶ bits a second.
    round_trip : float
        Seconds from one end to the other and back.
    """

    megabits: float
    round_trip: float


@dataclass(frozen=True)
class LinkCost:
    """What the stage of a round took in which parties send their vectors.

    Attributes
    ----------
    seconds : float
        From its beginning at the coordinator to its end.
    least : float
        What the link needs for as many bytes, and a round trip: the parties hear of the stage, and then send.
    up_bytes : float
        Of one party's messages.
    """

    seconds: float
    least: float
    up_bytes: float


def measure(spec: JobSpec, link: Link) -> LinkCost:
    """Run one round of a job, each party over a link of its own.

    Parameters
    ----------
    spec
        The job, of one round.
    link
        The link.
    """
    with tempfile.TemporaryDirectory(prefix="blindsum-link-") as name:
        with (
            Cluster(spec, [], Path(name), limits={"models_kept": 1}) as cluster,
            _relay(int(cluster.url.rpartition(":")[2]), link) as port,
            crowd(spec, f"https://localhost:{port}", Path(name) / "pki") as parties,
        ):
            parties.round(np.linspace(-1, 1, spec.dim).tolist())
        (report,) = stored_rounds(cluster.store, spec.job)
    (stage,) = [stage for stage in report["stages"] if stage["name"] in ("input", "masked-input", "upload")]
    up = sum(one["up"] for one in stage["bytes"].values()) / spec.parties
    return LinkCost(stage["seconds"], 8 * up / (1e6 * link.megabits) + link.round_trip, up)


@contextmanager
def _relay(target: int, link: Link) -> Iterator[int]:
    """Give the port of a relay to another port of this machine."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def lead(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, out = await asyncio.open_connection("127.0.0.1", target)
        try:
            # The relay ends by it.
            with suppress(asyncio.CancelledError):
                await asyncio.gather(_carry(near, out, link), _carry(far, back, link))
        finally:
            out.close()
            back.close()

    listening = asyncio.start_server(lead, "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(listening, loop).result()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        asyncio.run_coroutine_threadsafe(_end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # What was closed is so from the next turn of the loop on.
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, link: Link) -> None:
    loop = asyncio.get_running_loop()
    free = loop.time()
    while data := await source.read(_PIECE):
        # Whoever is woken a little late has lost nothing of the link.
        free = max(free, loop.time() - _LATE) + 8 * len(data) / (1e6 * link.megabits)
        await asyncio.sleep(free - loop.time())
        loop.call_later(link.round_trip / 2, target.write, data)
    loop.call_later(link.round_trip / 2, target.close)
