"""What counts as an update, and when it is copied (case 43 of the abuse suite)."""

import array
from collections import deque
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from conftest import Keyed

import blindsum as bs
from blindsum import rules
from blindsum.arrays import as_integers, as_vector
from blindsum.cli import serve
from blindsum.first_model import first_model


def address(data):
    return data.__array_interface__["data"][0]


class Tensor:
    """A stand-in for tensors of other libraries: only ``__array__``."""

    def __init__(self, data):
        self.data = data

    def __array__(self, dtype=None, copy=None):
        return self.data if dtype is None else self.data.astype(dtype)


class TorchBfloat16:
    """A stand-in for a PyTorch tensor of bfloat16, which refuses ``__array__``."""

    dtype = "torch.bfloat16"

    def __init__(self, data):
        self.data = data

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")

    def float(self):
        return Tensor(self.data)


class Torch:
    """A stand-in for a PyTorch tensor, in one of the states in which PyTorch gives numpy no array."""

    def __init__(self, data, layout="torch.strided", device="cpu", state=()):
        self.data, self.layout, self.device, self.state = data, layout, device, set(state)
        self.requires_grad, self.is_quantized = "grad" in self.state, "quantised" in self.state

    def _without(self, state):
        return Torch(self.data, self.layout, self.device, self.state - {state})

    def detach(self):
        return self._without("grad")

    def is_conj(self):
        return "conj" in self.state

    def is_neg(self):
        return "neg" in self.state

    def resolve_conj(self):
        return self._without("conj")

    def resolve_neg(self):
        return Torch(-self.data, self.layout, self.device, self.state - {"neg"})

    def __array__(self, dtype=None, copy=None):
        if self.state or self.layout != "torch.strided" or self.device != "cpu":
            raise RuntimeError("Can't call numpy() on this tensor")
        return self.data


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_contiguous_floats_are_not_copied(dtype):
    data = np.arange(6, dtype=dtype).reshape(2, 3)
    vector = as_vector(data, 6)
    assert vector.dtype == dtype
    assert vector.shape == (6,)
    assert address(vector) == address(data)


def test_read_only_memory_is_used_in_place():
    data = np.arange(4, dtype=np.float32)
    data.flags.writeable = False
    assert address(as_vector(data)) == address(data)


def test_buffers_are_used_in_place():
    data = array.array("f", [1.0, 2.0])
    assert address(as_vector(data)) == data.buffer_info()[0]
    assert as_vector(memoryview(data)).tolist() == [1.0, 2.0]


def test_tensors_are_used_in_place():
    data = np.ones(3, dtype=np.float32)
    assert address(as_vector(Tensor(data))) == address(data)


def test_strided_arrays_are_copied_in_c_order():
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert as_vector(data.T).tolist() == [0, 3, 1, 4, 2, 5]
    assert as_vector(data[:, ::-2]).tolist() == [2, 0, 5, 3]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ">f4"])
def test_other_floats_become_float32(dtype):
    vector = as_vector(np.array([1.5, -2.0], dtype=dtype))
    assert vector.dtype == np.float32
    assert vector.dtype.isnative
    assert vector.tolist() == [1.5, -2.0]


def test_foreign_byte_order_keeps_double_precision():
    vector = as_vector(np.array([0.1], dtype=">f8"))
    assert vector.dtype == np.float64
    assert vector.dtype.isnative
    assert vector[0] == 0.1


def test_torch_bfloat16_goes_through_float32():
    assert as_vector(TorchBfloat16(np.array([1.5], dtype=np.float32))).tolist() == [1.5]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool])
def test_integers_are_refused_with_the_way_out(dtype):
    with pytest.raises(bs.InputError, match="astype"):
        as_vector(np.ones(3, dtype=dtype))


@pytest.mark.parametrize("data", [b"abc", "abc", object(), None, np.array(["a"]), np.ones(2, dtype=complex)])
def test_what_is_no_array_of_floats_is_refused(data):
    with pytest.raises(bs.InputError, match="update"):
        as_vector(data)


@pytest.mark.parametrize("data", [[1.0, 2.0], (np.ones(2),), {"w": np.ones(2)}])
def test_collections_are_sent_to_flatten(data):
    with pytest.raises(bs.InputError, match=r"blindsum\.flatten"):
        as_vector(data)


def test_tensors_are_taken_without_gradient_conjugate_and_negative_bit():
    data = np.array([1.0, -2.0], np.float32)
    assert address(as_vector(Torch(data, state=["grad"]))) == address(data)
    assert as_vector(Torch(data, state=["grad", "conj", "neg"])).tolist() == [-1.0, 2.0]
    assert as_integers(Torch(np.array([1, 2]), state=["conj"])).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("tensor", "rule"),
    [
        (Torch(None, layout="torch.sparse_coo"), r"is sparse.*\.to_dense\(\)"),
        (Torch(None, layout="torch._mkldnn"), r"\.to_dense\(\)"),
        (Torch(None, state=["quantised"]), r"is quantised.*\.dequantize\(\)"),
        (Torch(None, device="cuda:0"), r"is on cuda:0.*\.cpu\(\)"),
        (Torch(None, device="cuda:0", state=["grad"]), r"is on cuda:0.*\.cpu\(\)"),
    ],
)
def test_other_tensors_are_refused_with_the_way_out(tensor, rule):
    for take in (as_vector, as_integers):
        with pytest.raises(bs.InputError, match=rule):
            take(tensor)


