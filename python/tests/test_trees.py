"""Networks as vectors: names in errors, element types and containers given back."""

from collections import OrderedDict, deque, namedtuple

import ml_dtypes
import numpy as np
import pytest
from conftest import Keyed
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import blindsum as bs

Pair = namedtuple("Pair", "weight bias")
FLOATS = {"float16": np.float16, "float32": np.float32, "float64": np.float64}


class TensorType:
    """A stand-in for the type of its elements."""

    is_complex = False

    def __init__(self, of_numpy):
        self.is_floating_point = of_numpy.kind in "fV"
        self.name = of_numpy.name

    def __str__(self):
        return f"torch.{self.name}"


class Tensor:
    """A stand-in for a PyTorch tensor: what numpy makes of it and what it makes of numpy's arrays."""

    def __init__(self, data, *, requires_grad=False):
        self.data, self.requires_grad = np.array(data), requires_grad
        self.dtype = TensorType(self.data.dtype)
        self.shape = self.data.shape

    def detach(self):
        return Tensor(self.data)

    def float(self):
        return Tensor(self.data.astype(np.float32))

    def new_tensor(self, data):
        return Tensor(np.asarray(data).astype(self.data.dtype))

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.data.dtype == ml_dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.data


def state_dict():
    return OrderedDict(
        [
            ("layers.0.weight", Tensor(np.ones((2, 2), np.float32), requires_grad=True)),
            ("layers.0.scale", Tensor(np.ones(2, ml_dtypes.bfloat16))),
            ("norm.num_batches_tracked", Tensor(np.array(7))),
            ("temperature", Tensor(np.array(0.5), requires_grad=True)),
        ]
    )


def test_a_state_dict_comes_back_as_one():
    state = state_dict()
    vector = bs.flatten(state)
    assert vector.dtype == np.float32
    assert vector.tolist() == [1, 1, 1, 1, 1, 1, 0.5]
    vector.flags.writeable = False
    again = bs.unflatten(2 * vector, state)
    assert type(again) is OrderedDict
    assert list(again) == list(state)
    assert all(isinstance(tensor, Tensor) for tensor in again.values())
    types = [tensor.data.dtype.name for tensor in again.values()]
    assert types == ["float32", "bfloat16", "int64", "float64"]
    assert again["layers.0.weight"].data.tolist() == [[2, 2], [2, 2]]
    assert again["norm.num_batches_tracked"] is state["norm.num_batches_tracked"]
    assert again["temperature"].data == 1.0


shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)
elements = st.floats(-100, 100, width=16)
leaves = st.sampled_from(["float16", "float32", "float64"]).flatmap(
    lambda name: hnp.arrays(FLOATS[name], shapes, elements=elements)
)
trees = st.recursive(
    leaves,
    lambda tree: (
        st.lists(tree, min_size=1, max_size=3)
        | st.dictionaries(st.text("ab", min_size=1), tree, min_size=1, max_size=3)
        | st.tuples(tree, tree)
        | st.builds(Pair, tree, tree)
    ),
    max_leaves=6,
)


def is_same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    return (
        type(one) is type(other)
        and len(one) == len(other)
        and all(is_same(a, b) for a, b in zip(one, other, strict=True))
    )


@given(trees, st.sampled_from([np.float32, np.float64]))
def test_unflatten_undoes_flatten(tree, dtype):
    vector = bs.flatten(tree, dtype)
    assert vector.dtype == dtype
    assert is_same(bs.unflatten(vector, tree), tree)


def test_entries_may_have_one_name():
    tree = {"a.b": np.ones(2, np.float32), "a": {"b": np.zeros(1, np.float32)}}
    assert is_same(bs.unflatten(bs.flatten(tree), tree), tree)


def test_what_gives_arrays_one_by_one_is_a_sequence():
    arrays = [np.ones(2), np.zeros(1)]
    assert bs.flatten(iter(arrays)).tolist() == [1, 1, 0]
    assert [part.shape for part in bs.unflatten(np.zeros(3), iter(arrays))] == [(2,), (1,)]
    assert bs.flatten([]).shape == (0,)


def test_unflatten_gives_views_of_the_same_type_and_copies_of_others():
    vector = np.zeros(3, np.float32)
    same, other = bs.unflatten(vector, [np.empty(2, np.float32), np.empty(1, np.float64)])
    same[:] = other[:] = 7
    assert vector.tolist() == [7, 7, 0]


def test_unflatten_says_what_a_lost_round_gives():
    with pytest.raises(bs.InputError, match=r"None, which result\(\) gives for a round without a result"):
        bs.unflatten(None, [np.zeros(2)])


@pytest.mark.parametrize("vector", [np.zeros(3), np.zeros((2, 2)), np.zeros(5)])
def test_unflatten_refuses_other_sizes(vector):
    with pytest.raises(bs.InputError, match="4 elements together"):
        bs.unflatten(vector, [np.empty((2, 2))])


