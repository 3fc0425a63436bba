"""A job over another transport than gRPC: parties and a coordinator that take and give frames as ``bytes``.

A machine has no socket, no thread and no clock. The program that carries its frames hands in what has come
(:meth:`PartyMachine.receive`), and sends what is to be sent (:meth:`PartyMachine.frames`), in order, over a
connection of each party with the coordinator. Events say what has happened. When a call returns, the machine
has done all its work; the GIL is released meanwhile.

A frame is a message of ``docs/wire.md``, opaque to its carrier. The carrier must keep others from reading and
changing frames, and must know who is at the other end: see ``docs/machines.md``.

Every call takes two clocks in seconds: ``now`` never goes back, and deadlines are measured by it (by default
``time.monotonic()``); ``wall`` counts from 1970-01-01 UTC (by default ``time.time()``).
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any

from blindsum import _native, checks
from blindsum.errors import ConfigError, InputError
from blindsum.first_model import first_model, initial_of
from blindsum.hosted import as_step, as_time, checked_hosted, given_model, named
from blindsum.joining import MAX_MASK_MEMORY
from blindsum.machine_events import (
    Event,
    Failed,
    Held,
    JobDone,
    JobOver,
    Joined,
    LinkEnded,
    LinkEvent,
    Outgoing,
    Reconnect,
    RoundBegins,
    RoundEnded,
    RoundLost,
    RoundOver,
    RoundRefused,
    Suspended,
)
from blindsum.machine_waits import Waits
from blindsum.pki import AnyPath, Identity, authority_texts, pem_files
from blindsum.policy import Policy, rules_of
from blindsum.rounds import checked_vector
from blindsum.spec import JobSpec
from blindsum.training_metrics import checked_metrics
from blindsum.weights import DefaultWeight

__all__ = [
    "Event",
    "Failed",
    "Held",
    "JobDone",
    "JobOver",
    "Joined",
    "LinkEnded",
    "LinkEvent",
    "Outgoing",
    "PartyMachine",
    "Reconnect",
    "RoundBegins",
    "RoundEnded",
    "RoundLost",
    "RoundOver",
    "RoundRefused",
    "ServerMachine",
    "Suspended",
    "Waits",
]


class PartyMachine:
    """A party of a job, from :meth:`open`.

    Attributes
    ----------
    name : str
        The party's name, as in its certificate.
    certificate : bytes
        Its certificate in DER, for :meth:`ServerMachine.connected`.
    """

    def __init__(self, native: _native.PartyMachine) -> None:
        self._native = native
        self._weights: DefaultWeight | None = None
        self.name = native.name
        self.certificate = native.certificate

    @classmethod
    def open(
        cls,
        job: str,
        *,
        identity: AnyPath | Identity,
        ca: AnyPath,
        revoked: AnyPath | None = None,
        policy: Policy | None = None,
        state: bytes | None = None,
        mark: int | None = None,
        mask_memory: int = 0,
        ledger: AnyPath | None = None,
        ledger_witness: AnyPath | None = None,
        initial: object = None,
        now: float | None = None,
        wall: float | None = None,
    ) -> PartyMachine:
        """Begin a party, or go on with one from a state.

        Events tell again what is known already: the job, a round under way, a result that was not taken.

        Parameters
        ----------
        job
            Name of the job.
        identity, ca, revoked, policy
            As for :func:`blindsum.join`; files are read once.
        state
            A state that :meth:`suspend` gave; ``None`` begins a party.
        mark
            For a host whose process may end at any moment: the latest mark that it has kept, 0 in the
            beginning. With a mark the party goes on in the middle of a round, over the connection that it
            had, and :meth:`frames` gives only frames from before the last :meth:`suspend`. A state with a
            lower mark is an old copy: then, and without a mark, the party goes on as after a kill. It loses
            the round that it was in, unless its update was sent.
        mask_memory
            Bytes of masks that :meth:`tick` may compute ahead of time, as for :func:`blindsum.join`.
        ledger
            A folder for the ledger of the party's data, the same one in all jobs; :meth:`suspend` does not
            hold it. ``None`` keeps it in memory. A policy with ``max_epsilon`` needs a folder.
        ledger_witness
            As for :func:`blindsum.join`; it is not in the folder of the ledger.
        initial
            A model that the party can give, as for :func:`blindsum.join`.
        now, wall
            The time on both clocks.

        Raises
        ------
        blindsum.IdentityError
            Certificates or keys that cannot be used.
        blindsum.StoreError
            A state that is damaged or another party's.
        """
        rules = rules_of(policy)
        if ledger is None and rules["privacy"]["max_epsilon"] is not None:
            rule = "is missing, and policy.max_epsilon needs it: name a folder, the same one in all jobs"
            raise ConfigError("ledger", rule)
        native = _native.PartyMachine.open(
            job,
            pem_files(identity, ca, revoked),
            rules,
            state,
            None if mark is None else checks.setting("mark", mark, 0, _MOST_MARK),
            checks.setting("mask_memory", mask_memory, 0, MAX_MASK_MEMORY),
            None if ledger is None else checks.folder("ledger", ledger),
            None if ledger_witness is None else checks.path("ledger_witness", ledger_witness),
            initial_of(initial),
            *_clocks(now, wall),
        )
        return cls(native)

    @property
    def spec(self) -> JobSpec | None:
        """The job, once the party has learnt it."""
        job = self._native.job
        return None if job is None else JobSpec._of(job)

    @property
    def is_over(self) -> bool:
        """Whether the party has ended."""
        return self._native.is_over

    @property
    def wake(self) -> float | None:
        """When to call :meth:`tick`, on the clock of ``now``; ``None`` where there is no need."""
        return self._native.wake

    def connected(self, *, now: float | None = None, wall: float | None = None) -> None:
        """Tell that there is a new connection, in the place of the one before."""
        self._native.connected(*_clocks(now, wall))

    def lost(self, reason: str = "lost", *, now: float | None = None, wall: float | None = None) -> None:
        """Tell that the connection has ended."""
        self._native.lost(reason, *_clocks(now, wall))

    def receive(self, frame: bytes, *, now: float | None = None, wall: float | None = None) -> None:
        """Hand in a frame of the coordinator.

        Raises
        ------
        blindsum.Fault
            Bytes that are no frame; nothing has happened then.
        """
        self._native.receive(frame, *_clocks(now, wall))

    def want_round(
        self,
        *,
        tag: int | None = None,
        about: object = None,
        now: float | None = None,
        wall: float | None = None,
    ) -> None:
        """Wait for the next round: it begins once the result of the one before was taken.

        With a ``tag`` it is the round that a host begins with this tag, and with ``about`` one that is about
        the same, as for :meth:`Session.next_round`. A round of another tag that has not this party's update
        yet goes on without it.
        """
        self._native.want_round(as_step(tag, about), *_clocks(now, wall))

    def submit(
        self,
        number: int,
        update: object,
        weight: float | None = None,
        metrics: Mapping[str, float | None] | None = None,
        *,
        now: float | None = None,
        wall: float | None = None,
    ) -> None:
        """Give this party's update to a round that began.

        Raises
        ------
        blindsum.InputError
            An update, a weight or metrics as :meth:`Round.submit` refuses them; another one may be submitted
            then.
        blindsum.SubmitError
            An update was submitted already, the round is over (an event says how), or has not begun for this
            party. The update of this call was dropped.
        """
        spec = self.spec
        if spec is None:
            raise InputError("update", "the party has not joined the job yet; wait for the event Joined")
        if self._weights is None:
            self._weights = DefaultWeight(spec)
        vector, whole = checked_vector(spec, update), self._weights.of(weight)
        named = checked_metrics(spec, metrics)
        self._native.submit(number, vector, whole, named, *_clocks(now, wall))

    def took(self, number: int, *, now: float | None = None, wall: float | None = None) -> None:
        """Confirm that the result of a round was taken, or is not wanted: it is not told again."""
        self._native.took(number, *_clocks(now, wall))

    def abandon(
        self,
        number: int,
        refused: str | None = None,
        *,
        now: float | None = None,
        wall: float | None = None,
    ) -> None:
        """Take no further part in a round: the coordinator is told at once, and the others go on.

        ``refused`` is as for :meth:`blindsum.Round.skip`.
        """
        self._native.abandon(number, refused, *_clocks(now, wall))

    def leave(self, *, now: float | None = None, wall: float | None = None) -> None:
        """Leave the job. :meth:`frames` has the last frame, which tells the coordinator."""
        self._native.leave(*_clocks(now, wall))

    def tick(self, *, now: float | None = None, wall: float | None = None) -> None:
        """Tell that time has passed."""
        self._native.tick(*_clocks(now, wall))

    def events(self) -> list[Event]:
        """What has happened since the last call."""
        return self._native.events()

    def frames(self) -> list[bytes]:
        """What is to be sent to the coordinator, in this order; each frame is given once.

        If the party was opened with a mark, these are the frames from before the last :meth:`suspend`. Send
        them only when its state and then its mark are durable.
        """
        return self._native.frames()

    def suspend(self, *, now: float | None = None, wall: float | None = None) -> Suspended:
        """Give all that must survive the process. The machine goes on; what it does later is not in it."""
        return self._native.suspend(*_clocks(now, wall))


class ServerMachine:
    """The coordinator of a job, from :meth:`open`."""

    def __init__(self, native: _native.ServerMachine, spec: JobSpec) -> None:
        self._native = native
        self._spec = spec

    @classmethod
    def open(
        cls,
        spec: JobSpec,
        *,
        ca: AnyPath,
        revoked: AnyPath | None = None,
        store: bytes | None = None,
        model: object = None,
        waits: Waits | None = None,
        hosted: bool = False,
        now: float | None = None,
        wall: float | None = None,
    ) -> ServerMachine:
        """Begin a job, or go on with it.

        Parameters
        ----------
        spec
            The job.
        ca, revoked
            The certificate of the job's CA, or the folder with ``ca.pem``, and its revocation list.
        store
            The latest :attr:`store`, to go on with a job; ``None`` begins one.
        model
            The model that the first sum starts from, ``dim`` elements; ``None`` starts from zeros. A store
            goes on from its own.
        waits
            How long it waits, and for what; ``None`` takes the defaults.
        hosted
            Whether rounds begin by :meth:`begin`, each with the parties that it names, and none by itself.
        now, wall
            The time on both clocks.

        Raises
        ------
        blindsum.IdentityError
            A CA that cannot be used.
        blindsum.StoreError
            A store that is damaged, or of another specification.
        """
        checks.job_spec(spec)
        if waits is not None and not isinstance(waits, Waits):
            raise ConfigError(
                "waits", f"must be a blindsum.machines.Waits or None, not a {type(waits).__name__}"
            )
        start = None if model is None else first_model(model, spec)
        authority, lists = authority_texts(ca, revoked)
        native = _native.ServerMachine.open(
            spec._job,
            authority,
            lists,
            store,
            start,
            waits or Waits(),
            checked_hosted(hosted),
            *_clocks(now, wall),
        )
        return cls(native, spec)

    @property
    def status(self) -> dict[str, Any]:
        """Where the job stands, as :meth:`blindsum.Coordinator.statuses` gives it."""
        return self._native.status

    @property
    def stage(self) -> str | None:
        """The stage that the round is in: ``"offered"`` while parties join it, then a name of its protocol.

        ``None`` between rounds. A host may send its model with the frames that it gives in the stage before
        the one whose answers carry updates.
        """
        latest = self.status["round"] or {}
        match latest.get("state"):
            case "joining":
                return "offered"
            case "running" if latest["stages"]:
                return str(latest["stages"][-1]["name"])
            case _:
                return None

    def begin(
        self,
        parties: Iterable[str],
        model: object = None,
        *,
        tag: int | None = None,
        about: object = None,
        join_within: float | None = None,
        deadline: float | None = None,
        now: float | None = None,
        wall: float | None = None,
    ) -> None:
        """Begin a round of exactly these parties, as :meth:`blindsum.Coordinator.begin`.

        The event :class:`RoundOver` says what came of it.

        Raises
        ------
        blindsum.ConfigError, blindsum.InputError
            Names, a tag, times or a model that cannot be.
        blindsum.CallError
            No round can begin now.
        """
        names, step = named(parties), as_step(tag, about)
        start = None if model is None else given_model(model, self._spec)
        within, until = as_time("join_within", join_within), as_time("deadline", deadline)
        self._native.begin(list(names), start, step, within, until, *_clocks(now, wall))

    def report_failed(
        self, party: str, reason: str = "", *, now: float | None = None, wall: float | None = None
    ) -> None:
        """Tell that a party of the round has failed, as :meth:`blindsum.PendingRound.report_failed`."""
        self._native.report_failed(
            checks.line("party", party), checks.line("reason", reason), *_clocks(now, wall)
        )

    def call_off(self, reason: str, *, now: float | None = None, wall: float | None = None) -> None:
        """End the round that was begun without a result, unless it has one."""
        self._native.call_off(checks.line("reason", reason), *_clocks(now, wall))

    @property
    def store(self) -> bytes:
        """All that must not be forgotten. Make it durable before frames are sent, if a kill is possible."""
        return self._native.store

    @property
    def wake(self) -> float | None:
        """When to call :meth:`tick`, on the clock of ``now``; ``None`` where there is no need."""
        return self._native.wake

    def connected(
        self,
        certificate: bytes | str,
        address: str = "",
        *,
        now: float | None = None,
        wall: float | None = None,
    ) -> int:
        """Take a new connection of the holder of a certificate; gives the number of the connection.

        The machine checks that the CA has signed the certificate. The carrier must make sure that the other
        end holds its key.

        Parameters
        ----------
        certificate
            In DER, or as PEM text.
        address
            Where the party connects from, for people.

        Raises
        ------
        blindsum.IdentityError
            The CA has not signed it for a party, or it is out of date or revoked.
        """
        der = ssl.PEM_cert_to_DER_cert(certificate) if isinstance(certificate, str) else certificate
        return self._native.connected(der, address, *_clocks(now, wall))

    def lost(
        self, link: int, reason: str = "lost", *, now: float | None = None, wall: float | None = None
    ) -> None:
        """Tell that a connection has ended."""
        self._native.lost(link, reason, *_clocks(now, wall))

    def receive(
        self, link: int, frame: bytes, *, now: float | None = None, wall: float | None = None
    ) -> None:
        """Hand in a frame of a party. A frame that no party may send ends this connection, and no other."""
        self._native.receive(link, frame, *_clocks(now, wall))

    def tick(self, *, now: float | None = None, wall: float | None = None) -> None:
        """Tell that time has passed."""
        self._native.tick(*_clocks(now, wall))

    def stop(self, *, now: float | None = None, wall: float | None = None) -> None:
        """Stop. All parties are told, and may come back to a coordinator that goes on with the store."""
        self._native.stop(*_clocks(now, wall))

    def events(self) -> list[LinkEvent]:
        """What has happened since the last call."""
        return self._native.events()

    def frames(self) -> list[Outgoing]:
        """What is to be sent, in this order; each frame is given once."""
        return self._native.frames()


_MOST_MARK = 2**63 - 1


def _clocks(now: float | None, wall: float | None) -> tuple[float, float]:
    return (time.monotonic() if now is None else now, time.time() if wall is None else wall)
