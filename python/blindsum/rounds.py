"""A round of a job, as a party sees it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from blindsum import _native
from blindsum.arrays import IntegerVector, Sums, Vector, as_integers, as_vector
from blindsum.clipping import ClippingLog
from blindsum.display import Shown, names_text
from blindsum.equality import Comparable
from blindsum.errors import (
    BlindsumError,
    Fault,
    InputError,
    RoundAborted,
    RoundUnknown,
    SubmitError,
    WaitTimeoutError,
)
from blindsum.metrics_text import metrics_text
from blindsum.options import Integers
from blindsum.places import placed
from blindsum.privacy_claim import PrivacySpent
from blindsum.spec import JobSpec
from blindsum.training_metrics import checked_metrics
from blindsum.weights import DefaultWeight
from blindsum.whole_models import WholeModelLog

Array = NDArray[np.float32] | NDArray[np.float64]

logger = logging.getLogger("blindsum")


@dataclass(frozen=True)
class Timings:
    """Seconds that a party worked in a round, without training, network and disk.

    Attributes
    ----------
    ahead : float
        While it waited: masks computed ahead of time, if the protocol has any.
    protect : float
        From the update to the answer that carries it: encoding and protection.
    open : float
        From the message that tells the result to the sum.
    """

    ahead: float
    protect: float
    open: float


@dataclass(frozen=True)
class Clipped:
    """The effect of clipping on this party's own update in a round; false where nothing was cut off.

    No other participant learns it, nor should: it depends on one update.

    Attributes
    ----------
    coordinates : int
        Coordinates that were outside their bound, and were moved to it.
    scaled_by : float or None
        The factor below 1 by which the update was multiplied, because its norm was above the bound
        (``clipping="l2"`` or ``max_norm``); ``None`` if it was not.
    """

    coordinates: int
    scaled_by: float | None

    def __bool__(self) -> bool:
        """Whether anything was cut off."""
        return self.coordinates > 0 or self.scaled_by is not None


@dataclass(frozen=True)
class Leftover:
    """The size of the unsent part of a party's updates, in sparse rounds.

    It is added to the party's next update. The leftover at the end of the job is never sent.

    Attributes
    ----------
    norm : float
        The L2 norm, in the unit of updates.
    coordinates : int
        The coordinates that are not 0.
    """

    norm: float
    coordinates: int


@dataclass(frozen=True, eq=False)
class RoundResult(Comparable, Shown):
    """The result of a round.

    Attributes
    ----------
    mean : numpy.ndarray
        The weighted mean of the survivors' updates, shape ``(dim,)``: float32, and float64 where values have
        more than 24 bits (``fixed64``, integers, ``bits`` above 24). Empty where the servers alone learn
        results (:attr:`JobSpec.tells_parties`).
    total_weight : int
        The sum of the survivors' weights; 0 where the servers alone learn it.
    survivors : tuple of str
        Names of the parties whose updates are in the mean.
    model : numpy.ndarray
        The job's model after the round, read-only, of the element type of ``mean``.
    model_version : int
        Its version.
    sum : numpy.ndarray or None
        For integers the exact weighted sum, shape ``(dim,)``: uint64 where no sum of such a job has
        more than 64 bits, else an object array of Python integers.
    timings : Timings
        The time that this party worked on the round.
    contributors : numpy.ndarray or None
        In sparse rounds, how many survivors sent each coordinate, uint32, shape ``(dim,)``. The mean of a
        coordinate that too few sent is 0. The mean of the others is over all survivors, or over those that
        sent the coordinate where the job says ``divisor="senders"``.
    clipped : Clipped or None
        The effect of clipping on this party's own update; false if nothing was cut off. ``None`` if the
        update was sent before a crash. In sparse rounds also coordinates of which this party had more to
        send than the bound let through; the rest stays in the leftover.
    leftover : Leftover or None
        In sparse rounds, the size of this party's leftover after the round; ``None`` in dense ones.
        Nobody else learns it.
    privacy : PrivacySpent or None
        What this party's data has cost in all jobs of its ledger, where the job's sums have noise.
    result : str
        The name of the result, 64 hexadecimal digits: parties with the same sum of the same survivors
        have the same one, and so has the coordinator's report of the round.
    warnings : tuple of str
        Warnings about the round: clipping bounds that fall for several rounds, and metrics of its own
        that were clipped to their range or were not finite. They are logged, too.
    metrics : mapping of str to float or None
        The metrics of the job by their names: the weighted mean over the survivors that reported the metric;
        ``None`` if nobody did. Empty where the servers alone learn results.
    reported : mapping of str to float
        The share of the survivors' weight that each of these means is of, from 0 to 1.
    """

    mean: Array
    total_weight: int
    survivors: tuple[str, ...]
    model: Array
    model_version: int
    sum: Sums | None
    timings: Timings
    contributors: NDArray[np.uint32] | None
    clipped: Clipped | None
    leftover: Leftover | None
    result: str
    privacy: PrivacySpent | None = None
    warnings: tuple[str, ...] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    reported: Mapping[str, float] = field(default_factory=dict)

    def metrics_report(self) -> dict[str, dict[str, float | None]]:
        """The metrics as the coordinator's report of the round has them: name to ``value`` and ``share``."""
        return {name: {"value": value, "share": self.reported[name]} for name, value in self.metrics.items()}

    def _shown(self) -> dict[str, object]:
        # What clipping did and what is left over depends on one update, of which a notebook must not tell.
        return {
            "survivors": names_text(self.survivors),
            "total weight": self.total_weight,
            "metrics": metrics_text(self.metrics_report()) or None,
            "mean": f"{self.mean.size} coordinates, {self.mean.dtype}",
            "model version": self.model_version,
            "result": self.result,
            "privacy": None if self.privacy is None else str(self.privacy),
            "warnings": "; ".join(self.warnings) or None,
        }


