"""Rules that look where vectors point: FLTrust, and a rule that counts like vectors less."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from blindsum.errors import ConfigError
from blindsum.rules.given import Vector, matrix, norms, row, units

MIN_TRUST = 2.0**-40
"""Cosines below this are rounding errors of float64. Servers see steps of 2**-28."""

MIN_TOTAL = 2.0**-6
"""Where the sum of weights is less, no vector counts and the result is zero, as at the servers."""

MARGIN = 2.0**-24
"""What :func:`cosine` adds to each weight, as the servers do, so that rounding makes none negative."""


def fltrust(updates: ArrayLike, root: ArrayLike) -> Vector:
    """FLTrust (Cao et al. 2021): vectors count as much as they point where a trusted vector g points.

    Parameters
    ----------
    updates
        Shape ``(n, D)``.
    root
        The trusted vector g, shape ``(D,)``, not zero.

    Returns
    -------
    numpy.ndarray
        Σ T_c · x_c · ‖g‖ / ‖x_c‖ over Σ T_c, shape ``(D,)``, with T_c = max(0, cos(x_c, g)). Vectors of
        zeros count nothing. Where nobody is trusted, Σ T_c < 2⁻⁶, the result is zero.

    Raises
    ------
    blindsum.InputError
        The updates are not ``(n, D)``, or the root is not ``(D,)`` finite numbers.
    blindsum.ConfigError
        The root is zero.

    Examples
    --------
    >>> fltrust([[0.0, 5.0], [0.0, -9.0]], root=[0.0, 2.0])
    array([0., 2.])
    """
    vectors = matrix("fltrust", updates)
    trusted = row("fltrust", "root", root, vectors.shape[1], "D")[None, :]
    length = float(norms(trusted)[0])
    if length == 0:
        raise ConfigError("root", "norm 0, but fltrust needs norm > 0")
    directions = units(vectors)
    trust = directions @ units(trusted)[0]
    trust = np.where(trust < MIN_TRUST, 0.0, trust)
    total = trust.sum()
    if total < MIN_TOTAL:
        return np.zeros(vectors.shape[1])
    mean: Vector = length * (trust @ directions / total)
    return mean


def cosine(updates: ArrayLike) -> Vector:
    """Vectors that point where another one points count less.

    This is what FoolsGold (Fung et al. 2020) does against one attacker with many parties, without its
    memory, its pardons and its last curve.

    Parameters
    ----------
    updates
        Shape ``(n, D)``.

    Returns
    -------
    numpy.ndarray
        Σ w_c x_c / Σ w_c, shape ``(D,)``, with w_c = 1 - max(0, the largest cosine of x_c and another
        vector). The cosine with a vector of zeros is 0. A single vector is the result. Where all vectors are
        alike, Σ w_c < 2⁻⁶, the result is zero. Each weight is 2⁻²⁴ more, as at the servers.

    Raises
    ------
    blindsum.InputError
        The updates are no ``(n, D)`` finite numbers.

    Examples
    --------
    >>> cosine([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]).round(4)
    array([0., 3.])
    """
    vectors = matrix("cosine", updates)
    weights = cosine_weights(units(vectors))
    total = weights.sum()
    if total < MIN_TOTAL:
        return np.zeros(vectors.shape[1])
    mean: Vector = weights @ vectors / total
    return mean


def cosine_weights(directions: Vector) -> Vector:
    """The weights of :func:`cosine`, shape ``(n,)``, for unit vectors and zeros, ``(n, D)``."""
    cosines = np.clip(directions @ directions.T, -1.0, 1.0)
    np.fill_diagonal(cosines, 0.0)
    weights: Vector = 1.0 + MARGIN - np.maximum(0.0, cosines.max(axis=1))
    return weights
