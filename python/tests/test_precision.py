"""What ``max_error`` promises of the caller's own float64 numbers, at parties and in simulations."""

import numpy as np
import pytest

import blindsum as bs

ENCODINGS = {
    "16 bits": {"bits": 16, "clip": 0.75},
    "24 bits": {"bits": 24, "clip": 0.75, "rounding": "nearest"},
    "32 bits": {"bits": 32, "clip": 0.75, "rounding": "nearest"},
    "fixed64": {"encoding": "fixed64", "clip": 1e7},
    "a wide range": {"bits": 31, "clip": 1e30},
    "a narrow range": {"bits": 20, "clip": 1e-30},
}
WIDE = {"32 bits", "fixed64", "a wide range"}
PARTIES = 5


def own_numbers(rank, clip, dim=6):
    """Numbers that are no float32, one of them at the bound and one beyond it."""
    numbers = np.random.default_rng(rank).uniform(-clip, clip, dim)
    numbers[:2] = clip, -1.5 * clip
    return numbers


def options(protocol, encoding):
    if protocol == "pss-malicious":
        return {**encoding, "min_parties": PARTIES}, [1] * PARTIES
    wide = encoding.get("bits") == 32
    return {**encoding, "max_weight": 2 if wide else 9}, [1, 2, 2, 1, 2] if wide else [1, 2, 9, 4, 5]


def possible(make, protocol, encoding):
    """A job of this protocol and encoding with the weights of its parties; ``None`` where there is none."""
    fields, weights = options(protocol, ENCODINGS[encoding])
    try:
        return make(protocol=protocol, parties=PARTIES, dim=6, **fields), weights
    except bs.SpecError:
        # Proofs are of quantised values of few bits.
        if protocol == "pss-malicious":
            return None
        raise


def error_of(mean, spec, weights):
    rows = [np.clip(own_numbers(rank, spec.clip), -spec.clip, spec.clip) for rank in range(PARTIES)]
    return np.abs(
        np.asarray(mean, np.longdouble) - np.average(np.array(rows, np.longdouble), 0, weights)
    ).max()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("protocol", bs.protocols())
