"""Three servers that compute rules, compared with :mod:`blindsum.rules` on the same whole numbers."""

import json
import threading
from itertools import pairwise

import numpy as np
import pytest

import blindsum as bs
from blindsum import rules
from blindsum.cli import main

PARTIES, DIM, BITS = 6, 12, 12
TOP = 2**BITS - 2
"""The last level of rounding to nearest; the middle one stands for 0."""
CLIP = 2.0
ADVERSARIES = ("semi-honest", "active")
RULES = (
    "fedavg",
    "clipped",
    "fltrust",
    "krum",
    "multi-krum",
    "median",
    "trimmed-mean",
    "cosine",
)
"""Rules whose options follow from the job, all but `weighted`."""


def spec(rule="fltrust", **changes):
    fields = {
        "protocol": "mpc3",
        "rule": rule,
        "parties": PARTIES,
        "dim": DIM,
        "bits": BITS,
        "clip": CLIP,
        "clipping": "l2",
        "rounding": "nearest",
    }
    return bs.JobSpec.from_settings(list((fields | changes).items()))


def updates(count=PARTIES, seed=1, dim=DIM):
    """Vectors of different norms below the clip, around a common direction."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, dim)) + 1.5
    lengths = rng.uniform(0.2, 0.95, (count, 1)) * CLIP
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * lengths


def sorts(rule):
    return rule in ("median", "trimmed-mean")


def numbers(rule, given):
    """What the servers compute with, of updates within the clip."""
    levels = np.rint(given * (TOP / 2 / CLIP) + TOP / 2).astype(np.int64)
    return levels - TOP // 2 if sorts(rule) else 2 * levels - TOP


def coordinates(rule, found):
    """Numbers of the servers as coordinates of updates, and how large one is."""
    factor, offset = (2 / TOP if sorts(rule) else 1 / TOP), 0.0
    return CLIP * (found * factor + offset), CLIP * factor


def longest_of(whole):
    """B, of vectors that are clipped to an L2 norm."""
    return TOP + int(np.ceil(2 * np.sqrt(whole.shape[1])))


def in_the_clear(rule, given, *, bad=1, norm=None):
    """What the servers' mean must be, and how far it may be from that. The last vector is the root."""
    whole = numbers(rule, given)
    longest = longest_of(whole)
    exponent = max((6 * longest - 1).bit_length() + 3, 15)
    clip = longest if norm is None else round(norm / CLIP * TOP)
    options = {
        "clipped": {"clip": clip},
        "fltrust": {"root": whole[-1]},
        "krum": {"bad": bad},
        "multi-krum": {"bad": bad},
        "trimmed-mean": {"trim": bad},
    }.get(rule, {})
    name = rule.replace("-", "_")
    others = whole[:-1] if rule == "fltrust" else whole
    mean, one = coordinates(rule, getattr(rules, name)(others, **options))
    bound = rules.error_bound(name, others, exponent=exponent, **options)
    return mean, bound * one + 1e-12 * CLIP


def assert_right(result, rule, given, **options):
    mean, bound = in_the_clear(rule, given, **options)
    assert (result.outcome, result.survivors) == ("sum", len(given))
    assert np.abs(result.mean - mean).max() <= bound
    assert bound < 0.01 * CLIP


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_that_in_the_clear(rule, adversary):
    given = updates()
    result = bs.simulate(spec(rule, adversary=adversary), given)
    assert_right(result, rule, given)
    assert result.exact
    rounds = {server.server_rounds for server in result.servers}
    assert len(rounds) == 1
    assert (rounds == {3}) == (rule == "fedavg")


