"""How a party leaves a round or a job before its end, and what the coordinator is told of it."""

from __future__ import annotations

from contextlib import suppress
from threading import Timer

from blindsum.errors import (
    BlindsumError,
    Fault,
    ForkedError,
    PolicyError,
    RoundAborted,
    SessionClosedError,
    WaitTimeoutError,
)
from blindsum.rounds import Round


class LeftRound:
    """A round whose loop was left before an update was given, until it is known why.

    An exception ends the session next, and the coordinator is told of that. After ``break`` nothing comes,
    and the party sits the round out.
    """

    def __init__(self, left: Round) -> None:
        self._round = left
        self._timer = Timer(DECIDED_AFTER, self.sit_out)
        self._timer.daemon = True
        self._timer.start()

    def forget(self) -> None:
        """The session has ended."""
        self._timer.cancel()

    def sit_out(self) -> None:
        """Tell the coordinator that there is no update."""
        self._timer.cancel()
        with suppress(ForkedError, SessionClosedError):
            self._round.skip()


DECIDED_AFTER = 1.0
"""Seconds in which an exception that leaves a loop over rounds has ended the session."""


def why_failed(kind: type[BaseException], *, in_round: bool) -> str:
    """What the coordinator is told of an error that ended a party."""
    what = "its training function failed" if in_round else "its program failed"
    return f"{what} ({kind.__name__})"


OF_ONE_ROUND = (PolicyError, RoundAborted, Fault)


def settled(current: Round) -> BlindsumError | None:
    """Why a round whose result nobody asked for was lost, if it was."""
    if not current.submitted:
        return None
    with suppress(WaitTimeoutError):
        current.result(timeout=0)
    return current.lost
