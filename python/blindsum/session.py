"""Take part in a job over the network.

The protocol's stages, pings and reconnections go on in native threads while user code trains. All calls
block, without the GIL; Ctrl-C ends every wait.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self, TypeAlias

from blindsum import _native, checks
from blindsum.addresses import addresses
from blindsum.aggregation import Loop
from blindsum.clipping import ClippingLog
from blindsum.errors import (
    BlindsumError,
    ConfigError,
    ForkedError,
    RoundUnknown,
)
from blindsum.first_model import ZerosLog, initial_of
from blindsum.layouts import ModelLayout, check, lines_of
from blindsum.leaving import OF_ONE_ROUND, LeftRound, settled, why_failed
from blindsum.pki import AnyPath, Identity, pem_files
from blindsum.policy import Policy
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

MASK_MEMORY = 256 << 20
"""Bytes of masks that may be computed ahead, by default: enough for 2**26 words of up to 32 bits."""

MOST_MASK_MEMORY = 2**63 - 1


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
        self.spec = JobSpec.from_dict(json.loads(native.spec))
        self._clipping = ClippingLog(self.spec)
        self._zeros = ZerosLog(self.spec)
        self._whole_models = WholeModelLog(self.spec)
        self._weights = DefaultWeight(self.spec)
        warn_if_rarely_opened(self.spec)
        self._found: Round | BlindsumError | None = None
        self._loop = Loop(self.spec, self._next_round, self._warn)

    def _shown(self) -> dict[str, object]:
        spec = self.spec
        size = f"{spec.protocol}, up to {counted(spec.parties, 'party')}, {counted(spec.dim, 'coordinate')}"
        return {"party": self.name, "job": spec.job, "protocol": size, "hash": spec.hash}

    def weigh(self, weight: int | None) -> None:
        """Choose the weight of updates that come without one, as :func:`join` does; ``None`` chooses none."""
        self._weights = DefaultWeight(self.spec, weight)

    @property
    def parameters(self) -> Parameters:
        """The hyperparameters of the job, the same at every party: ``train(net, **job.parameters)``."""
        return self.spec.parameters

    def next_round(self, timeout: float | None = None) -> Round | None:
        """Wait for the next round; ``None`` if there will be no more.

        A party takes part in a round only when it waits for one.

        Parameters
        ----------
        timeout
            Seconds to wait at most.

        Raises
        ------
        blindsum.WaitTimeoutError
            ``timeout`` is over; the call may be repeated.
        blindsum.NetworkError
            The coordinator is lost for too long, or refuses this party.
        blindsum.PolicyError, blindsum.RoundAborted, blindsum.Fault
            This party takes no part in a round; or (:class:`blindsum.ResultMissed`) its update counts in a
            round from before it was started again, whose result it did not get. The call may be repeated, for
            the next round.
        blindsum.RoundUnknown
            The update of a round from before this party was started again is out, and the coordinator does
            not know that round. The call may be repeated.
        blindsum.SessionClosedError
            The session was closed, or an earlier call raised why it ended, which this error repeats.
        """
        found = self._next_round(timeout)
        if isinstance(found, BlindsumError):
            raise found
        return found

    def _next_round(
        self, timeout: float | None = None, on_held: OnHeld | None = None
    ) -> Round | BlindsumError | None:
        """The next round, or why this party takes no part in it."""
        left, self._left = self._left, None
        if left is not None:
            left.sit_out()
        if (found := self._found) is not None:
            self._found = None
            return found
        native = self._native.next_round(timeout, on_held is not None)
        while isinstance(native, str):
            if on_held is not None:
                on_held(native)
            native = self._native.next_round(timeout, on_held is not None)
        if native is None or isinstance(native, BlindsumError):
            return native
        current = Round(native, self.spec, self._clipping, self._whole_models, self._weights)
        self._zeros.look_at(current.number, native.model_version, lambda: current.model)
        return current

    def model(self, timeout: float | None = None) -> Array | None:
        """Wait for the next round and give the model that it starts from; ``None`` if there will be no more.

        It begins a step of a loop of your own, and :meth:`aggregate` ends it. Until then it gives the same
        model again.

        Parameters
        ----------
        timeout
            Seconds to wait at most.

        Returns
        -------
        numpy.ndarray or None
            Read-only, shape ``(dim,)``; empty where the job keeps no model (``model_update="none"``).

        Raises
        ------
        blindsum.WaitTimeoutError
            ``timeout`` is over; the call may be repeated.
        blindsum.NetworkError, blindsum.RoundUnknown, blindsum.SessionClosedError
            As for :meth:`next_round`. Rounds that this party takes no part in are logged and passed over.

        Examples
        --------
        ::

            while (model := job.model()) is not None:
                update = train(model, data)
                job.aggregate(update, weight=len(data))  # None where the round was lost
        """
        current = self._loop.begin(timeout)
        return None if current is None else current.model

    def aggregate(
        self,
        update: object | None,
        weight: int | None = None,
        metrics: Mapping[str, float | None] | None = None,
        *,
        timeout: float | None = None,
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
        return self._loop.aggregate(update, weight, metrics, timeout)

    @property
    def lost(self) -> BlindsumError | None:
        """Why the latest :meth:`aggregate` gave no result; ``None`` where it gave one, or the job is over."""
        return self._loop.lost

    @property
    def is_over(self) -> bool:
        """Whether :meth:`model` or :meth:`aggregate` was told that there are no more rounds."""
        return self._loop.is_over

    def rounds(self, on_lost: OnLost | None = None, on_held: OnHeld | None = None) -> Iterator[Round]:
        """Give round after round until the job is over, whatever becomes of a single one.

        A round may be lost: too few parties were left, this party was too slow, the coordinator was
        started again, somebody broke the protocol, or this party's policy refused the round. The loop goes
        on with the next one, which begins with the same model; :meth:`Round.result` is ``None`` then and
        :attr:`Round.lost` says why. What concerns more than one round is raised: a coordinator that is lost
        for good or cannot be trusted, a state folder that cannot be written.

        A round that is left without :meth:`Round.submit`, by ``continue`` or ``break``, goes on without
        this party, as after :meth:`Round.skip`. Of an exception the coordinator is told the type.

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
            if isinstance(found, BlindsumError):
                if not isinstance(found, OF_ONE_ROUND):
                    raise found
                lost(found)
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
    ) -> Round | BlindsumError | None:
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
        used is logged, and what was read before it stays in use. The revocation list counts from the next
        round on. This party's own certificate is shown over a new connection, as soon as the party is in no
        round; its name and key must stay the same.
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
            self._leave(why_failed(kind, in_round=self._left is not None or self._loop.is_in_round))

    def training_failed(self, error: BaseException) -> None:
        """Leave the job because the training function raised.

        The coordinator and its operators are told the type of the error, and nothing of its text, which may
        show data.

        Parameters
        ----------
        error
            What the training function raised.
        """
        self._leave(why_failed(type(error), in_round=True))

    def _leave(self, why: str) -> None:
        # In a forked child the session is that of the parent, which goes on.
        with suppress(ForkedError):
            self._close(why)

    def _close(self, why: str) -> None:
        self._final = self.final_model
        self._native.close(why)
        left, self._left = self._left, None
        if left is not None:
            left.forget()


