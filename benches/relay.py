"""Links in user space: relays of this process in front of ports of this machine.

Each direction of each connection carries so many bits a second, and what has gone through arrives half a
round trip later. Other than with netem, handshakes and windows of TCP between a program and its relay do not
wait. Loss is a model, as a relay has a stream and no packets: what was lost is sent again, what comes
behind it waits, and no window gets smaller.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

Relay = Callable[[str, int], int]
"""Gives the port of a relay on an address of this machine that leads to another port there."""
_PIECE = 16 * 1024
_LATE = 0.01
SEGMENT = 1448
"""Bytes of a packet."""
AGAIN = 0.2
"""Seconds after which something that was lost is sent again, at least: the shortest time-out of Linux."""


@dataclass(frozen=True)
class Link:
    """A link.

    Attributes
    ----------
    megabits : float
        What each direction carries, in 10⁶ bits a second.
    round_trip : float
        Seconds from one end to the other and back.
    loss : float
        The part of the packets that is lost.
    """

    megabits: float
    round_trip: float
    loss: float = 0.0

    def lost_of(self, size: int) -> float:
        """The probability that something is lost of so many bytes that are sent at once."""
        return 1 - (1 - self.loss) ** -(-size // SEGMENT)


@contextmanager
def relays(link: Link) -> Iterator[Relay]:
    """Give what makes relays, all of which end with the ``with`` statement."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    servers: list[asyncio.Server] = []
    draws = random.Random(0)

    def relay(host: str, target: int) -> int:
        async def lead(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            try:
                far, out = await asyncio.open_connection(host, target)
            except OSError:
                # Nobody listens there yet, or any more: as if there were no relay.
                back.close()
                return
            try:
                # The relay ends by it. Either side may be killed.
                with suppress(asyncio.CancelledError, ConnectionError):
                    await asyncio.gather(_carry(near, out, link, draws), _carry(far, back, link, draws))
            finally:
                out.close()
                back.close()

        listening = asyncio.start_server(lead, host, 0)
        server = asyncio.run_coroutine_threadsafe(listening, loop).result()
        servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    try:
        yield relay
    finally:
        for server in servers:
            loop.call_soon_threadsafe(server.close)
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


async def _carry(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, link: Link, draws: random.Random
) -> None:
    loop = asyncio.get_running_loop()
    free = last = loop.time()
    while data := await source.read(_PIECE):
        # Whoever is woken a little late has lost nothing of the link.
        free = max(free, loop.time() - _LATE) + 8 * len(data) / (1e6 * link.megabits)
        await asyncio.sleep(free - loop.time())
        arrives = loop.time() + link.round_trip / 2
        if draws.random() < link.lost_of(len(data)):
            arrives += max(AGAIN, link.round_trip)
        # A loop does not keep the order of what is due at the same time.
        last = max(math.nextafter(last, math.inf), arrives)
        loop.call_at(last, _write, target, data)
    loop.call_at(max(math.nextafter(last, math.inf), loop.time() + link.round_trip / 2), target.close)


def _write(target: asyncio.StreamWriter, data: bytes) -> None:
    # The other side may have gone.
    if not target.is_closing():
        target.write(data)
