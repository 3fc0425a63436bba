"""What a demonstration shows: training with Blindsum, and plain FedAvg beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Compared(Protocol):
    """A round of both."""

    @property
    def accuracy(self) -> float:
        """Of the model after it, with Blindsum."""

    @property
    def plain_accuracy(self) -> float:
        """Of the model after it, with plain FedAvg."""


Asked = TypeVar("Asked")
OneRound = TypeVar("OneRound", bound=Compared)


@dataclass(frozen=True)
class Comparison(Generic[Asked, OneRound]):
    """What the demonstration showed.

    Attributes
    ----------
    settings : Settings
        What was asked for.
    examples : list of int
        Training examples of each party.
    weighted : bool
        Whether an update weighs as much as its party has examples; some protocols let all weigh alike.
    rounds : list
        What happened.
    bound : float
        What quantisation may cost in the ``deviation`` of a round.
    seconds : float
        Of all of it.
    problems : list of str
        What was not as promised.
    """

    settings: Asked
    examples: list[int]
    weighted: bool
    rounds: list[OneRound]
    bound: float
    seconds: float
    problems: list[str] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """Of the final model."""
        return self.rounds[-1].accuracy

    @property
    def plain_accuracy(self) -> float:
        """Of plain FedAvg."""
        return self.rounds[-1].plain_accuracy
