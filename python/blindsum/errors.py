"""The errors of Blindsum, as one hierarchy.

Every error that Blindsum raises on purpose is a :class:`BlindsumError`; the attributes say what was
wrong and where, so that a program need not read the text.
"""

from __future__ import annotations

import os
from typing import Any, Self


class Portable(Exception):
    """An exception that survives pickling and copying with its type, text, attributes and notes.

    Pickle calls the class of an exception with the text alone, which breaks where it takes something else; a
    pool of workers then waits for ever. As with every exception, cause and traceback stay behind.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how pickle and copy make it again: without ``__init__``, from its arguments and attributes."""
        # guard: errors-come-back-from-workers
        return self._made_again, self.args, self.__dict__ or None

    @classmethod
    def _made_again(cls, *args: object) -> Self:
        return cls.__new__(cls, *args)


class BlindsumError(Portable):
    """Base of all errors of this package."""


class ConfigError(BlindsumError, ValueError):
    """A setting breaks a rule.

    Attributes
    ----------
    field : str
        The setting.
    rule : str
        The rule, as an inequality with its numbers where it is one.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{self._where}{field}: {rule}")
        self.field = field
        self.rule = rule

    _where = ""


class LayoutError(ConfigError):
    """The job is of another model than this party's; ``field`` is ``"layout"``.

    Attributes
    ----------
    entry : int or None
        The first entry of the layout that differs, from 0 on; ``None`` where the job binds no layout, and its
        ``dim`` is another.
    """

    def __init__(self, entry: int | None, rule: str) -> None:
        super().__init__("layout", rule)
        self.entry = entry


class SpecError(ConfigError):
    """A job specification breaks a rule; ``field`` is one of :class:`blindsum.JobSpec`.

    Attributes
    ----------
    file : str or None
        The file that the job was read from, where it was.
    """

    def __init__(self, field: str, rule: str, file: str | None = None) -> None:
        self._where = "job specification: " if file is None else f"{file}: "
        super().__init__(field, rule)
        self.file = file


class AuditError(BlindsumError):
    """An audit trail is not as it was written, or cannot be read.

    Attributes
    ----------
    path : str
        The file.
    line : int or None
        The first line that is wrong, from 1 on, where one is.
    """

    def __init__(self, path: str, line: int | None, why: str) -> None:
        super().__init__(
            f"audit trail {path}: {why}" if line is None else f"audit trail {path}: line {line} {why}"
        )
        self.path = path
        self.line = line


class DataError(BlindsumError):
    """A file of a data set is not there, or is not as it should be.

    Attributes
    ----------
    path : str
        The file.
    """

    def __init__(self, path: str | os.PathLike[str], why: str) -> None:
        self.path = os.fspath(path)
        super().__init__(f"data file {self.path}: {why}")


class InputError(BlindsumError, ValueError):
    """An update, a weight, a model or a file that cannot be used.

    Attributes
    ----------
    field : str
        What was given, and the place in it: ``"update"``, ``"metrics['accuracy']"``, ``"updates[2]"``.
    rule : str
        The rule, as an inequality with its numbers where it is one.
    index : int or None
        The coordinate that is wrong, where one is.
    """

    def __init__(self, field: str, rule: str, index: int | None = None) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule
        self.index = index


class Fault(BlindsumError):
    """Somebody broke the protocol, or too few parties were left: this party's round is over.

    Nothing more is revealed in the round after a fault.

    Attributes
    ----------
    culprit : str
        ``"server"`` (the coordinator), ``"party 3"`` (by rank), ``"caller"`` (the program that uses this
        package) or ``"round"`` (nobody in particular).
    kind : str
        What happened.
    """

    def __init__(self, culprit: str, kind: str) -> None:
        # Where nobody is to blame, what happened says everything.
        super().__init__(kind if culprit == "round" else f"{culprit}: {kind}")
        self.culprit = culprit
        self.kind = kind


class RoundAborted(BlindsumError):
    """A round gave this party no result: it ended without a sum, or goes on without the party.

    Attributes
    ----------
    number : int
        The round.
    reason : str
        Why.
    only_me : bool
        Whether the round goes on, without this party.
    """

    def __init__(self, number: int, reason: str, only_me: bool = False) -> None:
        what = "goes on without this party" if only_me else "ended without a sum"
        super().__init__(f"round {number} {what}: {reason}")
        self.number = number
        self.reason = reason
        self.only_me = only_me


class OtherTag(RoundAborted):
    """The coordinator offers a round of another tag than the one that this party waits for.

    Its own round is over, and what was made for it counts nowhere; or no host gives the rounds tags.

    Attributes
    ----------
    number : int
        The round that is offered.
    wanted : int
        The tag that this party waits for.
    offered : int or None
        The tag of the round; ``None`` where it has none.
    """

    def __init__(self, number: int, reason: str, wanted: int, offered: int | None) -> None:
        BlindsumError.__init__(self, reason)
        self.number = number
        self.reason = reason
        self.only_me = True
        self.wanted = wanted
        self.offered = offered


class OtherContent(RoundAborted):
    """The round of this party's tag is about something else than the party was given for it (``about=``).

    Who hosts the rounds has told parties different things, such as different models: a sum of such updates
    could tell the update of one party. Nothing of this party is in it.

    Attributes
    ----------
    number : int
        The round that is offered.
    tag : int
        Its tag.
    """

    def __init__(self, number: int, reason: str, tag: int) -> None:
        BlindsumError.__init__(self, reason)
        self.number = number
        self.reason = reason
        self.only_me = True
        self.tag = tag


class RoundLost(RoundAborted):
    """A round that a host began has no result (:meth:`Coordinator.round`).

    Attributes
    ----------
    number : int
        The round; 0 where none was offered.
    reason : str
        Why, with what to do where something can be done.
    tag : int or None
        The tag that the host gave it.
    lost : dict of str to str
        The parties that were lost, with the reasons.
    """

    def __init__(self, number: int, reason: str, tag: int | None, lost: dict[str, str]) -> None:
        super().__init__(number, reason)
        self.tag = tag
        self.lost = lost


class ResultMissed(RoundAborted):
    """A round has a result in which this party's update counts, but this party cannot get it any more.

    Attributes
    ----------
    number : int
        The round.
    reason : str
        Why.
    """

    def __init__(self, number: int, reason: str) -> None:
        text = f"round {number} counts this party's update, but this party did not get its result: {reason}"
        BlindsumError.__init__(self, text)
        self.number = number
        self.reason = reason
        self.only_me = False


class RoundUnknown(BlindsumError):
    """An update of this party is out, and whether it counts in the round is not known here.

    It is no :class:`RoundAborted`: the update may be in the sum. Do not give the same update again as if it
    were lost, and count it where a budget of privacy is kept. The coordinator's store knows what became of
    the round (:func:`blindsum.coordinator.stored_rounds`). A party that was stopped is told, too, when it is
    started again with its ``state_dir``; one that refused the round is not.

    Attributes
    ----------
    number : int
        The round.
    reason : str
        Why it is not known: the coordinator was not reached any more, another process has taken this party's
        place, this party has left or refuses to go on, or the coordinator does not know the round.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(
            f"round {number}: this party's update is out, and whether it counts is not known here: {reason}; "
            "the coordinator's store has the outcome, and a party that was stopped learns it when it "
            "is started again with its state folder"
        )
        self.number = number
        self.reason = reason


