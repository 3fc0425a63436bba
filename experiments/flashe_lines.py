"""A line of the tables of `flashe_wan`: one model trained with one scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benches.he.measure import HeCost
from experiments.wan import Model, Round, dollars, iteration_s


@dataclass(frozen=True)
class Known:
    """Costs of another scheme, and the run that measured them.

    Attributes
    ----------
    origin : dict
        The columns of that run (`benches.provenance.COLUMNS`).
    is_kept : bool
        Whether that was another run than this one.
    """

    cost: HeCost
    origin: Mapping[str, str]
    is_kept: bool

    @property
    def row(self) -> dict[str, Any]:
        """For a CSV file."""
        return {**asdict(self.cost), **self.origin}


@dataclass(frozen=True)
class Line:
    """A model trained with one scheme: one aggregation, and all that follows from it."""

    model: Model
    scheme: str
    aggregation: Round
    training_s: float
    costs: Known | None = None

    @property
    def title(self) -> str:
        """The scheme, with a mark if its costs are those of another run."""
        return f"{self.scheme} †" if self.costs and self.costs.is_kept else self.scheme

    @property
    def iteration_s(self) -> float:
        """Seconds of an iteration."""
        return iteration_s(self.aggregation, self.training_s)

    @property
    def hours(self) -> float:
        """Until convergence."""
        return self.iteration_s * self.model.iterations / 3600

    @property
    def gigabytes(self) -> float:
        """Of one client until convergence, 2^30 bytes each as in the paper."""
        return self.aggregation.bytes * self.model.iterations / 2**30

    @property
    def dollars(self) -> float:
        """Until convergence."""
        return dollars(self.hours, self.gigabytes)

    @property
    def row(self) -> dict[str, Any]:
        """For a CSV file."""
        return {
            "model": self.model.name,
            "parameters": self.model.parameters,
            "scheme": self.scheme,
            **asdict(self.aggregation),
            "training_s": self.training_s,
            "iteration_s": self.iteration_s,
            "hours": self.hours,
            "gigabytes": self.gigabytes,
            "dollars": self.dollars,
        }
