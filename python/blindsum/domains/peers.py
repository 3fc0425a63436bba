"""How the learners of a domain talk to each other: messages between the speaker and the others, and a sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blindsum.errors import Portable

Addable: TypeAlias = NDArray[np.float64] | NDArray[np.int64]
"""What learners add up."""

PATIENCE = 3
"""How many times longer the others wait for the speaker than the speaker waits for one of them."""


class PeerLost(Portable):
    """Another learner is gone, or was silent for too long.

    Attributes
    ----------
    learner : int
        Its rank.
    """

    def __init__(self, learner: int, reason: str) -> None:
        super().__init__(reason)
        self.learner = learner


class Peers(Protocol):
    """The learners of a domain, as one of them sees them.

    Messages go between the speaker and another learner, in both directions, and arrive in order. Whatever
    happens to one learner must not keep the speaker from talking to the others.

    Attributes
    ----------
    rank : int
        This learner's number, from 0.
    size : int
        How many learners there are.
    speaker : int
        The rank of the speaker.
    timeout : float
        Seconds for which a learner may keep the speaker waiting. Others wait for the speaker three times as
        long: it may itself be waiting for somebody who is lost, and must still be heard.
    """

    rank: int
    size: int
    speaker: int
    timeout: float

    def send(self, message: bytes, to: Sequence[int]) -> None:
        """Send a message to other learners, and do not wait until they take it.

        Raises
        ------
        PeerLost
            One of them is known to be gone; all others get the message.
        """

    def receive(self, origin: int) -> bytes:
        """Wait for the next message of a learner.

        Raises
        ------
        PeerLost
            It is gone, or the time is over.
        """

    def reduce(self, vector: Addable) -> None:
        """Add the vectors of all learners, all of one shape and type; the speaker's becomes the sum.

        They are contiguous. Those of the others hold anything afterwards.

        Raises
        ------
        PeerLost
            There is no sum. The learner that is named need not be the one to blame.
        """

    def flush(self, to: int) -> None:
        """Wait until a learner has taken every message.

        Raises
        ------
        PeerLost
            It is gone, or the time is over.
        """

    def close(self) -> None:
        """End every connection; never waits."""
