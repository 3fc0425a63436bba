"""The site's side: a filter that lets no update of a site out but inside a sum."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import Filter, FilterChainType, FilterContextKey
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReservedKey, ReturnCode
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.app_constant import AppConstants

from blindsum.checks import whole_number
from blindsum.errors import ConfigError, RoundAborted
from blindsum.nvflare.params import METRICS, STEPS, Params, content_of, metrics_of, weight_of
from blindsum.nvflare.settings import SiteSettings, of_site
from blindsum.nvflare.simulated import check_threads
from blindsum.nvflare.sites import Invitation, SitePart
from blindsum.nvflare.texts import HASH, MEAN, RECORD, TRAIN
from blindsum.rounds import RoundResult
from blindsum.told_once import warn_once

logger = logging.getLogger("blindsum")

PART = "__blindsum_part__"
"""The property of a task's context that has the site's part in the round."""

DONE = "__blindsum_done__"
"""The property of a task's context that says that its result was looked at."""

ROUNDS = (AppConstants.START_ROUND, AppConstants.CURRENT_ROUND, AppConstants.NUM_ROUNDS)

MAX_BITS = 64
"""Bits of a whole number in a result that is no update."""

MOST = {
    "numbers and texts": 64,
    "characters in texts": 1024,
    "characters in names": 4096,
    "lists and dictionaries": 256,
}
"""How much such a result may have in all; metrics are a few."""

WEIGHTS = (DataKind.WEIGHTS, DataKind.WEIGHT_DIFF)


