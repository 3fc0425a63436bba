"""What the log says of updates that are clipped."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from blindsum.options import Quantised
from blindsum.spec import JobSpec

if TYPE_CHECKING:
    from blindsum.rounds import Clipped

logger = logging.getLogger("blindsum")

LONGER = (
    "raise max_norm in the job (with bound = l2 clip as well), or use more bits, since rounding uses "
    "a part of the norm"
)
"""What helps where the bound of the norm shortens updates."""


class ClippingLog:
    """Tells the log that updates of this party are clipped: a warning at first, then a line a round.

    Bounds that follow from earlier rounds may be too small for this party alone: where they are, it is
    warned again after 4, 16, 64, … rounds in which it was cut off.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._told = 0
        self._warn_at = 1
        self.job = spec.job

    def tell(self, number: int, clipped: Clipped | None) -> None:
        """Say what became of the update of a round."""
        if not clipped:
            return
        spec = self._spec
        if clipped.scaled_by is None:
            what = f"{clipped.coordinates} of {spec.dim} coordinates of this party's update were cut off"
        else:
            what = f"this party's update was multiplied by {clipped.scaled_by:.3g}"
        self._told += 1
        if self._told < self._warn_at:
            logger.info("job %r, round %d: %s", spec.job, number, what)
            return
        repeats = isinstance(spec.encoding, Quantised) and spec.encoding.clipping == "aciq"
        self._warn_at = 4 * self._told if repeats else sys.maxsize
        if self._told > 1:
            what += f", and so it was in {self._told - 1} earlier rounds"
        bound, advice = f"clip = {spec.clip:g}", "raise clip in the job"
        if isinstance(spec.encoding, Quantised):
            if spec.encoding.clipping == "aciq":
                advice = "one round is meant to be where updates jump; if it goes on, take clipping = tensor"
            elif spec.encoding.max_norm and clipped.scaled_by is not None:
                bound, advice = f"max_norm = {spec.encoding.max_norm:g}", LONGER
        text = "job %r, round %d: %s (%s); the mean lacks the excess: %s"
        logger.warning(text, spec.job, number, what, bound, advice, extra={"round": number})
