"""Text files: UTF-8 whatever the locale, read with or without a byte order mark."""

from __future__ import annotations

import os

_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""Byte order marks of UTF-16 and UTF-32."""


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