class SecureFilter(Filter):
    """Adds the update of a site to a secure sum, and puts the mean in the place of the result.

    List it twice: among the filters of task data, where it joins the round while the site trains, and among
    those of task results. In ``local/privacy.json`` the site's owner does so for all jobs, and no job can
    change it; in a job :func:`blindsum.nvflare.secure` does. Filters that clip or add noise come before it.

    Everything that protects the site is read from ``local/blindsum.json`` of the site. A result of training
    that nothing says how to add up is refused, and so is one of another task with arrays, unless the site
    allows it.

    Parameters
    ----------
    url, job
        A coordinator that stands, and its job, where neither the server nor the site's file says them. The
        result is the mean then, and any average of the server is the identity.
    """

    def __init__(self, url: str = "", job: str = "") -> None:
        super().__init__()
        self.url, self.job = url, job
        # The part in a round that was begun last, for events: these have another context.
        self._part: SitePart | None = None

    def process(self, shareable: Shareable, fl_ctx: Any) -> Shareable:
        """Join the round of a task, or give the update of a result.

        Raises
        ------
        blindsum.BlindsumError
            The site takes no part. NVFlare tells the server that a filter failed, and no more.
        """
        chain = self.get_prop(FilterContextKey.CHAIN_TYPE)
        direction = fl_ctx.get_prop(FLContextKey.FILTER_DIRECTION)
        # The simulator gives the server the files of sites: there the filter has nothing to do.
        if (chain, direction) == (FilterChainType.TASK_DATA_CHAIN, FilterKey.IN):
            if fl_ctx.get_prop(PART) is None:
                self._begin(shareable, fl_ctx)
            return shareable
        if (chain, direction) != (FilterChainType.TASK_RESULT_CHAIN, FilterKey.OUT):
            return shareable
        # The site may list the filter, and the job, too.
        if fl_ctx.get_prop(DONE, False):
            return shareable
        found = self._end(shareable, fl_ctx)
        fl_ctx.set_prop(DONE, True, private=True, sticky=False)
        return found

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Leave a round whose task has ended before its result came here: training failed."""
        if event_type in (EventType.BEFORE_SEND_TASK_RESULT, EventType.ABORT_TASK, EventType.END_RUN):
            part, self._part = self._part, None
            if part is not None:
                part.leave()

    def _begin(self, task: Shareable, fl_ctx: Any) -> None:
        settings = of_site(fl_ctx)
        invitation = self._invitation(task, settings, fl_ctx)
        if invitation is None:
            return
        check_threads(_simulator(fl_ctx), _sites(fl_ctx))
        dxo = from_shareable(task)
        if dxo.data_kind != DataKind.WEIGHTS:
            rule = f"{dxo.data_kind} in the task must be {DataKind.WEIGHTS}: send the model as weights"
            raise ConfigError("data_kind", rule)
        about = content_of(task)
        part = SitePart(invitation, settings, Params(dxo.data), about)
        fl_ctx.set_prop(PART, part, private=True, sticky=False)
        self._part = part
        # NVFlare calls no filter of results where training raises, and filters of a site hear no events.
        engine = fl_ctx.get_engine()
        if self not in engine.handlers:
            engine.add_handler(self)

    def _invitation(self, task: Shareable, settings: SiteSettings, fl_ctx: Any) -> Invitation | None:
        """The round of a task of training; ``None`` where nothing says how to add up."""
        told = _told(task)
        url = settings.url or self.url or str(told.get("url", ""))
        is_train = bool(told) or fl_ctx.get_prop(FLContextKey.TASK_NAME) == TRAIN
        if not url or not is_train:
            return None
        tag = whole_number(task.get_header(AppConstants.CURRENT_ROUND))
        if tag is None or tag < 0:
            rule = "is missing in the task, and a sum needs it: use a workflow that counts its rounds"
            raise ConfigError(AppConstants.CURRENT_ROUND, rule)
        if settings.url or self.url:
            return Invitation(url, settings.job or self.job, tag)
        return Invitation(
            url,
            str(told["job"]),
            tag,
            HASH if told["reply"] == HASH else MEAN,
            str(told["hash"]),
            str(told["parties"].get(fl_ctx.get_identity_name(), "")),
        )

    def _end(self, result: Shareable, fl_ctx: Any) -> Shareable:
        part: SitePart | None = fl_ctx.get_prop(PART)
        code = result.get_return_code()
        if code != ReturnCode.OK:
            if part is not None:
                part.leave()
            # Nothing of a failed task leaves the site but that it failed.
            return make_reply(code)
        if part is None or part.is_over:
            self._check_plain(result, fl_ctx)
            return result
        try:
            return _summed(result, part)
        except BaseException:
            part.leave()
            raise

    def _check_plain(self, result: Shareable, fl_ctx: Any) -> None:
        """Refuse a result that would leave the site as it is."""
        what = _arrays_of(result)
        if what is None:
            return
        settings, task = of_site(fl_ctx), fl_ctx.get_prop(FLContextKey.TASK_NAME)
        if task == TRAIN and settings.plain:
            warn_once("plain", "updates of this site leave as they are: plain is true in local/blindsum.json")
        elif task == TRAIN:
            raise ConfigError(
                "plain",
                f"is not true, and nothing says how to add up the result of {task!r} ({what}): this site's "
                "update would leave as it is. Run the job with blindsum.nvflare.SecureAggregator at the "
                "server and SecureFilter among the filters of task data, or name a coordinator by url and "
                "job in local/blindsum.json of the site",
            )
        elif not settings.arrays:
            raise ConfigError(
                "arrays",
                f"is not true, and the result of the task {task!r} has {what}, which would leave this site "
                "as it is: reply with metrics alone, or allow it in local/blindsum.json of the site",
            )


def _told(task: Shareable) -> Mapping[str, Any]:
    """What the server says of the round in the task; nothing where it says nothing.

    Raises
    ------
    blindsum.ConfigError
        It is not as this version writes it.
    """
    told = task.get_header(RECORD)
    if told is None:
        return {}
    texts = ("url", "job", "hash", "reply")
    if (
        not isinstance(told, Mapping)
        or not all(isinstance(told.get(name), str) for name in texts)
        or not isinstance(told.get("parties"), Mapping)
        or not re.fullmatch("[0-9a-f]{64}", str(told["hash"]))
    ):
        rule = "of the task is no round of Blindsum: install one version at the server and all sites"
        raise ConfigError(RECORD, rule)
    return told


def _simulator(fl_ctx: Any) -> Any:
    """The arguments of the simulator, where this runs in it."""
    return fl_ctx.get_prop(FLContextKey.ARGS) if fl_ctx.get_prop(FLContextKey.SIMULATE_MODE) else None


def _sites(fl_ctx: Any) -> int:
    """The sites of the job."""
    return len((fl_ctx.get_prop(ReservedKey.JOB_META) or {}).get("job_clients") or ())


def _arrays_of(result: Shareable) -> str | None:
    """What a result has beside a few numbers and short texts, in words; ``None`` where it has nothing."""
    try:
        dxo = from_shareable(result)
    except ValueError:
        pass
    else:
        if dxo.data_kind != DataKind.METRICS and dxo.data:
            return f"{dxo.data_kind}"
    # Headers are of NVFlare, and of whoever computes the result.
    return _too_much(dict(result))


def _too_much(content: object) -> str | None:
    """What a content has beyond some metrics and a note, in words; ``None`` where there is nothing."""
    count = dict.fromkeys(MOST, 0)
    ahead = [content]
    while ahead:
        value = ahead.pop()
        match value:
            case Mapping():
                count["lists and dictionaries"] += 1
                count["characters in names"] += sum(len(name) for name in value if isinstance(name, str))
                ahead += [name for name in value if not isinstance(name, str)]
                ahead += value.values()
            case list() | tuple() | set():
                count["lists and dictionaries"] += 1
                ahead += value
            case str():
                count["numbers and texts"] += 1
                count["characters in texts"] += len(value)
            case int() if value.bit_length() > MAX_BITS:
                return f"a number of {value.bit_length()} bits"
            case np.number() if value.itemsize > MAX_BITS // 8:
                return f"a number of {8 * value.itemsize} bits"
            case None | bool() | np.bool_() | int() | float() | np.number():
                count["numbers and texts"] += 1
            case _:
                return f"a {type(value).__module__}.{type(value).__name__} among its entries"
        for what, most in MOST.items():
            if count[what] > most:
                return f"more than {most} {what}"
    return None


def _summed(result: Shareable, part: SitePart) -> Shareable:
    """The result with the mean in the place of this site's update."""
    dxo = from_shareable(result)
    if dxo.data_kind not in WEIGHTS:
        rule = f"{dxo.data_kind} must be {' or '.join(WEIGHTS)}: reply with the model or its change"
        raise ConfigError("data_kind", rule)
    is_diff = dxo.data_kind == DataKind.WEIGHT_DIFF
    meta = dxo.meta or {}
    weight = weight_of(meta, part.most_weight)
    given = meta.get(METRICS)
    if given is not None and not isinstance(given, Mapping):
        given = {METRICS: given}
    metrics = metrics_of(given, part.metrics)
    vector = part.params.change(dxo.data) if is_diff else part.params.difference(dxo.data)
    if weight == 0:
        logger.info("job %r: no steps here, so this site gives no update", part.invitation.job)
        part.sit_out()
        return _reply(result, DXO(dxo.data_kind, data={}, meta={RECORD: {"party": part.party, "result": ""}}))
    found = part.give(vector, weight, metrics)
    return _reply(result, reply_of(part, found, weight, is_diff=is_diff))


