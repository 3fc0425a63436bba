"""Text files: UTF-8 whatever the locale, read with or without a byte order mark."""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import Any

_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""Byte order marks of UTF-16 and UTF-32."""


def is_whole(text: str) -> bool:
    """Whether a text has no half characters, as names of files that are no UTF-8 have."""
    return text.isascii() or text.encode(errors="replace").decode() == text


def decoded(data: bytes) -> str:
    """The text of a file.

    Parameters
    ----------
    data
        Its bytes: UTF-8, with or without a byte order mark.

    Raises
    ------
    ValueError
        They are something else; it says what, and what to do.
    """
    if data.startswith(_WIDE) or b"\x00" in data[:4]:
        raise ValueError("is UTF-16 or UTF-32, as some editors and shells write it: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is no UTF-8 text at byte {error.start}: save it as UTF-8") from error


def read(path: str | os.PathLike[str]) -> str:
    """The text of the file at a path.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is no UTF-8 text; see :func:`decoded`.
    """
    with open(path, "rb") as file:
        return decoded(file.read())


def printable(text: str) -> str:
    """A text that does nothing to a terminal: control characters and those without a shape become escapes."""
    # guard: a-terminal-shows-reasons
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def counted(number: int, name: str) -> str:
    """A number of things: ``1 party``, ``3 parties``, ``2 runs``."""
    if number == 1:
        return f"1 {name}"
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    return f"{number} {plural}"


def toml_of(path: str, text: str) -> dict[str, Any]:
    """The table in a text of TOML, which is the content of a file.

    Raises
    ------
    ValueError
        It is no TOML; the error begins with the file and the line.
    RecursionError
        It is nested too deeply.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, line = _apart(str(error), r"(.*) \(at line (\d+), column \d+\)", text)
        advice = "a line is NAME = VALUE, with texts in quotes"
        raise ValueError(f"{path}, line {line}: {what}; {advice}") from error


def json_of(path: str, text: str, **how: Any) -> Any:
    """What a text of JSON says, which is the content of a file; ``how`` goes to :func:`json.loads`.

    Raises
    ------
    ValueError
        It is no JSON; the error begins with the file, and the line where there is one.
    RecursionError
        It is nested too deeply.
    """
    try:
        return json.loads(text, **how)
    except json.JSONDecodeError as error:
        advice = "JSON has names and texts in double quotes, and a comma between two entries"
        raise ValueError(f"{path}, line {error.lineno}: {_begun_small(error.msg)}; {advice}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _apart(message: str, pattern: str, text: str) -> tuple[str, int]:
    """What is wrong and in which line; the last one where the message does not say."""
    found = re.fullmatch(pattern, message)
    if found is not None:
        return _begun_small(found[1]), int(found[2])
    what = message.removesuffix(" (at end of document)")
    return f"{_begun_small(what)} at the end of the file", max(len(text.splitlines()), 1)


def _begun_small(text: str) -> str:
    return text[:1].lower() + text[1:]
