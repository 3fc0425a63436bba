"""Enough of Protocol Buffers to read frames: the messages of a .proto file, and how they are encoded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "proto" / "blindsum.proto"
VARINT, BYTES = 0, 2
FIELD = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")
ZERO = {"string": "", "bytes": b"", "bool": False}
Field = tuple[bool, str, str]


def messages() -> dict[str, dict[int, Field]]:
    """Every message of the file: by number, whether a field is repeated, its type and its name."""
    text = re.sub(r"//.*", "", FILE.read_text())
    text = re.sub(r"oneof \w+ \{([^}]*)\}", r"\1", text)
    found = {}
    for name, body in re.findall(r"message (\w+) \{([^}]*)\}", text):
        fields = FIELD.findall(body)
        found[name] = {int(number): (bool(many), kind, field) for many, kind, field, number in fields}
    return found


MESSAGES = messages()


def varint(content: bytes, at: int) -> tuple[int, int]:
    """A number, seven bits a byte and the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def value_of(kind: str, wire_type: int, raw: int | bytes) -> Any:
    """What a field of this type holds."""
    if isinstance(raw, int):
        assert wire_type == VARINT, kind
        return bool(raw) if kind == "bool" else raw
    if kind == "bytes":
        return raw
    return raw.decode() if kind == "string" else read(kind, raw)


def read(name: str, content: bytes) -> dict[str, Any]:
    """A message of this name; what is not said is 0, empty, or None where it is a message itself."""
    fields, at = MESSAGES[name], 0
    said: dict[str, Any] = {}
    for many, kind, field in fields.values():
        said[field] = [] if many else None if kind in MESSAGES else ZERO.get(kind, 0)
    while at < len(content):
        tag, at = varint(content, at)
        number, wire_type = tag >> 3, tag & 7
        many, kind, field = fields[number]
        assert wire_type in (VARINT, BYTES), field
        size, at = varint(content, at)
        raw: int | bytes = size
        if wire_type == BYTES:
            raw, at = content[at : at + size], at + size
            assert at <= len(content), field
        value = value_of(kind, wire_type, raw)
        if many:
            said[field].append(value)
        else:
            said[field] = value
    return said


def frame(name: str, content: bytes) -> tuple[str, dict[str, Any]]:
    """The one field of a frame that is set: its name and what it holds."""
    said = {field: value for field, value in read(name, content).items() if value is not None}
    ((field, value),) = said.items()
    return field, value
