"""Take part in a job over the network.

The protocol's stages, pings and reconnections go on in native threads while user code trains. All calls
block, without the GIL; Ctrl-C ends every wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self, TypeAlias

from blindsum import _native
from blindsum.aggregation import Loop
from blindsum.clipping import ClippingLog
from blindsum.errors import (
    BlindsumError,
    ForkedError,
    RoundUnknown,
)
from blindsum.first_model import ZerosLog
from blindsum.hosted import Step, as_step
from blindsum.leaving import OF_ONE_ROUND, LeftRound, settled, why_failed
from blindsum.machine_events import Held, RoundRefused
from blindsum.native_events import NoMoreRounds
from blindsum.rounds import Array, Round, RoundResult, logger
from blindsum.session_state import JobState
from blindsum.sparse import warn_if_rarely_opened
from blindsum.spec import JobSpec
from blindsum.tables import Parameters
from blindsum.texts import counted
from blindsum.weights import DefaultWeight
from blindsum.whole_models import WholeModelLog

OnLost: TypeAlias = Callable[[BlindsumError], object]
"""Called with why a round was lost: :class:`RoundAborted`, :class:`Fault`, or, where this party refused it,
:class:`PolicyError`."""

OnHeld: TypeAlias = Callable[[str], object]
"""Called with :attr:`Session.held` where that changes: who paused the job and why, or an empty text."""


class Session(JobState):
    """A party's membership in a job, from :func:`join`. Use it in a ``with`` statement.

    Attributes
    ----------
    name : str
        The party's name, as in its certificate.
    spec : JobSpec
        The job, as the coordinator announced it and the policy allowed it.
    """

    _left: LeftRound | None = None

    def __init__(self, native: _native.Party) -> None:
        self._native = native
        self.name = native.name
        self.spec = JobSpec._of(native.job)
        self._clipping = ClippingLog(self.spec)
        self._zeros = ZerosLog(self.spec)
        self._whole_models = WholeModelLog(self.spec)
        self._weights = DefaultWeight(self.spec)
        warn_if_rarely_opened(self.spec)
        self._found: Round | RoundRefused | None = None
        self._loop = Loop(self.spec, self._next_round, self._warn)

    def _shown(self) -> dict[str, object]:
        spec = self.spec
        size = f"{spec.protocol}, up to {counted(spec.parties, 'party')}, {counted(spec.dim, 'coordinate')}"
        return {"party": self.name, "job": spec.job, "protocol": size, "hash": spec.hash}

    def weigh(self, weight: float | None) -> None:
        """Choose the weight of updates that come without one, as :func:`join` does; ``None`` chooses none."""
        self._weights = DefaultWeight(self.spec, weight)

    @property
    def parameters(self) -> Parameters:
        """The hyperparameters of the job, the same at every party: ``train(net, **job.parameters)``."""
        return self.spec.parameters

    def next_round(
        self, timeout: float | None = None, *, tag: int | None = None, about: object = None
    ) -> Round | None:
        """Wait for the next round; ``None`` if there will be no more.

        A party takes part in a round only when it waits for one.

        Parameters
        ----------
        timeout
            Seconds to wait at most.
        tag
            Wait for the round that its host began with this tag (:meth:`Coordinator.round`), and pass over
            rounds of earlier ones; ``None`` takes any round.
        about
            The data that the host gave this party for the round on its own channel, as in
            :meth:`Coordinator.round`: the party takes part in no round that is about something else.

        Raises
        ------
        blindsum.WaitTimeoutError
            ``timeout`` is over; the call may be repeated.
        blindsum.NetworkError
            The coordinator is lost for too long, or refuses this party.
        blindsum.PolicyError, blindsum.RoundAborted, blindsum.Fault
            This party takes no part in a round, as in one of a later ``tag`` (:class:`blindsum.OtherTag`) or
            about something else (:class:`blindsum.OtherContent`); or (:class:`blindsum.ResultMissed`) its
            update counts in a round from before it was started again, whose result it did not get. The call
            may be repeated, for the next round.
        blindsum.RoundUnknown
            The update of a round from before this party was started again is out, and the coordinator does
            not know that round. The call may be repeated.
        blindsum.SessionClosedError
            The session was closed, or an earlier call raised why it ended, which this error repeats.
        """
        found = self._next_round(timeout, as_step(tag, about))
        if isinstance(found, RoundRefused):
            raise found.error
        return found

    def _next_round(
        self, timeout: float | None = None, step: Step | None = None, on_held: OnHeld | None = None
    ) -> Round | RoundRefused | None:
        """The next round, or why this party takes no part in it; ``None`` at the end."""
        left, self._left = self._left, None
        if left is not None:
            left.sit_out()
        if (found := self._found) is not None:
            self._found = None
            if not isinstance(found, Round) or step is None or found.tag == step[0]:
                return found
            # It was found for whoever took any round.
            found.skip()
        native = self._native.next_round(timeout, on_held is not None, step)
        while isinstance(native, Held):
            if on_held is not None:
                on_held(native.reason)
            native = self._native.next_round(timeout, on_held is not None, step)
        match native:
            case NoMoreRounds():
                return None
            case RoundRefused():
                return native
        current = Round(native, self.spec, self._clipping, self._whole_models, self._weights)
        self._zeros.look_at(current.number, native.model_version, lambda: current.model)
        return current

    def model(
        self, timeout: float | None = None, *, tag: int | None = None, about: object = None
    ) -> Array | None:
        """Wait for the next round and give the model that it starts from; ``None`` if there will be no more.

        It begins a step of a loop of your own, and :meth:`aggregate` ends it. Until then it gives the same
        model again.

        Parameters
        ----------
        timeout
            Seconds to wait at most.
        tag, about
            As for :meth:`aggregate`.

        Returns
        -------
        numpy.ndarray or None
            Read-only, shape ``(dim,)``; empty if the job has no model (``model_update="none"``).

        Raises
        ------
        blindsum.WaitTimeoutError
            ``timeout`` is over; the call may be repeated.
        blindsum.NetworkError, blindsum.RoundUnknown, blindsum.SessionClosedError
            As for :meth:`next_round`. Rounds that this party takes no part in are logged and skipped.

        Examples
        --------
        ::

            while (model := job.model()) is not None:
                update = train(model, data)
                job.aggregate(update, weight=len(data))  # None where the round was lost
        """
        current = self._loop.begin(timeout, as_step(tag, about))
        return None if current is None else current.model

    def aggregate(
        self,
        update: object | None,
        weight: float | None = None,
        metrics: Mapping[str, float | None] | None = None,
        *,
        timeout: float | None = None,
        tag: int | None = None,
        about: object = None,
    ) -> RoundResult | None:
        """Take part in the next round with an update, and wait for its result: one call for one step.

        The round is that of :meth:`model`, or else the next one. Where the job adds means to a model, the
        update must be a change of the model of that round, so call :meth:`model` first, or go on from the
        ``model`` of the result before. Other threads may run meanwhile, as in ``await
        asyncio.to_thread(job.aggregate, update)``.

        Parameters
        ----------
        update, weight, metrics
            As for :meth:`Round.submit`. Without an update, or with a weight of 0, this party sits the round
            out.
        timeout
            Seconds to wait at most, for the round and again for its result.
        tag
            The step that the update is of, where a host begins the rounds (:meth:`Coordinator.round`): the
            update goes into the round of this tag or into none. If that is over, :attr:`lost` has the
            reason.
        about
            What the update was made from, where the host gives it by its own way, such as the model; as for
            :meth:`next_round`.

        Returns
        -------
        RoundResult or None
            ``None`` where the round was lost or sat out, which :attr:`lost` explains, or where there are no
            more rounds, which :attr:`is_over` says. After a lost round the model is that of before.

        Raises
        ------
        blindsum.InputError
            An update, a weight or a metric that the job does not take; the call may be repeated.
        blindsum.SubmitError
            The job adds means to a model, and the round has one that this session has not given out: call
            :meth:`model`, and compute the update from that. Nothing was sent, and the round waits.
        blindsum.WaitTimeoutError
            ``timeout`` is over. The call may be repeated; what was handed in is not handed in twice.
        blindsum.RoundUnknown
            The update is out, and whether it counts is not known here.
        blindsum.NetworkError, blindsum.SessionClosedError
            As for :meth:`next_round`.
        """
        return self._loop.aggregate(update, weight, metrics, timeout, as_step(tag, about))

    @property
    def lost(self) -> BlindsumError | None:
        """Why the latest :meth:`aggregate` gave no result; ``None`` where it gave one, or the job is over."""
        return self._loop.lost

    @property
    def is_over(self) -> bool:
        """Whether :meth:`model` or :meth:`aggregate` has found that there are no more rounds."""
        return self._loop.is_over

    def rounds(self, on_lost: OnLost | None = None, on_held: OnHeld | None = None) -> Iterator[Round]:
        """Give round after round until the job is over, whatever becomes of a single one.

        A round may be lost: too few parties were left, this party was too slow, the coordinator was
        started again, a participant broke the protocol, or this party's policy refused the round. The
        loop goes on with the next one, which begins with the same model; :meth:`Round.result` is ``None``
        then and :attr:`Round.lost` says why. Errors that concern more than one round are raised: a
        coordinator that is permanently lost or cannot be trusted, a state folder that cannot be written.

        A round that is left without :meth:`Round.submit`, by ``continue`` or ``break``, goes on without
        this party, as after :meth:`Round.skip`. The coordinator receives the type of an exception.

        Parameters
        ----------
        on_lost
            Called once for every round that was lost, with its error, after the body of the loop. For a round
            from before a restart that counts this party's update it is called before the body. An exception
            in it ends the loop. ``None`` writes a warning to the logger ``blindsum``, which Python shows on
            standard error unless told otherwise.
        on_held
            Called while this waits for a round: where operators let none begin, and where they let the job go
            on. An exception in it ends the loop.

        Raises
        ------
        blindsum.RoundUnknown
            The update of a round is out whose result the body did not ask for, and whether it counts is not
            known here. :meth:`Round.result` raises it where the body asks.
        blindsum.NetworkError
            The coordinator is lost for too long, or refuses this party.
        """
        lost = self._warn if on_lost is None else on_lost
        before: Round | None = None
        while (found := self._after(before, lost, on_held)) is not None:
            try:
                if before is not None and (error := settled(before)) is not None:
                    lost(error)
            except BaseException:
                # The next round has begun: it is that of the next call.
                self._found = found
                raise
            before = None
            if isinstance(found, RoundRefused):
                if not isinstance(found.error, OF_ONE_ROUND):
                    raise found.error
                lost(found.error)
                continue
            try:
                yield found
            except GeneratorExit:
                # By `break`, or by an exception that ends the session in a moment: it knows which.
                self._left = LeftRound(found)
                raise
            # A forked child leaves the loop of its parent without a word.
            with suppress(ForkedError):
                found.skip()
            if found.lost is not None:
                lost(found.lost)
            else:
                before = found
        if before is not None and (error := settled(before)) is not None:
            lost(error)

    def _after(
        self, before: Round | None, lost: OnLost, on_held: OnHeld | None
    ) -> Round | RoundRefused | None:
        """Wait for the next round; an end of the session does not hide what became of the one before."""
        try:
            return self._next_round(on_held=on_held)
        except BlindsumError as ended:
            try:
                error = None if before is None else settled(before)
            except RoundUnknown as unknown:
                raise unknown from ended
            if error is not None:
                lost(error)
            raise

    def _warn(self, error: BlindsumError) -> None:
        logger.warning("job %r: lost a round: %s; waiting for the next one", self.spec.job, error)

    @contextmanager
    def left_on_error(self) -> Iterator[None]:
        """Leave the job if the body raises."""
        try:
            yield
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    def reload(self) -> None:
        """Read certificate, key, CA and revocation list again now.

        This also happens by itself, within seconds of a change of one of the files. A file that cannot be
        used is logged, and the earlier content stays in use. The revocation list counts from the next
        round on. This party's own certificate is shown over a new connection, as soon as the party is in
        no round; its name and key must stay the same.
        """
        self._native.reload()

    def close(self) -> None:
        """Leave the job and tell the coordinator, for which this waits two seconds at most.

        A round under way goes on without this party, unless its update is out: :meth:`Round.result` raises
        :class:`blindsum.RoundUnknown` then.
        """
        self._close("closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or issubclass(kind, GeneratorExit):
            self._leave("closed")
        elif issubclass(kind, KeyboardInterrupt | SystemExit):
            self._leave("stopped")
        else:
            self._leave("failed", why_failed(kind, in_round=self._left is not None or self._loop.is_in_round))

    def training_failed(self, error: BaseException) -> None:
        """Leave the job because the training function raised.

        The coordinator and its operators receive the type of the error, and not its text, which may show
        data.

        Parameters
        ----------
        error
            The exception of the training function.
        """
        self._leave("failed", why_failed(type(error), in_round=True))

    def _leave(self, kind: _native.Departure, reason: str = "") -> None:
        # In a forked child the session is that of the parent, which goes on.
        with suppress(ForkedError):
            self._close(kind, reason)

    def _close(self, kind: _native.Departure, reason: str = "") -> None:
        self._final = self.final_model
        self._native.close(kind, reason)
        left, self._left = self._left, None
        if left is not None:
            left.forget()
