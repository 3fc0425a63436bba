"""The vector of a model, by the library that the model is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blindsum.layouts import ModelLayout


def vector_of(model: Any) -> ModelLayout:
    """The ``ModelVector`` of a network of PyTorch, an estimator of scikit-learn, or a tree of JAX.

    Raises
    ------
    blindsum.ConfigError
        It has nothing that takes part in a job.
    """
    from blindsum.layouts import ModelLayout

    homes = {parent.__module__.partition(".")[0] for parent in type(model).__mro__}
    if isinstance(model, ModelLayout):
        return model
    if "torch" in homes:
        from blindsum.torch import ModelVector as OfTorch

        return OfTorch(model)
    if "sklearn" in homes:
        from blindsum.sklearn import ModelVector as OfSklearn

        return OfSklearn(model)
    from blindsum.jax import ModelVector as OfJax

    return OfJax(model)
