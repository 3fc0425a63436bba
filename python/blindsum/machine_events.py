"""Events of the machines of :mod:`blindsum.machines`, for the program that drives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from blindsum import errors
from blindsum.equality import Comparable
from blindsum.errors import BlindsumError
from blindsum.hosted import HostedResult
from blindsum.rounds import Array, RoundResult
from blindsum.spec import JobSpec


@dataclass(frozen=True)
class Joined:
    """The party has learnt the job, and its policy allows it.

    Attributes
    ----------
    spec : JobSpec
        The job.
    """

    spec: JobSpec


@dataclass(frozen=True, eq=False)
class RoundBegins(Comparable):
    """A round begins, for which the caller waited.

    Attributes
    ----------
    number : int
        The round's number; no number comes twice in a job.
    model : numpy.ndarray
        The model that the round starts from, read-only, shape ``(dim,)``; empty if the job keeps none.
    model_version : int
        Its version.
    parties : tuple of str
        Names of the certified parties.
    needs_update : bool
        Whether :meth:`PartyMachine.submit` must be called: not if an update was given already.
    tag : int or None
        The step of the host that began it, where it chose one.
    """

    number: int
    model: Array
    model_version: int
    parties: tuple[str, ...]
    needs_update: bool
    tag: int | None = None


@dataclass(frozen=True, eq=False)
class RoundEnded(Comparable):
    """A round has a result. It is told again after every restart until :meth:`PartyMachine.took` was called.

    Attributes
    ----------
    number : int
        The round.
    result : RoundResult
        The result.
    """

    number: int
    result: RoundResult


@dataclass(frozen=True, eq=False)
class RoundOver(Comparable):
    """What came of a round that the host of a coordinator began, by :meth:`ServerMachine.begin`.

    Attributes
    ----------
    tag : int or None
        The tag that the host gave it.
    result : HostedResult or None
        Its result; ``None`` if it has none.
    error : RoundLost or None
        Why it has none (:class:`blindsum.RoundLost`).
    """

    tag: int | None
    result: HostedResult | None
    error: errors.RoundLost | None


@dataclass(frozen=True)
class RoundLost:
    """A round that began gave this party no result.

    Attributes
    ----------
    number : int
        The round.
    error : BlindsumError
        Why; a :class:`blindsum.ResultMissed` if this party's update counts, and a
        :class:`blindsum.RoundUnknown` if it is out and whether it counts is not known here.
    """

    number: int
    error: BlindsumError


@dataclass(frozen=True)
class RoundRefused:
    """A round begins without this party, which waited for one. It may wait for the next one.

    Attributes
    ----------
    error : BlindsumError
        Why; a :class:`blindsum.ResultMissed` if a round from before a restart counts this party's update.
    """

    error: BlindsumError


@dataclass(frozen=True)
class Reconnect:
    """The connection is of no use any more: end it, and make another one.

    Attributes
    ----------
    reason : str
        Why.
    """

    reason: str


@dataclass(frozen=True, eq=False)
class JobDone(Comparable):
    """The job is over.

    Attributes
    ----------
    model : numpy.ndarray or None
        Its last model, read-only, if it is known here.
    reason : str
        Why, as the coordinator says, where the job was done before its rounds were; empty otherwise.
    """

    model: Array | None
    reason: str = ""


@dataclass(frozen=True)
class Failed:
    """The party cannot go on in this job.

    Attributes
    ----------
    error : BlindsumError
        Why.
    """

    error: BlindsumError


Event: TypeAlias = Joined | RoundBegins | RoundEnded | RoundLost | RoundRefused | Reconnect | JobDone | Failed
"""An event of a party."""


@dataclass(frozen=True)
class Suspended:
    """A party between two processes.

    Attributes
    ----------
    state : bytes
        All that must survive, sealed under the party's identity key.
    mark : int or None
        The mark of this state, higher than those of all earlier states of the party. Keep it apart from the
        state, where no backup brings back an earlier one. ``None`` if the party was opened without a mark.
    """

    state: bytes
    mark: int | None


@dataclass(frozen=True)
class Outgoing:
    """A frame to a party.

    Attributes
    ----------
    link : int
        The connection, as :meth:`ServerMachine.connected` numbered it.
    frame : bytes
        The frame.
    """

    link: int
    frame: bytes


@dataclass(frozen=True)
class LinkEnded:
    """The coordinator has ended a connection: close it once its frames are sent.

    Attributes
    ----------
    link : int
        Which one.
    reason : str
        Why.
    """

    link: int
    reason: str


@dataclass(frozen=True)
class JobOver:
    """The coordinator does nothing more. After the last round it stays, for parties that come late.

    Attributes
    ----------
    error : BlindsumError or None
        Why it could not go on; ``None`` if it was stopped.
    """

    error: BlindsumError | None


LinkEvent: TypeAlias = LinkEnded | RoundOver | JobOver
"""An event of a coordinator."""
