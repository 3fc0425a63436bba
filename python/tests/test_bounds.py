"""Bounds from earlier rounds do not shrink what parties send, in any protocol and for any kind of update."""

import numpy as np
import pytest

import blindsum as bs

DIM, ROUNDS = 400, 8
WITHOUT = ("mpc3", "paillier-ring", "paillier-broadcast", "paillier-allreduce")
"""Their other servers have no model to find bounds from."""


def made(kind, parties):
    """Updates of a kind, one row a party."""
    rng = np.random.default_rng(3)
    rows = np.zeros((parties, DIM))
    for rank, row in enumerate(rows):
        match kind:
            case "dense":
                row[:] = rng.normal(size=DIM)
            case "rows":
                row[8 * rng.integers(0, DIM // 8, 2)[:, None] + np.arange(8)] = rng.normal(size=(2, 8))
            case "one":
                row[5] = 1 + rng.random()
            case "own":
                row[rank] = 1 + rng.random()
            case "shards":
                row[rank::parties] = rng.normal(size=len(row[rank::parties]))
            case "shifted":
                row[:] = 2 + rng.normal(size=DIM)
            case "heavy":
                row[:] = rng.standard_t(3, DIM)
    return rows


@pytest.mark.parametrize("kind", ["dense", "rows", "one", "own", "shards", "shifted", "heavy"])
@pytest.mark.parametrize("protocol", [name for name in bs.protocols() if name not in WITHOUT])
def test_what_does_not_grow_is_not_cut_off(protocol, kind):
    rows = made(kind, 6)
    spec = bs.JobSpec.from_settings(
        list(
            {
                "protocol": protocol,
                "parties": 6,
                "dim": DIM,
                "clip": 40.0,
                "bits": 16,
                "clipping": "aciq",
                "rounding": "nearest",
            }.items()
        )
    )
    true = np.linalg.norm(rows.mean(0))
    for rounds in (1, ROUNDS):
        result = bs.simulate(spec, rows, rounds=rounds)
        assert result.exact
        assert (result.clipped, np.linalg.norm(result.mean) / true) == (0, pytest.approx(1, abs=0.05))


CANCELLING = [[1, -0.6, 0], [1, -0.3, -0.3], [1, -1, 0], [1, 1, -0.8, -0.8], [1, -0.999, 0]]
"""A number of each party: less than half of the largest is left of them in the sum, or nothing."""


@pytest.mark.parametrize("protocol", ["plain", "secagg", "secagg+", "fssa", "pss", "flashe", "sparse"])
@pytest.mark.parametrize("numbers", CANCELLING)
def test_values_that_cancel_are_not_cut_off(protocol, numbers):
    sparse = protocol == "sparse"
    of_all = np.array(numbers, float)[:, None]
    one, everywhere = np.zeros((len(numbers), 40)), np.repeat(of_all, 40, 1)
    one[:, 5] = of_all[:, 0]
    for rows in [one, everywhere][: 1 if sparse else 2]:
        for rounding in ("nearest", "stochastic"):
            spec = bs.JobSpec(
                protocol=bs.Flashe(density=0.1, min_contributors=1) if sparse else protocol,
                parties=len(rows),
                dim=40,
                encoding=bs.Quantised(clip=10.0, bits=8, clipping="aciq", rounding=rounding),
            )
            for rounds in (3, 20):
                result = bs.simulate(spec, rows, rounds=rounds)
                assert result.exact
                assert result.clipped == 0
                # The bound is not above eight times the largest, and a step of it is what rounding may add.
                assert np.abs(result.mean - rows.mean(0)).max() <= spec.max_error * 8 / 10 * 1.01


@pytest.mark.parametrize("weights", [[1, 1000, 1000], [1, 30, 1], [1000, 1000, 1000]])
def test_a_light_party_is_not_cut_off(weights):
    rows = np.zeros((3, 10))
    rows[0, 0] = 1.0
    rows[1:, 1] = 0.01
    fields = {"clip": 10.0, "clipping": "aciq", "rounding": "nearest", "max_weight": 1000}
    spec = bs.JobSpec(protocol="secagg", parties=3, dim=10, encoding=bs.Quantised(**fields))
    result = bs.simulate(spec, rows, weights=weights, rounds=12)
    assert result.clipped == 0
    expected = np.average(rows, axis=0, weights=weights)
    assert np.abs(result.mean - expected).max() <= spec.max_error


def test_sparse_rounds_keep_their_bounds():
    rows = made("rows", 6)
    flashe = bs.Flashe(density=0.1, min_contributors=1)
    encoding = bs.Quantised(clip=40.0, clipping="aciq", rounding="nearest")
    spec = bs.JobSpec(protocol=flashe, parties=6, dim=DIM, encoding=encoding)
    true = np.linalg.norm(rows.mean(0))
    result = bs.simulate(spec, rows, rounds=12)
    # All that is not 0 fits into the density.
    assert np.linalg.norm(result.mean) / true == pytest.approx(1, abs=0.05)
    assert [left.norm < 0.01 for left in result.leftovers] == [True] * 6
