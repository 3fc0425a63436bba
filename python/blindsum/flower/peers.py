"""What the server's side knows of the nodes of a job over Flower's messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Peer:
    """A node in a job, from one round to the next.

    Attributes
    ----------
    node : int
        Flower's number of the node.
    name : str
        That of its certificate; empty as long as it is not known.
    link : int or None
        Its connection with the machine.
    connection, number : int
        As in :class:`blindsum.flower.node_folder.Place`: of the next message.
    waiting : list of bytes
        Frames for it.
    """

    node: int
    name: str = ""
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
