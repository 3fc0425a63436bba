"""Gradient inversion: images that explain an update of the demo's network.

A party's update after one local step is its gradient times the learning rate. The attacker knows the model,
the learning rate and the number of images, and looks for images whose gradient is that of the update.

* *Labels* follow from the biases of the last layer: their gradient is the mean of the network's outputs less
  the labels, so it is negative for a class that the batch has (Zhao, Mopuri and Bilen 2020).
* *One image* follows exactly: the gradient of the weights of a hidden unit is the image times a factor, and
  the gradient of its bias is this factor (Phong et al. 2018). Over any number of steps their quotient stays
  the image.
* *Several images* are found by descent on the squared distance of the gradients (Zhu, Liu and Han 2019), here
  with the derivative in closed form, and with pixels that are kept in their range.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blindsum.demo import network
from blindsum.errors import BlindsumError

Floats: TypeAlias = NDArray[np.float64]

PIXELS = network.SHAPES[0][0]
CLASSES = network.SHAPES[-1][0]

STARTS = 4
"""Random images that the descent starts from, at most; the best end counts."""

EXPLAINED = 1e-4
"""A residual below which no further start is tried: what is left is the rounding of the update."""

STEPS = 300
"""Steps of a descent, at most."""

GUESS = 0.3
"""The brightness of an image that nothing is known of, as the attacker imagines it."""


@dataclass(frozen=True)
class Reconstruction:
    """What an attacker makes of a vector.

    Attributes
    ----------
    images : numpy.ndarray
        Shape ``(n, 64)``, values in [0, 1], in no particular order.
    labels : numpy.ndarray
        Their labels, shape ``(n,)``.
    residual : float
        The squared distance between the gradient of these images and that of the vector, by the squared norm
        of the latter: 0 explains the vector, 1 is as good as no images.
    """

    images: Floats
    labels: NDArray[np.int64]
    residual: float


def check_solver() -> None:
    """Check, before anything runs, that there is what minimises.

    Raises
    ------
    blindsum.BlindsumError
        scipy, which scikit-learn brings, is not installed.
    """
    try:
        import scipy.optimize  # noqa: F401
    except ImportError as error:
        raise BlindsumError(
            "the attack needs scikit-learn and its scipy; install them with `pip install 'blindsum[demo]'`"
        ) from error


def one_thread() -> AbstractContextManager[Any]:
    """A context in which matrix products have one thread: those of small nets are faster so."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits


def invert(
    model: NDArray[np.float32], update: Floats, images: int, scale: float, rng: np.random.Generator
) -> Reconstruction:
    """Look for the images behind an update.

    Parameters
    ----------
    model
        The model that the update starts from, shape ``(DIM,)``.
    update
        The vector that the attacker has, shape ``(DIM,)``; a mean of updates counts as one update of all
        their images.
    images
        How many images there are.
    scale
        What the attacker takes an update for: this times the gradient. ``-LEARNING_RATE`` after one step.
    rng
        Draws the images that the descent starts from.
    """
    layers = [layer.astype(np.float64) for layer in network.layers_of(model)]
    wanted = network.layers_of(np.asarray(update, np.float64) / scale)
    labels = _labels(layers, wanted[3], images)
    size = sum(float((part**2).sum()) for part in wanted) or 1.0
    target = np.eye(CLASSES)[labels]

    def distance(pixels: Floats) -> tuple[float, Floats]:
        return _distance(pixels.reshape(images, PIXELS), layers, target, wanted, size)

    if images == 1:
        pixels = exact(wanted)
        residual, _ = distance(pixels)
    else:
        starts = [rng.uniform(0.0, 1.0, images * PIXELS) for _ in range(STARTS)]
        with one_thread():
            pixels, residual = _best(distance, starts)
    return Reconstruction(pixels.reshape(images, PIXELS), labels, residual)


def _best(distance: Any, starts: list[Floats]) -> tuple[Floats, float]:
    """The best end of descents, and its residual."""
    best = _descent(distance, starts[0])
    for start in starts[1:]:
        if best[1] < EXPLAINED:
            break
        best = min(best, _descent(distance, start), key=lambda end: end[1])
    return best


def _descent(distance: Any, start: Floats) -> tuple[Floats, float]:
    from scipy.optimize import minimize

    options = {"maxiter": STEPS, "maxfun": 2 * STEPS}
    bounds = [(0.0, 1.0)] * start.size
    end = minimize(distance, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(end.x, np.float64), float(end.fun)


def exact(wanted: list[Floats]) -> Floats:
    """The one image behind a gradient, shape ``(64,)``, from the hidden unit with the largest bias.

    It is cut to [0, 1], which changes nothing where there is such an image.
    """
    unit = int(np.abs(wanted[1]).argmax())
    factor = wanted[1][unit]
    image = wanted[0][:, unit] / factor if factor else np.full(PIXELS, GUESS)
    cut: Floats = np.clip(image, 0.0, 1.0)
    return cut


def _labels(layers: list[Floats], biases: Floats, images: int) -> NDArray[np.int64]:
    """The labels of a batch from the gradient of the last biases, the likeliest first."""
    blank = np.full((1, PIXELS), GUESS)
    expected = _forward(layers, blank)[2][0]
    missing = images * (expected - biases)
    found = []
    for _ in range(images):
        label = int(missing.argmax())
        found.append(label)
        missing[label] -= 1
    return np.array(found, np.int64)


def _forward(layers: list[Floats], pixels: Floats) -> tuple[Floats, Floats, Floats]:
    """Which hidden units are active, what they give, and the probabilities of the classes."""
    before = pixels @ layers[0] + layers[1]
    active = (before > 0).astype(np.float64)
    hidden = before * active
    scores = hidden @ layers[2] + layers[3]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return active, hidden, scores / scores.sum(axis=1, keepdims=True)


def _distance(
    pixels: Floats, layers: list[Floats], target: Floats, wanted: list[Floats], size: float
) -> tuple[float, Floats]:
    """The squared distance of the gradient of images from the wanted one, by ``size``; and its derivative.

    The gradient of the network is one pass forwards and one backwards; the derivative by the pixels goes
    back through both. Where a hidden unit becomes active it jumps, and counts as constant.
    """
    count = len(pixels)
    active, hidden, shares = _forward(layers, pixels)
    error = (shares - target) / count
    back = (error @ layers[2].T) * active
    first = pixels.T @ back - wanted[0]
    first_bias = back.sum(axis=0) - wanted[1]
    last = hidden.T @ error - wanted[2]
    last_bias = error.sum(axis=0) - wanted[3]
    value = sum(float((part**2).sum()) for part in (first, first_bias, last, last_bias)) / size

    by_back = (pixels @ first + first_bias) * active
    by_error = hidden @ last + last_bias + by_back @ layers[2]
    by_shares = by_error / count
    by_scores = shares * (by_shares - (shares * by_shares).sum(axis=1, keepdims=True))
    by_hidden = (error @ last.T + by_scores @ layers[2].T) * active
    by_pixels = back @ first.T + by_hidden @ layers[0].T
    return value, (2 / size * by_pixels).ravel()
