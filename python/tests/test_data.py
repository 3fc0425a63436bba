"""Data sets: what is read out of files as their authors write them, and what is said of damaged ones."""

import gzip
import json
import os
import pickle
import sys
from pathlib import Path

import data_files
import numpy as np
import pytest
from data_files import COUNT, GREY, LABELS, PIXELS, WRITERS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

import blindsum as bs
from blindsum.errors import BlindsumError, ConfigError, DataError
from blindsum.learning import data
from blindsum.learning.dataset import Dataset
from blindsum.learning.readers import cifar, text

SHAPES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "femnist": (1, 28, 28), "har": (561,)}
SHAPES |= dict.fromkeys(["cifar-10", "cifar-100", "svhn"], (3, 32, 32)) | {"shakespeare": (80,)}


@pytest.fixture
def written(tmp_path):
    """Writes the files of a data set, and gives their folder."""

    def write(name):
        WRITERS[name](tmp_path)
        return tmp_path

    return write


def test_there_are_files_for_every_data_set_that_is_read_from_some():
    assert set(WRITERS) == {name for name, source in data.SOURCES.items() if source.files}


def test_the_page_has_the_table_of_the_data_sets():
    page = (Path(__file__).resolve().parents[2] / "docs/data.md").read_text(encoding="utf-8")
    for name, source in data.SOURCES.items():
        assert f"| `{name}` | {source.size} | {source.licence} | {source.home} |\n" in page
        files = dict.fromkeys(file for part in source.files.values() for file in part)
        assert not files or f"| `{name}` | {', '.join(f'`{file}`' for file in files)} |\n" in page


@pytest.mark.parametrize("part", data.PARTS)
@pytest.mark.parametrize("name", WRITERS)
def test_every_data_set_is_read(name, part, written):
    found = data.load(name, part=part, folder=written(name))
    count = 5 * COUNT if (name, part) == ("cifar-10", "train") else COUNT
    assert len(found) == count
    assert found.features.shape == (count, *SHAPES[name])
    assert found.features.dtype == (np.int64 if name == "shakespeare" else np.float32)
    assert found.labels.shape == (count,)
    assert found.labels.dtype == np.int64
    assert 0 <= found.labels.min() <= found.labels.max() < len(found.names)
    assert (found.users is not None) == (name in ("femnist", "shakespeare", "har"))
    assert found.flat.shape == (count, np.prod(SHAPES[name]))


def test_pixels_labels_and_users_are_those_of_the_files(written):
    found = data.load("mnist", folder=written("mnist"))
    assert np.array_equal(found.features[:, 0] * 255, GREY)
    assert np.array_equal(found.labels, LABELS)


def test_files_need_not_be_compressed(tmp_path):
    data_files.mnist(tmp_path, compressed=False)
    assert np.array_equal(data.load("fashion-mnist", folder=tmp_path).features[:, 0] * 255, GREY)


@pytest.mark.parametrize("name", ["cifar-10", "cifar-100", "svhn"])
def test_colours_come_first(name, written):
    found = data.load(name, part="test", folder=written(name))
    assert np.array_equal(np.rint(found.features * 255), PIXELS)
    assert np.array_equal(found.labels, LABELS)
    assert found.names[3] == ("3" if name == "svhn" else "a3")


def test_users_and_characters_are_those_of_the_files(written):
    found = data.load("shakespeare", folder=written("shakespeare"))
    assert found.users.tolist() == ["ann"] * 5 + ["bob"] * 7
    assert [found.names[label] for label in found.labels[:3]] == ["e", "\n", "other"]
    assert "".join(found.names[one] for one in found.features[1]).startswith("o be, or not to be")


def test_the_letters_of_femnist_come_behind_the_digits(written):
    found = data.load("femnist", folder=written("femnist"))
    assert found.names[found.labels[0]] == "z"
    assert len(found.names) == 62
    assert np.allclose(found.features[3, 0] * 255, GREY[3], atol=0.05)


def test_activities_have_names_and_users(written):
    found = data.load("har", folder=written("har"))
    assert found.names == ["WALKING", "SITTING"]
    assert np.array_equal(found.users, LABELS + 1)


# --- what comes with packages


def test_digits_are_split():
    train, test = data.load("digits"), data.load("digits", part="test")
    assert (len(train), len(test)) == (1442, 355)
    assert train.features.max() == 1.0
    both = {one.tobytes() for one in train.flat} & {one.tobytes() for one in test.flat}
    assert len(both) == 0
    assert set(np.bincount(test.labels)) <= {34, 35, 36}


def test_the_topics_of_python_are_windows_of_their_texts():
    from pydoc_data.topics import topics

    train, test = data.load("python-topics"), data.load("python-topics", part="test")
    assert len(train) > 3 * len(test) > 10_000
    assert train.features.shape[1] == text.LENGTH
    place = int(np.flatnonzero(train.users == "assert")[1])
    window = "".join(train.names[one] for one in [*train.features[place], train.labels[place]])
    assert window == topics["assert"][text.STEP : text.STEP + text.LENGTH + 1]
    assert set(test.users) <= set(train.users) | {"nothing"}


