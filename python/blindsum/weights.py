"""The weight of an update that comes without one."""

from __future__ import annotations

import logging

from blindsum import checks
from blindsum.spec import JobSpec

logger = logging.getLogger("blindsum")


class DefaultWeight:
    """What an update counts that comes without a weight.

    Where nobody chose it in a job with weights, the log says so, once.

    Parameters
    ----------
    spec
        The job.
    chosen
        The weight that this party chose for all its updates; ``None`` where it chose none.

    Raises
    ------
    blindsum.InputError
        ``chosen`` is no weight of the job.
    """

    def __init__(self, spec: JobSpec, chosen: object = None) -> None:
        self._spec = spec
        self._chosen = None if chosen is None else checks.weight("weight", chosen, spec, "")
        self._warns = spec.max_weight > 1

    def of(self, weight: object) -> int:
        """The weight that was given, or the one that counts where none was: the chosen one, else 1.

        Raises
        ------
        blindsum.InputError
            The one that was given is no weight of the job.
        """
        if weight is not None:
            return checks.weight("weight", weight, self._spec)
        return self.default()

    def default(self) -> int:
        """The weight that counts where none was given: the chosen one, else 1."""
        if self._chosen is not None:
            return self._chosen
        warns, self._warns = self._warns, False
        if warns:
            logger.warning(
                "job %r: an update came without a weight and counts as 1, in a job with weights up "
                "to %d: a party with many examples has the same weight as one with few. Give "
                "weight=len(data), or join(weight=len(data)); weight=1 declares 1 as intended",
                self._spec.job,
                self._spec.max_weight,
            )
        return 1
