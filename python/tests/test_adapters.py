"""Models in a job where something goes wrong at one party: no data, NaN, late."""

import json
import logging
import threading

import jax
import jax.numpy as jnp
import llm_example
import models_example
import numpy as np
import pytest
from sklearn.linear_model import (
    GammaRegressor,
    MultiTaskLasso,
    PoissonRegressor,
    RidgeClassifier,
    SGDOneClassSVM,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.svm import SVC, SVR, OneClassSVM

import blindsum as bs
from blindsum import jax as bs_jax
from blindsum.cli.jobs import spec_from_file
from blindsum.sklearn import ModelVector
from blindsum.training.description import step_of

LONG = {"parties": 3, "min_parties": 2, "join_deadline": 60.0, "input_deadline": 60.0, "stage_deadline": 60.0}
LOSS = bs.Metric("loss", 0, 100)

DIVERGES = """
import numpy as np
from sklearn.linear_model import (
    GammaRegressor,
    MultiTaskLasso,
    PoissonRegressor,
    RidgeClassifier,
    SGDOneClassSVM,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.svm import SVC, SVR, OneClassSVM

from blindsum.sklearn import ModelVector

net = SGDRegressor()
vector = ModelVector(net, n_features=3)

def step(model, number):
    vector.load(model)
    net.coef_ = net.coef_ + (np.nan if number == 1 else 0.5)
    return vector.change(), 1, {"loss": np.nan if number == 1 else 2.0}
"""


def test_join_stays_where_the_change_of_a_model_is_not_finite(processes, place, tmp_path, partner):
    (tmp_path / "training.py").write_text(DIVERGES)
    spec = place.spec(**LONG, rounds=2, metrics=[LOSS])
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.5)) for name in "bc"]
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        words = (
            "--ca",
            place.folder / "ca.pem",
            "--identity",
            place.identity("a"),
            *place.take_any,
            "--json",
        )
        party = processes("join", url, "--job", "job", *words, "--train", "training:step")
        out, err = party.communicate(timeout=120)
        for other in others:
            other.wait()
        reports = list(coordinator.statuses())[-1]
    first, second = (json.loads(line) for line in out.splitlines())
    assert party.returncode == 0, err
    assert (first["outcome"], second["outcome"]) == ("skipped", "sum")
    # The party is told where, and the coordinator nothing of the data.
    assert "update: coef_[0] is nan" in first["fault"]
    assert "nan" not in json.dumps(reports)
    assert len(second["survivors"]) == 3
    assert second["metrics"]["loss"]["value"] == pytest.approx(2.0, abs=1e-4)


def test_a_simulation_goes_on_where_the_change_of_a_model_is_not_finite():
    net = SGDRegressor(random_state=0)
    vector = ModelVector(net, n_features=3)
    spec = bs.JobSpec(protocol="secagg", parties=4, layout=vector, rounds=2, metrics=[LOSS])

    def train(net, rank, turn):
        net.coef_ = net.coef_ + (np.nan if (rank, turn) == (3, 1) else 0.25)
        return {"loss": 1.0}

    step = step_of(net, train, vector)
    record = bs.simulate_training(spec, step, [0, 1, 2, 3], model=vector.values(), plain=True)
    first, second = record.rounds
    assert first.survivors == ("party-1", "party-2", "party-3")
    assert first.lost["party-4"].startswith("its update cannot be used: update: coef_[0] is nan")
    assert len(second.survivors) == 4

    def unloaded(model, data, turn):
        return ModelVector(SGDRegressor(), n_features=3).change()

    # Another mistake is none of one round.
    with pytest.raises(bs.InputError, match="no model was loaded"):
        bs.simulate_training(spec, unloaded, [0, 1, 2, 3])


