"""Texts for models that guess the next character, and the text that comes with Python itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.errors import BlindsumError
from blindsum.learning.dataset import Dataset

LENGTH = 80
"""Characters of an example; the one behind them is its label."""
STEP = 8
"""From the beginning of one example to that of the next."""

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
NAMES = (*ALPHABET, "other")
"""Each character that has a number of its own; all others have the last number."""


def coded(text: str) -> NDArray[np.int64]:
    """The number of each character."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    other = len(ALPHABET)
    return np.where((points >= 32) & (points < 127), points - 31, np.where(points == 10, 0, other))


def read_topics(part: str) -> Dataset:
    """Cut the topics of Python's own help into examples; the users are the topics.

    Of each topic the first four fifths are for training, the rest is for the test. The text differs between
    versions of Python.

    Raises
    ------
    blindsum.BlindsumError
        This Python comes without its help.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise BlindsumError(
            "python-topics: this Python has no module pydoc_data: install all of Python's standard library"
        ) from error
    features, labels, users = [], [], []
    for topic, text in sorted(topics.items()):
        cut = len(text) * 4 // 5
        own = windows(text[:cut] if part == "train" else text[cut:])
        features.append(own[:, :LENGTH])
        labels.append(own[:, LENGTH])
        users += [topic] * len(own)
    return Dataset(np.concatenate(features), np.concatenate(labels), np.array(users), NAMES)


def windows(text: str) -> NDArray[Any]:
    """Every example of a text with its label behind it, shape ``(n, LENGTH + 1)``."""
    codes = coded(text)
    if len(codes) <= LENGTH:
        return np.empty((0, LENGTH + 1), dtype=np.int64)
    return np.lib.stride_tricks.sliding_window_view(codes, LENGTH + 1)[::STEP]
