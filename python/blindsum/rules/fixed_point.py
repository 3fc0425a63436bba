"""How far the servers' result may be from the same rule in the clear.

Servers have vectors of whole numbers, with norms below 2^I. Sums, distances, ranks and medians of whole
numbers are exact. Weights are fixed-point numbers with F = 28 bits behind the point, and three things round
them:

* A truncation gives one of the two neighbouring whole numbers: it is less than one unit, 2⁻²⁸, off.
* 1/√N is computed for N = m · 4^i, with m from 1 to 4. 1/√m is too small by a part of 2⁻²⁰ at most: a
  straight line is within 0.0224, and a step of Newton's method turns a relative error e into -1.5·e² -
  0.5·e³, twice; both steps end below. It is too large only by roundings, at most 6 · 2⁻²⁸ of it. The power
  of two is exact and is multiplied in last.
* The root of FLTrust is scaled to the norm 2^26, and each coordinate rounded to a whole number.

What follows, in units of 2⁻²⁸, with 2⁻²⁰ = 256 units:

* `clipped`: the weight W = clip/‖x‖ ≤ 1 of a long vector is off by at most 256·W + 2 or 9, whichever is
  more. Below, the factor clip/2^i loses less than one unit when it is rounded down, and the truncated
  product another one. Above, the inverse root brings 6·W, and the truncation less than one. Other vectors
  have the weight 1 exactly.
* `fltrust`: the dot product with the root is off by at most half of ‖x‖₁. That, two truncations and one
  inverse root leave T = max(0, cos) within 256·T + 2r + 9, where r = ‖x‖₁/‖x‖ ≤ √D; the second inverse
  root and its truncation leave the weight of the unit vector x/‖x‖ within 512·T + 2r + 16.
* `cosine`: three truncations and two inverse roots leave a cosine c within 512·c + 16. The servers' weights
  are never negative.

The last bits of a weighted sum are hidden, since they say more of single vectors than the result does. Each
of three components moves the result by up to half of 1, and where there is a sum of weights S by 1/(2·S).
Where S is below 2⁻⁶ the result is zero, but for these bits if nobody knows S.

The bound of a mean follows: if Y/S becomes (Y + y)/(S + s), it moves by (y - s·Y/S)/(S + s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from blindsum.errors import ConfigError, InputError
from blindsum.rules.coordinates import median, trimmed_mean
from blindsum.rules.directions import MIN_TOTAL, cosine_weights, fltrust
from blindsum.rules.distances import krum, multi_krum
from blindsum.rules.given import Matrix, Vector, count, matrix, norms, row, units
from blindsum.rules.means import fedavg, weighted

UNIT = 2.0**-28
"""The last place of the servers' fixed-point numbers."""

ROOT = 2.0**-20
"""How much too small an inverse root may be, as a part of it."""

HIDDEN = 1.5
"""How far hidden bits move a number, times the sum of weights."""

EXACT: dict[str, Callable[..., Vector]] = {
    "fedavg": fedavg,
    "weighted": weighted,
    "krum": krum,
    "multi_krum": multi_krum,
    "median": median,
    "trimmed_mean": trimmed_mean,
}
"""Rules that servers compute without rounding."""

OPTIONS = {
    "fedavg": (),
    "weighted": ("weights",),
    "clipped": ("clip",),
    "fltrust": ("root",),
    "krum": ("bad",),
    "multi_krum": ("bad", "keep"),
    "median": (),
    "trimmed_mean": ("trim",),
    "cosine": (),
}
"""The options of each rule."""


