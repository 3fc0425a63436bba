"""The coordinator of a job of NVFlare, and the specification of its sums."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from blindsum.coordinator import Coordinator
from blindsum.errors import ConfigError, RoundLost, SessionClosedError
from blindsum.framework_jobs import MANY, MIN_PARTIES, check_early, errors_of_settings, job_of, metrics_from
from blindsum.hosted import HostedResult, PendingRound
from blindsum.nvflare.settings import SiteSettings
from blindsum.nvflare.sites import LATE, RELEASE, hides_sum
from blindsum.spec import JobSpec

logger = logging.getLogger("blindsum")

ADVICE = "set it in SecureAggregator"
"""Where the settings of a job are."""


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """What the aggregator of a job is given; as :class:`blindsum.nvflare.SecureAggregator`."""

    protocol: str
    adversary: str
    corrupt: float
    dropout: float
    min_parties: int
    clip: float
    bits: int
    max_weight: int
    metrics: str
    join_deadline: float
    stage_deadline: float
    train_deadline: float

    def check(self) -> None:
        """Refuse settings that no job can have, before a run.

        Raises
        ------
        blindsum.ConfigError
            A rule is broken; ``field`` names the setting.
        """
        check_early(self, lambda settings: settings.spec("nvflare", 1, MANY), _called, ADVICE)
        spec = JobSpec(protocol=self.protocol, parties=MANY, dim=1)
        if spec.hides_sum:
            raise ConfigError("protocol", hides_sum(str(spec.protocol)))
        if spec.needs_servers or spec.decryptor:
            raise ConfigError(
                "protocol",
                f"{spec.protocol} computes on further servers, and the aggregator starts a coordinator "
                "alone: choose secagg+, fssa or pss",
            )

    def spec(self, job: str, dim: int, sites: int) -> JobSpec:
        """The specification of all rounds of a job.

        Parameters
        ----------
        job
            Its name.
        dim
            Coordinates of an update.
        sites
            The sites of the job.

        Raises
        ------
        blindsum.ConfigError
            The sites are too few, or a setting breaks a rule.
        """
        if sites < MIN_PARTIES and self.protocol != "plain":
            raise ConfigError(
                "min_clients",
                f"the job has {sites} sites, and must have {MIN_PARTIES} at least: in a sum of two each site "
                "learns the other's update. Run it at 4 sites (a round of 4 can lose one)",
            )
        metrics = metrics_from(self.metrics, "metrics", ADVICE)
        with errors_of_settings(metrics, _called, ADVICE):
            return job_of(
                self,
                job=job,
                dim=dim,
                parties=sites,
                rounds=0,
                metrics=metrics,
                input_deadline=self.train_deadline,
            )


def names_of(names: object) -> dict[str, str]:
    """The names of certificates by sites, checked; ``None`` has none.

    Raises
    ------
    blindsum.ConfigError
        No mapping of texts.
    """
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        kind = type(names).__name__
        rule = f"must be a mapping of sites to names of certificates, not a {kind}"
        raise ConfigError("names", f"{rule}: give {{site: name}}; {ADVICE}")
    for site, name in names.items():
        if not isinstance(site, str) or not isinstance(name, str):
            rule = f"{site!r} with {name!r} must be two texts, a site and the name in its certificate"
            raise ConfigError("names", f"{rule}; {ADVICE}")
    return dict(names)


def _called(field: str) -> str:
    """What a field of the job is called among the arguments of the aggregator."""
    return "train_deadline" if field == "input_deadline" else field


class Host:
    """A coordinator whose rounds are those of a workflow.

    Parameters
    ----------
    spec
        The job.
    settings
        Those of the server.
    names
        Names of certificates by sites, where they are not the same.

    Raises
    ------
    blindsum.ConfigError, blindsum.IdentityError, blindsum.NetworkError
        The coordinator cannot start.
    """

    def __init__(self, spec: JobSpec, settings: SiteSettings, names: Mapping[str, str]) -> None:
        if settings.coordinator_identity is None or settings.ca is None:
            raise ConfigError(
                "coordinator_identity",
                "is missing: name the coordinator's certificate and key, and the CA's certificate by ca, in "
                "local/blindsum.json of the server",
            )
        self._spec, self._names = spec, names
        self._coordinator = Coordinator(
            spec,
            identity=settings.coordinator_identity,
            ca=settings.ca,
            revoked=settings.crl,
            listen=settings.listen,
            hosted=True,
        )
        port = self._coordinator.address.rpartition(":")[2]
        self._url = settings.coordinator_url or f"https://127.0.0.1:{port}"
        self._pending: PendingRound | None = None
        self._released: PendingRound | None = None
        self._watcher: threading.Thread | None = None
        self._is_ending = threading.Event()
        self._sites: tuple[str, ...] = ()
        self.tag = -1
        host = urlsplit(self._url).hostname
        if host not in self._coordinator.hosts:
            hosts = ", ".join(self._coordinator.hosts)
            self.stop()
            rule = (
                f"{self._url} is not in the coordinator's certificate, which is for {hosts}: give a URL with "
                f"one of these hosts, or issue a certificate with it: blindsum pki issue --host {host}"
            )
            raise ConfigError("coordinator_url", rule)

    @property
    def sites(self) -> frozenset[str]:
        """The sites of the round."""
        return frozenset(self._sites)

    def begin(self, tag: int, sites: Iterable[str], about: list[object]) -> bool:
        """Begin a round, unless it has been begun; an earlier one that is under way ends without a result.

        Parameters
        ----------
        tag
            The workflow's round.
        sites
            Its sites.
        about
            What they train on, which is in every key of the round.

        Returns
        -------
        bool
            Whether this call began it.

        Raises
        ------
        blindsum.BlindsumError
            As for :meth:`blindsum.Coordinator.begin`.
        """
        if tag == self.tag:
            return False
        self._end()
        self._sites = tuple(sites)
        if len(self._sites) < self._spec.least_roster:
            raise ConfigError(
                "min_clients",
                f"the workflow samples {len(self._sites)} sites, and a sum needs {self._spec.least_roster}: "
                "sample more, or lower min_parties of SecureAggregator",
            )
        parties = [self._party(site) for site in self._sites]
        pending = self._coordinator.begin(parties, tag=tag, about=about)
        self._pending, self.tag = pending, tag
        self._is_ending = ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, args=(pending, parties, ending), daemon=True)
        self._watcher.start()
        return True

    def _watch(self, pending: PendingRound, parties: list[str], ending: threading.Event) -> None:
        """Wait for the end of a round, and send home whoever waits for it still.

        A site waits on when its round has ended before the site has begun it: the same tag might come again.
        The offer of another tag tells it that this will not be. Sites that join later hear it, too.
        """
        try:
            tag = _released(pending)
            while tag is not None and not ending.is_set():
                released = self._coordinator.begin(parties, tag=tag, join_within=self._spec.input_deadline)
                self._released = released
                if ending.is_set():
                    released.call_off()
                with suppress(RoundLost):
                    released.result()
        except SessionClosedError:
            logger.info("job %r: the coordinator has ended", self._spec.job)

    def _end(self) -> None:
        """End what is under way."""
        self._is_ending.set()
        for one in (self._pending, self._released):
            if one is not None:
                one.call_off("the workflow has gone on")
        if self._watcher is not None:
            self._watcher.join()
        self._pending = self._released = self._watcher = None

    def told(self) -> dict[str, Any]:
        """What the sites of the round are told."""
        return {
            "url": self._url,
            "job": self._spec.job,
            "hash": self._spec.hash,
            "parties": {site: self._party(site) for site in self._sites},
        }

    def failed(self, site: str, reason: str) -> None:
        """Wait for a site no longer."""
        if self._pending is not None and site in self._sites:
            self._pending.report_failed(self._party(site), reason)

    def result(self) -> HostedResult:
        """The result of the round.

        Raises
        ------
        blindsum.RoundLost
            It has none.
        """
        assert self._pending is not None
        return self._pending.result()

    def stop(self) -> None:
        """Stop the coordinator; sites that are still there are told."""
        self._end()
        self._coordinator.stop()

    def _party(self, site: str) -> str:
        return self._names.get(site, site)


def _released(pending: PendingRound) -> int | None:
    """Wait for the end of a round, and give the tag that sends others home; ``None`` if all are in."""
    try:
        return LATE if pending.result().lost else None
    except RoundLost:
        return RELEASE