def reply_of(part: SitePart, found: RoundResult | RoundAborted, weight: int, *, is_diff: bool) -> DXO:
    """What a site replies with after a round."""
    kind = DataKind.WEIGHT_DIFF if is_diff else DataKind.WEIGHTS
    told: dict[str, Any] = {"party": part.party}
    if isinstance(found, RoundAborted):
        logger.warning("%s; the model stays as it is", found)
        told |= {"result": "", "lost": found.reason}
        data, meta = part.params.unchanged(is_diff=is_diff), dict[str, Any]({STEPS: weight})
    else:
        told |= {"result": found.result}
        data = part.params.diff(found.mean) if is_diff else part.params.full(found.mean)
        meta = {STEPS: found.total_weight}
        means = {name: value for name, value in found.metrics.items() if value is not None}
        if means:
            meta[METRICS] = means
    if part.invitation.reply == HASH:
        # NVFlare passes over results without an entry.
        data, meta = {RECORD: np.zeros(0, np.float32)}, meta | {STEPS: 1}
    return DXO(kind, data=data, meta={**meta, RECORD: told})


def _reply(result: Shareable, dxo: DXO) -> Shareable:
    """A result with other content, and of the old one its round alone."""
    dxo.add_filter_history(SecureFilter.__name__)
    reply = dxo.to_shareable()
    for name in ROUNDS:
        if (value := result.get_header(name)) is not None:
            reply.set_header(name, value)
    return reply
