"""Train in one process with the real protocol, where parties drop out, come late or give nothing."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from blindsum import _native, checks
from blindsum.errors import BlindsumError, ConfigError, InputError
from blindsum.first_model import first_model
from blindsum.origin import origin
from blindsum.rounds import Array
from blindsum.simulation import DropAt, drops
from blindsum.spec import JobSpec
from blindsum.training.checkpoints import Checkpoints
from blindsum.training.contribution import (
    NO_DATA,
    Contribution,
    Nothing,
    TrainingTurn,
    TrainStep,
    contribution,
)
from blindsum.training.devices import Compute, Devices, Link
from blindsum.training.record import StageCost, TrainingRecord, TrainingRound
from blindsum.whole_models import WholeModelLog

if TYPE_CHECKING:
    from blindsum.pki import AnyPath

Evaluate = Callable[[Array], Mapping[str, float]]
"""Is given a model, and gives numbers by their names, such as the accuracy on test data."""

Present = Callable[[int, int], bool]
"""``present(rank, round)``: whether a party is in a round at all."""


def simulate_training(
    spec: JobSpec,
    step: TrainStep,
    parts: Sequence[Any],
    *,
    model: object = None,
    evaluate: Evaluate | None = None,
    plain: bool = False,
    rounds: int | None = None,
    drop: float = 0.0,
    drop_at: DropAt = (),
    latency: float = 0.0,
    compute: Compute = None,
    link: Link | Sequence[Link] | None = None,
    present: Present | None = None,
    seed: int = 0,
    threads: int = 1,
    out: AnyPath | None = None,
    progress: Callable[[TrainingRound], object] | None = None,
) -> TrainingRecord:
    """Train a model in this process: real rounds of the job's protocol, in virtual time, deterministically.

    Parameters
    ----------
    spec
        The job. Its server step, metrics, hyperparameters and early stop are those of a real job.
    step
        ``step(model, data, turn)``: the training function of a party. It gives the update, ``(update,
        weight)``, ``(update, weight, metrics)``, or ``None``. ``turn`` is the number of the round, with
        ``party``, ``rank``, ``parameters`` and ``seed``. A weight that it does not give, or gives as ``None``
        is ``len(data)`` if the job has weights, and 1 if it has none.
    parts
        What each party has, one item for each of the job's parties. A party whose item is ``None`` or empty
        sits the rounds out.
    model
        The model that the job starts from, ``dim`` floats; ``None`` starts from zeros.
    evaluate
        Is given the model after each round and gives numbers by name: :attr:`TrainingRound.test`.
    plain
        Whether to train without any protection beside it, with the same seeds and the same survivors:
        :attr:`TrainingRound.plain_test`. Every step runs twice then.
    rounds
        Rounds to run at most; ``None`` is the number of the job.
    drop, drop_at, latency
        As for :func:`blindsum.simulate`, in every round.
    compute
        Seconds of virtual time for which parties train: a number, one for each party, ``compute(rank,
        round)``, or ``"measured"`` for what the step takes here. A party that is later than the job's
        ``input_deadline`` is lost.
    link
        The connection of the parties, a :class:`blindsum.training.Link`, or one for each.
    present
        ``present(rank, round)``: whether the party is there in that round, as for one that joins late.
    seed
        The seed of every random number; of the training step, too, through ``turn.seed``.
    threads
        Threads of the protocol. Results do not depend on it.
    out
        A folder in which the state is kept after each round: a run that was stopped goes on from there if it
        is started again with the same arguments.
    progress
        Called with each :class:`TrainingRound` as soon as it is over.

    Returns
    -------
    TrainingRecord
        All rounds, with and without a sum.

    Raises
    ------
    blindsum.ConfigError, blindsum.InputError
        An argument that does not fit the job, or a training step that gives something else than it must.

    Examples
    --------
    >>> import numpy as np
    >>> import blindsum as bs
    >>> spec = bs.JobSpec(protocol="secagg", parties=3, dim=2, rounds=2, adversary="semi-honest")
    >>> targets = [np.array([0.5, 0.0]), np.array([0.25, 0.25]), np.array([0.0, 0.5])]
    >>> record = bs.simulate_training(spec, lambda model, data, turn: data - model, targets)
    >>> [(one.outcome, len(one.survivors)) for one in record.rounds]
    [('sum', 3), ('sum', 3)]
    """
    checks.job_spec(spec)
    for name, function in (("step", step), ("evaluate", evaluate), ("present", present)):
        if function is not None and not callable(function):
            raise ConfigError(name, f"must be a function, not a {type(function).__name__}")
    whole = list(parts)
    if len(whole) != spec.parties:
        raise InputError(
            f"parts: {len(whole)} given, but the job has parties = {spec.parties}; give one item for each"
        )
    settings = {
        "drop": checks.fraction("drop", drop),
        "drop_at": drops(drop_at, spec),
        "latency": checks.seconds("latency", latency),
        "seed": checks.setting("seed", seed, 0, checks.SEEDS),
        "threads": checks.setting("threads", threads, 1, checks.THREADS),
    }
    limit = spec.rounds if rounds is None else checks.setting("rounds", rounds, 1, checks.ROUNDS)
    if limit == 0:
        raise ConfigError("rounds", "0 in the job goes on for ever; say how many rounds to simulate")
    start = None if model is None else first_model(model, spec)
    devices = Devices.of(spec, compute, link)
    # The plain model goes on from its own state, and a run from its own first model.
    kept = {**settings, "plain": bool(plain), "model": None if start is None else _hash(start)}
    with Checkpoints.of(out, spec, kept) as checkpoints:
        run = _Run(spec, step, whole, evaluate, present, devices, checkpoints, plain, start, settings)
        for one in run.rounds(limit):
            if progress is not None:
                progress(one)
        return run.record()


def _hash(model: Any) -> str:
    """A name for the values of a model."""
    return hashlib.sha256(np.ascontiguousarray(model).tobytes()).hexdigest()


@dataclass
class _Run:
    """A run: the simulated job, and what became of its rounds."""

    spec: JobSpec
    step: TrainStep
    parts: list[Any]
    evaluate: Evaluate | None
    present: Present | None
    devices: Devices
    checkpoints: Checkpoints
    has_plain: bool
    start: Any
    settings: Mapping[str, Any]
    done: list[TrainingRound] = field(default_factory=list)
    ended: str = "all rounds are done"

    def __post_init__(self) -> None:
        digits = len(str(self.spec.parties))
        self.names = [f"party-{rank + 1:0{digits}}" for rank in range(self.spec.parties)]
        self.done.extend(self.checkpoints.rounds)
        text = self.spec.to_json()
        start = None if self.checkpoints.state is not None else self.start
        simulated = {**self.settings, "model": start, "state": self.checkpoints.state}
        try:
            self.job = _native.TrainingSimulation(text, **simulated)
        except (BlindsumError, OverflowError, TypeError, ValueError) as error:
            if self.checkpoints.state is None:
                raise
            raise self.checkpoints.damaged(error) from error
        have = len(self.job.model())
        if have != self.spec.dim:
            raise self.checkpoints.damaged(
                ValueError(f"its model has {have} coordinates, dim is {self.spec.dim}")
            )
        self.whole_models = WholeModelLog(self.spec)
        self.plain = None
        if self.has_plain:
            self.plain = _native.ModelSteps(text, self.start, self.checkpoints.plain)

    def rounds(self, limit: int) -> Iterator[TrainingRound]:
        """Run rounds until there are so many, or the job stops early."""
        for number in range(len(self.done) + 1, limit + 1):
            one = self._round(number)
            self.done.append(one)
            plain = None if self.plain is None else self.plain.state()
            self.checkpoints.keep(self.record(), self.job.state(), plain)
            yield one

    def record(self) -> TrainingRecord:
        """All that became of it."""
        spec = self.spec
        return TrainingRecord(
            kind="simulated",
            job=spec.job,
            protocol=str(spec.protocol),
            spec=spec.to_dict(),
            parameters=dict(spec.parameters),
            origin={**origin(), "seed": str(self.settings["seed"])},
            rounds=tuple(self.done),
            ended=self.ended,
            error_bound=spec.max_error,
        )

    def _round(self, number: int) -> TrainingRound:
        model, version = self.job.model(), self.job.version()
        given, seconds = self._contributions(model, number)
        gives = {rank: one for rank, one in enumerate(given) if isinstance(one, Contribution)}
        lost = {self.names[rank]: one.why for rank, one in enumerate(given) if isinstance(one, Nothing)}
        for rank, one in gives.items():
            self.whole_models.look_at(number, version, model, one.vector, f"the update of {self.names[rank]}")
        training = {rank: self.devices.trains_for(rank, number, seconds[rank]) for rank in gives}
        if len(gives) < self.spec.least_roster:
            fault = f"{len(gives)} parties have an update, and a round needs {self.spec.least_roster}"
            return self._without_a_sum(number, lost, version, fault)
        empty = np.zeros_like(next(iter(gives.values())).vector)
        whole = [gives.get(rank, Contribution(empty, 1, {})) for rank in range(len(given))]
        ended = self.job.round(
            list(gives),
            [one.vector for one in whole],
            [one.weight for one in whole],
            [self._metrics(one.metrics) for one in whole],
            self.devices.delays(training),
            None,
        )
        report = json.loads(ended.report)
        survivors = [self.names[rank] for rank in ended.survivors]
        lost |= {
            name: why
            for rank, (name, why) in enumerate(zip(self.names, ended.ends, strict=True))
            if rank in gives and rank not in ended.survivors and why
        }
        if self.plain is not None and ended.survivors and report["outcome"] == "sum":
            self._go_on_plainly(number, ended.survivors)
        return TrainingRound(
            number=number,
            outcome=report["outcome"],
            survivors=tuple(survivors),
            lost=lost,
            seconds=report["virtual_seconds"],
            stages=tuple(_stage(stage, len(given)) for stage in report["stages"]),
            metrics={name: one["value"] for name, one in report.get("metrics", {}).items()},
            reported={name: one["share"] for name, one in report.get("metrics", {}).items()},
            test=self._tested(self.job.model()),
            plain_test={} if self.plain is None else self._tested(self.plain.model()),
            deviation=report["max_abs_error"],
            clipped=report["clipped"],
            fault=report["fault"],
            model_version=version,
            roster=tuple(self.names[rank] for rank in gives),
        )

    def _contributions(self, model: Array, number: int) -> tuple[list[Contribution | Nothing], list[float]]:
        """What every party gives, and the seconds that it took here."""
        given: list[Contribution | Nothing] = []
        seconds = []
        for rank in range(len(self.parts)):
            begin = time.perf_counter()
            given.append(self._contribution(model, number, rank))
            seconds.append(time.perf_counter() - begin)
        return given, seconds

    def _contribution(self, model: Array, number: int, rank: int) -> Contribution | Nothing:
        data = self.parts[rank]
        if self.present is not None and not self.present(rank, number):
            return Nothing("it is not there in this round")
        examples = len(data) if hasattr(data, "__len__") else 1
        if data is None or examples == 0:
            return NO_DATA
        turn = TrainingTurn.of(
            number, self.names[rank], rank, self.spec.parameters, int(self.settings["seed"])
        )
        return contribution(
            self.spec, self.step(model, data, turn), examples if self.spec.max_weight > 1 else 1
        )

    def _metrics(self, values: Mapping[str, float]) -> list[float | None]:
        """Values in the order of the job's metrics; what is not finite was not reported."""
        names = [metric.name for metric in self.spec.metrics]
        for name in values:
            if name not in names:
                known = ", ".join(names) or "none"
                raise InputError(f"training step: metric {name!r} is not one of the job's: {known}")
        found = (values.get(name) for name in names)
        return [None if value is None or not math.isfinite(value) else float(value) for value in found]

    def _go_on_plainly(self, number: int, survivors: Sequence[int]) -> None:
        """Train the plain model for the same parties, without clipping or rounding."""
        assert self.plain is not None
        model = self.plain.model()
        total, weights = np.zeros(self.spec.dim), 0
        for rank in survivors:
            one = self._contribution(model, number, rank)
            if isinstance(one, Contribution):
                total += one.weight * np.asarray(one.vector, dtype=np.float64)
                weights += one.weight
        if weights:
            self.plain.apply(total / weights)

    def _tested(self, model: Array) -> dict[str, float]:
        if self.evaluate is None:
            return {}
        return {name: float(value) for name, value in self.evaluate(model).items()}

    def _without_a_sum(self, number: int, lost: Mapping[str, str], version: int, fault: str) -> TrainingRound:
        return TrainingRound(
            number=number,
            outcome="abort",
            survivors=(),
            lost=dict(lost),
            seconds=0.0,
            stages=(),
            metrics={},
            reported={},
            test=self._tested(self.job.model()),
            plain_test={} if self.plain is None else self._tested(self.plain.model()),
            deviation=None,
            clipped=None,
            fault=fault,
            model_version=version,
            roster=(),
        )


def _stage(stage: Mapping[str, Any], parties: int) -> StageCost:
    """A stage of the simulator's report; its bytes are medians over the parties."""
    return StageCost(
        name=stage["name"],
        seconds=(stage["client_ms"]["max"] + stage["server_ms"]) / 1000,
        up=stage["up_bytes"]["median"] * parties,
        down=stage["down_bytes"]["median"] * parties,
    )
