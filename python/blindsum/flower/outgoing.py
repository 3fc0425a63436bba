"""Replies to evaluate and query messages: a few numbers pass, and nothing that could be a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from blindsum.flower.refusals import Refusal, foreign
from blindsum.flower.settings import ARRAYS

MAX_NUMBERS = 64
"""Numbers in all records of a reply, those in lists counted one by one."""

MAX_TEXT = 1024
"""Characters of all texts in a reply."""


def check(reply: Any) -> None:
    """Refuse a reply that could hold a model or data.

    Raises
    ------
    blindsum.ConfigError
        It has arrays, bytes or lists of a ConfigRecord, or more numbers or text than metrics need; ``field``
        is ``"blindsum-policy-arrays"``.
    """
    what = next(_too_much(reply.content), None)
    if what is not None:
        raise Refusal(
            ARRAYS,
            f"is not true, and the reply to an evaluate or query message has {what}, which would leave this "
            f"node as they are: reply with at most {MAX_NUMBERS} numbers, or allow it in --node-config of "
            "the SuperNode",
        )


def _too_much(content: Any) -> Iterator[str]:
    """What a content has that may not leave."""
    if content.array_records:
        yield f"arrays ({_names(content.array_records)})"
    numbers = characters = 0
    for name, record in content.config_records.items():
        for key, value in record.items():
            if isinstance(value, (bytes, list)):
                kind = "bytes" if isinstance(value, bytes) else "a list"
                yield f"{kind} in a ConfigRecord ({foreign(name, 64)}[{foreign(key, 64)!r}])"
            elif isinstance(value, str):
                characters += len(value)
            else:
                numbers += 1
    for record in content.metric_records.values():
        numbers += sum(len(value) if isinstance(value, list) else 1 for value in record.values())
    if numbers > MAX_NUMBERS:
        yield f"more than {MAX_NUMBERS} numbers"
    if characters > MAX_TEXT:
        yield f"more than {MAX_TEXT} characters of text"


def _names(records: Any) -> str:
    return ", ".join(foreign(name, 64) for name in list(records)[:5])
