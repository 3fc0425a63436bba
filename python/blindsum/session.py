"""Take part in a job over the network.

The protocol's stages, pings and reconnections go on in native threads while user code trains. All calls
block, without the GIL; Ctrl-C ends every wait.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

from blindsum import _native, checks
from blindsum.display import Shown
from blindsum.errors import (
    BlindsumError,
    ConfigError,
    Fault,
    PolicyError,
    RoundAborted,
    RoundUnknown,
    WaitTimeoutError,
)
from blindsum.first_model import initial_of
from blindsum.pki import AnyPath, Identity, pem_files
from blindsum.rounds import Array, ClippingLog, Round, ZerosLog, logger
from blindsum.sparse import warn_if_rarely_opened
from blindsum.spec import JobSpec, protocols

OnLost: TypeAlias = Callable[[BlindsumError], object]
"""Called with why a round was lost: :class:`RoundAborted`, :class:`Fault`, or, where this party refused it,
:class:`PolicyError`."""

MASK_MEMORY = 256 << 20
"""Bytes of masks that may be computed ahead, by default: enough for 2**26 words of up to 32 bits."""

MOST_MASK_MEMORY = 2**63 - 1
MPC3_SERVERS = 3


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a party agrees to, whatever the coordinator says.

    The coordinator writes the job. The defaults are for a party that trusts neither the coordinator nor a
    tenth of the parties, at least one of them. The number of parties is taken from the job: a party that
    knows of more parties who may work together says so in ``min_corrupt_parties``. A job that breaks a rule
    is refused with :class:`blindsum.PolicyError`, which names the rule.

    Attributes
    ----------
    allowed_protocols : sequence of str or None
        Protocols that may protect this party's updates; ``None`` allows ``secagg``, ``secagg+``, ``fssa``,
        ``pss``, ``pss-malicious`` and ``mpc3``. The coordinator reads every update of ``plain``, and together
        with any one party every update of ``flashe``: these must be named. In ``mpc3`` two of the three
        servers together read every update, so a party names all three in :func:`join`.
    allowed_rules : sequence of str or None
        What the servers of ``mpc3`` may make of this party's updates; ``None`` allows the rules whose result
        is a mean of many: ``fedavg``, ``weighted``, ``clipped``, ``multi-krum`` and ``trimmed-mean``. The
        others must be named: ``krum`` shows the vector of one party, ``median`` a coordinate of one, and in
        ``fltrust`` and ``cosine`` other parties can bring about that one vector alone counts.
    require_adversary : str or None
        The adversary against which the job must protect: ``"semi-honest"`` or ``"active"``; ``None`` means
        either. ``plain`` protects against neither. In ``flashe`` the job's ``adversary`` is about the key
        set-up, and that is what counts here.
    min_corrupt : float
        The fraction of the parties that may work with the coordinator: the job's ``corrupt`` must be that
        or more. Not compared in ``plain`` and ``flashe``, which tolerate nobody.
    min_corrupt_parties : int
        How many parties may work with the coordinator, however few the job has; the job must tolerate as
        many.
    min_honest : int
        Fewest honest parties in a sum. ``ceil(min_corrupt * parties)`` parties may be corrupt, or
        ``min_corrupt_parties`` where that is more. The smallest sum of the job and every set of survivors
        must have ``min_honest`` parties in addition to them. A coordinate of a sparse job must be sent by
        ``min_honest`` parties before it is opened.
    min_cohort : int
        Smallest number of certified parties in a round. In a sum of two, each party learns the other's
        update.
    min_cohort_change : int
        Fewest honest parties in whatever can be computed from several sums together; at least ``min_honest``.
        By default 0, which allows everything. If vectors change little from round to round, the difference of
        two sums over almost the same parties is one party's update. So this party compares survivors with
        those of all earlier sums in which it took part, and refuses them if a smaller group of parties could
        be told apart from the others. Corrupt parties come on top, as many as for ``min_honest``. A single
        sum is judged by ``min_honest`` alone. In ``plain``, ``flashe`` and ``mpc3`` all parties of the rounds
        are compared, which does not show whom a server leaves out of a sum. Sums are remembered while the
        rule is on, across processes with a ``state_dir``.
    max_weight : int or None
        Largest weight that the job may allow; ``None`` allows all.
    max_dim : int
        Largest ``dim`` of the job, which decides how much memory this party needs: 4 bytes for each
        coordinate of a vector, and several vectors in a round.
    max_message : int
        Bytes of the largest message that the job may ask for or send.
    max_parties : int
        Most ``parties`` of the job.
    max_rounds : int or None
        Most ``rounds`` of the job, also after its operator has extended it; ``None`` allows all numbers, and
        with ``job_hash`` those of the specification. A job of 0 rounds has no end, which is more than any
        number.
    job_hash : str or None
        The hash that the job must have, :attr:`JobSpec.hash`, if the parties agreed on its specification;
        ``None`` accepts any job that keeps the other rules.

    Raises
    ------
    blindsum.ConfigError
        A rule with an impossible value; ``field`` names it, as in ``policy.min_honest``.
    """

    allowed_protocols: Sequence[str] | None = None
    allowed_rules: Sequence[str] | None = None
    require_adversary: str | None = "active"
    min_corrupt: float = 0.1
    min_corrupt_parties: int = 1
    min_honest: int = 2
    min_cohort: int = 3
    min_cohort_change: int = 0
    max_weight: int | None = None
    max_dim: int = 2**28
    max_message: int = 2**32
    max_parties: int = 10_000
    max_rounds: int | None = None
    job_hash: str | None = None

    def __post_init__(self) -> None:
        for field, known in (("allowed_protocols", protocols()), ("allowed_rules", tuple(_native.rules()))):
            if getattr(self, field) is not None:
                _check_names(field, getattr(self, field), known)
        if self.require_adversary not in (None, "semi-honest", "active"):
            rule = f"{self.require_adversary!r} must be 'active', 'semi-honest' or None"
            raise ConfigError("policy.require_adversary", rule)
        if self.job_hash is not None and not re.fullmatch("[0-9a-fA-F]{64}", str(self.job_hash)):
            rule = f"{self.job_hash!r} must be 64 hexadecimal digits, as JobSpec.hash"
            raise ConfigError("policy.job_hash", rule)
        if checks.fraction("policy.min_corrupt", self.min_corrupt) == 1:
            raise ConfigError("policy.min_corrupt", "1 must be below 1: with 1 every party may be corrupt")
        for name in _COUNTS:
            checks.setting(f"policy.{name}", getattr(self, name), 0, MOST_COUNTED)
        if self.max_weight is not None:
            checks.setting("policy.max_weight", self.max_weight, 1, 2**32 - 1)
        if self.max_rounds is not None:
            checks.setting("policy.max_rounds", self.max_rounds, 1, 2**32 - 1)

    def to_json(self) -> str:
        """Every rule, as a JSON object."""
        rules = dataclasses.asdict(self)
        for field in ("allowed_protocols", "allowed_rules"):
            if rules[field] is None:
                del rules[field]
        return json.dumps(rules)


