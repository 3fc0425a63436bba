"""Operate a coordinator from elsewhere: see how its jobs stand, and give orders to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from blindsum import _native, checks
from blindsum.display import Shown
from blindsum.hosted import (
    HostedResult,
    PendingRound,
    as_step,
    as_time,
    checked_hosted,
    given_model,
    named,
    result_of,
)
from blindsum.orders import command_of
from blindsum.pki import AnyPath, Identity, pem_files
from blindsum.spec import JobSpec


class Admin(Shown):
    """A coordinator's admin interface, over mutual TLS with the certificate of an operator.

    The first call connects. Every order is recorded in the coordinator's store, with the operator's name and
    the reason.

    Parameters
    ----------
    url
        The admin address of the coordinator, ``https://HOST:PORT``.
    identity
        The operator's certificate and key, as ``blindsum pki issue CA NAME --operator`` makes them: the path
        of ``NAME.pem`` and ``NAME.key`` without ending.
    ca
        The certificate of the job's CA, or the folder with ``ca.pem``.
    server_name
        The name in the coordinator's certificate, if it is not the host of ``url``.

    Raises
    ------
    blindsum.IdentityError
        A file is missing or damaged.
    """

    def __init__(
        self,
        url: str,
        *,
        identity: AnyPath | Identity,
        ca: AnyPath,
        server_name: str | None = None,
    ) -> None:
        self._url = checks.line("url", url)
        self._native = _native.admin_of(url, pem_files(identity, ca, None), server_name)

    def _shown(self) -> dict[str, object]:
        return {"url": self._url}

    def jobs(self) -> list[dict[str, Any]]:
        """Every job of the coordinator, by name, each as :meth:`describe` gives it.

        Raises
        ------
        blindsum.NetworkError
            The coordinator cannot be reached, or does not let this operator in.
        """
        jobs: list[dict[str, Any]] = json.loads(self._native.describe(""))
        return jobs

    def describe(self, job: str) -> dict[str, Any]:
        """How a job stands, as plain data.

        It has the fields of a status (:meth:`Coordinator.statuses`), and ``specification``, its ``hash``,
        ``hosted`` (whether a host begins its rounds),
        ``stage`` (what the job does now: ``"offered"`` while parties join, the name of a stage, ``"waiting"``
        between rounds, or its state if it is over), ``stage_since_ms`` (milliseconds since 1970, or
        ``None``), ``ended`` (the latest five rounds that are over, newest first, each with ``lost``: who was
        lost, and why) and ``orders`` (the latest five orders, newest first).

        Raises
        ------
        blindsum.OrderError
            There is no such job.
        blindsum.NetworkError
            As for :meth:`jobs`.
        """
        found: list[dict[str, Any]] = json.loads(self._native.describe(checks.line("job", job)))
        return found[0]

    def order(self, job: str, command: str, reason: str, **values: object) -> str:
        """Order something of a job; gives what was done, for people.

        Parameters
        ----------
        job
            The job; ``""`` with ``"drain"`` is the whole coordinator, which ends then.
        command
            ``"drain"``, ``"pause"``, ``"resume"``, ``"extend"``, ``"end"``, ``"ban"`` or ``"unban"``, as the
            methods of :class:`Coordinator`.
        reason
            Why, in at most 500 characters.
        values
            ``within`` of ``drain``; ``rounds``, ``join_deadline``, ``stage_deadline`` and ``input_deadline``
            of ``extend``; ``party`` of ``ban`` and ``unban``; ``seconds`` of ``ban``. ``None`` leaves a value
            out.

        Raises
        ------
        blindsum.ConfigError
            There is no such order, it has no such argument, or a value breaks its rule.
        blindsum.OrderError
            The order was refused, and nothing was done; ``code`` says why.
        blindsum.NetworkError
            As for :meth:`jobs`.
        """
        given = command_of(command, values)
        return self._native.order(checks.line("job", job), given, checks.line("reason", reason))

    def add(self, spec: JobSpec, reason: str, *, hosted: bool = False) -> str:
        """Add a job, which starts from zeros or goes on from the coordinator's store.

        Parameters
        ----------
        spec
            The job.
        reason
            Why, in at most 500 characters.
        hosted
            Whether a host begins its rounds (:meth:`begin`).

        Raises
        ------
        blindsum.OrderError
            The job breaks a rule, has the name of another one there, needs other servers, or is in the store
            with another specification.
        blindsum.NetworkError
            As for :meth:`jobs`.
        """
        return self._native.add(spec.to_json(), checked_hosted(hosted), checks.line("reason", reason))

    def begin(
        self,
        job: str,
        parties: Iterable[str],
        model: object = None,
        *,
        tag: int | None = None,
        about: object = None,
        join_within: float | None = None,
        deadline: float | None = None,
    ) -> PendingRound:
        """Begin a round of exactly these parties, and return at once: as :meth:`Coordinator.begin`.

        The job must be one whose rounds a host begins: ``hosted = true`` in the coordinator's configuration,
        ``blindsum serve --hosted``, or :meth:`add` with ``hosted=True``. The coordinator calls the round off
        if this process ends before it, or once this object and *all* rounds that it has begun are gone: each
        :class:`PendingRound` keeps the connections of the others.

        Parameters
        ----------
        job
            The job.
        parties, model, tag, about, join_within, deadline
            As for :meth:`Coordinator.begin`.

        Raises
        ------
        blindsum.ConfigError, blindsum.InputError
            Names, a tag, times or a model that cannot be.
        blindsum.CallError
            No round can begin now, or there is no such job.
        blindsum.NetworkError
            As for :meth:`jobs`; :meth:`PendingRound.result` raises it, too, where the connection ends.
        """
        names = named(parties)
        step = as_step(tag, about)
        start = None if model is None else given_model(model)
        within, until = as_time("join_within", join_within), as_time("deadline", deadline)
        name = checks.line("job", job)
        native = self._native.begin(name, list(names), start, step, within, until)
        return PendingRound(native, names, None if step is None else step[0])

    def round(
        self,
        job: str,
        parties: Iterable[str],
        model: object = None,
        *,
        tag: int | None = None,
        about: object = None,
        join_within: float | None = None,
        deadline: float | None = None,
    ) -> HostedResult:
        """Run a round of exactly these parties: :meth:`begin`, and wait for its result.

        Raises
        ------
        blindsum.RoundLost
            The round has no result; its ``lost`` names who was lost and why.
        blindsum.ConfigError, blindsum.InputError, blindsum.CallError, blindsum.NetworkError
            As for :meth:`begin`.

        Examples
        --------
        ::

            admin = bs.Admin("https://agg.example:9444", identity="flora", ca="ca.pem")
            result = admin.round("tumour", ["node-1", "node-2", "node-3"], tag=step)
        """
        times = {"join_within": join_within, "deadline": deadline}
        return result_of(self.begin(job, parties, model, tag=tag, about=about, **times))

    def reload(self, reason: str) -> list[str]:
        """Make the coordinator read its files again: certificates, limits and new jobs of its configuration.

        Returns
        -------
        list of str
            What it did, and what it did not do and why, a sentence each.

        Raises
        ------
        blindsum.OrderError
            The reason is missing, or it was done in part: with the code ``"in-part"`` the reason of the error
            has what was done, and what was not and why, a line each.
        blindsum.NetworkError
            As for :meth:`jobs`.
        """
        return self._native.reload(checks.line("reason", reason)).splitlines()
