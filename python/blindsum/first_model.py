"""The model that a job begins with, checked where it is given."""

from __future__ import annotations

import numpy as np

from blindsum import _native
from blindsum.arrays import Vector, as_vector
from blindsum.errors import InputError
from blindsum.options import Quantised
from blindsum.spec import JobSpec

SINGLE_BITS = 24
"""Bits that a value has at most where models are float32."""


def first_model(model: object, spec: JobSpec, what: str = "model") -> Vector:
    """Give the model that a job begins with as a vector. The core rounds it to the precision of the job.

    Parameters
    ----------
    model
        ``dim`` floats.
    spec
        The job.
    what
        What the caller calls it, for error messages.

    Raises
    ------
    blindsum.InputError
        No vector of ``dim`` floats, or a number that is not finite or beyond the range of the job's models.
    """
    start = as_vector(model, spec.dim, what)
    if (index := _native.first_not_finite(start)) is not None:
        raise InputError(f"{what}: coordinate {index} is not a finite number", index)
    is_single = isinstance(spec.encoding, Quantised) and spec.encoding.bits <= SINGLE_BITS
    if is_single and start.dtype == np.float64:
        with np.errstate(over="ignore", under="ignore"):
            beyond = np.isinf(start.astype(np.float32))
        if beyond.any():
            index = int(np.argmax(beyond))
            rule = f"coordinate {index}, {start[index]:g}, is beyond the range of float32"
            advice = (
                f"scale the model, or give the job more than {SINGLE_BITS} bits, whose models are float64"
            )
            raise InputError(f"{what}: {rule}; {advice}", index)
    return start
