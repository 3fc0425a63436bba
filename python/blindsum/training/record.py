"""The record of a training run: what each round cost and gave, in files and as a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from blindsum import checks
from blindsum.display import Shown, html_table, names_text
from blindsum.errors import ConfigError
from blindsum.options import Mpc3
from blindsum.training.words import bytes_text, number_text, seconds_text

if TYPE_CHECKING:
    from blindsum.pki import AnyPath
    from blindsum.rounds import Array
    from blindsum.spec import JobSpec

KINDS = ("simulated", "processes", "job")
"""How a run was made: simulated in one process, as processes of one machine, or as a job between machines."""

GOALS = ("max", "min")

LAST_ROUNDS = 10
"""Rounds that a notebook shows."""


def bound_of(spec: JobSpec) -> float | None:
    """What encoding may change in the mean of a round; ``None`` where servers compute more than a mean."""
    protocol = spec.protocol
    has_noise = spec.privacy.name != "none"
    is_mean = not isinstance(protocol, Mpc3) or (
        protocol.rule == "fedavg" and protocol.noise == 0 and not has_noise
    )
    return spec.max_error if is_mean else None


Evaluate = Callable[["Array"], Mapping[str, float]]


@dataclass(frozen=True)
class StageCost:
    """What one stage of a round cost.

    Attributes
    ----------
    name : str
        The stage.
    seconds : float
        How long it took.
    up, down : int
        Bytes that all parties together sent and were sent.
    """

    name: str
    seconds: float
    up: int
    down: int


@dataclass(frozen=True)
class TrainingRound(Shown):
    """One round of a run.

    Attributes
    ----------
    number : int
        Its number.
    outcome : str
        ``"sum"``, or ``"abort"`` if it ended without one.
    survivors : tuple of str
        The parties whose updates are in the sum.
    lost : mapping of str to str
        The parties that did not finish it, each with the reason.
    seconds : float
        From the offer of the round to its end, training included.
    stages : tuple of StageCost
        Its stages, in order.
    metrics : mapping of str to (float or None)
        Means over the parties, summed securely; ``None`` if no party reported the metric. They are of the
        model that the round starts from, unless the parties measure another one.
    reported : mapping of str to float
        The share of the survivors' weight, from 0 to 1, that each metric is the mean of.
    test : mapping of str to float
        The caller's own evaluation of the model after the round.
    plain_test : mapping of str to float
        The same of plain FedAvg with the same updates, where it is known.
    deviation : float or None
        Largest difference between the mean of the round and the survivors' mean in the clear, where that is
        known.
    clipped : int or None
        Coordinates that clipping cut off, of all survivors together, where they are known.
    fault : str or None
        Why there is no sum.
    model_version : int
        The version of the model that the round starts from. A sum makes the next one.
    epsilon : float or None
        The privacy that is spent once the round is over, where it is counted.
    roster : tuple of str
        The parties of the round, in order; empty where they are not known.
    lost_stages : mapping of str to str
        The stage in which each lost party was lost. Parties that were lost in none are not in it, such as
        those without data.
    """

    number: int
    outcome: Literal["sum", "abort"]
    survivors: tuple[str, ...]
    lost: Mapping[str, str]
    seconds: float
    stages: tuple[StageCost, ...]
    metrics: Mapping[str, float | None]
    reported: Mapping[str, float]
    test: Mapping[str, float]
    plain_test: Mapping[str, float]
    deviation: float | None
    clipped: int | None
    fault: str | None
    model_version: int
    epsilon: float | None = None
    roster: tuple[str, ...] = ()
    lost_stages: Mapping[str, str] = field(default_factory=dict)

    @property
    def lost_words(self) -> dict[str, str]:
        """The parties that did not finish it, each with ``"stage: reason"``, or the reason alone."""
        stages = self.lost_stages
        return {name: f"{stages[name]}: {why}" if name in stages else why for name, why in self.lost.items()}

    @property
    def up(self) -> int:
        """Bytes that all parties together sent."""
        return sum(stage.up for stage in self.stages)

    @property
    def down(self) -> int:
        """Bytes that all parties together were sent."""
        return sum(stage.down for stage in self.stages)

    def _shown(self) -> dict[str, object]:
        plain = {f"{name}, plain": value for name, value in self.plain_test.items()}
        return {
            "round": self.number,
            "outcome": self.outcome,
            "survivors": len(self.survivors),
            "lost": names_text(tuple(self.lost)) or None,
            **{f"{name}, of the parties": number_text(value) for name, value in self.metrics.items()},
            **{name: number_text(value) for name, value in {**self.test, **plain}.items()},
            "time": seconds_text(self.seconds),
            "bytes": f"{bytes_text(self.up)} up, {bytes_text(self.down)} down",
            "fault": self.fault,
        }


@dataclass(frozen=True)
class BestModel:
    """The model with the best value of the metric that the job's ``stop`` names.

    Attributes
    ----------
    metric : str
        The metric: the mean of the parties, who measure the model that they all have.
    round : int
        The round in which they measured it, and which started from it.
    version : int
        The version of that model.
    value : float
        The value.
    without_gain : int
        Rounds since then that had a value, none of which was better.
    model : numpy.ndarray or None
        The model itself, shape ``(dim,)``; ``None`` in a record that was read from a file.
    """

    metric: str
    round: int
    version: int
    value: float
    without_gain: int
    model: Array | None = field(default=None, compare=False, repr=False)


def best_words(best: BestModel) -> str:
    """The best model for people."""
    return f"{best.metric} {number_text(best.value)}, of model version {best.version}, in round {best.round}"


@dataclass(frozen=True, repr=False)
class TrainingRecord(Shown):
    """A training run, round by round.

    Attributes
    ----------
    kind : str
        ``"simulated"`` in one process, ``"processes"`` of one machine, or a ``"job"`` between machines.
    job : str
        Name of the job.
    protocol : str
        Name of the protocol.
    spec : mapping
        The job specification, as :meth:`blindsum.JobSpec.to_dict` has it; empty where it is not known.
    parameters : mapping
        The hyperparameters of the job: learning rate, batch size and whatever else it agrees.
    origin : mapping of str to str
        Where the numbers come from: version, build, Python, machine, date and whatever else tells it, such as
        the seed.
    rounds : tuple of TrainingRound
        The rounds, in order.
    ended : str
        Why the run ended.
    error_bound : float or None
        The most that ``deviation`` may be: what quantisation costs.
    key_setups : tuple of TrainingRound
        The key set-ups among the rounds, where the protocol has any. Their survivors hold the key.
    best_model : BestModel or None
        The best model of a job with ``stop``; ``None`` without ``stop``, and before the first value.
    """

    kind: Literal["simulated", "processes", "job"]
    job: str
    protocol: str
    spec: Mapping[str, Any]
    parameters: Mapping[str, Any]
    origin: Mapping[str, str]
    rounds: tuple[TrainingRound, ...]
    ended: str
    error_bound: float | None
    key_setups: tuple[TrainingRound, ...] = ()
    best_model: BestModel | None = None

    @classmethod
    def from_store(
        cls,
        store: AnyPath,
        job: str | None = None,
        *,
        evaluate: Evaluate | None = None,
    ) -> Self:
        """Read the record of a job from a coordinator's store, which the coordinator may use meanwhile.

        Parameters
        ----------
        store
            The coordinator's file.
        job
            Name of the job; ``None`` for the store's only one.
        evaluate
            Called with each model that the store still has, float32 or float64 of shape ``(dim,)``: the
            latest ``models_kept`` versions. Its numbers are :attr:`TrainingRound.test`.

        Raises
        ------
        blindsum.ConfigError
            The store has no such job, or several and none is named.
        blindsum.InputError
            ``evaluate`` gives something else than numbers by their names.
        blindsum.HiddenModelError
            ``evaluate`` is given, and only the parties have the models of this job.
        blindsum.StoreError
            No such file, damaged, or no store of this version.
        """
        from blindsum.training.stored import record_fields

        return cls(**record_fields(store, job, evaluate))

    @classmethod
    def from_jsonl(cls, path: AnyPath) -> Self:
        """Read what :meth:`to_jsonl` wrote.

        Raises
        ------
        blindsum.InputError
            It cannot be read, is no record, or one that was cut off: the error names the line and the field.
        """
        from blindsum.training.files import read_record

        return cls(**read_record(path))

    def to_jsonl(self, path: AnyPath) -> None:
        """Write everything as JSON lines: one with what is true of the whole run, then one a round.

        Numbers that are not finite are the texts ``"nan"``, ``"inf"`` and ``"-inf"``.
        """
        from blindsum.comparison.folder import replace
        from blindsum.training.files import record_lines

        replace(Path(checks.path("path", path)), record_lines(self))

    def to_csv(self, path: AnyPath) -> None:
        """Write a table with one row a round: UTF-8, with a header; empty cells are ``None``."""
        from blindsum.comparison.folder import replace
        from blindsum.training.files import csv_lines

        replace(Path(checks.path("path", path)), csv_lines(self))

    def report(self, path: AnyPath, *, command: str | None = None) -> None:
        """Write a page that any browser opens, in one file, which asks for nothing from elsewhere.

        Parameters
        ----------
        path
            The file; one that exists is replaced.
        command
            The command that made the run or the page, for its readers.

        Raises
        ------
        blindsum.ConfigError
            plotly is not installed.
        """
        from blindsum.comparison.folder import replace
        from blindsum.training.report import page

        replace(Path(checks.path("path", path)), page(self, command))

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of all parties that were in a round, in order of their names."""
        return tuple(
            sorted({name for one in self.rounds for name in (*one.roster, *one.survivors, *one.lost)})
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the metrics of parties and of the caller's evaluation, ``accuracy`` and ``loss`` first."""
        names = {
            name for one in self.rounds for table in (one.metrics, one.test, one.plain_test) for name in table
        }
        return tuple(sorted(names, key=lambda name: (_FIRST.get(name, len(_FIRST)), name)))

    def value(self, one: TrainingRound, metric: str) -> float | None:
        """A metric of a round: of the caller's evaluation if the run has it there, else of the parties."""
        tested = any(metric in other.test for other in self.rounds)
        return (one.test if tested else one.metrics).get(metric)

    def best(self, metric: str, goal: Literal["max", "min"] = "max") -> TrainingRound:
        """Give the round with the best value of a metric, the earliest of equal ones.

        The caller's evaluation counts if the run has the metric there; that model is the one after the
        round. Otherwise the parties' metric counts, and that model is the one before it.

        Parameters
        ----------
        metric
            Its name.
        goal
            ``"max"`` if more is better, ``"min"`` if less is.

        Raises
        ------
        blindsum.ConfigError
            No round has a finite value of such a metric, or another goal is asked for.
        """
        if goal not in GOALS:
            raise ConfigError("goal", f"{goal!r} must be 'max' or 'min'")
        found = [
            (value, one)
            for one in self.rounds
            if (value := self.value(one, metric)) is not None and math.isfinite(value)
        ]
        if not found:
            known = ", ".join(self.measured) or "none"
            raise ConfigError(
                "metric", f"{metric!r} has no finite value in any round: give one of the run's: {known}"
            )
        choose = max if goal == "max" else min
        return choose(found, key=lambda pair: pair[0])[1]

    def _shown(self) -> dict[str, object]:
        sums = [one for one in self.rounds if one.outcome == "sum"]
        last = {name: self._last(name) for name in self.measured[:4]}
        lost = sum(len(one.lost) for one in self.rounds)
        return {
            "run": f"{self.kind}: job {self.job}, {self.protocol}",
            "rounds": f"{len(sums)} of {len(self.rounds)} with a sum",
            **{name: number_text(value) for name, value in last.items() if value is not None},
            "best": None if self.best_model is None else best_words(self.best_model),
            "parties": len(self.parties),
            "dropouts": lost or None,
            "time": seconds_text(sum(one.seconds for one in self.rounds)),
            "bytes": f"{bytes_text(sum(one.up for one in self.rounds))} up, "
            f"{bytes_text(sum(one.down for one in self.rounds))} down",
            "ended": self.ended,
        }

    def _last(self, metric: str) -> float | None:
        values = [value for one in self.rounds if (value := self.value(one, metric)) is not None]
        return values[-1] if values else None

    def _repr_html_(self) -> str:
        names = self.measured[:4]
        rows = [
            [
                one.number,
                one.outcome,
                len(one.survivors),
                ", ".join(one.lost) or "",
                *(number_text(self.value(one, name)) for name in names),
                seconds_text(one.seconds),
                bytes_text(one.up + one.down),
            ]
            for one in self.rounds[-LAST_ROUNDS:]
        ]
        header = ["round", "outcome", "survivors", "lost", *names, "time", "bytes"]
        more = len(self.rounds) - LAST_ROUNDS
        notes = [f"and {more} rounds before"] if more > 0 else []
        return super()._repr_html_() + html_table("the latest rounds", header, rows, notes)


_FIRST = {"accuracy": 0, "loss": 1}