MOST_COUNTED = 2**63 - 1

_COUNTS = (
    *("min_corrupt_parties", "min_honest", "min_cohort", "min_cohort_change"),
    *("max_dim", "max_message", "max_parties"),
)
"""Rules that are whole numbers."""


def _check_names(field: str, names: object, known: tuple[str, ...]) -> None:
    right = isinstance(names, Sequence) and not isinstance(names, str) and len(names) > 0
    if not right or any(name not in known for name in names):  # type: ignore[attr-defined]
        rule = f"{names!r} must be a list of some of {', '.join(known)}"
        raise ConfigError(f"policy.{field}", rule)


class Session(Shown):
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
        self._clipping = ClippingLog(self.spec)
        self._zeros = ZerosLog(self.spec)
        warn_if_rarely_opened(self.spec)
        self._held: Round | BlindsumError | None = None

    def _shown(self) -> dict[str, object]:
        spec = self.spec
        size = f"{spec.protocol}, up to {spec.parties} parties, {spec.dim} coordinates"
        return {"party": self.name, "job": spec.job, "protocol": size, "hash": spec.hash}

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

    def _next_round(self, timeout: float | None = None) -> Round | BlindsumError | None:
        """The next round, or why this party takes no part in it."""
        if (held := self._held) is not None:
            self._held = None
            return held
        native = self._native.next_round(timeout)
        if native is None or isinstance(native, BlindsumError):
            return native
        current = Round(native, self.spec, self._clipping)
        self._zeros.look_at(current, native.model_version)
        return current

    @property
    def final_model(self) -> Array | None:
        """The last model of the job, read-only, shape ``(dim,)``, once no more rounds will come.

        ``None`` before that, after :meth:`close`, and where neither this party nor the coordinator knows it:
        a party of a ``flashe`` job that missed the last round.
        """
        return self._native.final_model()

    def rounds(self, on_lost: OnLost | None = None) -> Iterator[Round]:
        """Give round after round until the job is over, whatever becomes of a single one.

        A round may be lost: too few parties were left, this party was too slow, the coordinator was
        started again, somebody broke the protocol, or this party's policy refused the round. The loop goes
        on with the next one, which begins with the same model; :meth:`Round.result` is ``None`` then and
        :attr:`Round.lost` says why. What concerns more than one round is raised: a coordinator that is lost
        for good or cannot be trusted, a state folder that cannot be written.

        A round that is left without :meth:`Round.submit`, by ``continue`` or by an exception, goes on
        without this party, as after :meth:`Round.skip`.

        Parameters
        ----------
        on_lost
            Called once for every round that was lost, with its error, after the body of the loop. For a round
            from before a restart that counts this party's update it is called before the body. An exception
            in it ends the loop. ``None`` writes a warning to the logger ``blindsum``, which Python shows on
            standard error unless told otherwise.

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
        while (found := self._after(before, lost)) is not None:
            try:
                if before is not None and (error := settled(before)) is not None:
                    lost(error)
            except BaseException:
                # The next round has begun: it is that of the next call.
                self._held = found
                raise
            before = None
            if isinstance(found, BlindsumError):
                if not isinstance(found, OF_ONE_ROUND):
                    raise found
                lost(found)
                continue
            try:
                yield found
            finally:
                found.skip()
            if found.lost is not None:
                lost(found.lost)
            else:
                before = found
        if before is not None and (error := settled(before)) is not None:
            lost(error)

    def _after(self, before: Round | None, lost: OnLost) -> Round | BlindsumError | None:
        """Wait for the next round; an end of the session does not hide what became of the one before."""
        try:
            return self._next_round()
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
        self._native.close("closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The coordinator is told what ended this party, and nothing of the error's text, which may show data.
        if kind is None or issubclass(kind, GeneratorExit):
            self._native.close("closed")
        elif issubclass(kind, KeyboardInterrupt | SystemExit):
            self._native.close("stopped")
        else:
            self._native.close(f"its program ended with {kind.__name__}")


OF_ONE_ROUND = (PolicyError, RoundAborted, Fault)


def settled(current: Round) -> BlindsumError | None:
    """Why a round whose result nobody asked for was lost, if it was."""
    if not current.submitted:
        return None
    with suppress(WaitTimeoutError):
        current.result(timeout=0)
    return current.lost


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
    initial: object = None,
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
    initial
        A model that this party can give a job with ``initial = "first-party"``: ``dim`` floats, something
        with ``.values()`` that gives them, or a function that gives either and is called once, before the
        party connects. The coordinator asks one party for it. The first model is not secret: the coordinator
        and all parties learn it, and who gave it.

    Raises
    ------
    blindsum.InputError
        ``initial`` is no vector of the job's ``dim`` finite floats, or the job takes no model from a party.
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
        float(give_up_after),
        memory,
        servers,
        checks.line("location", location),
        initial_of(initial),
    )
    return Session(native)


def addresses(url: str | Sequence[str]) -> tuple[str, list[str]]:
    """The coordinator's URL, and all servers' where there are several.

    Raises
    ------
    blindsum.ConfigError
        It is neither one URL nor a list of them.
    """
    if isinstance(url, str):
        return url, []
    servers = list(url) if isinstance(url, Sequence) else []
    if not servers or not all(isinstance(one, str) for one in servers):
        raise ConfigError("url", f"{url!r} must be a URL, or a list of three")
    if len(servers) != MPC3_SERVERS:
        rule = (
            f"{len(servers)} URLs: give the three servers of an mpc3 job, in order; of every other job, e.g. "
            "paillier, give the coordinator's URL alone"
        )
        raise ConfigError("url", rule)
    return servers[0], servers
