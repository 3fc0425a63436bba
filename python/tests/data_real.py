"""The 70,000 images of Fashion-MNIST as Debian has them: `make data` runs this where they are installed.

What can be tested without them is tested by test_data.py.
"""

from pathlib import Path

import numpy as np
import pytest

from blindsum.cli import main
from blindsum.learning import data, partitions

FOLDER = Path(data.SOURCES["fashion-mnist"].folder)


@pytest.fixture(scope="module")
def train():
    return data.load("fashion-mnist")


def test_all_images_are_there(train):
    test = data.load("fashion-mnist", part="test", folder=FOLDER)
    assert (train.features.shape, test.features.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
    for found, each in ((train, 6000), (test, 1000)):
        assert (np.bincount(found.labels) == each).all()
        assert (found.features.min(), found.features.max()) == (0, 1)
    assert train.names[train.labels[0]] == "ankle boot"
    # As published: the mean over all pixels.
    assert round(float(train.features.mean(dtype=np.float64)), 4) == 0.286


def test_a_partition_as_in_the_thesis(train):
    parts = partitions.skewed(train.labels, 10, share=0.9, seed=1)
    assert all(one.share >= 0.9 for one in partitions.describe(train.labels, parts))


def test_a_partition_by_the_command(tmp_path, capsys):
    words = [
        "data",
        "fashion-mnist",
        "--partition",
        "dirichlet:0.5",
        "--parties",
        "10",
        "--out",
        str(tmp_path),
    ]
    assert main(words) == 0
    assert "60,000 examples, 10 parties" in capsys.readouterr().out
    sizes = [len(np.load(tmp_path / f"party-{party}.npz")["labels"]) for party in range(10)]
    assert sum(sizes) == 60_000
    assert len(np.load(tmp_path / "test.npz")["labels"]) == 10_000
