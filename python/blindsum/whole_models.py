"""Warns a party that gives a whole model where the job adds updates to its model."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.arrays import IntegerVector, Vector
from blindsum.spec import JobSpec

logger = logging.getLogger("blindsum")

MIN_NETWORK = 16
"""A model of fewer coordinates is hardly a network."""

LOOKS = 3
"""Updates that are looked at: who gives whole models gives one in every round."""

NEAR = 0.25
"""An update looks like a whole model where they differ by less than this part of the model (L2 norms)."""

PIECE = 1 << 20
"""Coordinates that are looked at in one go."""


class WholeModelLog:
    """Warns once if updates of this party look like whole models where the job adds them to its model.

    After a first model of zeros the next one is a sum of updates, to which honest updates are alike. So the
    second round is looked at only where this party knows that the first model was another one. The log is
    that of this party; nobody else learns of it.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._job = spec.job
        self._looks = LOOKS if spec.model_update == "add" and spec.dim >= MIN_NETWORK else 0
        self._from_zeros = True

    @property
    def is_looking(self) -> bool:
        """Whether the next update is looked at."""
        return self._looks > 0

    def look_at(
        self,
        number: int,
        version: int,
        model: Vector,
        update: Vector | IntegerVector,
        whose: str = "this party's update",
    ) -> None:
        """Look at an update of this party to the model of a round, before it is clipped."""
        if self._looks == 0:
            return
        if version == 0:
            self._from_zeros = not model.any()
            return
        if version == 1 and self._from_zeros:
            return
        self._looks -= 1
        if not looks_whole(update, model):
            return
        self._looks = 0
        logger.warning(
            "job %r, round %d: %s looks like a whole model, and the job adds updates to its model "
            "(model_update = add), which then grows by a whole network in every round. Give the difference: "
            "change() of a ModelVector, or bs.flatten(...) - rnd.model. For whole models the job needs "
            "model_update = replace",
            self._job,
            number,
            whose,
        )


def looks_whole(update: Vector | IntegerVector, model: Vector) -> bool:
    """Whether an update is about as long as the model and points where it points."""
    apart = size = 0.0
    flat: NDArray[Any] = update.reshape(-1)
    # Numbers near the end of the range of floats are no model.
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, model.size, PIECE):
            part = model[start : start + PIECE]
            other = flat[start : start + PIECE] - part
            apart += float(np.dot(other, other))
            size += float(np.dot(part, part))
    return 0 < size < np.inf and apart < NEAR**2 * size
