"""What the nodes of a sum train on, as one hash: all of them on the same, or there is no sum.

A server that gives one node the real model, and the others one that no training changes, learns that node's
update from the sum. The same with another learning rate, another action, another configuration of the run. So
the specification of the job has a hash of all that the user's function gets from the server side. Each node
computes it from what it got, and takes no part where it differs. The specification is in every key of the
protocol: nodes with different ones have no sum together.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from blindsum.errors import ConfigError
from blindsum.flower.refusals import Refusal, foreign
from blindsum.flower.settings import looks_like_ours
from blindsum.flower.texts import RECORD
from blindsum.spec import JobSpec

CONTENT = "flower_content"
"""The hyperparameter of a job that has :func:`content_digest`, as hexadecimal digits."""

RUN = "flower_run"
"""The same of :func:`run_digest`."""


def content_digest(message: Any) -> bytes:
    """The SHA-256 of what a train message says, which is the same at the server and at all nodes.

    All records with their keys, the message's type, group and time to live. Blindsum's own record is left
    out. The order of the arrays counts, because it is that of the coordinates; no other order does.
    What is of one message alone is left out: the two nodes, the identifier and the time of its making.

    Parameters
    ----------
    message
        A ``Message`` of Flower with content.

    Returns
    -------
    bytes
        32 bytes.
    """
    found = _Hash(b"blindsum flower content 1")
    for name, value in _envelope(message):
        found.add(name, value)
    for kind, name, record in _records(message.content):
        found.add(kind, name, len(record))
        for key, value in _entries(kind, record):
            found.add(key)
            if kind == "array":
                found.add(str(value.dtype), str(value.stype), [int(size) for size in value.shape], value.data)
            else:
                found.add(value)
    return found.digest()


def run_digest(run: int, config: Mapping[str, object], weighted_by: str) -> bytes:
    """The SHA-256 of what the user's function gets of a run, and of the key of its weights.

    Parameters
    ----------
    run
        The run's identifier.
    config
        The run's configuration. Keys of Blindsum are left out: what they say is in the job's specification.
    weighted_by
        The key of the metric that is the weight of a reply.
    """
    found = _Hash(b"blindsum flower run 1")
    found.add(run, weighted_by)
    for key in sorted(key for key in config if not looks_like_ours(key)):
        found.add(key, config[key])
    return found.digest()


def check_same(messages: Sequence[Any]) -> None:
    """Refuse train messages of one round that say different things.

    Raises
    ------
    blindsum.ConfigError
        They do, or a node has two; ``field`` is ``"messages"``.
    """
    nodes = [message.metadata.dst_node_id for message in messages]
    if len(set(nodes)) < len(nodes):
        raise ConfigError("messages", "a node has two train messages in one round: send it one")
    first = messages[0]
    for message in messages[1:]:
        if (where := _difference(first, message)) is not None:
            raise ConfigError(
                "messages",
                f"train messages of one round differ in {where} (nodes {nodes[0]} and "
                f"{message.metadata.dst_node_id}), and all nodes of a sum must train on the same: "
                "with another model or setting for all other nodes a server would learn the update "
                "of one. Send all nodes the same, and read settings of a single node from its "
                "--node-config",
            )


def about(message: Any, context: Any, weighted_by: str) -> list[object]:
    """What a round of this message is about, as a node knows it: see :meth:`blindsum.Session.next_round`."""
    return [content_digest(message), run_digest(context.run_id, context.run_config, weighted_by)]


def check_job(spec: JobSpec, message: Any, context: Any, weighted_by: str) -> None:
    """Refuse a job whose nodes may train on something else than this node does.

    Parameters
    ----------
    spec
        The job.
    message, context
        What this node got, without Blindsum's record.
    weighted_by
        The key of the metric that is this node's weight.

    Raises
    ------
    blindsum.ConfigError
        The job binds no content, or another one; ``field`` is ``"messages"`` or ``"run-config"``.
    """
    if spec.parameters.get(CONTENT) != content_digest(message).hex():
        raise Refusal(
            "messages",
            "the train message that this node got is not the one that the job binds all its nodes to "
            "(arrays, configuration, type, group): the server side must send all nodes the same, through "
            "SecureGrid, and blindsum.flower.mod() must be the first of the mods",
        )
    if spec.parameters.get(RUN) != run_digest(context.run_id, context.run_config, weighted_by).hex():
        raise Refusal(
            "run-config",
            "this node's configuration of the run is not the one that the job binds all its nodes to: give "
            "SecureGrid the ServerApp's context, also beside a JobSpec (context=context), and start all of "
            "the run with one --run-config",
        )


class _Hash:
    """A hash of values, each with its type and its length before it."""

    def __init__(self, what: bytes) -> None:
        self._hash = hashlib.sha256()
        self.add(what)

    def add(self, *values: object) -> None:
        for value in values:
            match value:
                case bool():
                    self._part(b"t", b"\1" if value else b"\0")
                case int():
                    self._part(b"i", str(value).encode())
                case float():
                    self._part(b"f", struct.pack(">d", value))
                case str():
                    self._part(b"s", value.encode("utf-8", "surrogatepass"))
                case bytes() | bytearray() | memoryview():
                    self._part(b"b", value)
                case list() | tuple():
                    self._part(b"l", str(len(value)).encode())
                    self.add(*value)
                case _:
                    # Flower's records have no other values.
                    raise TypeError(f"a message has a value of type {type(value).__name__}")

    def _part(self, kind: bytes, data: bytes | bytearray | memoryview) -> None:
        self._hash.update(kind + len(data).to_bytes(8, "big"))
        self._hash.update(data)

    def digest(self) -> bytes:
        return self._hash.digest()


def _envelope(message: Any) -> Iterator[tuple[str, str | float]]:
    """What a message says beside its content."""
    metadata = message.metadata
    yield "message_type", str(metadata.message_type)
    yield "group_id", str(metadata.group_id)
    yield "ttl", float(metadata.ttl)


def _records(content: Any) -> Iterator[tuple[str, str, Any]]:
    """The records of a content but Blindsum's: kind, key and record, sorted."""
    for kind, records in (
        ("array", content.array_records),
        ("config", content.config_records),
        ("metric", content.metric_records),
    ):
        for name in sorted(records):
            if name != RECORD:
                yield kind, name, records[name]


