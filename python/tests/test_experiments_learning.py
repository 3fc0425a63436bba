"""Learning experiments: their nets have the right gradients, and what their pages say follows from runs."""

import numpy as np
import pytest

from blindsum import rules
from blindsum.training.contribution import TrainingTurn
from experiments import (
    accuracy_runs,
    aimed,
    flashe_training_runs,
    overhead_runs,
    robust_training_runs,
    tasks,
    thesis_skew_runs,
)
from experiments.classifiers import Classifier
from experiments.tasks import Task

NETS = [
    Classifier("logistic", 8),
    Classifier("one layer", 8, (12,)),
    Classifier("two layers", 8, (12, 7)),
    Classifier("filters", 8, filters=4),
    Classifier("filters and a layer, odd", 9, (6,), filters=3),
]


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_gradients_are_those_of_the_loss(net, monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.random((5, 1, net.side, net.side))
    labels = rng.integers(0, 10, 5)
    model = net.initial(1).astype(np.float64)
    ends = np.cumsum([np.prod(shape) for shape in net.shapes])[:-1]

    def loss(values):
        layers = [part.reshape(shape) for part, shape in zip(np.split(values, ends), net.shapes, strict=True)]
        scores = net._scores(layers, images)[-1]
        return np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(5), labels])

    gradient = net.gradient(model.astype(np.float32), images.astype(np.float32), labels)
    assert gradient.shape == (net.dim,)
    for place in rng.integers(0, net.dim, 30):
        step = np.zeros(net.dim)
        step[place] = 1e-6
        slope = (loss(model + step) - loss(model - step)) / 2e-6
        assert gradient[place] == pytest.approx(slope, abs=1e-5)


def test_a_task_learns_and_its_seed_says_how():
    task = Task(tasks.DIGITS, Classifier("one hidden layer", 8, (32,)), rate=0.3, steps=200)
    model = task.net.initial(0)
    (part,) = task.parts("iid", 1, seed=0)
    turn = TrainingTurn.of(1, "party-1", 0, {}, 0)
    change = task.step(model, part, turn)
    assert np.array_equal(change, task.step(model, part, turn))
    assert task.right(model) < 0.3 * len(task.test) < 0.85 * len(task.test) < task.right(model + change)


def test_a_data_set_that_is_missing_is_named(monkeypatch):
    def gone(name, *, part):
        raise tasks.DataError("folder", "there is none")

    tasks.loaded.cache_clear()
    monkeypatch.setattr(tasks.data, "load", gone)
    assert "there is none" in tasks.missing([tasks.FASHION])[tasks.FASHION]
    tasks.loaded.cache_clear()


CASE = accuracy_runs.Case(accuracy_runs.OF_DIGITS, "secagg", accuracy_runs.STOCHASTIC)


def test_a_model_is_compared_with_plain_training_and_with_the_same_updates():
    training = accuracy_runs.train(CASE, seed=0, rounds=3)
    assert [one.number for one in training.rounds] == [1, 2, 3]
    assert training.clipped == 0
    for one in training.rounds:
        assert 0 < one.deviation <= CASE.spec.max_error
        assert 0 < one.replayed <= one.bound
        assert one.bound == pytest.approx(one.number * CASE.spec.max_error, rel=0.01)
        # In the first round all start from the same model.
        assert one.number > 1 or one.distance == pytest.approx(one.replayed, rel=0.05)
    other = accuracy_runs.Case(CASE.task, accuracy_runs.PLAIN, CASE.setting)
    found = {CASE: [training], other: [accuracy_runs.train(other, seed=0, rounds=3)]}
    assert accuracy_runs.differing(found, CASE) == 0
    found[other] = [accuracy_runs.train(other, seed=1, rounds=3)]
    assert accuracy_runs.differing(found, CASE) > CASE.task.net.dim


def test_a_mean_beyond_its_bound_ends_the_experiment(monkeypatch):
    monkeypatch.setattr(accuracy_runs.bs.JobSpec, "max_error", property(lambda spec: 1e-9))
    with pytest.raises(ArithmeticError, match="secagg"):
        accuracy_runs.train(CASE, seed=0, rounds=1)


def test_slow_protocols_are_left_out_of_long_rounds_and_said_so(tmp_path):
    model = overhead_runs.Model("long", 70_000, "none", "no paper")
    sizes = overhead_runs.Sizes((model,), ("pss-malicious",), repetitions=1)
    found = overhead_runs.run(overhead_runs.output.options(["--quick"], "overhead", ""), sizes)
    assert found.costs == {}
    assert found.left_out == {overhead_runs.Case(model, "pss-malicious"): "more than 62,000 coordinates"}


def test_models_have_the_sizes_of_the_nets():
    nets = pytest.importorskip("blindsum.learning.nets", exc_type=Exception)
    for model in (*overhead_runs.MODELS, *overhead_runs.MORE):
        assert nets.NETS[model.net].parameters == model.dim


