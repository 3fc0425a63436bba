"""What each party of the demo runs: ``blindsum join … --train blindsum.demo.party:train``."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.demo import network
from blindsum.demo.digits import Examples

SETTINGS = "BLINDSUM_DEMO"
"""Environment variable with this party's settings: JSON with ``rank``, ``seed``, ``data`` (file)
and, at one party, ``record`` (a folder for the models it is given)."""


def train(model: NDArray[np.float32], number: int) -> tuple[NDArray[np.float32], int]:
    """Train on this party's examples; gives the update and their number."""
    settings = _settings()
    examples = _examples()
    if "record" in settings:
        np.save(Path(settings["record"]) / f"{number:04}.npy", model)
    seed = [settings["seed"], number, settings["rank"]]
    return network.local_update(model, examples.images, examples.labels, seed), len(examples)


@cache
def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(os.environ[SETTINGS])
    return settings


@cache
def _examples() -> Examples:
    return Examples.load(Path(_settings()["data"]))
