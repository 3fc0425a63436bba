"""What learners tell each other, as bytes: a header in JSON and arrays, errors and results.

Nothing is unpickled: a learner that was broken into cannot run code in the others by a message.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum import errors
from blindsum.errors import BlindsumError, DomainError
from blindsum.privacy_claim import PrivacySpent
from blindsum.rounds import Clipped, Leftover, RoundResult, Timings

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

KINDS = frozenset({"float32", "float64", "uint32", "uint64"})


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """A header and flat arrays as bytes."""
    arrays = arrays or {}
    found = [[name, array.dtype.name, array.size] for name, array in arrays.items()]
    head = json.dumps({"header": header, "arrays": found}).encode()
    body = [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    return b"".join([len(head).to_bytes(8, "little"), head, *body])


def unpack(message: bytes) -> tuple[Header, Arrays]:
    """The inverse of :func:`pack`.

    Raises
    ------
    ValueError
        It is no such message.
    """
    start = 8 + int.from_bytes(message[:8], "little")
    head = json.loads(message[8:start])
    arrays: Arrays = {}
    for name, kind, size in head["arrays"]:
        if kind not in KINDS:
            raise ValueError(f"an array of {kind}")
        arrays[name] = np.frombuffer(message, dtype=kind, count=size, offset=start).copy()
        start += arrays[name].nbytes
    return head["header"], arrays


_FIELDS: dict[str, tuple[str, ...]] = {
    "ConfigError": ("field", "rule"),
    "DomainError": ("learner", "reason"),
    "DomainInputError": ("learner", "field", "rule", "index"),
    "Fault": ("culprit", "kind"),
    "InputError": ("field", "rule", "index"),
    "LayoutError": ("entry", "rule"),
    "PolicyError": ("field", "rule"),
    "ResultMissed": ("number", "reason"),
    "RoundAborted": ("number", "reason", "only_me"),
    "RoundUnknown": ("number", "reason"),
    "SpecError": ("field", "rule", "file"),
    "SubmitError": ("number", "state", "rule"),
}
"""Errors that are made from their attributes; all others from their text."""


def from_error(error: BlindsumError) -> Header:
    """An error as plain data."""
    kind = type(error).__name__
    if kind in _FIELDS:
        return {"kind": kind, "fields": [getattr(error, field) for field in _FIELDS[kind]]}
    return {"kind": kind, "fields": [str(error)]}


def to_error(plain: Header, speaker: int) -> BlindsumError:
    """The inverse of :func:`from_error`; what is unknown is a failure of the speaker."""
    kind = getattr(errors, str(plain["kind"]), None)
    if isinstance(kind, type) and issubclass(kind, BlindsumError):
        error: BlindsumError = kind(*plain["fields"])
        return error
    return DomainError(speaker, f"{plain['kind']}: {plain['fields']}")


def from_result(result: RoundResult) -> tuple[Header, Arrays]:
    """The result of a round as plain data and arrays."""
    arrays: Arrays = {"mean": result.mean, "model": result.model}
    sums = result.sum
    if sums is not None and sums.dtype != object:
        arrays["sum"] = sums
    if result.contributors is not None:
        arrays["contributors"] = result.contributors
    clipped, left = result.clipped, result.leftover
    times = result.timings
    plain = {
        "total_weight": result.total_weight,
        "survivors": list(result.survivors),
        "model_version": result.model_version,
        # More than 64 bits.
        "long_sum": [str(one) for one in sums] if sums is not None and sums.dtype == object else None,
        "timings": [times.ahead, times.protect, times.open],
        "clipped": None if clipped is None else [clipped.coordinates, clipped.scaled_by],
        "leftover": None if left is None else [left.norm, left.coordinates],
        "result": result.result,
        "privacy": None if result.privacy is None else dataclasses.asdict(result.privacy),
        "warnings": list(result.warnings),
        "metrics": dict(result.metrics),
        "reported": dict(result.reported),
    }
    return plain, arrays


def to_result(plain: Header, arrays: Arrays) -> RoundResult:
    """The inverse of :func:`from_result`."""
    long_sum = plain["long_sum"]
    arrays["model"].flags.writeable = False
    sums = arrays.get("sum") if long_sum is None else np.array([int(one) for one in long_sum], dtype=object)
    return RoundResult(
        mean=arrays["mean"],
        total_weight=plain["total_weight"],
        survivors=tuple(plain["survivors"]),
        model=arrays["model"],
        model_version=plain["model_version"],
        sum=sums,
        timings=Timings(*plain["timings"]),
        contributors=arrays.get("contributors"),
        clipped=None if plain["clipped"] is None else Clipped(*plain["clipped"]),
        leftover=None if plain["leftover"] is None else Leftover(*plain["leftover"]),
        result=plain["result"],
        privacy=None if plain["privacy"] is None else PrivacySpent(**plain["privacy"]),
        warnings=tuple(plain["warnings"]),
        metrics=plain["metrics"],
        reported=plain["reported"],
    )
