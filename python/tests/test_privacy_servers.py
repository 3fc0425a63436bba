"""Noise that the servers of mpc3 add for a guarantee: what it claims, and sums that have it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main

RULES = ["fedavg", "clipped"]
ADVERSARIES = ["semi-honest", "active"]


def job(rule: str = "fedavg", **changes: object) -> bs.JobSpec:
    """Ten parties, and servers that add noise of multiplier 1."""
    fields: dict[str, object] = {
        "protocol": bs.Mpc3(rule=rule),
        "parties": 10,
        "dim": 400,
        "encoding": bs.Quantised(clipping="l2"),
        "privacy": bs.DiscreteGaussian(noise_multiplier=1.0, delta=1e-5),
    }
    return bs.JobSpec(**fields | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_results_are_exact_but_for_the_noise(rule: str, adversary: str) -> None:
    result = bs.simulate(job(rule, adversary=adversary), drop=0.1, seed=5)
    assert (result.outcome, result.exact) == ("sum", True)
    claim = result.privacy
    assert claim is not None
    assert result.max_abs_error is not None
    survivors = result.survivor_count
    deviation = claim.noise_deviation * job(rule, adversary=adversary).quorum / survivors
    assert deviation < result.max_abs_error < 6 * deviation


@pytest.mark.parametrize("rule", RULES)
def test_the_claim_is_that_of_one_component(rule: str) -> None:
    claim = job(rule).privacy_after(1)
    assert claim is not None
    # Of the Gaussian mechanism of multiplier 1, and of the square root of 3.
    assert 4.37 < claim.epsilon < 4.3776
    assert claim.epsilon_outside is not None
    assert 2.341 < claim.epsilon_outside < 2.342
    assert (claim.honest, claim.epsilon_alone, claim.width) == (0, None, 64)
    assert claim.epsilon < claim.epsilon_rdp < claim.epsilon_replace
    assert f"(zero-out, outside the servers {claim.epsilon_outside:.2f})" in str(claim)
    # How many parties survive does not change it.
    fewer = job(rule, min_parties=5, parties=30).privacy_after(1)
    assert fewer is not None
    assert (fewer.epsilon, fewer.epsilon_outside) == (claim.epsilon, claim.epsilon_outside)


@pytest.mark.parametrize("rule", RULES)
def test_noise_is_no_less_than_the_claim(rule: str) -> None:
    """A one-sided chi-square test of the mean of zeros: the largest norm is 1, and so is the multiplier."""
    spec = job(rule, dim=100_000, adversary="semi-honest")
    result = bs.simulate(spec, updates=np.zeros((10, spec.dim)), seed=8)
    assert result.mean is not None
    # Updates of zeros are rounded, by a step at most.
    found = float(np.mean(np.square(result.mean))) * 10**2
    slack = math.sqrt(2 / spec.dim)
    assert found / 3 > 1 - 3.7 * slack
    said = spec.privacy_after().noise_deviation * spec.quorum / 10  # type: ignore[union-attr]
    assert abs(found / (said * 10) ** 2 - 1) < 5 * slack


@pytest.mark.parametrize("rule", RULES)
def test_rounds_have_noise_of_their_own(rule: str) -> None:
    spec = job(rule, dim=20_000, model_update="replace", adversary="semi-honest")
    zeros = np.zeros((10, spec.dim))
    one, other = (bs.simulate(spec, updates=zeros, rounds=rounds, seed=3).mean for rounds in (1, 2))
    assert one is not None
    assert other is not None
    correlation = float(np.corrcoef(one, other)[0, 1])
    assert abs(correlation) < 5 / math.sqrt(spec.dim)


def test_a_target_travels_and_ends_a_simulation() -> None:
    spec = job("clipped", rounds=20, privacy=bs.DiscreteGaussian(epsilon=8.0, delta=1e-5))
    whole = spec.privacy_after()
    assert whole is not None
    assert (whole.releases, whole.allowed, whole.target) == (22, 22, 8.0)
    assert 7.99 < whole.epsilon <= 8.0
    assert bs.JobSpec.from_dict(spec.to_dict()) == spec
    with pytest.raises(bs.ConfigError, match="rounds: 23 is above the 22 that epsilon = 8 has room for"):
        bs.simulate(spec, rounds=23)


def test_a_norm_of_the_servers_is_the_clip_of_the_claim() -> None:
    spec = job(protocol=bs.Mpc3(rule="clipped", norm=0.25))
    claim, whole = spec.privacy_after(1), job("clipped").privacy_after(1)
    assert claim is not None
    assert whole is not None
    assert (claim.clip, whole.clip) == (0.25, 1.0)
    assert 1 <= claim.growth < 1.001
    assert 0.249 < claim.noise_deviation / whole.noise_deviation < 0.251


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"protocol": bs.Mpc3(rule="median")}, "privacy: rule median has no noise; choose rule = fedavg"),
        ({"protocol": bs.Mpc3(noise=0.5)}, "privacy: protocol.noise = 0.5 .*; say either noise or privacy"),
        (
            {"privacy": bs.Skellam(noise_multiplier=1.0, delta=1e-5)},
            "privacy: must be discrete-gaussian with mpc3, is skellam",
        ),
        ({"encoding": bs.Quantised()}, 'privacy: clipping must be "l2"'),
        ({"encoding": bs.Quantised(clipping="l2", max_weight=5)}, "privacy: max_weight = 5 must be 1"),
        ({"encoding": bs.Quantised(clipping="l2", bits=5)}, "bits: rounding lifts the norm by"),
        ({"metrics": [bs.Metric("loss", 0, 1)]}, "metrics: must be empty with noise_multiplier = 1"),
    ],
)
def test_jobs_whose_noise_would_hide_less_are_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(bs.SpecError, match=why):
        job(**changes)  # type: ignore[arg-type]


def test_the_command_line_says_what_servers_guarantee(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--protocol", "mpc3", "--rule", "clipped", "--parties", "10", "--dim", "50"]
    noise = ["--clipping", "l2", "--set", "privacy.noise_multiplier=1", "--set", "privacy.delta=1e-5"]
    assert main([*command, *noise, "--rounds", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["privacy"]
    assert (said["releases"], said["honest"]) == (3, 0)
    assert said["epsilon"] > said["epsilon_outside"] > 4
    assert main([*command, *noise]) == 0
    line = "privacy: epsilon 4.38 at delta 1e-05 after 1 release (zero-out, outside the servers 2.34)"
    assert line in capsys.readouterr().out
    file = tmp_path / "job.toml"
    table = 'encoding = { name = "quantised", clipping = "l2" }\nprivacy = { epsilon = 4.0, delta = 1e-5 }\n'
    file.write_text(f'protocol = "mpc3"\nparties = 10\ndim = 50\nrounds = 10\n{table}')
    assert main(["spec", str(file)]) == 0
    said = capsys.readouterr().out
    assert "# privacy: epsilon 4.00 of 4 at delta 1e-05 after 11 releases (zero-out, outside the" in said
    file.write_text(said)
    assert main(["spec", str(file), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["privacy"]["epsilon"] <= 4.0
    assert again["spec"]["privacy"]["noise_multiplier"] > 3


def test_no_bound_of_the_encoding_holds_for_a_training_with_noise() -> None:
    """The history of a training says no error of the encoding, as the mean is off by the noise."""
    from blindsum.training.record import bound_of

    assert bound_of(job()) is None
    assert bound_of(job(privacy=bs.NoPrivacy())) == job(privacy=bs.NoPrivacy()).max_error
