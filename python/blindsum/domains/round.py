"""A round of a job, as a learner of a domain sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blindsum import checks
from blindsum.domains.measured import metrics_of_all, own_metrics
from blindsum.domains.messages import Header, from_error, from_result, to_error, to_result
from blindsum.domains.sums import Own, Rules, Whole
from blindsum.domains.talk import Answer, Step, Talk
from blindsum.errors import DomainError, DomainInputError, Fault, RoundAborted, SubmitError
from blindsum.rounds import OVER, SITS_OUT, SUBMITTED, Array, Round, RoundResult, log_dropped
from blindsum.weights import DefaultWeight


class DomainRound:
    """A round that the domain takes part in, from :meth:`Domain.rounds`.

    Attributes
    ----------
    number : int
        The round's number.
    parties : tuple of str
        Names of the certified parties; this domain is one of them.
    model : numpy.ndarray
        The model that the round starts from, read-only, shape ``(dim,)``.
    needs_update : bool
        Whether the round waits for an update: not if the speaker sent it before a crash. :meth:`submit` may
        be called in any case.
    lost : blindsum.RoundAborted or blindsum.Fault or None
        Why the round gave this domain no result, once :meth:`submit`, :meth:`result` or :meth:`outcome` has
        found out.
    """

    def __init__(
        self,
        talk: Talk,
        rules: Rules,
        weights: DefaultWeight,
        told: Header,
        model: Array,
        current: Round | None,
    ) -> None:
        self._talk = talk
        self._rules = rules
        self._weights = weights
        # At the speaker.
        self.current = current
        self._outcome: RoundResult | None = None
        self.number: int = told["number"]
        self.parties = tuple(told["parties"])
        self.needs_update: bool = told["needs_update"]
        self.model = model
        self.lost: RoundAborted | Fault | None = None
        self._submitted = False
        self._sits_out = False

    def submit(
        self, update: object, weight: float | None = None, metrics: Mapping[str, float | None] | None = None
    ) -> None:
        """Add this learner's update to the domain's, which the speaker then hands in.

        All learners call it, and return when the speaker has handed it in.

        Parameters
        ----------
        update
            As for :meth:`blindsum.Round.submit`, with ``dim`` elements; or a list or mapping of such arrays
            that have as many together, e.g. the parameters of a network. In a job of floats integers among
            them are left out or refused as by :func:`blindsum.flatten`.
        weight
            A whole number, e.g. the number of examples of this learner; 0 where it has none. Without one it
            is 1, of which the log warns where the job has weights.
        metrics
            As for :meth:`blindsum.Round.submit`. The domain reports the mean of its learners that report a
            metric, by their weights; the speaker sees the metrics of each.

        Raises
        ------
        blindsum.DomainInputError
            One learner's update, weight or metrics do not fit the job, or what they have together does not.
            All learners get it, and all may submit again.
        blindsum.SubmitError
            The domain has submitted already, the round is over, or the domain sits it out; every learner gets
            it.
        blindsum.DomainError
            A learner is lost.
        """
        if self._sits_out:
            raise SubmitError(self.number, "sits out", SITS_OUT)
        if self.lost is not None or self._outcome is not None:
            raise SubmitError(self.number, "over", OVER)
        if self._submitted:
            raise SubmitError(self.number, "submitted", SUBMITTED)
        if not self.needs_update:
            self._submitted = True
            if self._talk.speaks:
                log_dropped(self._rules.spec.job, self.number)
            return
        rules = self._rules
        said: Header
        own: Own | None = None
        try:
            own = Own.checked(
                rules, self._talk.rank, update, self._weights.default() if weight is None else weight
            )
            said = dict(own.said()) | {"metrics": own_metrics(rules, self._talk.rank, metrics)}
        except DomainInputError as error:
            said = {"refused": from_error(error)}

        def agree(all_said: Sequence[Header]) -> Answer:
            for one in all_said:
                if "refused" in one:
                    raise to_error(one["refused"], self._talk.rank)
            found = Whole.of(rules, all_said)
            whole = {"total": found.total, "weight": found.weight, "parts": found.parts}
            return {"whole": whole, "metrics": metrics_of_all(all_said)}, {}

        told, _ = self._talk.take(Step("submit", self.number), said, agree)
        assert own is not None
        self._add(own, Whole(**told["whole"]), told["metrics"])

    def _add(self, own: Own, whole: Whole, metrics: dict[str, float]) -> None:
        """Add up what all have agreed to add up, and hand it in."""
        added = own.addend(whole.parts)
        is_there = self._talk.reduce(added)

        def hand_in(all_said: Sequence[Header]) -> Answer:
            for learner, one in enumerate(all_said):
                if not one["added"]:
                    raise DomainError(learner, "it could not add its update to those of the others")
            assert self.current is not None
            self.current.submit(whole.handed_in(self._rules, added), whole.weight, metrics)
            lost = self.current.lost
            return {"lost": None if lost is None else from_error(lost)}, {}

        told, _ = self._talk.take(Step("adding up", self.number), {"added": is_there}, hand_in)
        self.needs_update, self._submitted = False, True
        self._lose(told["lost"])

    def skip(self) -> None:
        """Sit the round out: the coordinator is told at once, and the others go on without this domain.

        All learners call it. A learner that has nothing while others have something submits with weight 0.
        Nothing happens after an update was submitted.

        Raises
        ------
        blindsum.DomainError
            A learner is lost, or does something else.
        """
        if not self.needs_update:
            return

        def act(_: Sequence[Header]) -> Answer:
            assert self.current is not None
            self.current.skip()
            return {}, {}

        self._talk.take(Step("skip", self.number), {}, act)
        self.needs_update, self._sits_out = False, True

    def result(self, timeout: float | None = None) -> Array | None:
        """Wait for the weighted mean of all parties; ``None`` where the round was lost, as :attr:`lost` says.

        All learners call it, or :meth:`outcome`.

        Parameters
        ----------
        timeout
            Seconds to wait at most; what the speaker says counts.

        Raises
        ------
        blindsum.RoundUnknown
            As for :meth:`blindsum.Round.result`; every learner gets it.
        blindsum.WaitTimeoutError
            ``timeout`` is over; all may repeat the call.
        blindsum.DomainError
            A learner is lost.
        """
        if self.lost is None and self._outcome is None and not self._sits_out:
            self._ask(timeout)
        return None if self._outcome is None else self._outcome.mean

    def outcome(self, timeout: float | None = None) -> RoundResult:
        """Wait like :meth:`result` and give everything that is known of the round.

        Parameters
        ----------
        timeout
            Seconds to wait at most; what the speaker says counts.

        Raises
        ------
        blindsum.RoundAborted, blindsum.Fault
            The round was lost.
        blindsum.RoundUnknown
            As for :meth:`blindsum.Round.result`; every learner gets it.
        blindsum.WaitTimeoutError
            ``timeout`` is over; all may repeat the call.
        blindsum.DomainError
            A learner is lost.
        """
        self.result(timeout)
        if self._sits_out:
            raise RoundAborted(self.number, "this domain gave no update", only_me=True)
        if self._outcome is None:
            assert self.lost is not None
            raise self.lost
        return self._outcome

    def _ask(self, timeout: float | None) -> None:
        limit = None if timeout is None else checks.seconds("timeout", timeout)

        def act(_: Sequence[Header]) -> Answer:
            current = self.current
            assert current is not None
            self._talk.patiently(current.result, limit)
            if current.lost is not None:
                return {"lost": from_error(current.lost)}, {}
            plain, arrays = from_result(current.outcome())
            return {"lost": None, "result": plain}, arrays

        told, arrays = self._talk.take(Step("result", self.number), {}, act)
        self._lose(told["lost"])
        if self.lost is None:
            self._outcome = to_result(told["result"], arrays)

    def _lose(self, plain: Header | None) -> None:
        if plain is not None:
            error = to_error(plain, self._talk.rank)
            assert isinstance(error, RoundAborted | Fault)
            self.lost = error
