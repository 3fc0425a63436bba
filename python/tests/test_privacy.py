"""Noise of differential privacy: what it guarantees, and sums that have it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main

NOISY = [
    "secagg",
    "secagg+",
    "fssa",
    "pss",
    "flashe",
    "paillier-ring",
    "paillier-broadcast",
    "paillier-allreduce",
]


def job(protocol: str = "secagg+", **changes: object) -> bs.JobSpec:
    """Ten parties with noise of multiplier 1."""
    fields: dict[str, object] = {
        "protocol": protocol,
        "parties": 10,
        "dim": 400,
        "encoding": bs.Quantised(clipping="l2", bits=14),
        "privacy": bs.DiscreteGaussian(noise_multiplier=1.0, delta=1e-5),
        "adversary": "semi-honest",
    }
    return bs.JobSpec(**fields | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", NOISY)
@pytest.mark.parametrize("drop", [0.0, 0.1])
def test_sums_with_noise_are_exact_in_every_protocol(protocol: str, drop: float) -> None:
    """The sum is that of the words in the clear, noise included. The mean is off by that noise."""
    spec = job(protocol)
    result = bs.simulate(spec, drop=drop, seed=5)
    assert result.outcome == "sum"
    assert result.exact
    claim = result.privacy
    assert claim is not None
    # The largest of 400 normal numbers is about three deviations, and six are never reached.
    assert result.max_abs_error is not None
    assert claim.noise_deviation < result.max_abs_error < 6 * claim.noise_deviation


@pytest.mark.parametrize("protocol", NOISY)
def test_a_party_may_be_lost_in_any_stage(protocol: str) -> None:
    """Whoever is lost, and when: the sum of the others is exact, noise included."""
    spec = job(protocol, dim=20)
    for stage in spec.stages:
        result = bs.simulate(spec, drop_at={stage: 1}, seed=2)
        assert (result.outcome, result.exact) == ("sum", True), stage
        assert result.survivor_count >= spec.quorum


def test_campaigns_do_not_take_noise_for_a_broken_promise() -> None:
    with pytest.raises(bs.SpecError, match="privacy: must be none in a campaign") as caught:
        bs.campaign(job(dim=4), steps=100)
    assert caught.value.field == "privacy"


def test_noise_has_the_variance_of_the_claim() -> None:
    """The mean of zeros is noise. Its variance is that of the shares, within four standard errors."""
    spec = job(dim=100_000)
    result = bs.simulate(spec, updates=np.zeros((10, spec.dim)), seed=8)
    assert result.mean is not None
    deviation = spec.privacy_after().noise_deviation * math.sqrt(spec.quorum / 10)  # type: ignore[union-attr]
    ratio = float(np.var(result.mean)) / deviation**2
    assert abs(ratio - 1) < 4 * math.sqrt(2 / spec.dim)


def test_rounds_have_noise_of_their_own() -> None:
    """F1 of the design: noise of two rounds does not cancel in their difference, whoever takes part."""
    spec = job(dim=20_000, model_update="replace")
    zeros = np.zeros((10, spec.dim))
    one, other = (bs.simulate(spec, updates=zeros, rounds=rounds, seed=3).mean for rounds in (1, 2))
    assert one is not None
    assert other is not None
    correlation = float(np.corrcoef(one, other)[0, 1])
    assert abs(correlation) < 5 / math.sqrt(spec.dim)


def test_a_claim_grows_with_releases_and_stays_within_its_target() -> None:
    spec = job(rounds=20, privacy=bs.DiscreteGaussian(epsilon=8.0, delta=1e-5))
    claims = [spec.privacy_after(releases) for releases in (0, 1, 5, 22)]
    epsilons = [claim.epsilon for claim in claims if claim is not None]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] == 0.0
    assert 7.99 < epsilons[-1] <= 8.0
    whole = spec.privacy_after()
    assert whole is not None
    assert (whole.releases, whole.allowed, whole.target) == (22, 22, 8.0)
    assert whole.epsilon_rdp > whole.epsilon < whole.epsilon_replace
    # What travels has the multiplier: everybody computes with the same one.
    assert bs.JobSpec.from_dict(spec.to_dict()) == spec
    assert isinstance(spec.privacy, bs.DiscreteGaussian)
    assert spec.privacy.noise_multiplier == whole.noise_multiplier > 1
    with pytest.raises(bs.ConfigError, match="releases"):
        spec.privacy_after(-1)


def test_no_simulation_goes_beyond_the_target_without_a_word() -> None:
    spec = job(rounds=2, privacy=bs.DiscreteGaussian(epsilon=8.0, delta=1e-5))
    result = bs.simulate(spec, rounds=3)
    assert result.privacy is not None
    assert result.privacy.epsilon <= 8.0
    with pytest.raises(
        bs.ConfigError, match=r"rounds: 4 is above the 3 that epsilon = 8 has room for .* set rounds = 4"
    ):
        bs.simulate(spec, rounds=4)


def test_the_complete_job_says_what_it_guarantees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.toml"
    noise = 'encoding = { name = "quantised", clipping = "l2" }\nprivacy = { epsilon = 4.0, delta = 1e-5 }\n'
    file.write_text(f'protocol = "secagg+"\nparties = 10\ndim = 50\nrounds = 10\n{noise}')
    assert main(["spec", str(file)]) == 0
    said = capsys.readouterr().out
    assert "# privacy: epsilon 4.00 of 4 at delta 1e-05 after 11 releases" in said
    # What is printed is a job file, with the multiplier that was found.
    file.write_text(said)
    assert main(["spec", str(file), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["privacy"]["epsilon"] <= 4.0
    assert again["spec"]["privacy"]["noise_multiplier"] > 3


def test_a_job_without_noise_claims_nothing() -> None:
    spec = job(privacy=bs.NoPrivacy())
    assert spec.privacy_after() is None
    result = bs.simulate(spec)
    assert result.privacy is None
    assert "privacy" not in result.to_dict()
    assert result.max_abs_error is not None
    assert result.max_abs_error <= spec.max_error


def test_the_command_line_says_what_noise_guarantees(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "--protocol", "secagg+", "--parties", "10", "--dim", "50", "--clipping", "l2"]
    noise = ["--set", "privacy.noise_multiplier=1", "--set", "privacy.delta=1e-5"]
    assert main([*command, *noise, "--rounds", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["privacy"]
    assert said["releases"] == 3
    assert said["epsilon"] > 4.38
    assert "the number of survivors" in said["not_protected"]
    assert main([*command, *noise]) == 0
    assert "privacy: epsilon 4.38 at delta 1e-05 after 1 release" in capsys.readouterr().out


@pytest.mark.parametrize("protocol", ["plain", "pss-malicious"])
def test_protocols_without_noise_are_refused_with_the_reason(protocol: str) -> None:
    with pytest.raises(bs.SpecError, match="must be none with") as caught:
        job(protocol)
    assert caught.value.field == "privacy"


@pytest.mark.parametrize("protocol", ["secagg", "secagg+", "fssa", "pss", "flashe", "paillier-ring"])
def test_a_job_over_mutual_tls_has_noise_and_counts_releases(place, partner, protocol: str) -> None:
    """All are told the same mean with noise, and the next one has other noise. The status has the claim."""
    noise = {"privacy": "discrete-gaussian", "noise_multiplier": 0.5, "delta": 1e-5}
    fields = {"clipping": "l2", "adversary": "semi-honest", "min_parties": 5} | noise
    spec = place.spec(protocol=protocol, parties=5, rounds=2, **fields)
    update = np.array([0.1, -0.2, 0.3, 0.4])
    claim = spec.privacy_after(2)
    assert claim is not None
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, f"party-{rank}", update, 1) for rank in range(1, 5)]
        means = []
        with place.join(coordinator, "party-0") as session:
            for current in session.rounds():
                current.submit(update)
                means.append(current.outcome().mean)
        for other in others:
            assert np.array_equal(other.wait()[-1], means[-1])
        said = next(one["privacy"] for one in coordinator.statuses() if one["rounds_done"] == 2)
    errors = np.array(means) - update
    assert 0 < np.abs(errors).max() < 7 * claim.noise_deviation
    assert not np.array_equal(errors[0], errors[1])
    assert (said["releases"], said["target"]) == (2, None)
    assert said["epsilon"] == claim.epsilon


def test_a_comparison_has_the_same_noise_for_every_protocol(tmp_path: Path) -> None:
    """Options of any table are settings of a grid, also by their table's name."""
    settings = {"clipping": "l2", "adversary": "semi-honest", "privacy.noise_multiplier": 1, "delta": 1e-5}
    grid = {"protocol": ["secagg", "pss"], "parties": 6, "dim": 50, "settings": settings}
    rows = list(bs.sweep(**grid).rows)
    assert [row["outcome"] for row in rows] == ["sum", "sum"]
    with pytest.raises(bs.ConfigError, match=r"settings.privacy.clip: is no option of a job or"):
        bs.sweep(**grid | {"settings": {"privacy.clip": 1}})


def test_no_training_is_simulated_beyond_the_target() -> None:
    spec = job("secagg", parties=6, dim=4, rounds=2, privacy=bs.DiscreteGaussian(epsilon=20.0, delta=1e-5))

    def step(model: object, data: object, turn: object) -> np.ndarray:
        return np.full(4, 0.1)

    record = bs.simulate_training(spec, step, range(6))
    assert len(record.rounds) == 2
    with pytest.raises(bs.ConfigError, match="rounds: 4 is above the 3 that epsilon = 20 has room for"):
        bs.simulate_training(spec, step, range(6), rounds=4)
