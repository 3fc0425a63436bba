"""What a party gives in a round of a training run, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from blindsum import checks
from blindsum.arrays import IntegerVector, Vector
from blindsum.errors import InputError
from blindsum.rounds import Array, checked_vector
from blindsum.spec import JobSpec
from blindsum.training_metrics import checked_metrics


class TrainingTurn(int):
    """The number of a round, with what else a party knows in it.

    Attributes
    ----------
    number : int
        The same number, from 1 on.
    party : str
        The name of the party.
    rank : int
        Its place among the parties, from 0 on.
    parameters : mapping
        The hyperparameters of the job.
    seed : int
        A seed of this party in this round, for its random numbers.
    """

    number: int
    party: str
    rank: int
    parameters: Mapping[str, Any]
    seed: int

    @classmethod
    def of(cls, number: int, party: str, rank: int, parameters: Mapping[str, Any], seed: int) -> Self:
        """The turn of a party in a round."""
        turn = cls(number)
        turn.number, turn.party, turn.rank = number, party, rank
        turn.parameters = parameters
        turn.seed = int(np.random.SeedSequence([seed, number, rank]).generate_state(1, np.uint64)[0])
        return turn


TrainStep: TypeAlias = Callable[[Array, Any, TrainingTurn], Any]
"""``step(model, data, turn)`` gives the update, or ``(update, weight)``, or ``(update, weight, metrics)``, or
``None`` where the party gives nothing in this round."""


@dataclass(frozen=True)
class Contribution:
    """What a party gives in a round.

    Attributes
    ----------
    vector : numpy.ndarray
        The update, checked.
    weight : int
        Its weight.
    metrics : mapping
        Values of metrics by name; what is missing was not reported.
    """

    vector: Vector | IntegerVector
    weight: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Nothing:
    """A party gives no update in a round.

    Attributes
    ----------
    why : str
        The reason, for people.
    """

    why: str


NO_DATA = Nothing("it has no data")
NO_UPDATE = Nothing("its training function gave no update, or weight 0")


def contribution(
    spec: JobSpec, given: Any, weight: int, whose: str = "the training step"
) -> Contribution | Nothing:
    """What a training step gave, checked.

    Parameters
    ----------
    spec
        The job.
    given
        What the step returned.
    weight
        The weight where the step gives none.
    whose
        Which step it is, for errors.

    Raises
    ------
    blindsum.InputError
        The step returned something else than :data:`TrainStep` says. An update that cannot be used, as one
        with NaN, is :class:`Nothing` with the reason: the party sits the round out, as in a job.
    """
    values = given if isinstance(given, tuple) else (given,)
    if len(values) > 3:
        raise InputError(
            whose,
            f"returned a tuple of {len(values)} values; it must return the update, "
            "(update, weight), (update, weight, metrics), or None to sit the round out",
        )
    update = values[0] if values else None
    own_weight = values[1] if len(values) > 1 and values[1] is not None else weight
    metrics = values[2] if len(values) > 2 else {}
    if update is None or checks.count(own_weight) == 0:
        return NO_UPDATE
    try:
        vector, whole = checked_vector(spec, update), checks.weight("weight", own_weight, spec)
        if isinstance(vector, np.ndarray) and vector.dtype.kind == "f" and not np.isfinite(vector).all():
            return Nothing("its update is not finite")
    except InputError as error:
        return Nothing(f"its update cannot be used: {error}")
    return Contribution(vector, whole, checked_metrics(spec, metrics, f"{whose}: metrics"))
