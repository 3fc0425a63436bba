"""Examples with their labels, and where known with the user that each is from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples of one data set.

    Attributes
    ----------
    features : ndarray
        Shape ``(n, …)``. Images are float32 in [0, 1] of shape ``(n, channels, height, width)``, measurements
        float32 of shape ``(n, k)``, texts int64 of shape ``(n, length)``: the places of their characters in
        ``names``.
    labels : ndarray of int64
        The places of the labels in ``names``, shape ``(n,)``.
    users : ndarray or None
        Who each example is from, shape ``(n,)``, where the data set says so.
    names : sequence of str
        What each label is called.
    """

    features: NDArray[Any]
    labels: NDArray[np.int64]
    users: NDArray[Any] | None
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def flat(self) -> NDArray[Any]:
        """The features as one row an example, shape ``(n, k)``: for models that know no images."""
        return self.features.reshape(len(self), -1)

    def take(self, indices: ArrayLike) -> Dataset:
        """The examples at these places, e.g. those of one party."""
        place = np.asarray(indices)
        users = None if self.users is None else self.users[place]
        return Dataset(self.features[place], self.labels[place], users, self.names)


def joined(parts: Sequence[Dataset]) -> Dataset:
    """The examples of several data sets with the same names, one after the other."""
    given = [part.users for part in parts if part.users is not None]
    users = np.concatenate(given) if given else None
    features = np.concatenate([part.features for part in parts])
    return Dataset(features, np.concatenate([part.labels for part in parts]), users, parts[0].names)


def images(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Pixels from 0 to 255 as numbers in [0, 1]."""
    return pixels.astype(np.float32) / np.float32(255)
