"""A node's party in a job whose frames go in Flower's messages: one message, from its folder and back to it.

Flower starts a process for each message. The process opens the party from the node's folder, hands in the
frames that came, trains where the round has come so far, stores state and mark, and only then lets the
answer out.
"""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blindsum.arrays import Vector
from blindsum.errors import (
    BlindsumError,
    Fault,
    IdentityError,
    InputError,
    NetworkError,
    ResultMissed,
    RoundAborted,
)
from blindsum.flower.direct import Identity
from blindsum.flower.letters import Letter
from blindsum.flower.node_folder import Answer, JobFolder, Step
from blindsum.flower.refusals import LOG, OutOfOrder, Refusal, for_server, foreign
from blindsum.flower.texts import logger
from blindsum.flower.trained import Cohorts, line_of
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

_MOST_LOST = 400
"""Characters of a reason that the server is told."""

MAX_CONNECTIONS = 3
"""Connections that a party makes at most within one message."""


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
    bound : bytes
        The hash of what the node has of the run (:func:`blindsum.flower.contents.run_digest`): a round has
        only nodes with the same.
    cohorts : Cohorts or None
        The cohorts with which it has trained a model; ``None`` where it allows all.
    accept : callable
        Called with the job as soon as it is known. It may raise.
    """

    identity: Identity
    policy: Policy
    state: str
    run: str
    wait: float
    bound: bytes = bytes(32)
    cohorts: Cohorts | None = None
    accept: Callable[[JobSpec], None] = lambda spec: None


@dataclass(frozen=True)
class Trained:
    """What training gives.

    Attributes
    ----------
    update : numpy.ndarray
        Shape ``(dim,)``.
    weight : int
        0 where the node has no examples; it sits the round out then.
    model : str
        The name of what it was trained from (:func:`blindsum.flower.measured.model_hash`).
    told : mapping
        What the reply says of it.
    """

    update: Vector
    weight: int
    model: str
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
        The node takes no part: its policy refuses the job, its folder cannot be used, the message is out of
        order, or its round has another content than the messages before said.
    """
    name = certified_name(show(Pair.find(node.identity.identity).certificate))
    with JobFolder(node.state, letter.job, name, node.run, letter.order).locked(node.wait) as folder:
        stored = folder.read()
        if stored.is_repeated(letter.place):
            if stored.answer.failed:
                raise OutOfOrder(
                    f"this message came before, and the node failed then: {stored.answer.failed}; {LOG}"
                )
            if stored.own_mark > stored.mark:
                folder.write_mark(stored.own_mark)
            return stored.answer
        _check_same(letter, stored.step)
        with folder.opened():
            machine = PartyMachine.open(
                letter.job,
                identity=node.identity.identity,
                ca=node.identity.ca,
                revoked=node.identity.revoked,
                policy=node.policy,
                state=stored.state,
                mark=stored.mark,
                ledger=node.state,
            )
        party = _Party(machine, letter, node, train, stored.step)
        failure: BaseException | None = None
        try:
            party.run()
        except _TrainingError as error:
            failure = error.cause
        kept = machine.suspend()
        found = Answer(machine.frames(), party.told)
        if failure is not None:
            found = Answer(failed=type(failure).__name__)
        folder.write(kept.state, kept.mark or 0, letter.place, found, party.step)
        # Not before: a process that ends in between forgets less, and never twice.
        if node.cohorts is not None:
            for cohort in party.lost:
                node.cohorts.forget(cohort)
        if failure is not None:
            raise failure
        return found


