"""A job of which several learners of one organisation are one party."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from blindsum import checks
from blindsum.domains.gloo import Gloo
from blindsum.domains.messages import Header, from_error, to_error
from blindsum.domains.peers import Peers
from blindsum.domains.round import DomainRound
from blindsum.domains.sums import LARGEST_WEIGHT, Rules
from blindsum.domains.talk import Answer, Step, Talk
from blindsum.errors import BlindsumError, ConfigError, DomainError, WaitTimeoutError
from blindsum.joining import join
from blindsum.leaving import OF_ONE_ROUND, settled
from blindsum.machine_events import RoundRefused
from blindsum.pki import AnyPath, Identity
from blindsum.policy import Policy
from blindsum.rounds import Array, Round, logger
from blindsum.session import OnLost, Session
from blindsum.spec import JobSpec
from blindsum.weights import DefaultWeight


class Domain:
    """A domain's membership in a job, as one of its learners sees it; from :func:`join_domain`.

    Every learner calls the same methods in the same order. It is used like :class:`blindsum.Session`, in a
    ``with`` statement.

    Attributes
    ----------
    name : str
        The name of the party that the domain is.
    spec : JobSpec
        The job.
    rank : int
        This learner's number in the domain, from 0.
    learners : int
        How many learners the domain has.
    speaks : bool
        Whether this learner is the speaker.
    """

    def __init__(
        self,
        peers: Peers,
        enter: Callable[[], Session],
        *,
        combine: str = "mean",
        counts_as: int | None = None,
    ) -> None:
        self._talk = Talk(peers)
        self._session: Session | None = None
        self._model: NDArray[Any] | None = None
        self.rank, self.learners, self.speaks = peers.rank, peers.size, self._talk.speaks
        agreed = {"combine": combine, "counts_as": counts_as}

        def act(said: Sequence[Header]) -> Answer:
            for learner, one in enumerate(said):
                if one != agreed:
                    raise DomainError(
                        learner, f"it joined with {one}, and the speaker with {said[peers.rank]}"
                    )
            self._session = self._enter(enter)
            spec = self._session.spec
            Rules(spec, combine, counts_as).check()
            return {"name": self._session.name, "spec": json.loads(spec.to_json())}, {}

        try:
            found, _ = self._talk.take(Step("join_domain"), agreed, act)
        except BaseException:
            self._quit()
            raise
        self.name: str = found["name"]
        self.spec = JobSpec.from_dict(found["spec"])
        self._rules = Rules(self.spec, combine, counts_as)
        self._weights = DefaultWeight(self.spec)

    def rounds(self, on_lost: OnLost | None = None) -> Iterator[DomainRound]:
        """Give round after round until the job is over, as :meth:`blindsum.Session.rounds` does.

        Parameters
        ----------
        on_lost
            Called at every learner once for every round that was lost, with its error; ``None`` writes a
            warning to the logger ``blindsum``, at the speaker only.

        Raises
        ------
        blindsum.DomainError
            A learner is lost; there are no more rounds for this domain.
        blindsum.RoundUnknown
            As for :meth:`blindsum.Session.rounds`.
        blindsum.NetworkError
            The coordinator is lost for too long, or refuses this party.
        """
        lost = self._warn if on_lost is None else on_lost
        before: DomainRound | None = None
        while True:
            found, refused, missed = self._next(before)
            # A loss that was told in the round itself is not told again.
            if missed is not None:
                lost(missed)
            before = None
            if refused is not None:
                if not isinstance(refused, OF_ONE_ROUND):
                    raise refused
                lost(refused)
            elif found is None:
                return
            else:
                yield found
                if found.lost is not None:
                    lost(found.lost)
                before = found

    def _next(
        self, before: DomainRound | None
    ) -> tuple[DomainRound | None, BlindsumError | None, BlindsumError | None]:
        """The next round, why this domain takes no part in it, and how the one before it was lost."""
        opened: list[Round] = []

        def act(_: Sequence[Header]) -> Answer:
            session = self._own()
            earlier = None if before is None else before.current
            if earlier is not None:
                earlier.skip()
            try:
                found = self._talk.patiently(session._next_round)
            except BlindsumError:
                # What became of the round before is told first, if it is not known.
                if earlier is not None:
                    settled(earlier)
                raise
            missed = None if earlier is None else earlier.lost or settled(earlier)
            told = {"missed": None if missed is None else from_error(missed)}
            if isinstance(found, RoundRefused):
                return told | {"refused": from_error(found.error)}, {}
            if found is None:
                return told | {"over": True}, {}
            opened.append(found)
            model = found.model
            known = self._model is not None and np.array_equal(model, self._model)
            self._model = model
            round_ = {"number": found.number, "parties": found.parties, "needs_update": found.needs_update}
            return told | {"round": round_}, {} if known else {"model": model}

        told, arrays = self._talk.take(Step("rounds"), {}, act)
        missed = None if told["missed"] is None else to_error(told["missed"], self.rank)
        if before is not None and before.lost is not None:
            missed = None
        if "refused" in told:
            return None, to_error(told["refused"], self.rank), missed
        if "over" in told:
            return None, None, missed
        self._model = arrays.get("model", self._model)
        assert self._model is not None
        return (
            DomainRound(
                self._talk,
                self._rules,
                self._weights,
                told["round"],
                self._model,
                opened[0] if opened else None,
            ),
            None,
            missed,
        )

    @property
    def final_model(self) -> Array | None:
        """At the speaker the last model, as :attr:`blindsum.Session.final_model`; ``None`` elsewhere."""
        return None if self._session is None else self._session.final_model

    def close(self) -> None:
        """Leave the job, together with the other learners."""
        try:
            self._talk.leave()
        finally:
            self._quit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an error the others may never call what this learner would wait for.
        if error is None:
            self.close()
        else:
            self._talk.quit()
            if self._session is not None:
                self._session.__exit__(kind, error, trace)

    def _quit(self) -> None:
        self._talk.quit()
        if self._session is not None:
            self._session.close()

    def _own(self) -> Session:
        assert self._session is not None, "only the speaker acts"
        return self._session

    def _enter(self, enter: Callable[[], Session]) -> Session:
        """Join, which may take long, and see now and then that every learner is there."""
        done: queue.SimpleQueue[Session | BaseException] = queue.SimpleQueue()

        def run() -> None:
            try:
                session = enter()
            except BaseException as error:  # noqa: BLE001 - it is raised below
                done.put(error)
                return
            done.put(session)
            if self._talk.is_over:
                session.close()

        def wait(seconds: float) -> Session | BaseException:
            try:
                return done.get(timeout=seconds)
            except queue.Empty:
                raise WaitTimeoutError("not joined yet") from None

        threading.Thread(target=run, daemon=True).start()
        found = self._talk.patiently(wait)
        if isinstance(found, BaseException):
            raise found
        return found

    def _warn(self, error: BlindsumError) -> None:
        if self.speaks:
            logger.warning("job %r: lost a round: %s; waiting for the next one", self.spec.job, error)


class JoinOptions(TypedDict, total=False):
    """Further arguments of :func:`blindsum.join`, which count at the speaker."""

    revoked: AnyPath | None
    policy: Policy | None
    server_name: str | None
    state_dir: AnyPath | None
    ledger_witness: AnyPath | None
    give_up_after: float
    mask_memory: int


def join_domain(
    url: str | Sequence[str],
    *,
    job: str,
    identity: AnyPath | Identity,
    ca: AnyPath,
    group: object | None = None,
    speaker: int = 0,
    timeout: float = 600.0,
    combine: str = "mean",
    counts_as: int | None = None,
    peers: Peers | None = None,
    **options: Unpack[JoinOptions],
) -> Domain:
    """Join a job as one of several learners of an organisation, which are one party together.

    Every learner of the domain makes the same call, after ``torch.distributed.init_process_group("gloo")``.
    Learners add up their updates in the clear among themselves; the speaker joins the job and hands in what
    they have together. Only the speaker needs the files: ``identity``, ``ca``, ``revoked``, ``state_dir``.

    With ``combine="mean"`` the domain hands in the mean of its learners' updates, weighted by their weights,
    with the sum of the weights. So the result of the job is the same as if every learner were a party, up to
    rounding and clipping. That sum must be a whole number from 1 to the job's ``max_weight``.

    Parameters
    ----------
    url, job, identity, ca, **options
        As for :func:`blindsum.join`.
    group
        A process group of ``torch.distributed`` with the learners of the domain; ``None`` is all processes.
    speaker
        Rank of the speaker in the group.
    timeout
        Seconds for which one learner may keep the others waiting, e.g. because its training takes longer; the
        time limit of the process groups that the domain makes for itself. A learner that ends is noticed at
        once, one that hangs after this time, and a speaker that hangs after three times as long.
    combine
        ``"mean"``, or for jobs of integers ``"sum"``: the domain hands in the sum of weight times update,
        exact, with weight 1. Means of integers must be integers.
    counts_as
        The weight of the domain in the job, whatever the weights of its learners are; 1 where every party
        weighs the same. ``None`` is the sum of their weights, or 1 with ``combine="sum"``.
    peers
        Learners that talk in another way than over ``torch.distributed``; then ``group``, ``speaker`` and
        ``timeout`` are not used.

    Raises
    ------
    blindsum.ConfigError
        There is no torch or no process group; or an argument that cannot be right.
    blindsum.DomainError
        A learner is lost, or joined with other arguments.
    blindsum.IdentityError, blindsum.NetworkError, blindsum.PolicyError
        The speaker could not join; every learner gets its error.

    Examples
    --------
    ::

        torch.distributed.init_process_group("gloo")
        where = "https://agg.example:9443"
        with bs.join_domain(where, job="tumour", identity="hospital-a", ca="ca.pem") as job:
            for rnd in job.rounds():
                update = train(rnd.model, data)  # data of this learner
                rnd.submit(update, weight=len(data))
                mean = rnd.result()  # None where the round was lost; the loop goes on
    """
    if counts_as is not None:
        counts_as = checks.setting("counts_as", counts_as, 1, LARGEST_WEIGHT)
    if peers is None:
        limit = checks.seconds("timeout", timeout)
        if limit == 0:
            raise ConfigError("timeout", "0 s must be more: learners need time to answer")
        peers = Gloo(group, speaker=speaker, timeout=limit)

    def enter() -> Session:
        return join(url, job=job, identity=identity, ca=ca, **options)

    return Domain(peers, enter, combine=combine, counts_as=counts_as)
