"""What experiments train: a net, a data set, and what a party does in a round."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.errors import DataError
from blindsum.learning import data, partitions
from blindsum.learning.dataset import Dataset
from blindsum.training.contribution import TrainingTurn
from experiments.classifiers import Classifier, Floats

DIGITS, FASHION = "digits", "fashion-mnist"
SIDES = {DIGITS: 8, FASHION: 28}
"""Pixels of a side."""
TRAIN, TEST = 12_000, 2_000
"""The most examples that small settings take of a data set."""


@dataclass(frozen=True)
class Task:
    """A net and its data, and how a party trains.

    Attributes
    ----------
    data : str
        Name of the data set.
    net : Classifier
        The net.
    rate : float
        Learning rate.
    steps, batch : int
        Local steps of a round, and images of a step.
    """

    data: str
    net: Classifier
    rate: float
    steps: int = 10
    batch: int = 32

    @property
    def train(self) -> Dataset:
        """The examples that parties share."""
        return loaded(self.data, "train")

    @property
    def test(self) -> Dataset:
        """The examples that accuracy is measured on."""
        return loaded(self.data, "test")

    def parts(self, partition: str, parties: int, seed: int) -> list[Dataset]:
        """What each party has."""
        places = partitions.partition(partition, self.train.labels, parties, seed=seed)
        return [self.train.take(place) for place in places]

    def step(self, model: Any, part: Dataset, turn: TrainingTurn) -> Floats:
        """The training function of a party, as `blindsum.simulate_training` takes it."""
        return self.net.trained(
            model, part.features, part.labels, turn.seed, self.steps, self.batch, self.rate
        )

    def right(self, model: Any) -> int:
        """How many test examples the model labels as it should."""
        return int((self.net.labels(model, self.test.features) == self.test.labels).sum())


@cache
def loaded(name: str, part: str) -> Dataset:
    """A data set, or as much of it as small settings take.

    Raises
    ------
    blindsum.DataError
        It is not on this machine.
    """
    whole = data.load(name, part=part)
    most = TRAIN if part == "train" else TEST
    if len(whole) <= most:
        return whole
    return whole.take(np.random.default_rng([7, len(whole)]).permutation(len(whole))[:most])


def one_thread() -> AbstractContextManager[Any]:
    """A context in which the matrix products of numpy have one thread.

    Those of small nets are faster so, and do not wait for others on the machine.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits


def missing(names: Sequence[str]) -> dict[str, str]:
    """Why data sets cannot be loaded, of those that cannot."""
    found = {}
    for name in names:
        try:
            loaded(name, "train")
        except DataError as error:
            found[name] = str(error)
    return found


def largest(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The largest difference of a coordinate."""
    return float(np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)).max())