def _check_same(letter: Letter, step: Step) -> None:
    """Refuse a round whose content changes: its keys are about the one that was said first."""
    if step.content and step.tag == letter.tag and step.content != letter.content.hex():
        raise Refusal(
            "messages",
            f"the messages of round {letter.tag} say different contents: a round has one, which the server "
            "side must say to all nodes from the first message on",
        )


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

    def __init__(self, machine: PartyMachine, letter: Letter, node: Node, train: Train, step: Step) -> None:
        self._machine, self._letter, self._node, self._train = machine, letter, node, train
        self._connections = 0
        self._has_trained = False
        self._is_accepted = False
        self.step = dataclasses.replace(step, tag=letter.tag, content=letter.content.hex())
        self.lost = list[str]()
        self.told: dict[str, Any] = {"party": machine.name}

    def run(self) -> None:
        """Hand in the frames, and do what the events ask for."""
        machine, letter = self._machine, self._letter
        if letter.place.number == 0:
            # Whether frames of a former connection have arrived, nobody knows here.
            machine.lost()
            self._connect()
        # Before the frames: an offer among them is answered at once. A round of this tag that is about
        # something else is left by this, and its keys are of no use to this update.
        self._want()
        self._look_at_job()
        for frame in letter.frames:
            machine.receive(frame)
        while events := machine.events():
            self._look_at_job()
            for event in events:
                self._heed(event)
        self._look_at_job()

    def _want(self) -> None:
        """Wait for the round that is about what this node trains on, and no other."""
        self._machine.want_round(tag=self._letter.tag, about=[self._letter.content, self._node.bound])

    def _look_at_job(self) -> None:
        """Look at the job, once it is known."""
        spec = self._machine.spec
        if spec is not None and not self._is_accepted:
            self._node.accept(spec)
            self._is_accepted = True

    def _connect(self) -> None:
        self._connections += 1
        if self._connections > MAX_CONNECTIONS:
            raise NetworkError(
                f"the coordinator of job {self._letter.job!r} accepts no connection of this party "
                f"({MAX_CONNECTIONS} tries); see the ServerApp's log"
            )
        self._machine.connected()
        self.told["certificate"] = ssl.DER_cert_to_PEM_cert(self._machine.certificate)

    def _heed(self, event: object) -> None:
        machine, letter = self._machine, self._letter
        match event:
            case RoundBegins(needs_update=True) if event.tag == letter.tag:
                if letter.has_model and not self._has_trained:
                    self._give_update(event)
            case RoundEnded():
                machine.took(event.number)
                self._want()
                self._hear_end(event.number)
            case RoundLost():
                self._tell_lost(event.error)
                counts = isinstance(event.error, ResultMissed)
                is_lost = not counts and isinstance(event.error, (InputError, RoundAborted, Fault))
                self._hear_end(event.number, is_lost=is_lost)
            case RoundRefused():
                self._tell_lost(event.error)
            case Reconnect():
                logger.info("job %r: connects again: %s", letter.job, event.reason)
                self._connect()
            case Failed():
                raise event.error

    def _tell_lost(self, error: BlindsumError) -> None:
        """Tell the server why the party is in no sum, as an error reply would."""
        self.told["lost"] = foreign(for_server(error), _MOST_LOST)

    def _hear_end(self, number: int, *, is_lost: bool = False) -> None:
        """The round to which the party has given its update is over; where it was lost it counts nowhere."""
        if number == self.step.number:
            self.lost += [self.step.cohort] if is_lost and self.step.cohort else []
            self.step = dataclasses.replace(self.step, number=0, cohort="")

    def _give_update(self, event: RoundBegins) -> None:
        self._has_trained = True
        machine, spec, cohorts = self._machine, self._machine.spec, self._node.cohorts
        if spec is None:
            raise NetworkError(f"job {self._letter.job!r}: a round begins in a job that is not known here")
        cohort = ""
        try:
            trained = self._train(spec)
            if trained.weight:
                if cohorts is not None:
                    cohorts.enter(trained.model, event.parties)
                    cohort = line_of(trained.model, event.parties)
                machine.submit(event.number, trained.update, trained.weight, {})
        except Exception as error:
            machine.abandon(event.number)
            # Nothing was given; it is forgotten when this is stored.
            self.lost += [cohort] if cohort else []
            raise _TrainingError(error) from error
        self.told.update(trained.told)
        if trained.weight:
            self.step = dataclasses.replace(self.step, number=event.number, cohort=cohort)
        else:
            machine.abandon(event.number)
            self.told["sat-out"] = True