@pytest.mark.parametrize("vector", [[0.0], np.zeros(1, int), "a", np.ma.masked_array(np.zeros(1))])
def test_unflatten_takes_vectors_of_floats(vector):
    with pytest.raises(bs.InputError, match="vector"):
        bs.unflatten(vector, [np.empty(1)])


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        ({"layers": [{"weight": np.ones(2)}, {"weight": "a"}]}, r"entry 'layers\.1\.weight'"),
        ([np.ones(2), None], "entry '1': None"),
        ({"w": np.array([1.0, 1e39])}, "entry 'w': number 1 is beyond the range of float32.*float64"),
        ({"w": np.ones(2, complex)}, "entry 'w': elements are complex128"),
        ({"w": np.ma.masked_array([1.0])}, "entry 'w': a masked array"),
        ({"w": np.ones(1), "n": np.ma.masked_array([1])}, "entry 'n': a masked array"),
        ({"w": {"only": np.ones(2, int)}}, "all entries are integers"),
        (
            {"w": [1, 0.5, 0.25]},
            r"entry 'w\.0': an integer is neither averaged nor left out; make them floats",
        ),
        ([np.array([3, 4]), np.array([0.5])], "entry '0': integers in a list are neither averaged"),
        ({"w": np.ones(1), "epoch": 3}, "entry 'epoch': an integer is neither"),
        ({"w": np.ones(1), "on": True}, "entry 'on': an integer is neither"),
        ({"w": np.ones(1), "n": np.int64(3)}, "entry 'n': integers"),
        (np.array([1, 2]), "array: integers"),
        ({1.0, 2.0}, "array: a set has no order"),
        ({"w": {1.0}}, "entry 'w': a set has no order"),
    ],
)
def test_flatten_names_the_entry_that_is_wrong(tree, named):
    with pytest.raises(bs.InputError, match=named):
        bs.flatten(tree)


def test_numbers_beyond_the_type_of_an_entry_are_refused():
    like = {"w": np.zeros(2, np.float16)}
    with pytest.raises(bs.InputError, match=r"entry 'w': number 1 is beyond the range of float16"):
        bs.unflatten(np.array([1.0, 1e5], np.float32), like)
    with pytest.raises(bs.InputError, match=r"entry 'w': number 0 is beyond the range of float16"):
        bs.unflatten(np.array([1e5], np.float32), {"w": Tensor(np.zeros(1, np.float16))})


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float16, complex])
def test_a_vector_is_of_floats(dtype):
    with pytest.raises(bs.InputError, match="dtype: must be float32 or float64"):
        bs.flatten([np.array([1.5])], dtype)


@pytest.mark.parametrize(("dtype", "rule"), [("zzz", "not 'zzz'"), (">f4", "not >f4, of another byte order")])
def test_what_is_no_type_of_this_machine_is_refused(dtype, rule):
    with pytest.raises(bs.InputError, match=f"dtype: must be float32 or float64, {rule}"):
        bs.flatten([np.array([1.5])], dtype)


def test_entries_that_are_left_out_are_told_once(caplog):
    state = {"w": np.ones(2), "steps_told_once": np.array(7)}
    for _ in range(3):
        assert bs.flatten(state).tolist() == [1, 1]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "left out of the vector, as they are integers: entry 'steps_told_once'" in record.getMessage()


def test_a_tree_that_contains_itself_is_refused():
    tree = {"w": np.ones(1)}
    tree["again"] = tree
    for take in (bs.flatten, lambda tree: bs.unflatten(np.ones(1), tree)):
        with pytest.raises(bs.InputError, match="entry 'again': is nested more than 100 deep"):
            take(tree)


def test_whatever_has_keys_is_a_mapping():
    tree = Keyed({"a": np.ones(2, np.float32), "n": np.array(3), "b": Keyed({"c": np.zeros(1, np.float32)})})
    vector = bs.flatten(tree)
    assert vector.tolist() == [1, 1, 0]
    again = bs.unflatten(vector, tree)
    assert list(again) == ["a", "n", "b"]
    assert again["b"]["c"].tolist() == [0]


def test_a_deque_is_a_sequence():
    tree = {"w": deque([np.ones(1), np.zeros(2)])}
    assert [part.shape for part in bs.unflatten(bs.flatten(tree), tree)["w"]] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("a", "array: the template, str, is not an array of floats"),
        ({"w": np.zeros(1, object)}, "entry 'w': the template, ndarray, is not an array of floats"),
        ({"w": None}, "entry 'w': the template, NoneType"),
        ({"w": np.ma.masked_array(np.zeros(1), mask=[True])}, "entry 'w': the template is masked"),
        ({"w": np.zeros(1), "n": np.ma.masked_array([1])}, "entry 'n': the template is masked"),
        ({"w": [1]}, r"entry 'w\.0': an integer is neither"),
    ],
)
def test_unflatten_refuses_templates_that_no_vector_has(template, named):
    with pytest.raises(bs.InputError, match=named):
        bs.unflatten(np.ones(1), template)


def test_numbers_below_the_range_become_zero():
    assert bs.flatten([np.array([1e-50])]).tolist() == [0]
    assert bs.unflatten(np.array([1e-9]), [np.zeros(1, np.float16)])[0].tolist() == [0]
