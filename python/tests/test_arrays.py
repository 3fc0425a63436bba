"""What counts as an update, and when it is copied (case 43 of the abuse suite)."""

import array

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import blindsum as bs
from blindsum.arrays import as_vector


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


class TorchWithGradient:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def detach(self):
        raise NotImplementedError


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


def test_a_tensor_with_gradient_is_refused_with_the_way_out():
    with pytest.raises(bs.InputError, match=r"\.detach\(\)\.cpu\(\)"):
        as_vector(TorchWithGradient())


def test_another_size_is_refused_with_both():
    with pytest.raises(bs.InputError, match=r"4 elements \(shape \(2, 2\)\), but the job's dim is 5"):
        as_vector(np.ones((2, 2)), 5)


shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)
arrays = hnp.arrays(np.float32, shapes, elements=st.floats(-100, 100, width=32))


@given(st.lists(arrays, max_size=5))
def test_unflatten_undoes_flatten(items):
    vector = bs.flatten(items)
    again = bs.unflatten(vector, items)
    assert len(again) == len(items)
    for before, after in zip(items, again, strict=True):
        assert before.shape == after.shape
        assert np.array_equal(before, after)


def test_mappings_keep_their_names():
    weights = {"w": np.ones((2, 2)), "b": np.zeros(1)}
    again = bs.unflatten(bs.flatten(weights), weights)
    assert list(again) == ["w", "b"]
    assert again["w"].shape == (2, 2)


def test_unflatten_gives_views():
    vector = np.zeros(3, dtype=np.float32)
    bs.unflatten(vector, [np.empty(2), np.empty(1)])[1][:] = 7
    assert vector.tolist() == [0, 0, 7]


def test_unflatten_refuses_other_sizes():
    with pytest.raises(bs.InputError, match="4 elements together"):
        bs.unflatten(np.zeros(3), [np.empty((2, 2))])


def test_flatten_names_the_array_that_is_wrong():
    with pytest.raises(bs.InputError, match=r"arrays\[1\]"):
        bs.flatten([np.ones(2), np.ones(2, dtype=int)])
