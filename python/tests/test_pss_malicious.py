"""Sums of proved vectors: who lies in a simulation is named, and jobs over mutual TLS."""

import json
import subprocess
import sys

import numpy as np
import pytest

import blindsum as bs
from blindsum.misbehaviours import MISBEHAVIOURS
from blindsum.options import Integers, Quantised

PARTIES = 20
PARTY_LIES = [lie for lie in MISBEHAVIOURS if lie not in ("equivocator", "mixed")]


def spec(**fields):
    encoding = Quantised(bits=10, max_norm=2.0)
    return bs.JobSpec(
        **{"protocol": "pss-malicious", "parties": PARTIES, "dim": 30, "encoding": encoding, **fields}
    )


def norm_alone(**fields):
    encoding = Quantised(bits=12, max_norm=1.0)
    return spec(**{"protocol": bs.PssMalicious(bound="l2"), "encoding": encoding, **fields})


@pytest.mark.parametrize("lie", PARTY_LIES)
@pytest.mark.parametrize("adversary", ["semi-honest", "active"])
@pytest.mark.parametrize("job", [spec, norm_alone])
def test_case_14_liars_are_named_and_nobody_else_is(lie, adversary, job):
    found = bs.simulate(job(adversary=adversary), malicious=2, misbehaviour=lie)
    assert found.exact
    assert len(found.excluded) == 2
    # Sums of columns that are wrong say nothing of their senders' vectors.
    assert found.survivors == (PARTIES if lie == "lying-aggregator" else PARTIES - 2)
    assert all(bool(one.evidence) == (lie != "silent-discloser") for one in found.excluded)


def test_case_14_lies_of_several_kinds_and_losses():
    found = bs.simulate(spec(), malicious=2, misbehaviour="mixed", drop=0.05)
    assert found.exact
    assert 1 <= len(found.excluded) <= 2


def test_where_the_norm_alone_is_bounded_the_tests_are_others():
    def test_of(lie, **fields):
        (found,) = bs.simulate(norm_alone(**fields), malicious=1, misbehaviour=lie).excluded
        return found.test

    # The squares of its words add up to the modulus and a little more.
    assert test_of("out-of-bound", dim=2_000) == "projection"
    assert test_of("non-bit") == "projection-bit"
    assert test_of("wrong-square") == "quadratic"
    assert test_of("wrong-norm") == "norm"


def test_norms_alone_bound_longer_vectors_with_more_bits():
    found = bs.simulate(norm_alone(dim=200_000, encoding=Quantised(bits=17, max_norm=1.0)))
    assert found.exact
    assert norm_alone().chosen["largest_projection"] > 0
    assert "largest_projection" not in spec().chosen


def test_five_parties_do_without_a_liar():
    # Fewer than five cannot outvote one, and four are left.
    job = spec(parties=5)
    assert (job.quorum, job.least_roster) == (4, 5)
    found = bs.simulate(job, malicious=1, misbehaviour="non-bit")
    assert found.exact
    assert found.survivors == 4
    with pytest.raises(bs.InputError, match="a round needs 5"):
        bs.simulate(job, [np.zeros(30)] * 4)


def test_case_20_a_coordinator_that_tells_two_challenges_gets_no_sum():
    found = bs.simulate(spec(), malicious=1, misbehaviour="equivocator")
    assert found.outcome == "abort"
    assert found.excluded == ()


def test_what_cannot_be_is_refused_by_its_rule():
    for fields, rule in [
        ({"misbehaviour": "shout"}, "misbehaviour: .* must be one of bad-degree"),
        ({"malicious": 21}, "malicious is 21 and must be at most parties = 20"),
        ({"malicious": -1}, "malicious"),
        (
            {"malicious": 0, "misbehaviour": "non-bit"},
            "misbehaviour: .*non-bit needs malicious of at least 1",
        ),
    ]:
        with pytest.raises(bs.ConfigError, match=rule):
            bs.simulate(spec(), **{"malicious": 1, **fields})
    with pytest.raises(bs.ConfigError, match="wrong-norm needs a job with max_norm"):
        bs.simulate(spec(encoding=Quantised()), malicious=1, misbehaviour="wrong-norm")
    with pytest.raises(bs.ConfigError, match="does not find corrupt parties"):
        bs.simulate(spec(protocol="pss"), malicious=1)
    for fields, rule in [
        ({"encoding": Quantised(max_weight=2)}, "max_weight = 2 must be 1"),
        ({"encoding": Integers(bits=33)}, "bits = 33 <= 32"),
        ({"protocol": bs.PssMalicious(bound="l2")}, "max_norm = 2 <= clip = 1 where bound is l2"),
        ({"protocol": bs.PssMalicious(bound="l2"), "encoding": Quantised()}, "max_norm must be above 0"),
        (
            {"protocol": bs.PssMalicious(bound="l2"), "encoding": Integers()},
            "bound = l2 needs the encoding quant",
        ),
        ({"protocol": bs.PssMalicious(bound="norm")}, "must be one of entries, l2"),
        (
            {"protocol": bs.PssMalicious(bound="l2"), "encoding": Quantised(bits=18, max_norm=1.0)},
            "148 \\* Y\\^2",
        ),
        (
            {"parties": 4},
            "with 1 corrupt party and 0 that may drop out, at least 5 parties are needed; there are 4",
        ),
        ({"dim": 200_000, "encoding": Quantised(max_norm=5.0)}, "largest square"),
    ]:
        with pytest.raises(bs.ConfigError, match=rule):
            spec(**fields)


def test_sums_of_integers_are_exact():
    rows = np.random.default_rng(0).integers(0, 2**16, (PARTIES, 30), dtype=np.uint64)
    found = bs.simulate(spec(encoding=Integers(bits=16)), list(rows), malicious=2, misbehaviour="non-bit")
    honest = [rank for rank in range(PARTIES) if rank not in {one.party for one in found.excluded}]
    assert found.sum.tolist() == rows[honest].sum(axis=0).tolist()


def test_from_the_shell():
    words = ["simulate", "--protocol", "pss-malicious", "--parties", "20", "--dim", "30", "--malicious", "2"]
    command = [sys.executable, "-m", "blindsum", *words, "--misbehaviour", "wrong-share"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["exact"]
    assert [one["test"] for one in report["excluded"]] == ["wrong-share"] * 2
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("misbehaved: wrong-share; ") == 2
