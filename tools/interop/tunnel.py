"""A TLS 1.3 connection to a coordinator that gRPC reaches through a socket of this machine.

gRPC's own TLS (BoringSSL) speaks no Ed25519, which is what coordinators have by default, and does not show
the certificate of the other side, which must be checked. So the standard library's TLS does both, and gRPC
talks in clear text to a socket in a folder that only this user can enter. A tunnel takes one connection.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from certificates import Authority


class Tunnel:
    """One TLS connection and the socket before it; `target` is for gRPC."""

    def __init__(
        self, host: str, port: int, server_name: str, ca: Path, cert: Path, key: Path, authority: Authority
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cafile=ca)
        context.load_cert_chain(cert, key)
        context.set_alpn_protocols(["h2"])
        raw = socket.create_connection((host, port), timeout=10)
        try:
            self._remote = context.wrap_socket(raw, server_hostname=server_name)
            if self._remote.selected_alpn_protocol() != "h2":
                raise ConnectionError("the other side speaks no HTTP/2")
            authority.coordinator(self._remote.getpeercert(binary_form=True) or b"")
        except BaseException:
            raw.close()
            raise
        self._remote.settimeout(None)
        self._folder = tempfile.TemporaryDirectory(prefix="interop-")
        path = os.path.join(self._folder.name, "grpc")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(1)
        self._local: socket.socket | None = None
        self.target = f"unix:{path}"
        # TLS objects are not for two threads at once: both directions take turns, reads with a short timeout.
        self._turn = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            self._local, _ = self._listener.accept()
        except OSError:
            return
        self._remote.setblocking(False)
        threading.Thread(target=self._run, args=(self._up,), daemon=True).start()
        self._run(self._down)

    def _run(self, copy: Callable[[], None]) -> None:
        try:
            copy()
        except (OSError, ValueError):
            pass
        finally:
            self.close()

    def _up(self) -> None:
        assert self._local is not None
        while data := self._local.recv(65536):
            view = memoryview(data)
            while view:
                wait = None
                with self._turn:
                    try:
                        view = view[self._remote.send(view) :]
                    except ssl.SSLWantWriteError:
                        wait = True
                    except ssl.SSLWantReadError:
                        wait = False
                if wait is not None:
                    _ready(self._remote, write=wait)

    def _down(self) -> None:
        assert self._local is not None
        while True:
            with self._turn:
                try:
                    data = self._remote.recv(65536)
                    if not data:
                        return
                except ssl.SSLWantReadError:
                    data = b""
            if data:
                self._local.sendall(data)
            else:
                _ready(self._remote, write=False)

    def close(self) -> None:
        """Ends the connection as a lost network would."""
        for one in (self._local, self._remote, self._listener):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
        self._folder.cleanup()


def _ready(one: socket.socket, write: bool) -> None:
    """Waits until a socket may be written or read; raises where it was closed meanwhile."""
    poll = select.poll()
    poll.register(one.fileno(), select.POLLOUT if write else select.POLLIN)
    poll.poll(200)
