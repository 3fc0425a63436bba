"""A tap on a server, which records every byte that clients send it.

A tap ends TLS in the place of a server, with the server's own certificate and key. It records the bytes, and
passes them on to the server over TLS again, under the identity of the client that sent them. The server and
its clients notice nothing. The operator of a server has its key, and sees the same bytes inside the server.
The identities of the clients are at hand here because the whole job runs on one machine.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from blindsum.errors import BlindsumError

PIECE = 1 << 16
"""Bytes that are passed on at once, at most."""


class Tap:
    """Taps on the servers of one job, on a thread of their own. Use it in a ``with`` statement.

    Parameters
    ----------
    certificates
        The folder with ``ca.pem`` and the identities of everybody, ``NAME.pem`` and ``NAME.key``.
    """

    def __init__(self, certificates: Path) -> None:
        self._certificates = certificates
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []
        self._running: set[asyncio.Task[Any]] = set()
        self._upstream: dict[str, asyncio.Future[tuple[str, int]]] = {}
        self._came: dict[tuple[str, str], list[bytearray]] = defaultdict(list)

    def listen(self, server: str, host: str) -> int:
        """Listen for a server's clients at a host; gives the port.

        Parameters
        ----------
        server
            Name of the server's identity, whose certificate clients are shown.
        host
            The address to listen on.
        """
        return asyncio.run_coroutine_threadsafe(self._listen(server, host), self._loop).result()

    def lead(self, server: str, address: str) -> None:
        """Say where a server listens, ``HOST:PORT``: connections wait until then."""
        host, _, port = address.rpartition(":")
        self._loop.call_soon_threadsafe(self._upstream[server].set_result, (host, int(port)))

    def came(self, server: str, client: str) -> list[bytes]:
        """The bytes that a client has sent a server, one connection after the other."""
        return [bytes(connection) for connection in self._came[server, client]]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self, server: str, host: str) -> int:
        self._upstream[server] = self._loop.create_future()
        context = self._context(ssl.Purpose.CLIENT_AUTH, server)
        context.verify_mode = ssl.CERT_REQUIRED

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            try:
                # Either end may go away at any time, and the tap itself: a cancelled task ends here.
                with suppress(OSError, asyncio.CancelledError):
                    await self._relay(server, reader, writer)
            finally:
                self._running.discard(task)
                writer.close()

        listening = await asyncio.start_server(accept, host, 0, ssl=context)
        self._servers.append(listening)
        port: int = listening.sockets[0].getsockname()[1]
        return port

    async def _relay(self, server: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _name(writer.get_extra_info("peercert"))
        host, port = await asyncio.shield(self._upstream[server])
        context = self._context(ssl.Purpose.SERVER_AUTH, client)
        # The tap knows where it leads to; the names in the certificate are those that clients have checked.
        context.check_hostname = False
        onward, outward = await asyncio.open_connection(host, port, ssl=context)
        came = bytearray()
        self._came[server, client].append(came)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, outward, came))
                both.create_task(_pass_on(onward, writer, None))
        except* OSError:
            pass
        finally:
            outward.close()

    def _context(self, purpose: ssl.Purpose, identity: str) -> ssl.SSLContext:
        context = ssl.create_default_context(purpose, cafile=self._certificates / "ca.pem")
        context.load_cert_chain(
            self._certificates / f"{identity}.pem", self._certificates / f"{identity}.key"
        )
        context.set_alpn_protocols(["h2"])
        return context

    async def _close(self) -> None:
        for listening in self._servers:
            listening.close()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, came: bytearray | None
) -> None:
    """Pass bytes on until they end, and write them down before that."""
    while piece := await reader.read(PIECE):
        if came is not None:
            came += piece
        writer.write(piece)
        await writer.drain()
    writer.close()


def _name(certificate: Any) -> str:
    """The common name in a certificate."""
    for part in certificate["subject"]:
        for key, value in part:
            if key == "commonName":
                return str(value)
    raise BlindsumError("the certificate of a client has no common name: make it with `blindsum pki issue`")
