"""A job over queues of bytes: a party is opened from its sealed state for each message, and suspended again.

    python examples/queue_job.py

A queue stands for whatever carries messages: a message broker, a federated-learning framework, files.
"""

from __future__ import annotations

import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import blindsum as bs
from blindsum import machines, pki

PARTIES, ROUNDS, DIM = 4, 3, 8


def update_of(party: int, number: int) -> NDArray[np.uint32]:
    """What a party adds in a round: yours."""
    return np.arange(DIM, dtype=np.uint32) + 100 * party + 1000 * number


@dataclass
class Party:
    """What a party keeps between two messages."""

    index: int
    identity: Path
    ca: Path
    state: bytes | None = None
    mark: int = 0  # kept where no backup brings an earlier one back
    is_over: bool = False
    inbox: deque[bytes] = field(default_factory=deque)
    sums: dict[int, machines.RoundEnded] = field(default_factory=dict)

    def open(self) -> machines.PartyMachine:
        """The machine, as it was suspended."""
        return machines.PartyMachine.open(
            "queue", identity=self.identity, ca=self.ca, state=self.state, mark=self.mark
        )

    def step(self, message: bytes | None) -> list[bytes]:
        """Hear a message, or connect; give what is to be sent."""
        party = self.open()
        if message is None:
            party.connected()
        else:
            party.receive(message)
        party.want_round()
        for event in party.events():
            self.heed(party, event)
        return self.keep(party)

    def heed(self, party: machines.PartyMachine, event: machines.Event) -> None:
        """Do what an event asks for."""
        match event:
            case machines.RoundBegins(number=number, needs_update=True):
                party.submit(number, update_of(self.index, number))
            case machines.RoundEnded(number=number):
                self.sums[number] = event
                party.took(number)
                party.want_round()
            case machines.RoundLost() | machines.RoundRefused():
                party.want_round()
            case machines.JobDone():
                self.is_over = True
            case machines.Failed(error=error):
                raise error

    def keep(self, party: machines.PartyMachine) -> list[bytes]:
        """Suspend: first the state, then the mark, and only then is anything sent."""
        suspended = party.suspend()
        self.state = suspended.state
        self.mark = suspended.mark or 0
        return party.frames()


class Job:
    """The coordinator, its parties, and the queues between them."""

    def __init__(self, folder: Path, rounds: int = ROUNDS) -> None:
        pki.init(folder)
        self.ca = folder / "ca.pem"
        self.spec = bs.JobSpec(
            job="queue",
            protocol="secagg+",
            parties=PARTIES,
            dim=DIM,
            rounds=rounds,
            encoding=bs.Integers(bits=16),
        )
        self.server = machines.ServerMachine.open(self.spec, ca=self.ca)
        self.parties = [self.party(folder, index) for index in range(PARTIES)]
        self.links: dict[int, Party] = {}
        self.messages = 0

    def party(self, folder: Path, index: int) -> Party:
        """A party with a certificate of its own."""
        name = f"party-{index}"
        pki.issue(folder, name)
        return Party(index, folder / name, self.ca)

    def connect(self, party: Party) -> None:
        """Make the queues of a party, which end those that it had."""
        for link in [link for link, at in self.links.items() if at is party]:
            del self.links[link]
            self.server.lost(link)
        party.inbox.clear()
        certificate = party.identity.with_suffix(".pem").read_text()
        link = self.server.connected(certificate, "a queue")
        self.links[link] = party
        self.send(party, party.step(None))

    def send(self, party: Party, frames: list[bytes]) -> None:
        """Frames of a party reach the coordinator, and its frames the queues of parties."""
        link = next(link for link, at in self.links.items() if at is party)
        for frame in frames:
            self.server.receive(link, frame)
        self.pass_on()

    def pass_on(self) -> None:
        """What the coordinator has to say goes into the queues."""
        for outgoing in self.server.frames():
            if outgoing.link in self.links:
                self.links[outgoing.link].inbox.append(outgoing.frame)

    def deliver(self, party: Party) -> None:
        """One message reaches a party."""
        self.messages += 1
        self.send(party, party.step(party.inbox.popleft()))

    def run(self) -> None:
        """Until everybody has heard that the job is done."""
        for party in self.parties:
            self.connect(party)
        while waiting := [party for party in self.parties if party.inbox and not party.is_over]:
            for party in waiting:
                self.deliver(party)


def main() -> None:
    """Run a job and compare its sums with numpy."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder) / "pki")
        job.run()
    for number, event in sorted(job.parties[0].sums.items()):
        survivors = [int(name.removeprefix("party-")) for name in event.result.survivors]
        expected = np.sum([update_of(party, number) for party in survivors], axis=0, dtype=np.uint64)
        assert np.array_equal(event.result.sum, expected)
        print(f"round {number}: sum of {len(survivors)} parties, {event.result.sum}")
    print(f"{job.messages} messages, each to a party that was suspended before and after it")


if __name__ == "__main__":
    main()
