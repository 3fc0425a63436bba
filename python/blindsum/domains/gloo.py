"""Learners that talk over ``torch.distributed``, by its gloo back end.

A wait in gloo that takes too long ends all connections of its process group. So there are three: one on
which the speaker listens, one on which it talks, one for the sum. Whatever goes wrong on the first and the
last, the second still tells everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from blindsum.domains.peers import PATIENCE, Addable, PeerLost
from blindsum.errors import ConfigError


class Gloo:
    """The processes of a process group as the learners of a domain; see :class:`blindsum.domains.Peers`.

    All processes of the group make it at the same time. It makes three groups of its own, with gloo and with
    the time limit ``timeout``; the group that was given is not used for anything else.

    Parameters
    ----------
    group
        A process group of ``torch.distributed``; ``None`` is all processes.
    speaker
        Rank of the speaker in the group.
    timeout
        Seconds; the time limit of the groups that are made.

    Raises
    ------
    blindsum.ConfigError
        There is no torch, no process group, or no such rank.
    """

    def __init__(self, group: object | None = None, *, speaker: int = 0, timeout: float = 600.0) -> None:
        self._torch, self._dist = _modules()
        dist = self._dist
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        if self.rank < 0:
            raise ConfigError("group", "this process must be in it")
        if not 0 <= speaker < self.size:
            raise ConfigError("speaker", f"{speaker} must be a rank of the group, 0 to {self.size - 1}")
        self.speaker, self.timeout = speaker, timeout
        world = group is None or group is dist.group.WORLD
        # Ranks are those of the group; torch wants those of all processes.
        self._ranks = [rank if world else dist.get_global_rank(group, rank) for rank in range(self.size)]
        own = timeout if self.rank == speaker else timeout * PATIENCE
        # Where the group has not all processes, only those in it take part.
        among = {"use_local_synchronization": True} if len(self._ranks) < dist.get_world_size() else {}
        self._up, self._down, self._data = (
            dist.new_group(self._ranks, timeout=timedelta(seconds=limit), backend="gloo", **among)
            for limit in (own, own, timeout)
        )
        self._sent: dict[int, list[tuple[Any, Any]]] = {rank: [] for rank in range(self.size)}

    def send(self, message: bytes, to: Sequence[int]) -> None:
        """Send a message; see :meth:`Peers.send`."""
        data = self._torch.frombuffer(bytearray(message), dtype=self._torch.uint8)
        length = self._torch.tensor([len(message)], dtype=self._torch.int64)
        group = self._down if self.rank == self.speaker else self._up
        lost = None
        for learner in to:
            try:
                for part in (length, data):
                    work = self._dist.isend(part, self._ranks[learner], group=group)
                    # Memory must stay as long as it is being sent.
                    self._sent[learner].append((work, part))
            except RuntimeError as error:
                lost = PeerLost(learner, str(error))
        if lost is not None:
            raise lost

    def receive(self, origin: int) -> bytes:
        """Wait for a message; see :meth:`Peers.receive`."""
        group = self._up if self.rank == self.speaker else self._down
        length = self._torch.zeros(1, dtype=self._torch.int64)
        try:
            self._dist.recv(length, self._ranks[origin], group=group)
            data = self._torch.empty(int(length[0]), dtype=self._torch.uint8)
            self._dist.recv(data, self._ranks[origin], group=group)
        except RuntimeError as error:
            raise PeerLost(origin, str(error)) from error
        # Every message answers those before it: they have arrived.
        self.flush(origin)
        message: bytes = data.numpy().tobytes()
        return message

    def reduce(self, vector: Addable) -> None:
        """Add up vectors; see :meth:`Peers.reduce`."""
        # The same memory.
        tensor = self._torch.from_numpy(vector)
        try:
            self._dist.reduce(tensor, self._ranks[self.speaker], group=self._data)
        except RuntimeError as error:
            raise PeerLost(self.speaker, str(error)) from error

    def flush(self, to: int) -> None:
        """Wait until messages are taken; see :meth:`Peers.flush`."""
        sent, self._sent[to] = self._sent[to], []
        try:
            for work, _ in sent:
                work.wait()
        except RuntimeError as error:
            raise PeerLost(to, str(error)) from error

    def close(self) -> None:
        """End every connection; see :meth:`Peers.close`."""
        for group in (self._up, self._down, self._data):
            if self._dist.is_initialized():
                self._dist.destroy_process_group(group)
        self._sent = {rank: [] for rank in range(self.size)}


def _modules() -> tuple[Any, Any]:
    """``torch`` and ``torch.distributed``, where somebody has made a process group."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        advice = "needs PyTorch: pip install 'blindsum[domains]', or torch itself"
        raise ConfigError("group", f"a domain over torch.distributed {advice} ({error})") from error
    if not dist.is_available() or not dist.is_initialized():
        raise ConfigError("group", "call torch.distributed.init_process_group('gloo') first, everywhere")
    return torch, dist
