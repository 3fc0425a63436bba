"""Models of JAX and scikit-learn as vectors, and layouts. PyTorch's are in torch_real.py, by `make torch`."""

import hashlib

import jax
import jax.numpy as jnp
import models_example
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    RANSACRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import blindsum as bs
from blindsum import jax as bs_jax
from blindsum import layouts
from blindsum import sklearn as bs_sklearn


def tree():
    return {
        "params": {
            "dense": {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3, jnp.bfloat16)},
            "layers": [jnp.full((2,), 0.5, jnp.float16), None, jnp.array(2.0)],
        },
        "step": jnp.array(7),
        "key": jax.random.key(1),
        "empty": jnp.zeros((0, 4)),
        "name": "net",
    }


LAYOUT = (
    "params.dense.bias bfloat16 3",
    "params.dense.kernel float32 2x3",
    "params.layers.0 float16 2",
    "params.layers.2 float32 1",
)


def test_a_pytree_is_a_vector_and_a_tree_again():
    vector = bs_jax.ModelVector(tree())
    assert vector.layout == LAYOUT
    assert vector.dim == 12
    assert vector.layout_hash == hashlib.sha256("".join(f"{line}\n" for line in LAYOUT).encode()).hexdigest()
    assert vector.values(tree()).tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 0.5, 0.5, 2]
    loaded = vector.load(np.arange(12, dtype=np.float32))
    assert loaded["params"]["dense"]["bias"].dtype == jnp.bfloat16
    assert loaded["params"]["dense"]["kernel"].tolist() == [[3, 4, 5], [6, 7, 8]]
    assert loaded["params"]["layers"][2].shape == ()
    assert (int(loaded["step"]), loaded["name"], loaded["params"]["layers"][1]) == (7, "net", None)
    trained = jax.tree_util.tree_map(
        lambda leaf: leaf + 1 if getattr(leaf, "dtype", None) in (jnp.float32, jnp.float16) else leaf, loaded
    )
    assert vector.change(trained).tolist() == [0, 0, 0, *[1] * 9]
    # The tree that was given is as it was.
    assert tree()["params"]["dense"]["kernel"].tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_model_that_was_not_trained_has_no_change_in_whatever_precision():
    vector = bs_jax.ModelVector(tree())
    loaded = vector.load(np.linspace(0.1, 0.9, 12))
    assert not vector.change(loaded).any()


def test_the_model_of_the_job_is_not_the_memory_of_a_tree():
    vector, model = bs_jax.ModelVector({"w": jnp.zeros(4)}), np.ones(4, np.float32)
    loaded = vector.load(model)
    model[:] = 9
    assert loaded["w"].tolist() == [1, 1, 1, 1]
    assert vector.change(loaded).tolist() == [0, 0, 0, 0]


def test_a_predicate_chooses_arrays_and_numpy_arrays_stay_numpy():
    vector = bs_jax.ModelVector(
        {"a": np.ones(2), "b": np.ones(3, np.float32)}, parameters=lambda name, array: name == "a"
    )
    assert vector.layout == ("a float64 2",)
    loaded = vector.load(np.array([0.25, 0.5]))
    assert isinstance(loaded["a"], np.ndarray)
    assert vector.values(loaded).dtype == np.float64


@pytest.mark.parametrize(
    ("given", "field", "text"),
    [
        ({"n": jnp.array(3)}, "parameters", "no tensor takes part"),
        ({"a b": jnp.zeros(2)}, "layout", "'a b' is the name of a tensor, and must have no spaces"),
    ],
)
def test_trees_that_cannot_be_vectors_are_refused(given, field, text):
    with pytest.raises(bs.ConfigError, match=text) as caught:
        bs_jax.ModelVector(given)
    assert caught.value.field == field


