"""The mean, with weights, and of vectors that are shortened."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from blindsum.errors import ConfigError
from blindsum.rules.given import Vector, matrix, norms, positive, row


def fedavg(updates: ArrayLike) -> Vector:
    """The mean of all vectors (McMahan et al. 2017).

    Parameters
    ----------
    updates
        Shape ``(n, D)``.

    Returns
    -------
    numpy.ndarray
        Σ x_c / n, shape ``(D,)``.

    Raises
    ------
    blindsum.InputError
        The updates are no ``(n, D)`` finite numbers.

    Examples
    --------
    >>> fedavg([[1.0, 0.0], [3.0, 4.0]])
    array([2., 2.])
    """
    mean: Vector = matrix("fedavg", updates).mean(axis=0)
    return mean


def weighted(updates: ArrayLike, weights: ArrayLike) -> Vector:
    """The mean with weights, such as numbers of examples.

    Parameters
    ----------
    updates
        Shape ``(n, D)``.
    weights
        Shape ``(n,)``, each above 0.

    Returns
    -------
    numpy.ndarray
        Σ w_c x_c / Σ w_c, shape ``(D,)``.

    Raises
    ------
    blindsum.InputError
        The updates are not ``(n, D)``, or the weights not ``(n,)`` finite numbers.
    blindsum.ConfigError
        A weight is not above 0.

    Examples
    --------
    >>> weighted([[1.0, 0.0], [3.0, 4.0]], weights=[3, 1])
    array([1.5, 1. ])
    """
    vectors = matrix("weighted", updates)
    shares = row("weighted", "weights", weights, len(vectors), "n")
    if not (shares > 0).all():
        raise ConfigError("weights", f"{shares.min():g}, but weighted needs each weight > 0")
    shares /= shares.max()
    mean: Vector = shares @ vectors / shares.sum()
    return mean


def clipped(updates: ArrayLike, clip: float) -> Vector:
    """The mean of vectors that are shortened to the norm ``clip`` where they are longer.

    Parameters
    ----------
    updates
        Shape ``(n, D)``.
    clip
        The largest Euclidean norm that counts, above 0, in units of the updates.

    Returns
    -------
    numpy.ndarray
        Σ min(1, clip / ‖x_c‖) x_c / n, shape ``(D,)``. Its norm is at most ``clip``. Vectors of zeros stay
        zeros.

    Raises
    ------
    blindsum.InputError
        The updates are no ``(n, D)`` finite numbers.
    blindsum.ConfigError
        The clip is not above 0.

    Examples
    --------
    >>> clipped([[3.0, 4.0], [0.0, 1.0]], clip=2.5)
    array([0.75, 1.5 ])
    """
    vectors = matrix("clipped", updates)
    bound = positive("clipped", "clip", clip)
    lengths = norms(vectors)
    factors = np.divide(bound, lengths, out=np.ones_like(lengths), where=lengths > bound)
    mean: Vector = factors @ vectors / len(vectors)
    return mean
