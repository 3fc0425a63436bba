"""A job of machines in one process, whose coordinator is replaced twice for every sum.

Parties are those of a real job, with certificates, and with noise from the system's random numbers. Only the
clock is virtual, and frames are handed over in memory.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import blindsum as bs
from blindsum import machines, pki
from experiments.canaries import Floats

STEPS = 5_000
"""Passes after which a job that has not ended is given up."""


@dataclass
class Party:
    """A party, its frames, the rounds to which it has sent an update, and the sums that it was told."""

    machine: machines.PartyMachine
    is_lost: bool
    inbox: deque[bytes] = field(default_factory=deque)
    sent: set[int] = field(default_factory=set)
    totals: dict[int, Floats] = field(default_factory=dict)
    is_over: bool = False

    def heed(self, dim: int) -> None:
        """Do what events ask for: send zeros, or nothing where the party is to be lost."""
        self.machine.want_round()
        for event in self.machine.events():
            match event:
                case machines.RoundBegins(number=number, needs_update=True) if not self.is_lost:
                    self.machine.submit(number, np.zeros(dim))
                    self.sent.add(number)
                case machines.RoundEnded(number=number, result=result):
                    mean = np.asarray(result.mean, np.float64)
                    self.totals[number] = mean * len(result.survivors)
                    self.machine.took(number)
                    self.machine.want_round()
                case machines.RoundLost() | machines.RoundRefused():
                    self.machine.want_round()
                case machines.JobDone():
                    self.is_over = True
                case machines.Failed(error=error):
                    raise error


class Restarted:
    """The job: all parties send zeros, and some are lost before they do.

    Parameters
    ----------
    spec
        The job.
    lost
        Ranks of those who never send an update.
    folder
        Where certificates go.
    """

    def __init__(self, spec: bs.JobSpec, lost: Collection[int], folder: Path) -> None:
        self._spec = spec
        self._now, self._begun = 0.0, time.time()
        ca = folder / "ca"
        pki.init(ca)
        self._ca = ca / "ca.pem"
        policy = bs.Policy(
            allowed_protocols=[spec.protocol.name],
            require_adversary=None,
            min_corrupt=0.0,
            min_corrupt_parties=0,
            min_honest=0,
            min_cohort=1,
        )
        self._parties: list[Party] = []
        self._certificates: list[str] = []
        for rank in range(spec.parties):
            name = f"party-{rank}"
            pki.issue(ca, name)
            machine = machines.PartyMachine.open(spec.job, identity=ca / name, ca=self._ca, policy=policy)
            self._parties.append(Party(machine, rank in lost))
            self._certificates.append((ca / f"{name}.pem").read_text())
        self._links: dict[int, Party] = {}
        self._server = self._opened(None)
        self._restarted: set[tuple[int, bool]] = set()

    def run(self) -> list[Floats]:
        """The sums of all rounds, each of shape ``(dim,)``.

        Raises
        ------
        ArithmeticError
            The job does not end, or a round has no sum, or its coordinator was not replaced.
        """
        self._connect()
        for _ in range(STEPS):
            busy = [party for party in self._parties if party.inbox and not party.is_over]
            for party in busy:
                if party.inbox:
                    party.machine.receive(party.inbox.popleft())
                    self._send(party)
                    self._restart()
            if not busy:
                if self._server.status["state"] != "running" or self._server.wake is None:
                    break
                self._now = max(self._now + 1.0, self._server.wake)
                self._server.tick(**self._clock())
                self._pass_on()
        totals = self._parties[0].totals
        if len(totals) != self._spec.rounds or len(self._restarted) < self._spec.rounds:
            rule = f"{len(totals)} of {self._spec.rounds} rounds have a sum"
            raise ArithmeticError(f"{self._spec.protocol.name}, restarts {self._restarted}: {rule}")
        return [totals[number] for number in sorted(totals)]

    def _restart(self) -> None:
        """Another coordinator goes on from the store: with half of the updates, and after all of them."""
        current: dict[str, Any] = self._server.status["round"]
        number = current["number"]
        sent = sum(number in party.sent for party in self._parties)
        names = [stage["name"] for stage in current["stages"]]
        if current["key_setup"] or current["state"] != "running" or sent < self._spec.quorum // 2:
            return
        moment = (len(self._parties[0].totals), self._spec.input_stage in names[:-1])
        if moment in self._restarted:
            return
        self._restarted.add(moment)
        self._links.clear()
        for party in self._parties:
            party.inbox.clear()
            party.machine.lost()
        self._server = self._opened(self._server.store)
        self._connect()

    def _opened(self, store: bytes | None) -> machines.ServerMachine:
        return machines.ServerMachine.open(self._spec, ca=self._ca, store=store, **self._clock())

    def _clock(self) -> dict[str, Any]:
        return {"now": self._now, "wall": self._begun + self._now}

    def _connect(self) -> None:
        for certificate, party in zip(self._certificates, self._parties, strict=True):
            if party.is_over:
                continue
            self._links[self._server.connected(certificate, "memory", **self._clock())] = party
            party.machine.connected()
            self._send(party)

    def _send(self, party: Party) -> None:
        party.heed(self._spec.dim)
        link = next(link for link, at in self._links.items() if at is party)
        for frame in party.machine.frames():
            self._server.receive(link, frame, **self._clock())
        self._pass_on()

    def _pass_on(self) -> None:
        for said in self._server.frames():
            if said.link in self._links:
                self._links[said.link].inbox.append(said.frame)


def totals(spec: bs.JobSpec, lost: Collection[int]) -> list[Floats]:
    """The sums of a job whose coordinator is replaced with half of the updates, and with all, of each sum."""
    with tempfile.TemporaryDirectory() as folder:
        return Restarted(spec, lost, Path(folder)).run()
