"""Small nets in plain numpy, whose parameters are one vector: full layers, with or without filters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

KERNEL, POOL = 3, 2


@dataclass(frozen=True)
class Classifier:
    """A net: filters with pooling (or none), hidden layers (or none), and a score for each label.

    Attributes
    ----------
    name : str
        What pages call it.
    side : int
        Pixels of a side of an image, which has one channel.
    hidden : tuple of int
        Units of the hidden layers.
    filters : int
        Filters of 3 by 3 pixels before them, each followed by the mean of 2 by 2 places; 0 has none.
    classes : int
        Labels.
    """

    name: str
    side: int
    hidden: tuple[int, ...] = ()
    filters: int = 0
    classes: int = 10

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Weights and biases, layer by layer."""
        found: list[tuple[int, ...]] = []
        inputs = self.side**2
        if self.filters:
            found += [(KERNEL**2, self.filters), (self.filters,)]
            inputs = ((self.side - KERNEL + 1) // POOL) ** 2 * self.filters
        for units in (*self.hidden, self.classes):
            found += [(inputs, units), (units,)]
            inputs = units
        return tuple(found)

    @property
    def dim(self) -> int:
        """The number of parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def initial(self, seed: int) -> Floats:
        """Parameters to start from (He initialisation), shape ``(dim,)``."""
        rng = np.random.default_rng([seed, 0])
        parts = [
            rng.normal(0.0, np.sqrt(2 / shape[0]), shape) if len(shape) > 1 else np.zeros(shape)
            for shape in self.shapes
        ]
        return np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def labels(self, model: Any, images: Floats) -> Labels:
        """The label that each image gets; images have the shape ``(n, 1, side, side)``."""
        found: Labels = self._scores(self._layers(model), images)[-1].argmax(axis=1)
        return found

    def gradient(self, model: Floats, images: Floats, labels: Labels) -> Floats:
        """The gradient of the mean cross-entropy, shape ``(dim,)``."""
        layers = self._layers(model)
        values = self._scores(layers, images)
        scores = np.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
        error = scores / scores.sum(axis=1, keepdims=True)
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        parts: list[Floats] = []
        first = 2 if self.filters else 0
        for place in range(len(layers) - 2, first - 1, -2):
            inputs = values[(place - first) // 2]
            parts = [inputs.T @ error, error.sum(axis=0), *parts]
            if place > first or self.filters:
                error = (error @ layers[place].T) * (inputs > 0)
        if self.filters:
            # `inputs` are means of what is never below 0, so that the mask of each place is made again.
            patches, responses = self._responses(layers, images)
            spread = self._unpooled(error, responses) * (responses > 0)
            flat = spread.reshape(-1, self.filters)
            parts = [patches.reshape(len(flat), -1).T @ flat, flat.sum(axis=0), *parts]
        return np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def trained(
        self, model: Floats, images: Floats, labels: Labels, seed: int, steps: int, batch: int, rate: float
    ) -> Floats:
        """Train with so many steps on random batches; gives the change, shape ``(dim,)``."""
        rng = np.random.default_rng(seed)
        start = np.asarray(model, dtype=np.float32)
        now = start.copy()
        for _ in range(steps):
            chosen = rng.integers(0, len(labels), min(batch, len(labels)))
            now -= np.float32(rate) * self.gradient(now, images[chosen], labels[chosen])
        return now - start

    def _scores(self, layers: list[Floats], images: Floats) -> list[Floats]:
        """The inputs of each full layer, and the scores at the end."""
        if self.filters:
            _, responses = self._responses(layers, images)
            values = [self._pooled(np.maximum(responses, 0))]
            layers = layers[2:]
        else:
            values = [images.reshape(len(images), -1)]
        for place in range(0, len(layers), 2):
            result = values[-1] @ layers[place] + layers[place + 1]
            values.append(result if place == len(layers) - 2 else np.maximum(result, 0))
        return values

    def _responses(self, layers: list[Floats], images: Floats) -> tuple[Floats, Floats]:
        """The patches of images, and what the filters make of them; both by image, row and column."""
        windows = sliding_window_view(images[:, 0], (KERNEL, KERNEL), axis=(1, 2))
        patches = windows.reshape(*windows.shape[:3], KERNEL**2)
        return patches, patches @ layers[0] + layers[1]

    def _pooled(self, responses: Floats) -> Floats:
        count = responses.shape[1] // POOL
        cut = responses[:, : count * POOL, : count * POOL]
        blocks = cut.reshape(len(responses), count, POOL, count, POOL, self.filters)
        pooled: Floats = blocks.mean(axis=(2, 4)).reshape(len(responses), -1)
        return pooled

    def _unpooled(self, error: Floats, responses: Floats) -> Floats:
        """The error of each response: an equal part of the error of the mean that it is in."""
        count = responses.shape[1] // POOL
        means = error.reshape(len(error), count, count, self.filters) / POOL**2
        spread = np.zeros_like(responses)
        repeated = means.repeat(POOL, axis=1).repeat(POOL, axis=2)
        spread[:, : count * POOL, : count * POOL] = repeated
        return spread

    def _layers(self, model: Any) -> list[Floats]:
        ends = np.cumsum([np.prod(shape) for shape in self.shapes])
        parts = np.split(np.asarray(model, dtype=np.float32), ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
