"""Partitions: laws for all rules, fixed values, what is refused, the picture."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blindsum.errors import BlindsumError, ConfigError
from blindsum.learning import partitions, pictures

RULES = ["iid", "dirichlet:0.5", "skewed:0.9", "skewed:0", "shards:1", "shards", "by-user"]


@st.composite
def dealt(draw, form=None):
    """A rule, labels, users, parties and a seed for which the partition exists."""
    form = draw(st.sampled_from(RULES)) if form is None else form
    labels = draw(st.lists(st.integers(-3, 9), min_size=1, max_size=200))
    users = draw(st.lists(st.integers(0, 20), min_size=len(labels), max_size=len(labels)))
    most = {"by-user": len(set(users)), "shards": max(1, len(labels) // 2)}.get(form, len(labels))
    parties = draw(st.integers(1, min(most, 40)))
    if form == "shards" and 2 * parties > len(labels):
        form = "shards:1"
    return form, np.array(labels), np.array(users), parties, draw(st.integers(0, 2**32))


def made(form, labels, users, parties, seed):
    # No rule but these two can promise one example to everybody.
    minimum = 0 if form.startswith("dirichlet") else 1
    return partitions.partition(form, labels, parties, seed=seed, users=users, minimum=minimum)


@given(dealt())
def test_every_example_is_at_one_party(case):
    parts = made(*case)
    _, labels, _, parties, _ = case
    assert len(parts) == parties
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert all(part.dtype == np.int64 for part in parts)


@given(dealt())
def test_the_same_arguments_give_the_same_partition(case):
    for one, other in zip(made(*case), made(*case), strict=True):
        assert np.array_equal(one, other)


@given(dealt().filter(lambda case: case[0].startswith(("iid", "skewed", "shards:1"))))
def test_sizes_differ_by_one_at_most(case):
    sizes = [len(part) for part in made(*case)]
    assert max(sizes) - min(sizes) <= 1


@given(dealt("skewed:0.9"), st.sampled_from([0.5, 0.7, 0.9, 1.0]))
def test_a_party_has_its_share_in_its_own_labels_while_there_are_any(case, share):
    _, labels, _, parties, seed = case
    parts = partitions.skewed(labels, parties, share=share, seed=seed)
    names = np.unique(labels)
    groups = min(parties, len(names))
    # Counted without the code: in turns, and what earlier parties were promised is gone.
    left = [int(np.isin(labels, names[group::groups]).sum()) for group in range(groups)]
    for party, part in enumerate(parts):
        promised = min(math.ceil(round(share * len(part), 6)), left[party % groups])
        left[party % groups] -= promised
        assert np.isin(labels[part], names[party % groups :: groups]).sum() >= promised


@given(dealt("by-user"))
def test_a_user_is_at_one_party_and_parties_have_equally_many(case):
    _, _, users, parties, _ = case
    found = [np.unique(users[part]) for part in made(*case)]
    assert sum(map(len, found)) == len(np.unique(users))
    assert max(map(len, found)) - min(map(len, found)) <= 1
    assert len(found) == parties


@given(dealt("shards:1"))
def test_a_shard_is_a_run_of_the_sorted_labels(case):
    _, labels, *_ = case
    found = sorted((tuple(np.sort(labels[part])) for part in made(*case)), key=lambda one: (one[0], one[-1]))
    assert np.array_equal(np.concatenate(found), np.sort(labels))


@given(st.floats(0.001, 1e6), st.integers(1, 50), st.integers(0, 2**32))
def test_every_alpha_gives_a_partition(alpha, parties, seed):
    labels = np.arange(200) % 3
    parts = partitions.dirichlet(labels, parties, alpha=alpha, seed=seed, minimum=0)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(200))


def test_with_a_large_alpha_all_parties_are_alike_and_with_a_small_one_they_are_not():
    labels = np.repeat(np.arange(10), 1000)

    def shares(alpha):
        parts = partitions.dirichlet(labels, 10, alpha=alpha, seed=3, minimum=0)
        return [one.share for one in partitions.describe(labels, parts) if one.examples]

    assert max(shares(10_000)) < 0.12
    assert np.mean(shares(0.01)) > 0.6


def test_the_minimum_holds_or_is_refused():
    labels = np.repeat(np.arange(10), 100)
    for seed in range(20):
        parts = partitions.dirichlet(labels, 20, alpha=0.3, seed=seed, minimum=15)
        assert min(map(len, parts)) >= 15
    with pytest.raises(ConfigError, match="take a larger alpha, fewer parties or a smaller") as raised:
        partitions.dirichlet(labels, 20, alpha=0.01, seed=0, minimum=45)
    assert raised.value.field == "minimum"


def test_the_thesis_has_sixteen_parties_of_cifar():
    # 50,000 examples of 10 labels: the first ten get 90 % of one label, the last six what is left of it.
    labels = np.repeat(np.arange(10), 5000)
    found = partitions.describe(labels, partitions.skewed(labels, 16, share=0.9, seed=1))
    assert all(one.examples == 3125 for one in found)
    assert [one.majority for one in found] == [*range(10), *range(6)]
    assert all(one.share >= 0.9 for one in found[:10])
    assert all(one.share == (5000 - 2813) / 3125 for one in found[10:])
    # CIFAR-100: each party has six or seven labels of its own.
    labels = np.repeat(np.arange(100), 500)
    parts = partitions.skewed(labels, 16, share=0.9, seed=1)
    assert all((labels[part] % 16 == party).mean() >= 0.9 for party, part in enumerate(parts))


FIXED = {
    "iid": [[4, 6, 10, 0], [1, 3, 8, 7], [2, 5, 9, 11]],
    "dirichlet:2": [[0, 5, 2, 3], [8, 9, 10, 11], [4, 1, 6, 7]],
    "skewed:0.7": [[11, 4, 0, 7], [1, 5, 9, 3], [2, 10, 6, 8]],
    "shards": [[5, 9, 2, 3], [4, 0, 8, 1], [6, 10, 7, 11]],
    "by-user": [[8, 9, 10, 11], [2, 3, 4, 5], [0, 1, 6, 7]],
}


@pytest.mark.parametrize("form", FIXED)
def test_partitions_stay_as_they_are(form):
    labels = np.arange(12) % 4
    parts = partitions.partition(form, labels, 3, seed=7, users=np.arange(12) // 2)
    assert [part.tolist() for part in parts] == FIXED[form]


@pytest.mark.parametrize(
    ("form", "change", "field", "text"),
    [
        ("iid", {"parties": 0}, "parties", "0 must be a whole number from 1"),
        ("iid", {"parties": 13}, "parties", "13 parties × minimum = 1 must be at most the 12 examples"),
        ("iid", {"minimum": -1}, "minimum", "-1 must be a whole number from 0"),
        ("iid", {"minimum": 5}, "parties", "take fewer parties or a smaller minimum"),
        ("iid", {"labels": []}, "labels", "n >= 1"),
        ("iid", {"labels": [[1, 2]]}, "labels", "shape \\(1, 2\\)"),
        ("iid", {"labels": [0.5, 1.5]}, "labels", "not float64"),
        ("iid", {"parties": None}, "parties", "must be given"),
        ("iid", {"seed": None}, "seed", "another one each time"),
        ("iid", {"seed": -1}, "seed", "-1 is none that numpy takes"),
        ("shards", {"seed": "x"}, "seed", "'x' is none that numpy takes"),
        ("iid:1", {}, "partition", "'iid:1' must be one of iid, dirichlet:ALPHA"),
        ("dirichlet", {}, "partition", "must be one of"),
        ("dirichlet:x", {}, "partition", "must have a number behind the colon"),
        ("dirichlet:0", {}, "partition", "'dirichlet:0' alpha: 0.0 must be a number from 0.001 to 1e\\+06"),
        ("dirichlet:nan", {}, "partition", "must be a finite number"),
        ("skewed:1.1", {}, "partition", "1.1 must be a number from 0 to 1"),
        ("shards:1.5", {}, "partition", "a whole number behind the colon"),
        ("shards:0", {}, "partition", "0 must be a whole number from 1 to 12"),
        ("shards:5", {}, "partition", "3 parties × 5 shards = 15 must be at most the 12 examples"),
        ("by-user", {"users": None}, "partition", "needs data with users, and these have none: take iid"),
        ("by-user", {"parties": 7}, "parties", "7 must be at most the 6 users"),
        ("by-user", {"parties": 6, "minimum": 2, "users": [0] * 7 + [1, 2, 3, 4, 5]}, "minimum", "has 1 ex"),
    ],
)
def test_what_cannot_be_is_refused(form, change, field, text):
    given = {"labels": np.arange(12) % 4, "parties": 3, "seed": 1, "users": np.arange(12) // 2} | change
    with pytest.raises(ConfigError, match=text) as raised:
        partitions.partition(form, given.pop("labels"), given.pop("parties"), **given)
    assert raised.value.field == field


def test_users_and_labels_may_be_texts():
    users = np.array(["ann", "bob", "ann", "cy"])
    parts = partitions.by_user(users, seed=1)
    assert sorted(map(len, parts)) == [1, 1, 2]
    found = partitions.describe(np.array(["x", "y", "x", "x"]), [[0, 1, 2], [], [3]])
    assert [(one.examples, one.labels, one.majority, one.share) for one in found] == [
        (3, 2, "x", 2 / 3),
        (0, 0, None, 0.0),
        (1, 1, "x", 1.0),
    ]


@pytest.mark.parametrize("part", [[4], [-1], [0.5]])
def test_indices_are_checked(part):
    with pytest.raises(ConfigError, match=r"parts\[1\]: must be indices from 0 to 3"):
        partitions.describe([0, 1, 0, 1], [[0], part])


@pytest.mark.parametrize(("labels", "parties"), [(3, 4), (20, 4), (21, 4), (3, 300)])
def test_the_same_partition_gives_the_same_picture(labels, parties, tmp_path):
    values = np.arange(600) % labels
    parts = partitions.iid(values, parties, seed=1)
    names = [f"label-{one}" for one in range(labels)]
    for name in ("one.svg", "two.svg"):
        pictures.draw(values, parts, tmp_path / name, names=names, title="600 examples")
    one = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert one == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert one.startswith("<?xml")
    assert "600 examples" in one
    assert ("label-1" in one) == (labels <= pictures.MAX_BARS)
    assert len(one) < 200_000


def test_a_picture_says_what_it_needs(monkeypatch, tmp_path):
    monkeypatch.setattr(pictures, "find_spec", lambda _: None)
    with pytest.raises(BlindsumError, match=r"pip install 'blindsum\[data\]'"):
        pictures.draw([0, 1], [[0], [1]], tmp_path / "picture.svg")
