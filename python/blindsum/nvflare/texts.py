"""Keys that both sides of a job of NVFlare share."""

from __future__ import annotations

RECORD = "blindsum"
"""The header of a task, and the entry in the meta data of a result, that are Blindsum's."""

MEAN = "mean"
"""A site's result is the mean, which the server averages."""

HASH = "hash"
"""A site's result is the name of the sum, which the server has from its coordinator."""

TRAIN = "train"
"""The name of the task of training in NVFlare's workflows."""