def test_choices_that_do_not_exist_are_refused():
    with pytest.raises(bs.ConfigError, match="parameters: 'some' must be"):
        bs_jax.ModelVector(tree(), parameters="some")
    for module, model in ((bs_jax, tree()), (bs_sklearn, SGDClassifier())):
        with pytest.raises(bs.ConfigError, match="buffers: 'some' must be"):
            module.ModelVector(model, buffers="some")


def test_another_tree_is_refused_by_name():
    vector = bs_jax.ModelVector({"w": jnp.zeros(4)})
    vector.load(np.zeros(4))
    with pytest.raises(bs.ConfigError, match="its structure is"):
        vector.change({"v": jnp.zeros(4)})
    with pytest.raises(bs.ConfigError, match=r"w is float32 \(5,\) now, must be w float32 4"):
        vector.change({"w": jnp.zeros(5)})


def test_errors_name_the_entry_and_say_what_to_do():
    vector = bs_jax.ModelVector(tree())
    with pytest.raises(bs.InputError, match="call load"):
        vector.change(tree())
    for wrong, text in (
        (None, "where a round was lost: go on with the model that you have"),
        (
            np.zeros(11),
            "11 elements, and this model has 12 in 4 tensors; both sides must build the same model",
        ),
        ("abc", "load\\(\\) takes rnd.model"),
        (np.full(12, np.nan), r"params.dense.bias\[0\] is nan"),
    ):
        with pytest.raises(bs.InputError, match=text):
            vector.load(wrong)
    loaded = vector.load(np.zeros(12))
    loaded["params"]["dense"]["kernel"] = jnp.zeros((2, 3)).at[1, 2].set(jnp.inf)
    with pytest.raises(
        bs.InputError, match=r"params.dense.kernel\[1, 2\] is inf.*lower the learning rate"
    ) as caught:
        vector.change(loaded)
    assert caught.value.index == 8
    loaded["params"]["layers"][2] = jnp.array(jnp.nan)
    loaded["params"]["dense"]["kernel"] = jnp.zeros((2, 3))
    with pytest.raises(bs.InputError, match=r"model: params.layers.2 is nan"):
        vector.values(loaded)


def test_bounds_of_each_tensor_by_number_name_and_function():
    vector = bs_jax.ModelVector({"a": jnp.full((2,), 3.0), "b": jnp.full((2, 2), 0.5)})
    assert vector.tensors(0.5) == (bs.Tensor("a", 2, 0.5), bs.Tensor("b", 4, 0.5))
    assert [one.clip for one in vector.tensors({"a": 1, "b": 2})] == [1, 2]
    clips = vector.tensors(lambda name, values: 2 * np.abs(values).max() if values.ndim == 2 else 9)
    assert [one.clip for one in clips] == [9, 1]
    with pytest.raises(bs.ConfigError, match="has no bound for b"):
        vector.tensors({"a": 1})
    with pytest.raises(bs.ConfigError, match="'c' is no tensor of the model"):
        vector.tensors({"a": 1, "b": 2, "c": 3})
    spec = bs.JobSpec(
        protocol="plain", parties=3, layout=vector, encoding=bs.Quantised(tensors=vector.tensors(0.5))
    )
    assert (spec.dim, spec.layout) == (6, vector.layout)


LINEAR = [
    (SGDClassifier(random_state=0), {"classes": range(10), "n_features": 64}, "10x64"),
    (SGDClassifier(random_state=0), {"classes": [0, 1], "n_features": 64}, "1x64"),
    (LogisticRegression(warm_start=True), {"classes": range(10), "n_features": 64}, "10x64"),
    (SGDRegressor(), {"n_features": 64}, "64"),
    (LinearRegression(), {"n_features": 64}, "64"),
    (Ridge(), {"n_features": 64}, "64"),
]


def named(value):
    return type(value).__name__ if hasattr(value, "get_params") else None


