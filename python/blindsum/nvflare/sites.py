"""A site's part in one round: it joins when the task comes, and gives its update when it has trained."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from blindsum import joining
from blindsum.arrays import Vector
from blindsum.errors import (
    BlindsumError,
    ConfigError,
    NetworkError,
    OtherTag,
    ResultMissed,
    RoundAborted,
)
from blindsum.nvflare.params import Params
from blindsum.nvflare.settings import SiteSettings
from blindsum.nvflare.texts import HASH, MEAN
from blindsum.rounds import Round, RoundResult

RELEASE = 2**63 - 1
"""The tag of a round that nobody takes part in: the server offers it to sites whose round was lost."""

LATE = RELEASE - 1
"""The same, for sites that came too late for a round that has a sum."""


@dataclass(frozen=True)
class Invitation:
    """What a site knows of a round before it joins.

    Attributes
    ----------
    url, job : str
        The coordinator and the name of the job.
    tag : int
        The round of NVFlare.
    reply : str
        What the result is: ``"mean"`` or ``"hash"``.
    job_hash : str
        The hash of the job's specification, where the server said it.
    party : str
        The name of this site's certificate, where the server said it.
    """

    url: str
    job: str
    tag: int
    reply: str = MEAN
    job_hash: str = ""
    party: str = ""


class SitePart:
    """A site's part in a round. The stages of keys run while the site trains.

    Parameters
    ----------
    invitation
        The round.
    settings
        The site's own.
    params
        The model of the task.
    about
        What the site trains on. The site takes part in no round whose server says that it is about something
        else.

    Raises
    ------
    blindsum.BlindsumError
        The site takes no part; as for :func:`blindsum.join`.
    """

    def __init__(
        self, invitation: Invitation, settings: SiteSettings, params: Params, about: list[object]
    ) -> None:
        if settings.identity is None or settings.ca is None:
            raise ConfigError(
                "identity",
                "is missing: name this site's certificate and key, and the CA's certificate by ca, in "
                "local/blindsum.json of the site",
            )
        self.invitation, self.params, self._about = invitation, params, about
        self._unbound = settings.unbound
        self.is_over = False
        self._job = joining.join(
            invitation.url,
            job=invitation.job,
            identity=settings.identity,
            ca=settings.ca,
            revoked=settings.crl,
            policy=settings.policy,
            state_dir=settings.state,
            give_up_after=settings.give_up_after,
            mask_memory=0,
        )
        with self._job.left_on_error():
            self._check()
        self._found: Round | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    @property
    def most_weight(self) -> int:
        """The largest weight of the job."""
        return self._job.spec.max_weight

    @property
    def party(self) -> str:
        """The name of this site as a party."""
        return self._job.name

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that the job sums."""
        return tuple(metric.name for metric in self._job.spec.metrics)

    def _check(self) -> None:
        spec, told = self._job.spec, self.invitation
        if told.job_hash and spec.hash != told.job_hash:
            raise NetworkError(
                f"the coordinator at {told.url} has another job {told.job!r} than the server "
                "announces: two runs use one address; give each its own listen in "
                "local/blindsum.json of the server"
            )
        if told.party and told.party != self._job.name:
            raise ConfigError(
                "identity",
                f"is of {self._job.name!r}, and the server waits for {told.party!r} here: issue a "
                "certificate with the site's name, or say names={site: name} in SecureAggregator",
            )
        if spec.dim != self.params.dim:
            raise ConfigError(
                "dim",
                f"{spec.dim} of job {told.job!r} must be {self.params.dim}, the coordinates of the task's "
                "model: set dim in the job's specification",
            )
        if told.reply == HASH and spec.hides_sum:
            raise ConfigError("protocol", hides_sum(str(spec.protocol)))

    def give(self, vector: Vector, weight: int, metrics: Mapping[str, float]) -> RoundResult | RoundAborted:
        """Add the update to the sum, and wait for the result.

        Parameters
        ----------
        vector
            The update, shape ``(dim,)``.
        weight
            Its weight, 1 or more.
        metrics
            Metrics that the job sums.

        Returns
        -------
        RoundResult or RoundAborted
            The result; or why nobody has one.

        Raises
        ------
        blindsum.BlindsumError
            This site alone has no result, or takes no part; the update may count.
        """
        try:
            current = self._round()
            current.submit(vector, weight, metrics)
            return current.outcome()
        except OtherTag as lost:
            if lost.offered == RELEASE:
                return RoundAborted(lost.number, "too few sites were left before it began")
            if lost.offered == LATE:
                reason = f"this site came too late: the round of tag {lost.wanted} has its sum"
                raise OtherTag(lost.number, reason, lost.wanted, lost.offered) from None
            raise
        except RoundAborted as lost:
            if lost.only_me or isinstance(lost, ResultMissed):
                raise
            return lost
        finally:
            self.leave()

    def leave(self) -> None:
        """Leave the job: the others go on without this site at once, unless its update is in."""
        if not self.is_over:
            self.is_over = True
            self._job.close()
            self._thread.join()

    def _round(self) -> Round:
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self._found is None:
            raise NetworkError("the job is over: the coordinator has ended; look at the server's log")
        return self._found

    def _wait(self) -> None:
        try:
            # The host of a coordinator that stands may not know the model: the site's owner decides.
            is_bound = bool(self.invitation.job_hash) or not self._unbound
            about = self._about if is_bound else None
            self._found = self._job.next_round(tag=self.invitation.tag, about=about)
        # It is raised in the thread that asks for the round.
        except BaseException as error:  # noqa: BLE001
            self._error = error

    def sit_out(self) -> None:
        """Give no update, and leave."""
        with suppress(BlindsumError):
            self._round().skip()
        self.leave()


def hides_sum(protocol: str) -> str:
    """Why a protocol cannot serve where the server needs the sum."""
    return (
        f"{protocol} hides sums from the server, and an aggregator of NVFlare runs there and needs them. "
        "Choose secagg+, fssa or pss; or let sites reply with the mean (SecureFilter with a "
        "permanent coordinator), which reveals the sums"
    )
