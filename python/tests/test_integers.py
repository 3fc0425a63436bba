"""Exact sums of integers: what counts as integers, and what comes out."""

import json

import numpy as np
import pytest

import blindsum as bs
from blindsum.arrays import as_integers
from blindsum.cli import main


def spec(**changes):
    fields = {"protocol": "plain", "parties": 3, "dim": 4, "encoding": "integers", "bits": 64}
    return bs.JobSpec.from_settings(list((fields | changes).items()))


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.int64, np.int32])
def test_integers_of_the_core_are_not_copied(dtype):
    data = np.arange(6, dtype=dtype)
    vector = as_integers(data)
    assert np.shares_memory(vector, data)
    assert vector.dtype.kind == "u"
    assert vector.tolist() == data.tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.int16, ">u4", ">i8"])
def test_other_integers_are_copied(dtype):
    data = np.arange(12, dtype=dtype).reshape(3, 4)[:, ::2]
    vector = as_integers(data, dim=6)
    assert vector.dtype in (np.uint32, np.uint64)
    assert vector.dtype.isnative
    assert vector.flags.c_contiguous
    assert vector.tolist() == data.reshape(-1).tolist()


def test_python_integers_keep_all_bits():
    values = [0, 1, 2**53 + 1, 2**63, 2**64 - 1]
    assert as_integers(values).tolist() == values
    assert as_integers(tuple(values)).dtype == np.uint64
    assert as_integers(np.array(values, dtype=object)).tolist() == values
    assert as_integers([np.uint64(2**64 - 1), np.int8(3)]).tolist() == [2**64 - 1, 3]


@pytest.mark.parametrize(
    ("data", "bits", "index"),
    [
        (np.array([0, 256, 300], dtype=np.uint16), 8, 1),
        (np.array([7, 0, -1, -2]), 64, 2),
        (np.array([0, -1], dtype=np.int8), 16, 1),
        (np.array([1 << 40, 1 << 41]), 41, 1),
        (np.array([2**64 - 1], dtype=np.uint64), 63, 0),
        ([1, 2**64], 64, 1),
        ([1, 2, -1], 64, 2),
    ],
)
def test_integers_out_of_range_are_named(data, bits, index):
    with pytest.raises(bs.InputError, match=rf"coordinate {index} .* 2\*\*{bits} - 1") as caught:
        as_integers(data, bits=bits)
    assert caught.value.index == index


@pytest.mark.parametrize(
    "data", [np.ones(3), np.ones(3, dtype=bool), [1, 2.0], [1, True], [[1, 2], [3]], "12", None]
)
def test_what_is_no_array_of_integers_is_refused(data):
    with pytest.raises(bs.InputError, match=r"update: .*(integer|usable as an array)"):
        as_integers(data)


def test_another_size_is_refused_with_both():
    with pytest.raises(bs.InputError, match=r"3 elements .* dim is 4"):
        as_integers([1, 2, 3], dim=4)


# Proofs are of words of up to 32 bits, without weights: test_pss_malicious.py has their sums.
@pytest.mark.parametrize("protocol", [name for name in bs.protocols() if name != "pss-malicious"])
def test_sums_are_exact(protocol):
    job = spec(protocol=protocol, parties=10, adversary="semi-honest", max_weight=5)
    rows = np.random.default_rng(0).integers(0, 2**64, (10, 4), dtype=np.uint64)
    rows[0] = 2**64 - 1
    weights = [5, 1, 2, 3, 4, 5, 5, 5, 5, 5]
    result = bs.simulate(job, rows, weights=weights)
    assert (result.outcome, result.exact) == ("sum", True)
    expected = [
        sum(int(row[i]) * weight for row, weight in zip(rows, weights, strict=True)) for i in range(4)
    ]
    assert result.sum.dtype == object
    assert result.sum.tolist() == expected
    assert all(type(value) is int for value in result.sum)
    assert result.mean.dtype == np.float64
    assert result.mean.tolist() == [float(value) / 40 for value in expected]


def test_sums_that_fit_are_uint64():
    job = spec(bits=62)
    result = bs.simulate(job, [[2**62 - 1, 0, 1, 2]] * 3)
    assert result.sum.dtype == np.uint64
    assert result.sum.tolist() == [3 * (2**62 - 1), 0, 3, 6]
    # One bit more, and a sum might need 65.
    assert bs.simulate(spec(bits=63), [[2**63 - 1, 0, 1, 2]] * 3).sum.tolist() == [3 * (2**63 - 1), 0, 3, 6]


def test_real_updates_have_no_exact_sum():
    job = bs.JobSpec(protocol="plain", parties=2, dim=2)
    assert bs.simulate(job, np.ones((2, 2))).sum is None