def test_rules_differ():
    given = updates()
    means = [in_the_clear(rule, given)[0] for rule in RULES if rule != "clipped"]
    assert all(np.abs(one - other).max() > 0.01 for one, other in pairwise(means))


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_weights_of_the_parties(adversary):
    given, weights = updates(), [1, 2, 3, 4, 5, 6]
    result = bs.simulate(spec("weighted", max_weight=6, adversary=adversary), given, weights=weights)
    mean, one = coordinates("weighted", rules.weighted(numbers("weighted", given), weights))
    # Here levels are those of the weighted value: finer ones.
    assert np.abs(result.mean - mean).max() <= one


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("clipped", {"norm": 0.7}),
        ("krum", {"bad": 2}),
        ("multi-krum", {"bad": 3}),
        ("trimmed-mean", {"bad": 1}),
        ("fltrust", {"truncation": "exact"}),
        ("cosine", {"truncation": "exact"}),
    ],
)
def test_options_of_rules(rule, options, adversary):
    given = updates(seed=3)
    result = bs.simulate(spec(rule, adversary=adversary, **options), given)
    shown = {name: value for name, value in options.items() if name != "truncation"}
    assert_right(result, rule, given, **shown)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_hidden_sum_of_trust(adversary):
    given = updates()
    shown = bs.simulate(spec(adversary=adversary), given)
    hidden = bs.simulate(spec(adversary=adversary, trust="hidden"), given)
    assert np.abs(hidden.mean - shown.mean).max() <= 2 * hidden.error_bound
    assert hidden.servers[0].server_rounds == shown.servers[0].server_rounds + 23


def test_the_last_bits_of_a_weighted_sum_are_drawn_anew():
    given = updates()
    for truncation in ("exact", "probabilistic"):
        job = spec("cosine", truncation=truncation)
        results = [bs.simulate(job, given, seed=seed) for seed in (1, 2)]
        assert all(result.exact for result in results)
        assert not np.array_equal(*(result.mean for result in results))


@pytest.mark.parametrize("rule", RULES)
def test_parties_that_vanish(rule):
    given = updates(8)
    result = bs.simulate(spec(rule, parties=8, dropout=0.25), given, drop=0.25)
    assert (result.outcome, result.survivors, result.exact) == ("sum", 6, True)
    assert result.max_abs_error <= CLIP


def test_a_vector_that_points_elsewhere_counts_nothing():
    given = updates()
    given[0] = -given[-1]
    trusted = bs.simulate(spec(), given)
    assert_right(trusted, "fltrust", given)
    without = in_the_clear("fltrust", given[1:])
    assert np.abs(trusted.mean - without[0]).max() <= 2 * without[1]


def test_noise_is_as_large_as_the_job_says():
    job = spec("fedavg", dim=2000, noise=0.5, clipping="l2")
    result = bs.simulate(job, np.zeros((PARTIES, 2000)))
    # Three components of half of the longest vector, over all parties; levels next to 0 come on top.
    expected = np.sqrt(3) * 0.5 * CLIP / PARTIES
    assert 0.9 < result.mean.std() / expected < 1.1
    again = bs.simulate(job, np.zeros((PARTIES, 2000)), seed=5)
    assert not np.array_equal(result.mean, again.mean)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"rule": "mean"}, "protocol.rule"),
        ({"norm": 0.5}, "protocol.norm"),
        ({"rule": "clipped", "norm": 2.5}, "protocol.norm"),
        ({"rule": "clipped", "norm": -1.0}, "protocol.norm"),
        ({"bad": 1}, "protocol.bad"),
        ({"rule": "median", "root": "hospital"}, "protocol.root"),
        ({"root": ""}, "protocol.root"),
        ({"root": "No Name"}, "protocol.root"),
        ({"rule": "krum", "trust": "hidden"}, "protocol.trust"),
        ({"noise": 0.5}, "protocol.noise"),
        ({"rule": "fedavg", "noise": 1e-9}, "protocol.noise"),
        ({"rule": "clipped", "noise": 1e5, "bits": 22}, "protocol.noise"),
        ({"truncation": "sometimes"}, "protocol.truncation"),
        ({"rule": "weighted"}, "encoding.max_weight"),
        ({"max_weight": 2}, "encoding.max_weight"),
        ({"rule": "clipped", "clipping": "aciq"}, "encoding.clipping"),
        ({"bits": 24}, "encoding.bits"),
        ({"clipping": "tensor", "bits": 23}, "encoding.bits"),
        ({"rule": "krum", "bad": 4}, "protocol.bad"),
        ({"rule": "trimmed-mean", "bad": 3}, "protocol.bad"),
        ({"rule": "krum", "parties": 49, "min_parties": 40}, "parties"),
        ({"rule": "krum", "min_parties": 3}, "min_parties"),
        ({"min_parties": 3}, "min_parties"),
        ({"rule": "cosine", "tensors": [{"name": "", "len": 12, "clip": 1.0}]}, "encoding.tensors"),
    ],
)
def test_what_no_job_can_say(changes, field):
    with pytest.raises(bs.ConfigError) as caught:
        spec(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize("encoding", ["fixed64", "integers"])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "fedavg"])
