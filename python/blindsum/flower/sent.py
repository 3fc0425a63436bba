"""What the ServerApp sends, and the configuration that it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blindsum.errors import ConfigError
from blindsum.flower.texts import RECORD
from blindsum.spec import JobSpec


def configuration(job: object) -> Mapping[str, object]:
    """The run's configuration."""
    if isinstance(job, JobSpec):
        return {}
    found = getattr(job, "run_config", job)
    if not isinstance(found, Mapping):
        kind = type(job).__name__
        raise ConfigError(
            "job", f"must be the ServerApp's Context, a mapping or a blindsum.JobSpec, not a {kind}"
        )
    return found


def is_train(message: Any) -> bool:
    """Whether a message asks for training."""
    return str(message.metadata.message_type).partition(".")[0] == "train"


def with_record(message: Any, told: Mapping[str, Any]) -> Any:
    """A copy of a message with Blindsum's record; strategies give all messages one content."""
    from flwr.app import ConfigRecord, Message, RecordDict

    content = RecordDict(dict(message.content))
    content[RECORD] = ConfigRecord(dict(told))
    metadata = message.metadata
    return Message(
        content,
        dst_node_id=metadata.dst_node_id,
        message_type=metadata.message_type,
        group_id=metadata.group_id,
        ttl=metadata.ttl,
    )
