"""What rules are given: updates and options, checked once, and the lengths of vectors."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blindsum.arrays import array_of
from blindsum.checks import finite, whole_number
from blindsum.errors import ConfigError, InputError

Matrix: TypeAlias = NDArray[np.float64]
"""Vectors of all parties, shape ``(n, D)``."""

Vector: TypeAlias = NDArray[np.float64]
"""One vector, shape ``(D,)``, or one number for each party, shape ``(n,)``."""

LARGEST = 2.0**400
"""Numbers up to this size can be squared and summed without overflow."""


def matrix(rule: str, updates: ArrayLike) -> Matrix:
    """The updates as float64.

    Parameters
    ----------
    rule
        Who asks, for errors.
    updates
        Real numbers, shape ``(n, D)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, D)``, n and D at least 1.

    Raises
    ------
    blindsum.InputError
        Another shape, no real numbers, or a number that is not finite or above 2**400.
    """
    array = _numbers(rule, "updates", updates)
    if array.ndim != 2 or not array.size:
        raise InputError("updates", f"{rule} needs shape (n, D), n >= 1 and D >= 1, not {array.shape}")
    return array


def row(rule: str, field: str, values: ArrayLike, length: int, what: str) -> Vector:
    """One vector as float64.

    Parameters
    ----------
    rule, field
        Who asks, and for what.
    values
        Real numbers, shape ``(length,)``.
    length
        How many there must be.
    what
        What ``length`` is, for errors.

    Raises
    ------
    blindsum.InputError
        As :func:`matrix`.
    """
    array = _numbers(rule, field, values)
    if array.shape != (length,):
        raise InputError(field, f"{rule} needs {what} = {length} numbers, not shape {array.shape}")
    return array


def _numbers(rule: str, field: str, values: ArrayLike) -> NDArray[np.float64]:
    array: NDArray[Any] = array_of(values, f"{field}: {rule} needs an array of numbers")
    if array.dtype.kind not in "iuf":
        raise InputError(field, f"{rule} needs real numbers, not {array.dtype.name}")
    array = array.astype(np.float64)
    wrong = ~(np.abs(array) <= LARGEST)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise InputError(field, f"{rule} needs finite numbers of at most 2**400, not number {index}", index)
    return array


def count(rule: str, field: str, value: object, least: int, most: int, inequality: str) -> int:
    """An option that is a whole number from ``least`` to ``most``.

    Raises
    ------
    blindsum.ConfigError
        It is not; the error says the rule and the ``inequality``.
    """
    whole = whole_number(value)
    if whole is None or not least <= whole <= most:
        raise ConfigError(field, f"{value!r}, but {rule} needs a whole number with {inequality}")
    return whole


def positive(rule: str, field: str, value: object) -> float:
    """An option that is a number above 0.

    Raises
    ------
    blindsum.ConfigError
        It is not.
    """
    number = finite(field, value)
    if not 0 < number <= LARGEST:
        raise ConfigError(field, f"{value!r}, but {rule} needs {field} > 0, at most 2**400")
    return float(number)


def norms(vectors: Matrix) -> Vector:
    """The Euclidean norm of each row, shape ``(n,)``; small numbers do not vanish when squared."""
    # Powers of two change nothing but the exponents.
    _, exponents = np.frexp(np.abs(vectors).max(axis=1))
    scaled = np.ldexp(vectors, -exponents[:, None])
    lengths: Vector = np.ldexp(np.linalg.norm(scaled, axis=1), exponents)
    return lengths


def units(vectors: Matrix) -> Matrix:
    """Each row divided by its norm; rows of zeros stay zeros."""
    _, exponents = np.frexp(np.abs(vectors).max(axis=1))
    scaled = np.ldexp(vectors, -exponents[:, None])
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    directions: Matrix = np.divide(scaled, lengths, out=np.zeros_like(scaled), where=lengths > 0)
    return directions