def unaligned(values, dtype, offset=1):
    """The values behind a header of one byte, as they come out of a message."""
    data = np.asarray(values).astype(dtype)
    array = np.ndarray(data.shape, data.dtype, bytearray(b"\0" * offset + data.tobytes()), offset=offset)
    assert not array.flags.aligned
    return array


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", ">f8"])
def test_unaligned_floats_are_copied_once(dtype):
    vector = as_vector(unaligned([[1.5, -2.0], [0.25, 3.0]], dtype))
    assert vector.flags.aligned
    assert vector.dtype == (np.float64 if dtype.endswith("8") else np.float32)
    assert vector.tolist() == [1.5, -2.0, 0.25, 3.0]


@pytest.mark.parametrize("dtype", ["<u2", "<i4", "<u4", "<i8", "<u8", ">u4", ">i8", ">u8"])
def test_unaligned_integers_are_copied_once(dtype):
    vector = as_integers(unaligned([1, 2, 300], dtype))
    assert vector.flags.aligned
    assert vector.dtype.isnative
    assert vector.tolist() == [1, 2, 300]


def test_unaligned_arrays_are_taken_everywhere():
    spec = bs.JobSpec(protocol="plain", parties=3, dim=2, encoding=bs.Quantised(clip=2.0, bits=24))
    mean = bs.simulate(spec, [unaligned([1, 2], np.float32)] * 3).mean
    assert np.allclose(mean, [1, 2], atol=spec.max_error)
    votes = bs.JobSpec(protocol="plain", parties=3, dim=2, encoding=bs.Integers(bits=8))
    assert bs.simulate(votes, [unaligned([1, 2], np.int64)] * 3).sum.tolist() == [3, 6]


class Masked:
    """Something of another library that hides elements."""

    def __array__(self, dtype=None, copy=None):
        return np.ma.masked_array(np.ones(2, np.float32), mask=[False, True])


@pytest.mark.parametrize(
    "data",
    [
        np.ma.masked_array(np.array([0.1, 0.9], np.float32), mask=[False, True]),
        np.ma.masked_array(np.array([0.1, 0.9], np.float32)),
        Masked(),
    ],
)
def test_masked_arrays_are_refused_with_the_way_out(data):
    spec = bs.JobSpec(protocol="plain", parties=3, dim=2)
    for take in (as_vector, bs.flatten, lambda data: bs.simulate(spec, [data] * 3)):
        with pytest.raises(bs.InputError, match=r"fill it, e\.g\. x\.filled\(0\)"):
            take(data)


def test_masked_integers_and_masked_rows_are_refused():
    hidden = np.ma.masked_array(np.ones((3, 2), np.uint32), mask=True)
    votes = bs.JobSpec(protocol="plain", parties=3, dim=2, encoding=bs.Integers(bits=8))
    for updates in (hidden, [[1, np.ma.masked]] * 3):
        with pytest.raises(bs.InputError, match="fill it"):
            bs.simulate(votes, updates)
    with pytest.raises(bs.InputError, match="fill it"):
        rules.median(list(np.ma.masked_array(np.ones((3, 2)), mask=True)))


@pytest.mark.parametrize("updates", [{0: [0.5]}, {"a": np.ones(1)}, {1.0}, frozenset([1])])
def test_mappings_and_sets_have_no_order_of_parties(updates):
    spec = bs.JobSpec(protocol="plain", parties=3, dim=1, encoding=bs.Quantised(max_weight=10))
    with pytest.raises(bs.InputError, match="updates: must be a list of one array per party"):
        bs.simulate(spec, updates)
    with pytest.raises(bs.InputError, match="weights: must be a list of one whole number per party"):
        bs.simulate(spec, [np.ones(1)] * 3, weights=updates)


def test_whatever_has_keys_is_refused_as_a_list():
    weighted = bs.JobSpec(protocol="plain", parties=3, dim=1, encoding=bs.Quantised(max_weight=10))
    with pytest.raises(bs.InputError, match=r"weights: must be a list .* not a Keyed"):
        bs.simulate(weighted, [np.ones(1)] * 3, weights=Keyed({1: 5, 2: 5, 3: 5}))
    with pytest.raises(bs.InputError, match=r"updates: must be a list .* not a Keyed"):
        bs.simulate(weighted, Keyed({1: np.ones(1)}))
    for take in (as_vector, as_integers, rules.median):
        with pytest.raises(bs.InputError, match="a Keyed is not an array"):
            take(Keyed({1: 5, 2: 5}))