class Round(Shown):
    """A round that this party takes part in, from :meth:`Session.rounds`.

    Attributes
    ----------
    number : int
        The round's number; no number comes twice in a job. Key set-ups have numbers too, but take no
        updates and are never given here.
    parties : tuple of str
        Names of the certified parties.
    model_version : int
        The version of :attr:`model`.
    tag : int or None
        The step of the host that began the round (:meth:`Coordinator.round`); ``None`` where none chose one.
    lost : blindsum.RoundAborted or blindsum.Fault or None
        Why the round gave this party no result, once :meth:`submit`, :meth:`result` or :meth:`outcome` has
        found out.
    unknown : blindsum.RoundUnknown or None
        Why it is not known here whether the update counts, once :meth:`result` or :meth:`outcome` has raised
        it.
    """

    def __init__(
        self,
        native: _native.Round,
        spec: JobSpec,
        clipping: ClippingLog,
        whole_models: WholeModelLog | None = None,
        weights: DefaultWeight | None = None,
    ) -> None:
        self._native = native
        self._spec = spec
        self._clipping = clipping
        self._whole_models = whole_models
        self._weights = weights or DefaultWeight(spec)
        self._outcome: RoundResult | None = None
        self._sent_before = not native.needs_update()
        self._submitted = False
        self._sits_out = False
        self.lost: RoundAborted | Fault | None = None
        self.unknown: RoundUnknown | None = None
        self._failed: BlindsumError | None = None
        self.number = native.number
        self.model_version = native.model_version
        self.tag = native.tag
        self.parties = tuple(native.parties)

    def _shown(self) -> dict[str, object]:
        # Kinds of errors only: their texts may have paths of this machine.
        errors = [error for error in (self.lost, self.unknown, self._failed) if error is not None]
        states = {type(error).__name__: True for error in errors} | {
            "sits out": self._sits_out,
            "has a result": self._outcome is not None,
            "needs an update": self.needs_update,
            "waits for the result": True,
        }
        state = next(text for text, holds in states.items() if holds)
        return {"number": self.number, "parties": names_text(self.parties), "state": state}

    @cached_property
    def model(self) -> Array:
        """The model that the round starts from, read-only, shape ``(dim,)``; all parties have the same.

        Empty if the job has no model (``model_update="none"``).
        """
        return self._native.model()

    @property
    def submitted(self) -> bool:
        """Whether the result may be waited for: an update was given, here or before a crash."""
        is_over = self._outcome is not None or self.unknown is not None or self._failed is not None
        is_open = not is_over and not self._sits_out
        return is_open and not self.needs_update

    @property
    def needs_update(self) -> bool:
        """Whether :meth:`submit` must be called: not if the update was sent before a crash."""
        return self._native.needs_update()

    def submit(
        self, update: object, weight: float | None = None, metrics: Mapping[str, float | None] | None = None
    ) -> None:
        """Give this party's update and return as soon as it is checked.

        The memory is copied once, in the native core, so that it may be reused immediately. If the round
        is over already, e.g. because training took too long, the update is dropped and :attr:`lost` says
        why. If an update was sent before a crash, that one counts; the first one given now is dropped,
        and the log says so.

        Parameters
        ----------
        update
            Anything with the buffer protocol or ``__array__`` and ``dim`` float elements; where the job's
            encoding is ``"integers"``, ``dim`` integers from 0 to ``2**bits - 1``, also as a list.
        weight
            A whole number from 1 to the job's ``max_weight``, e.g. the number of examples; ``300.0`` is one.
            Without one the update counts what :func:`join` was told (``weight``), else 1, of which the log
            warns where the job has weights.
        metrics
            Values of the job's metrics by their names, e.g. ``{"accuracy": 0.93}``. One that is not given, is
            ``None`` or not finite counts as missing; one beyond its range counts as the end of it, which
            :attr:`RoundResult.warnings` and the log say.

        Raises
        ------
        blindsum.InputError
            A wrong size, NaN, infinities, integers out of range, a weight beyond ``max_weight``, or a name
            that no metric of the job has; another update may be submitted then.
        blindsum.SubmitError
            An update was submitted already, the result is there, the round was lost, or this party sits it
            out. The update of this call was dropped.
        """
        if self._sits_out:
            raise SubmitError(self.number, "sits out", SITS_OUT)
        if self.lost is not None or self._outcome is not None or self.unknown is not None:
            raise SubmitError(self.number, "over", OVER)
        if self._submitted:
            raise SubmitError(self.number, "submitted", SUBMITTED)
        if self._sent_before:
            self._submitted = True
            log_dropped(self._spec.job, self.number)
            return
        vector = checked_vector(self._spec, update)
        whole = self._weights.of(weight)
        named = checked_metrics(self._spec, metrics)
        if self._whole_models is not None and self._whole_models.is_looking:
            # The model is copied where it is asked for first.
            self._whole_models.look_at(self.number, self.model_version, self.model, vector)
        self._submit(vector, whole, named)

    def _submit(self, vector: Vector | IntegerVector, whole: int, metrics: dict[str, float]) -> None:
        """Hand an update in that was checked."""
        try:
            self._native.submit(vector, whole, metrics)
        except (RoundAborted, Fault) as error:
            self._lose(error)
        except InputError as error:
            # Another update may be submitted.
            raise placed(error, self._spec) from None
        except SubmitError:
            # One was submitted.
            raise
        except BlindsumError as error:
            # The session ends with it, and nothing of this update went out.
            self._failed = error.with_traceback(None)
            raise
        else:
            self._submitted = True

    def result(self, timeout: float | None = None) -> Array | None:
        """Wait for the weighted mean of the survivors' updates, shape ``(dim,)``.

        It is float32, or float64 where values have more than 24 bits (:attr:`RoundResult.mean`); the exact
        sum of integers is in :meth:`outcome`. ``None`` where the round was lost for this party: too few
        were left, a participant broke the protocol, the coordinator was started again, or the others went
        on without it. :attr:`lost` says which, and the next round begins with the same model. It is also
        ``None`` after :meth:`skip`.

        Parameters
        ----------
        timeout
            Seconds to wait at most. Without it the wait ends when all deadlines of the round have
            passed.

        Raises
        ------
        blindsum.RoundUnknown
            The update is out, and the session or this party's part in the round ended before the coordinator
            said whether it counts.
        blindsum.WaitTimeoutError
            ``timeout`` is over; the call may be repeated.
        """
        self._wait(timeout)
        return None if self._outcome is None else self._outcome.mean

    def outcome(self, timeout: float | None = None) -> RoundResult:
        """Wait like :meth:`result` and give everything that is known of the round.

        Parameters
        ----------
        timeout
            Seconds to wait at most.

        Raises
        ------
        blindsum.RoundAborted
            The round gave no sum, or goes on without this party.
        blindsum.Fault
            Somebody broke the protocol.
        blindsum.RoundUnknown
            As for :meth:`result`.
        blindsum.WaitTimeoutError
            ``timeout`` is over; the call may be repeated.
        """
        self._wait(timeout)
        if self._sits_out:
            raise RoundAborted(self.number, "this party gave no update", only_me=True)
        if self._outcome is None:
            assert self.lost is not None
            raise self.lost
        return self._outcome

    def _wait(self, timeout: float | None) -> None:
        """Wait until there is a result, or the round is lost."""
        for error in (self.unknown, self._failed):
            if error is not None:
                raise error
        if self.lost is not None or self._outcome is not None or self._sits_out:
            return
        try:
            self._outcome = self._native.result(timeout)
        except (RoundAborted, Fault) as error:
            self._lose(error)
        except RoundUnknown as error:
            self.unknown = error.with_traceback(None)
            raise self.unknown from None
        except (InputError, WaitTimeoutError):
            # The call came too early, or waited too little.
            raise
        except BlindsumError as error:
            # The session ends with it. Whoever asks again hears the same.
            self._failed = error.with_traceback(None)
            raise self._failed from None
        else:
            self._clipping.tell(self.number, self._outcome.clipped)
            for warning in self._outcome.warnings:
                text = "job %r, round %d: %s"
                logger.warning(text, self._clipping.job, self.number, warning, extra={"round": self.number})

    def _lose(self, error: RoundAborted | Fault) -> None:
        # A traceback has this round in its frames, which would keep the model until garbage is collected.
        self.lost = error.with_traceback(None)

    def skip(self, refused: str | None = None) -> None:
        """Skip the round: the coordinator is notified, and the others go on without this party.

        Nothing happens after an update was submitted. :meth:`Session.rounds` does the same for a round that
        is left by ``continue`` or by an exception before :meth:`submit`.

        Parameters
        ----------
        refused
            Why there is no update where one was refused, e.g. ``"it is not finite"``; the coordinator
            logs it, so it must not reveal data. ``None`` says that there is none in this round.
        """
        if self.needs_update:
            self._sits_out = True
            self._native.skip(refused)

    def abandon(self) -> None:
        """Take no further part in the round.

        Before :meth:`submit` this is :meth:`skip`. After it the update may count all the same:
        :meth:`result` raises :class:`blindsum.RoundUnknown` then.
        """
        if self.needs_update:
            self.skip()
            return
        if self._outcome is None and self.lost is None and self.unknown is None and not self._sits_out:
            self.unknown = RoundUnknown(self.number, "this party's program has abandoned the round")
        self._native.skip(None)


SUBMITTED = "an update was submitted already, and this one was dropped: a round takes one update of a party"
"""What :meth:`Round.submit` says the second time."""

OVER = "the round is over for this party, and this update was dropped: submit to the next round"
"""What :meth:`Round.submit` says after the end of a round."""

SITS_OUT = "this party sits the round out, and this update was dropped: submit to the next round"
"""What :meth:`Round.submit` says after :meth:`Round.skip`."""


def log_dropped(job: str, number: int) -> None:
    """Say that an update was dropped since an earlier process of the party has sent one."""
    logger.warning(
        "job %r, round %d: an update was sent before this party was started again; that one counts, and the "
        "one given now is dropped",
        job,
        number,
        extra={"round": number},
    )


def checked_vector(spec: JobSpec, update: object) -> Vector | IntegerVector:
    """An update as the native core takes it.

    Raises
    ------
    blindsum.InputError
        It does not fit the job.
    """
    if update is None:
        raise InputError("update", "is None, and must be an array; call rnd.skip() to sit the round out")
    match spec.encoding:
        case Integers(bits=bits):
            return as_integers(update, spec.dim, bits)
        case _:
            return as_vector(update, spec.dim)