def test_characters_have_numbers():
    assert text.coded("\n ~é🎲\t").tolist() == [0, 1, 95, 96, 96, 96]
    assert text.NAMES[0] == "\n"
    assert text.NAMES[95] == "~"
    assert text.windows("a" * text.LENGTH).shape == (0, text.LENGTH + 1)
    assert text.windows("a" * (text.LENGTH + 1)).shape == (1, text.LENGTH + 1)


def test_examples_are_taken():
    whole = Dataset(np.arange(6).reshape(3, 2), np.array([0, 1, 0]), np.array(["a", "b", "a"]), ("x", "y"))
    part = whole.take([2, 0])
    assert part.features.tolist() == [[4, 5], [0, 1]]
    assert part.users.tolist() == ["a", "a"]
    assert part.names == ("x", "y")


@pytest.mark.parametrize(
    ("module", "name"),
    [("sklearn.datasets", "digits"), ("pydoc_data.topics", "python-topics"), ("scipy.io", "svhn")],
)
def test_a_missing_package_is_named(module, name, written, monkeypatch):
    folder = written(name) if name in WRITERS else None
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BlindsumError, match="install"):
        data.load(name, folder=folder)


# --- what is refused


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "fashion-mnist"])
def test_without_a_folder_it_is_said_what_to_get(name):
    with pytest.raises(ConfigError) as raised:
        data.load(name)
    source = data.SOURCES[name]
    assert raised.value.field == "folder"
    assert all(part in str(raised.value) for part in (source.files["train"][0], source.home, source.licence))


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_file_is_named_with_its_source(name, written):
    folder = written(name)
    wanted = data.SOURCES[name].files["test"]
    for path in folder.glob(wanted[-1]):
        path.unlink()
    with pytest.raises(bs.DataError, match="there is no such file") as raised:
        data.load(name, part="test", folder=folder)
    assert raised.value.path == os.path.join(folder, wanted[-1])
    assert data.SOURCES[name].home in str(raised.value)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "imagenet"}, "name"),
        ({"name": "digits", "part": "validation"}, "part"),
        ({"name": "digits", "folder": "x"}, "folder"),
        ({"name": "mnist", "folder": ""}, "folder"),
    ],
)
def test_wrong_arguments_are_named(given, field):
    with pytest.raises(ConfigError) as raised:
        data.load(**given)
    assert raised.value.field == field


