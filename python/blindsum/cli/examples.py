"""The files of ``examples/`` as help quotes them."""

from __future__ import annotations

import textwrap

JOB = """\
job = "tumour"
protocol = "secagg+"
parties = 20        # at most; a round runs with fewer where some are missing
dim = 1000          # coordinates of the model
rounds = 50
clip = 1.0          # what an update has beyond it is cut off, and the party is told
max_weight = 10000  # a party may weigh as much as 10000 others, e.g. by its number of examples
"""

TRAINING = '''\
"""What a party runs: blindsum join --train training:step."""

import numpy as np

data = np.random.default_rng().normal(0.25, 0.1, size=(250, 1000))  # yours


def step(model, round):
    """Return the update, or (update, weight)."""
    update = 0.5 * (data.mean(axis=0) - model)  # your training; model is a read-only float32 array
    return update, len(data)  # the weight: 1 to the job's max_weight
'''

FILES = {"job.toml": JOB, "training.py": TRAINING}


def example(name: str) -> str:
    """A file of ``examples/``, indented."""
    return textwrap.indent(FILES[name], "  ").rstrip()
