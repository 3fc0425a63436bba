"""Take part in a job over the network.

The protocol's stages, reconnections and signs of life go on in native threads while user code trains.
All calls block, without the GIL; Ctrl-C ends every wait.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from blindsum import _native
from blindsum.arrays import Sums, as_integers, as_vector
from blindsum.errors import ConfigError, IdentityError, InputError
from blindsum.pki import AnyPath, Identity
from blindsum.spec import JobSpec

Array = NDArray[np.float32]

MASK_MEMORY = 256 << 20
"""Bytes of masks that may be computed ahead, by default: enough for 2**26 words of up to 32 bits."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a party agrees to, whatever the coordinator says.

    Attributes
    ----------
    allowed_protocols : sequence of str or None
        Protocols that may protect this party's updates; ``None`` allows all but ``plain``.
    min_cohort : int
        Smallest number of certified parties in a round: of two, each learns the other's update.
    require_adversary : str or None
        What the job must hold against: ``"semi-honest"`` or ``"active"``; ``None`` takes any.
    min_cohort_change : int
        By how many parties a round's cohort must differ from every earlier one that is not the same:
        the difference of two sums over almost the same parties is one party's update. 0 allows
        everything.
    max_weight : int or None
        Largest weight that the job may allow; ``None`` allows all.
    """

    allowed_protocols: Sequence[str] | None = None
    min_cohort: int = 3
    require_adversary: str | None = None
    min_cohort_change: int = 0
    max_weight: int | None = None

    def to_json(self) -> str:
        """Every rule that is set, as a JSON object."""
        rules = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        return json.dumps(rules)


@dataclass(frozen=True)
class Timings:
    """Seconds that a party worked in a round, beside training, network and disk.

    Attributes
    ----------
    ahead : float
        While it waited anyway: masks computed ahead, where the protocol has any.
    protect : float
        From the update to the answer that carries it: encoding and protection.
    open : float
        From the message that tells the result to the sum.
    """

    ahead: float
    protect: float
    open: float


@dataclass(frozen=True)
class RoundResult:
    """What a round gave.

    Attributes
    ----------
    mean : numpy.ndarray
        The weighted mean of the survivors' updates, float32 (of integers float64), shape ``(dim,)``.
    total_weight : int
        The survivors' weights together.
    survivors : tuple of str
        Whose updates are in it.
    model : numpy.ndarray
        The job's model after the round, read-only.
    model_version : int
        Its version.
    sum : numpy.ndarray or None
        For integers the exact weighted sum, shape ``(dim,)``: uint64 where no sum of such a job has
        more than 64 bits, else an object array of Python integers.
    timings : Timings
        What the round took of this party's time.
    contributors : numpy.ndarray or None
        How many survivors sent each coordinate, uint32, shape ``(dim,)``, where rounds are sparse; the
        mean of a coordinate that too few sent is 0.
    result : str
        The name of the result, 64 hexadecimal digits: parties that were told the same sum of the same
        survivors have the same one, and so has the coordinator's report of the round.
    """

    mean: Array | NDArray[np.float64]
    total_weight: int
    survivors: tuple[str, ...]
    model: Array
    model_version: int
    sum: Sums | None
    timings: Timings
    contributors: NDArray[np.uint32] | None
    result: str


class Round:
    """A round that this party takes part in, from :meth:`Session.rounds`.

    Attributes
    ----------
    number : int
        The round's number; no number comes twice in a job. Key set-ups have numbers too, but take no
        updates and are never given here.
    parties : tuple of str
        Names of the certified parties.
    """

    def __init__(self, native: _native.Round, spec: JobSpec) -> None:
        self._native = native
        self._spec = spec
        self._outcome: RoundResult | None = None
        self.number = native.number
        self.parties = tuple(native.parties)

    @cached_property
    def model(self) -> Array:
        """The model that the round starts from, read-only, shape ``(dim,)``; all parties have the same.

        Empty where the job keeps no model (``model_update="none"``).
        """
        return self._native.model()

    @property
    def needs_update(self) -> bool:
        """Whether :meth:`submit` must be called: not where the update was sent before a crash."""
        return self._native.needs_update()

    def submit(self, update: object, weight: int = 1) -> None:
        """Give this party's update and return as soon as it is checked.

        The memory is copied once, in the native core, so that it may be used again at once.

        Parameters
        ----------
        update
            Anything with the buffer protocol or ``__array__`` and ``dim`` float elements; where the job's
            encoding is ``"integers"``, ``dim`` integers from 0 to ``2**bits - 1``, also as a list.
        weight
            1 to the job's ``max_weight``, e.g. the number of examples.

        Raises
        ------
        blindsum.InputError
            A wrong size, NaN, infinities, integers out of range, or a weight beyond ``max_weight``;
            another update may be submitted then.
        blindsum.RoundAborted, blindsum.Fault
            The round is over already.
        """
        spec = self._spec
        most = spec.max_weight
        integers = spec.encoding == "integers"
        vector = as_integers(update, spec.dim, spec.bits) if integers else as_vector(update, spec.dim)
        try:
            whole = operator.index(weight)
        except TypeError as error:
            raise InputError(f"weight: must be a whole number, not {weight!r}") from error
        if not 1 <= whole <= most:
            raise InputError(f"weight: 1 <= weight = {whole} <= max_weight = {most} must hold")
        self._native.submit(vector, whole)

    def result(self, timeout: float | None = None) -> Array | NDArray[np.float64]:
        """Wait for the weighted mean of the survivors' updates, shape ``(dim,)``.

        It is float32, or float64 where the job's encoding is ``"integers"``; their exact sum is in
        :meth:`outcome`.

        Parameters
        ----------
        timeout
            Seconds to wait at most. Without it the wait ends when all deadlines of the round have
            passed.

        Raises
        ------
        blindsum.RoundAborted
            The round gave no sum, or goes on without this party.
        blindsum.Fault
            Somebody broke the protocol.
        blindsum.WaitTimeoutError
            ``timeout`` is over; the call may be repeated.
        """
        return self.outcome(timeout).mean

    def outcome(self, timeout: float | None = None) -> RoundResult:
        """Wait like :meth:`result` and give everything that is known of the round."""
        if self._outcome is None:
            told = self._native.result(timeout)
            mean, weight, survivors, version, model, sums, timings, counts, name = told
            names, times = tuple(survivors), Timings(*timings)
            self._outcome = RoundResult(mean, weight, names, model, version, sums, times, counts, name)
        return self._outcome

    def abandon(self) -> None:
        """Take no further part in the round: the others go on without this party."""
        self._native.abandon()


class Session:
    """A party's membership in a job, from :func:`join`. Use it in a ``with`` statement.

    Attributes
    ----------
    name : str
        The party's name, as in its certificate.
    spec : JobSpec
        The job, as the coordinator announced it and the policy allowed it.
    """

    def __init__(self, native: _native.Party) -> None:
        self._native = native
        self.name = native.name
        self.spec = JobSpec.from_dict(json.loads(native.spec))

    def next_round(self, timeout: float | None = None) -> Round | None:
        """Wait for the next round; ``None`` where no more will come.

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
        """
        native = self._native.next_round(timeout)
        return None if native is None else Round(native, self.spec)

    @property
    def final_model(self) -> Array | None:
        """The last model of the job, read-only, shape ``(dim,)``, once no more rounds will come.

        ``None`` before that, after :meth:`close`, and where neither this party nor the coordinator knows it:
        a party of a ``flashe`` job that missed the last round.
        """
        return self._native.final_model()

    def rounds(self) -> Iterator[Round]:
        """Give round after round until the job is over.

        A round that is left without :meth:`Round.submit`, by ``continue`` or by an exception, goes on
        without this party.
        """
        while (current := self.next_round()) is not None:
            try:
                yield current
            finally:
                if current.needs_update:
                    current.abandon()

    def close(self) -> None:
        """Leave the job; a round under way goes on without this party."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def join(
    url: str,
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
) -> Session:
    """Join a job at a coordinator, over mutual TLS.

    Parameters
    ----------
    url
        ``https://HOST:PORT``.
    job
        Name of the job.
    identity
        The party's certificate and key: the path of ``NAME.pem`` and ``NAME.key`` without ending, or
        a folder with one such pair.
    ca
        The certificate of the job's CA, or the folder with ``ca.pem``.
    revoked
        The CA's revocation list; once one is used, it must be kept current.
    policy
        What the party agrees to; ``None`` takes the defaults of :class:`Policy`.
    server_name
        The name in the coordinator's certificate, where it is not the host of ``url``.
    state_dir
        A folder in which the party remembers the round under way, so that it can go on after a
        crash, the cohorts it took part in and, where :attr:`JobSpec.hides_sum`, the key of the job and
        the model. Without it a party that comes back gets both from the others.
    give_up_after
        Seconds for which the coordinator is tried, at first and after every lost connection.
    mask_memory
        Bytes of masks that may be computed ahead, while the party trains or waits for others, from
        0.2 s of waiting on; 0 computes them when they are needed. Only ``flashe`` has any.

    Raises
    ------
    blindsum.IdentityError
        Certificates or keys that cannot be used.
    blindsum.NetworkError
        The coordinator is not reached, not trusted, or refuses this party.
    blindsum.PolicyError
        The job breaks the policy.

    Examples
    --------
    ::

        with bs.join("https://agg.example:9443", job="tumour", identity="hospital-a", ca="ca.pem") as job:
            for rnd in job.rounds():
                update = train(rnd.model, data)
                rnd.submit(update, weight=len(data))
                mean = rnd.result()
    """
    memory = operator.index(mask_memory)
    if not 0 <= memory < 2**63:
        raise ConfigError("mask_memory", f"0 <= mask_memory = {memory} < 2**63 must hold, in bytes")
    native = _native.join(
        url,
        job,
        read_pem(identity, ca, revoked),
        server_name,
        (policy or Policy()).to_json(),
        None if state_dir is None else str(state_dir),
        float(give_up_after),
        memory,
    )
    return Session(native)


def read_pem(identity: AnyPath | Identity, ca: AnyPath, revoked: AnyPath | None) -> _native.Pem:
    """Read the PEM texts of an identity, a CA and a revocation list.

    Raises
    ------
    blindsum.IdentityError
        A file that is missing or cannot be read; it is named.
    """
    found = Identity.find(identity)
    authority = Path(ca)
    if authority.is_dir():
        authority /= "ca.pem"
    lists = None if revoked is None else _text(Path(revoked), "revocation list")
    return (
        _text(found.certificate, "certificate"),
        _text(found.key, "key"),
        _text(authority, "CA certificate"),
        lists,
    )


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise IdentityError(f"{what} {path}: cannot be read: {error}") from error
