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


@dataclass
class Replies:
    """What came back.

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
        Called with the node of each error reply, as it comes.
    poll
        Seconds between two looks for replies.

    Returns
    -------
    Replies
        With an error reply in place of each one that is missing.
    """
    found = Replies()
    pending: dict[str, Any] = {}
    for place, identifier in enumerate(grid.push_messages(messages)):
        if identifier:
            pending[str(identifier)] = found.messages[str(identifier)] = messages[place]
        else:
            found.errors.append(_missing(messages[place], "the message could not be sent"))
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
    found.missing = len(pending)
    for message in pending.values():
        found.errors.append(_missing(message, "it did not reply before the round was over"))
    return found


def _missing(message: Any, why: str) -> Any:
    """An error reply for a node that gave none."""
    from flwr.app import Error, Message

    reason = f"node {message.metadata.dst_node_id}: {why}"
    return Message(Error(code=NO_REPLY, reason=reason), reply_to=message)