class SubmitError(BlindsumError):
    """An update was given to a round that takes none. It was dropped.

    Attributes
    ----------
    number : int
        The round.
    state : str
        Why: ``"submitted"`` (this party has submitted an update before, and that one counts), ``"over"`` (the
        round has ended for this party), ``"sits out"`` (this party said that it gives no update),
        ``"not begun"`` (the round has not begun for this party), or ``"other model"``
        (:meth:`Session.aggregate`: the round has another model than the caller).
    rule : str
        The same in words, with what to do.
    """

    def __init__(self, number: int, state: str, rule: str) -> None:
        super().__init__(f"round {number}: {rule}")
        self.number = number
        self.state = state
        self.rule = rule


class PolicyError(BlindsumError):
    """The coordinator asked for something that this party's policy does not allow.

    Attributes
    ----------
    field : str or None
        The option of :class:`blindsum.Policy` that refused it, such as ``"min_honest"``; ``None`` where a
        limit that every policy has did.
    rule : str
        The rule that refused it, with its option, its numbers, and what to do.
    """

    def __init__(self, field: str | None, rule: str) -> None:
        super().__init__(f"refused by this party's policy: {rule}")
        self.field = field
        self.rule = rule


class IdentityError(BlindsumError):
    """A certificate, a key or a request that is missing, damaged or not signed by the job's CA."""


