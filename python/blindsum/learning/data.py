"""The data sets of the papers, from files that are here: nothing is downloaded.

>>> digits = load("digits")
>>> digits.features.shape
(1442, 1, 8, 8)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blindsum import checks
from blindsum.errors import BlindsumError, ConfigError, DataError
from blindsum.learning.dataset import Dataset
from blindsum.learning.readers import cifar, har, idx, leaf, svhn, text

PARTS = ("train", "test")

MNIST_NAMES = tuple("0123456789")
FASHION_NAMES = (
    "T-shirt",
    "trousers",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)

Found = Sequence[Sequence[Path]]
"""For each pattern of a part, the files that fit."""


@dataclass(frozen=True)
class Source:
    """Where a data set is from, and how it is read.

    Attributes
    ----------
    title : str
        What it is.
    size : str
        Its examples for training and test, as its authors publish it.
    licence : str
        On which terms it may be used.
    home : str
        The page of its authors, or the package that has it.
    files : mapping
        For ``train`` and for ``test`` the names of the files that are needed; ``*`` stands for any letters.
        Empty where a package has the data.
    read : callable
        Reads what is found, one list of paths for each name, or the part where a package has the data.
    folder : str or None
        Where the files are looked for when no folder is given.
    """

    title: str
    size: str
    licence: str
    home: str
    files: Mapping[str, Sequence[str]]
    read: Callable[[Found], Dataset] | Callable[[str], Dataset]
    folder: str | None = None


def load(name: str, *, part: str = "train", folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name
        One of :data:`SOURCES`.
    part
        ``train`` or ``test``, as the authors split it. Every fifth example of each digit is for the test. Of
        ``python-topics`` the last fifth of each topic is.
    folder
        Where its files are. ``fashion-mnist`` is also found where Debian's package puts it.

    Returns
    -------
    Dataset
        Features, labels and, where known, users.

    Raises
    ------
    blindsum.ConfigError
        There is no such data set or part, or it needs a folder and none is given.
    blindsum.DataError
        A file is not there or damaged.
    blindsum.BlindsumError
        A package is not installed.
    """
    if name not in SOURCES:
        raise ConfigError("name", f"{name!r} must be one of {', '.join(SOURCES)}")
    if part not in PARTS:
        raise ConfigError("part", f"{part!r} must be one of {', '.join(PARTS)}")
    source = SOURCES[name]
    if not source.files:
        if folder is not None:
            raise ConfigError("folder", f"{name} comes from {source.home}, not from a folder: leave it out")
        return source.read(part)  # type: ignore[arg-type]
    return source.read(_found(name, source, part, folder))  # type: ignore[arg-type]


def _found(name: str, source: Source, part: str, folder: str | os.PathLike[str] | None) -> Found:
    """The files of each pattern."""
    wanted = source.files[part]
    advice = (
        f"get {source.title} from {source.home} (licence: {source.licence}), and give the folder of its files"
    )
    if folder is None and source.folder is None:
        raise ConfigError("folder", f"{name} is read from {', '.join(wanted)}, which are not here: {advice}")
    place = Path(checks.path("folder", folder if folder is not None else source.folder))
    found = [sorted(place.glob(pattern)) for pattern in wanted]
    for pattern, paths in zip(wanted, found, strict=True):
        if not paths:
            raise DataError(place / pattern, f"there is no such file, which {name} needs: {advice}")
    return found


def _read_digits(part: str) -> Dataset:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise BlindsumError(
            "digits need scikit-learn; install it with `pip install 'blindsum[data]'`"
        ) from error
    pixels, labels = load_digits(return_X_y=True)
    tested = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        tested[np.flatnonzero(labels == digit)[4::5]] = True
    chosen = tested if part == "test" else ~tested
    features = (pixels[chosen] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return Dataset(features, labels[chosen].astype(np.int64), None, MNIST_NAMES)


def _idx(names: Sequence[str]) -> Callable[[Found], Dataset]:
    return lambda found: idx.read(found[0][0], found[1][0], names)


def _cifar(label: str, names: str) -> Callable[[Found], Dataset]:
    return lambda found: cifar.read([paths[0] for paths in found[1:]], found[0][0], label, names)


def _both(*names: str, test: str) -> dict[str, Sequence[str]]:
    """Names of files for training that hold the word ``train``, and the same for the test."""
    return {"train": names, "test": [name.replace("train", test) for name in names]}


SOURCES: Mapping[str, Source] = {
    "digits": Source(
        "handwritten digits of 8 × 8 pixels",
        "1,442 and 355",
        "CC BY 4.0",
        "scikit-learn",
        {},
        _read_digits,
    ),
    "mnist": Source(
        "MNIST",
        "60,000 and 10,000",
        "CC BY-SA 3.0",
        "yann.lecun.com/exdb/mnist",
        _both("train-images-idx3-ubyte*", "train-labels-idx1-ubyte*", test="t10k"),
        _idx(MNIST_NAMES),
    ),
    "fashion-mnist": Source(
        "Fashion-MNIST",
        "60,000 and 10,000",
        "MIT",
        "github.com/zalandoresearch/fashion-mnist, or Debian's dataset-fashion-mnist",
        _both("train-images-idx3-ubyte*", "train-labels-idx1-ubyte*", test="t10k"),
        _idx(FASHION_NAMES),
        "/usr/share/datasets/fashion-mnist",
    ),
    "cifar-10": Source(
        "CIFAR-10, version for Python",
        "50,000 and 10,000",
        "none is stated; its authors ask for a citation",
        "www.cs.toronto.edu/~kriz/cifar.html",
        {
            "train": ["batches.meta", *(f"data_batch_{number}" for number in range(1, 6))],
            "test": ["batches.meta", "test_batch"],
        },
        _cifar("labels", "label_names"),
    ),
    "cifar-100": Source(
        "CIFAR-100, version for Python",
        "50,000 and 10,000",
        "none is stated; its authors ask for a citation",
        "www.cs.toronto.edu/~kriz/cifar.html",
        _both("meta", "train", test="test"),
        _cifar("fine_labels", "fine_label_names"),
    ),
    "svhn": Source(
        "SVHN, cropped digits",
        "73,257 and 26,032",
        "for non-commercial use only",
        "ufldl.stanford.edu/housenumbers",
        _both("train_32x32.mat", test="test"),
        lambda found: svhn.read(found[0][0]),
    ),
    "femnist": Source(
        "FEMNIST, as LEAF writes it",
        "805,263 in all",
        "public domain (NIST Special Database 19)",
        "leaf.cmu.edu",
        _both("train/*.json", test="test"),
        lambda found: leaf.read_femnist(found[0]),
    ),
    "shakespeare": Source(
        "Shakespeare, as LEAF writes it",
        "4,226,158 in all",
        "public domain (Project Gutenberg)",
        "leaf.cmu.edu",
        _both("train/*.json", test="test"),
        lambda found: leaf.read_shakespeare(found[0]),
    ),
    "har": Source(
        "Human Activity Recognition Using Smartphones",
        "7,352 and 2,947",
        "CC BY 4.0",
        "archive.ics.uci.edu/dataset/240",
        _both(
            "train/X_train.txt",
            "train/y_train.txt",
            "train/subject_train.txt",
            "activity_labels.txt",
            test="test",
        ),
        lambda found: har.read(*(paths[0] for paths in found)),
    ),
    "python-topics": Source(
        "the topics of Python's help, 80 characters and the next one",
        "about 43,000 and 10,000",
        "PSF License Version 2",
        "Python's standard library (pydoc_data)",
        {},
        text.read_topics,
    ),
}
"""Every data set by its name."""
