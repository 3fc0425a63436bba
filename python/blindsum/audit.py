"""The audit trail of a coordinator: read and verify it, with nothing but the file.

Every line is a JSON object with ``seq``, which counts from 1, ``time``, ``event`` with its fields, and
``prev``: the SHA-256 of the line before, without its line feed, in hexadecimal digits. The first line has
zeros there. So no line can be changed, taken out or put in without a change of all lines that follow.
Lines that were cut off at the end are noticed only by a hash that was noted before, ``head``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from blindsum import checks
from blindsum.errors import AuditError, ConfigError
from blindsum.os_errors import unreadable
from blindsum.pki import AnyPath

EVENTS = (
    *("started", "stopped", "repaired", "job-opened", "job-state", "joined", "left", "refused"),
    *("handshake-refused", "round-offered", "round-began", "round-ended", "fault", "order", "event"),
)
"""The kinds of entries."""
ZEROS = "0" * 64
"""What the first line has as the hash of the line before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a trail is that has been verified."""

    #: Number of entries.
    entries: int
    #: The hash of the last line: note it elsewhere, to give it to :func:`verify` later.
    head: str
    #: The times of the first and the last entry; empty if there is none.
    first: str
    last: str
    #: Bytes of half a line at the end: the coordinator is writing it, or was killed while it did.
    torn: int


def entries(trail: AnyPath) -> Iterator[dict[str, Any]]:
    """Every entry of a trail, oldest first, each verified before it is given.

    A coordinator may write meanwhile. Half a line at the end is left out.

    Raises
    ------
    blindsum.AuditError
        A line is no entry, or does not follow the one before; or the file cannot be read.
    """
    for entry, _ in _lines(checks.path("audit", trail)):
        if entry is not None:
            yield entry


def verify(trail: AnyPath, head: str | None = None) -> Verified:
    """Verify every line of a trail; a coordinator may write meanwhile.

    Parameters
    ----------
    trail
        The file.
    head
        The hash of a line that was the last one at an earlier time. It must be one of the lines, so that
        nothing was cut off or written anew since then.

    Raises
    ------
    blindsum.AuditError
        A line is no entry, or does not follow the one before; ``head`` is the hash of no line; or the file
        cannot be read.
    blindsum.ConfigError
        ``head`` is no hash.
    """
    path = checks.path("audit", trail)
    wanted = None if head is None else head.strip().lower()
    if wanted is not None and (len(wanted) != len(ZEROS) or set(wanted) - set("0123456789abcdef")):
        raise ConfigError("head", f"{head!r} must be a SHA-256: 64 hexadecimal digits")
    count, torn, times, last = 0, 0, ["", ""], ZEROS
    is_there = wanted is None
    for entry, rest in _lines(path):
        if entry is None:
            torn = len(rest)
            break
        count += 1
        times = [times[0] or entry["time"], entry["time"]]
        last = hashlib.sha256(rest).hexdigest()
        is_there = is_there or last == wanted
    if not is_there:
        raise AuditError(
            path,
            None,
            f"no line has the hash {wanted}: lines were cut off or rewritten since it was noted; "
            "compare it with a copy of the file",
        )
    return Verified(entries=count, head=last, first=times[0], last=times[1], torn=torn)


def _lines(path: str) -> Iterator[tuple[dict[str, Any] | None, bytes]]:
    """Each entry with its line; at the end perhaps ``None`` with half a line."""
    prev = ZEROS
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    yield None, line
                    return
                whole = line[:-1]
                yield _entry(path, number, whole, prev), whole
                prev = hashlib.sha256(whole).hexdigest()
    except OSError as error:
        raise AuditError(
            path, None, unreadable(error, "give the file of `blindsum serve --audit`")
        ) from error


def _entry(path: str, number: int, line: bytes, prev: str) -> dict[str, Any]:
    """The entry of a line that follows a line of this hash."""

    def wrong(why: str) -> AuditError:
        return AuditError(
            path, number, f"{why}: the file was changed here or just before, or is no audit trail"
        )

    try:
        entry = json.loads(line)
    except ValueError as error:
        raise wrong("is no JSON") from error
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("event"), str)
        or not isinstance(entry.get("time"), str)
    ):
        raise wrong("is no entry, with event and time")
    if entry.get("seq") != number:
        raise wrong(f"has the number {entry.get('seq')!r}")
    # guard: python-verifies-the-trail-too
    if entry.get("prev") != prev:
        raise wrong("does not have the hash of the line before")
    return entry
