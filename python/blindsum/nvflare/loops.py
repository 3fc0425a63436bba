"""For code that owns its loop: one call between ``flare.receive()`` and ``flare.send()``."""

from __future__ import annotations

import logging
from typing import Any

from blindsum.errors import (
    BlindsumError,
    InputError,
    OtherTag,
    ResultMissed,
    RoundAborted,
    SessionClosedError,
)
from blindsum.nvflare.params import STEPS, Params, metrics_of, weight_of
from blindsum.nvflare.texts import RECORD
from blindsum.rounds import RoundResult
from blindsum.session import Session

logger = logging.getLogger("blindsum")


def aggregate(
    job: Session,
    input_model: Any,
    output_model: Any,
    *,
    weight: float | None = None,
    about: object = None,
    timeout: float | None = None,
) -> Any:
    """Add what training made of a model to the sum, and give the model to send in its place.

    All sites send the same model, so any average of the server is the identity. Nothing of ``output_model``
    is in it but in the mean.

    Parameters
    ----------
    job
        From :func:`blindsum.join`; a program with ``hosted=True`` begins its rounds, with the number of
        NVFlare's round as the tag.
    input_model
        The ``FLModel`` of ``flare.receive()``.
    output_model
        The ``FLModel`` that the script would send: the whole model, or its change (``ParamsType.DIFF``).
    weight
        The number of examples or steps; ``None`` takes ``NUM_STEPS_CURRENT_ROUND`` of ``output_model.meta``.
    about
        What the host of the rounds says that they are about, as in :meth:`blindsum.Session.aggregate`.
    timeout
        Seconds to wait at most, for the round and again for its result.

    Returns
    -------
    FLModel
        Of the type of ``output_model``: the model with the mean, the sum of the weights and the mean of each
        declared metric. After a round that ended without a sum the model of before; the log says why.

    Raises
    ------
    blindsum.InputError
        Parameters, a weight or metrics that cannot be summed; nothing was sent.
    blindsum.RoundAborted
        This site alone has no result, as one that was late (:class:`blindsum.OtherTag`): send nothing.
    blindsum.BlindsumError
        As for :meth:`blindsum.Session.aggregate`.

    Examples
    --------
    ::

        with bs.join(url, job="tumour", identity="hospital-a", ca="ca.pem") as job:
            while flare.is_running():
                model = flare.receive()
                trained = train(model)
                flare.send(blindsum.nvflare.aggregate(job, model, trained, weight=len(data)))
    """
    from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

    if input_model.current_round is None:
        raise InputError(
            "current_round", "is missing in the model that was received; use a workflow of rounds"
        )
    params = Params(input_model.params)
    is_diff = output_model.params_type == ParamsType.DIFF
    vector = params.change(output_model.params) if is_diff else params.difference(output_model.params)
    if weight is None:
        weight = weight_of(output_model.meta or {}, job.spec.max_weight)
    metrics = metrics_of(output_model.metrics, (metric.name for metric in job.spec.metrics))
    found = job.aggregate(
        vector, weight, metrics, timeout=timeout, tag=input_model.current_round, about=about
    )
    told: dict[str, Any] = {"party": job.name, "result": "" if found is None else found.result}
    means: dict[str, float] | None = None
    if found is None:
        _check_lost(job)
        told["lost"] = str(job.lost)
        data, steps = params.unchanged(is_diff=is_diff), weight
    else:
        data, steps = _data(params, found, is_diff=is_diff), found.total_weight
        means = {name: value for name, value in found.metrics.items() if value is not None} or None
    return FLModel(
        params_type=ParamsType.DIFF if is_diff else ParamsType.FULL,
        params=data,
        metrics=means,
        current_round=input_model.current_round,
        total_rounds=input_model.total_rounds,
        meta={STEPS: steps, RECORD: told},
    )


def _data(params: Params, found: RoundResult, *, is_diff: bool) -> dict[str, Any]:
    return params.diff(found.mean) if is_diff else params.full(found.mean)


def _check_lost(job: Session) -> None:
    """Raise where this site alone has no result: its unchanged model would be averaged with the mean."""
    lost: BlindsumError | None = job.lost
    if job.is_over:
        raise SessionClosedError("the job is over: the coordinator has ended; see its log")
    if lost is None:
        raise InputError("weight", "0 gives no update, so there is no mean to send; send nothing this round")
    is_of_all = isinstance(lost, RoundAborted) and not lost.only_me
    if not is_of_all or isinstance(lost, OtherTag | ResultMissed):
        raise lost
    logger.warning("%s; the model stays as it is", lost)
