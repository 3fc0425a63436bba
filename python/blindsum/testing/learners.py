"""Learners of a domain without torch: processes or threads that talk over sockets in a folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import numpy as np

from blindsum.domains.peers import PATIENCE, Addable, PeerLost


class SocketPeers:
    """Learners of one machine; see :class:`blindsum.domains.Peers`.

    Parameters
    ----------
    folder
        Where the speaker listens.
    rank
        This learner's number.
    size
        How many there are.
    speaker
        The rank of the speaker.
    timeout
        Seconds for which a learner may keep the speaker waiting.
    """

    def __init__(
        self, folder: Path, rank: int, size: int, *, speaker: int = 0, timeout: float = 60.0
    ) -> None:
        self.rank, self.size, self.speaker, self.timeout = rank, size, speaker, timeout
        self._links: dict[int, Connection] = {}
        address = str(folder / "speaker.sock")
        if rank == self.speaker:
            with Listener(address, "AF_UNIX", backlog=size) as listener:
                while len(self._links) < size - 1:
                    link = listener.accept()
                    self._links[int(link.recv_bytes())] = link
        else:
            link = self._links[self.speaker] = _connected(address, speaker, timeout)
            link.send_bytes(str(rank).encode())

    def send(self, message: bytes, to: Sequence[int]) -> None:
        """Send a message; see :meth:`Peers.send`."""
        lost = None
        for learner in to:
            try:
                self._links[learner].send_bytes(message)
            except OSError as error:
                lost = PeerLost(learner, str(error))
        if lost is not None:
            raise lost

    def receive(self, origin: int) -> bytes:
        """Wait for a message; see :meth:`Peers.receive`."""
        try:
            limit = self.timeout if self.rank == self.speaker else PATIENCE * self.timeout
            if not self._links[origin].poll(limit):
                raise PeerLost(origin, "silent")
            return self._links[origin].recv_bytes()
        except (OSError, EOFError) as error:
            raise PeerLost(origin, str(error)) from error

    def reduce(self, vector: Addable) -> None:
        """Add up vectors; see :meth:`Peers.reduce`."""
        if self.rank != self.speaker:
            self.send(vector.tobytes(), [self.speaker])
            return
        for learner in self._links:
            heard = np.frombuffer(self.receive(learner), dtype=vector.dtype)
            np.add(vector, heard.reshape(vector.shape), out=vector)

    def flush(self, to: int) -> None:
        """Do nothing: what was sent arrives; see :meth:`Peers.flush`."""

    def close(self) -> None:
        """End every connection; see :meth:`Peers.close`."""
        for link in self._links.values():
            link.close()


def _connected(address: str, speaker: int, timeout: float) -> Connection:
    """A connection to the speaker, as soon as it listens."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return Client(address, "AF_UNIX")
        time.sleep(0.01)
    raise PeerLost(speaker, "it does not listen")