def test_random_integers_are_summed_exactly():
    result = bs.simulate(spec(dim=100))
    assert (result.outcome, result.exact, result.sum) == ("sum", True, None)


def test_what_says_nothing_about_integers_is_refused():
    assert spec().model_update == "none"
    assert bs.JobSpec.from_dict(spec().to_dict()) == spec()
    tensors = [bs.Tensor("w", 4, 1.0)]
    fields = {
        "clip": 2.0,
        "clipping": "l2",
        "rounding": "nearest",
        "tensors": tensors,
        "model_update": "add",
    }
    for name, value in fields.items():
        with pytest.raises(bs.SpecError, match="integers") as caught:
            spec(**{name: value})
        assert caught.value.field == name


def test_updates_of_the_wrong_kind_are_refused():
    with pytest.raises(bs.InputError, match=r"updates\[1\]: elements are float64"):
        bs.simulate(spec(), [np.ones(4, dtype=int), np.ones(4), np.ones(4)])
    with pytest.raises(bs.InputError, match=r"updates\[0\]: coordinate 2") as caught:
        bs.simulate(spec(bits=3), [[0, 7, 8, 0]] * 3)
    assert caught.value.index == 2


def test_integers_over_the_network(place, partner):
    job = place.spec(
        protocol="secagg", parties=3, dropout=0.0, encoding="integers", bits=64, max_weight=2, rounds=1
    )
    with place.coordinator(job) as coordinator:
        others = [partner(place, coordinator, name, [2**64 - 1, 1, 2**53 + 1, 0]) for name in ("b", "c")]
        with place.join(coordinator, "a") as session:
            assert session.spec == job
            current = session.next_round()
            assert current.model.size == 0
            with pytest.raises(bs.InputError, match="elements are float32"):
                current.submit(np.ones(4, dtype=np.float32))
            with pytest.raises(bs.InputError, match="coordinate 3") as caught:
                current.submit([0, 0, 0, -1])
            assert caught.value.index == 3
            current.submit(np.array([1, 2, 3, 4], dtype=np.uint16), weight=2)
            outcome = current.outcome()
        for other in others:
            other.wait()
    expected = [2 * (2**64 - 1) + 2, 2 + 4, 2 * (2**53 + 1) + 6, 8]
    assert outcome.sum.tolist() == expected
    assert outcome.total_weight == 4
    assert outcome.mean.dtype == np.float64
    assert outcome.mean.tolist() == [value / 4 for value in expected]


SIMULATE = ["simulate", "--protocol", "plain", "--clients", "5", "--dim", "20", "--json"]


@pytest.mark.parametrize("words", [["--bits", "33"], ["--bits", "8", "--set", "encoding=integers"]])
def test_many_bits_are_integers(capsys, words):
    assert main([*SIMULATE, *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["parties"], report["exact"]) == (5, True)
    # An error of the mean, far below a step of quantisation.
    assert report["max_abs_error"] < 1e-4


def test_only_the_sum_of_integers_is_spoken_of(capsys):
    assert main([*SIMULATE[:-1], "--bits", "64"]) == 0
    assert "\nsum of 5 survivors: exact\n" in capsys.readouterr().out


def test_fractions_and_shares_have_options_of_their_own(capsys):
    secagg = [
        "simulate",
        "--protocol=secagg",
        "--clients=20",
        "--dim=5",
        "--json",
        "--adversary=semi-honest",
    ]
    assert main([*secagg, "--corrupt", "0.2", "--dropout", "0.3", "--threshold", "10"]) == 0
    capsys.readouterr()
    for words, field in [
        (["--corrupt", "1"], "corrupt"),
        (["--dropout", "-1"], "dropout"),
        (["--threshold", "21"], "threshold"),
        (["--packing", "2"], "packing"),
    ]:
        assert main([*secagg, *words]) == 2
        assert field in capsys.readouterr().err


def test_bits_in_a_file_stand_in_the_table_of_the_encoding(tmp_path):
    from blindsum.cli.jobs import spec_from_file

    path = tmp_path / "job.toml"
    common = 'protocol = "plain"\nparties = 3\ndim = 4\n'
    path.write_text(common + 'encoding = { name = "integers", bits = 40 }\n')
    assert spec_from_file(str(path)).encoding == bs.Integers(bits=40, max_weight=1)
    path.write_text(common + 'encoding = { name = "quantised", bits = 40 }\n')
    with pytest.raises(bs.SpecError, match="bits is 40 and must be from 2 to 32"):
        spec_from_file(str(path))
    path.write_text(common + "bits = 40\n")
    with pytest.raises(bs.SpecError, match="bits: is an option of quantised and integers, not a field"):
        spec_from_file(str(path))
