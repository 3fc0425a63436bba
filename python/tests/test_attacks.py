"""The parts of the experiment on attacks: training, attacks, and what servers let through."""

import numpy as np
import pytest

from blindsum.demo import network
from experiments import federated, poison, robust, trials
from vectors.model import encoding as model

ENCODING = robust.Encoding(dim=40, clip=2.5)


def updates(count, seed=1, dim=40):
    return np.random.default_rng(seed).normal(size=(count, dim)) / 4


# Training.


def test_all_parties_train_at_once_as_each_would_alone():
    rng = np.random.default_rng(3)
    models = rng.normal(0, 0.3, (4, network.DIM)).astype(np.float32)
    images, labels = rng.random((4, 16, 64), dtype=np.float32), rng.integers(0, 10, (4, 16))
    found = federated.gradients(models, images, labels)
    for party in range(4):
        alone = network.gradient(models[party], images[party], labels[party])
        np.testing.assert_allclose(found[party], alone, atol=1e-6)


@pytest.mark.parametrize("split", trials.SPLITS)
def test_every_image_has_one_place(split):
    dealt = federated.federation(split, 0)
    everything = np.concatenate([part.images for part in (*dealt.parts, dealt.root, dealt.test)])
    assert len(everything) == 1797
    # Two images of the set are the same, pixel by pixel, in no case.
    assert len(np.unique(everything, axis=0)) == 1797
    assert len(dealt.root) == federated.ROOT
    assert min(map(len, dealt.parts)) >= federated.LEAST
    shares = [np.bincount(part.labels, minlength=10).max() / len(part) for part in dealt.parts]
    assert np.mean(shares) > 0.3 if split == "dirichlet" else np.mean(shares) < 0.3


# Attacks.


def test_attackers_change_and_others_do_not():
    bad = np.arange(10) < 4
    honest = updates(10)
    for attack in poison.ATTACKS:
        sent = poison.vectors(attack, honest, bad)
        assert np.array_equal(sent[~bad], honest[~bad])
        assert np.array_equal(sent[bad], honest[bad]) == (attack == "label-flip")
    np.testing.assert_allclose(poison.vectors("sign-flip", honest, bad)[bad], -honest[bad])
    np.testing.assert_allclose(poison.vectors("scaled", honest, bad)[bad], 2.5 * honest[bad])


def test_flipped_labels_are_the_digits_backwards():
    part = federated.federation("iid", 0).parts[0]
    for attack in poison.ATTACKS:
        trained = poison.examples(attack, part)
        assert np.array_equal(trained.images, part.images)
        expected = 9 - part.labels if attack in ("label-flip", "scaled") else part.labels
        assert np.array_equal(trained.labels, expected)


@pytest.mark.parametrize("seed", range(20))
def test_min_max_goes_as_far_as_it_may(seed):
    honest = updates(7, seed) + np.random.default_rng(seed).normal(size=40) / 4
    most = max(np.linalg.norm(a - b) for a in honest for b in honest)
    sent, mean = poison.min_max(honest), honest.mean(axis=0)
    assert np.linalg.norm(honest - sent, axis=1).max() == pytest.approx(most)
    # Backwards on the line of the mean; one step more is too far.
    moved = mean - sent
    assert moved @ mean == pytest.approx(np.linalg.norm(moved) * np.linalg.norm(mean))
    farther = mean - 1.001 * moved
    assert np.linalg.norm(honest - farther, axis=1).max() > most


# What servers see.


def test_honest_numbers_are_those_of_the_encoding():
    dim, rows = 40, updates(6) * 3
    rows[0] /= 10
    spec = model.Spec(dim, clip=2.5, clipping="l2", bits=16)
    # What is added is half a level, which is as good as never hit.
    found = ENCODING.honest(rows, np.full(rows.shape, 0.5))
    for row, numbers in zip(rows, found, strict=True):
        factor = min(1.0, 2.5 / model.l2_norm(row.tolist()))
        words = [model.quantise(value, 2.5, factor, spec.top(1), 2**31) for value in row.tolist()]
        assert [2 * word - 65535 for word in words] == numbers.tolist()
    assert np.linalg.norm(found, axis=1).max() <= ENCODING.bound


