"""Rounds of a coordinator that stands, which the ServerApp hosts as an operator: for jobs of others.

The job is in the coordinator's configuration, with all its options. So it may be one of ``mpc3``, whose
servers stand beside it. One job serves all rounds, and all runs of the app: the tag of a round is the time at
which it was begun, in milliseconds.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from blindsum.admin import Admin
from blindsum.errors import BlindsumError, CallError, ConfigError, RoundLost, WaitTimeoutError
from blindsum.flower.direct import Sum
from blindsum.flower.settings import RunSettings
from blindsum.flower.texts import logger
from blindsum.framework_jobs import MIN_PARTIES
from blindsum.hosted import HostedResult, PendingRound
from blindsum.spec import JobSpec

MAX_MISSED = 10
"""Looks in a row that may fail before a round begins."""

LOOK = 0.5
"""Seconds between two looks at who has connected."""

LOOK_AGAIN = 5.0
"""Seconds between two looks at whether nodes that have failed are connected, each over a new connection."""

WAITS_NO_MORE = "the ServerApp waits for it no more"
"""Why a round is called off."""

LATER = 0.5
"""Seconds after which a round is begun again, where another one is under way."""


class StandingRounds:
    """The rounds of a run at a coordinator that stands.

    Names of nodes are those of their certificates. A node says its name in its first reply; until then
    the round is of those that have connected and are no other node of the round. First come those that no
    node is known as, and then those of nodes that are not in the round: Flower gives a node that was started
    again a new id.

    Parameters
    ----------
    settings
        The settings of the run: ``coordinator``, ``admin``, ``standing_job``, ``operator_identity``,
        ``coordinator_ca``.

    Raises
    ------
    blindsum.IdentityError
        A file of the operator's certificate is missing or damaged.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._job = settings.standing_job
        self._url = settings.coordinator
        self._admin = Admin(settings.admin, identity=settings.operator_identity, ca=settings.coordinator_ca)
        self._tag = 0
        self._round: _StandingRound | None = None

    @property
    def began(self) -> bool:
        """Whether the round has begun."""
        return self._round is not None and self._round.pending is not None

    def spec(self, dim: int, nodes: int) -> JobSpec:
        """The job as the coordinator has it.

        Parameters
        ----------
        dim
            Coordinates of an update.
        nodes
            The nodes of the round.

        Raises
        ------
        blindsum.ConfigError
            It cannot serve this round; ``field`` is the key of the run, or ``"arrays"``.
        blindsum.OrderError, blindsum.NetworkError
            There is no such job, or the coordinator cannot be reached.
        """
        told = self._admin.describe(self._job)
        spec = JobSpec.from_dict(told["specification"])
        if not told["hosted"]:
            raise ConfigError(
                "blindsum-standing-job",
                f"{self._job!r} begins its rounds by itself: start its coordinator with blindsum serve "
                "--hosted, or with hosted = true beside the job in its configuration",
            )
        if spec.model_update != "none":
            raise ConfigError(
                "blindsum-standing-job",
                f"{self._job!r} keeps a model (model_update = {spec.model_update!r}), and in Flower the "
                'strategy does: give the job model_update = "none"',
            )
        if spec.dim != dim:
            raise ConfigError(
                "arrays",
                f"have {dim} coordinates of floats, and the job {self._job!r} at {self._url} has {spec.dim}: "
                f"give the job dim = {dim}",
            )
        least = max(spec.least_roster, min(MIN_PARTIES, spec.parties))
        if not least <= nodes <= spec.parties:
            raise ConfigError(
                "min_train_nodes",
                f"the strategy samples {nodes} nodes, and a round of the job {self._job!r} has {least} to "
                f"{spec.parties}: change fraction_train, or the parties of the job",
            )
        return spec

    def begin(
        self, spec: JobSpec, nodes: Sequence[int], names: Mapping[int, str], about: object, timeout: float
    ) -> dict[str, Any]:
        """Begin a round of these nodes in a thread, and give what their messages say of it.

        Parameters
        ----------
        spec
            From :meth:`spec`.
        nodes
            The nodes that were sampled.
        names
            Names of parties by their nodes, as far as they are known; also of nodes that were not sampled.
        about
            What the nodes train on.
        timeout
            Seconds after which the round ends.
        """
        self.end()
        self._tag = max(self._tag + 1, time.time_ns() // 1_000_000)
        self._round = _StandingRound(self._admin, spec, self._tag, about, timeout, names)
        self._round.start(nodes)
        return {"url": self._url, "job": spec.job, "job-hash": spec.hash, "tag": self._tag}

    def failed(self, node: int | None = None) -> None:
        """Flower has said that a node failed: nobody waits for it."""
        if self._round is not None and node is not None:
            self._round.failed(node)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the round, so many seconds at most, and give whether it has ended."""
        return self._round is None or self._round.ended.wait(seconds)

    def result(self) -> Sum | str:
        """The sum of the round, or why there is none."""
        return "the round has not begun" if self._round is None else self._round.result()

    def end(self) -> None:
        """End the round under way, if it has no result."""
        found, self._round = self._round, None
        if found is not None:
            found.end()


class _StandingRound:
    """One round."""

    def __init__(
        self,
        admin: Admin,
        spec: JobSpec,
        tag: int,
        about: object,
        timeout: float,
        names: Mapping[int, str],
    ) -> None:
        self._admin, self._spec, self._tag, self._about = admin, spec, tag, about
        self._names = dict(names)
        self._until = time.monotonic() + timeout
        # From when enough have come, nobody waits longer than this for the others.
        self._late = math.inf
        self._lock = threading.Lock()
        self._failed = dict[int, str]()
        self._found: HostedResult | None = None
        self._why = "the round has not ended"
        self._over = False
        self._told = False
        self._thread: threading.Thread | None = None
        self.pending: PendingRound | None = None
        self.ended = threading.Event()

    def start(self, nodes: Sequence[int]) -> None:
        """Begin it in a thread."""
        self._thread = threading.Thread(target=self._run, args=(tuple(nodes),), daemon=True)
        self._thread.start()

    def failed(self, node: int) -> None:
        """A node has failed."""
        with self._lock:
            self._failed[node] = self._names.get(node, "")

    def result(self) -> Sum | str:
        """The sum, or why there is none."""
        found = self._found
        if found is None or found.mean is None or found.total_weight is None:
            return self._why
        return Sum(found.mean, found.total_weight, found.survivors, found.metrics, found.result)

    def end(self) -> None:
        """Wait for it no more."""
        with self._lock:
            self._over = True
            pending = self.pending
        if pending is not None and not self.ended.is_set():
            pending.call_off(WAITS_NO_MORE)
        if self._thread is not None:
            self._thread.join()

    def _run(self, nodes: tuple[int, ...]) -> None:
        is_under_way = True
        try:
            pending = self._begin(nodes)
            if pending is not None:
                self._found = self._wait(pending)
            is_under_way = False
        except RoundLost as lost:
            is_under_way = False
            self._why = "; ".join([lost.reason, *(f"{name}: {why}" for name, why in lost.lost.items())])
        except BlindsumError as error:
            self._why = str(error)
        finally:
            # Nobody else has it in hand, and the job would be busy with it until its deadline.
            if is_under_way and self.pending is not None:
                self.pending.call_off(WAITS_NO_MORE)
            self.ended.set()

    def _begin(self, nodes: tuple[int, ...]) -> PendingRound | None:
        """Begin it, once that of a ServerApp before is over; ``None`` where it cannot begin any more."""
        while True:
            parties = self._come(nodes)
            if len(parties) < self._spec.least_roster:
                came = f"{len(parties)} of {len(nodes)}"
                self._why = f"too few nodes came: {came}, and a round needs {self._spec.least_roster}"
                return None
            left = self._until - time.monotonic()
            within = min(self._spec.join_deadline, max(left / 2, 1.0))
            with self._lock:
                if self._over or left <= 0:
                    self._why = "its time was over before it could begin"
                    return None
                try:
                    self.pending = self._admin.begin(
                        *(self._spec.job, parties),
                        tag=self._tag,
                        about=self._about,
                        join_within=within,
                        deadline=left,
                    )
                except CallError as error:
                    if error.code != "busy":
                        raise
                    logger.info("%s", error)
                else:
                    return self.pending
            time.sleep(LATER)

    def _wait(self, pending: PendingRound) -> HostedResult:
        """Wait for its result, and report who has failed meanwhile."""
        reported, seen = set[str](), set[str]()
        again = -math.inf
        while True:
            try:
                return pending.result(LOOK)
            except WaitTimeoutError:
                failed, now = self._names_of_failed(), time.monotonic()
            if not (failed & set(pending.parties)) - reported or (failed == seen and now < again):
                continue
            seen, again = failed, now + LOOK_AGAIN
            for name in self._gone() & set(pending.parties) - reported:
                try:
                    pending.report_failed(name, "its node has failed")
                except BlindsumError as error:
                    # It is reported after the next look.
                    logger.debug("%s could not be reported as failed: %s", name, error)
                else:
                    reported.add(name)

    def _names_of_failed(self) -> set[str]:
        """What the nodes that have failed have said that they are."""
        with self._lock:
            return {name for name in self._failed.values() if name}

    def _gone(self) -> set[str]:
        """The parties of nodes that have failed; nobody, where the coordinator does not say who is connected.

        A party that is connected is not gone, whatever a node says that has its name. If it leaves, the
        coordinator notices by itself.
        """
        failed = self._names_of_failed()
        try:
            return failed - set(self._connected()) if failed else failed
        except BlindsumError as error:
            if not self._told:
                self._told = True
                logger.debug(
                    "no node is reported as failed until the coordinator names the connected parties: %s",
                    error,
                )
            return set()

    def _connected(self) -> list[str]:
        """The parties that are connected to the job."""
        found: list[str] = self._admin.describe(self._spec.job)["connected"]
        return found

    def _come(self, nodes: tuple[int, ...]) -> list[str]:
        """The parties of the nodes. Those of unknown nodes are who has connected and is no other of these.

        A name of a node that is not in the round excludes nobody, so that a node with a new id takes part.
        """
        names, elsewhere = self._names, set(self._names.values())
        known = [names[node] for node in nodes if node in names]
        unknown = [node for node in nodes if node not in names]
        here, connected, missed = list[str](), list[str](), 0
        while unknown:
            try:
                connected, missed = self._connected(), 0
            except BlindsumError as error:
                missed += 1
                if missed > MAX_MISSED:
                    raise
                logger.debug("who is connected is asked again, after %d failed answers: %s", missed, error)
            free = set(connected) - set(known)
            here = sorted(free, key=lambda name: (name in elsewhere, name))[: len(unknown)]
            with self._lock:
                failed = sum(node in self._failed for node in unknown)
                over = self._over
            now = time.monotonic()
            if len(known) + len(here) >= self._spec.least_roster:
                self._late = min(self._late, now + self._spec.join_deadline)
            if over or len(here) + failed >= len(unknown) or now >= min(self._late, self._until):
                break
            time.sleep(LOOK)
        gone = self._gone()
        return [name for name in (*known, *here) if name not in gone]
