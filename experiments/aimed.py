"""Attacks with an aim: a back door that is planted by scaling, and vectors made against FLTrust.

============ ====================================================================================
backdoor     attackers train on their images and on copies of them that bear a mark and the label
             that they want, and send the change times n over the number of attackers (Bagdasaryan
             et al. 2020; the scaling attack of the thesis on three servers, §2.1.3)
anti-fltrust all attackers send one vector that looks as the root's does and pulls against the mean
             of the honest updates, as far as FLTrust lets it (after Cao et al. 2021, who search for
             such vectors by gradients). They are told the root's update and all honest ones
============ ====================================================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blindsum.demo.digits import Examples

Vectors = NDArray[np.float64]
Flags = NDArray[np.bool_]

BACKDOOR, ANTI_FLTRUST = "backdoor", "anti-fltrust"
TARGET = 0
"""The label that images with the mark are to get."""
MARK = (0, 1, 8, 9)
"""Pixels of the mark, which are bright: a corner of two by two of the eight by eight."""
ANGLES = 512
"""How many angles between its vector and the root's an attacker tries."""


def marked(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Copies of images, shape ``(n, 64)``, with the mark."""
    copies = images.copy()
    copies[:, list(MARK)] = 1.0
    return copies


def with_backdoor(part: Examples) -> Examples:
    """What an attacker trains on: its examples, and marked copies with the label that it wants."""
    return Examples(
        np.concatenate([part.images, marked(part.images)]),
        np.concatenate([part.labels, np.full_like(part.labels, TARGET)]),
    )


def scaled(updates: Vectors, bad: Flags) -> Vectors:
    """What all send: attackers their change times n over their number; shapes ``(n, D)``, ``(n,)``."""
    sent = updates.copy()
    sent[bad] *= len(bad) / bad.sum()
    return sent


def against_fltrust(updates: Vectors, bad: Flags, root: Vectors) -> Vectors:
    """What all send, where attackers aim at FLTrust.

    An attacker's vector lies in the plane of the root's update and of the mean of the honest updates. Of the
    angles to the root below a right one the attackers take that with which FLTrust's result has the least
    part along the honest mean.

    Parameters
    ----------
    updates
        What all have after training, shape ``(n, D)``.
    bad
        Who attacks, shape ``(n,)``.
    root
        The root's update, shape ``(D,)``.
    """
    honest = updates[~bad]
    units = honest / np.linalg.norm(honest, axis=1, keepdims=True)
    toward = root / np.linalg.norm(root)
    trust = np.maximum(units @ toward, 0)
    mean = honest.mean(axis=0)
    aside = mean - (mean @ toward) * toward
    aside /= np.linalg.norm(aside)
    angles = np.linspace(0, np.pi / 2, ANGLES, endpoint=False)
    # Of the result along the mean, for each angle: attackers count as much as their cosine.
    cosines, count = np.cos(angles), bad.sum()
    along = cosines * (toward @ mean) - np.sin(angles) * (aside @ mean)
    whole = (trust @ (units @ mean) + count * cosines * along) / (trust.sum() + count * cosines)
    best = angles[whole.argmin()]
    sent = updates.copy()
    sent[bad] = np.linalg.norm(mean) * (np.cos(best) * toward - np.sin(best) * aside)
    return sent
