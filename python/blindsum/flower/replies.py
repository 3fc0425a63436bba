"""What nodes reply, read in one place: all of it is foreign, and a wrong one is an error reply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from blindsum.errors import ConfigError, InputError
from blindsum.flower.exchange import Replies
from blindsum.flower.refusals import foreign
from blindsum.flower.texts import RECORD, logger
from blindsum.texts import printable

MAX_NAME = 128
"""Characters of a name of a party or a result."""

MAX_DROPPED = 1000
"""Names of metrics in one reply."""

MAX_KNOWN = 100
"""Names of metrics that a run remembers to tell."""

MAX_REQUEST = 64 << 10
"""Characters of a signing request."""

MAX_CERTIFICATE = 64 << 10
"""Characters of a certificate."""

MAX_REASON = 500
"""Characters of the reason of an error reply."""

REFUSED = 6
"""Flower's ``ErrorCode`` for content that is not as it must be."""


@dataclass(frozen=True)
class NodeReply:
    """What Blindsum's record of a reply says.

    Attributes
    ----------
    party, result, request : str
        The party's name, the name of its result, its signing request; empty where it says none.
    dropped : tuple of str
        Names of metrics that the node did not report.
    certificate : str
        Over Flower's messages: that of a connection which begins with this reply.
    lost : str
        Over Flower's messages: why the round goes on without the node, or came to nothing.
    sat_out : bool
        Over Flower's messages: whether the node has no examples.
    """

    party: str = ""
    result: str = ""
    request: str = ""
    dropped: tuple[str, ...] = ()
    certificate: str = ""
    lost: str = ""
    sat_out: bool = False

    @classmethod
    def read(cls, content: Any) -> NodeReply:
        """Read the record of a reply's content.

        Raises
        ------
        blindsum.InputError
            There is none, or it says something that no Blindsum says.
        """
        record = content.config_records.get(RECORD)
        if record is None:
            rule = "the reply has no such ConfigRecord: list blindsum.flower.mod() in the ClientApp"
            raise InputError(RECORD, rule)
        dropped = record.get("dropped", [])
        if not isinstance(dropped, list) or len(dropped) > MAX_DROPPED:
            raise InputError(f"{RECORD}['dropped']", f"must be a list of at most {MAX_DROPPED} names")
        sat_out = record.get("sat-out", False)
        if not isinstance(sat_out, bool):
            raise InputError(f"{RECORD}['sat-out']", "must be a truth value")
        return cls(
            party=_line(record, "party", MAX_NAME),
            result=_line(record, "result", MAX_NAME),
            request=_text(record, "request", MAX_REQUEST),
            dropped=tuple(foreign(name, 64) for name in dropped),
            certificate=_text(record, "certificate", MAX_CERTIFICATE),
            lost=foreign(_text(record, "lost", MAX_REASON), MAX_REASON),
            sat_out=sat_out,
        )


def _text(record: Any, key: str, most: int) -> str:
    value = record.get(key, "")
    if not isinstance(value, str) or len(value) > most:
        raise InputError(f"{RECORD}[{key!r}]", f"must be a text of at most {most} characters")
    return value


def _line(record: Any, key: str, most: int) -> str:
    value = _text(record, key, most)
    if printable(value) != value:
        raise InputError(f"{RECORD}[{key!r}]", "must have no control characters")
    return value


def read(replies: Replies) -> list[tuple[Any, NodeReply]]:
    """The replies with what they say. Those that say it wrongly become error replies, and the log warns."""
    found = []
    for reply in list(replies.good):
        try:
            found.append((reply, NodeReply.read(reply.content)))
        except InputError as error:
            refuse(replies, reply, error)
    return found


def refuse(replies: Replies, reply: Any, error: Exception) -> None:
    """Put an error reply in place of a reply with content, and warn of it by the id of its node."""
    message = replies.asked(reply)
    replies.good.remove(reply)
    replies.errors.append(refused(message, error))


def refused(message: Any, error: Exception) -> Any:
    """An error reply for a node whose reply to a message is wrong; the log warns of it by the node's id."""
    from flwr.app import Error, Message

    reason = foreign(f"{type(error).__name__}: {error}", MAX_REASON)
    logger.warning("node %d: its reply is left out: %s", message.metadata.dst_node_id, reason)
    return Message(Error(code=REFUSED, reason=reason), reply_to=message)


def clean(errors: Iterable[Any]) -> list[Any]:
    """Error replies whose reasons are short and have no control characters: strategies log them."""
    from flwr.app import Error

    found = []
    for reply in errors:
        reason = str(reply.error.reason)
        if (shown := foreign(reason, MAX_REASON)) != reason:
            reply.error = Error(code=reply.error.code, reason=shown)
        found.append(reply)
    return found


def all_refused(replies: Replies) -> ConfigError:
    """What the ServerApp hears where all nodes refused the first round."""
    reasons = list(dict.fromkeys(str(reply.error.reason) for reply in replies.errors))
    shown = "; ".join(reasons[:3])
    return ConfigError(
        "nodes",
        f"{len(replies.errors)} of {len(replies.errors) + len(replies.good)} nodes refused the first round, "
        f"and would again: {shown}",
    )


def agreeing(replies: Replies, said: list[tuple[Any, NodeReply]], result: str, content: Any) -> list[Any]:
    """The replies that have exactly the coordinator's mean; others become error replies.

    Parameters
    ----------
    replies
        The replies.
    said
        What they say.
    result
        The name of the coordinator's result.
    content
        What the mean is as a reply: one ArrayRecord and one MetricRecord.

    Returns
    -------
    list of Message
        Without Blindsum's record.
    """
    found = []
    for reply, says in said:
        if not says.result:
            # No examples here, so no update and no result.
            continue
        given = {name: record for name, record in reply.content.items() if name != RECORD}
        if says.result == result and _same(given, dict(content)):
            del reply.content[RECORD]
            found.append(reply)
        else:
            rule = "arrays, weight and metrics must be exactly those of the coordinator's result"
            refuse(replies, reply, InputError("reply", rule))
    return found


def _same(given: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether two contents are the same to the last bit."""
    if given.keys() != wanted.keys():
        return False
    return all(type(given[name]) is type(one) and _equal(given[name], one) for name, one in wanted.items())


def _equal(one: Any, other: Any) -> bool:
    return set(one) == set(other) and all(_key(one[name]) == _key(other[name]) for name in other)


def _key(value: Any) -> object:
    """A value so that it is equal to itself alone: a number with its type, an array with its bytes."""
    if isinstance(value, (int, float, list)):
        return type(value), value
    return str(value.dtype), str(value.stype), tuple(int(size) for size in value.shape), bytes(value.data)
