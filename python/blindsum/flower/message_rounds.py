"""The rounds of a run over Flower's messages: which job they are of, and whose certificates."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any

from blindsum.flower import contents, simulated
from blindsum.flower.direct import Sum
from blindsum.flower.enrolment import RunAuthority, check_spec, node_name
from blindsum.flower.exchange import SHORT_POLL, Replies
from blindsum.flower.messages import Exchanges
from blindsum.flower.metric_slots import MetricSlots
from blindsum.flower.settings import RunSettings
from blindsum.flower.texts import logger
from blindsum.spec import JobSpec

POLL = 0.25
"""Seconds between two looks for replies: each of the exchanges of a round waits for them."""


MIN_DEADLINE = 120.0
"""Seconds of a stage, at least: twice those after which Flower notices that a process has died."""


class MessageRounds:
    """The rounds of a run: one job for all of them, as long as the number of nodes fits it.

    Parameters
    ----------
    grid
        Flower's grid.
    settings
        The run's settings.
    weighted_by
        The key of the metric that is the weight of a reply.
    config
        The run's configuration, as nodes have it.

    Attributes
    ----------
    told : mapping of str to str
        What every message says, also one that asks for a certificate.
    """

    def __init__(
        self, grid: Any, settings: RunSettings, weighted_by: str, config: Mapping[str, object]
    ) -> None:
        self._grid, self._settings, self._weighted_by = grid, settings, weighted_by
        self._bound = contents.run_digest(grid.run.run_id, config, weighted_by)
        self._job: Exchanges | None = None
        self._authority: RunAuthority | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._order = 0
        self.told: Mapping[str, str] = {}
        self._poll = POLL
        if simulated.is_simulated_grid(grid):
            self._folder = tempfile.TemporaryDirectory(prefix="blindsum-flower-nodes-")
            self.told = {simulated.FOLDER: self._folder.name}
            self._poll = SHORT_POLL

    def authority(self, spec: JobSpec) -> RunAuthority | None:
        """The CA of the run, where the settings name none.

        Raises
        ------
        blindsum.ConfigError
            The job promises more than certificates of a run can keep.
        """
        if self._authority is None and not self._settings.coordinator_ca:
            is_simulated = self._folder is not None
            if not is_simulated:
                check_spec(spec)
            self._authority = RunAuthority(self._grid.run.run_id, "", is_simulated=is_simulated)
        return self._authority

    @property
    def began(self) -> bool:
        """Whether the latest round has begun."""
        return self._job is not None and self._job.began

    @property
    def exchanges(self) -> int:
        """Messages that a node was sent in the latest round, at most."""
        return 0 if self._job is None else self._job.exchanges

    @property
    def dropped(self) -> Iterable[str]:
        """Metrics that nodes have and nobody sums, a bounded number of names."""
        return () if self._job is None else sorted(self._job.dropped)

    def run(
        self,
        messages: list[Any],
        spec: JobSpec,
        step: int,
        certificates: Mapping[int, Mapping[str, str]],
        timeout: float,
    ) -> tuple[Replies, Sum | str]:
        """Run a round.

        Parameters
        ----------
        messages
            The strategy's, one for each node that has a certificate.
        spec
            The job of the round, for the nodes that were sampled.
        step
            The number of the round.
        certificates
            What messages to single nodes say of their certificates.
        timeout
            Seconds after which it ends.

        Returns
        -------
        tuple of Replies and Sum or str
            As :meth:`blindsum.flower.messages.Exchanges.run`.
        """
        if not messages:
            return Replies(), "no node has a certificate"
        slots = MetricSlots(spec.metrics)
        spec = slots.job(spec)
        # Flower's polling is a part of each stage; that a process has died it says itself.
        spec = spec.replace(
            join_deadline=max(spec.join_deadline, min(MIN_DEADLINE, timeout / 4)),
            stage_deadline=max(spec.stage_deadline, min(MIN_DEADLINE, timeout / 4)),
        )
        job = self._job
        if job is None or not job.fits(spec):
            job = self._job = self._begin(spec)
        names = {
            message.metadata.dst_node_id: node_name(message.metadata.dst_node_id)
            for message in messages
            if self._authority is not None
        }
        about = [contents.content_digest(messages[0]), self._bound]
        told = {"weighted-by": self._weighted_by, **self.told}
        replies, found = job.run(
            self._grid, messages, step, about, told, certificates, names, timeout, self._poll
        )
        if isinstance(found, Sum) and slots.metrics:
            mean, metrics = slots.split(found.mean, spec.clip or 1.0)
            found = dataclasses.replace(found, mean=mean, metrics=metrics)
        return replies, found

    def _begin(self, spec: JobSpec) -> Exchanges:
        """Another job, whose number is above those of all jobs of this run."""
        self._order = max(self._order + 1, int(time.time() * 1000))
        settings, authority = self._settings, self._authority
        if authority is not None:
            ca, revoked = authority.identity.ca, None
        else:
            ca, revoked = settings.coordinator_ca, settings.coordinator_crl or None
        job = Exchanges(spec, str(self._grid.run.run_id), self._order, ca, revoked)
        logger.info("job %r of %d nodes, in Flower's messages", job.spec.job, spec.parties)
        return job

    def end(self) -> None:
        """Forget the job and, in a simulation, the folders of its nodes."""
        job, self._job = self._job, None
        if job is not None:
            job.end()
        if self._folder is not None:
            self._folder.cleanup()