@pytest.mark.parametrize(("estimator", "sizes", "shape"), LINEAR, ids=named)
def test_linear_estimators_that_are_not_fitted_begin_with_zeros(estimator, sizes, shape):
    vector = bs_sklearn.ModelVector(estimator, **sizes)
    assert vector.layout[0] == f"coef_ float64 {shape}"
    assert len(vector.layout) == 2
    assert not vector.values().any()
    model = np.linspace(-1, 1, vector.dim)
    assert vector.load(model) is vector
    assert np.array_equal(vector.values(), model)
    assert not vector.change().any()
    data, labels = load_digits(return_X_y=True)
    if "classes" in sizes:
        keep = np.isin(labels, list(sizes["classes"]))
        data, labels = data[keep], labels[keep]
    estimator.predict(data[:3])
    trains = getattr(estimator, "partial_fit", estimator.fit)
    trains(data[:200] / 16, labels[:200])
    change = vector.change()
    assert change.any()
    assert np.allclose(vector.values() - model, change)
    # What was trained counts: a load is seen by the next step and by a prediction.
    vector.load(np.zeros(vector.dim))
    assert not np.any(
        estimator.decision_function(data[:3]) if "classes" in sizes else estimator.predict(data[:3])
    )


def test_sgd_goes_on_from_what_was_loaded():
    data, labels = load_digits(return_X_y=True)
    ours, plain = SGDClassifier(random_state=0, alpha=0.01), SGDClassifier(random_state=0, alpha=0.01)
    vector = bs_sklearn.ModelVector(ours, classes=range(10), n_features=64)
    plain.partial_fit(np.zeros((10, 64)), range(10), classes=range(10))
    plain.coef_[:], plain.intercept_[:] = 0.25, 0.25
    vector.load(np.full(vector.dim, 0.25))
    for estimator in (ours, plain):
        estimator.partial_fit(data, labels)
    assert np.allclose(ours.coef_, plain.coef_)


@pytest.mark.parametrize(
    ("estimator", "sizes", "outputs"),
    [
        (MLPClassifier(hidden_layer_sizes=(8,), random_state=1), {"classes": range(10)}, 10),
        (MLPClassifier(hidden_layer_sizes=(8,), random_state=1), {"classes": ["no", "yes"]}, 1),
        (MLPRegressor(hidden_layer_sizes=(8,), random_state=1), {}, 1),
    ],
    ids=named,
)
def test_perceptrons_begin_with_random_weights_and_train_on(estimator, sizes, outputs):
    vector = bs_sklearn.ModelVector(estimator, n_features=64, **sizes)
    assert vector.layout == (
        "coefs_.0 float64 64x8",
        f"coefs_.1 float64 8x{outputs}",
        "intercepts_.0 float64 8",
        f"intercepts_.1 float64 {outputs}",
    )
    first = vector.values()
    assert first[: 64 * 8].std() > 0.01
    vector.load(np.full(vector.dim, 0.01))
    data = np.random.default_rng(1).normal(size=(50, 64))
    labels = np.resize(list(sizes.get("classes", [0.5, 1.5])), 50)
    estimator.partial_fit(data, labels)
    change = vector.change()
    assert 0 < np.abs(change).max() < 0.01
    vector.load(first)
    assert np.array_equal(vector.values(), first)


def test_estimators_that_are_fitted_are_taken_as_they_are():
    data, labels = load_digits(return_X_y=True)
    fitted = Ridge(fit_intercept=False).fit(data, labels)
    vector = bs_sklearn.ModelVector(fitted)
    assert vector.layout == ("coef_ float64 64",)
    assert np.array_equal(vector.values(), fitted.coef_)
    narrow = LogisticRegression().fit((data[:300] / 16).astype(np.float32), labels[:300])
    assert bs_sklearn.ModelVector(narrow).layout == ("coef_ float32 10x64", "intercept_ float32 10")
    regression = LinearRegression().fit(data, labels)
    assert bs_sklearn.ModelVector(regression).load(np.zeros(65))
    assert regression.intercept_ == 0
    assert isinstance(regression.intercept_, float)