@pytest.mark.parametrize("name", WRITERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(values=st.data())
def test_a_damaged_file_is_refused_or_read_as_something_whole(name, values, tmp_path_factory):
    folder = tmp_path_factory.mktemp(name)
    WRITERS[name](folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = values.draw(st.sampled_from(files))
    content = bytearray(path.read_bytes())
    if values.draw(st.booleans()):
        del content[values.draw(st.integers(0, len(content) - 1)) :]
    else:
        # Most of a file is pixels, which may be anything: headers are hit as often.
        end = values.draw(st.sampled_from([20, 200, len(content) - 1]))
        for _ in range(values.draw(st.integers(1, 4))):
            content[values.draw(st.integers(0, min(end, len(content) - 1)))] = values.draw(
                st.integers(0, 255)
            )
    path.write_bytes(content)
    for part in data.PARTS:
        found = loaded_or_refused(name, part, folder)
        if isinstance(found, Dataset):
            assert len(found.features) == len(found.labels) > 0
            assert found.labels.max() < len(found.names)
            assert np.isfinite(found.features).all()
        else:
            assert found.path.startswith(str(folder))
            assert "\n" not in str(found)


def loaded_or_refused(name, part, folder):
    try:
        return data.load(name, part=part, folder=folder)
    except DataError as error:
        return error


def edited(path, change):
    """Change a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def idx_file(name, array):
    return lambda folder: (folder / f"train-{name}-ubyte.gz").write_bytes(
        gzip.compress(data_files.idx(array))
    )


def batch_of(**changes):
    content = {"data": PIXELS.reshape(COUNT, -1), "fine_labels": LABELS.tolist()} | changes
    return lambda folder: (folder / "train").write_bytes(pickle.dumps(content, 2))


def leaf_with(change):
    return lambda folder: edited(folder / "train" / "all_data_0.json", change)


def lines(name, content):
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def matlab(**content):
    whole = {"X": PIXELS.transpose(2, 3, 1, 0), "y": LABELS[:, None] + 1} | content
    return lambda folder: savemat(folder / "train_32x32.mat", whole)


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("mnist", idx_file("images-idx3", GREY[:, :27]), "27 × 28 pixels, not 28 × 28"),
        ("mnist", idx_file("labels-idx1", LABELS[1:]), "11 labels for 12 images"),
        ("mnist", idx_file("labels-idx1", LABELS + 1), "the label 10, and the last one is 9"),
        ("mnist", idx_file("labels-idx1", GREY), "does not begin as an IDX file of bytes with 1 axes"),
        ("cifar-100", batch_of(data=PIXELS), "shape \\(12, 3, 32, 32\\), not \\(n, 3072\\)"),
        ("cifar-100", batch_of(data=PIXELS.reshape(COUNT, -1).astype(np.int16)), "none of bytes"),
        ("cifar-100", batch_of(data=[1]), "its entry data is no array"),
        ("cifar-100", batch_of(fine_labels=[1]), "no list of 12 labels"),
        ("cifar-100", batch_of(fine_labels=[100] * COUNT), "no whole number from 0 to 99"),
        ("cifar-100", lambda folder: (folder / "train").write_bytes(pickle.dumps([1])), "no dictionary"),
        ("cifar-100", lambda folder: (folder / "meta").write_bytes(pickle.dumps({})), "no list of names"),
        ("svhn", matlab(y=LABELS[:, None]), "no whole number from 1 to 10"),
        ("svhn", matlab(y=LABELS), "no array of labels of shape \\(12, 1\\)"),
        ("svhn", matlab(X=PIXELS), "no array of bytes of shape"),
        ("svhn", matlab(X=PIXELS.transpose(2, 3, 1, 0).astype(float)), "no array of bytes"),
        ("femnist", leaf_with(lambda one: one["users"].pop()), "of the same users"),
        ("femnist", leaf_with(lambda one: one.update(users=["ann", "ann"])), "of the same users"),
        ("femnist", leaf_with(lambda one: one.update(users=[["ann"], 1])), "of the same users"),
        ("femnist", leaf_with(lambda one: one["num_samples"].reverse()), "as num_samples says"),
        ("femnist", leaf_with(lambda one: one["user_data"]["ann"]["y"].pop()), "as num_samples says"),
        ("femnist", leaf_with(lambda one: one["user_data"]["ann"]["x"][0].pop()), "examples of user 'ann'"),
        ("femnist", leaf_with(lambda one: one["user_data"]["ann"]["y"].__setitem__(0, 62)), "from 0 to 61"),
        ("femnist", leaf_with(lambda one: one["user_data"]["bob"]["x"][0].__setitem__(0, 2)), "from 0 to 1"),
        ("shakespeare", leaf_with(lambda one: one["user_data"]["bob"]["x"].__setitem__(0, "a")), "80 chara"),
        (
            "shakespeare",
            leaf_with(lambda one: one["user_data"]["bob"]["y"].__setitem__(0, 7)),
            "one character",
        ),
        ("shakespeare", lines("train/all_data_0.json", "{"), "cannot be read as JSON"),
        ("har", lines("train/y_train.txt", "1\n" * 11), "does not have 12 lines with one number"),
        ("har", lines("train/y_train.txt", "3\n" * COUNT), "not from 1 to 2"),
        ("har", lines("train/subject_train.txt", "a\n" * COUNT), "no table of numbers"),
        ("har", lines("train/X_train.txt", "1 2 3\n" * COUNT), "not 561 finite numbers"),
        ("har", lines("train/X_train.txt", ("nan " * 561 + "\n") * COUNT), "not 561 finite numbers"),
        ("har", lines("train/X_train.txt", " \n"), "it is empty"),
        ("har", lines("activity_labels.txt", "2 WALKING\n"), "numbers from 1 on"),
        ("har", lines("activity_labels.txt", "1 WALKING FAST\n"), "not a number and a name"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(name, damage, why, written):
    folder = written(name)
    damage(folder)
    with pytest.raises(DataError, match=why):
        data.load(name, folder=folder)


class Calls:
    """Pickled, it is a call of a function by whoever reads it."""

    def __init__(self, function, *arguments):
        self._call = function, arguments

    def __reduce__(self):
        return self._call


@pytest.mark.parametrize("protocol", range(2, 6))
def test_nothing_in_a_pickle_is_called(protocol, written):
    folder = written("cifar-100")
    made = folder / "made"
    for call in (Calls(os.mkdir, str(made)), Calls(eval, "1"), Calls(np.load, "x"), Calls(Dataset, 1)):
        (folder / "train").write_bytes(pickle.dumps({"data": call}, protocol))
        with pytest.raises(DataError, match="which is not called here"):
            data.load("cifar-100", folder=folder)
    assert not made.exists()


def test_an_array_in_a_pickle_never_reaches_numpy_with_a_foreign_type(written):
    # Of objects, of fields at places outside of it: what numpy would believe.
    folder = written("cifar-100")
    for array in (np.array([["a"]], dtype=object), np.zeros((1, 1), dtype="u1,u1"), np.zeros((1, 1), ">u2")):
        (folder / "train").write_bytes(pickle.dumps({"data": array, "fine_labels": [0]}, 2))
        with pytest.raises(DataError, match="none of bytes"):
            data.load("cifar-100", folder=folder)
    assert isinstance(cifar.unpickled(folder / "train")["data"], cifar.PickledArray)
