"""Federated training in one process: handwritten digits, dealt to parties, and local training of all at once.

The network is that of the demo. All parties train in the same array operations: what one of them does is what
:func:`blindsum.demo.network.local_update` would do with the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from blindsum.demo import digits, network
from blindsum.demo.digits import Examples
from blindsum.learning.partitions import partition

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

PARTIES = 20
ROOT = 100
ALPHA = 0.5
"""Of the Dirichlet distribution: the smaller, the less alike the parties' data."""
LEAST = 8
"""Examples of the party that has least."""

LOCAL_STEPS = 10
BATCH = 16
LEARNING_RATE = 0.3


@dataclass(frozen=True)
class Federation:
    """Who has what.

    Attributes
    ----------
    parts : list of Examples
        The parties' examples.
    root : Examples
        Examples of the servers, drawn from all; no party has them.
    test : Examples
        What accuracy is measured on.
    """

    parts: list[Examples]
    root: Examples
    test: Examples


@cache
def federation(kind: str, seed: int) -> Federation:
    """Deal the digits: ``iid``, or ``dirichlet`` with other shares of each digit for each party."""
    train, test = digits.load(seed)
    rng = np.random.default_rng([seed, 2])
    root, rest = _taken(train, np.arange(ROOT)), _taken(train, np.arange(ROOT, len(train)))
    form = f"dirichlet:{ALPHA}" if kind == "dirichlet" else kind
    places = partition(form, rest.labels, PARTIES, seed=rng, minimum=LEAST)
    return Federation([_taken(rest, place) for place in places], root, test)


def _taken(examples: Examples, places: Labels) -> Examples:
    return Examples(examples.images[places], examples.labels[places])


class Trainer:
    """Trains copies of a model on several sets of examples.

    Parameters
    ----------
    parts
        The sets: P of them.
    seed
        Of the batches.
    """

    def __init__(self, parts: Sequence[Examples], seed: int) -> None:
        self._seed = seed
        self._sizes = np.array([len(part) for part in parts])
        most = int(self._sizes.max())
        self._images = np.zeros((len(parts), most, 64), dtype=np.float32)
        self._labels = np.zeros((len(parts), most), dtype=np.int64)
        for party, part in enumerate(parts):
            self._images[party, : len(part)] = part.images
            self._labels[party, : len(part)] = part.labels

    def updates(self, model: Floats, number: int) -> Floats:
        """The differences to the model after local training in a round, shape ``(P, DIM)``."""
        rng = np.random.default_rng([self._seed, 3, number])
        count = len(self._sizes)
        rows = np.arange(count)[:, None]
        start = np.repeat(model[None], count, axis=0)
        trained = start.copy()
        for _ in range(LOCAL_STEPS):
            places = (rng.random((count, BATCH)) * self._sizes[:, None]).astype(int)
            trained -= np.float32(LEARNING_RATE) * gradients(
                trained, self._images[rows, places], self._labels[rows, places]
            )
        return trained - start


def gradients(models: Floats, images: Floats, labels: Labels) -> Floats:
    """The gradient of each model on its own batch, shape ``(P, DIM)``.

    Parameters
    ----------
    models
        Shape ``(P, DIM)``.
    images, labels
        Shapes ``(P, b, 64)`` and ``(P, b)``.
    """
    count, size = labels.shape
    ends = np.cumsum([np.prod(shape) for shape in network.SHAPES])
    split = np.split(models, ends[:-1], axis=1)
    first, first_bias, second, second_bias = [
        part.reshape(count, *shape) for part, shape in zip(split, network.SHAPES, strict=True)
    ]
    hidden = np.maximum(images @ first + first_bias[:, None], 0)
    logits = hidden @ second + second_bias[:, None]
    scores = np.exp(logits - logits.max(axis=2, keepdims=True))
    error = scores / scores.sum(axis=2, keepdims=True)
    error[np.arange(count)[:, None], np.arange(size), labels] -= 1
    error /= size
    back = (error @ second.transpose(0, 2, 1)) * (hidden > 0)
    parts = (
        images.transpose(0, 2, 1) @ back,
        back.sum(axis=1),
        hidden.transpose(0, 2, 1) @ error,
        error.sum(axis=1),
    )
    return np.concatenate([part.reshape(count, -1) for part in parts], axis=1).astype(np.float32)
