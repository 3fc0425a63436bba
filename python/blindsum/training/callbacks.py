"""Functions of the caller's in a run: what they give, checked, and what becomes of their errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

from blindsum.errors import BlindsumError, InputError
from blindsum.rounds import Array
from blindsum.training.contribution import TrainingTurn
from blindsum.training.record import Evaluate


class Raised(Exception):
    """A function of the caller's raised.

    Attributes
    ----------
    cause : Exception
        What it raised.
    """

    def __init__(self, what: str, cause: Exception) -> None:
        super().__init__(f"{what} raised {type(cause).__name__}: {cause}")
        self.cause = cause

    def own_trace(self) -> str:
        """The traceback of the caller's own frames."""
        trace = self.cause.__traceback__
        # The first frame is that of `told`.
        own = None if trace is None else trace.tb_next
        return "".join(traceback.format_exception(type(self.cause), self.cause, own)).rstrip()


def told(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The same function, whose errors are :class:`Raised`, with party and round where it is given a turn."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BlindsumError:
            # It says what is wrong; of some the run goes on.
            raise
        except Exception as error:
            turns = [one for one in arguments if isinstance(one, TrainingTurn)]
            where = "".join(f" of {turn.party} in round {turn.number}" for turn in turns)
            raise Raised(f"{what}{where}", error) from error

    return call


def tested(evaluate: Evaluate, model: Array, version: int) -> dict[str, float]:
    """The numbers that the caller's function gives for a version of the model.

    Raises
    ------
    blindsum.InputError
        It gives no numbers by their names.
    """
    given: object = evaluate(model)
    what = f"what it gives for version {version} of the model"
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        rule = f"{what} must be numbers by their names, e.g. {{'accuracy': 0.9}}, not a {kind}"
        raise InputError("evaluate", rule)
    numbers = {}
    for name, value in given.items():
        if not isinstance(name, str):
            rule = f"{what}, {name!r}: is no text; give each number a name, as in {{'accuracy': 0.9}}"
            raise InputError("evaluate", rule)
        try:
            numbers[name] = float(value)
        except (TypeError, ValueError) as error:
            rule = f"{what}, {name}: {type(value).__name__} is no number; give a float"
            raise InputError("evaluate", rule) from error
    return numbers
