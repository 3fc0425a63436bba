"""A node's party in a job whose frames go in Flower's messages: one message, from its folder and back to it.

Flower starts a process for each message. The process opens the party from the node's folder, hands in the
frames that came, trains where the round has come so far, stores state and mark, and only then lets the
answer out.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blindsum.arrays import Vector
from blindsum.checks import whole_number
from blindsum.errors import IdentityError, NetworkError
from blindsum.flower.direct import Identity
from blindsum.flower.node_folder import Answer, JobFolder, Place
from blindsum.flower.texts import logger
from blindsum.machines import (
    Failed,
    PartyMachine,
    Reconnect,
    RoundBegins,
    RoundEnded,
    RoundLost,
    RoundRefused,
)
from blindsum.pki.contents import show
from blindsum.pki.identity import Identity as Pair
from blindsum.policy import Policy
from blindsum.spec import JobSpec

MOST_CONNECTIONS = 3
"""Connections that a party makes at most within one message."""


@dataclass(frozen=True)
class Letter:
    """What a message says to the party of a node.

    Attributes
    ----------
    job : str
        The name of the job.
    order : int
        The place of the job among those of its run.
    place : Place
        Where the message stands in its job; one with the number 0 begins a connection.
    tag : int
        The round of the strategy.
    frames : list of bytes
        Frames of the coordinator.
    has_model : bool
        Whether the message has what the node trains on.
    """

    job: str
    order: int
    place: Place
    tag: int
    frames: list[bytes] = field(default_factory=list)
    has_model: bool = False

    @classmethod
    def read(cls, told: Mapping[str, Any], frames: list[bytes]) -> Letter:
        """The letter of a message with this record.

        Raises
        ------
        blindsum.NetworkError
            An entry is missing, or of another type.
        """
        numbers: dict[str, int] = {}
        for key in ("order", "link", "number", "tag"):
            value = whole_number(told.get(key))
            if value is None or value < 0:
                raise NetworkError(
                    f"the message says {key} = {told.get(key)!r}, and must say a whole number of 0 or more: "
                    "install the same version of Blindsum at the ServerApp and at all nodes"
                )
            numbers[key] = value
        place = Place(numbers["link"], numbers["number"])
        has_model = bool(told.get("has-model", False))
        return cls(str(told.get("job", "")), numbers["order"], place, numbers["tag"], frames, has_model)


@dataclass(frozen=True)
class Node:
    """What a node has to answer with, all of it from its own configuration.

    Attributes
    ----------
    identity : Identity
        Its certificate and key, and the CA.
    policy : Policy
        What it agrees to.
    state : str
        The node's folder (``blindsum-state``).
    run : str
        The run of Flower.
    wait : float
        Seconds to wait at most for another process of this node.
    """

    identity: Identity
    policy: Policy
    state: str
    run: str
    wait: float


@dataclass(frozen=True)
class Trained:
    """What training gives.

    Attributes
    ----------
    update : numpy.ndarray
        Shape ``(dim,)``.
    weight : int
        0 where the node has no examples; it sits the round out then.
    metrics : mapping of str to float
        The metrics of the job.
    told : mapping
        What the reply says of it.
    """

    update: Vector
    weight: int
    metrics: Mapping[str, float]
    told: Mapping[str, Any] = field(default_factory=dict)


Train = Callable[[JobSpec], Trained]
"""Trains in a job."""


class NoUpdate(Exception):
    """Training gave an error reply in place of an update.

    Attributes
    ----------
    reply : Message
        The error reply.
    """

    def __init__(self, reply: Any) -> None:
        super().__init__("training replied with an error")
        self.reply = reply


def answer(letter: Letter, node: Node, train: Train) -> Answer:
    """Answer a message: what is returned may leave the node at once.

    A message that comes again gets the same answer, byte by byte, and trains nothing.

    Parameters
    ----------
    letter
        The message.
    node
        The node.
    train
        Called once for a round, when the message has the model and the party is in the round.

    Returns
    -------
    Answer
        Frames, and beside them ``party``, ``certificate`` where the party has made a connection, ``lost``
        where the round goes on without it, and ``sat-out`` where it has no examples.

    Raises
    ------
    Exception
        What ``train`` raised, once the party has left the round.
    blindsum.BlindsumError
        The node takes no part: its policy refuses the job, its folder cannot be used, or the message is out
        of order.
    """
    name = certified_name(show(Pair.find(node.identity.identity).certificate))
    with JobFolder(node.state, letter.job, name, node.run, letter.order).locked(node.wait) as folder:
        stored = folder.read()
        if stored.is_repeated(letter.place):
            if stored.answer.failed:
                raise NetworkError(f"this message came before, and was answered: {stored.answer.failed}")
            if stored.own_mark > stored.mark:
                folder.write_mark(stored.own_mark)
            return stored.answer
        machine = PartyMachine.open(
            letter.job,
            identity=node.identity.identity,
            ca=node.identity.ca,
            revoked=node.identity.revoked,
            policy=node.policy,
            state=stored.state,
            mark=stored.mark,
        )
        party = _Party(machine, letter, train)
        failure: BaseException | None = None
        try:
            party.run()
        except _TrainingError as error:
            failure = error.cause
        kept = machine.suspend()
        if failure is not None:
            text = f"{type(failure).__name__}: {failure}"
            folder.write(kept.state, kept.mark or 0, letter.place, Answer(failed=text))
            raise failure
        found = Answer(machine.frames(), party.told)
        folder.write(kept.state, kept.mark or 0, letter.place, found)
        return found


def certified_name(described: Mapping[str, Any]) -> str:
    """The name in a party's certificate, as it is described.

    Raises
    ------
    blindsum.IdentityError
        It is no certificate of a party.
    """
    names = described.get("names", [])
    if len(names) != 1:
        raise IdentityError(
            f"the certificate is for {', '.join(map(str, names)) or 'nobody'}, and that of a party has one "
            "name: give one of `blindsum pki issue`"
        )
    return str(names[0])


class _TrainingError(Exception):
    """Training failed; the party has left the round."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__("training failed")
        self.cause = cause


