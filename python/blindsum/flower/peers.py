"""What the server's side knows of the nodes of a job over Flower's messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from blindsum.errors import IdentityError
from blindsum.flower.refusals import foreign
from blindsum.flower.replies import MAX_NAME


@dataclass
class Peer:
    """A node in a job, from one round to the next.

    Attributes
    ----------
    node : int
        Flower's number of the node.
    name : str
        That of its certificate; empty as long as it is not known.
    since : int
        Its claim to the name: the lower the older. 0 where it has none, and another node may take the name.
    link : int or None
        Its connection with the machine.
    connection, number : int
        As in :class:`blindsum.flower.node_folder.Place`: of the next message.
    waiting : list of bytes
        Frames for it.
    """

    node: int
    name: str = ""
    since: int = 0
    link: int | None = None
    connection: int = 0
    number: int = 0
    waiting: list[bytes] = field(default_factory=list)


@dataclass
class Turn:
    """A node in one round.

    Attributes
    ----------
    message : Message
        The strategy's message to it.
    pending : str
        The message that it has not answered; empty where it has answered all.
    has_model : bool
        Whether the model was sent to it.
    exchanges, connections : int
        Messages that it was sent, and those of them that began a connection.
    reply : Message or None
        Its latest reply.
    why_out : str
        Why it takes no further part; empty as long as it does.
    sat_out : bool
        Whether it has no examples.
    """

    message: Any
    pending: str = ""
    has_model: bool = False
    exchanges: int = 0
    connections: int = 0
    reply: Any = None
    why_out: str = ""
    sat_out: bool = False


class Peers:
    """The nodes of a job, and which of them has which name.

    A certificate alone proves no key, so a name is nobody's for good. In a round it is that of one node: of
    those that claim it the one that has claimed it longest, or else the first one that shows it. A claim
    lasts as long as its node stays in its rounds to their ends. Rounds without this node neither end it nor
    wait for it: there another node may have the name.
    """

    def __init__(self) -> None:
        self._all: dict[int, Peer] = {}
        self._round: frozenset[int] = frozenset()
        self._claims = 0

    def __getitem__(self, node: int) -> Peer:
        return self._all.setdefault(node, Peer(node))

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._all.values())

    def begin(self, nodes: Iterable[int]) -> list[Peer]:
        """Begin a round of these nodes, and give those that have lost their names to others of them."""
        self._round = frozenset(nodes)
        here = sorted((self[node] for node in self._round), key=lambda peer: peer.since or math.inf)
        names, found = set[str](), list[Peer]()
        for peer in here:
            if peer.name in names:
                peer.name, peer.since = "", 0
                found.append(peer)
            elif peer.name:
                names.add(peer.name)
        return found

    def check(self, peer: Peer, name: str, expected: str) -> None:
        """Look whether a node may have the name that it shows.

        Parameters
        ----------
        peer
            The node.
        name
            That of its certificate.
        expected
            The one that it must have, if it is known.

        Raises
        ------
        blindsum.IdentityError
            The node had another name before, or another node has this one in this round.
        """
        known, shown = expected or peer.name, foreign(repr(name), MAX_NAME)
        if known and known != name:
            raise IdentityError(
                f"node {peer.node} shows a certificate of {shown}, and is {known!r}: a node keeps its name "
                "while the job lasts; give it the certificate from before, or begin another run"
            )
        for other in self._others(peer, name):
            if other.since and other.node in self._round:
                raise IdentityError(
                    f"node {peer.node} shows a certificate of {shown}, which in this round is the name of "
                    f"node {other.node}: issue each node a certificate of its own (blindsum pki issue); a "
                    "SuperNode that was started again has its name as soon as Flower misses the one before"
                )

    def take(self, peer: Peer, name: str) -> list[Peer]:
        """Give a node the name that it shows, and give those whose connections are by this name, too."""
        others = self._others(peer, name)
        for other in others:
            if other.node in self._round:
                other.name = ""
        peer.name = name
        self.claim(peer)
        return others

    def _others(self, peer: Peer, name: str) -> list[Peer]:
        return [other for other in self if other.name == name and other is not peer]

    def claim(self, peer: Peer) -> None:
        """A node claims its name, if it does not yet."""
        if peer.name and not peer.since:
            self._claims += 1
            peer.since = self._claims

    def clear(self) -> None:
        """Forget all nodes."""
        self._all.clear()
