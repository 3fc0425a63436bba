"""What a node tells the server of a failure: which field and which rule, and no value of the node.

Flower sends the text of an exception to the server. A server that deviates chooses the settings that bring
errors about, and a text with a weight, a metric, a path or an answer of the node's network would tell what
sums are to hide. So the server gets a text of its own, and the full one is in the log of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blindsum.errors import (
    BlindsumError,
    ConfigError,
    IdentityError,
    InputError,
    NetworkError,
    PolicyError,
    WaitTimeoutError,
)
from blindsum.flower.texts import logger, node_key
from blindsum.texts import printable

LOG = "the node's log has details"

UNREACHED = (
    "coordinator: this node cannot reach it, does not trust it, is refused by it, or came too late; " + LOG
)
"""One text for all that can be, so that a server cannot look around in the node's network."""

_INPUTS = {
    "arrays": (
        "the reply of training does not match the message: reply with its keys and shapes, and finite floats"
    ),
    "metrics": (
        "a value does not fit: the weight must be a whole number from 0 to blindsum-max-weight, under the "
        "key that the run declares"
    ),
    "weight": "must be a whole number from 0 to blindsum-max-weight of the run, or of the standing job",
}

_MOST_LOGGED = 4000


class Refusal(ConfigError):
    """A node takes no part. Its text has no value of the node, so the server gets it as it is."""


class OutOfOrder(NetworkError):
    """A message that may not be answered now. Its text has no value of the node."""


class FunctionFailed(BlindsumError):
    """A function of the app raised.

    Attributes
    ----------
    kind : str
        The type of the exception.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"the app's function failed: {kind}; {LOG}")
        self.kind = kind


def foreign(value: object, most: int) -> str:
    """A text from elsewhere, so that it can stand in a line of a log: cut, control characters escaped."""
    text = str(value)
    shown = printable(text[:most])
    return shown if len(text) <= most else f"{shown}… ({len(text)} characters)"


def guarded(call_next: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The user's function, of whose exceptions the server hears the type, and of whose error replies nothing.

    Raises
    ------
    FunctionFailed
        It raised.
    """

    def call(message: Any, context: Any) -> Any:
        try:
            reply = call_next(message, context)
        except Exception as error:
            logger.error("the app's function failed", exc_info=error)
            raise FunctionFailed(type(error).__name__) from error
        return _without_reason(message, reply) if reply.has_error() else reply

    return call


def _without_reason(message: Any, reply: Any) -> Any:
    """An error reply without what the user's function says in it."""
    from flwr.app import Error, Message

    logger.error("the app's function replied with an error: %s", foreign(reply.error.reason, _MOST_LOGGED))
    reason = f"the app's function replied with an error; {LOG}"
    return Message(Error(code=reply.error.code, reason=reason), reply_to=message)


def for_server(error: Exception) -> BlindsumError:
    """What the server is told of an error; the log gets all of it.

    Returns
    -------
    blindsum.BlindsumError
        Of the same type where it is one of Blindsum, with a text that names field and rule.
    """
    if isinstance(error, (Refusal, FunctionFailed, OutOfOrder)):
        logger.warning("this node takes no part: %s", foreign(error, _MOST_LOGGED))
        return error
    if not isinstance(error, BlindsumError):
        logger.error("this node takes no part", exc_info=error)
        return BlindsumError(f"this node failed: {type(error).__name__}; {LOG}")
    logger.warning("this node takes no part: %s", foreign(error, _MOST_LOGGED))
    return _told(error)


def _told(error: BlindsumError) -> BlindsumError:
    """An error of Blindsum without values."""
    match error:
        case PolicyError():
            option = "policy" if error.field is None else node_key(f"policy.{error.field}")
            return PolicyError(error.field, f"{option}: the job breaks this rule; {LOG}")
        case InputError():
            # Before the first bracket stands the name alone: metrics['loss'].
            given = error.field.partition("[")[0]
            name = given if given in _INPUTS else "arrays"
            return InputError(name, f"{_INPUTS[name]}; {LOG}")
        case ConfigError():
            return Refusal(foreign(node_key(error.field), 80), f"breaks a rule at this node; {LOG}")
        case IdentityError():
            return IdentityError(f"certificates: this node's certificate, key or CA cannot be used; {LOG}")
        case NetworkError() | WaitTimeoutError():
            return NetworkError(UNREACHED)
        case _:
            return BlindsumError(f"this node gives no update: {type(error).__name__}; {LOG}")
