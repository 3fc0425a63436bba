"""Where a coordinate is in the model of a job, for errors."""

from __future__ import annotations

import math

import numpy as np

from blindsum.errors import InputError
from blindsum.spec import JobSpec

ADVICE = "lower the learning rate or clip gradients, or sit the round out"
"""What helps where training gives numbers that are not finite."""


def place_of(spec: JobSpec, index: int) -> str | None:
    """The tensor of a coordinate with the place in it; ``None`` where the job names no tensors."""
    before = 0
    for line in spec.layout:
        name, _, text = line.rsplit(" ", 2)
        shape = tuple(map(int, text.split("x")))
        if index < before + math.prod(shape):
            return f"{name}{[int(one) for one in np.unravel_index(index - before, shape)]}"
        before += math.prod(shape)
    for tensor in getattr(spec.encoding, "tensors", None) or ():
        if tensor.name and before <= index < before + tensor.len:
            return f"{tensor.name}[{index - before}]"
        before += tensor.len
    return None


def placed(error: InputError, spec: JobSpec) -> InputError:
    """The error, with the tensor of its coordinate and the remedy.

    The core gives an index only for a value that is not finite.

    Parameters
    ----------
    error
        The error of the core.
    spec
        The job.
    """
    if error.index is None:
        return error
    place = place_of(spec, error.index)
    where = f" ({place})" if place is not None else ""
    return InputError(error.field, f"{error.rule}{where}; {ADVICE}", error.index)
