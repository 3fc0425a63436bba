"""Run a coordinator in this process, and read its store."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from blindsum import _native, checks
from blindsum.display import Shown
from blindsum.errors import ConfigError, ForkedError
from blindsum.hosted import Hosting, checked_hosted
from blindsum.model_start import ModelStart
from blindsum.native_events import Quiet, Status, Stopped
from blindsum.orders import command_of
from blindsum.pki import AnyPath, Identity, pem_files
from blindsum.sparse import warn_if_rarely_opened
from blindsum.spec import JobSpec
from blindsum.stores import (
    StoredFault,
    back_up,
    stored_best_model,
    stored_faults,
    stored_jobs,
    stored_model,
    stored_rounds,
    stored_spec,
    stored_versions,
)
from blindsum.texts import counted

if TYPE_CHECKING:
    # A coordinator without a model needs no NumPy, which takes as much memory as the rest of it.
    from blindsum.arrays import Vector
    from blindsum.rounds import Array

__all__ = [
    "Coordinator",
    "ModelStart",
    "StoredFault",
    "back_up",
    "stored_best_model",
    "stored_faults",
    "stored_jobs",
    "stored_model",
    "stored_rounds",
    "stored_spec",
    "stored_versions",
]

logger = logging.getLogger("blindsum")


class Coordinator(Hosting, Shown):
    """A coordinator of one job. Use it in a ``with`` statement.

    It runs on native threads until the job is over or :meth:`stop` is called. What these log goes to
    :mod:`logging` after ``blindsum.logs.to_logging("info")``.

    Parameters
    ----------
    spec
        The job.
    identity
        The coordinator's certificate and key: the path of ``NAME.pem`` and ``NAME.key`` without
        ending, or a folder with one such pair; for an encrypted key a :class:`blindsum.pki.Identity`.
    ca
        The certificate of the job's CA, or the folder with ``ca.pem``.
    listen
        ``HOST:PORT``; with port 0 the system chooses a free one.
    revoked
        The CA's revocation list.
    store
        The SQLite file for rounds and models; with ``None`` they are lost when the coordinator ends. If
        :attr:`JobSpec.hides_sum`, it has only the first model: only the parties have the others.
    audit
        The file of the audit trail: a line for everybody who comes, leaves or is refused, for every end of a
        round and every fault, each with the hash of the line before. :mod:`blindsum.audit` reads it.
    model
        The model that the first sum starts from, ``dim`` elements; ``None`` starts from zeros. It is rounded
        to the precision of the job's models: in float32 a number below about 1e-45 becomes 0. If the store
        has the job already, it goes on from the store's model, and the log warns.
    limits
        Limits for parties, by name, e.g. ``reconnect_grace``: seconds for which a lost party of a round may
        come back. Missing ones have defaults; the error for a wrong name lists them all.
    stop_when_done
        Whether to stop once the job is over, every survivor of its last round has confirmed the result, and
        its other parties know that it is over. For those that were lost in the last round it waits
        ``farewell`` seconds, a limit, by default 30.
    servers
        For a job whose three servers compute together (``mpc3``): the URLs of all three as everybody reaches
        them, this coordinator first. For a job with a decryptor at another host (``paillier``): the URLs of
        the coordinator and of that server. The others are :class:`Server`.
    results
        A folder for the results that the coordinator learns: the mean of round 12 in ``JOB-000012.npy``,
        float64, and for integers the exact sums in ``JOB-000012-sums.npy``, uint64. They are written before
        the round counts. A job whose servers alone learn results (``result="servers"`` of ``mpc3``) needs it.
    membership
        Where the leases of parties are kept: ``"embedded"``, in this process, or
        ``"etcd://HOST:PORT[,HOST:PORT...]"``, the servers of one cluster of etcd, over mutual TLS.
    membership_identity
        What etcd is shown, as ``identity``; its certificate needs client authentication. ``None`` shows the
        coordinator's own.
    membership_ca
        The CA of etcd's certificate, as ``ca``; ``None`` is the job's CA.
    metrics
        ``HOST:PORT`` at which scrapes (``/metrics``) and health checks (``/livez``, ``/readyz``) are answered
        by plain HTTP; with port 0 the system chooses a free one. ``None`` answers nowhere.
    admin
        ``HOST:PORT`` at which operators see the state of the job and give orders, with :class:`Admin`;
        with ``None`` nobody may from outside.
    dashboard
        ``HOST:PORT`` of a page that shows the job in a browser, over plain HTTP; ``None`` shows it
        nowhere.
    dashboard_token_file
        Needed with ``dashboard``: a file whose first line is the token that the page asks for, 16 characters
        or more.
    choice
        Which parties take part where more are ready than a round takes: those that are ready ``"first"``,
        those that have waited longest (``"turns"``), or some drawn for each round (``"random"``). The last
        two wait for all parties that are connected.
    change
        How many parties of the latest round ``"turns"`` and ``"random"`` replace at once, at least; otherwise
        they replace none. The difference of two sums reveals most if one party was replaced: a party
        refuses rosters that change less than ``min_cohort_change`` of its policy.
    hosted
        Whether your program begins the rounds, each with the parties that it names: :meth:`round`,
        :meth:`begin`. The coordinator begins none by itself then.

    Attributes
    ----------
    address : str
        The address at which it listens, ``HOST:PORT``.
    metrics : str or None
        The address at which scrapes and health checks are answered, ``HOST:PORT``.
    admin : str or None
        The address at which operators can connect, ``HOST:PORT``.
    dashboard : str or None
        The address of the dashboard, ``HOST:PORT``.
    servers : tuple of str
        The URLs of all three servers; empty if it is alone.
    hosts : tuple of str
        The host names and addresses in its certificate. Parties must connect to one of them.
    starts_from : ModelStart
        The model that the next sum starts from, which the logger ``blindsum`` also names (level INFO).

    Raises
    ------
    blindsum.IdentityError, blindsum.ConfigError, blindsum.StoreError, blindsum.NetworkError
        It cannot start; the error says why.
    """

    def __init__(
        self,
        spec: JobSpec,
        *,
        identity: AnyPath | Identity,
        ca: AnyPath,
        listen: str = "127.0.0.1:0",
        revoked: AnyPath | None = None,
        store: AnyPath | None = None,
        audit: AnyPath | None = None,
        model: object = None,
        limits: Mapping[str, float] | None = None,
        stop_when_done: bool = True,
        servers: Sequence[str] = (),
        results: AnyPath | None = None,
        membership: str = "embedded",
        membership_identity: AnyPath | Identity | None = None,
        membership_ca: AnyPath | None = None,
        metrics: str | None = None,
        admin: str | None = None,
        dashboard: str | None = None,
        dashboard_token_file: AnyPath | None = None,
        choice: str = "first",
        change: int = 1,
        hosted: bool = False,
    ) -> None:
        checks.job_spec(spec)
        start = None if model is None else _first_model(model, spec)
        bounds = {name: checks.limit(name, value) for name, value in (limits or {}).items()}
        self._native = _native.serve(
            spec._job,
            listen,
            pem_files(identity, ca, revoked),
            None if store is None else checks.store(store),
            None if audit is None else checks.path("audit", audit),
            start,
            bounds,
            stop_when_done,
            list(servers),
            None if results is None else checks.folder("results", results),
            membership,
            _shown_to_etcd(membership_identity, membership_ca, identity, ca),
            metrics,
            admin,
            dashboard,
            None
            if dashboard_token_file is None
            else checks.path("dashboard_token_file", dashboard_token_file),
            (choice, checks.setting("change", change, 1, 2**32 - 1)),
            checked_hosted(hosted, choice),
        )
        self._spec = spec
        self._store = None if store is None else checks.store(store)
        self.address = self._native.address
        self.metrics = self._native.metrics
        self.admin = self._native.admin
        self.dashboard = self._native.dashboard
        self.hosts = tuple(self._native.hosts)
        self.servers = tuple(servers)
        self.starts_from = ModelStart(*self._native.starts_from)
        logger.info(
            "job %r: starts from %s (model version %d, hash %s)",
            spec.job,
            _start_in_words(self.starts_from, spec),
            self.starts_from.version,
            self.starts_from.hash or "not known here",
        )
        warn_if_rarely_opened(spec)

    def _shown(self) -> dict[str, object]:
        spec = self._spec
        size = f"{spec.protocol}, up to {counted(spec.parties, 'party')}, {counted(spec.dim, 'coordinate')}"
        start = f"{self.starts_from.kind}, version {self.starts_from.version}"
        return {"job": spec.job, "protocol": size, "address": self.address, "model": start, "hash": spec.hash}

    def statuses(self, quiet_after: float = math.inf) -> Iterator[dict[str, Any] | None]:
        """Give the status of the job after every change, until the coordinator has stopped.

        Of changes that follow each other closely only the last one is told, but for ends of rounds: none of
        these is left out, unless nobody takes 256 of them.

        A status is plain data. In it, ``connected`` lists the parties that are connected, and
        ``min_parties`` is how many a round needs. ``lost`` lists parties whose connection was lost since
        the latest round was offered. ``left`` has by name the reasons of parties that have left and not
        returned; the text comes from them, unless their certificates were revoked. ``unconfirmed`` lists
        survivors of the latest sum that have not confirmed it. ``warning`` has tasks of the operator, such
        as to renew a revocation list: while it is out of date no round begins, and none counts as failed;
        the same if a clock is wrong. ``warnings`` has them one by one, without ``blocked``.
        ``key_exchange`` is that of TLS on the connection of each party and other server, as in
        ``X25519MLKEM768``. ``blocked`` names the party, server or disk for which the job waits after a
        round without a result, or before a round can end; ``warning`` has it, too. ``held`` has the reason
        why operators hold the job, as after :meth:`pause`. ``ready`` lists the parties that are ready for
        the round that is offered, and ``banned`` those that are banned, with the time until when in
        milliseconds since 1970. ``state`` is ``"running"``, ``"done"``, ``"failed"``, or ``"stopped"`` if
        this coordinator cannot go on and the job has not failed, as with a full store. ``round`` is the
        latest round. If its ``key_setup`` is true, it only gives the key of the job to its ``survivors``.
        Its ``total_weight`` is ``None`` before there is a sum, and if :attr:`JobSpec.hides_sum`. Its
        ``result`` is the name of the result, as in :attr:`RoundResult.result`.

        Parameters
        ----------
        quiet_after
            Give ``None`` whenever nothing has changed for this many seconds.

        Raises
        ------
        blindsum.BlindsumError
            The job failed, or its coordinator cannot go on.
        """
        while True:
            match self._native.next_status(min(quiet_after, 3600.0)):
                case Status(fields):
                    yield fields
                case Quiet():
                    if quiet_after < math.inf:
                        yield None
                case Stopped():
                    return

    def drain(self, reason: str = "the program drains it", *, within: float | None = None) -> None:
        """Finish the round under way, offer none, and end; :meth:`statuses` ends when that is done.

        This returns at once. The job goes on when a coordinator is started again on the store.

        Parameters
        ----------
        reason
            Why; it is recorded.
        within
            Seconds after which to end even if the round has not. ``None`` is the limit ``drain_deadline``, or
            the job's ``input_deadline``.

        Raises
        ------
        blindsum.ConfigError
            ``within`` is not positive.
        """
        bound = None if within is None else checks.seconds("within", within)
        self._native.drain(reason, bound)

    def pause(self, reason: str) -> str:
        """Finish the round under way and offer none before :meth:`resume`, also after a restart.

        Parties stay connected and wait. Like all orders, this one is recorded in the store with the reason.

        Returns
        -------
        str
            What was done, for people.

        Raises
        ------
        blindsum.OrderError
            The job is paused already, or is over.
        """
        return self._order("pause", reason)

    def resume(self, reason: str) -> str:
        """Go on with a job that was paused, or that has failed and whose coordinator still runs.

        Raises
        ------
        blindsum.OrderError
            The job is neither paused nor has failed.
        """
        return self._order("resume", reason)

    def extend(
        self,
        reason: str,
        *,
        rounds: int | None = None,
        join_deadline: float | None = None,
        stage_deadline: float | None = None,
        input_deadline: float | None = None,
    ) -> str:
        """Change the terms of the job: how many rounds it has in all, and its deadlines in seconds.

        ``None`` leaves a value unchanged. Deadlines hold from the next round on. Parties receive the
        terms with the beginning of a round. The specification and its hash stay as they are; the store
        keeps the terms.

        Raises
        ------
        blindsum.ConfigError
            A value breaks a rule.
        blindsum.OrderError
            More rounds are done already, or nothing would change.
        """
        deadlines = {
            "join_deadline": join_deadline,
            "stage_deadline": stage_deadline,
            "input_deadline": input_deadline,
        }
        return self._order("extend", reason, rounds=rounds, **deadlines)

    def end(self, reason: str) -> str:
        """Finish the round under way; the job is done then, whatever rounds were left.

        Raises
        ------
        blindsum.OrderError
            The job is over.
        """
        return self._order("end", reason)

    def ban(self, party: str, reason: str, *, seconds: float | None = None) -> str:
        """Leave a party out, for so many seconds or until :meth:`unban`.

        Its connection ends, the round under way goes on without it, and its connections are refused. It
        waits and tries again for as long as its own ``give_up_after`` lasts.

        Raises
        ------
        blindsum.ConfigError
            ``seconds`` is no number of seconds.
        blindsum.OrderError
            ``party`` is no name that a certificate can have.
        """
        return self._order("ban", reason, party=party, seconds=seconds)

    def unban(self, party: str, reason: str) -> str:
        """End the ban of a party.

        Raises
        ------
        blindsum.OrderError
            It is not banned.
        """
        return self._order("unban", reason, party=party)

    def _order(self, command: str, reason: str, **values: object) -> str:
        return self._native.order(command_of(command, values), checks.line("reason", reason))

    @property
    def model(self) -> Array | None:
        """The present model of the job, out of the store; after the end of the job its final model.

        Shape ``(dim,)``, of the element type of the job's models. ``None`` before the first sum of a job that
        begins with zeros, and where the job keeps no model (``model_update="none"``).

        Raises
        ------
        blindsum.HiddenModelError
            Only the parties have it (:attr:`JobSpec.hides_sum`): :attr:`Session.final_model`.
        blindsum.ConfigError
            This coordinator has no store.
        """
        if self._store is None:
            rule = "this coordinator stores no models: give store=, or take final_model of a party's session"
            raise ConfigError("store", rule)
        states = {state["job"]: state for state in stored_jobs(self._store)}
        return stored_model(self._store, self._spec.job, int(states[self._spec.job]["model_version"]))

    @property
    def best_model(self) -> Array:
        """The best model of a job with ``stop``, out of the store.

        Shape ``(dim,)``, of the element type of the job's models. Its version, value and round are ``best``
        in :meth:`statuses`.

        Raises
        ------
        blindsum.ConfigError
            This coordinator has no store, or the job has no ``stop``.
        blindsum.StoreError
            No round has a value of the metric yet.
        """
        if self._store is None:
            rule = "this coordinator stores no models: give store="
            raise ConfigError("store", rule)
        return stored_best_model(self._store, self._spec.job)[1]

    def stop(self) -> None:
        """Tell the parties and end; :meth:`statuses` ends when that is done."""
        self._native.stop()

    def reload(self) -> None:
        """Read certificate, key, CA and revocation list again now.

        This also happens by itself, within seconds of a change of one of the files. A file that cannot be
        used is logged, and the earlier content stays in use. New connections show the new certificate; a
        party that is revoked is in no further round.
        """
        self._native.reload()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # In a forked child the coordinator is that of the parent, which goes on.
        with suppress(ForkedError):
            self.stop()
            if error is None:
                for _ in self.statuses():
                    pass


_STARTS = {
    "zeros": "zeros; another one is given with model=",
    "awaited": "a model that a party gives",
    "party": "a model that a party gave",
    "given": "the model that was given",
    "store": "the model of the store",
    "parties": "a model that only the parties have",
    "none": "nothing: the job keeps no model",
}
"""Kinds of :class:`ModelStart` in words."""


def _start_in_words(start: ModelStart, spec: JobSpec) -> str:
    """What the log says of the model that the job starts from."""
    if start.kind == "zeros" and spec.initial == "zeros":
        return "zeros, as the job says"
    return f"the model that {start.party} gave" if start.kind == "party" else _STARTS[start.kind]


def _shown_to_etcd(
    identity: AnyPath | Identity | None, ca: AnyPath | None, own: AnyPath | Identity, own_ca: AnyPath
) -> _native.Pem | None:
    """The files of a connection to etcd; ``None`` where they are the coordinator's own."""
    if identity is None and ca is None:
        return None
    return pem_files(own if identity is None else identity, own_ca if ca is None else ca, None)


def _first_model(model: object, spec: JobSpec) -> Vector:
    """The model that a job begins with."""
    from blindsum.first_model import first_model

    return first_model(model, spec)
