"""Frames, pieces of messages, and a connection to a coordinator: docs/wire.md, "Connection" to "Chunks"."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc

from certificates import Authority
from tunnel import Tunnel

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "proto"))
pb: Any
services: Any
pb, services = grpc.protos_and_services("blindsum.proto")

VERSION = 4
PIECE = 262_144
INPUT_STAGE = 2  # of secagg and secagg+: the answer that is the masked vector
FINAL = {
    pb.REFUSAL_VERSION,
    pb.REFUSAL_UNKNOWN_JOB,
    pb.REFUSAL_NAME,
    pb.REFUSAL_REPLACED,
    pb.REFUSAL_BAD_FRAME,
    pb.REFUSAL_NO_MODEL,
    pb.REFUSAL_CERTIFICATE,
}


class Lost(Exception):
    """The connection ended; another one may be made."""


class BadFrame(Lost):
    """The coordinator sent what it must not: this connection is of no more use."""


class Pieces:
    """Puts the pieces of one message together."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.data = bytearray()
        self.total = -1
        self.of: tuple[int, ...] = ()

    def add(self, of: tuple[int, ...], piece: Any, largest: int) -> bytes | None:
        """The whole message, where this was its last piece."""
        if self.total < 0:
            if piece.total > largest or piece.total == 0:
                raise BadFrame(f"{self.what} of {piece.total} bytes, at most {largest} are taken")
            self.total, self.of = piece.total, of
        left = self.total - len(self.data)
        wrong = of != self.of or piece.total != self.total or piece.offset != len(self.data)
        if wrong or len(piece.data) != min(PIECE, left):
            raise BadFrame(f"a piece of {self.what} is out of place, too short or too long")
        self.data += piece.data
        if len(self.data) < self.total:
            return None
        whole = bytes(self.data)
        self.data.clear()
        self.total = -1
        return whole

    @property
    def under_way(self) -> bool:
        return self.total >= 0


def chunks(number: int, stage: int, message: bytes) -> Iterator[Any]:
    """The frames that bring an answer."""
    for offset in range(0, len(message), PIECE):
        data = message[offset : offset + PIECE]
        chunk = pb.Chunk(round=number, stage=stage, offset=offset, total=len(message), data=data)
        yield pb.PartyFrame(chunk=chunk)


class Connection:
    """One stream of frames. Threads of gRPC fill `_in` and empty `_out`."""

    def __init__(
        self, url: str, server_name: str | None, ca: Path, cert: Path, key: Path, authority: Authority
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or not parts.port:
            raise ValueError("the coordinator is https://HOST:PORT")
        name = server_name or parts.hostname
        try:
            self._tunnel = Tunnel(parts.hostname, parts.port, name, ca, cert, key, authority)
        except (OSError, ValueError) as error:
            raise Lost(f"no connection: {error}") from error
        self._channel = grpc.insecure_channel(
            self._tunnel.target,
            options=[
                ("grpc.default_authority", f"{name}:{parts.port}"),
                ("grpc.max_receive_message_length", 256 << 20),
                ("grpc.keepalive_time_ms", 15_000),
                ("grpc.keepalive_timeout_ms", 15_000),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.compression_enabled_algorithms_bitset", 1),
                ("grpc.enable_retries", 0),
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )
        self._out: queue.Queue[Any] = queue.Queue()
        self._in: queue.Queue[Any] = queue.Queue()
        frames = services.CoordinatorStub(self._channel).Connect(iter(self._out.get, None))
        threading.Thread(target=self._hear, args=(frames,), daemon=True).start()

    def _hear(self, frames: Any) -> None:
        try:
            for frame in frames:
                self._in.put(frame)
            self._in.put(Lost("the coordinator ended the stream"))
        except grpc.RpcError as error:
            self._in.put(Lost(f"{error.code().name}: {error.details()}"))

    def send(self, frame: Any) -> None:
        self._out.put(frame)

    def frame(self, seconds: float) -> Any:
        """The next frame; Lost where none comes in time."""
        try:
            frame = self._in.get(timeout=seconds)
        except queue.Empty:
            raise Lost(f"no word for {seconds:.0f} s") from None
        if isinstance(frame, Lost):
            raise frame
        if frame.WhichOneof("frame") is None:
            raise BadFrame("an empty frame, or one that is not known")
        return frame

    def flush(self, seconds: float = 2.0) -> None:
        """Lets gRPC take what was sent, and ends this side of the stream."""
        self._out.put(None)
        try:
            while not isinstance(self._in.get(timeout=seconds), Lost):
                pass
        except queue.Empty:
            pass

    def cut(self) -> None:
        """Ends the connection as a lost network would."""
        self._tunnel.close()

    def close(self) -> None:
        self._out.put(None)
        self._channel.close()
        self._tunnel.close()