def test_a_loop_of_ones_own_sits_rounds_out_and_stays(place, partner):
    spec = place.spec(**LONG, rounds=4, metrics=[LOSS])
    nothing = [(None, 1), (np.full(4, 0.5), 0)]
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.25)) for name in "bc"]
        with place.join(coordinator, "a") as job:
            for number, (update, weight) in enumerate(nothing, 1):
                assert job.model() is not None
                assert job.aggregate(update, weight) is None
                assert isinstance(job.lost, bs.RoundAborted)
                assert (job.lost.number, job.lost.only_me, job.is_over) == (number, True, False)
            # A refused update leaves the round as it is: without another one the others go on.
            job.model()
            with pytest.raises(bs.InputError, match="not a finite number"):
                job.aggregate(np.full(4, np.nan))
            assert job.aggregate(None) is None
            job.model()
            result = job.aggregate(np.full(4, 0.5), metrics={"loss": np.nan})
            assert len(result.survivors) == 3
            assert result.warnings == ("metric loss was not a finite number and counts as missing",)
            assert result.metrics["loss"] is None
            assert job.model() is None
            assert job.aggregate(None) is None
            assert job.lost is None
        for other in others:
            assert len(other.wait()) == 4


def test_a_loop_over_rounds_refuses_nan_and_stays(place, partner, caplog):
    net = SGDRegressor()
    spec = place.spec(**LONG, rounds=2)
    survivors = []
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.25)) for name in "bc"]
        vector = ModelVector(net, n_features=3)
        with place.join(coordinator, "a", layout=vector) as job, caplog.at_level(logging.WARNING, "blindsum"):
            for rnd in job.rounds():
                vector.load(rnd.model)
                net.coef_ = net.coef_ + (np.inf if rnd.number == 1 else 0.5)
                try:
                    rnd.submit(vector.change())
                except bs.InputError:
                    rnd.skip("it is not finite")
                    continue
                survivors.append(rnd.outcome().survivors)
        status = list(coordinator.statuses())[-1]
        for other in others:
            assert len(other.wait()) == 2
    assert survivors == [("a", "b", "c")]
    assert status["state"] == "done"


def test_a_party_that_comes_late_goes_on_with_model_and_state(place, tmp_path):
    """With FedAdam all have the same model after each round, also the one that never saw m and v."""
    step = bs.FedAdam(learning_rate=0.1)
    # The fourth is not waited for.
    sizes = {"parties": 4, "min_parties": 3, "join_deadline": 0.1}
    spec = place.spec(**LONG | sizes, rounds=4, protocol="secagg").replace(step=step)
    models, two_are_done = {}, threading.Event()
    late_is_here = threading.Event()

    def party(coordinator, name, target):
        net = SGDRegressor(eta0=0.1, learning_rate="constant", random_state=0)
        own = ModelVector(net, n_features=3)
        rng = np.random.default_rng(len(name))
        data = rng.normal(size=(40, 3))
        with place.join(coordinator, name, layout=own) as job:
            if name == "late":
                late_is_here.set()
            for rnd in job.rounds():
                own.load(rnd.model)
                net.partial_fit(data, data @ target)
                rnd.submit(own.change())
                models.setdefault(rnd.number, {})[name] = rnd.outcome().model.tobytes()
                if rnd.number == 2:
                    two_are_done.set()
                    # It is here before the next round is.
                    assert late_is_here.wait(60)

    with place.coordinator(spec, store=tmp_path / "job.sqlite") as coordinator:
        target = np.array([1.0, -1.0, 0.5])
        threads = [threading.Thread(target=party, args=(coordinator, name, target)) for name in "abc"]
        for thread in threads:
            thread.start()
        assert two_are_done.wait(120)
        late = threading.Thread(target=party, args=(coordinator, "late", target))
        late.start()
        for thread in [*threads, late]:
            thread.join(120)
            assert not thread.is_alive()
        last = coordinator.model.tobytes()
    assert [len(models[number]) for number in (1, 2, 4)] == [3, 3, 4]
    for same in models.values():
        assert len(set(same.values())) == 1
    assert models[4]["late"] == last


