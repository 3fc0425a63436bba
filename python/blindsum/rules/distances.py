"""Krum and Multi-Krum (Blanchard et al. 2017): the vectors that are nearest to their nearest others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blindsum.rules.given import Matrix, Vector, count, matrix, norms


def krum(updates: ArrayLike, bad: int) -> Vector:
    """The vector with the least score.

    Parameters
    ----------
    updates
        Shape ``(n, D)``.
    bad
        How many vectors may be bad, f; n ≥ f + 3.

    Returns
    -------
    numpy.ndarray
        One of the updates, shape ``(D,)``. The score of a vector is the sum of its squared distances to its
        n - f - 2 nearest others; of equal scores the first one is less.

    Raises
    ------
    blindsum.InputError
        The updates are no ``(n, D)`` finite numbers.
    blindsum.ConfigError
        ``bad`` is below 0 or above n - 3.

    Examples
    --------
    >>> krum([[1.0], [2.0], [90.0], [2.5]], bad=1)
    array([2.])
    """
    vectors = matrix("krum", updates)
    first: Vector = vectors[_order("krum", vectors, bad)[0]]
    return first


def multi_krum(updates: ArrayLike, bad: int, keep: int | None = None) -> Vector:
    """The mean of the ``keep`` vectors with the least scores.

    Parameters
    ----------
    updates
        Shape ``(n, D)``.
    bad
        How many vectors may be bad, f; n ≥ f + 3.
    keep
        How many vectors count, from 1 to n; n - f where nothing is said.

    Returns
    -------
    numpy.ndarray
        Shape ``(D,)``. Scores are those of :func:`krum`.

    Raises
    ------
    blindsum.InputError
        The updates are no ``(n, D)`` finite numbers.
    blindsum.ConfigError
        ``bad`` is below 0 or above n - 3, or ``keep`` not from 1 to n.

    Examples
    --------
    >>> multi_krum([[1.0], [2.0], [90.0], [2.5]], bad=1, keep=2)
    array([2.25])
    """
    vectors = matrix("multi_krum", updates)
    order = _order("multi_krum", vectors, bad)
    n = len(vectors)
    if keep is None:
        keep = n - bad
    kept = count("multi_krum", "keep", keep, 1, n, f"1 <= keep <= n = {n}")
    mean: Vector = vectors[order[:kept]].mean(axis=0)
    return mean


def _order(rule: str, vectors: Matrix, bad: int) -> list[int]:
    """Vectors by their scores."""
    n = len(vectors)
    f = count(rule, "bad", bad, 0, n - 3, f"bad >= 0 and n >= bad + 3, n = {n}")
    distances = _distances(vectors)
    others = (np.sort(np.delete(distances[row], row))[: n - f - 2] for row in range(n))
    # Python's whole numbers do not overflow.
    scores = [sum(nearest.tolist()) for nearest in others]
    return sorted(range(n), key=lambda row: scores[row])


def _distances(vectors: Matrix) -> NDArray[Any]:
    """Squared distances, ``(n, n)``: exact ones of whole numbers with norms below 2^30."""
    largest = float(norms(vectors).max())
    if largest < 2**30 and (vectors == np.rint(vectors)).all():
        exact = vectors.astype(np.int64)
        return _squares(exact)
    _, exponent = np.frexp(np.abs(vectors).max())
    return _squares(np.ldexp(vectors, -exponent))


def _squares(vectors: NDArray[Any]) -> NDArray[Any]:
    n = len(vectors)
    squares = np.zeros((n, n), dtype=vectors.dtype)
    for row in range(n):
        between = vectors[row + 1 :] - vectors[row]
        squares[row, row + 1 :] = np.einsum("cd,cd->c", between, between)
        squares[row + 1 :, row] = squares[row, row + 1 :]
    return squares
