"""Commands that cannot do what they are asked, and say so first."""

import subprocess
from importlib import import_module

import pytest
from test_commands import status_of

from blindsum import _native


@pytest.mark.parametrize("absent", ["flwr", "ray"])
@pytest.mark.parametrize("words", [["demo", "--flower"], ["bench", "flower"]])
def test_commands_that_run_flower_say_how_to_install_it(words, absent, monkeypatch, capsys):
    monkeypatch.setattr("blindsum.flower.installed.find_spec", lambda name: None if name == absent else name)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert status_of(*words) == 1
    err = " ".join(capsys.readouterr().err.split())
    assert f"needs {absent}, which is not installed in this environment of Python" in err
    assert "pip install 'blindsum[flower]'" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--parties", "3"], "--partition: must be given"),
        (["--partition", "iid"], "--parties: must be given for 'iid'"),
        (["--partition", "dirichlet:-1", "--parties", "3"], "--partition: 'dirichlet:-1' alpha"),
        (["--partition", "by-user"], "--partition: 'by-user' needs data with users"),
        (["--partition", "iid", "--parties", "2000"], "--parties: 2000 parties × minimum = 1"),
        (["--partition", "iid", "--parties", "3", "--seed", "-1"], "--seed: -1 must be a whole number"),
        (
            ["--partition", "iid", "--parties", "3", "--folder", "x"],
            "--folder: digits comes from scikit-learn",
        ),
    ],
)
def test_data_that_cannot_be_dealt_are_refused_in_a_line(words, said, tmp_path, capsys):
    assert status_of("data", "digits", *words, "--out", tmp_path / "parts") == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.rglob("party-*"))


def test_a_party_gives_no_orders(place, capsys):
    with place.coordinator(place.spec(), admin="127.0.0.1:0") as coordinator:
        port = coordinator.admin.rpartition(":")[2]
        words = ["--identity", place.identity("a"), "--ca", place.folder / "ca.pem", "--reason", "an attack"]
        assert status_of("admin", "pause", "job", "--at", f"https://localhost:{port}", *words) == 1
        assert "pki issue CA NAME --operator" in " ".join(capsys.readouterr().err.split())
        assert next(coordinator.statuses())["held"] == ""


@pytest.mark.parametrize("name", ["mystiko", "pss_rounds"])
def test_an_experiment_without_timers_says_so_before_any_work(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(_native, "build_features", [])
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    experiment = import_module(f"experiments.{name}")
    with pytest.raises(SystemExit) as raised:
        experiment.main(["--quick", "--out", str(tmp_path)])
    assert raised.value.code == 2
    assert "run `make bench`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