@pytest.mark.parametrize("library", ["torch", "llm-lora"])
def test_examples_that_need_torch_have_a_short_diff(library):
    """They run by `make torch`."""
    before, after = models_example.scripts(library)
    assert "blindsum" not in before.read_text()
    for path in (before, after):
        compile(path.read_text(), str(path), "exec")


def test_the_job_of_the_language_model_sends_adapters_alone():
    spec = spec_from_file(str(llm_example.FOLDER / "job.toml"))
    assert all("lora_" in line for line in spec.layout)
    assert spec.initial == "first-party"
    assert [metric.name for metric in spec.metrics] == ["loss"]
    readme = (llm_example.FOLDER / "README.md").read_text()
    assert f"{spec.dim:,} of them are trained" in readme
    parties = [line.split()[2] for line in llm_example.commands() if "after.py" in line]
    assert parties == [str(rank) for rank in range(spec.parties)]
    # Every file that the commands name is there.
    named = {
        word for line in llm_example.commands() for word in line.split() if word.endswith((".py", ".toml"))
    }
    assert named == {"base.py", "before.py", "after.py", "job.toml"}
    assert all((llm_example.FOLDER / name).exists() for name in named)


@pytest.mark.parametrize(
    ("estimator", "text"),
    [
        (SVC(), "SVC has support vectors, which cannot be averaged: use LinearSVC or SGDClassifier"),
        (SVR(), "SVR has support vectors, which cannot be averaged: use LinearSVR or SGDRegressor"),
        (OneClassSVM(), "OneClassSVM has support vectors"),
        (SGDOneClassSVM(), "SGDOneClassSVM has an offset_ in place of an intercept_"),
        (MultiTaskLasso(), "MultiTaskLasso has several outputs, and must be fitted first"),
    ],
    ids=repr,
)
def test_estimators_without_weights_of_their_own_say_so(estimator, text):
    with pytest.raises(bs.ConfigError, match=text) as caught:
        ModelVector(estimator, n_features=3, classes=[0, 1])
    assert caught.value.field == "estimator"


def test_a_fitted_support_vector_machine_is_no_vector_even_if_it_is_linear():
    data, labels = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(bs.ConfigError, match="has support vectors"):
        ModelVector(SVC(kernel="linear").fit(data, labels))
    several = MultiTaskLasso(alpha=0.01).fit(data, np.stack([data[:, 0], data[:, 1]], axis=1))
    assert ModelVector(several).layout == ("coef_ float64 2x3", "intercept_ float64 2")


@pytest.mark.parametrize(
    "estimator", [PoissonRegressor(), GammaRegressor(), TweedieRegressor(power=1.5)], ids=repr
)
def test_a_party_predicts_by_a_generalised_linear_model_before_it_has_trained(estimator):
    vector = ModelVector(estimator, n_features=3)
    vector.load(np.array([0.5, 0.0, -0.5, 1.0]))
    assert estimator.predict(np.array([[2.0, 1.0, 0.0]])) == pytest.approx(np.exp(2.0))


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1, 2]])
def test_a_party_predicts_by_ridge_before_it_has_trained(labels):
    estimator = RidgeClassifier()
    vector = ModelVector(estimator, n_features=3, classes=labels)
    data = np.random.default_rng(0).normal(size=(30, 3))
    fitted = RidgeClassifier().fit(data, np.resize(labels, 30))
    vector.load(ModelVector(fitted).values())
    assert np.array_equal(estimator.predict(data), fitted.predict(data))


def gru(params, x):
    """A recurrent network, by a scan."""

    def turn(state, one):
        both = jnp.concatenate([one, state])
        z, r = (jax.nn.sigmoid(both @ params["gates"][name]) for name in ("z", "r"))
        new = jnp.tanh(jnp.concatenate([one, r * state]) @ params["new"])
        return (1 - z) * state + z * new, None

    return jax.lax.scan(turn, jnp.zeros(4), x)[0] @ params["out"]


def transformer(params, x):
    """One layer of attention; the embedding is used at both ends, and stands in the tree once."""
    seen = params["embed"][x]
    q, k, v = (seen @ params["attention"][name].astype(jnp.float32) for name in "qkv")
    return (jax.nn.softmax(q @ k.T / 2) @ v + seen) @ params["embed"].T


