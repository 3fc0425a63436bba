"""``blindsum model init``: nothing is replaced unasked, and options before `init` count, too."""

import numpy as np

from blindsum.cli import main


def status_of(*words):
    return main(list(words))


def test_files_that_are_there_stay(tmp_path, monkeypatch, capsys):
    (tmp_path / "ourtrees.py").write_text("import numpy as np\nTREE = {'w': np.ones(3, np.float32)}\n")
    monkeypatch.chdir(tmp_path)
    words = ("model", "init", "ourtrees:TREE", "--out", "ridge.npy", "--layout", "head.toml")
    assert status_of(*words) == 0
    capsys.readouterr()
    before = (tmp_path / "ridge.npy").read_bytes()
    assert status_of("model", "init", "ourtrees:TREE", "--out", "ridge.npy") == 2
    assert "--out: ridge.npy exists: give another file, or replace it with --force" in capsys.readouterr().err
    assert status_of("model", "init", "ourtrees:TREE", "--out", "new.npy", "--layout", "head.toml") == 2
    assert "--layout: head.toml exists" in capsys.readouterr().err
    assert not (tmp_path / "new.npy").exists()
    assert (tmp_path / "ridge.npy").read_bytes() == before
    assert status_of("model", "--out", "ridge.npy", "--force", "init", "ourtrees:TREE") == 0
    assert np.load("ridge.npy").tolist() == [1, 1, 1]
    assert status_of("model", "init", "ourtrees:TREE") == 2
    assert "--out: must be given" in capsys.readouterr().err
    assert status_of("model", "--best", "init", "ourtrees:TREE", "--out", "new.npy") == 2
    assert "--best: is of models in a store" in capsys.readouterr().err