def test_rules_that_compute_take_levels_only(rule, encoding):
    fields = {"protocol": "mpc3", "parties": PARTIES, "dim": DIM, "rule": rule, "encoding": encoding}
    with pytest.raises(bs.ConfigError) as caught:
        bs.JobSpec.from_settings(list(fields.items()))
    assert caught.value.field == "encoding"
    assert f"must be quantised with rule = {rule}" in str(caught.value)


def test_simulate_prints_the_usual_object(capsys):
    words = ["simulate", "--protocol", "mpc3", "--rule", "fltrust", "--adversary", "active", "--json"]
    assert main([*words, "--parties", "5", "--dim", "20", "--clipping", "l2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["protocol"], report["outcome"], report["exact"]) == ("mpc3", "sum", True)
    assert report["survivors"] == 5
    assert 0 <= report["max_abs_error"] <= report["error_bound"] < 0.1
    assert [server["name"] for server in report["servers"]] == [
        "coordinator",
        "second server",
        "third server",
    ]
    for server in report["servers"]:
        assert server["server_rounds"] == report["servers"][0]["server_rounds"] > 30
        assert server["server_ms"] > 0
        assert server["server_bytes"] > 1_000_000


def played(place, job, given):
    """The means that parties of these names and updates learn over the network."""
    means = {}

    def take_part(coordinator, name):
        with place.join(coordinator, name) as session:
            for current in session.rounds():
                current.submit(given[name])
                means[name] = current.result()

    with place.coordinator(job) as coordinator:
        parties = [threading.Thread(target=take_part, args=(coordinator, name)) for name in given]
        for party in parties:
            party.start()
        for party in parties:
            party.join(60.0)
    return means


def assert_learned(means, rule, given):
    """Parties learn what the rule makes of the updates, wherever the root is among them."""
    rows = [given[name] for name in sorted(given, key=lambda name: name == "hospital")]
    mean, bound = in_the_clear(rule, np.array(rows))
    assert set(means) == set(given)
    for found in means.values():
        assert np.abs(found - mean).max() <= bound + 1e-6 * CLIP


NAMES = ("alpha", "bravo", "hospital", "yankee", "zulu")


def test_over_the_network_parties_learn_what_the_rule_makes(place):
    job = spec(
        adversary="semi-honest", parties=5, dim=14_000, root="hospital", job="job", stage_deadline=20.0
    )
    given = dict(zip(NAMES, updates(5, dim=14_000), strict=True))
    assert_learned(played(place, job, given), "fltrust", given)


@pytest.mark.parametrize("rule", ["fltrust", "median"])
def test_over_the_network_with_letters_larger_than_vectors(place, rule):
    options = {"root": "hospital"} if rule == "fltrust" else {}
    job = spec(rule, parties=5, job="job", stage_deadline=20.0, **options)
    given = dict(zip(NAMES, updates(5), strict=True))
    assert_learned(played(place, job, given), rule, given)


def test_a_clipped_mean_does_not_show_the_only_vector_that_is_clipped():
    given = updates(seed=5)
    lengths = np.linalg.norm(given, axis=1)
    result = bs.simulate(spec("clipped", norm=float(np.sort(lengths)[-2:].mean())), given)
    longest = numbers("clipped", given[lengths.argmax()])
    # Σ weight · x, where weights have 28 bits behind the point and are 1 but for one.
    shown = np.rint(result.mean / CLIP * TOP * PARTIES * 2.0**28).astype(np.int64)
    low = [int(number) % 2**28 for number in shown]
    zeros = min((number & -number).bit_length() - 1 for number in low)
    modulus = 2 ** (28 - zeros)
    low = [number >> zeros for number in low]
    known = next(place for place, number in enumerate(low) if number % 2)
    ratios = np.array([number * pow(low[known], -1, modulus) % modulus for number in low])
    for first in range(-TOP, TOP + 1, 2):
        guess = (ratios * first + modulus // 2) % modulus - modulus // 2
        assert not np.array_equal(guess, longest)
