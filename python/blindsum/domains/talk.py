"""Steps that all learners of a domain take together: the speaker hears everybody, acts, and tells everybody.

A learner that is lost, leaves, or takes another step ends the domain: everybody gets the same
:class:`blindsum.DomainError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from blindsum.domains.messages import Arrays, Header, from_error, pack, to_error, unpack
from blindsum.domains.peers import PeerLost, Peers
from blindsum.errors import BlindsumError, DomainError, SessionClosedError, WaitTimeoutError

T = TypeVar("T")

Answer = tuple[Header, Arrays]
Act = Callable[[Sequence[Header]], Answer]

LOOK_EVERY = 1.0
"""Seconds between looks whether every learner is still there, while the speaker waits for others."""

WAITING = {"still": "waiting"}


@dataclass(frozen=True)
class Step:
    """What the learners do together.

    Attributes
    ----------
    name : str
        The method that every learner has called.
    round : int
        The round that it is about, or 0.
    """

    name: str
    round: int = 0

    def __str__(self) -> str:
        """As in an error."""
        return f"{self.name} of round {self.round}" if self.round else self.name


class Talk:
    """The learners of a domain, taking one step after the other."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._others = [rank for rank in range(peers.size) if rank != peers.rank]
        self._look_every = min(LOOK_EVERY, peers.timeout / 4)
        self._failed: DomainError | None = None
        self._gone: set[int] = set()
        self.rank, self.speaker = peers.rank, peers.speaker
        self.is_over = False

    @property
    def speaks(self) -> bool:
        """Whether this learner is the speaker."""
        return self.rank == self.speaker

    def take(self, step: Step, said: Header, act: Act) -> Answer:
        """Take a step with all learners; ``act`` runs at the speaker, with what each of them said.

        Raises
        ------
        blindsum.BlindsumError
            What ``act`` raised at the speaker, or why the domain has failed; the same at every learner.
        """
        if self._failed is not None:
            raise self._failed
        if self.is_over:
            raise SessionClosedError("this learner has left its domain")
        said = {"step": step.name, "round": step.round, "said": said}
        try:
            return self._lead(step, said, act) if self.speaks else self._follow(step, said)
        except DomainError as error:
            self._failed = error
            self.quit()
            raise

    def look(self) -> None:
        """At the speaker, while it waits for others: see that every learner is there.

        Raises
        ------
        blindsum.DomainError
            One is not.
        """
        # One after the other: whoever is lost, no answer of another one is under way.
        for learner in self._others:
            self._tell(pack(WAITING), [learner])
            self._hear(learner)

    def reduce(self, vector: Any) -> bool:
        """Add up vectors; see :meth:`Peers.reduce`. Whether there is a sum, as far as this learner knows."""
        try:
            self._peers.reduce(vector)
        except PeerLost:
            return False
        return True

    def patiently(self, wait: Callable[[float], T], limit: float | None = None) -> T:
        """At the speaker: wait for the coordinator, and look after the learners now and then.

        Raises
        ------
        blindsum.WaitTimeoutError
            ``limit`` is over, in seconds.
        blindsum.DomainError
            A learner is lost.
        """
        end = None if limit is None else time.monotonic() + limit
        while True:
            left = self._look_every if end is None else min(self._look_every, end - time.monotonic())
            try:
                return wait(max(left, 0.0))
            except WaitTimeoutError:
                if end is not None and time.monotonic() >= end:
                    raise
                self.look()

    def leave(self) -> None:
        """Leave the domain together with the other learners."""
        if not self.is_over:
            self.take(Step("close"), {}, lambda _: ({}, {}))
            self._flush()
            self.quit()

    def quit(self) -> None:
        """Leave the domain at once; the other learners miss this one."""
        if not self.is_over:
            self.is_over = True
            self._peers.close()

    def _lead(self, step: Step, said: Header, act: Act) -> Answer:
        all_said = [said["said"]] * self._peers.size
        waited_for = list(self._others)
        start = time.monotonic()
        try:
            for learner in self._others:
                waited_for.remove(learner)
                heard = self._hear(learner)
                if time.monotonic() - start > self._peers.timeout:
                    raise self._lost(learner)
                found = Step(str(heard.get("step")), int(heard.get("round", 0)))
                if found != step:
                    raise DomainError(learner, f"it is at {found}, where the speaker is at {step}")
                all_said[learner] = heard["said"]
            answer = act(all_said)
        except BlindsumError as error:
            # They must be listening before they can be told.
            for learner in waited_for:
                with suppress(DomainError):
                    self._hear(learner)
            self._explain(error)
            raise
        except Exception as error:
            failed = DomainError(self.rank, f"{type(error).__name__}: {error}")
            self._explain(failed)
            raise failed from error
        self._tell(pack({"answer": answer[0]}, answer[1]), self._others, strict=False)
        return answer

    def _follow(self, step: Step, said: Header) -> Answer:
        message = pack(said)
        while True:
            try:
                self._peers.send(message, [self.speaker])
                header, arrays = unpack(self._peers.receive(self.speaker))
            except PeerLost as error:
                raise self._lost(self.speaker) from error
            except (ValueError, KeyError, TypeError) as error:
                raise DomainError(self.speaker, f"it sent bytes that are no message: {error}") from error
            if "error" in header:
                raise to_error(header["error"], self.speaker)
            if header != WAITING:
                return header["answer"], arrays
            message = pack(WAITING)

    def _hear(self, learner: int) -> Header:
        try:
            return unpack(self._peers.receive(learner))[0]
        except PeerLost as error:
            raise self._lost(learner) from error
        except (ValueError, KeyError, TypeError) as error:
            raise DomainError(learner, f"it sent bytes that are no message: {error}") from error

    def _lost(self, learner: int) -> DomainError:
        self._gone.add(learner)
        # The same words at every learner, so nothing of what its own connection says.
        longest = self._peers.timeout
        whose = "the speaker's" if learner == self.speaker else "its"
        return DomainError(
            learner,
            f"its connection is lost, or it did not answer within {whose} limit (timeout = {longest:g} s)",
        )

    def _tell(self, message: bytes, to: Sequence[int], strict: bool = True) -> None:
        try:
            self._peers.send(message, to)
        except PeerLost as error:
            # Whoever is lost is missed at the next step at the latest.
            if strict:
                raise self._lost(error.learner) from error

    def _explain(self, error: BlindsumError) -> None:
        """At the speaker: tell the others why there is no answer, and wait until they know."""
        # Nothing goes to a learner that is lost: where its connection fails, others of the group may.
        heard_by = [learner for learner in self._others if learner not in self._gone]
        with suppress(PeerLost):
            self._peers.send(pack({"error": from_error(error)}), heard_by)
        self._flush()

    def _flush(self) -> None:
        """At the speaker: wait until the others have heard what was said last, where they can."""
        for learner in self._others if self.speaks else []:
            if learner not in self._gone:
                with suppress(PeerLost):
                    self._peers.flush(learner)