def test_rounding_at_random_is_right_on_average():
    row = updates(1)
    rng = np.random.default_rng(2)
    mean = np.mean([ENCODING.honest(row, rng.random(row.shape)) for _ in range(4000)], axis=0)
    assert np.abs(mean - row / ENCODING.unit).max() < 0.1


def test_the_gate_lets_attackers_reach_through_and_no_farther():
    # Twice a power of two that is 3B at most is the engine's: 6 * 65,548 is above 2^18.
    assert (ENCODING.bound, ENCODING.beta, ENCODING.exponent) == (65548, 2**19, 22)
    assert robust.Encoding(dim=40, clip=1.0, bits=10).exponent == 16
    rng = np.random.default_rng(4)
    longest = ENCODING.attackers(1e6 * updates(200), "krum")
    assert np.linalg.norm(longest, axis=1) == pytest.approx(ENCODING.reach, rel=1e-4)
    assert ENCODING.passed(longest, rng).mean() > 0.98
    assert not ENCODING.passed(4 * longest, rng).any()
    assert ENCODING.passed(ENCODING.honest(updates(200), rng.random((200, 40))), rng).all()


def test_attackers_do_not_use_the_encoding():
    bad = np.array([True, False])
    long = 4 * ENCODING.clip * np.eye(2, 40)
    sent = {rule: ENCODING.sent(long, bad, rule, np.full(long.shape, 0.5)) for rule in robust.RULES}
    for rule, numbers in sent.items():
        attacker, honest = np.linalg.norm(numbers * ENCODING.unit, axis=1)
        assert honest == pytest.approx(ENCODING.clip, rel=1e-3)
        limit = {"fedavg": 10.0, "weighted": 10.0, "median": 2.5, "trimmed_mean": 2.5}.get(rule, 6.2854)
        assert attacker == pytest.approx(limit, rel=1e-3)


def test_coordinates_stay_in_the_range_of_the_encoding():
    found = ENCODING.attackers(np.array([[1e9, -1e9, 0.1, 0.0]]), "median")
    assert found[0, :2].tolist() == [65535, -65535]
    assert abs(found[0, 2] - 0.1 / ENCODING.unit) <= 1


def test_a_sum_that_nobody_could_have_is_refused():
    rng = np.random.default_rng(1)
    told = robust.Told(clip=1.0, bad=0, weights=np.ones(4, dtype=np.int64), root=np.ones(40))
    numbers = ENCODING.honest(updates(4), rng.random((4, 40)))
    numbers[0, 0] += 2 * 65535
    fine = robust.aggregate("fedavg", ENCODING, numbers, told, rng)
    assert not fine.refused
    np.testing.assert_allclose(fine.mean, numbers.mean(axis=0) * ENCODING.unit)
    numbers[0, 0] += 4 * 65535
    refused = robust.aggregate("fedavg", ENCODING, numbers, told, rng)
    assert refused.refused
    assert not refused.mean.any()


def test_who_fails_the_gate_does_not_count():
    rng = np.random.default_rng(1)
    told = robust.Told(clip=1e3, bad=0, weights=np.ones(4, dtype=np.int64), root=np.ones(40))
    numbers = ENCODING.honest(updates(4), rng.random((4, 40)))
    alone = numbers[1:].mean(axis=0)
    numbers[0] *= 1000
    outcome = robust.aggregate("clipped", ENCODING, numbers, told, rng)
    assert outcome.passed.tolist() == [False, True, True, True]
    np.testing.assert_allclose(outcome.mean, alone * ENCODING.unit)


# What comes out.


def case(attack, count, rule, split="iid"):
    return trials.Case(split, attack, count, rule, told=count)


def test_a_trusted_root_withstands_what_breaks_the_mean():
    def accuracy(*words):
        return trials.train(case(*words), seed=0, rounds=8).accuracy

    assert accuracy("none", 0, "fedavg") > 0.8
    assert accuracy("scaled", 8, "fedavg") < 0.5
    assert accuracy("scaled", 8, "fltrust") > 0.8


def test_copies_count_little_only_where_likeness_is_looked_at():
    assert trials.train(case("min-max", 8, "cosine"), seed=0, rounds=8).accuracy > 0.8
    assert trials.train(case("min-max", 8, "krum"), seed=0, rounds=8).accuracy < 0.5


def test_a_run_is_the_same_again():
    again = [trials.train(case("sign-flip", 4, "fltrust", "dirichlet"), seed=1, rounds=2) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0].bound > 0
