"""Sums over Blindsum's own connection, inside one train message of Flower: both sides.

Each round of the strategy is a job of its own, of one round and of exactly the nodes that were sampled.
Its name has the run and the number of the round, and every key of the protocol depends on it. So a node
that comes late finds its job over; its update never gets into the sum of a later round.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from blindsum import joining, session
from blindsum.arrays import Vector
from blindsum.coordinator import Coordinator
from blindsum.errors import (
    BlindsumError,
    ConfigError,
    Fault,
    InputError,
    NetworkError,
    ResultMissed,
    RoundAborted,
    RoundLost,
)
from blindsum.flower.texts import logger
from blindsum.hosted import HostedResult
from blindsum.pki import AnyPath
from blindsum.pki.contents import show
from blindsum.pki.identity import Identity as Pair
from blindsum.policy import Policy
from blindsum.rounds import Round, RoundResult
from blindsum.spec import JobSpec

LOOK = 0.1
"""Seconds after which to look whether nodes have failed, where none has come or gone."""


@dataclass(frozen=True)
class Identity:
    """The files that one side shows: as in :func:`blindsum.join`."""

    identity: AnyPath
    ca: AnyPath
    revoked: AnyPath | None = None


@dataclass(frozen=True)
class Sum:
    """The sum of a round, as the coordinator has it.

    Attributes
    ----------
    mean : numpy.ndarray
        The weighted mean of the survivors' updates, shape ``(dim,)``.
    total_weight : int
        The sum of their weights.
    survivors : tuple of str
        Names of the nodes whose updates are in it.
    metrics : mapping of str to float or None
        The weighted mean of each metric.
    result : str
        As in :attr:`blindsum.RoundResult.result`.
    """

    mean: Vector
    total_weight: int
    survivors: tuple[str, ...]
    metrics: Mapping[str, float | None]
    result: str


class Rounds:
    """The coordinator of a run's rounds, in the ServerApp's process. All that touches a coordinator is here.

    A round begins as soon as each node that was sampled has come or has failed. Names of nodes are those of
    their certificates, which Flower does not know: a round is of those that have joined its job.

    Parameters
    ----------
    identity
        What nodes are shown.
    listen
        ``HOST:PORT`` at which it listens.
    url
        Where nodes reach it; ``""`` takes the port of ``listen`` on this machine.

    Raises
    ------
    blindsum.ConfigError
        The certificate is not of the host in ``url``.
    """

    def __init__(self, identity: Identity, listen: str, url: str) -> None:
        self._identity = identity
        self._listen = listen
        self._url = url
        self._coordinator: Coordinator | None = None
        self._host: threading.Thread | None = None
        self._ended = threading.Event()
        self._failed = set[object]()
        self._known: Mapping[int, str] = {}
        self._found: HostedResult | None = None
        self._why = ""
        self.began = False
        check_host(url, identity.identity)

    def begin(self, spec: JobSpec, known: Mapping[int, str] | None = None) -> str:
        """Wait in a thread for the parties of a round, and give the URL at which they reach it.

        Parameters
        ----------
        spec
            The job of the round; its ``parties`` are the nodes that were sampled.
        known
            Names of parties by their nodes, as far as they are known; only of nodes that were sampled.

        Raises
        ------
        blindsum.IdentityError, blindsum.ConfigError, blindsum.NetworkError
            The coordinator cannot start.
        """
        self.end()
        self._ended, self._found, self._why = threading.Event(), None, ""
        self._failed, self._known, self.began = set(), dict(known or {}), False
        self._coordinator = Coordinator(
            spec,
            identity=self._identity.identity,
            ca=self._identity.ca,
            revoked=self._identity.revoked,
            listen=self._listen,
            hosted=True,
        )
        self._host = threading.Thread(target=self._run, args=(self._coordinator, spec), daemon=True)
        self._host.start()
        port = self._coordinator.address.rpartition(":")[2]
        return self._url or f"https://127.0.0.1:{port}"

    def failed(self, node: int | None = None) -> None:
        """Wait for one node less: Flower has said that it failed.

        Parameters
        ----------
        node
            The node, which counts once; ``None`` is always another one.
        """
        self._failed.add(object() if node is None else node)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the round, so many seconds at most, and give whether it has ended."""
        return self._ended.wait(seconds)

    def result(self) -> Sum | str:
        """The sum of the round, or why there is none."""
        found = self._found
        if found is None or found.mean is None or found.total_weight is None:
            return self._why or "the round has not ended"
        return Sum(found.mean, found.total_weight, found.survivors, found.metrics, found.result)

    def end(self) -> None:
        """Stop the coordinator; parties that are still there are told."""
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            coordinator.stop()
        if self._host is not None:
            self._host.join()
            self._host = None

    def _run(self, coordinator: Coordinator, spec: JobSpec) -> None:
        """Begin the round when nobody more is to come, and wait for its result."""
        try:
            parties = self._come(coordinator, spec)
            if len(parties) < spec.least_roster:
                came = f"{len(parties)} of {spec.parties}"
                self._why = f"too few nodes came: {came}, and a round needs {spec.least_roster}"
                # Those that came would wait for a coordinator that comes again.
                coordinator.end(self._why)
                return
            self.began = True
            self._found = coordinator.begin(parties).result()
        except RoundLost as lost:
            self._why = "; ".join([lost.reason, *(f"{name}: {why}" for name, why in lost.lost.items())])
        except BlindsumError as error:
            self._why = str(error)
        finally:
            self._ended.set()

    def _come(self, coordinator: Coordinator, spec: JobSpec) -> list[str]:
        """Wait until each node is there or has failed, and give those that are there.

        Processes of nodes take their time to start, so the deadline runs from when enough have come.
        """
        end = math.inf
        here: list[str] = []
        for status in coordinator.statuses(LOOK):
            if status is not None:
                here = self._sampled(list(status["connected"]), spec.parties)
            if len(here) >= spec.least_roster:
                end = min(end, time.monotonic() + spec.join_deadline)
            if len(here) + self._gone(here) >= spec.parties or time.monotonic() >= end:
                break
        return here

    def _sampled(self, connected: list[str], most: int) -> list[str]:
        """Of the parties that are connected those that can be of nodes that were sampled, known ones first.

        Names of nodes that are not known take the places that known ones leave, and no more.
        """
        known = set(self._known.values())
        named = [name for name in connected if name in known]
        others = [name for name in connected if name not in known]
        return named + others[: max(0, most - len(known))]

    def _gone(self, here: list[str]) -> int:
        """How many nodes have failed. One whose party is connected has not, whatever it replied."""
        return sum(
            not (isinstance(node, int) and self._known.get(node) in here) for node in list(self._failed)
        )


