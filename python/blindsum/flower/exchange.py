"""One exchange of messages through Flower's grid, which ends as soon as nothing more is to be had."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

POLL = 0.5
"""Seconds between two looks for replies while a round is under way."""

SHORT_POLL = 0.1
"""The same after its end, and in a simulation."""

SETTLE = 10.0
"""Seconds after the end of a round in which replies of nodes that are in it still come."""

NO_REPLY = 5
"""Flower's ``ErrorCode.NODE_UNAVAILABLE``."""

NOT_SENT = (
    "the message to it could not be sent: the SuperLink does not know the node any more, or all "
    "messages together were too large for it (HTTP 413); the ServerApp's log has the reason. Start "
    "the SuperNode again; or sample "
    "fewer nodes, send a smaller model, or raise the limit of the proxy in front of the SuperLink"
)


@dataclass
class Replies:
    """What came back.

    A message that could not be sent is one whose node gave no reply.

    Attributes
    ----------
    good : list of Message
        Replies with content, in the order in which they came.
    errors : list of Message
        Error replies of nodes; and one for each node without a reply.
    missing : int
        The nodes without a reply.
    messages : dict of str to Message
        The messages that were sent, by their identifiers.
    """

    good: list[Any] = field(default_factory=list)
    errors: list[Any] = field(default_factory=list)
    missing: int = 0
    messages: dict[str, Any] = field(default_factory=dict)

    def asked(self, reply: Any) -> Any:
        """The message to which a reply is one. What a reply says of its node is foreign."""
        return self.messages[str(reply.metadata.reply_to_message_id)]


def push(grid: Any, messages: list[Any]) -> list[str]:
    """Send messages, and give their identifiers, in this order; that of one that could not be sent is empty.

    Flower's grids tell it in three ways: without an identifier in its place, without the place, and without
    any identifiers where the request was too large.

    Parameters
    ----------
    grid
        Flower's grid.
    messages
        One for each node.
    """
    given = [str(identifier or "") for identifier in grid.push_messages(messages)]
    if len(given) == len(messages):
        return given
    own = [str(message.metadata.message_id) for message in messages]
    return [identifier if identifier in given else "" for identifier in own]


def exchange(
    grid: Any,
    messages: list[Any],
    timeout: float | None,
    *,
    ended: Callable[[float], bool] | None = None,
    expected: Callable[[], float] | None = None,
    failed: Callable[[int], None] | None = None,
    poll: float = POLL,
) -> Replies:
    """Send messages, and gather replies until all are there, the time is over, or the round has ended.

    A node whose process is gone replies when Flower has noticed it, a minute later. Where the round has
    ended, only nodes that are in its sum are waited for.

    Parameters
    ----------
    grid
        Flower's grid.
    messages
        One for each node.
    timeout
        Seconds to wait at most; ``None`` waits for ever.
    ended
        Waits so many seconds for the end of the round, and says whether it has ended.
    expected
        How many replies with content an ended round has.
    failed
        Called with the node of each error reply as it comes, and with each that could not be sent to.
    poll
        Seconds between two looks for replies.

    Returns
    -------
    Replies
        With an error reply in place of each one that is missing.
    """
    found = Replies()
    pending: dict[str, Any] = {}
    for message, identifier in zip(messages, push(grid, messages), strict=True):
        if identifier:
            pending[identifier] = found.messages[identifier] = message
            continue
        found.missing += 1
        found.errors.append(_missing(message, NOT_SENT))
        if failed is not None:
            failed(message.metadata.dst_node_id)
    end = math.inf if timeout is None else time.monotonic() + timeout
    settled = math.inf
    while pending:
        for reply in grid.pull_messages(list(pending)):
            message = pending.pop(str(reply.metadata.reply_to_message_id), None)
            if message is None:
                continue
            (found.errors if reply.has_error() else found.good).append(reply)
            if reply.has_error() and failed is not None:
                failed(message.metadata.dst_node_id)
        is_over = settled < math.inf
        if is_over and expected is not None and len(found.good) >= expected():
            break
        if not pending or time.monotonic() >= min(end, settled):
            break
        if is_over or ended is None:
            time.sleep(SHORT_POLL if is_over else poll)
        elif ended(poll):
            settled = time.monotonic() + SETTLE
    found.missing += len(pending)
    for message in pending.values():
        found.errors.append(_missing(message, "it did not reply before the round was over"))
    return found


def _missing(message: Any, why: str) -> Any:
    """An error reply for a node that gave none."""
    from flwr.app import Error, Message

    reason = f"node {message.metadata.dst_node_id}: {why}"
    return Message(Error(code=NO_REPLY, reason=reason), reply_to=message)
