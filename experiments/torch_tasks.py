"""What larger settings train: the nets of the papers in torch, on a GPU where there is one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.learning import data, partitions
from blindsum.learning.dataset import Dataset
from blindsum.training.contribution import TrainingTurn

PIECE = 500
"""Test images that go through a net at once."""


@dataclass(frozen=True)
class TorchNet:
    """A net of `blindsum.learning.nets`, with what experiments ask of one.

    Attributes
    ----------
    name : str
        Its name there.
    shape : tuple of int
        Of an example.
    classes : int
        Labels.
    """

    name: str
    shape: tuple[int, ...]
    classes: int

    @cached_property
    def device(self) -> str:
        """Where it is trained."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    @cached_property
    def made(self) -> tuple[Any, Any]:
        """The net on its device, and its vector."""
        from blindsum.learning import nets
        from blindsum.torch import ModelVector

        net = nets.make(self.name, shape=self.shape, classes=self.classes).to(self.device)
        return net, ModelVector(net)

    @property
    def dim(self) -> int:
        """The number of coordinates: parameters, and buffers of floats."""
        return int(self.made[1].dim)

    def initial(self, seed: int) -> NDArray[Any]:
        """Parameters to start from."""
        import torch

        torch.manual_seed(seed)
        fresh = TorchNet(self.name, self.shape, self.classes).made[1]
        return np.asarray(fresh.values(), dtype=np.float32)


@dataclass(frozen=True)
class TorchTask:
    """Like `experiments.tasks.Task`, for all examples of a data set.

    Attributes
    ----------
    data : str
        Name of the data set.
    name : str
        Of the net.
    folder : pathlib.Path or None
        Where the files of the data are, if they are not found by themselves.
    rate : float
        Learning rate.
    steps, batch : int
        Local steps of a round, and examples of a step.
    """

    data: str
    name: str
    folder: Path | None = None
    rate: float = 0.1
    steps: int = 1
    batch: int = 64
    _loaded: dict[str, Dataset] = field(default_factory=dict, compare=False, repr=False)

    @property
    def train(self) -> Dataset:
        """The examples that parties share."""
        return self._part("train")

    @property
    def test(self) -> Dataset:
        """The examples that accuracy is measured on."""
        return self._part("test")

    @cached_property
    def net(self) -> TorchNet:
        """The net for this data."""
        return TorchNet(self.name, self.train.features.shape[1:], len(self.train.names))

    def parts(self, partition: str, parties: int, seed: int) -> list[Dataset]:
        """What each party has."""
        places = partitions.partition(partition, self.train.labels, parties, seed=seed)
        return [self.train.take(place) for place in places]

    def step(self, model: Any, part: Dataset, turn: TrainingTurn) -> Any:
        """The training function of a party."""
        import torch

        net, vector = self.net.made
        vector.load(model)
        net.train()
        rng = np.random.default_rng(turn.seed)
        optimiser = torch.optim.SGD([one for one in net.parameters() if one.requires_grad], lr=self.rate)
        for _ in range(self.steps):
            chosen = rng.integers(0, len(part), min(self.batch, len(part)))
            inputs = torch.from_numpy(part.features[chosen]).to(self.net.device)
            labels = torch.from_numpy(part.labels[chosen]).to(self.net.device)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs), labels).backward()
            optimiser.step()
        return vector.change()

    def right(self, model: Any) -> int:
        """How many test examples the model labels as it should."""
        import torch

        net, vector = self.net.made
        vector.load(model)
        net.eval()
        count = 0
        with torch.no_grad():
            for begin in range(0, len(self.test), PIECE):
                inputs = torch.from_numpy(self.test.features[begin : begin + PIECE]).to(self.net.device)
                found = net(inputs).argmax(dim=1).cpu().numpy()
                count += int((found == self.test.labels[begin : begin + PIECE]).sum())
        return count

    def _part(self, part: str) -> Dataset:
        if part not in self._loaded:
            self._loaded[part] = data.load(self.data, part=part, folder=self.folder)
        return self._loaded[part]
