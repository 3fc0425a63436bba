"""What attackers do instead of training: they send other vectors, or train on other labels.

========== ====================================================================================
label-flip train on labels l → 9 - l (Cao et al. 2021), and otherwise do as they should
sign-flip  train as they should, and send the opposite
scaled     label-flip, times n over the number of attackers: the mean becomes theirs, with what
           honest parties add to it (Bagdasaryan et al. 2020)
min-max    all send the mean of the honest updates, moved against its own direction as far as
           it can be without being farther from an honest update than two of these are from
           each other (Shejwalkar and Houmansadr 2021). They are told all honest updates
========== ====================================================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blindsum.demo.digits import Examples

Vectors = NDArray[np.float64]
Flags = NDArray[np.bool_]

ATTACKS = ("label-flip", "sign-flip", "scaled", "min-max")


def examples(attack: str, part: Examples) -> Examples:
    """What an attacker trains on."""
    if attack in ("label-flip", "scaled"):
        return Examples(part.images, 9 - part.labels)
    return part


def vectors(attack: str, updates: Vectors, bad: Flags) -> Vectors:
    """What is sent.

    Parameters
    ----------
    attack
        One of ``ATTACKS``.
    updates
        What all have after training, shape ``(n, D)``.
    bad
        Who attacks, shape ``(n,)``; some do and some do not.
    """
    sent = updates.copy()
    if attack == "sign-flip":
        sent[bad] *= -1
    elif attack == "scaled":
        sent[bad] *= len(bad) / bad.sum()
    elif attack == "min-max":
        sent[bad] = min_max(updates[~bad])
    return sent


def min_max(honest: Vectors) -> NDArray[np.float64]:
    """The vector that all attackers send, shape ``(D,)``, for honest updates of shape ``(h, D)``.

    It is the mean minus a multiple of the mean's unit vector. The original searches for the largest factor
    a; here it is the least of the larger roots of ‖mean - a·unit - x‖² = most², over the honest updates x.
    """
    mean: NDArray[np.float64] = honest.mean(axis=0)
    length = np.linalg.norm(mean)
    if length == 0:
        return mean
    unit = mean / length
    products = honest @ honest.T
    squares = np.diag(products)
    most = max(0.0, float((squares[:, None] + squares - 2 * products).max()))
    away = mean - honest
    along = away @ unit
    room = most - np.einsum("cd,cd->c", away, away)
    # A mean is never farther from one than another one is.
    factor = float((along + np.sqrt(along**2 + np.maximum(0.0, room))).min())
    attack: NDArray[np.float64] = mean - factor * unit
    return attack
