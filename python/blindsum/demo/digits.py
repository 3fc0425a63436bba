"""The data: 1,797 handwritten digits that ship with scikit-learn, split unevenly over the parties."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blindsum.errors import BlindsumError

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

TEST = 360
SKEW = 3.0
"""Spread of the noise on the labels that examples are dealt out by: the smaller, the less alike the
parties' data."""


@dataclass(frozen=True)
class Examples:
    """Images of shape ``(n, 64)`` with values in [0, 1], and their labels."""

    images: Array
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def save(self, path: Path) -> None:
        """Write them to a file."""
        np.savez(path, images=self.images, labels=self.labels)

    @classmethod
    def load(cls, path: Path) -> Examples:
        """Read them again."""
        with np.load(path) as arrays:
            return cls(arrays["images"], arrays["labels"])


def load(seed: int) -> tuple[Examples, Examples]:
    """Give the training and the test examples, shuffled by the seed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise BlindsumError(
            "the demo needs scikit-learn; install it with `pip install 'blindsum[demo]'`"
        ) from error
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images = (images[order] / 16).astype(np.float32)
    labels = labels[order].astype(np.int64)
    return Examples(images[TEST:], labels[TEST:]), Examples(images[:TEST], labels[:TEST])


def deal(examples: Examples, parties: int, seed: int) -> list[Examples]:
    """Split unevenly.

    The last party gets four times what the first one gets, and each has more of some digits than of others.
    """
    rng = np.random.default_rng([seed, 1])
    order = np.argsort(examples.labels + rng.normal(0, SKEW, len(examples)))
    sizes = np.linspace(1, 4, parties)
    ends = np.round(np.cumsum(sizes) / sizes.sum() * len(examples)).astype(int)
    parts = np.split(order, ends[:-1])
    return [Examples(examples.images[part], examples.labels[part]) for part in parts]
