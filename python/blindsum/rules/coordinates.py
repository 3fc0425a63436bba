"""Rules that treat each coordinate by itself: the median and the trimmed mean (Yin et al. 2018)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from blindsum.rules.given import Matrix, Vector, count, matrix


def median(updates: ArrayLike) -> Vector:
    """The median of each coordinate; of an even number of vectors, the mean of the middle two.

    Parameters
    ----------
    updates
        Shape ``(n, D)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(D,)``.

    Raises
    ------
    blindsum.InputError
        The updates are no ``(n, D)`` finite numbers.

    Examples
    --------
    >>> median([[1.0], [4.0], [2.0], [99.0]])
    array([3.])
    """
    vectors = matrix("median", updates)
    return _middle(vectors, (len(vectors) - 1) // 2)


def trimmed_mean(updates: ArrayLike, trim: int) -> Vector:
    """The mean of each coordinate without its ``trim`` smallest and ``trim`` largest values.

    Parameters
    ----------
    updates
        Shape ``(n, D)``.
    trim
        How many values are left out at either end; 2 · trim < n.

    Returns
    -------
    numpy.ndarray
        Shape ``(D,)``.

    Raises
    ------
    blindsum.InputError
        The updates are no ``(n, D)`` finite numbers.
    blindsum.ConfigError
        ``trim`` is below 0, or nothing is left.

    Examples
    --------
    >>> trimmed_mean([[1.0], [4.0], [2.0], [99.0]], trim=1)
    array([3.])
    """
    vectors = matrix("trimmed_mean", updates)
    n = len(vectors)
    left_out = count("trimmed_mean", "trim", trim, 0, (n - 1) // 2, f"trim >= 0 and 2 * trim < n = {n}")
    return _middle(vectors, left_out)


def _middle(vectors: Matrix, trim: int) -> Vector:
    """The mean of the values that are not among the ``trim`` first or last ones."""
    kept = np.sort(vectors, axis=0)[trim : len(vectors) - trim]
    mean: Vector = kept.mean(axis=0)
    return mean
