"""Arrays, weights and metrics of Flower's records, with a real flwr: `make flower`."""

import flower_world_real as world
import ml_dtypes
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy.strategy_utils import validate_message_reply_consistency

import blindsum as bs
from blindsum.flower.records import ModelArrays, mean_content, metrics_of, weight_of


@pytest.mark.parametrize(
    "dtype",
    ["float16", "bfloat16", "float32", "float64", ">f4"],
    ids=["half", "brain", "single", "double", "big"],
)
def test_arrays_go_to_a_vector_and_back(dtype):
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(1)
    shapes = {"a": (2, 3), "scalar": (), "empty": (0, 4), "b": (5,)}
    record = ArrayRecord({name: Array(np.asarray(rng.normal(size=s), kind)) for name, s in shapes.items()})
    local = ArrayRecord(
        {name: Array(np.asarray(rng.normal(size=s), kind)) for name, s in reversed(shapes.items())}
    )
    model = ModelArrays(record)
    assert model.dim == 12
    change = model.difference(local)
    assert change.dtype == (np.float64 if dtype == "float64" else np.float32)
    moved = model.moved(change)
    assert list(moved) == list(shapes)
    for name in shapes:
        assert moved[name].dtype == ("float32" if dtype == ">f4" else dtype)
        assert moved[name].shape == record[name].shape
        there, here = numbers(moved[name], kind), numbers(local[name], kind)
        # The sum of a number and a rounded difference is off by one in the last place at most.
        assert np.allclose(there, here, rtol=0, atol=4 * float(ml_dtypes.finfo(kind.newbyteorder("=")).eps))


def numbers(array, kind):
    values = array.numpy()
    return (values.view(kind) if values.dtype.kind == "V" else values).astype(np.float64)


def test_bfloat16_is_rounded_to_the_nearest():
    values = np.random.default_rng(2).normal(size=1000)
    record = ArrayRecord({"w": Array(np.zeros(1000, ml_dtypes.bfloat16))})
    moved = ModelArrays(record).moved(values)["w"]
    assert moved.dtype == "bfloat16"
    wanted = values.astype(np.float32).astype(ml_dtypes.bfloat16)
    assert moved.numpy().tobytes() == wanted.tobytes()


def test_integers_stay_those_of_the_server():
    record = ArrayRecord({"w": Array(np.zeros(2, np.float32)), "batches": Array(np.asarray(3, np.int64))})
    local = ArrayRecord({"w": Array(np.ones(2, np.float32)), "batches": Array(np.asarray(9, np.int64))})
    model = ModelArrays(record)
    assert model.fixed == ("batches",)
    moved = model.moved(model.difference(local))
    assert moved["batches"].numpy() == 3
    assert moved["batches"].dtype == "int64"
    assert moved["w"].numpy().tolist() == [1.0, 1.0]


def test_a_reply_that_does_not_fit_is_refused_by_name():
    zeros = np.zeros((2, 2), np.float32)
    model = ModelArrays(ArrayRecord({"w": Array(zeros), "b": Array(zeros)}))
    for local, text in (
        ({"w": zeros}, "without 'b'"),
        ({"w": zeros, "b": zeros, "c": zeros}, "with 'c'"),
        ({"w": zeros, "b": np.zeros(4, np.float32)}, r"arrays\['b'\]: has the shape \(4,\)"),
        ({"w": zeros, "b": np.array([[0, 0], [np.nan, 0]], np.float32)}, r"arrays\['b'\]\[1, 0\]"),
        ({"w": zeros, "b": zeros.astype(complex)}, r"arrays\['b'\]: is of complex128"),
    ):
        with pytest.raises(bs.InputError, match=text):
            model.difference(ArrayRecord({name: Array(value) for name, value in local.items()}))


def test_a_model_without_floats_is_refused():
    with pytest.raises(bs.ConfigError) as caught:
        ModelArrays(ArrayRecord({"n": Array(np.zeros(2, np.int32))}))
    assert caught.value.field == "arrays"
    with pytest.raises(bs.ConfigError) as caught:
        ModelArrays(ArrayRecord({"z": Array(np.zeros(2, complex))}))
    assert caught.value.field == "arrays['z']"


def test_weights_are_whole_numbers():
    assert weight_of({"num-examples": 12.0}, "num-examples") == 12
    for value in (12.5, -1, "12", True, [12], float("nan")):
        with pytest.raises(bs.InputError, match="num-examples"):
            weight_of({"num-examples": value}, "num-examples")
    with pytest.raises(bs.InputError, match="is missing"):
        weight_of({}, "num-examples")


def test_numbers_that_the_job_declares_are_metrics():
    said = {"num-examples": 3, "loss": 1, "accuracy": 0.5, "list": [1.0]}
    assert metrics_of(said, ["loss", "list"], "num-examples") == ({"loss": 1.0}, ["accuracy", "list"])


def test_the_reply_with_the_mean_is_one_that_flower_takes():
    content = mean_content("arrays", world.arrays(), "num-examples", 30, {"loss": 0.5, "nobody": None})
    validate_message_reply_consistency([content], "num-examples", check_arrayrecord=True)
    assert dict(content["metrics"]) == {"num-examples": 30, "loss": 0.5}


def test_bytes_that_are_no_array_of_their_shape_are_refused():
    zeros = np.zeros((2, 2), np.float32)
    model = ModelArrays(ArrayRecord({"w": Array(zeros)}))
    good = Array(zeros)
    for data in (b"x", b"", Array(np.zeros(3, np.float32)).data, b"PK\x03\x04" + b"0" * 40):
        local = ArrayRecord({"w": Array(good.dtype, good.shape, good.stype, data)})
        with pytest.raises(bs.InputError, match=r"arrays\['w'\]: its bytes"):
            model.difference(local)
