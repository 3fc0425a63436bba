"""A small world of machines: a coordinator and parties in one process, with its own clock."""

import shutil
import tempfile
import time
import weakref
from collections import deque
from pathlib import Path

import numpy as np

import blindsum as bs
from blindsum import machines, pki


class Party:
    """A party that trains at once; suspended after each frame if ``suspends``."""

    def __init__(
        self,
        world,
        index,
        *,
        suspends=False,
        policy=None,
        initial=None,
        metrics=None,
        update=None,
        weight=1,
    ):
        self.world, self.index, self.suspends, self.policy = world, index, suspends, policy
        self.weight = weight
        self.initial, self.metrics, self.update = initial, metrics or {}, update
        self.name = f"party-{index}"
        pki.issue(world.folder, self.name)
        self.identity = world.folder / self.name
        self.state, self.mark, self.machine = None, 0, None
        self.inbox, self.sums, self.events = deque(), {}, []
        self.is_over, self.failed, self.models = False, None, {}

    def open(self):
        if self.suspends or self.machine is None:
            self.machine = machines.PartyMachine.open(
                self.world.spec.job,
                identity=self.identity,
                ca=self.world.ca,
                policy=self.policy,
                state=self.state,
                mark=self.mark if self.suspends else None,
                initial=self.initial,
            )
        return self.machine

    def step(self, frame):
        machine = self.open()
        machine.connected() if frame is None else machine.receive(frame)
        machine.want_round()
        for event in machine.events():
            self.events.append(event)
            match event:
                case machines.RoundBegins(number=number, needs_update=needs):
                    self.models[number] = np.array(event.model)
                    if needs:
                        update, metrics = self._update(number), self._metrics(number)
                        machine.submit(number, update, weight=self.weight, metrics=metrics)
                case machines.RoundEnded(number=number):
                    self.sums[number] = event.result
                    machine.took(number)
                    machine.want_round()
                case machines.RoundLost() | machines.RoundRefused():
                    machine.want_round()
                case machines.JobDone():
                    self.is_over = True
                case machines.Failed(error=error):
                    self.is_over, self.failed = True, error
        if self.suspends:
            suspended = machine.suspend()
            self.state, self.mark = suspended.state, suspended.mark or 0
        return machine.frames()

    def _update(self, number):
        return np.zeros(self.world.spec.dim) if self.update is None else self.update(number)

    def _metrics(self, number):
        return self.metrics(number) if callable(self.metrics) else self.metrics


class World:
    """A job; ``up`` and ``down`` may change the frames of a party."""

    def __init__(self, waits=None, **fields):
        kept = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, kept, ignore_errors=True)
        self.folder = Path(kept) / "pki"
        pki.init(self.folder)
        self.ca = self.folder / "ca.pem"
        self.spec = bs.JobSpec(job="j", **fields)
        self.waits = machines.Waits(**waits or {})
        self.now, self.begun = 0.0, time.time()
        self.server = machines.ServerMachine.open(self.spec, ca=self.ca, waits=self.waits, **self.clock())
        self.links, self.parties = {}, []
        self.up = self.down = lambda party, frame: frame

    def clock(self):
        return {"now": self.now, "wall": self.begun + self.now}

    def add(self, **options):
        party = Party(self, len(self.parties), **options)
        self.parties.append(party)
        return party

    def connect(self, party):
        certificate = party.identity.with_suffix(".pem").read_text()
        link = self.server.connected(certificate, "queue", **self.clock())
        self.links[link] = party
        self.send(party, party.step(None))

    def send(self, party, frames):
        link = next(link for link, at in self.links.items() if at is party)
        for frame in frames:
            changed = self.up(party, frame)
            if changed is not None:
                self.server.receive(link, changed, **self.clock())
        self.flush()

    def flush(self):
        for said in self.server.frames():
            party = self.links.get(said.link)
            if party is not None:
                frame = self.down(party, said.frame)
                if frame is not None:
                    party.inbox.append(frame)

    def restore(self, store, parties):
        """The coordinator goes on from another store, and these parties connect anew."""
        self.server = machines.ServerMachine.open(
            self.spec, ca=self.ca, store=store, waits=self.waits, **self.clock()
        )
        self.links.clear()
        for party in self.parties:
            party.inbox.clear()
            if not party.suspends and party.machine is not None:
                party.machine.lost()
        self.parties = parties
        for party in parties:
            self.connect(party)

    def run(self, connect=True, limit=3000, until=None):
        """Until the job is over, or nobody has anything to say for long."""
        if connect:
            for party in self.parties:
                self.connect(party)
        for _ in range(limit):
            if until is not None and until():
                return
            busy = [party for party in self.parties if party.inbox and not party.is_over]
            for party in busy:
                if party.inbox:
                    self.send(party, party.step(party.inbox.popleft()))
            if busy:
                continue
            if self.server.status["state"] != "running" or self.server.wake is None:
                return
            self.now = max(self.now + 1.0, self.server.wake)
            self.server.tick(**self.clock())
            self.flush()
