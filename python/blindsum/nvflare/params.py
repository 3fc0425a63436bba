"""The parameters of a model of NVFlare as one vector; weights and metrics of a result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.arrays import Vector
from blindsum.checks import MAX_WEIGHT, count, in_words
from blindsum.errors import ConfigError, InputError
from blindsum.named_arrays import NamedArrays, Part, dtype_name, values_of
from blindsum.nvflare.texts import RECORD
from blindsum.told_once import warn_once

STEPS = "NUM_STEPS_CURRENT_ROUND"
"""NVFlare's key for the weight of a result, in the meta data."""

METRICS = "initial_metrics"
"""NVFlare's key for the metrics of a result with weights, in the meta data."""


class Params(NamedArrays):
    """The parameters that the server sent: names and NumPy arrays, or numbers.

    Raises
    ------
    blindsum.ConfigError
        No dictionary of names and arrays; ``field`` is ``"arrays"``. Or a tensor, whose error names NVFlare's
        setting.
    """

    sent = "task"
    replied = "result"

    def __init__(self, params: Any) -> None:
        if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
            rule = f"is a {type(params).__name__}, and a model must be a dictionary of names and arrays"
            raise ConfigError("arrays", rule)
        super().__init__(params)

    def full(self, mean: Vector) -> dict[str, Any]:
        """The parameters plus a mean, each rounded to its own element type."""
        return self._moved(mean)

    def diff(self, mean: Vector) -> dict[str, Any]:
        """A mean with the names and shapes of the parameters; without those that stay."""
        return self._changes(mean)

    def unchanged(self, *, is_diff: bool) -> dict[str, Any]:
        """What leaves the server's model as it is."""
        zeros: Vector = np.zeros(self.dim, np.float64)
        return self.diff(zeros) if is_diff else dict(self._arrays.items())

    def _dtype_of(self, name: str, array: Any) -> str:
        return dtype_name(name, _as_array(name, array).dtype)

    def _shape_of(self, array: Any) -> tuple[int, ...]:
        return tuple(np.shape(array))

    def _values_of(self, name: str, array: Any) -> NDArray[np.float64]:
        return values_of(name, _as_array(name, array), self.replied)

    def _array_of(self, values: NDArray[np.float64], part: Part) -> Any:
        return np.asarray(values.reshape(part.shape), np.dtype(part.dtype))


def _as_array(name: str, value: Any) -> NDArray[Any]:
    """A parameter as NumPy's array; numbers are arrays without dimensions."""
    if isinstance(value, np.ndarray | np.generic | int | float):
        return np.asarray(value)
    kind = f"{type(value).__module__}.{type(value).__name__}"
    raise ConfigError(
        f"arrays[{name!r}]",
        f"is a {kind}, and must be an array of NumPy where it leaves the site: set "
        "server_expected_format=ExchangeFormat.NUMPY in the recipe, or convert it",
    )


HEADERS = "__headers__"
"""NVFlare's key for the headers of a task."""

RESERVED = "__"
"""What the names of headers begin with that NVFlare itself sets, for each site."""


SAME = {"task_name": "__task_name__"}
"""Headers that a site sees besides those of the server, by the names of these."""


def content_of(task: Mapping[str, Any]) -> list[object]:
    """What a site trains on: all of a task, as rounds are bound to it (``about``).

    Headers that NVFlare sets for each site, and Blindsum's own, are not in it.

    Raises
    ------
    blindsum.ConfigError
        Something in it is neither a number, a text, an array nor a list or dictionary of these.
    """
    entries = {name: value for name, value in task.items() if name != HEADERS}
    given = task.get(HEADERS) or {}
    headers = {
        name: value
        for name, value in given.items()
        if not str(name).startswith(RESERVED) and name not in (RECORD, *SAME)
    }
    # On its way to a site a task gets some of its headers by a second name.
    headers |= {kept: given.get(kept) for kept in SAME.values()}
    headers |= {
        name: given[name] for name, kept in SAME.items() if given.get(name) not in (None, given.get(kept))
    }
    return ["task", *_plain("task", entries), *_plain("headers", headers)]


def _plain(where: str, value: Any) -> Iterator[object]:
    """A value as texts and arrays, the same on both sides of a connection."""
    match value:
        case Mapping():
            yield f"{where}: {len(value)} entries"
            for name in sorted(value, key=str):
                yield from _plain(f"{where}[{name!r}]", value[name])
        case list() | tuple():
            yield f"{where}: {len(value)} values"
            for place, one in enumerate(value):
                yield from _plain(f"{where}[{place}]", one)
        case np.ndarray() | np.generic():
            yield from (where, np.asarray(value))
        case None | bool() | int() | float() | str() | bytes():
            yield f"{where}: {value!r}"
        case _:
            kind = f"{type(value).__module__}.{type(value).__name__}"
            raise ConfigError(
                where,
                f"is a {kind} in the task, and sites must be sure that all of them got the same: send "
                "numbers, texts, and arrays of NumPy",
            )


def weight_of(meta: Mapping[str, Any], most: int | None = None) -> int:
    """The weight of a result: its number of steps or examples. Without one it is 1, as in NVFlare.

    Parameters
    ----------
    meta
        The meta data of the result.
    most
        The largest weight of the job.

    Raises
    ------
    blindsum.InputError
        No whole number of 0 or more, or above ``most``. ``12.0`` is one, ``12.5`` is not.
    """
    value = meta.get(STEPS)
    if value is None:
        warn_once("weight", "results have no %s: each site weighs 1; give it in the model's meta", STEPS)
        return 1
    whole = count(value)
    if whole is None or not 0 <= whole <= MAX_WEIGHT:
        raise InputError(
            f"meta[{STEPS!r}]",
            f"{in_words(value)} is no whole number from 0 to {MAX_WEIGHT}; give the number "
            f"of examples or steps, e.g. FLModel(…, meta={{{STEPS!r}: len(trainset)}})",
        )
    if most is not None and whole > most:
        raise InputError(
            f"meta[{STEPS!r}]",
            f"{whole} is more than max_weight = {most}, the most steps or examples of a "
            f"site: set max_weight = {whole} or more in SecureAggregator, or in the job of the permanent "
            "coordinator",
        )
    return whole


def metrics_of(metrics: Mapping[str, Any] | None, declared: Iterable[str]) -> dict[str, float]:
    """The metrics of a result that the job sums. The log names the others, which stay at the site.

    Raises
    ------
    blindsum.InputError
        A declared metric that is no finite number.
    """
    names = set(declared)
    given = dict(metrics or {})
    found = dict[str, float]()
    for name in sorted(names & set(given)):
        value = given[name]
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise InputError(
                f"metrics[{name!r}]", f"{value!r} is no finite number; give one, or leave it out"
            )
        found[name] = float(value)
    if further := sorted(set(given) - names):
        warn_once(
            f"metrics {further}",
            "metrics stay at this site, as the job does not declare them: %s; declare them in metrics of "
            "SecureAggregator or of the job",
            ", ".join(further),
        )
    return found
