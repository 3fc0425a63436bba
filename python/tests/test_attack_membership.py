"""Membership inference on released means, and the bounds that noise puts on it."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from blindsum.attack import membership
from blindsum.attack.membership import INSIDER, OUTSIDER, play
from blindsum.demo import digits

TRAIN, _ = digits.load(7)


def games(parties, multiplier, trials):
    found = play(TRAIN, parties, multiplier, trials, seed=7)
    assert [game.attacker for game in found] == [OUTSIDER, INSIDER]
    return found


def rate_of(game, false):
    return next(rate for rate in game.rates if rate.false == false)


def test_the_mean_of_two_parties_tells_whether_an_image_is_in_it():
    outsider, insider = games(2, 0.0, 60)
    assert outsider.auc > 0.95
    assert insider.auc == 1.0
    assert rate_of(insider, 0.05).true == 1.0
    assert outsider.epsilon is None
    assert rate_of(outsider, 0.05).allowed is None


def test_other_parties_hide_an_image_from_an_outsider_only():
    outsider, insider = games(16, 0.0, 60)
    assert outsider.auc < 0.9
    assert insider.auc == 1.0


@pytest.mark.parametrize("multiplier", [0.5, 2.0])
def test_noise_bounds_every_attacker_and_the_one_who_knows_all_else_comes_close(multiplier):
    found = games(2, multiplier, 250)
    for game in found:
        deviation = (game.high - game.low) / (2 * 1.96)
        # Noise of both parties is in the mean; the claim counts on one.
        assert game.expected < game.gaussian
        assert game.auc < game.expected + 4 * deviation
        for rate in game.rates:
            assert rate.low <= rate.gaussian_high
            assert rate.gaussian <= rate.allowed + 1e-12
    insider = found[1]
    deviation = (insider.high - insider.low) / (2 * 1.96)
    assert insider.auc > insider.expected - 4 * deviation - 0.01


def test_less_noise_than_claimed_would_be_seen():
    insider, claimed = games(2, 0.25, 100)[1], 2.0
    assert insider.low > membership.gaussian_area(1 / claimed)
    rate = rate_of(insider, 0.05)
    assert rate.low > membership.most_by_noise(claimed, rate.false_high)


def test_the_same_seed_gives_the_same_game():
    assert games(2, 1.0, 20) == games(2, 1.0, 20)


# The numbers.


def test_the_area_is_that_of_scikit_learn():
    rng = np.random.default_rng(3)
    absent, present = rng.normal(0, 1, 300).round(1), rng.normal(0.7, 1, 300).round(1)
    auc, low, high = membership.area(absent, present)
    truth = np.repeat([0, 1], 300)
    assert auc == pytest.approx(roc_auc_score(truth, np.concatenate([absent, present])))
    assert low < auc < high
    assert high - low == pytest.approx(0.08, abs=0.02)


def test_intervals_of_areas_hold_as_often_as_they_say():
    rng = np.random.default_rng(4)
    expected = membership.gaussian_area(1.0)
    held = [
        low <= expected <= high
        for _, low, high in (
            membership.area(rng.normal(0, 1, 100), rng.normal(1, 1, 100)) for _ in range(400)
        )
    ]
    assert 0.91 < np.mean(held) < 0.98


def test_intervals_of_rates_are_those_of_wilson():
    low, high = membership.wilson(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert membership.wilson(0, 20)[0] == pytest.approx(0, abs=1e-12)
    assert membership.wilson(20, 20)[1] == pytest.approx(1)


def test_what_epsilon_and_delta_allow():
    assert membership.most_by_epsilon(0.0, 0.0, 0.05) == pytest.approx(0.05)
    assert membership.most_by_epsilon(1.0, 0.0, 0.05) == pytest.approx(math.e * 0.05)
    assert membership.most_by_epsilon(1.0, 0.01, 0.05) == pytest.approx(math.e * 0.05 + 0.01)
    # Where false alarms are many, the other inequality is tighter.
    assert membership.most_by_epsilon(1.0, 0.0, 0.9) == pytest.approx(1 - 0.1 / math.e)


def test_false_alarms_in_trials_to_come_may_be_more():
    rng = np.random.default_rng(6)
    absent = rng.normal(0, 1, 100)
    claim = membership.job(2, 1.0).privacy_after(1)
    one, five = membership._rates(absent, absent + 10, claim)
    assert (one.false, five.false) == (0.01, 0.05)
    assert 0.03 < one.false_high < 0.08
    assert 0.08 < five.false_high < 0.15
    assert one.gaussian_high > one.gaussian
