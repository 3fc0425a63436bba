"""What servers compute stays as near to the rules in the clear as the stated bounds say."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers_model import ONE, Servers

import blindsum as bs
from blindsum import rules

WAYS = {
    "down": lambda _: lambda: False,
    "up": lambda _: lambda: True,
    "random": lambda r: lambda: r.random() < 0.5,
}


@st.composite
def cases(draw):
    """An exponent, vectors with norms below 2^exponent, and how truncations are rounded."""
    exponent = draw(st.sampled_from([15, 16, 20, 29, 30]))
    n, length = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    top = int((2**exponent - 1) / math.sqrt(length))
    rows = []
    for _ in range(n):
        size = draw(st.sampled_from([0, 1, 3, 100, top]))
        kind = draw(st.sampled_from(["any", "along", "again"]))
        if kind == "again" and rows:
            rows.append(rows[-1])
        elif kind == "along":
            rows.append([min(size, top)] + [0] * (length - 1))
        else:
            rows.append(draw(st.lists(st.integers(-size, size), min_size=length, max_size=length)))
    return exponent, rows, WAYS[draw(st.sampled_from(sorted(WAYS)))](draw(st.randoms(use_true_random=False)))


def apart(found, expected):
    return float(np.abs(found - expected).max())


@settings(max_examples=400)
@given(case=cases(), part=st.sampled_from([0.0, 1e-3, 0.3, 1.0]))
def test_clipped(case, part):
    exponent, rows, up = case
    clip = max(1, int((2**exponent - 1) * part))
    found = Servers(exponent, up).clipped(rows, clip)
    bound = rules.error_bound("clipped", rows, exponent=exponent, clip=clip)
    assert apart(found, rules.clipped(rows, clip)) <= bound
    assert bound <= clip * 2.0**-20 + 2.0 ** (exponent - 24) + 1.5


@settings(max_examples=400)
@given(
    case=cases(),
    root=st.lists(st.integers(-9, 9), min_size=5, max_size=5),
    factor=st.sampled_from([1e-6, 1, 1e9]),
)
def test_fltrust(case, root, factor):
    exponent, rows, up = case
    root = [factor * (x or 0.5) for x in root[: len(rows[0])]]
    found = Servers(exponent, up).fltrust(rows, root)
    bound = rules.error_bound("fltrust", rows, exponent=exponent, root=root)
    assert apart(found, rules.fltrust(rows, root)) <= bound


@settings(max_examples=400)
@given(case=cases())
def test_cosine(case):
    exponent, rows, up = case
    found = Servers(exponent, up).cosine(rows)
    assert apart(found, rules.cosine(rows)) <= rules.error_bound("cosine", rows, exponent=exponent)


@pytest.mark.parametrize("way", WAYS)
def test_weights_of_equal_vectors_are_above_zero(way):
    # Over a whole octave of norms; the model asserts it.
    up = WAYS[way](random.Random(1))
    for value in range(2**14, 2**15, 37):
        assert apart(Servers(15, up).cosine([[value], [value]]), [0]) == 0


def test_the_inverse_root_is_within_its_stated_bounds():
    coin = random.Random(2)
    for up in (WAYS[way](coin) for way in WAYS):
        for step in range(3000):
            n = (2**58 + step * (3 * 2**58 // 3000)) | 1
            y, place = Servers(30, up).inverse_root(n)
            off = y / ONE * math.sqrt(n / 4**place) - 1
            assert -(2.0**-20) < off < 6 * 2.0**-28


def test_bounds_are_small_where_there_is_something_to_see():
    x = np.random.default_rng(5).integers(-(2**12), 2**12, size=(9, 50))
    root = x[0] + x[1]
    longest = float(np.linalg.norm(x, axis=1).max())
    assert rules.error_bound("clipped", x, exponent=20, clip=10_000) < 1e-6 * longest + 1.5 / 9
    assert rules.error_bound("fltrust", x, exponent=20, root=root) < 1e-5 * float(np.linalg.norm(root)) + 1.5
    assert rules.error_bound("cosine", x, exponent=20) < 1e-5 * longest + 0.5


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("fedavg", {}),
        ("weighted", {"weights": [1, 2, 3]}),
        ("krum", {"bad": 0}),
        ("multi_krum", {"bad": 0}),
        ("multi_krum", {"bad": 0, "keep": 2}),
        ("median", {}),
        ("trimmed_mean", {"trim": 1}),
    ],
)
def test_other_rules_are_exact(rule, options):
    x = [[3, 4], [2**29, 1], [5, -(2**29)]]
    assert 0 < rules.error_bound(rule, x, exponent=30, **options) < 1e-5


@pytest.mark.parametrize(
    ("rule", "updates", "options", "error", "says"),
    [
        ("mean", [[1]], {}, bs.ConfigError, "rule: 'mean' must be one of fedavg, weighted"),
        ("fedavg", [[1.5]], {}, bs.InputError, "fedavg needs whole numbers"),
        ("fedavg", [[2**15]], {}, bs.InputError, "fedavg needs norms < 2\\*\\*15"),
        (
            "fedavg",
            [[1]],
            {"exponent": 14},
            bs.ConfigError,
            "exponent: 14, but fedavg needs .* 15 <= exponent <= 30",
        ),
        ("fedavg", [[1]], {"exponent": 31}, bs.ConfigError, "exponent: 31, but fedavg needs"),
        ("fedavg", [[1]], {"clip": 3}, bs.ConfigError, "clip: fedavg has no such option"),
        ("clipped", [[1]], {}, bs.ConfigError, "clip: clipped needs it"),
        ("clipped", [[1]], {"clip": 2.5}, bs.ConfigError, "clip: 2.5, but clipped needs a whole number"),
        (
            "clipped",
            [[1]],
            {"clip": 2**15},
            bs.ConfigError,
            "clip: 32768, but clipped needs .* 1 <= clip < 2",
        ),
        ("krum", [[1], [2], [3]], {"bad": 1}, bs.ConfigError, "bad: 1, but krum needs"),
        ("fltrust", [[1]], {"root": [0]}, bs.ConfigError, "root: norm 0, but fltrust needs"),
    ],
)
def test_what_has_no_bound_is_refused(rule, updates, options, error, says):
    with pytest.raises(error, match=says):
        rules.error_bound(rule, updates, **{"exponent": 15, **options})