def check_host(url: str, identity: AnyPath) -> None:
    """Refuse a URL whose host is not in the coordinator's certificate: every node would refuse it.

    Raises
    ------
    blindsum.ConfigError
        It is not; ``field`` is ``"blindsum-url"``.
    """
    host = urlsplit(url).hostname if url else "127.0.0.1"
    hosts = [str(one) for one in show(Pair.find(identity).certificate).get("names", [])]
    if host not in hosts:
        rule = (
            f"{url or 'https://127.0.0.1'} is not in the coordinator's certificate, which is for "
            f"{', '.join(hosts) or 'no host'}: give a URL with one of these hosts, or issue a certificate "
            f"with it: blindsum pki issue --host {host}"
        )
        raise ConfigError("blindsum-url", rule)


@dataclass(frozen=True)
class Invitation:
    """The round that a node is asked into.

    Attributes
    ----------
    urls : tuple of str
        The coordinator, and behind it the other servers of the job, where it has some.
    job : str
        The name of the job.
    job_hash : str
        The hash of the job's specification.
    timeout : float
        Seconds that the node waits for the round, and again for its result.
    tag : int or None
        The tag of the round, in a job of many rounds.
    about : object
        What the round is about, beside a tag.
    state : str or None
        A folder in which the node remembers rounds, beside a tag.
    """

    urls: tuple[str, ...]
    job: str
    job_hash: str
    timeout: float
    tag: int | None = None
    about: object = None
    state: str | None = None


