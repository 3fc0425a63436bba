"""A training step that a script can repeat: the update follows from the party's name and the model alone."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from typing import Any


def update(name: str, model: Sequence[float], heavy: int) -> tuple[list[float], int]:
    """The update of a party, with values beyond the clip of 1, and its weight from 1 to `heavy`."""
    if not model:  # a job with model_update none has no model
        model = [0.0] * int(os.environ["DIM"])
    seed = hashlib.sha256(name.encode()).digest()
    values = []
    for at, value in enumerate(model):
        spread = (seed[at % 32] * 257 + at * 7919) % 2003 / 800 - 1.25
        values.append(spread - 0.25 * value)
    return values, 1 + seed[0] % heavy


def step(model: Any, round: Any) -> tuple[Any, int]:
    time.sleep(float(os.environ.get("SLOW", "0")))
    made, weight = update(os.environ["PARTY"], [float(value) for value in model], int(os.environ["HEAVY"]))
    try:
        import numpy  # type: ignore[import-not-found]
    except ImportError:
        return made, weight
    return numpy.array(made, dtype=numpy.float64), weight
