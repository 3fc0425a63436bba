"""How like reconstructed images are to the true ones, in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blindsum.attack.inversion import Floats

DRAWS = 10
"""Sets of other images with which reconstructions are compared."""


@dataclass(frozen=True)
class Likeness:
    """How like the images of a reconstruction are to the true ones, each with the one that fits it best.

    Attributes
    ----------
    correlation : float
        The mean correlation of the pixels of a true image with those of its reconstruction, from -1 to 1.
    error : float
        The mean squared error of a pixel, whose values are from 0 to 1.
    recognised : int
        Reconstructions whose most similar image of the whole data set is the true one.
    by_chance : float
        The same number for as many other images of the data set, the mean of :data:`DRAWS` draws: what
        reconstructions find of images that they have nothing to do with.
    images : int
        How many true images there are.
    order : tuple of int
        For each true image the place of its reconstruction.
    """

    correlation: float
    error: float
    recognised: int
    by_chance: float
    images: int
    order: tuple[int, ...]


def likeness(found: Floats, places: NDArray[np.int64], pool: Floats, rng: np.random.Generator) -> Likeness:
    """Compare reconstructions with true images.

    Parameters
    ----------
    found
        The reconstructions, shape ``(n, pixels)``.
    places
        Where the true images are in the pool, shape ``(n,)``.
    pool
        The whole data set, in which the attacker looks a reconstruction up; shape ``(images, pixels)``.
    rng
        Draws the other images.
    """
    likely = correlations(found, pool)
    order = _order(likely, places)
    pairs = likely[order, places]
    error = float(((found[order] - pool[places]) ** 2).mean())
    others = np.setdiff1d(np.arange(len(pool)), places)
    drawn = [rng.choice(others, len(places), replace=False) for _ in range(DRAWS)]
    by_chance = float(np.mean([_recognised(likely, one, _order(likely, one)) for one in drawn]))
    recognised = _recognised(likely, places, order)
    order_of_images = tuple(map(int, order))
    return Likeness(float(pairs.mean()), error, recognised, by_chance, len(places), order_of_images)


def _order(likely: Floats, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each image the reconstruction that fits it, so that all together fit best."""
    from scipy.optimize import linear_sum_assignment

    order: NDArray[np.int64] = linear_sum_assignment(-likely[:, places].T)[1]
    return order


def _recognised(likely: Floats, places: NDArray[np.int64], order: NDArray[np.int64]) -> int:
    """How many of these reconstructions are most similar to the image that they belong to."""
    return int((likely[order].argmax(axis=1) == places).sum())


def psnr(error: float) -> float:
    """The peak signal-to-noise ratio of a mean squared error, in dB; at most 120."""
    return -10 * math.log10(max(error, 1e-12))


def correlations(ones: Floats, others: Floats) -> Floats:
    """The correlation of each of the ones with each of the others; 0 if an image has one brightness only."""
    found: Floats = _normed(ones) @ _normed(others).T
    return found


def _normed(images: Floats) -> Floats:
    centred = images - images.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    normed: Floats = centred / np.where(norms == 0, 1.0, norms)
    return normed