@pytest.mark.parametrize("rows", [[[np.ma.masked_array([1, 2], mask=[0, 1])]], [deque([1, np.ma.masked])]])
def test_masks_are_found_at_any_depth(rows):
    for take in (as_integers, rules.median):
        with pytest.raises(bs.InputError, match="fill it"):
            take(rows)
    with pytest.raises(bs.InputError, match="fill it"):
        as_vector(deque([np.ma.masked_array([0.5, 0.5], mask=[0, 1])]))


@pytest.mark.parametrize(
    ("update", "kind"), [((x for x in [1]), "generator"), ({1}, "set"), (b"1", "bytes"), (None, "NoneType")]
)
def test_what_is_no_list_of_integers_is_named(update, kind):
    with pytest.raises(bs.InputError, match=f"update: {kind} is neither an array nor a list of integers"):
        as_integers(update, 1)


@pytest.mark.parametrize(
    ("clip", "rule"),
    [
        (np.ma.masked, r"encoding\.clip: must be a number, not masked"),
        (np.longdouble("0.1"), r", a longdouble; float\(x\) makes a plain number"),
    ],
)
def test_numbers_that_no_file_has_are_refused(clip, rule):
    with pytest.raises(bs.SpecError, match=rule):
        bs.JobSpec(protocol="plain", dim=1, parties=3, encoding=bs.Quantised(clip=clip))


def test_models_beyond_float32_are_refused_as_what_they_are():
    spec = bs.JobSpec(protocol="plain", parties=3, dim=2)
    with pytest.raises(
        bs.InputError, match=r"^model: coordinate 1, 1e\+300, is beyond the range of float32; "
    ):
        first_model(np.array([0, 1e300]), spec)
    with pytest.raises(bs.InputError, match=r"^--model m: coordinate 0 is not a finite number"):
        first_model(np.array([np.nan, 0]), spec, "--model m")
    assert first_model(np.array([0, 1e300]), spec.replace(encoding="fixed64"))[1] == 1e300


def test_a_command_names_the_file_of_a_model_once(tmp_path):
    path = str(tmp_path / "m.npy")
    np.save(path, np.full(2, 1e300))
    with pytest.raises(bs.InputError) as refused:
        serve._model(path, bs.JobSpec(protocol="plain", parties=3, dim=2))
    assert str(refused.value).startswith(
        f"--model {path}: coordinate 0, 1e+300, is beyond the range of float32"
    )


def test_integers_that_numpy_has_no_sum_of_are_refused_readably():
    few = np.array([1, 2], dtype=ml_dtypes.int4)
    with pytest.raises(
        bs.InputError, match=r"elements are int4, not integers that numpy can add; convert them"
    ):
        as_integers(few)
    with pytest.raises(bs.InputError, match=r"elements are int4, not float32 or float64; convert them"):
        as_vector(few)
    with pytest.raises(bs.InputError, match="real and imaginary"):
        as_vector(np.ones(2, complex))


@pytest.mark.parametrize("clip", [np.float32(0.1), np.float16(0.1), np.array(0.1, np.float32)])
def test_a_narrow_float_is_the_number_that_it_is_written_as(clip):
    def spec(clip):
        return bs.JobSpec(protocol="plain", dim=1, parties=3, encoding=bs.Quantised(clip=clip))

    assert spec(clip).hash == spec(0.1).hash
    assert spec(clip).clip == 0.1


def test_results_with_arrays_have_an_equality():
    spec = bs.JobSpec(protocol="plain", parties=3, dim=2, encoding=bs.Quantised(rounding="nearest"))
    one, other = (bs.simulate(spec, np.full((3, 2), value), seed=1) for value in (0.5, 0.25))
    assert one != other
    assert one != 1
    assert replace(one, mean=other.mean, max_abs_error=None) != one
    assert replace(one) == one
    assert replace(one, mean=None) != one


def test_another_size_is_refused_with_both():
    with pytest.raises(bs.InputError, match=r"4 elements \(shape \(2, 2\)\), but the job's dim is 5"):
        as_vector(np.ones((2, 2)), 5)


@pytest.mark.parametrize("kind", ["strided", "broadcast", "half", "foreign", "integers", "list"])
def test_a_copy_that_no_memory_holds_is_refused_by_name(kind, monkeypatch):
    """numpy has no memory for it: what it says of that is a bare MemoryError."""

    def full(*_, **__):
        raise MemoryError

    spec = bs.JobSpec(protocol="plain", parties=2, dim=8)
    updates = {
        "strided": np.zeros((8, 2))[:, 0],
        "broadcast": np.broadcast_to(np.float32(1), 8),
        "half": np.zeros(8, np.float16),
        "foreign": np.zeros(8, ">f8"),
        "integers": np.zeros(16, np.uint8)[::2],
        "list": [1] * 8,
    }
    if kind in ("integers", "list"):
        spec = spec.replace(encoding=bs.Integers(bits=8), model_update="none")
    monkeypatch.setattr(np, "array" if kind == "list" else "ascontiguousarray", full)
    with pytest.raises(bs.MemoryLimitError, match=r"updates\[0\]: no memory is left"):
        bs.simulate(spec, [updates[kind]] * 2)
