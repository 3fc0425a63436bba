"""Rounds that a program of yours begins: the coordinator's part of a framework, or of a loop of your own."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blindsum import _native, checks
from blindsum.display import Shown, names_text
from blindsum.equality import Comparable
from blindsum.errors import BlindsumError, ConfigError, InputError, RoundLost, WaitTimeoutError
from blindsum.metrics_text import metrics_text
from blindsum.spec import JobSpec

if TYPE_CHECKING:
    # As in the module coordinator: NumPy takes as much memory as the rest.
    from blindsum.arrays import Sums
    from blindsum.rounds import Array

MAX_TAG = 2**63 - 1
"""The largest tag of a round."""


@dataclass(frozen=True, eq=False, kw_only=True)
class HostedResult(Comparable, Shown):
    """The result of a round that a host began, as its coordinator learns it.

    Attributes
    ----------
    number : int
        The round's number; no number comes twice in a job.
    tag : int or None
        The tag that the host gave the round.
    mean : numpy.ndarray or None
        The weighted mean of the survivors' updates, read-only, shape ``(dim,)``, the same as that of the
        parties (:attr:`RoundResult.mean`). ``None`` where only the parties learn it
        (:attr:`JobSpec.hides_sum`): let one of them send it.
    sum : numpy.ndarray or None
        For integers the exact weighted sum, as :attr:`RoundResult.sum`; ``None`` for floats, and where only
        the parties learn it.
    total_weight : int or None
        The sum of the survivors' weights; ``None`` where only the parties learn it.
    survivors : tuple of str
        Names of the parties whose updates are in the mean.
    lost : mapping of str to str
        The other parties that the host named, with the reasons.
    metrics : mapping of str to float or None
        The metrics of the job, as :attr:`RoundResult.metrics`; empty where only the parties learn them.
    reported : mapping of str to float
        The share of the survivors' weight that each of these means is of, from 0 to 1.
    model_version : int
        The version of the job's model after the round.
    result : str
        The name of the result, 64 hexadecimal digits: parties with this result have the same
        (:attr:`RoundResult.result`).
    seconds : float
        From the offer of the round to its result.
    """

    number: int
    tag: int | None
    mean: Array | None
    sum: Sums | None
    total_weight: int | None
    survivors: tuple[str, ...]
    lost: Mapping[str, str]
    metrics: Mapping[str, float | None]
    reported: Mapping[str, float]
    model_version: int
    result: str
    seconds: float

    def _shown(self) -> dict[str, object]:
        metrics = {
            name: {"value": value, "share": self.reported[name]} for name, value in self.metrics.items()
        }
        mean = None if self.mean is None else f"{self.mean.size} coordinates, {self.mean.dtype}"
        return {
            "round": self.number,
            "tag": self.tag,
            "survivors": names_text(self.survivors),
            "lost": names_text(tuple(self.lost)) if self.lost else None,
            "total weight": self.total_weight,
            "metrics": metrics_text(metrics) or None,
            "mean": mean or "known to the parties alone",
            "result": self.result,
        }


class PendingRound(Shown):
    """A round that :meth:`Coordinator.begin` began. Its methods may be called from several threads.

    Attributes
    ----------
    tag : int or None
        The tag that the host gave it.
    parties : tuple of str
        The parties that the host named.
    """

    def __init__(self, native: _native.PendingRound, parties: tuple[str, ...], tag: int | None) -> None:
        self._native = native
        self._end: HostedResult | RoundLost | None = None
        # Whoever has it waits for the end, which the core gives once.
        self._waits = threading.Lock()
        self.parties = parties
        self.tag = tag

    def _shown(self) -> dict[str, object]:
        state = "under way" if self._end is None else type(self._end).__name__
        return {"tag": self.tag, "parties": names_text(self.parties), "state": state}

    def result(self, timeout: float | None = None) -> HostedResult:
        """Wait for the result. Later calls give the same again.

        Parameters
        ----------
        timeout
            Seconds to wait at most. Without it the wait ends with the round, whose deadlines are those of the
            job and of :meth:`Coordinator.begin`.

        Raises
        ------
        blindsum.RoundLost
            The round has no result; its ``lost`` names who was lost and why.
        blindsum.ConfigError
            ``timeout`` is no number of seconds.
        blindsum.WaitTimeoutError
            ``timeout`` is over, and the round goes on; the call may be repeated.
        blindsum.SessionClosedError
            The coordinator has ended without a word on the round.
        """
        if timeout is not None:
            timeout = checks.seconds("timeout", timeout)
        until = None if timeout is None else time.monotonic() + timeout
        if self._waits.acquire(timeout=-1 if timeout is None else timeout):
            try:
                if self._end is None:
                    left = None if until is None else max(0.0, until - time.monotonic())
                    self._end = self._native.end(left)
            finally:
                self._waits.release()
        if self._end is None:
            raise WaitTimeoutError(
                f"nothing came of the round within {timeout} s; it goes on: wait again, or call it off"
            )
        if isinstance(self._end, RoundLost):
            raise self._end.with_traceback(None)
        return self._end

    def report_failed(self, party: str, reason: str = "") -> None:
        """Report to the coordinator that a party has failed.

        Nobody waits for the party any more: at once the round goes on without it, or ends if too few are
        left. Nothing happens if its update is in already, if it is not in the round, or once that has ended.

        Parameters
        ----------
        party
            Its name.
        reason
            Why, for people. It is in the report of the round, and the parties may hear it: it must not say
            anything of data.
        """
        self._native.report_failed(checks.line("party", party), checks.line("reason", reason))

    def call_off(self, reason: str = "its result is not wanted any more") -> None:
        """End the round without a result, unless it has one: :meth:`result` raises :class:`RoundLost` then.

        Parameters
        ----------
        reason
            Why, for people; the parties hear it.
        """
        self._native.call_off(checks.line("reason", reason))


class Hosting:
    """What a coordinator of a job with ``hosted=True`` offers its host."""

    _native: _native.Coordinator
    _spec: JobSpec

    def begin(
        self,
        parties: Iterable[str],
        model: object = None,
        *,
        tag: int | None = None,
        about: object = None,
        join_within: float | None = None,
        deadline: float | None = None,
    ) -> PendingRound:
        """Begin a round of exactly these parties, and return at once; ``hosted=True`` is needed.

        The coordinator waits for them and for nobody else: parties that are not named sit the round out, and
        stay connected. A named party need not be here yet. One that comes and leaves, refuses, or that
        :meth:`PendingRound.report_failed` names is given up at once; one that comes and loses its connection
        after ``reconnect_grace`` seconds, a limit. As soon as nobody is waited for the round begins, if
        enough are ready, or is lost.

        Parameters
        ----------
        parties
            Their names: no fewer than a round of the job needs, and no more than ``parties`` of the job. Each
            round may have others, and another number of them.
        model
            The model that the round starts from, ``dim`` floats; ``None`` goes on from the job's own. None
            may be given where the job keeps no model (``model_update="none"``).
        tag
            A number of your own for the step, 0 to 2**63 - 1, as the round of your framework. The parties
            hear it (:attr:`Round.tag`). A party that waits for one tag takes part in no round of another one
            (:meth:`Session.aggregate`): who is late for step 3 is not counted in step 4. A lost round may be
            begun again with the same tag.
        about
            What you give the parties for this step by your own way, such as the model: bytes, a text or an
            array, or a list of these. Its hash is in every key of the round. A party that says ``about=`` too
            takes part in no round that is about something else (:class:`OtherContent`): whoever begins rounds
            cannot give one party another model, whose update a sum would tell. It needs a tag.
        join_within
            Seconds in which the parties must come and be ready; ``None`` takes the job's ``join_deadline``.
        deadline
            Seconds after which the round ends, with a result or without; ``None`` leaves it to the deadlines
            of the job.

        Raises
        ------
        blindsum.ConfigError, blindsum.InputError
            Names, a tag, times or a model that cannot be.
        blindsum.CallError
            No round can begin now: one is under way, the job is over or paused, or no host begins its rounds.
        """
        names = named(parties)
        step = as_step(tag, about)
        start = None if model is None else given_model(model, self._spec)
        within, until = as_time("join_within", join_within), as_time("deadline", deadline)
        native = self._native.begin(list(names), start, step, within, until)
        return PendingRound(native, names, None if step is None else step[0])

    def round(
        self,
        parties: Iterable[str],
        model: object = None,
        *,
        tag: int | None = None,
        about: object = None,
        join_within: float | None = None,
        deadline: float | None = None,
    ) -> HostedResult:
        """Run a round of exactly these parties: :meth:`begin`, and wait for its result.

        Raises
        ------
        blindsum.RoundLost
            The round has no result; its ``lost`` names who was lost and why. The next one may begin at once,
            also with the same tag.
        blindsum.ConfigError, blindsum.InputError, blindsum.CallError, blindsum.SessionClosedError
            As for :meth:`begin` and :meth:`PendingRound.result`.

        Examples
        --------
        ::

            with bs.Coordinator(spec, identity="agg", ca="pki", hosted=True) as coordinator:
                for step in range(steps):
                    result = coordinator.round(chosen(step), tag=step)
                    model += result.mean
        """
        times = {"join_within": join_within, "deadline": deadline}
        return result_of(self.begin(parties, model, tag=tag, about=about, **times))


def checked_hosted(hosted: object, choice: str = "first") -> bool:
    """Whether a host begins the rounds, checked.

    Raises
    ------
    blindsum.ConfigError
        It is neither true nor false; or the coordinator is to choose parties, which a host names.
    """
    if not isinstance(hosted, bool):
        raise ConfigError("hosted", f"{hosted!r} must be True or False")
    if hosted and choice != "first":
        raise ConfigError(
            "choice", f"{choice!r} cannot be kept: a host names the parties of a round; leave it out"
        )
    return hosted


def result_of(begun: PendingRound) -> HostedResult:
    """Wait for a round that nobody else has in hand: it is called off where the wait is interrupted."""
    try:
        return begun.result()
    except BlindsumError:
        raise
    except BaseException:
        begun.call_off("its host was interrupted")
        raise


def named(parties: Iterable[str]) -> tuple[str, ...]:
    """The names of parties, checked.

    Raises
    ------
    blindsum.ConfigError
        Something else than texts.
    """
    if isinstance(parties, str):
        raise ConfigError("parties", f"{parties!r} is one name: give a list of names")
    if not isinstance(parties, Iterable):
        raise ConfigError("parties", f"must be a list of names, not a {type(parties).__name__}")
    return tuple(checks.line("parties", name) for name in parties)


Step = tuple[int, bytes | None]
"""A tag, and the hash of what the step is about."""


MAX_DEPTH = 32
"""Lists within lists in what a step is about."""


def as_step(tag: object, about: object) -> Step | None:
    """The tag of a round with what it is about, checked; ``None`` where there is none.

    Raises
    ------
    blindsum.ConfigError
        No whole number from 0 to 2**63 - 1, or something of which there is no hash.
    """
    if tag is None:
        if about is not None:
            raise ConfigError("about", "needs a tag: give the step a number, tag=")
        return None
    return checks.setting("tag", tag, 0, MAX_TAG), None if about is None else hash_of(about)


def hash_of(about: object) -> bytes:
    """SHA-256 of what a step is about: a text, bytes or an array, or a list of these.

    Equal texts have equal hashes, and so have arrays of equal numbers, element types and shapes, on every
    machine: element types have the names of NumPy's ``dtype.str``, and values are little-endian. Bytes are an
    array of ``uint8``.

    Raises
    ------
    blindsum.ConfigError
        Something else; an array of Python objects, of records or of extended precision; or a text with half
        a character.
    """
    found = hashlib.sha256(b"blindsum about")
    for kind, content in _contents(about):
        found.update(len(kind).to_bytes(8, "big") + kind + len(content).to_bytes(8, "big"))
        found.update(content)
    return found.digest()


def _contents(about: object, depth: int = 0) -> Iterator[tuple[bytes, bytes | bytearray]]:
    if depth > MAX_DEPTH:
        rule = f"has lists within lists, more than {MAX_DEPTH} deep: give a flat list"
        raise ConfigError("about", rule)
    match about:
        case str():
            try:
                yield b"text", about.encode()
            except UnicodeEncodeError as error:
                rule = f"has half a character at {error.start} of a text: give whole characters, or bytes"
                raise ConfigError("about", rule) from error
        case list() | tuple():
            yield b"list", len(about).to_bytes(8, "big")
            for one in about:
                yield from _contents(one, depth + 1)
        case bytes() | bytearray():
            yield f"|u1({len(about)},)".encode(), about
        case _:
            yield _array(about)


def _array(about: object) -> tuple[bytes, bytes]:
    """The element type with the shape of an array, and its values."""
    import numpy as np

    try:
        view = about if hasattr(about, "__array__") else memoryview(about)  # type: ignore[arg-type]
        found = np.asanyarray(view)
    # Libraries of arrays raise RuntimeError where NumPy has nothing like theirs.
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(about).__name__
        rule = f"must be bytes, a text, an array, or a list of these, not a {kind}: give what parties get"
        raise ConfigError("about", rule) from error
    if unlike := _unlike(found):
        raise ConfigError("about", unlike)
    found = np.asarray(found)
    little = found.astype(found.dtype.newbyteorder("<"), copy=False)
    return f"{little.dtype.str}{little.shape}".encode(), little.tobytes()


def _unlike(array: Any) -> str | None:
    """Why equal arrays of this kind need not have equal bytes, and what to give; ``None`` where they have."""
    import numpy as np

    kind, size = array.dtype.kind, array.dtype.itemsize
    if isinstance(array, np.ma.MaskedArray):
        return "has an array with a mask, whose hidden values would count: give filled values and the mask"
    if kind == "O":
        return "has an array of Python objects: give it as a list, or with an element type such as float64"
    if array.dtype.names:
        return "has an array of records: give the array of each field"
    if (kind == "f" and size > 8) or (kind == "c" and size > 16):
        return f"has an array of {array.dtype.name}, with numbers of more than 64 bits: give it as float64"
    if kind not in "biufcmMSU":
        return f"has an array of {array.dtype.name}, which NumPy has no name for: give its bytes, or float32"
    return None


def given_model(model: object, spec: JobSpec | None = None) -> object:
    """The model that a host begins a round with, as a vector.

    Parameters
    ----------
    model
        Floats.
    spec
        The job; the coordinator checks what cannot be checked without it.

    Raises
    ------
    blindsum.InputError
        No vector of ``dim`` finite floats, or the job keeps no model.
    """
    if spec is not None and spec.model_update == "none":
        raise InputError("model", 'the job has no model (model_update = "none"): give none')
    from blindsum import arrays

    start = arrays.as_vector(model, None if spec is None else spec.dim, "model")
    if (index := _native.first_not_finite(start)) is not None:
        raise InputError("model", f"coordinate {index} is not a finite number", index)
    return start


def as_time(name: str, seconds: object) -> float | None:
    """Seconds of a round, checked; ``None`` leaves them out.

    Raises
    ------
    blindsum.ConfigError
        No number from 0 to a million.
    """
    return None if seconds is None else checks.seconds(name, seconds)
