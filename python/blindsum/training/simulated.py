"""Train in one process with the real protocol, where parties drop out, come late or give nothing."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from blindsum import _native, checks
from blindsum.arrays import in_order
from blindsum.errors import BlindsumError, ConfigError, InputError
from blindsum.origin import origin
from blindsum.privacy_claim import check_rounds
from blindsum.rounds import Array
from blindsum.simulation import DropAt, drops
from blindsum.spec import JobSpec
from blindsum.training.callbacks import tested
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
from blindsum.training.noticed import RunLog, start_of
from blindsum.training.record import BestModel, StageCost, TrainingRecord, TrainingRound, bound_of

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
        sits the rounds out. The root of ``fltrust`` is the last one.
    model
        The model that the job starts from, ``dim`` floats; ``None`` starts from zeros, of which the log warns
        unless the job says ``initial = "zeros"``.
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
        is started again with the same arguments. The best model of a job with ``stop`` is written there at
        the end: ``best-model.npy``.
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
    functions = (("step", step), ("evaluate", evaluate), ("present", present), ("progress", progress))
    for name, function in functions:
        if (function is not None or name == "step") and not callable(function):
            raise ConfigError(name, f"must be a function, not a {type(function).__name__}")
    whole = in_order("parts", parts, "one item per party")
    if len(whole) != spec.parties:
        raise InputError(
            "parts", f"{len(whole)} given, but the job has parties = {spec.parties}; give one item for each"
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
    check_rounds(spec, limit)
    start = start_of(spec, model)
    devices = Devices.of(spec, compute, link)
    # The plain model goes on from its own state, and a run from its own first model.
    kept = {**settings, "plain": bool(plain), "model": None if start is None else _hash(start)}
    with Checkpoints.of(out, spec, kept) as checkpoints:
        run = _Run(spec, step, whole, evaluate, present, devices, checkpoints, plain, start, settings, limit)
        for one in run.rounds():
            if progress is not None:
                progress(one)
        record = run.record()
        checkpoints.write_best(record)
        return record


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
    limit: int
    done: list[TrainingRound] = field(default_factory=list)

    def __post_init__(self) -> None:
        digits = len(str(self.spec.parties))
        self.names = [f"party-{rank + 1:0{digits}}" for rank in range(self.spec.parties)]
        if (root := self.spec.root) is not None and root != self.names[-1]:
            if root in self.names:
                rule = f"is {root}, and the root of a simulated run is its last party, {self.names[-1]}"
                raise ConfigError(
                    "spec.protocol.root", f"{rule}: name that one, or give the root another name"
                )
            self.names[-1] = root
        self.done.extend(self.checkpoints.rounds)
        start = None if self.checkpoints.state is not None else self.start
        simulated = {**self.settings, "model": start, "state": self.checkpoints.state}
        try:
            self.job = _native.TrainingSimulation(self.spec._job, **simulated)
        except (BlindsumError, OverflowError, TypeError, ValueError) as error:
            if self.checkpoints.state is None:
                raise
            raise self.checkpoints.damaged(error) from error
        have = len(self.job.model())
        if have != self.spec.dim:
            raise self.checkpoints.damaged(
                ValueError(f"its model has {have} coordinates, dim is {self.spec.dim}")
            )
        self.log = RunLog(self.spec)
        self.plain = None
        if self.has_plain:
            self.plain = _native.ModelSteps(self.spec._job, self.start, self.checkpoints.plain)

    def rounds(self) -> Iterator[TrainingRound]:
        """Run rounds until there are all of them, or the job stops early."""
        for number in range(len(self.done) + 1, self.limit + 1):
            if self.job.ended() is not None:
                break
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
            ended=self._ended(),
            error_bound=bound_of(spec),
            best_model=self._best(),
        )

    def _ended(self) -> str:
        early = self.job.ended() if len(self.done) < self.limit else None
        if early is not None:
            return early
        has_sum = any(one.outcome == "sum" for one in self.done)
        return "all rounds are done" if has_sum else "all rounds are over, and none has a sum"

    def _best(self) -> BestModel | None:
        found = self.job.best()
        return None if found is None else BestModel(*found[0], model=found[1])

    def _round(self, number: int) -> TrainingRound:
        model, version = self.job.model(), self.job.version()
        given, seconds = self._contributions(model, number)
        gives = {rank: one for rank, one in enumerate(given) if isinstance(one, Contribution)}
        lost = {self.names[rank]: one.why for rank, one in enumerate(given) if isinstance(one, Nothing)}
        self.log.given(number, version, model, {self.names[rank]: one for rank, one in gives.items()})
        training = {rank: self.devices.trains_for(rank, number, seconds[rank]) for rank in gives}
        if len(gives) < self.spec.least_roster:
            fault = f"{len(gives)} parties have an update, and a round needs {self.spec.least_roster}"
            return self._without_a_sum(number, lost, version, fault)
        empty = np.zeros_like(next(iter(gives.values())).vector)
        whole = [gives.get(rank, Contribution(empty, 1, {})) for rank in range(len(given))]
        ended = self.job.round(
            number,
            list(gives),
            [one.vector for one in whole],
            [one.weight for one in whole],
            [self._metrics(one.metrics) for one in whole],
            self.devices.delays(training),
            None,
        )
        report = ended.report
        self.log.clipped(number, report["clipped"] or 0, len(gives))
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
            stages=_stages(report["stages"], len(gives)),
            metrics={name: one["value"] for name, one in report.get("metrics", {}).items()},
            reported={name: one["share"] for name, one in report.get("metrics", {}).items()},
            test=self._tested(self.job.model()),
            plain_test={} if self.plain is None else self._tested(self.plain.model()),
            deviation=report["max_abs_error"],
            epsilon=self._epsilon(),
            clipped=report["clipped"],
            fault=report["fault"],
            model_version=version,
            roster=tuple(self.names[rank] for rank in gives),
        )

    def _epsilon(self) -> float | None:
        """ε after one more release; rounds without one have none."""
        releases = 1 + sum(one.epsilon is not None for one in self.done)
        claim = self.spec.privacy_after(releases)
        return None if claim is None else claim.epsilon

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
        try:
            given = self.step(model, data, turn)
        except InputError as error:
            if error.index is None:
                raise
            # A ModelVector found a number that is not finite.
            return Nothing(f"its update cannot be used: {error}")
        whose = f"the training step of {self.names[rank]} in round {number}"
        return contribution(self.spec, given, examples if self.spec.max_weight > 1 else 1, whose)

    def _metrics(self, values: Mapping[str, float]) -> list[float | None]:
        """Values in the order of the job's metrics; what is not finite was not reported."""
        found = (values.get(metric.name) for metric in self.spec.metrics)
        return [None if value is None or not math.isfinite(value) else value for value in found]

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
        return {} if self.evaluate is None else tested(self.evaluate, model, self.job.version())

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


def _stages(stages: Sequence[Mapping[str, Any]], parties: int) -> tuple[StageCost, ...]:
    """Stages as the reports of a coordinator have them, in virtual time; bytes are medians over the parties.

    The simulator counts a message with the answer that it leads to, and the last one in a row of its own. A
    coordinator counts it with the stage that it ends.
    """
    return tuple(
        StageCost(
            name=stage["name"],
            seconds=stage["virtual_seconds"],
            up=stage["up_bytes"]["median"] * parties,
            down=after["down_bytes"]["median"] * parties,
        )
        for stage, after in itertools.pairwise(stages)
    )