def _entries(kind: str, record: Any) -> Iterable[tuple[str, Any]]:
    """The entries of a record: arrays in their order, others sorted."""
    return record.items() if kind == "array" else sorted(record.items())


def _difference(one: Any, other: Any) -> str | None:
    """The first thing in which two messages differ."""
    for (name, here), (_, there) in zip(_envelope(one), _envelope(other), strict=True):
        if here != there:
            return name
    if one.content is other.content:
        return None
    left, right = (list(_records(message.content)) for message in (one, other))
    if (names := [found[:2] for found in left]) != [found[:2] for found in right]:
        different = min(set(names) ^ {found[:2] for found in right})
        return f"the record {foreign(different[1], 64)!r}"
    for (kind, name, record), (_, _, further) in zip(left, right, strict=True):
        if (where := _entry(kind, record, further)) is not None:
            return f"{foreign(name, 64)}{where}"
    return None


def _entry(kind: str, one: Any, other: Any) -> str | None:
    """The first entry in which two records differ."""
    if one is other:
        return None
    here, there = list(_entries(kind, one)), list(_entries(kind, other))
    if [key for key, _ in here] != [key for key, _ in there]:
        return " (its keys, or their order)"
    for (key, value), (_, further) in zip(here, there, strict=True):
        if _one(kind, value) != _one(kind, further):
            return f"[{foreign(key, 64)!r}]"
    return None


def _one(kind: str, value: Any) -> bytes:
    """A value, so that two are equal exactly where their hashes are."""
    found = _Hash(b"value")
    if kind == "array":
        found.add(str(value.dtype), str(value.stype), [int(size) for size in value.shape], value.data)
    else:
        found.add(value)
    return found.digest()
