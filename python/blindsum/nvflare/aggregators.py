"""The server's side: an aggregator that hosts the coordinator, and has the mean of each round from it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from nvflare.apis.dxo import from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from blindsum.errors import BlindsumError, ConfigError, RoundLost
from blindsum.hosted import HostedResult
from blindsum.nvflare.params import STEPS, Params, content_of
from blindsum.nvflare.server import Host, JobSettings, names_of
from blindsum.nvflare.settings import of_site
from blindsum.nvflare.simulated import check_threads
from blindsum.nvflare.texts import HASH, RECORD

logger = logging.getLogger("blindsum")


class SecureAggregator(ModelAggregator):
    """Gives a workflow the weighted mean of the sites' updates, of which the server sees none.

    For ``FedAvg(aggregator=…)``, and as the component ``aggregator`` of ``ScatterAndGather``. It hosts
    Blindsum's coordinator in the server's process of the job. The coordinator's certificate and address are
    those of ``local/blindsum.json`` of the server.

    Parameters
    ----------
    protocol, adversary, corrupt, dropout, min_parties, join_deadline, stage_deadline
        As in :class:`blindsum.JobSpec`; ``min_parties`` of 0 chooses.
    clip
        Bound on the change of a coordinate in one round of training.
    bits
        Bits of a value.
    max_weight
        Largest number of steps or examples of a site.
    metrics
        Metrics that are summed: names with commas between, each with its range, as in
        ``"loss:0:10,accuracy:0:1"``.
    train_deadline
        Seconds that a round waits for training.
    names
        Names of certificates by sites, where they are not the same.

    Raises
    ------
    blindsum.ConfigError
        A setting breaks a rule, or a protocol hides sums from the server.
    """

    def __init__(
        self,
        protocol: str = "secagg+",
        adversary: str = "active",
        corrupt: float = 0.1,
        dropout: float = 0.1,
        min_parties: int = 0,
        clip: float = 1.0,
        bits: int = 20,
        max_weight: int = 100_000,
        metrics: str = "",
        join_deadline: float = 120.0,
        stage_deadline: float = 30.0,
        train_deadline: float = 86_400.0,
        names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        # NVFlare writes the arguments of a component into the job, from attributes of the same names.
        self.protocol, self.adversary, self.corrupt, self.dropout = protocol, adversary, corrupt, dropout
        self.min_parties, self.clip, self.bits, self.max_weight = min_parties, clip, bits, max_weight
        self.metrics, self.join_deadline, self.stage_deadline = metrics, join_deadline, stage_deadline
        self.train_deadline, self.names = train_deadline, names_of(names)
        self._settings = JobSettings(
            protocol=protocol,
            adversary=adversary,
            corrupt=corrupt,
            dropout=dropout,
            min_parties=min_parties,
            clip=clip,
            bits=bits,
            max_weight=max_weight,
            metrics=metrics,
            join_deadline=join_deadline,
            stage_deadline=stage_deadline,
            train_deadline=train_deadline,
        )
        self._settings.check()
        # NVFlare calls from several threads.
        self._lock = threading.Lock()
        self._host: Host | None = None
        self._params: Params | None = None
        self._replied = dict[str, str]()
        # The rounds of tasks that were sent.
        self._tasks = dict[str, int]()

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Begin rounds when tasks go out, and report sites that fail."""
        super().handle_event(event_type, fl_ctx)
        match event_type:
            case EventType.START_RUN:
                self._guarded(fl_ctx, lambda: self._check_simulator(fl_ctx))
            case AppEventType.BEFORE_TRAIN_TASK:
                self._guarded(fl_ctx, lambda: self._begin(fl_ctx))
            case EventType.AFTER_TASK_DATA_FILTER:
                self._sent(fl_ctx)
            case EventType.BEFORE_PROCESS_SUBMISSION:
                self._look_at(fl_ctx)
            case EventType.CLIENT_DISCONNECTED:
                self._failed(fl_ctx.get_prop(FLContextKey.DISCONNECTED_CLIENT_NAME), "NVFlare has lost it")
            case EventType.ABORT_TASK | EventType.ABOUT_TO_END_RUN | EventType.END_RUN:
                self._stop()

    def reset_stats(self) -> None:
        """Forget who has replied."""
        self._replied.clear()

    def accept_model(self, model: FLModel) -> None:
        """Take the result of a site: the name of the sum that it had."""
        meta = model.meta or {}
        # ScatterAndGather knows the connection, and leaves the result as it came. FedAvg writes it in.
        name = _peer(self.fl_ctx) or str(meta.get("client_name", ""))
        self._replied[name] = str((meta.get(RECORD) or {}).get("result", ""))

    def aggregate_model(self) -> FLModel:
        """The mean of the round as a change of the model; no change where the round was lost."""
        host, params = self._host, self._params
        if host is None or params is None:
            logger.warning("no round has begun, so the model stays as it is")
            return FLModel(params_type=ParamsType.DIFF, params={})
        # The workflow waits for nobody any more.
        for site in host.sites - set(self._replied):
            host.failed(site, "the workflow went on without it")
        try:
            found = host.result()
        except RoundLost as lost:
            why = "; ".join([lost.reason, *(f"{name}: {reason}" for name, reason in lost.lost.items())])
            logger.warning("round %s has no sum: %s; the model stays as it is", lost.tag, why)
            return FLModel(params_type=ParamsType.DIFF, params={}, current_round=lost.tag)
        self._compare(found)
        if found.lost:
            logger.warning("round %s: not in the sum: %s", found.tag, _text(found.lost))
        assert found.mean is not None  # Protocols that hide sums are refused.
        return FLModel(
            params_type=ParamsType.DIFF,
            params=params.diff(found.mean),
            metrics={name: value for name, value in found.metrics.items() if value is not None} or None,
            current_round=found.tag,
            meta={STEPS: found.total_weight, RECORD: {"result": found.result}},
        )

    def _begin(self, fl_ctx: Any) -> None:
        """Begin the round of a task, and write into it how sites reach the coordinator."""
        task = fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE)
        number = int(task.get_header(AppConstants.CURRENT_ROUND))
        with self._lock:
            if self._host is None:
                self._params = Params(from_shareable(task).data)
                job = f"nvflare-{fl_ctx.get_job_id()}".lower().replace("_", "-")
                sites = [client.name for client in fl_ctx.get_engine().get_clients()]
                spec = self._settings.spec(job, self._params.dim, len(sites))
                self._host = Host(spec, of_site(fl_ctx), self.names)
                if self._params.fixed:
                    logger.warning("arrays that stay those of the server: %s", ", ".join(self._params.fixed))
            if self._host.begin(number, _targets(fl_ctx, task), content_of(task)):
                self._params = Params(from_shareable(task).data)
            task.set_header(RECORD, {"reply": HASH} | self._host.told())

    def _sent(self, fl_ctx: Any) -> None:
        """Remember the round of a task."""
        task = fl_ctx.get_prop(FLContextKey.TASK_DATA)
        if self._host is not None and task.get_header(RECORD) is not None:
            self._tasks[str(fl_ctx.get_prop(FLContextKey.TASK_ID))] = int(
                task.get_header(AppConstants.CURRENT_ROUND)
            )

    def _look_at(self, fl_ctx: Any) -> None:
        """Report a site whose result has no part of Blindsum: it is in no sum."""
        result = fl_ctx.get_prop(FLContextKey.TASK_RESULT)
        code, host = result.get_return_code(), self._host
        if host is None or self._tasks.get(fl_ctx.get_prop(FLContextKey.TASK_ID)) != host.tag:
            return
        if code != ReturnCode.OK:
            self._failed(_peer(fl_ctx), f"its task failed: {code}")
            return
        try:
            record = (from_shareable(result).meta or {}).get(RECORD)
        except ValueError:
            return
        if record is None:
            logger.error(
                "site %r sent a result as it is: it has no SecureFilter. Its update is in no sum, and this "
                "server has seen it; put the filter into the job by blindsum.nvflare.secure(recipe)",
                _peer(fl_ctx),
            )
            self._failed(_peer(fl_ctx), "it has no SecureFilter")

    def _compare(self, found: HostedResult) -> None:
        """Say which sites had another sum than the coordinator."""
        others = sorted(site for site, name in self._replied.items() if name and name != found.result)
        if others:
            logger.error("round %s: sites had another sum than the server: %s", found.tag, ", ".join(others))

    def _failed(self, site: str, reason: str) -> None:
        if self._host is not None:
            self._host.failed(site, reason)

    def _check_simulator(self, fl_ctx: Any) -> None:
        engine = fl_ctx.get_engine()
        check_threads(getattr(engine, "args", None), len(engine.get_clients()))

    def _guarded(self, fl_ctx: Any, work: Any) -> None:
        """End the run where it cannot get better: handlers of events may not raise."""
        try:
            work()
        except BlindsumError as error:
            logger.error("%s", error)
            self.system_panic(str(error), fl_ctx)

    def _stop(self) -> None:
        with self._lock:
            host, self._host = self._host, None
        if host is not None:
            host.stop()


def _targets(fl_ctx: Any, task: Any) -> list[str]:
    """The sites that get a task.

    Raises
    ------
    blindsum.ConfigError
        This version of NVFlare does not say them.
    """
    runner = fl_ctx.get_prop(FLContextKey.RUNNER)
    workflow = getattr(runner, "current_wf", None)
    communicator = getattr(getattr(workflow, "controller", None), "communicator", None)
    for one in getattr(communicator, "_tasks", ()):
        if one.data is task:
            return [str(name) for name in one.targets]
    raise ConfigError(
        "nvflare", "does not say which sites get a task: install a version that blindsum[nvflare] takes"
    )


def _peer(fl_ctx: Any) -> str:
    """The site that a request is from."""
    peer = fl_ctx.get_peer_context()
    return "" if peer is None else str(peer.get_identity_name())


def _text(lost: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in lost.items())