class _Party:
    """A party's machine for the time of one message."""

    def __init__(self, machine: PartyMachine, letter: Letter, train: Train) -> None:
        self._machine, self._letter, self._train = machine, letter, train
        self._connections = 0
        self._has_trained = False
        self.told: dict[str, Any] = {"party": machine.name}

    def run(self) -> None:
        """Hand in the frames, and do what the events ask for."""
        machine, letter = self._machine, self._letter
        if letter.place.number == 0:
            # Whether frames of a former connection have arrived, nobody knows here.
            machine.lost()
            self._connect()
        # Before the frames: an offer among them is answered at once.
        machine.want_round(tag=letter.tag)
        for frame in letter.frames:
            machine.receive(frame)
        while events := machine.events():
            for event in events:
                self._heed(event)

    def _connect(self) -> None:
        self._connections += 1
        if self._connections > MOST_CONNECTIONS:
            raise NetworkError(
                f"the coordinator of job {self._letter.job!r} takes no connection of this party "
                f"({MOST_CONNECTIONS} tries); see the ServerApp's log"
            )
        self._machine.connected()
        self.told["certificate"] = ssl.DER_cert_to_PEM_cert(self._machine.certificate)

    def _heed(self, event: object) -> None:
        machine, letter = self._machine, self._letter
        match event:
            case RoundBegins(needs_update=True) if event.tag == letter.tag:
                if letter.has_model and not self._has_trained:
                    self._give_update(event.number)
            case RoundEnded():
                machine.took(event.number)
                machine.want_round(tag=letter.tag)
            case RoundLost() | RoundRefused():
                self.told["lost"] = str(event.error)
                logger.info("job %r: %s", letter.job, event.error)
            case Reconnect():
                logger.info("job %r: connects again: %s", letter.job, event.reason)
                self._connect()
            case Failed():
                raise event.error

    def _give_update(self, number: int) -> None:
        self._has_trained = True
        machine, spec = self._machine, self._machine.spec
        if spec is None:
            raise NetworkError(f"job {self._letter.job!r}: a round begins in a job that is not known here")
        try:
            trained = self._train(spec)
            if trained.weight:
                machine.submit(number, trained.update, trained.weight, trained.metrics)
        except Exception as error:
            machine.abandon(number)
            raise _TrainingError(error) from error
        self.told.update(trained.told)
        if not trained.weight:
            machine.abandon(number)
            self.told["sat-out"] = True
