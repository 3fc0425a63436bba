"""0 is a level of rounding to nearest: in every protocol, rule and weight what is 0 stays 0."""

import numpy as np
import pytest

import blindsum as bs

RULES = {
    "fltrust": {"root": "party-0"},
    "krum": {},
    "multi-krum": {},
    "cosine": {},
    "median": {},
    "trimmed-mean": {},
    "clipped": {},
    "weighted": {"max_weight": 9},
}


def job(protocol, bits, **fields):
    given = {"parties": 7, "dim": 60, "clip": 1.0, "bits": bits, "rounding": "nearest"}
    return bs.JobSpec.from_settings(list(({"protocol": protocol} | given | fields).items()))


@pytest.mark.parametrize("bits", [2, 4, 16])
@pytest.mark.parametrize("protocol", bs.protocols())
def test_the_mean_of_zeros_is_zero(protocol, bits):
    zeros = np.zeros((7, 60))
    zeros[1::2] = -0.0
    result = bs.simulate(job(protocol, bits), zeros)
    assert result.exact
    assert not result.mean.view(np.uint64).any()


@pytest.mark.parametrize("weights", [[1, 2, 3, 4, 5, 6, 7], [9, 1, 1, 1, 1, 1, 1]])
@pytest.mark.parametrize("protocol", ["plain", "secagg", "fssa", "pss", "flashe", "mpc3"])
def test_the_mean_of_zeros_is_zero_with_weights(protocol, weights):
    result = bs.simulate(job(protocol, 4, max_weight=9), np.zeros((7, 60)), weights=weights)
    assert not result.mean.view(np.uint64).any()


@pytest.mark.parametrize("clipping", ["l2", "tensor"])
@pytest.mark.parametrize("rule", RULES)
def test_the_result_of_every_rule_for_zeros_is_zero(rule, clipping):
    result = bs.simulate(job("mpc3", 8, rule=rule, clipping=clipping, **RULES[rule]), np.zeros((7, 60)))
    assert result.exact
    # Where weights are hidden, random bits behind the point are shown with them. They have no sign.
    step = 2 / 254
    assert np.abs(result.mean).max() <= min(result.error_bound or 0, 0.15 * step)
    assert abs(result.mean.mean()) < 0.05 * step


def test_a_root_of_zeros_lets_nothing_through():
    updates = np.random.default_rng(1).normal(0, 0.1, (7, 60))
    # A simulation's last party is the root.
    updates[-1] = 0
    result = bs.simulate(job("mpc3", 8, rule="fltrust", root="root", clipping="l2"), updates)
    assert result.exact
    assert np.abs(result.mean).max() < 1e-9


@pytest.mark.parametrize("fields", [{"clipping": "l2"}, {"max_norm": 3.0}, {"clipping": "aciq"}])
def test_zeros_stay_zeros_whatever_bounds_them(fields):
    result = bs.simulate(job("secagg", 8, **fields), np.zeros((7, 60)), rounds=3)
    assert not result.mean.view(np.uint64).any()


def test_one_bit_is_refused():
    with pytest.raises(bs.SpecError, match="bits"):
        job("plain", 1)


def test_the_error_is_that_of_its_levels():
    spec = job("plain", 4)
    assert spec.max_error == pytest.approx(1 / 14, rel=1e-6)
    edge = np.full((7, 60), 1 / 14)
    assert np.abs(bs.simulate(spec, 0.999 * edge).mean).max() == 0
    assert bs.simulate(spec, 1.001 * edge).mean == pytest.approx(1 / 7)
