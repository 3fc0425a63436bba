"""Server steps: how the mean of a round changes a model, coordinate by coordinate."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from .encoding import single

if TYPE_CHECKING:
    from .job import Job

VECTORS = {"fedavg": 0, "fedavgm": 1, "fedadam": 2, "fedyogi": 2, "fedadagrad": 2}


class Step:
    """The step of a job, with its momentum and second moment, one of each for a coordinate.

    Every number is computed as a double, from left to right, and rounded once to the precision of the model.
    """

    def __init__(self, job: Job, count: int, *, is_wide: bool) -> None:
        self.name = job.step
        self.options = {
            name: float(job.option("step", name) or 0.0) for name in ("learning_rate", *OPTIONS[job.step])
        }
        self.round = float if is_wide else single
        second = self.round(self.options.get("tau", 0.0) ** 2)
        vectors = VECTORS[self.name]
        self.momentum = [0.0] * (count if vectors > 0 else 0)
        self.second = [second] * (count if vectors > 1 else 0)

    def state(self) -> list[float]:
        """What follows the values and the history in the bytes of a model."""
        return [*self.momentum, *self.second]

    def take(self, values: list[float], mean: list[float]) -> list[float]:
        """The values after a round with this mean; the state is changed."""
        return [self.one(d, value, delta) for d, (value, delta) in enumerate(zip(values, mean, strict=True))]

    def one(self, d: int, value: float, delta: float) -> float:
        """One coordinate after the round."""
        rate = self.options["learning_rate"]
        if self.name == "fedavg":
            return self.round(value + rate * delta)
        if self.name == "fedavgm":
            self.momentum[d] = self.round(self.options["momentum"] * self.momentum[d] + delta)
            return self.round(value + rate * self.momentum[d])
        beta1 = self.options["beta1"]
        self.momentum[d] = self.round(beta1 * self.momentum[d] + (1.0 - beta1) * delta)
        self.second[d] = self.round(self.moment(self.second[d], delta * delta))
        step = rate * self.momentum[d] / (sqrt(self.second[d]) + self.options["tau"])
        return self.round(value + step)

    def moment(self, second: float, square: float) -> float:
        """The second moment after a mean with this square."""
        if self.name == "fedadagrad":
            return second + square
        part = (1.0 - self.options["beta2"]) * square
        if self.name == "fedadam":
            return self.options["beta2"] * second + part
        if second == square:
            return second
        return second - part if second > square else second + part


OPTIONS = {
    "fedavg": (),
    "fedavgm": ("momentum",),
    "fedadam": ("beta1", "beta2", "tau"),
    "fedyogi": ("beta1", "beta2", "tau"),
    "fedadagrad": ("beta1", "tau"),
}