def updates(seed, dim=50):
    """Updates of twelve parties that have something in common, who attacks, and the root's."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=dim)
    found = common + 2 * rng.normal(size=(13, dim))
    return found[:12], np.arange(12) < 3, found[12]


@pytest.mark.parametrize("seed", range(3))
def test_the_attack_on_fltrust_does_what_it_expects(seed):
    parties, bad, root = updates(seed)
    sent = aimed.against_fltrust(parties, bad, root)
    assert np.array_equal(sent[~bad], parties[~bad])
    mean = parties[~bad].mean(axis=0)
    against = rules.fltrust(sent, root=root) @ mean
    assert against < rules.fltrust(parties[~bad], root=root) @ mean
    # No other angle in its plane does more.
    toward = root / np.linalg.norm(root)
    aside = mean - (mean @ toward) * toward
    aside /= np.linalg.norm(aside)
    for angle in np.linspace(0, np.pi / 2, 40, endpoint=False):
        other = sent.copy()
        other[bad] = np.cos(angle) * toward - np.sin(angle) * aside
        assert rules.fltrust(other, root=root) @ mean > against - 1e-3 * abs(against)


def test_a_scaled_back_door_is_the_attackers_mean():
    parties, bad, _ = updates(0)
    sent = aimed.scaled(parties, bad)
    assert np.allclose(sent.mean(axis=0), parties[bad].mean(axis=0) + parties[~bad].sum(axis=0) / 12)
    part = aimed.Examples(np.zeros((2, 64), np.float32), np.array([3, 4]))
    poisoned = aimed.with_backdoor(part)
    assert poisoned.labels.tolist() == [3, 4, aimed.TARGET, aimed.TARGET]
    assert [int(image.sum()) for image in poisoned.images] == [0, 0, 4, 4]
    assert not part.images.any()


def test_a_back_door_is_in_the_model_of_a_mean_and_not_in_that_of_fltrust():
    found = {
        rule: robust_training_runs.train(robust_training_runs.Case("iid", "backdoor", rule), seed=0, rounds=4)
        for rule in ("fedavg", "fltrust")
    }
    assert found["fltrust"].success[-1] < 0.3
    assert found["fedavg"].success[-1] > 0.7
    assert all(run.sums == 4 and run.deviation < 1e-3 for run in found.values())


def test_the_root_of_a_training_is_the_servers(monkeypatch):
    """A simulation takes the last party for the root: with the root's update alone the model goes its way."""
    case = robust_training_runs.Case("iid", "none", "fltrust")
    attacked = robust_training_runs.Attacked(case, seed=0)
    turn = TrainingTurn.of(1, "party-21", 20, {}, 0)
    model = robust_training_runs.network.initial_model(0)
    root = attacked.step(model, -1, turn)
    assert np.linalg.norm(root - attacked.step(model, 0, turn)) > 0
    spec = case.spec
    vectors = [attacked.step(model, rank, turn) for rank in [*range(20), -1]]
    mean = robust_training_runs.bs.simulate(spec, vectors).mean
    assert np.linalg.norm(mean) < 1.1 * np.linalg.norm(root)
    expected = rules.fltrust(np.array(vectors[:-1]), root=root)
    assert np.abs(mean - expected).max() < 1e-3


def test_the_schedule_of_sparse_training_is_the_papers():
    """Densities of 80, 40, 20 and 10 %: so much is sent, with a bit a coordinate and words of 20 bits."""
    runs = flashe_training_runs
    case = runs.Case(runs.OF_DIGITS, runs.SCHEDULED)
    line = runs.train(case, seed=0, sizes=runs.QUICK)
    dim = case.task.net.dim
    words = [(up - dim / 8) / 2.5 / dim for up in line.up]
    assert words == pytest.approx([0.8, 0.4, 0.2, 0.1], abs=0.03)
    dense = runs.train(runs.Case(case.task, runs.DENSE), seed=0, sizes=runs.QUICK)
    assert dense.up[0] == pytest.approx(2.5 * dim, rel=0.01)
    assert line.opened[-1] < dense.opened[-1]


def test_an_iteration_with_more_ciphertexts_is_extrapolated():
    one = flashe_training_runs.Iteration(2.0, 1.0, 100, 50)
    assert one.path_ms == 3.0
    more = one.times(4, more_up=7)
    assert (more.party_ms, more.server_ms, more.up_bytes, more.down_bytes) == (8.0, 4.0, 407, 200)
    assert (one.source, more.source) == ("measured", "extrapolated")


def test_every_training_of_the_thesis_is_there_once_and_has_as_many_epochs():
    runs = thesis_skew_runs
    cases = list(runs.cases(runs.FULL, {}))
    assert len(cases) == len(set(cases)) == 2 * (3 + 3 + 3 + 4)
    assert not [case for case in runs.cases(runs.FULL, {tasks.FASHION: "gone"}) if case.task.data != "digits"]
    for case in cases:
        if case.task.data == tasks.DIGITS:
            images = case.rounds(50) * case.workers * case.task.batch * case.task.steps
            assert images == pytest.approx(50 * 1442, rel=0.08)


def test_a_training_of_the_thesis_is_that_of_plain_averaging():
    case = next(one for one in thesis_skew_runs.cases(thesis_skew_runs.FULL, {tasks.FASHION: "gone"}))
    training = thesis_skew_runs.train(case, epochs=2)
    assert len(training.accuracy) == len(training.plain) == case.rounds(2)
    assert training.accuracy == pytest.approx(training.plain, abs=2 / 355)
    assert 0 < training.deviation <= case.spec.max_error


def test_a_net_of_torch_is_a_task_as_well():
    pytest.importorskip("torch")
    from experiments.torch_tasks import TorchNet, TorchTask

    task = TorchTask(tasks.DIGITS, "logistic", steps=50)
    assert task.net == TorchNet("logistic", (1, 8, 8), 10)
    assert task.net.dim == 650
    first = task.net.initial(0)
    assert np.array_equal(first, task.net.initial(0))
    (part,) = task.parts("iid", 1, seed=0)
    turn = TrainingTurn.of(1, "party-1", 0, {}, 0)
    change = task.step(first, part, turn)
    assert np.array_equal(change, task.step(first, part, turn))
    assert task.right(first) < task.right(first + change)
