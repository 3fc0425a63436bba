"""Audits of jobs with noise: what a claim counts on is there, and a weakened run is found out."""

import math

import numpy as np
import pytest

from experiments import canaries, restarted
from experiments import privacy_audit_runs as runs
from experiments.canaries import Guesses
from experiments.privacy_audit_runs import Attack


def test_bounds_of_guesses_are_those_of_their_definition() -> None:
    """All of r guesses right refute ε while (e^ε / (1 + e^ε))^r is below 0.05, and δ lowers the bound."""
    assert canaries.lower_bound(Guesses(200, 100, 50), delta=0.0) == 0.0
    chance = 0.05 ** (1 / 100)
    exact = math.log(chance / (1 - chance))
    assert canaries.lower_bound(Guesses(200, 100, 100), delta=0.0) == pytest.approx(exact, abs=1e-5)
    assert canaries.lower_bound(Guesses(200, 100, 100), delta=1e-3) < exact
    assert canaries.lower_bound(Guesses(200, 100, 95), delta=0.0) < exact


def test_guesses_are_those_of_the_extremes() -> None:
    scores = np.array([0.9, 0.1, 0.5, 0.8, 0.2])
    coins = np.array([True, False, True, False, True])
    assert canaries.guess(scores, coins, made=5) == Guesses(canaries=5, made=4, right=2)


@pytest.mark.parametrize("protocol", ["secagg+", "fssa"])
@pytest.mark.parametrize("multiplier", [0.5, 1.0, 2.0])
def test_no_honest_run_is_found_out(protocol: str, multiplier: float) -> None:
    """With guesses that tell something: the bound of the least noise is above 0, and below the claim."""
    found = runs.audit(Attack(protocol, multiplier), parties=10, groups=60, seed=4)
    assert found.guesses.canaries == 420
    assert 0 < found.bound < found.epsilon


@pytest.mark.parametrize("protocol", ["secagg+", "fssa"])
def test_less_noise_is_found_out(protocol: str) -> None:
    """A job with a sixty-fourth of the variance, held against the claim of the one with all of it."""
    found = runs.audit(Attack(protocol, 2.0, weaker=8), parties=10, groups=40, seed=4)
    assert found.bound > found.epsilon


def test_a_larger_coalition_than_the_job_says_is_found_out() -> None:
    """The claim against all others is another one, and holds."""
    found = runs.audit(Attack("fssa", 2.0, others_known=True), parties=10, groups=60, seed=4)
    assert found.epsilon_alone is not None
    assert found.epsilon < found.bound < found.epsilon_alone


def test_repeats_count_once_each() -> None:
    """Four releases of noise 2 tell as much as one of noise 1: noise of other rounds is other noise."""
    found = runs.audit(Attack("fssa", 2.0, releases=4), parties=10, groups=25, seed=4)
    once = runs.claim(runs.job("fssa", 1.0, 10, 10))
    assert found.epsilon == pytest.approx(once.epsilon, abs=1e-3)
    assert found.bound < found.epsilon


@pytest.mark.parametrize("protocol", ["secagg", "secagg+", "fssa", "pss", "flashe"])
def test_noise_that_nobody_knows_is_what_the_claim_counts_on(protocol: str) -> None:
    """Whoever is lost, and when. One corrupt party too many is found out by the same test."""
    spec = runs.job(protocol, 1.0, parties=10, dim=3000)
    found = runs.losses(spec, rounds=1, seed=6)
    assert [one.event for one in found] == [runs.NOBODY, *spec.stages]
    assert all(one.spread.p > runs.LEAST_P for one in found)
    assert {one.survivors for one in found} == {8, 10} or protocol == "flashe"
    fewest = [one for one in runs.losses(spec, rounds=1, seed=6, more=1) if one.survivors == spec.quorum]
    assert fewest
    assert all(one.spread.p < runs.LEAST_P for one in fewest)


@pytest.mark.parametrize("protocol", ["secagg", "secagg+", "fssa", "pss", "flashe"])
def test_noise_is_there_after_the_coordinator_was_replaced(protocol: str) -> None:
    """Noise is random here: a right one fails in one of 10^8 runs. A sum without noise would be 0."""
    spec = runs.job(protocol, 1.0, parties=5, dim=2000, rounds=1, min_parties=4)
    assert runs.restarts(spec).spread.p > 1e-8


def test_a_party_that_sends_nothing_new_has_new_noise_with_a_new_coordinator() -> None:
    spec = runs.job("fssa", 1.0, parties=5, dim=2000, rounds=2, min_parties=4)
    first, second = restarted.totals(spec, lost=[4])
    assert abs(float(np.corrcoef(first, second)[0, 1])) < 6 / math.sqrt(spec.dim)
