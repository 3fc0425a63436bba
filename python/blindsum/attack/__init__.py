"""Attacks on updates and on sums, as a demonstration: ``blindsum attack``, and :func:`run` from Python.

They need scikit-learn (the extra ``demo``), for its images and for scipy.
"""

from __future__ import annotations

from blindsum.attack.demonstration import run
from blindsum.attack.inversion import Reconstruction, invert
from blindsum.attack.membership import Game, play
from blindsum.attack.results import Attacked, AttackResult, Held, Settings

__all__ = ["AttackResult", "Attacked", "Game", "Held", "Reconstruction", "Settings", "invert", "play", "run"]