def join(
    url: str | Sequence[str],
    *,
    job: str,
    identity: AnyPath | Identity,
    ca: AnyPath,
    revoked: AnyPath | None = None,
    policy: Policy | None = None,
    server_name: str | None = None,
    state_dir: AnyPath | None = None,
    give_up_after: float = 120.0,
    mask_memory: int = MASK_MEMORY,
    location: str = "",
    layout: ModelLayout | Sequence[str] | None = None,
    initial: object = None,
    weight: int | None = None,
) -> Session:
    """Join a job at a coordinator, over mutual TLS.

    Parameters
    ----------
    url
        The coordinator, ``https://HOST:PORT``. For a job whose three servers compute together (``mpc3``) the
        list of all three, the coordinator first: this party decides whose servers it trusts.
    job
        Name of the job.
    identity
        The party's certificate and key: the path of ``NAME.pem`` and ``NAME.key`` without ending, or
        a folder with one such pair; for an encrypted key a :class:`blindsum.pki.Identity`.
    ca
        The certificate of the job's CA, or the folder with ``ca.pem``.
    revoked
        The CA's revocation list; once one is used, it must be kept current. A changed one is read again
        while the party runs, as are its certificate and the CA's.
    policy
        The rules by which the party accepts the job; ``None`` means the defaults of :class:`Policy`.
    server_name
        The name in the coordinator's certificate, if it is not the host of ``url``.
    state_dir
        A folder in which the party remembers the round under way, so that it can go on after a crash if its
        update was sent. A party that is killed before that takes part in the next round. The folder also
        holds the survivors that the party answered for and, where :attr:`JobSpec.hides_sum`, the key of the
        job and the model. Without a folder a party that restarts gets key and model from the others.
    give_up_after
        Seconds for which the party tries to reach the coordinator, at first and after every lost connection.
    mask_memory
        Bytes of masks that may be computed ahead of time, while the party trains or waits for others for more
        than 0.2 s; with 0 masks are computed when they are needed. ``flashe`` has masks to compute ahead, and
        the ring and the all-reduce of ``paillier`` the random part of encryption.
    location
        Where the party is, in words of your own, at most 64 characters; ``""`` says nothing. The coordinator
        hears it. Rings with ``order = "location"`` stand in this order.
    layout
        This party's model: a ``ModelVector`` (:mod:`blindsum.torch`, ``.jax``, ``.sklearn``), or the lines of
        its layout. A job of another model is refused; where the job binds no layout, one of another ``dim``.
    initial
        A model that this party can give a job with ``initial = "first-party"``: ``dim`` floats, something
        with ``.values()`` that gives them, or a function that gives either and is called once, before the
        party connects. The coordinator asks one party for it. The first model is not secret: the coordinator
        and all parties learn it, and who gave it.
    weight
        The weight of updates that come without one, e.g. this party's number of examples.

    Raises
    ------
    blindsum.LayoutError
        The job is of another model than ``layout``; it names the first difference.
    blindsum.InputError
        ``initial`` is no vector of the job's ``dim`` finite floats, or the job takes no model from a party;
        or ``weight`` is no weight of the job.
    blindsum.ConfigError
        A name that no job can have, or another argument that cannot be right; nothing was tried then.
    blindsum.IdentityError
        Certificates or keys that cannot be used.
    blindsum.NetworkError
        The coordinator cannot be reached, is not trusted, or refuses this party.
    blindsum.PolicyError
        The job breaks the policy.

    Examples
    --------
    ::

        with bs.join("https://agg.example:9443", job="tumour", identity="hospital-a", ca="ca.pem") as job:
            for rnd in job.rounds():
                update = train(rnd.model, data)
                rnd.submit(update, weight=len(data))
                mean = rnd.result()  # None where the round was lost; the loop goes on
    """
    if policy is not None and not isinstance(policy, Policy):
        raise ConfigError("policy", f"must be a blindsum.Policy or None, not a {type(policy).__name__}")
    lines = None if layout is None else lines_of(layout)
    memory = checks.setting("mask_memory", mask_memory, 0, MOST_MASK_MEMORY)
    first, servers = addresses(url)
    checks.line("job", job)
    if server_name is not None:
        checks.line("server_name", server_name)
    native = _native.join(
        first,
        job,
        pem_files(identity, ca, revoked),
        server_name,
        (policy or Policy()).to_json(),
        None if state_dir is None else checks.folder("state_dir", state_dir),
        checks.seconds("give_up_after", give_up_after),
        memory,
        servers,
        checks.line("location", location),
        initial_of(initial),
    )
    session = Session(native)
    with session.left_on_error():
        session.weigh(weight)
        if lines is not None:
            check(lines, session.spec.layout, session.spec.dim)
    return session
