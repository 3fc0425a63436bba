"""What the log says of a simulated run: what each party of a real job would be told in its own log."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from blindsum.arrays import Vector
from blindsum.errors import ConfigError
from blindsum.first_model import ZerosLog, first_model
from blindsum.options import Quantised
from blindsum.rounds import Array
from blindsum.spec import JobSpec
from blindsum.training.contribution import Contribution
from blindsum.training_metrics import MetricsLog
from blindsum.whole_models import WholeModelLog

logger = logging.getLogger("blindsum")


def start_of(spec: JobSpec, model: object) -> Vector | None:
    """The first model of a run, ``None`` for zeros: where a party gives it in a real job, it is given here.

    Raises
    ------
    blindsum.ConfigError
        The job takes its first model from a party, and none is given.
    blindsum.InputError
        As :func:`blindsum.first_model.first_model`.
    """
    if spec.initial == "first-party":
        if model is None:
            rule = "is missing, and the job takes its first model from a party (initial = first-party)"
            raise ConfigError("model", f"{rule}: give the model that this party would give")
        spec = spec.replace(initial="coordinator")
    return None if model is None else first_model(model, spec)


class RunLog:
    """Warns once of each thing that goes wrong in a run without an error."""

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._zeros = ZerosLog(spec)
        self._whole = WholeModelLog(spec)
        self._clipped = False
        self._metrics = MetricsLog(spec)

    def given(self, number: int, version: int, model: Array, gives: Mapping[str, Contribution]) -> None:
        """Look at the model of a round, and at what parties give, by their names."""
        self._zeros.look_at(number, version, model)
        for name, one in gives.items():
            self._whole.look_at(number, version, model, one.vector, f"the update of {name}")
            self._metrics.look_at(f"round {number}, {name}", one.metrics)

    def clipped(self, number: int, coordinates: int, parties: int) -> None:
        """Look at how many coordinates of all updates were cut off."""
        if coordinates == 0 or self._clipped:
            return
        self._clipped = True
        spec = self._spec
        aciq = isinstance(spec.encoding, Quantised) and spec.encoding.clipping == "aciq"
        bound = "the bounds of this round" if aciq or spec.clip is None else f"clip = {spec.clip:g}"
        advice = "if it goes on, take clipping = tensor" if aciq else "raise clip in the job"
        logger.warning(
            "job %r, round %d: %d of %d coordinates of the parties' updates were cut off (%s); the "
            "mean lacks the excess: %s",
            *(spec.job, number, coordinates, spec.dim * parties, bound, advice),
        )