@pytest.mark.parametrize(
    ("estimator", "sizes", "field", "text"),
    [
        (
            DecisionTreeClassifier(),
            {},
            "estimator",
            "DecisionTreeClassifier has no weights that can be averaged",
        ),
        (RandomForestClassifier(), {}, "estimator", "take a linear model, MLPClassifier or MLPRegressor"),
        (make_pipeline(StandardScaler(), SGDClassifier()), {}, "estimator", "give its last step"),
        (SGDClassifier(), {}, "n_features", "say n_features"),
        (SGDClassifier(), {"n_features": 4}, "classes", "two at least"),
        (SGDClassifier(), {"n_features": 4, "classes": [1]}, "classes", "two at least"),
        (SGDClassifier(), {"n_features": 0, "classes": [1, 2]}, "n_features", "a whole number from 1"),
        (SGDClassifier(average=True), {}, "estimator", "has average on"),
        (MLPClassifier(solver="lbfgs"), {"n_features": 4, "classes": [1, 2]}, "estimator", "fitted first"),
        (RANSACRegressor(), {"n_features": 4}, "estimator", "no weights of its own"),
        (object(), {}, "estimator", "object has no weights"),
    ],
)
def test_estimators_that_cannot_be_averaged_are_refused(estimator, sizes, field, text):
    with pytest.raises(bs.ConfigError, match=text) as caught:
        bs_sklearn.ModelVector(estimator, **sizes)
    assert caught.value.field == field


def test_an_estimator_that_was_fitted_to_other_data_is_refused():
    data, labels = load_digits(return_X_y=True)
    estimator = LogisticRegression()
    vector = bs_sklearn.ModelVector(estimator, classes=range(10), n_features=64)
    vector.load(np.zeros(vector.dim))
    estimator.fit(data[:, :10] / 16, labels % 3)
    with pytest.raises(bs.ConfigError, match=r"coef_ has the shape \(3, 10\) now, had \(10, 64\) before"):
        vector.change()


def test_layouts_are_compared_entry_by_entry():
    own = ("a float32 2x3", "b float32 4")
    layouts.check(own, own, 10)
    layouts.check(own, (), 10)
    for agreed, dim, entry, text in (
        (
            ("a float32 2x3", "b float32 5"),
            11,
            1,
            "entry 1: this party has b float32 4, the job has b float32 5",
        ),
        (("a float32 2x3",), 6, 1, "this party has b float32 4, the job has none"),
        ((*own, "c float32 1"), 11, 2, "this party has none, the job has c float32 1"),
        ((), 11, None, "this party's model has 10 elements, the job has dim = 11"),
    ):
        with pytest.raises(bs.LayoutError, match=text) as caught:
            layouts.check(own, agreed, dim)
        assert caught.value.entry == entry
        assert isinstance(caught.value, bs.ConfigError)
        assert "both sides must build the same model" in str(caught.value)
    for wrong in ("a float32 2", 3, [1]):
        with pytest.raises(bs.ConfigError, match="a ModelVector or a list of lines"):
            layouts.lines_of(wrong)


def test_a_vector_shows_itself():
    shown = repr(bs_jax.ModelVector(tree()))
    assert "ModelVector" in shown
    assert "dim=12" in shown or "12" in shown


def test_the_example_of_scikit_learn_learns_together(tmp_path):
    vector = bs_sklearn.ModelVector(SGDClassifier(), classes=range(10), n_features=64)
    models_example.check("sklearn", vector, tmp_path)


def test_the_example_of_jax_learns_together(tmp_path):
    one, two = jax.random.split(jax.random.key(0))
    params = {"hidden": jax.random.normal(one, (64, 32)) / 8, "out": jax.random.normal(two, (32, 10)) / 6}
    vector = bs_jax.ModelVector(params | {"bias": jnp.zeros(10)})
    models_example.check("jax", vector, tmp_path, model=vector.values())
