"""A relay in user space that counts the bytes which go through it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_PIECE = 256 * 1024


@dataclass
class Counted:
    """A relay in front of a port of this machine.

    Attributes
    ----------
    port : int
        Where it listens, on 127.0.0.1.
    up, down : int
        Bytes that have gone to the port behind it, and back.
    """

    port: int = 0
    up: int = 0
    down: int = 0


@contextmanager
def counting(target: int) -> Iterator[Counted]:
    """Run a relay to a port of 127.0.0.1 until the end of the ``with`` statement.

    Parameters
    ----------
    target
        The port. Nobody need listen there yet.
    """
    found = Counted()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, name: str) -> None:
        while data := await source.read(_PIECE):
            setattr(found, name, getattr(found, name) + len(data))
            sink.write(data)
            await sink.drain()
        sink.close()

    async def lead(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            far, out = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            # Nobody listens there yet, or any more: as if there were no relay.
            back.close()
            return
        try:
            # Either side may go at any time.
            with suppress(asyncio.CancelledError, ConnectionError):
                await asyncio.gather(carry(near, out, "up"), carry(far, back, "down"))
        finally:
            out.close()
            back.close()

    async def end() -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(lead, "127.0.0.1", 0), loop).result()
    found.port = int(server.sockets[0].getsockname()[1])
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
