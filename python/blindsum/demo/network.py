"""A small network in plain numpy: 64 inputs, one hidden layer, 10 classes, trained by SGD."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Number = TypeVar("Number", bound=np.floating[Any])

HIDDEN = 32
SHAPES = ((64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,))
DIM = sum(int(np.prod(shape)) for shape in SHAPES)

LEARNING_RATE = 0.3
LOCAL_EPOCHS = 3
BATCH = 16


def initial_model(seed: int) -> Array:
    """Weights to start from (He initialisation), shape ``(DIM,)``."""
    rng = np.random.default_rng([seed, 0])
    parts = [
        rng.normal(0.0, np.sqrt(2 / shape[0]), shape) if len(shape) > 1 else np.zeros(shape)
        for shape in SHAPES
    ]
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def accuracy(model: Array, images: Array, labels: NDArray[np.int64]) -> float:
    """Fraction of images, shape ``(n, 64)``, that are classified rightly."""
    _, logits = _forward(layers_of(model), images)
    return float((logits.argmax(axis=1) == labels).mean())


def local_update(model: Array, images: Array, labels: NDArray[np.int64], seed: list[int]) -> Array:
    """Train on a party's data; gives the difference to ``model``, shape ``(DIM,)``."""
    trained = np.array(model, dtype=np.float32)
    rng = np.random.default_rng(seed)
    for _ in range(LOCAL_EPOCHS):
        batches = max(1, len(images) // BATCH)
        for batch in np.array_split(rng.permutation(len(images)), batches):
            trained -= np.float32(LEARNING_RATE) * gradient(trained, images[batch], labels[batch])
    return trained - model


def gradient(model: Array, images: Array, labels: NDArray[np.int64]) -> Array:
    """The gradient of the mean cross-entropy of images, shape ``(n, 64)``; shape ``(DIM,)``."""
    layers = layers_of(model)
    hidden, logits = _forward(layers, images)
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = scores / scores.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    back = (error @ layers[2].T) * (hidden > 0)
    parts = (images.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0))
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def _forward(layers: list[Array], images: Array) -> tuple[Array, Array]:
    hidden = np.maximum(images @ layers[0] + layers[1], 0)
    return hidden, hidden @ layers[2] + layers[3]


def layers_of(model: NDArray[Number]) -> list[NDArray[Number]]:
    """The weights of a model by layer, of the shapes in :data:`SHAPES`; they share its memory."""
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])
    parts = np.split(model, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]
