"""A training run as a file describes it: the model, the data, the training function and the job.

    [training]
    net = "mymodel:Net"            # makes the network, or what blindsum.sklearn and blindsum.jax take
    data = "mydata:parts"          # parts(parties, seed) gives one item for each party
    train = "mymodel:train"        # train(net, data, **parameters); may give metrics, by name
    test = "mymodel:test"          # test(net) gives numbers by name, such as the accuracy on test data

    [job]
    protocol = "secagg+"
    parties = 10
    rounds = 20

    [job.parameters]
    learning_rate = 0.1

In place of ``net`` and ``train``, ``step = "mymodel:step"`` names a function of arrays,
``step(model, data, turn)``, and ``model = "model.npy"`` the model that it starts from.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from blindsum import checks, os_errors, texts
from blindsum.cli.training import imported
from blindsum.errors import ConfigError
from blindsum.layouts import HeldModel, ModelLayout
from blindsum.libraries import vector_of
from blindsum.options import Plateau
from blindsum.rounds import Array
from blindsum.spec import CHOICES, JobSpec
from blindsum.training.contribution import TrainingTurn, TrainStep

FIELDS = ("net", "data", "train", "test", "step", "model", "evaluate", "seed", "drop", "latency", "compute")
"""Fields of ``[training]``."""


@dataclass(frozen=True)
class Description:
    """A run, as its file describes it.

    Attributes
    ----------
    spec : JobSpec
        The job; where a network is named, with its ``dim`` and ``layout``.
    step : callable
        The training function of a party.
    parts : list
        What each party has.
    model : numpy.ndarray or None
        The model that the job starts from.
    evaluate : callable or None
        Is given a model and gives numbers by name.
    settings : mapping
        ``seed``, ``drop``, ``latency``, ``compute``: arguments of :func:`blindsum.simulate_training`.
    """

    spec: JobSpec
    step: TrainStep
    parts: list[Any]
    model: Array | None
    evaluate: Callable[[Array], Mapping[str, float]] | None
    settings: Mapping[str, Any]


def described(path: str, changes: Sequence[tuple[str, str]] = ()) -> Description:
    """Read the description of a run.

    Parameters
    ----------
    path
        The file, TOML in UTF-8. Modules are looked for beside it, in this folder and on ``PYTHONPATH``.
    changes
        Fields and options of the job in place of those of the file, as flat settings.

    Raises
    ------
    blindsum.ConfigError
        It cannot be read, a field is missing or unknown, or a module or function is not there.
    blindsum.SpecError
        The job breaks a rule.
    """
    table, job = _tables(path)
    source = _Source(table, Path(path).resolve().parent)
    seed = checks.setting("training.seed", table.get("seed", 0), 0, checks.SEEDS)
    if "net" in table:
        net, vector = _network(source.function("net")())
        job.setdefault("layout", list(vector.layout))
        step = step_of(net, source.function("train"), vector)
        model: Array | None = vector.values()
        evaluate = _evaluation(net, vector, source.function("test")) if "test" in table else None
    else:
        step, model = source.function("step"), source.model()
        evaluate = source.function("evaluate") if "evaluate" in table else None
    spec = JobSpec.from_settings([*_flat(job, [name for name, _ in changes]), *changes])
    if "net" in table and spec.initial == "zeros":
        # Such a job begins with zeros whatever the network holds.
        model = None
    parts = list(source.function("data")(spec.parties, seed))
    settings: dict[str, Any] = {name: table[name] for name in ("drop", "latency", "compute") if name in table}
    return Description(spec, step, parts, model, evaluate, {**settings, "seed": seed})


class _Source:
    """What a file names: functions of modules, and files beside it."""

    def __init__(self, table: Mapping[str, Any], folder: Path) -> None:
        self._table, self._folder = table, folder

    def function(self, name: str) -> Callable[..., Any]:
        """The function that a field names.

        Raises
        ------
        blindsum.ConfigError
            The field is missing, or there is no such function.
        """
        if name not in self._table:
            instead = {"train": " beside net", "step": "; or name a net and train"}.get(name, "")
            raise ConfigError(f"training.{name}", f"is missing: name MODULE:FUNCTION{instead}")
        return imported(f"training.{name}", _text(self._table, name), self._folder)

    def model(self) -> Array | None:
        """The model that the job starts from: of a file .npy, or of a function."""
        if "model" not in self._table:
            return None
        text = _text(self._table, "model")
        if not text.endswith(".npy"):
            made: Array = self.function("model")()
            return made
        try:
            found: Array = np.load(self._folder / text, allow_pickle=False)
        except OSError as error:
            raise ConfigError("training.model", f"{text} {os_errors.unreadable(error)}") from error
        except ValueError as error:
            rule = f"{text} cannot be used: {error}; give a file of numpy.save"
            raise ConfigError("training.model", rule) from error
        return found


def step_of(net: Any, train: Callable[..., Any], vector: Any = None) -> TrainStep:
    """The training step of a network, for :func:`blindsum.simulate_training`: load, train, give the change.

    Parameters
    ----------
    net
        A network of PyTorch, an estimator of scikit-learn, or a tree of JAX.
    train
        ``train(net, data, **parameters)``: it changes the network where it is, and gives ``None`` or metrics
        by name. For JAX it gives the new tree, or the tree and metrics. Where it has an argument ``turn`` it
        is given the :class:`TrainingTurn`, with a seed.
    vector
        The ``ModelVector`` of the network, where it is not the usual one.
    """
    vector = vector_of(net) if vector is None else vector
    takes_turn = "turn" in inspect.signature(train).parameters

    def step(model: Array, data: Any, turn: TrainingTurn) -> Any:
        loaded = vector.load(model)
        more = {"turn": turn} if takes_turn else {}
        if isinstance(vector, HeldModel):
            metrics = train(net, data, **turn.parameters, **more)
            return vector.change(), None, metrics or {}
        given = train(loaded, data, **turn.parameters, **more)
        has_metrics = isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)
        tree, metrics = given if has_metrics else (given, {})
        return vector.change(tree), None, metrics

    return step


def _network(made: Any) -> tuple[Any, Any]:
    """A network and its vector, from what the function of ``net`` gave: the network, or both."""
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], ModelLayout):
        return made
    return made, vector_of(made)


def _evaluation(net: Any, vector: Any, test: Callable[..., Any]) -> Callable[[Array], Mapping[str, float]]:
    def evaluate(model: Array) -> Mapping[str, float]:
        loaded = vector.load(model)
        found: Mapping[str, float] = test(net if isinstance(vector, HeldModel) else loaded)
        return found

    return evaluate


def _tables(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tables ``training`` and ``job`` of a file."""
    try:
        whole = tomllib.loads(texts.read(path))
    except OSError as error:
        raise ConfigError("FILE", f"{path} {os_errors.unreadable(error)}") from error
    except ValueError as error:
        raise ConfigError("FILE", f"{path}: {error}") from error
    for name in ("training", "job"):
        if not isinstance(whole.get(name), dict):
            raise ConfigError("FILE", f"{path} has no table [{name}]: see blindsum train --help")
    for name in whole:
        if name not in ("training", "job"):
            raise ConfigError("FILE", f"{path}: {name!r} is unknown: there are [training] and [job]")
    for name in whole["training"]:
        if name not in FIELDS:
            raise ConfigError(f"training.{name}", f"is unknown: there are {', '.join(FIELDS)}")
    return whole["training"], whole["job"]


def _flat(job: Mapping[str, Any], changed: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The fields of a job and the options of its tables; a table whose name is changed brings none."""
    for field, value in job.items():
        if field not in CHOICES or not isinstance(value, Mapping):
            yield field, value
        elif field not in changed:
            # A table of stop without a name is one of plateau.
            name = value.get("name", Plateau.name if field == "stop" else None)
            if name is not None:
                yield field, name
            yield from ((name, option) for name, option in value.items() if name != "name")


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table[name]
    if not isinstance(value, str):
        raise ConfigError(f"training.{name}", f"{value!r} must be text: MODULE:FUNCTION")
    return value
