"""FEMNIST and Shakespeare as LEAF writes them: JSON files with the examples of each user."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.errors import DataError
from blindsum.learning.dataset import Dataset, joined
from blindsum.learning.readers import text

CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
"""The labels of FEMNIST."""

Examples = tuple[NDArray[Any], NDArray[np.int64]]


def read_femnist(paths: Sequence[Path]) -> Dataset:
    """Read the files of FEMNIST: images of handwritten characters, and their writers.

    Raises
    ------
    blindsum.DataError
        A file is damaged.
    """
    return joined([_read(path, _characters, CHARACTERS) for path in paths])


def read_shakespeare(paths: Sequence[Path]) -> Dataset:
    """Read the files of Shakespeare: lines of 80 characters with the next one, and who speaks them.

    Raises
    ------
    blindsum.DataError
        A file is damaged.
    """
    return joined([_read(path, _lines, text.NAMES) for path in paths])


def _read(path: Path, convert: Callable[[list[Any], list[Any]], Examples], names: Sequence[str]) -> Dataset:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(path, f"it cannot be read as JSON: {error}") from error
    features, labels, users = [], [], []
    for user, xs, ys in _users(path, content):
        try:
            own, next_ = convert(xs, ys)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(path, f"the examples of user {user!r}: {error}") from error
        features.append(own)
        labels.append(next_)
        users += [user] * len(own)
    if not users:
        raise DataError(path, "it has no example")
    return Dataset(np.concatenate(features), np.concatenate(labels), np.array(users), names)


def _users(path: Path, content: object) -> list[tuple[str, list[Any], list[Any]]]:
    """Each user with features and labels that belong together."""
    match content:
        case {"users": [*users], "num_samples": [*counts], "user_data": dict(data)}:
            known = all(isinstance(user, str) for user in users) and set(users) == data.keys()
            if known and len(users) == len(counts) == len(data):
                return [_user(path, data, *one) for one in zip(users, counts, strict=True)]
    raise DataError(path, "it does not have users, num_samples and user_data of the same users")


def _user(path: Path, data: dict[str, Any], user: str, count: object) -> tuple[str, list[Any], list[Any]]:
    match data[user]:
        case {"x": [*xs], "y": [*ys]}:
            if len(xs) == len(ys) == count:
                return user, xs, ys
    raise DataError(path, f"user {user!r} does not have as many features x and labels y as num_samples says")


def _characters(xs: list[Any], ys: list[Any]) -> Examples:
    pixels = np.array(xs, dtype=np.float32)
    if len(xs) and pixels.shape[1:] != (28 * 28,):
        raise ValueError(f"images must have 784 pixels, not the shape {pixels.shape[1:]}")
    # Also refuses what is not a number.
    if not ((pixels >= 0) & (pixels <= 1)).all():
        raise ValueError("pixels must be from 0 to 1")
    if not all(type(one) is int and 0 <= one < len(CHARACTERS) for one in ys):
        raise ValueError(f"labels must be whole numbers from 0 to {len(CHARACTERS) - 1}")
    return pixels.reshape(len(xs), 1, 28, 28), np.array(ys, dtype=np.int64)


def _lines(xs: list[Any], ys: list[Any]) -> Examples:
    if not all(isinstance(one, str) and len(one) == text.LENGTH for one in xs):
        raise ValueError(f"features must be texts of {text.LENGTH} characters")
    if not all(isinstance(one, str) and len(one) == 1 for one in ys):
        raise ValueError("labels must be one character each")
    return text.coded("".join(xs)).reshape(len(xs), text.LENGTH), text.coded("".join(ys))
