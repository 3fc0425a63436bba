"""One real round of a job, and what each of its servers gets of each party."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blindsum import pki
from blindsum.attack.tap import Tap
from blindsum.attack.wire import messages
from blindsum.coordinator import Coordinator
from blindsum.errors import BlindsumError
from blindsum.joining import join
from blindsum.policy import Policy
from blindsum.rounds import RoundResult
from blindsum.server import Server
from blindsum.spec import JobSpec, protocols
from blindsum.testing.cluster import OTHER_SERVERS

COORDINATOR = "coordinator"
PATIENCE = 60.0
"""Seconds that a party waits for a round, and again for its result."""


@dataclass(frozen=True)
class Observed:
    """What was sent in one round, and what came of it.

    Attributes
    ----------
    messages : dict of str to dict of str to list of bytes
        By server (``"coordinator"``, and for ``mpc3`` ``"server-1"`` and ``"server-2"``) and by party: the
        messages of the round that the server got from the party, in order, with their frames of 34 bytes.
    mean : numpy.ndarray
        The mean that the parties got, float64, shape ``(dim,)``.
    """

    messages: dict[str, dict[str, list[bytes]]]
    mean: NDArray[np.float64]


def names(parties: int) -> list[str]:
    """The names of the parties of a job, in the order of their ranks."""
    return [f"party-{index:03}" for index in range(parties)]


def observe(spec: JobSpec, updates: Sequence[NDArray[np.float32]], model: NDArray[np.float32]) -> Observed:
    """Run one round over mutual TLS on this machine, with a tap on each server.

    Parameters
    ----------
    spec
        The job, of one round.
    updates
        The update of each party, float32, shape ``(dim,)``.
    model
        The model that the round starts from, float32, shape ``(dim,)``.

    Raises
    ------
    blindsum.BlindsumError
        The round has no sum, or a server or a party ended with an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _observe(spec, updates, model, Path(folder))


def _observe(
    spec: JobSpec, updates: Sequence[NDArray[np.float32]], model: NDArray[np.float32], folder: Path
) -> Observed:
    certificates = folder / "pki"
    parties = names(len(updates))
    hosts = {COORDINATOR: "127.0.0.1"}
    pki.init(certificates)
    pki.issue(certificates, COORDINATOR, hosts=["localhost", "127.0.0.1"])
    for place, host in OTHER_SERVERS.items() if spec.needs_servers else ():
        hosts[f"server-{place}"] = host
        pki.issue(certificates, f"server-{place}", hosts=[host], computes=True)
    for name in parties:
        pki.issue(certificates, name)
    with ExitStack() as running:
        tap = running.enter_context(Tap(certificates))
        urls = [_url(server, host, tap.listen(server, host)) for server, host in hosts.items()]
        coordinator = Coordinator(
            spec,
            identity=certificates / COORDINATOR,
            ca=certificates,
            model=model,
            servers=urls if spec.needs_servers else (),
        )
        running.enter_context(coordinator)
        tap.lead(COORDINATOR, coordinator.address)
        for place, (server, host) in enumerate(hosts.items()):
            if place == 0:
                continue
            other = Server(
                spec,
                servers=urls,
                place=place,
                identity=certificates / server,
                ca=certificates,
                state_dir=folder / server,
                listen=f"{host}:0",
            )
            running.enter_context(other)
            tap.lead(server, other.address)
        learners = [
            _Learner(spec, urls, certificates, name, update)
            for name, update in zip(parties, updates, strict=True)
        ]
        for learner in learners:
            learner.start()
        for learner in learners:
            learner.join()
    means = [learner.mean() for learner in learners]
    got = {server: {name: _messages(tap, server, name) for name in parties} for server in hosts}
    return Observed(got, means[0])


def _url(server: str, host: str, port: int) -> str:
    return f"https://{'localhost' if server == COORDINATOR else host}:{port}"


class _Learner(threading.Thread):
    """A party that takes part in one round."""

    def __init__(
        self, spec: JobSpec, urls: list[str], certificates: Path, name: str, update: NDArray[np.float32]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._spec, self._urls, self._certificates, self._update = spec, urls, certificates, update
        self._result: RoundResult | None = None
        self._error: BlindsumError | None = None

    def run(self) -> None:
        # The job is this process's own: the parties take it whatever it is.
        policy = Policy(
            allowed_protocols=protocols(),
            require_adversary=None,
            min_corrupt=0.0,
            min_honest=0,
            min_cohort=1,
        )
        try:
            with join(
                self._urls if len(self._urls) > 1 else self._urls[0],
                job=self._spec.job,
                identity=self._certificates / self.name,
                ca=self._certificates,
                policy=policy,
            ) as session:
                session.model(PATIENCE)
                self._result = session.aggregate(self._update, timeout=PATIENCE)
                self._error = session.lost
                if self._result is not None:
                    # The end of the job, so that the coordinator waits for nobody.
                    session.model(PATIENCE)
        except BlindsumError as error:
            self._error = error

    def mean(self) -> NDArray[np.float64]:
        """The mean that the party got."""
        if self._result is None:
            why = self._error or "the job was over"
            raise BlindsumError(f"{self.name} got no sum of the round: {why}")
        return np.asarray(self._result.mean, np.float64)


def _messages(tap: Tap, server: str, party: str) -> list[bytes]:
    """The messages of the latest round that a server got from a party: a key set-up comes before it."""
    found = [
        one
        for came in tap.came(server, party)
        for one in messages(came, to_coordinator=server == COORDINATOR)
    ]
    latest = max((number for number, _ in found), default=0)
    return [message for number, message in found if number == latest]
