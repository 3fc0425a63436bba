"""The files of ``examples/`` as help quotes them."""

from __future__ import annotations

import textwrap

JOB = """\
job = "tumour"
protocol = "secagg+"
parties = 10        # in a round, at most
min_parties = 3     # in a round, at least; no sum of fewer is opened
join_deadline = 5   # seconds for which the first round waits for more once min_parties are connected
dim = 1000          # coordinates of the model
rounds = 10

[encoding]
name = "quantised"
clip = 1.0          # larger values of an update are cut off, and the party's log reports it
max_weight = 10000  # a party may have the weight of 10000 others, e.g. its number of examples
"""

TRAINING = '''\
"""What a party runs: blindsum join --train training:step."""

import numpy as np

data = np.random.default_rng().normal(0.25, 0.1, size=(250, 1000))  # yours


def unweighted(model, round):
    """Return the update alone, as in jobs with a rule."""
    return 0.5 * (data.mean(axis=0) - model)  # your training; model is a read-only array of floats


def step(model, round):
    """Return (update, weight)."""
    return unweighted(model, round), len(data)  # the weight: 1 to the job's max_weight
'''

FILES = {"job.toml": JOB, "training.py": TRAINING}


def example(name: str) -> str:
    """A file of ``examples/``, indented."""
    return textwrap.indent(FILES[name], "  ").rstrip()