class NetworkError(BlindsumError):
    """The coordinator cannot be reached, or refused the connection."""


class WaitTimeoutError(BlindsumError, TimeoutError):
    """A wait took longer than the caller allowed."""


class SessionClosedError(BlindsumError):
    """The session was closed, or the job is over."""


class ForkedError(SessionClosedError):
    """A fork of a process in which Blindsum works tried to use it: threads and keys stay there.

    Start processes by ``multiprocessing.get_context("spawn")``, or make what they use after the fork.
    """


class StoreError(BlindsumError):
    """The coordinator's store or a party's state folder cannot be used."""


class OrderError(BlindsumError):
    """An order to a coordinator was refused, and nothing was done, unless ``code`` is ``"in-part"``.

    Attributes
    ----------
    code : str
        Why: ``"unknown-job"``, ``"stopping"`` (the coordinator stops), ``"state"`` (the job is done or has
        failed), ``"unchanged"`` (it is so already), ``"value"`` (a value breaks a rule),
        ``"not-recorded"`` (the store cannot be written), or ``"in-part"`` (:meth:`Admin.reload` has taken
        over a part of the configuration: ``reason`` says what, and what it has not, a line each).
    reason : str
        The same in words, with what to do.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class CallError(BlindsumError):
    """A coordinator began no round for its host (:meth:`Coordinator.begin`); nothing has changed.

    Attributes
    ----------
    code : str
        Why: ``"not-hosted"`` (it begins the rounds by itself), ``"busy"`` (a round is under way), ``"state"``
        (the job is done or has failed), ``"held"`` (an operator has paused it), or ``"stopping"``.
    reason : str
        The same in words, with what to do.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class PromiseBroken(BlindsumError):
    """A campaign of the simulator has found a broken promise.

    Attributes
    ----------
    seed : int
        A campaign that begins with this seed begins with the episode in which it happened.
    kind : str
        The kind of that episode.
    what : str
        The promise, and what was seen.
    story : list of str
        What happened last.
    """

    def __init__(self, seed: int, kind: str, what: str, story: list[str]) -> None:
        super().__init__(f"{what} (seed {seed}, {kind})")
        self.seed = seed
        self.kind = kind
        self.what = what
        self.story = story


class MemoryLimitError(MemoryError, BlindsumError):
    """A job needs more memory than this process may take, or there is none left for an update."""


class ModelError(BlindsumError):
    """A model that cannot be: one that would not be finite."""


class HiddenModelError(BlindsumError):
    """A model was asked for that only the parties have; see :attr:`JobSpec.hides_sum`."""


class DomainError(BlindsumError):
    """A domain has failed: one of its learners is lost, or they did not do the same. All learners get it.

    The domain takes no further part in the job; its learners start again.

    Attributes
    ----------
    learner : int
        The rank of the learner that is lost, or that did something else than the others.
    reason : str
        What happened.
    """

    def __init__(self, learner: int, reason: str) -> None:
        super().__init__(f"learner {learner} of the domain: {reason}")
        self.learner = learner
        self.reason = reason


class DomainInputError(InputError):
    """What the learners of a domain gave cannot be handed in together. All learners get it.

    Attributes
    ----------
    learner : int or None
        The rank of the learner whose ``field`` it is; ``None`` where it is that of all together.
    field : str
        ``"update"``, ``"weight"`` or ``"metrics"``.
    rule : str
        The rule, as an inequality with its numbers where it is one.
    index : int or None
        The coordinate that is wrong, where one is.
    """

    def __init__(self, learner: int | None, field: str, rule: str, index: int | None = None) -> None:
        whose = "the domain" if learner is None else f"learner {learner} of the domain"
        super().__init__(f"{field} of {whose}", rule, index)
        self.learner = learner
        self.field = field

    @classmethod
    def of(cls, learner: int, field: str, error: InputError) -> Self:
        """The error of a learner's own input; the rule names the place in it, where there is one."""
        return cls(learner, field, error.rule if error.field == field else str(error), error.index)