Train = Callable[[], Any]
"""Trains: the user's function with the mods that come after Blindsum's."""

Prepare = Callable[[Any, JobSpec], "tuple[Vector, int, Mapping[str, float]]"]
"""Makes update, weight and metrics of what training replied."""


class Guard:
    """What a node checks on its way through a round; this one allows everything. Each method may raise."""

    def accept(self, spec: JobSpec) -> None:
        """Look at the job, before training."""

    def enter(self, parties: Sequence[str]) -> None:
        """Look at the parties of the round, before the update is given."""

    def lost(self, parties: Sequence[str]) -> None:
        """Hear that the round to which the update was to be given has come to nothing."""


def take_part(
    invitation: Invitation,
    identity: Identity,
    policy: Policy,
    give_up_after: float,
    train: Train,
    prepare: Prepare,
    guard: Guard | None = None,
) -> tuple[Any, str, RoundResult | None]:
    """Join the round, train while others come, submit, and wait for the sum: a node's side.

    Where training fails the node waits until the round has begun before it leaves: the others then go on
    without it at once.

    Returns
    -------
    tuple
        What training replied, the name of this party, and the result; ``None`` for a weight of 0.

    Raises
    ------
    blindsum.BlindsumError
        The node takes no part, or the round was lost; as for :func:`blindsum.join` and
        :meth:`blindsum.Round.outcome`.
    """
    with joining.join(
        invitation.urls if len(invitation.urls) > 1 else invitation.urls[0],
        job=invitation.job,
        identity=identity.identity,
        ca=identity.ca,
        revoked=identity.revoked,
        policy=policy,
        give_up_after=give_up_after,
        mask_memory=0,
        state_dir=invitation.state,
    ) as job:
        if job.spec.hash != invitation.job_hash:
            raise NetworkError(
                f"the coordinator at {invitation.urls[0]} has another job {invitation.job!r} than the "
                "ServerApp says: two runs use one address; give each its own blindsum-url"
            )
        guard = guard or Guard()
        guard.accept(job.spec)
        waiting = _Waiting(job, invitation)
        try:
            reply = train()
            update = None if reply.has_error() else prepare(reply, job.spec)
        except BaseException:
            waiting.sit_out()
            raise
        if update is None or update[1] == 0:
            waiting.sit_out()
            return reply, job.name, None
        current = waiting.round()
        vector, weight, metrics = update
        try:
            guard.enter(current.parties)
        except Exception:
            current.skip()
            raise
        try:
            current.submit(vector, weight, metrics)
            return reply, job.name, current.outcome(invitation.timeout)
        except (InputError, RoundAborted, Fault) as error:
            # In a result that this party missed its update counts.
            if not isinstance(error, ResultMissed):
                guard.lost(current.parties)
            raise


class _Waiting:
    """Waits for the round in a thread, so that the stages of keys run while training does."""

    def __init__(self, job: session.Session, invitation: Invitation) -> None:
        self._job, self._invitation = job, invitation
        self._found: Round | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        try:
            asked = self._invitation
            self._found = self._job.next_round(asked.timeout, tag=asked.tag, about=asked.about)
        # It is raised in the thread that asks for the round.
        except BaseException as error:  # noqa: BLE001
            self._error = error

    def round(self) -> Round:
        """The round, once it has begun."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self._found is None:
            raise NetworkError("the job is over: too few nodes came, or the others went on without this one")
        return self._found

    def sit_out(self) -> None:
        """Take no part in the round."""
        try:
            self.round().skip()
        except BlindsumError as error:
            logger.info("takes no part: %s", error)
