"""Sparse flashe over a network: what waits counts once, and a party knows how much of its updates is left."""

import json

import numpy as np
import pytest

import blindsum as bs
from experiments import jobs

WEIGHTS, PARTIES, ROUNDS, RATE = 64, 5, 60, 0.6


def regression(density):
    """The distance to the solution of a linear regression after all rounds, and the results of a party."""
    rng = np.random.default_rng(5)
    solution = rng.normal(0, 1, WEIGHTS)
    data = [rng.normal(0, 1, (200, WEIGHTS)) for _ in range(PARTIES)]
    spec = bs.JobSpec(
        protocol=bs.Flashe(density=density),
        parties=PARTIES,
        min_parties=PARTIES,
        dim=WEIGHTS,
        rounds=ROUNDS,
        encoding=bs.Quantised(clip=4.0),
    )

    def step(rank, model, _):
        given = data[rank]
        return (-RATE * given.T @ (given @ (model - solution)) / len(given)).astype(np.float32)

    results = jobs.play(spec, np.zeros(WEIGHTS, np.float32), step)
    return np.linalg.norm(results[-1].model - solution), results, np.linalg.norm(solution)


def test_a_regression_converges_with_a_tenth_of_the_coordinates():
    sparse, results, start = regression(0.1)
    dense, _, _ = regression(1.0)
    assert dense < 0.01 * start
    assert sparse < 0.5 * start
    distances = [np.linalg.norm(result.mean) for result in results]
    assert np.mean(distances[-10:]) < np.mean(distances[5:15])
    assert all(result.leftover.coordinates <= WEIGHTS for result in results)
    assert results[-1].leftover.norm > 0


@pytest.mark.parametrize("divisor", ["parties", "senders"])
def test_what_waits_counts_once_or_as_the_paper_says(divisor):
    rows = np.zeros((3, 8))
    rows[0, 0] = rows[1, 1] = rows[2, 2] = 0.3
    rows[:, 3] = 0.1
    flashe = bs.Flashe(density=0.25, min_contributors=1, divisor=divisor)
    spec = bs.JobSpec(
        protocol=flashe,
        parties=3,
        min_parties=3,
        dim=8,
        rounds=40,
        encoding=bs.Quantised(bits=24, rounding="nearest"),
    )
    results = jobs.play(spec, np.zeros(8, np.float32), lambda rank, *_: rows[rank].astype(np.float32))
    total = results[-1].model
    if divisor == "senders":
        # What a party has alone counts three times.
        assert total[0] == pytest.approx(12.0, abs=0.4)
    else:
        assert total[:4] == pytest.approx([4.0] * 4, abs=0.2)
    assert all(result.leftover is not None for result in results)


def test_the_backlog_beyond_the_clip_is_told():
    spec = bs.JobSpec(
        protocol=bs.Flashe(density=0.125, min_contributors=1),
        parties=3,
        min_parties=3,
        dim=8,
        rounds=40,
        encoding=bs.Quantised(bits=24, rounding="nearest"),
    )
    rows = np.full(8, 0.5, np.float32)
    results = jobs.play(spec, np.zeros(8, np.float32), lambda *_: rows)
    # One coordinate of eight is sent a round, at most 1 of the 4 that have gathered.
    assert results[0].clipped.coordinates == 0
    assert results[-1].clipped.coordinates == 1
    assert results[-1].leftover.norm > results[20].leftover.norm > results[5].leftover.norm > 1


def test_the_density_falls_by_sums_and_not_by_numbers():
    """A key set-up has a number, too: the first sum of a job is not number 1, and has the first density."""
    flashe = bs.Flashe(
        density=0.1,
        density_start=1.0,
        density_steps=2,
        density_rounds=1,
        min_contributors=1,
        key_rounds=2,
    )
    spec = bs.JobSpec(protocol=flashe, parties=3, min_parties=3, dim=100, rounds=5)
    rows = np.random.default_rng(3).normal(size=(3, 100)).astype(np.float32)
    results = jobs.play(spec, np.zeros(100, np.float32), lambda rank, *_: rows[rank])
    assert [int(result.contributors.sum()) // 3 for result in results] == [100, 32, 10, 10, 10]
    # A simulation sends as many.
    simulated = bs.simulate(spec, rows, rounds=5).to_dict()["rounds"]
    for result, round_ in zip(results, simulated, strict=True):
        assert result.leftover.coordinates in [one["coordinates"] for one in round_["leftovers"]]


def test_dense_rounds_have_nothing_left():
    spec = bs.JobSpec(protocol="flashe", parties=3, min_parties=3, dim=4, rounds=1)
    (result,) = jobs.play(spec, np.zeros(4, np.float32), lambda *_: np.full(4, 0.5, np.float32))
    assert result.leftover is None


def test_simulations_show_what_is_left():
    spec = bs.JobSpec(protocol=bs.Flashe(density=0.25), parties=3, dim=8, encoding=bs.Quantised(bits=24))
    result = bs.simulate(spec, np.full((3, 8), 0.5), rounds=1)
    assert result.leftovers == (bs.Leftover(pytest.approx(0.5 * 6**0.5), 6),) * 3
    assert json.loads(json.dumps(result.to_dict()))["leftovers"][0]["coordinates"] == 6
    assert bs.simulate(bs.JobSpec(protocol="flashe", parties=3, dim=8)).leftovers == ()


def warnings_of(records):
    return [one.getMessage() for one in records if "min_contributors" in one.getMessage()]


def test_everybody_is_warned_where_coordinates_wait_for_others(caplog):
    spec = bs.JobSpec(protocol=bs.Flashe(density=0.1), parties=3, min_parties=3, dim=8, job="waits")
    for _ in range(2):
        bs.simulate(spec, np.zeros((3, 8)))
    (text,) = warnings_of(caplog.records)
    assert "density * parties = 0.1 * 3 = 0.3 is below 1" in text
    assert "Take a density of 0.34 or more; or take min_contributors = 1" in text
    caplog.clear()
    jobs.play(spec, np.zeros(8, np.float32), lambda *_: np.zeros(8, np.float32))
    # The coordinator and each of the parties.
    assert len(warnings_of(caplog.records)) == 4


@pytest.mark.parametrize("options", [{"min_contributors": 1}, {"density": 0.5}, {"density": 1.0}])
def test_nobody_is_warned_where_they_do_not(options, caplog):
    spec = bs.JobSpec(protocol=bs.Flashe(**{"density": 0.1} | options), parties=3, min_parties=3, dim=8)
    bs.simulate(spec, np.zeros((3, 8)))
    assert not warnings_of(caplog.records)


def test_a_divisor_needs_sparse_rounds():
    with pytest.raises(bs.SpecError, match="must be left at parties where density is 1"):
        bs.JobSpec(protocol=bs.Flashe(divisor="senders"), parties=3, dim=8)
