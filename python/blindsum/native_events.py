"""What the native module gives where a call may end in several ways, beside the events of machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NoMoreRounds:
    """The job is over for this party: no round comes any more."""


@dataclass(frozen=True)
class Status:
    """Something of a job has changed.

    Attributes
    ----------
    fields : dict
        Its status, as :meth:`blindsum.Coordinator.statuses` gives it.
    """

    fields: dict[str, Any]


@dataclass(frozen=True)
class Quiet:
    """Nothing has changed in the time that was waited."""


@dataclass(frozen=True)
class Stopped:
    """The coordinator has stopped: nothing changes any more."""