def error_bound(
    rule: str,
    updates: ArrayLike,
    *,
    exponent: int,
    weights: ArrayLike | None = None,
    clip: int | None = None,
    root: ArrayLike | None = None,
    bad: int | None = None,
    keep: int | None = None,
    trim: int | None = None,
) -> float:
    """The most by which a coordinate of the servers' result differs from the rule in the clear.

    How the bounds follow from the steps of the computation is written at the top of this module.

    Parameters
    ----------
    rule
        The name of a function of :mod:`blindsum.rules`.
    updates
        What the servers have: whole numbers, shape ``(n, D)``, each vector's norm below 2**exponent.
    exponent
        I, from 15 to 30.
    weights, clip, root, bad, keep, trim
        Options of the rule, and no others. The clip is a whole number from 1 to 2**exponent - 1.

    Returns
    -------
    float
        In units of the updates. For rules that are exact it holds only what float64 rounds.

    Raises
    ------
    blindsum.InputError
        Updates that are not whole numbers with norms below 2**exponent.
    blindsum.ConfigError
        No such rule, or options that it does not have or cannot work with.

    Examples
    --------
    >>> error_bound("clipped", [[300, 400], [3, 4]], exponent=15, clip=250) < 0.7501
    True
    """
    options = {"weights": weights, "clip": clip, "root": root, "bad": bad, "keep": keep, "trim": trim}
    given = _options(rule, options)
    vectors = _whole(rule, updates, exponent)
    longest = float(norms(vectors).max())
    match rule:
        case "clipped":
            within = count(rule, "clip", clip, 1, 2**exponent - 1, f"1 <= clip < 2**{exponent}")
            bound = _of_clipped(vectors, within)
        case "fltrust":
            trusted = row(rule, "root", given["root"], vectors.shape[1], "D")
            longest = float(norms(trusted[None, :])[0])
            bound = _of_fltrust(vectors, trusted, longest)
        case "cosine":
            bound = _of_cosine(vectors)
        case _:
            # Exact; options that it cannot work with are refused.
            EXACT[rule](vectors, **given)
            bound = 0.0
    doubles = (sum(vectors.shape) + 8) * 2.0**-52
    return bound + doubles * longest


def _options(rule: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: all that the rule needs, and no others."""
    if rule not in OPTIONS:
        raise ConfigError("rule", f"{rule!r} must be one of {', '.join(OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in OPTIONS[rule]:
            raise ConfigError(name, f"{rule} has no such option")
    for name in OPTIONS[rule]:
        if name not in given and name != "keep":
            raise ConfigError(name, f"{rule} needs it")
    return given


def _whole(rule: str, updates: ArrayLike, exponent: int) -> Matrix:
    vectors = matrix(rule, updates)
    count(rule, "exponent", exponent, 15, 30, "15 <= exponent <= 30")
    broken = vectors != np.rint(vectors)
    if broken.any():
        raise InputError("updates", f"the servers' {rule} needs whole numbers", int(np.argmax(broken)))
    lengths = norms(vectors)
    if not (lengths < 2.0**exponent).all():
        raise InputError("updates", f"{rule} needs norms < 2**{exponent}, not {lengths.max():g}")
    return vectors


def _of_clipped(vectors: Matrix, clip: int) -> float:
    lengths = norms(vectors)
    is_long = lengths > clip
    factors = clip / lengths[is_long]
    errors = np.maximum(factors * ROOT + 2 * UNIT, 9 * UNIT)
    return float((errors @ np.abs(vectors[is_long])).max() + HIDDEN) / len(vectors)


def _of_fltrust(vectors: Matrix, root: Vector, length: float) -> float:
    mean = fltrust(vectors, root)
    directions = units(vectors)
    trust = np.maximum(0.0, directions @ units(root[None, :])[0])
    rounded = np.abs(directions).sum(axis=1) * 2 * UNIT
    # Nothing is rounded in vectors of zeros: their dot products are 0.
    is_there = np.abs(directions).max(axis=1) > 0
    of_trust = (trust * ROOT + rounded + 9 * UNIT) * is_there
    of_weights = (2 * trust * ROOT + rounded + 16 * UNIT) * is_there
    total, off = float(trust.sum()), float(of_trust.sum())
    left = total - off
    # No weight is much more than three times its trust, so no coordinate is beyond four norms of the root.
    most = 5 * length + HIDDEN / MIN_TOTAL
    if abs(total - MIN_TOTAL) <= off:
        return most
    if total < MIN_TOTAL:
        # Nothing where the servers show the sum, hidden bits of zero where they hide it.
        return HIDDEN
    moved = of_weights @ np.abs(directions) * length + of_trust.sum() * np.abs(mean)
    return min(most, (float(moved.max()) + HIDDEN) / left)


def _of_cosine(vectors: Matrix) -> float:
    weights = cosine_weights(units(vectors))
    mean = weights @ vectors / weights.sum()
    errors = (1.0 - weights) * 2 * ROOT + 16 * UNIT
    spread = float(np.ptp(vectors, axis=0).max())
    total, off = float(weights.sum()), float(errors.sum())
    left = total - off
    if abs(total - MIN_TOTAL) <= off:
        return float(norms(vectors).max()) + HIDDEN / MIN_TOTAL
    if total < MIN_TOTAL:
        return 0.0
    if math.isclose(spread, 0.0):
        return spread + HIDDEN / left
    return min(spread, float((errors @ np.abs(vectors - mean)).max() / left)) + HIDDEN / left
