"""The model that a job begins with, checked where it is given: at the coordinator, or at a party."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from blindsum import _native
from blindsum.arrays import Vector, as_vector, is_mapping
from blindsum.errors import InputError
from blindsum.options import Quantised
from blindsum.rounds import Array
from blindsum.spec import JobSpec
from blindsum.whole_models import MIN_NETWORK

logger = logging.getLogger("blindsum")

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
        No vector of ``dim`` floats, a number that is not finite or beyond the range of the job's models, or a
        job that does not take its first model from the coordinator.
    """
    if spec.initial != "coordinator":
        rule = f'the job has initial = "{spec.initial}"'
        raise InputError(what, f'{rule}; give no model, or set initial = "coordinator" in the job')
    start = as_vector(model, spec.dim, what)
    if (index := _native.first_not_finite(start)) is not None:
        raise InputError(what, f"coordinate {index} is not a finite number", index)
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
            raise InputError(what, f"{rule}; {advice}", index)
    return start


def initial_of(initial: object) -> Vector | None:
    """Give the model that a party can give as a vector; the job that it joins is not known yet.

    Parameters
    ----------
    initial
        An array, something with ``.values()`` that gives one, or a function that gives either; ``None`` for
        a party that gives none. A function is called once.

    Raises
    ------
    blindsum.InputError
        No vector of floats, or a number that is not finite.
    """
    if initial is None:
        return None
    given: Any = initial
    if callable(given) and not hasattr(given, "values"):
        given = given()
    if callable(getattr(given, "values", None)) and not is_mapping(given):
        given = given.values()
    vector = as_vector(given, None, "initial")
    if (index := _native.first_not_finite(vector)) is not None:
        raise InputError("initial", f"coordinate {index} is not a finite number", index)
    return vector


class ZerosLog:
    """Warns once if the first model of a job is all zeros: networks do not learn from there."""

    def __init__(self, spec: JobSpec) -> None:
        # Where the job says zeros they are meant.
        is_meant = spec.model_update == "none" or spec.initial == "zeros"
        self._looks = not is_meant and spec.dim >= MIN_NETWORK
        self._job = spec.job

    def look_at(self, number: int, version: int, model: Array | Callable[[], Array]) -> None:
        """Look at the first model that this party gets; a function is asked only if it matters."""
        looks, self._looks = self._looks, False
        if not looks or version > 0 or (model() if callable(model) else model).any():
            return
        logger.warning(
            "job %r, round %d: the model that the job starts from is all zeros. A linear model can learn "
            "from zeros, a network with hidden layers does not. Start the coordinator with another model: "
            "blindsum serve --model FILE, or Coordinator(model=...), or a job with initial = 'first-party'; "
            "initial = 'zeros' declares zeros as intended",
            self._job,
            number,
        )
