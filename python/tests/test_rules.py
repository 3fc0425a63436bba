"""Rules in the clear: examples computed by hand, laws, and what is refused."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import blindsum as bs
from blindsum import rules

# Whole numbers, so that sums in another order are equal.
NUMBERS = st.integers(-1000, 1000).map(float)


def vectors(least=1, most=7):
    shapes = st.tuples(st.integers(least, most), st.integers(1, 4))
    return shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=NUMBERS))


RULES = {
    "fedavg": rules.fedavg,
    "weighted": lambda x: rules.weighted(x, weights=np.ones(len(x))),
    "clipped": lambda x: rules.clipped(x, clip=100),
    "fltrust": lambda x: rules.fltrust(x, root=np.arange(1, x.shape[1] + 1)),
    "krum": lambda x: rules.krum(x, bad=1),
    "multi_krum": lambda x: rules.multi_krum(x, bad=1),
    "median": rules.median,
    "trimmed_mean": lambda x: rules.trimmed_mean(x, trim=1),
    "cosine": rules.cosine,
}


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# By hand.


def test_means():
    near(rules.fedavg([[1, 2], [3, 6]]), [2, 4])
    near(rules.weighted([[1, 2], [3, 6]], weights=[1, 3]), [2.5, 5])


def test_only_long_vectors_are_shortened():
    # Norms 5, 13 and 1: the first two become as long as the clip.
    x = [[3, 4], [5, 12], [0, 1]]
    near(rules.clipped(x, clip=2.5), [(1.5 + 2.5 * 5 / 13) / 3, (2 + 2.5 * 12 / 13 + 1) / 3])
    near(rules.clipped(x, clip=13), rules.fedavg(x))


def test_trust_is_the_cosine():
    # Cosines with (1, 0): 3/5, 1, -1 and 0. Unit vectors: (3/5, 4/5) and (1, 0).
    x = [[3, 4], [7, 0], [-2, 0], [0, 9]]
    near(rules.fltrust(x, root=[2, 0]), 2 * np.array([0.6 * 0.6 + 1, 0.6 * 0.8]) / 1.6)


def test_nobody_is_trusted():
    near(rules.fltrust([[-1, 0], [0, 0], [0, 5]], root=[2, 0]), [0, 0])


def test_krum_by_hand():
    # Squared distances: 0-1: 1, 0-2: 16, 0-3: 10000, 1-2: 9, 1-3: 9801, 2-3: 9216.
    # Two nearest others with f = 0: 17, 10, 25, 19017; the nearest one with f = 1: 1, 1, 9, 9216.
    x = [[0], [1], [4], [100]]
    near(rules.krum(x, bad=0), [1])
    near(rules.krum(x, bad=1), [0])
    near(rules.multi_krum(x, bad=1), [5 / 3])
    near(rules.multi_krum(x, bad=0, keep=2), [0.5])
    near(rules.multi_krum(x, bad=0, keep=4), rules.fedavg(x))


def test_the_first_of_equal_scores_is_kept():
    x = [[3, 0], [0, 3], [-3, 0], [0, -3]]
    for shift in range(4):
        rolled = np.roll(x, shift, axis=0)
        near(rules.krum(rolled, bad=1), rolled[0])


def test_scores_of_large_whole_numbers_are_exact():
    # Squared distances 2^58 + 1 (0-1) and 2^58 (1-2): float64 would take them for equal, and the
    # first vector for the best.
    x = np.array([[2.0**29, 1], [0, 0], [-(2.0**29), 0]])
    near(rules.krum(x, bad=0), [0, 0])


def test_medians_and_trimmed_means():
    x = [[5, 1], [1, 2], [3, 90], [2, 4]]
    near(rules.median(x[:3]), [3, 2])
    near(rules.median(x), [2.5, 3])
    near(rules.trimmed_mean(x, trim=1), [2.5, 3])
    near(rules.trimmed_mean(x, trim=0), rules.fedavg(x))


def test_like_vectors_count_less():
    # The cosine of the first two is 0.6; the third is at a right angle to the first, 0.8 from the second.
    x = [[1, 0], [3, 4], [0, 2]]
    weights = np.array([0.4, 0.2, 0.2])
    assert np.abs(rules.cosine(x) - weights @ x / weights.sum()).max() < 1e-6


@pytest.mark.parametrize("name", ["fedavg", "weighted", "clipped", "fltrust", "median", "cosine"])
def test_one_vector_is_its_own_mean(name):
    x = np.array([[3.0, 4.0]])
    expected = x[0] * np.sqrt(5) / 5 if name == "fltrust" else x[0]
    # FLTrust gives it the norm of the root, (1, 2).
    near(RULES[name](x), expected)


def test_vectors_of_zeros():
    zeros = np.zeros((4, 3))
    for rule in RULES.values():
        near(rule(zeros), np.zeros(3))
    # In the rule for cosines they count, at a right angle to everything; in FLTrust they do not.
    near(rules.cosine([[0, 0], [2, 4]]), [1, 2])
    near(rules.fltrust([[0, 0], [2, 4]], root=[1, 2]), [1, 2])


def test_equal_vectors_count_nothing():
    near(rules.cosine([[3, 4]] * 5), [0, 0])


@pytest.mark.parametrize("name", RULES)
def test_the_last_party_counts(name):
    x = np.array([[10.0, 2], [12, 1], [11, 3], [13, 2], [9, 4]])
    others = [x.copy() for _ in range(2)]
    # The median and Krum see it where it passes the others, or comes to lie among them.
    others[0][-1] = [11, 2]
    others[1][-1] = [90, -70]
    assert any(not np.array_equal(RULES[name](x), RULES[name](other)) for other in others)


# Laws.


@pytest.mark.parametrize("name", RULES)
@given(x=vectors(4), order=st.randoms(use_true_random=False))
def test_the_order_of_parties_does_not_matter(name, x, order):
    if "krum" in name:
        # Of equal scores the first one is less; two nearest vectors always have equal ones.
        assume(len(set(scores(x, 1))) == len(x))
    rows = list(range(len(x)))
    order.shuffle(rows)
    near(RULES[name](x[rows]), RULES[name](x))


def scores(x, bad):
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    return [np.sort(np.delete(row, place))[: len(x) - bad - 2].sum() for place, row in enumerate(squares)]


@given(x=vectors(4), factor=st.sampled_from([1e-170, 0.25, 3.0, 1e30, 1e110]))
def test_results_scale_with_the_vectors(x, factor):
    for name in ("fedavg", "weighted", "krum", "multi_krum", "median", "trimmed_mean", "cosine"):
        np.testing.assert_allclose(RULES[name](x * factor) / factor, RULES[name](x), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(
        rules.clipped(x * factor, clip=100 * factor) / factor,
        rules.clipped(x, clip=100),
        rtol=1e-9,
        atol=1e-6,
    )


@given(x=vectors(), row=st.integers(0, 6), factor=st.sampled_from([1e-150, 1e-3, 7.0, 1e110]))
def test_fltrust_ignores_lengths_but_the_roots(x, row, factor):
    longer = x.copy()
    longer[row % len(x)] *= factor
    near(RULES["fltrust"](longer), RULES["fltrust"](x))
    root = np.arange(1, x.shape[1] + 1)
    near(rules.fltrust(x, root=5 * root), 5 * rules.fltrust(x, root=root))


@given(x=vectors())
def test_fltrust_ignores_opposite_vectors(x):
    root = np.arange(1, x.shape[1] + 1)
    opposite = x @ root < 0
    expected = np.zeros(x.shape[1]) if opposite.all() else rules.fltrust(x[~opposite], root=root)
    near(rules.fltrust(x, root=root), expected)
    assert np.linalg.norm(rules.fltrust(x, root=root)) <= np.linalg.norm(root) * (1 + 1e-9)


@given(x=vectors(3), bad=st.integers(0, 4))
def test_krum_picks_an_update_with_the_least_score(x, bad):
    assume(len(x) >= bad + 3)
    found = rules.krum(x, bad=bad)
    all_scores = scores(x, bad)
    assert any(np.array_equal(found, row) for row in x[np.array(all_scores) == min(all_scores)])
    assert np.array_equal(rules.multi_krum(x, bad=bad, keep=1), found)


@given(x=vectors(), trim=st.integers(0, 3))
def test_medians_are_between_least_and_most(x, trim):
    assume(2 * trim < len(x))
    for found in (rules.median(x), rules.trimmed_mean(x, trim=trim)):
        assert (x.min(axis=0) - 1e-9 <= found).all()
        assert (found <= x.max(axis=0) + 1e-9).all()
    near(rules.median(x), np.median(x, axis=0))


@given(x=vectors(3), far=st.sampled_from([-1e9, 1e9]))
def test_one_far_vector_does_not_carry_the_median_away(x, far):
    bent = x.copy()
    bent[-1] = far
    for found in (rules.median(bent), rules.trimmed_mean(bent, trim=1)):
        assert (np.abs(found) <= 1000).all()


@given(x=vectors(), clip=st.floats(0.5, 3000))
def test_a_clipped_mean_is_no_longer_than_the_clip(x, clip):
    found = rules.clipped(x, clip=clip)
    assert np.linalg.norm(found) <= clip * (1 + 1e-9)
    long = np.linalg.norm(x, axis=1) > clip
    if not long.any():
        near(found, rules.fedavg(x))
    # Each vector by itself is shortened to the clip.
    for row in x[long]:
        assert np.linalg.norm(rules.clipped(row[None], clip=clip)) == pytest.approx(clip)


@given(x=vectors())
def test_the_mean_of_unlike_vectors_is_among_them(x):
    found = rules.cosine(x)
    # Where no vector counts it is zero.
    if found.any():
        assert (x.min(axis=0) - 1e-6 <= found).all()
        assert (found <= x.max(axis=0) + 1e-6).all()


@given(copies=st.integers(2, 50), length=st.floats(0.1, 10))
def test_copies_hardly_count(copies, length):
    found = rules.cosine([[0, 3], *[[length, 0]] * copies])
    assert np.abs(found - [0, 3]).max() < 1e-4


# What is refused.


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("updates", "says"),
    [
        ([1.0, 2.0], "needs shape"),
        (np.zeros((0, 3)), "needs shape"),
        (np.zeros((3, 0)), "needs shape"),
        ([[1.0], [np.nan], [1.0], [1.0]], "not number 1"),
        ([[1.0], [1.0], [np.inf], [1.0]], "not number 2"),
        ([[1e130], [1.0], [1.0], [1.0]], "not number 0"),
        ([[True], [False], [True], [True]], "not bool"),
        ([[1j], [1.0], [1.0], [1.0]], "not complex128"),
        ([[1.0], [1.0, 2.0]], "needs an array"),
    ],
)
def test_updates_are_refused_by_name(name, updates, says):
    rule = getattr(rules, name)
    options = {
        "weighted": {"weights": [1]},
        "clipped": {"clip": 1},
        "fltrust": {"root": [1]},
        "krum": {"bad": 0},
        "multi_krum": {"bad": 0},
        "trimmed_mean": {"trim": 0},
    }
    with pytest.raises(bs.InputError, match=f"updates: {name} .*{says}"):
        rule(updates, **options.get(name, {}))


@pytest.mark.parametrize(
    ("name", "options", "error", "says"),
    [
        ("weighted", {"weights": [1, 2]}, bs.InputError, "weights: weighted needs n = 4 numbers"),
        (
            "weighted",
            {"weights": [1, 2, 0, 1]},
            bs.ConfigError,
            "weights: 0, but weighted needs each weight > 0",
        ),
        ("clipped", {"clip": 0}, bs.ConfigError, "clip: 0, but clipped needs clip > 0"),
        ("clipped", {"clip": -2.5}, bs.ConfigError, "clip: -2.5, but clipped needs clip > 0"),
        ("clipped", {"clip": np.inf}, bs.ConfigError, "clip: inf must be a finite number"),
        ("fltrust", {"root": [0, 0]}, bs.ConfigError, "root: norm 0, but fltrust needs norm > 0"),
        ("fltrust", {"root": [1]}, bs.InputError, "root: fltrust needs D = 2 numbers"),
        (
            "krum",
            {"bad": 2},
            bs.ConfigError,
            "bad: 2, but krum needs a whole number with bad >= 0 and n >= bad",
        ),
        ("krum", {"bad": -1}, bs.ConfigError, "bad: -1, but krum needs"),
        ("krum", {"bad": 0.5}, bs.ConfigError, "bad: 0.5, but krum needs"),
        ("multi_krum", {"bad": 2}, bs.ConfigError, "bad: 2, but multi_krum needs"),
        (
            "multi_krum",
            {"bad": 1, "keep": 0},
            bs.ConfigError,
            "keep: 0, but multi_krum needs .* 1 <= keep <= n = 4",
        ),
        ("multi_krum", {"bad": 1, "keep": 5}, bs.ConfigError, "keep: 5, but multi_krum needs"),
        (
            "trimmed_mean",
            {"trim": 2},
            bs.ConfigError,
            "trim: 2, but trimmed_mean needs .* 2 \\* trim < n = 4",
        ),
        ("trimmed_mean", {"trim": True}, bs.ConfigError, "trim: True, but trimmed_mean needs"),
    ],
)
def test_options_are_refused_by_name(name, options, error, says):
    with pytest.raises(error, match=says):
        getattr(rules, name)([[1, 2], [3, 4], [5, 6], [7, 9]], **options)


def test_too_few_vectors_for_krum():
    with pytest.raises(bs.ConfigError, match=r"bad: 0, but krum needs .* n = 2"):
        rules.krum([[1], [2]], bad=0)