def test_simulations_keep_the_bound_on_the_callers_numbers(protocol, encoding):
    def make(**fields):
        return bs.JobSpec.from_settings(list(fields.items()))

    if (job := possible(make, protocol, encoding)) is None:
        return
    spec, weights = job
    updates = [own_numbers(rank, spec.clip) for rank in range(PARTIES)]
    result = bs.simulate(spec, updates, weights=weights, seed=3)
    assert result.mean.dtype == np.float64
    assert error_of(result.mean, spec, weights) <= spec.max_error
    assert result.max_abs_error == pytest.approx(
        error_of(result.mean, spec, weights), abs=1e-3 * spec.max_error
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("protocol", bs.protocols())
def test_parties_have_the_mean_and_the_model_within_the_bound(place, partner, protocol, encoding):
    if (job := possible(place.spec, protocol, encoding)) is None:
        return
    spec, weights = job
    spec = spec.replace(rounds=2, model_update="replace")
    updates = [own_numbers(rank, spec.clip) for rank in range(PARTIES)]
    with place.coordinator(spec) as coordinator:
        others = [
            partner(place, coordinator, f"party-{rank}", updates[rank], weights[rank])
            for rank in range(1, PARTIES)
        ]
        with place.join(coordinator, "party-0") as session:
            for current in session.rounds():
                current.submit(updates[0], weight=weights[0])
                outcome = current.outcome()
                assert outcome.mean.dtype == (np.float64 if encoding in WIDE else np.float32)
                assert outcome.model.dtype == outcome.mean.dtype
                assert error_of(outcome.mean, spec, weights) <= spec.max_error
                assert np.array_equal(outcome.model, outcome.mean)
            assert np.array_equal(session.final_model, outcome.mean)
        for other in others:
            assert error_of(other.wait()[-1], spec, weights) <= spec.max_error


@pytest.mark.parametrize(("bits", "rounding"), [(8, "nearest"), (8, "stochastic"), (16, "stochastic")])
@pytest.mark.parametrize("size", [0.2, 0.499, 0.5, 0.9, 5.0])
def test_norms_are_scaled_down_within_the_bound(bits, rounding, size):
    """By the caller's own arithmetic, which knows of max_norm and not of what rounding needs."""
    encoding = bs.Quantised(clip=1.0, bits=bits, max_norm=0.5, rounding=rounding)
    spec = bs.JobSpec(protocol="secagg", parties=3, dim=500, encoding=encoding)
    update = np.zeros(500)
    update[:2] = 0.6 * size, -0.8 * size
    result = bs.simulate(spec, [update] * 3, seed=1)
    own = update * min(1.0, 0.5 / size)
    assert np.abs(result.mean - own).max() <= spec.max_error
    assert 0 < spec.norm_bound < 0.5
    exact = update * min(1.0, spec.norm_bound / size)
    assert np.abs(result.mean - exact).max() <= spec.max_error - (0.5 - spec.norm_bound)
    assert spec.replace(encoding=bs.Quantised()).norm_bound is None
    assert spec.replace(encoding=bs.Quantised(clipping="l2", clip=2.0)).norm_bound == 2.0


@pytest.mark.parametrize("bits", [16, 24, 25, 32])
def test_sparse_rounds_take_float64_as_float64(bits):
    protocol = {"name": "flashe", "density": 0.5, "min_contributors": 1}
    encoding = {"name": "quantised", "bits": bits, "clip": 1.0, "rounding": "nearest"}
    spec = bs.JobSpec(protocol=protocol, parties=2, dim=64, encoding=encoding)
    updates = np.random.default_rng(0).normal(size=(2, 64)) / 3
    sent = np.zeros_like(updates)
    for row, update in zip(sent, updates, strict=True):
        largest = np.argsort(-np.abs(update), kind="stable")[:32]
        row[largest] = np.clip(update[largest], -1, 1)
    result = bs.simulate(spec, list(updates), seed=0)
    everybody = np.abs(sent).min(0) > 0
    assert everybody.any()
    expected = sent.mean(0)[everybody]
    assert np.abs(result.mean[everybody] - expected).max() <= spec.max_error
    assert result.max_abs_error <= spec.max_error


@pytest.mark.parametrize("bits", [24, 32])
def test_parties_of_sparse_rounds_have_the_mean_within_the_bound(place, partner, bits):
    fields = {"density": 0.5, "min_contributors": 1, "bits": bits, "clip": 1.0, "rounding": "nearest"}
    spec = place.spec(protocol="flashe", parties=2, min_parties=2, dim=8, **fields)
    update = np.random.default_rng(1).uniform(0.1, 0.9, 8)
    with place.coordinator(spec) as coordinator:
        other = partner(place, coordinator, "party-1", update)
        with place.join(coordinator, "party-0") as session:
            current = session.next_round()
            current.submit(update)
            outcome = current.outcome()
        other.wait()
    sent = outcome.contributors == 2
    assert sent.sum() == 4
    assert np.abs(outcome.mean - update)[sent].max() <= spec.max_error


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"clip": 1e60}, "clip is 1e60 and must be"),
        ({"clip": 3.3e38, "bits": 32}, "1e30|1e\\+30"),
        ({"clip": 1e-50}, "1e-30"),
        ({"clip": 1.0, "max_norm": 1e36}, "1e35|1e\\+35"),
        ({"clip": 1.0, "clipping": "l2", "bits": 4} | {"clip": 1e31}, "clip"),
        ({"encoding": "fixed64", "clip": 1e-6}, r"2\^-17 = .* < clip = 1e-6 must hold"),
        ({"encoding": "fixed64", "clip": 2.0**-17}, "2\\^-17"),
        ({"encoding": "fixed64", "clip": 1e31}, "clip"),
    ],
)
def test_bounds_beyond_float32_and_below_the_unit_are_refused(fields, rule):
    with pytest.raises(bs.SpecError, match=rule):
        bs.JobSpec.from_settings(list({"protocol": "secagg", "parties": 3, "dim": 2, **fields}.items()))


def test_every_tensor_has_such_a_bound():
    for clip in (1e60, 1e-50):
        tensors = [bs.Tensor("a", 1, 1.0), bs.Tensor("b", 1, clip)]
        with pytest.raises(bs.SpecError, match=r"1e30|1e-30"):
            bs.JobSpec(protocol="plain", parties=3, dim=2, encoding=bs.Quantised(tensors=tensors))


def test_the_smallest_bound_of_fixed64_counts():
    clip = 2.0**-16
    spec = bs.JobSpec(protocol="secagg", parties=3, dim=2, encoding=bs.Fixed64(clip=clip))
    assert bs.simulate(spec, np.full((3, 2), clip)).mean.tolist() == [clip, clip]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_no_job_begins_with_a_model_that_is_not_finite(place, bad):
    model = np.array([0.0, 0.0, bad, 0.0])
    what = r", 1e\+39, is beyond the range of float32" if np.isfinite(bad) else " is not a finite number"
    with (
        pytest.raises(bs.InputError, match=f"coordinate 2{what}"),
        place.coordinator(place.spec(parties=1), model=model),
    ):
        pass
    if np.isfinite(bad):
        spec = place.spec(parties=1, encoding="fixed64")
        with place.coordinator(spec, model=model) as coordinator, place.join(coordinator, "a") as session:
            assert session.next_round().model[2] == bad
