"""A loop of the caller's own, one call for each step: :meth:`blindsum.Session.aggregate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blindsum import checks
from blindsum.errors import BlindsumError, Fault, PolicyError, RoundAborted, SubmitError, WaitTimeoutError
from blindsum.hosted import Step
from blindsum.machine_events import RoundRefused
from blindsum.rounds import Round, RoundResult
from blindsum.spec import JobSpec

OTHER_MODEL = (
    "the round starts from a model that this session has not given out, and the job adds the update to it: "
    "call model(), compute the update from that, and call aggregate() again"
)
"""What :meth:`Loop.aggregate` says where the update cannot be a change of the round's model."""


class Loop:
    """Where a loop stands: between two rounds, or in one.

    Attributes
    ----------
    lost : BlindsumError or None
        Why the latest step gave no result.
    is_over : bool
        Whether no more rounds come.
    """

    def __init__(
        self,
        spec: JobSpec,
        next_round: Callable[[float | None, Step | None], Round | RoundRefused | None],
        warn: Callable[[BlindsumError], None],
    ) -> None:
        self._adds = spec.model_update == "add"
        self._next_round = next_round
        self._warn = warn
        self._current: Round | None = None
        self._handed_in = False
        # The version of the model that the caller has.
        self._given: int | None = None
        self.lost: BlindsumError | None = None
        self.is_over = False

    @property
    def is_in_round(self) -> bool:
        """Whether a round is under way."""
        return self._current is not None

    def begin(self, timeout: float | None, step: Step | None) -> Round | None:
        """The round under way, or the next one, whose model the caller gets; ``None`` at the end."""
        current = self._wait(timeout, step)
        if current is not None:
            self._given = current.model_version
        return current

    def aggregate(
        self,
        update: object,
        weight: float | None,
        metrics: Mapping[str, float | None] | None,
        timeout: float | None,
        step: Step | None,
    ) -> RoundResult | None:
        """Submit to the round under way, or the next one, and wait for its result, or sit it out."""
        self.lost = None
        try:
            current = self._wait(timeout, step)
        except RoundAborted as error:
            # The round of this tag is over, or goes on without this party.
            self.lost = error
            self._warn(error)
            return None
        if current is None:
            return None
        if not self._handed_in:
            if current.needs_update and (update is None or checks.count(weight) == 0):
                current.skip()
                self._current = None
                self.lost = RoundAborted(current.number, "this party gave no update", only_me=True)
                return None
            if self._adds and self._given != current.model_version:
                raise SubmitError(current.number, "other model", OTHER_MODEL)
            current.submit(update, weight, metrics)
            self._handed_in = True
        try:
            result = current.outcome(timeout)
        except WaitTimeoutError:
            raise
        except (RoundAborted, Fault) as error:
            self._current = None
            self.lost = error
            self._warn(error)
            return None
        except BlindsumError:
            self._current = None
            raise
        self._current, self._given = None, result.model_version
        return result

    def _wait(self, timeout: float | None, step: Step | None) -> Round | None:
        """The round under way, or the next one; those that this party takes no part in are passed over.

        Raises
        ------
        blindsum.RoundAborted
            This party takes no part in the round of its tag.
        """
        if step is not None and self._current is not None and self._current.tag != step[0]:
            # The caller has gone on to another step.
            self._current.abandon()
            self._current = None
        while self._current is None:
            found = self._next_round(timeout, step)
            if found is None:
                self.is_over = True
                return None
            if isinstance(found, RoundRefused):
                error = found.error
                passed = isinstance(error, (PolicyError, RoundAborted, Fault))
                if not passed or (step is not None and isinstance(error, RoundAborted)):
                    raise error
                self._warn(error)
                continue
            self._current, self._handed_in = found, False
        return self._current
