"""What each party of the demo runs: ``blindsum join … --train blindsum.demo.party:train``."""

from __future__ import annotations

import itertools
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.demo import network
from blindsum.demo.digits import Examples

SETTINGS = "BLINDSUM_DEMO"
"""Environment variable with this party's settings: JSON with ``rank``, ``seed``, ``data`` (file),
``weighted`` (whether an update weighs as much as there are examples), at the party that will be killed
``slow_round`` (of those it takes part in), and ``models`` (folder) at one that writes down the models that
the coordinator does not have."""

SLOW = 5.0
"""Seconds that the victim takes longer to train in its last round, so that the kill finds it between
sharing its keys and sending its update: the others must then rebuild its masks."""


def train(model: NDArray[np.float32], number: int) -> tuple[NDArray[np.float32], int]:
    """Train on this party's examples; gives the update and their number, or 1 where all weigh alike."""
    settings = _settings()
    examples = _examples()
    if "models" in settings:
        np.save(models_file(settings["models"], number), model)
    if settings.get("slow_round") == next(_trained):
        time.sleep(SLOW)
    seed = [settings["seed"], number, settings["rank"]]
    update = network.local_update(model, examples.images, examples.labels, seed)
    return update, len(examples) if settings["weighted"] else 1


def models_file(folder: str | Path, number: int) -> Path:
    """Where the model that a round starts from is written."""
    return Path(folder) / f"{number}.npy"


_trained = itertools.count(1)


@cache
def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(os.environ[SETTINGS])
    return settings


@cache
def _examples() -> Examples:
    return Examples.load(Path(_settings()["data"]))