def random_tree(shapes):
    keys = iter(jax.random.split(jax.random.key(1), 20))
    return jax.tree_util.tree_map(
        lambda shape: jax.random.normal(next(keys), shape) / 3,
        shapes,
        is_leaf=lambda leaf: isinstance(leaf, tuple),
    )


@pytest.mark.parametrize(
    ("leaf", "what"),
    [
        (np.zeros(2, ">f4"), "an array of >f4"),
        (0.5, "a float of Python"),
        (np.zeros(2, np.longdouble), "an array of float128"),
    ],
)
def test_floats_that_jax_does_not_hold_do_not_stay_at_home_silently(leaf, what):
    tree = {"a": jnp.zeros(2), "b": leaf, "steps": 3, "mask": np.ones(2, bool)}
    with pytest.raises(bs.ConfigError, match=rf"b is {what}, and must be an array of float16"):
        bs_jax.ModelVector(tree)
    assert bs_jax.ModelVector(tree, parameters=lambda name, _: name == "a").layout == ("a float32 2",)


def test_the_mask_of_an_array_is_not_lost():
    masked = np.ma.masked_array([1.0, 2.0], [0, 1])
    with pytest.raises(bs.ConfigError, match=r"tree: b is a masked array: fill it"):
        bs_jax.ModelVector({"a": jnp.zeros(2), "b": masked})
    vector = bs_jax.ModelVector({"b": np.zeros(2)})
    vector.load(np.zeros(2))
    with pytest.raises(bs.ConfigError, match=r"tree: b is a masked array: fill it"):
        vector.change({"b": masked})


def test_an_estimator_is_none_of_its_class():
    with pytest.raises(
        bs.ConfigError, match=r"is the class SGDRegressor: give an estimator, SGDRegressor\(…\)"
    ):
        ModelVector(SGDRegressor, n_features=3)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "complex64"])
def test_numbers_that_a_vector_has_no_room_for_are_refused(dtype):
    tree = {"a": jnp.zeros(2), "b": [jnp.zeros(2, dtype)]}
    with pytest.raises(
        bs.ConfigError, match=rf"b.0 is an array of {dtype}, and must be an array of float16, .* parameters="
    ) as caught:
        bs_jax.ModelVector(tree)
    assert caught.value.field == "tree"
    assert bs_jax.ModelVector(tree, parameters=lambda name, _: name == "a").layout == ("a float32 2",)


NETS = [
    (gru, {"gates": {"z": (7, 4), "r": (7, 4)}, "new": (7, 4), "out": (4, 2)}, jnp.ones((5, 3))),
    (transformer, {"embed": (6, 4), "attention": dict.fromkeys("qkv", (4, 4))}, jnp.arange(5)),
]


@pytest.mark.parametrize(("net", "shapes", "x"), NETS, ids=["gru", "transformer"])
def test_other_nets_of_jax_train_as_they_do_alone(net, shapes, x):
    params = random_tree(shapes)
    if net is transformer:
        params["attention"]["q"] = params["attention"]["q"].astype(jnp.bfloat16)
    vector = bs_jax.ModelVector(params)

    @jax.jit
    def train(params):
        slopes = jax.grad(lambda params: jnp.square(net(params, x)).sum())(params)
        return jax.tree_util.tree_map(lambda p, slope: p - (0.1 * slope).astype(p.dtype), params, slopes)

    start = vector.values()
    alone, loaded = train(params), vector.load(start)
    together = train(loaded)
    for one, other in zip(jax.tree_util.tree_leaves(alone), jax.tree_util.tree_leaves(together), strict=True):
        assert one.dtype == other.dtype
        assert jnp.array_equal(one, other)
    change = vector.change(together)
    assert np.count_nonzero(change) > 0.5 * vector.dim
    assert np.allclose(start + change, vector.values(alone), atol=1e-6)
