"""An estimator of scikit-learn as the vector of a job: linear models and perceptrons. Extra: ``sklearn``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from blindsum import checks
from blindsum.arrays import Vector
from blindsum.errors import ConfigError
from blindsum.layouts import DTYPES, Entry, HeldModel, Predicate, takes


class ModelVector(HeldModel):
    """The weights of an estimator, as one vector.

    ``coef_`` and ``intercept_`` of linear models, such as ``SGDClassifier``, ``LogisticRegression``,
    ``LinearRegression`` and ``Ridge``; ``coefs_`` and ``intercepts_`` of ``MLPClassifier`` and
    ``MLPRegressor``. An estimator that is not fitted yet gets them here: weights of 0 where it is linear, the
    random ones of its ``random_state`` where it is a perceptron.

    Parameters
    ----------
    estimator
        An estimator. Train it by ``partial_fit``, or by ``fit`` with ``warm_start=True``: ``fit`` alone
        forgets what was loaded.
    classes
        All classes of a classifier that is not fitted yet, also those that this party has no example of.
    n_features
        The number of features, for an estimator that is not fitted yet.
    parameters
        Which weights take part: ``"trainable"`` or ``"all"``, which is the same here; or a function of a name
        and an array.
    buffers
        ``"float"`` or ``"none"``: estimators have no buffers, so neither has an effect; it is there as in
        :class:`blindsum.torch.ModelVector`.

    Raises
    ------
    blindsum.ConfigError
        An estimator without such weights, as trees are; one that is not fitted, without ``n_features`` or
        ``classes``.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> vector = ModelVector(SGDClassifier(), classes=[0, 1, 2], n_features=4)
    >>> vector.layout
    ('coef_ float64 3x4', 'intercept_ float64 3')
    """

    def __init__(
        self,
        estimator: Any,
        *,
        classes: Sequence[Any] | None = None,
        n_features: int | None = None,
        parameters: Literal["trainable", "all"] | Predicate = "all",
        buffers: Literal["float", "none"] = "float",
    ) -> None:
        if buffers not in ("float", "none"):
            raise ConfigError("buffers", f"{buffers!r} must be 'float' or 'none'")
        is_linear = _is_linear(estimator)
        if not hasattr(estimator, "coef_" if is_linear else "coefs_"):
            _initialise(estimator, is_linear, classes, n_features)
        self._estimator = estimator
        self._homes: list[tuple[str, int | None]] = []
        entries = []
        for name, home, array in _weights(estimator, is_linear):
            if takes(parameters, name, array, True):
                if array.dtype.name not in DTYPES:
                    rule = f"{name} is of {array.dtype.name}, and must be of {', '.join(DTYPES)}"
                    raise ConfigError("estimator", f"{rule}: fit it on data of floats")
                self._homes.append(home)
                entries.append(Entry(name, array.dtype.name, array.shape))
        super().__init__(entries, "parameters=… must choose a weight")

    def _array(self, place: int) -> Any:
        """A weight as it is now."""
        attribute, index = self._homes[place]
        held = getattr(self._estimator, attribute)
        held = held if index is None else held[index]
        entry = self._entries[place]
        if np.shape(held) != entry.shape:
            rule = f"{entry.name} has the shape {np.shape(held)} now, had {entry.shape} before"
            raise ConfigError(
                "estimator", f"{rule}: train it by partial_fit, on data with the same features and classes"
            )
        return held

    def _write(self, place: int, values: Vector) -> None:
        held = self._array(place)
        if isinstance(held, np.ndarray) and held.flags.writeable:
            # In place: the optimiser of a perceptron holds the same arrays.
            held[...] = values.reshape(held.shape)
            return
        attribute, _ = self._homes[place]
        entry = self._entries[place]
        setattr(self._estimator, attribute, values.astype(entry.dtype).reshape(entry.shape)[()])

    def _read(self, place: int, into: Vector) -> None:
        into[...] = np.reshape(self._array(place), -1)


def _is_linear(estimator: Any) -> bool:
    """Whether it is a linear model; refuses what is none and no perceptron."""
    from sklearn.base import is_classifier, is_regressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    name = type(estimator).__name__
    if isinstance(estimator, type):
        raise ConfigError(
            "estimator", f"is the class {estimator.__name__}: give an estimator, {estimator.__name__}(…)"
        )
    if isinstance(estimator, (MLPClassifier, MLPRegressor)):
        return False
    if hasattr(estimator, "steps"):
        raise ConfigError("estimator", f"is a {name}: give its last step, and fit the others before the job")
    homes = [parent.__module__ for parent in type(estimator).__mro__]
    if not any(home.startswith(("sklearn.linear_model", "sklearn.svm._classes")) for home in homes):
        rule = (
            f"{name} has no weights that can be averaged: take a linear model, MLPClassifier or MLPRegressor"
        )
        raise ConfigError("estimator", rule)
    if isinstance(getattr(type(estimator), "coef_", None), property):
        # Machines with a kernel; where it is linear they compute weights that nobody can set.
        other = "LinearSVR or SGDRegressor" if is_regressor(estimator) else "a linear model"
        other = "LinearSVC or SGDClassifier" if is_classifier(estimator) else other
        rule = f"{name} has support vectors, which cannot be averaged: use {other}"
        raise ConfigError("estimator", rule)
    if name == "SGDOneClassSVM":
        rule = f"{name} has an offset_ in place of an intercept_, which has no place in a vector"
        raise ConfigError("estimator", f"{rule}: take another model")
    if "estimator" in estimator.get_params(deep=False):
        raise ConfigError("estimator", f"{name} has no weights of its own: give the linear model inside it")
    if getattr(estimator, "average", False):
        raise ConfigError(
            "estimator", f"{name} has average on, and a loaded model would be lost: turn it off"
        )
    return True


def _initialise(estimator: Any, is_linear: bool, classes: Sequence[Any] | None, features: int | None) -> None:
    """Give an estimator weights and what it needs to predict and to be trained further."""
    from sklearn.base import is_classifier

    name = type(estimator).__name__
    if features is None:
        rule = f"{name} is not fitted: say n_features=…, and classes=… of a classifier, or fit it first"
        raise ConfigError("n_features", rule)
    features = checks.setting("n_features", features, 1, 2**32)
    if name.startswith("MultiTask"):
        raise ConfigError("estimator", f"{name} has several outputs, and must be fitted first")
    labels = None
    if is_classifier(estimator):
        labels = np.unique(np.asarray(classes if classes is not None else []))
        if labels.size < 2:
            raise ConfigError("classes", f"{name} is not fitted: give all its classes, two at least")
    if hasattr(estimator, "partial_fit"):
        rows = np.zeros((2 if labels is None else labels.size, features))
        if labels is None:
            estimator.partial_fit(rows, np.zeros(len(rows)))
        else:
            estimator.partial_fit(rows, labels, classes=labels)
    elif not is_linear:
        raise ConfigError("estimator", f"{name} with solver = {estimator.solver!r} must be fitted first")
    else:
        outputs = () if labels is None else (1 if labels.size == 2 else labels.size,)
        if labels is not None:
            estimator.classes_ = labels
        estimator.coef_ = np.zeros((*outputs, features))
        estimator.intercept_ = np.zeros(outputs) if outputs else 0.0
        estimator.n_features_in_ = features
        _prepare(estimator, labels)
    if not is_linear:
        return
    # Whatever a step on nothing has made of them.
    estimator.coef_ = np.zeros_like(estimator.coef_)
    estimator.intercept_ = np.zeros_like(estimator.intercept_)[()]


def _prepare(estimator: Any, labels: Any) -> None:
    """Set what some linear estimators predict with, beside their weights, as their ``fit`` does."""
    from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
    from sklearn.preprocessing import LabelBinarizer

    if hasattr(estimator, "_get_loss"):
        # Generalised linear models: the loss has the link.
        estimator._base_loss = estimator._get_loss()
    if isinstance(estimator, (RidgeClassifier, RidgeClassifierCV)):
        estimator._label_binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(labels)


def _weights(estimator: Any, is_linear: bool) -> Iterator[tuple[str, tuple[str, int | None], Any]]:
    """Name, place and array of each weight that is learnt."""
    if not is_linear:
        for attribute in ("coefs_", "intercepts_"):
            for index, array in enumerate(getattr(estimator, attribute)):
                yield f"{attribute}.{index}", (attribute, index), array
        return
    yield "coef_", ("coef_", None), np.asarray(estimator.coef_)
    if getattr(estimator, "fit_intercept", True):
        yield "intercept_", ("intercept_", None), np.asarray(estimator.intercept_)
