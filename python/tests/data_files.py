"""Small files in the forms of the data sets, as their authors make them, for tests of the readers."""

import gzip
import json
import pickle

import numpy as np
from scipy.io import savemat

COUNT = 12
RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (COUNT, 3, 32, 32), dtype=np.uint8)
GREY = RNG.integers(0, 256, (COUNT, 28, 28), dtype=np.uint8)
LABELS = np.arange(COUNT) % 10


def idx(array):
    """An array of bytes as IDX."""
    sizes = b"".join(size.to_bytes(4) for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def mnist(folder, compressed=True):
    for part in ("train", "t10k"):
        for name, array in (("images-idx3", GREY), ("labels-idx1", LABELS)):
            if compressed:
                (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
            else:
                (folder / f"{part}-{name}-ubyte").write_bytes(idx(array))


def cifar_10(folder):
    """As Python 2 pickled them: arrays by the old name of numpy's module, keys as bytes."""
    (folder / "batches.meta").write_bytes(old_pickle({b"label_names": [b"a%d" % one for one in range(10)]}))
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        batch = {b"data": PIXELS.reshape(COUNT, -1), b"labels": LABELS.tolist(), b"batch_label": b"a batch"}
        (folder / name).write_bytes(old_pickle(batch))


def cifar_100(folder):
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"a{one}" for one in range(100)]}, 2))
    for name in ("train", "test"):
        batch = {
            "data": PIXELS.reshape(COUNT, -1),
            "fine_labels": LABELS.tolist(),
            "coarse_labels": [0] * COUNT,
        }
        (folder / name).write_bytes(pickle.dumps(batch, 2))


def old_pickle(content):
    return pickle.dumps(content, 2).replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def svhn(folder):
    for name in ("train_32x32.mat", "test_32x32.mat"):
        content = {"X": PIXELS.transpose(2, 3, 1, 0), "y": np.where(LABELS == 0, 10, LABELS)[:, None]}
        savemat(folder / name, content, do_compression=True)


def leaf(x, y):
    """Two users, of whom the second has one example more than the first."""
    first = len(y) // 2 - 1
    data = {"ann": {"x": x[:first], "y": y[:first]}, "bob": {"x": x[first:], "y": y[first:]}}
    return {"users": ["ann", "bob"], "num_samples": [first, len(y) - first], "user_data": data}


def femnist(folder):
    x = (GREY.reshape(COUNT, -1) / 255).round(4).tolist()
    in_folders(folder, leaf(x, [61, *LABELS.tolist()[1:]]))


def shakespeare(folder):
    text = "To be, or not to be: that is the question.\nWhether 'tis nobler in the mind to suffer "
    in_folders(folder, leaf([(text[one:] + text)[:80] for one in range(COUNT)], ["e", "\n", "é", *"a" * 9]))


def in_folders(folder, content):
    for part in ("train", "test"):
        (folder / part).mkdir()
        (folder / part / "all_data_0.json").write_text(json.dumps(content), encoding="utf-8")


def har(folder):
    (folder / "activity_labels.txt").write_text("1 WALKING\n2 SITTING\n", encoding="utf-8")
    for part in ("train", "test"):
        (folder / part).mkdir()
        rows = RNG.normal(size=(COUNT, 561))
        np.savetxt(folder / part / f"X_{part}.txt", rows, fmt="%16.7e")
        np.savetxt(folder / part / f"y_{part}.txt", LABELS % 2 + 1, fmt="%d")
        np.savetxt(folder / part / f"subject_{part}.txt", LABELS + 1, fmt="%d")


WRITERS = {
    "mnist": mnist,
    "fashion-mnist": mnist,
    "cifar-10": cifar_10,
    "cifar-100": cifar_100,
    "svhn": svhn,
    "femnist": femnist,
    "shakespeare": shakespeare,
    "har": har,
}
"""What writes the files of each data set into a folder."""
