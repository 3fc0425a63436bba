"""Errors say in plain words what is wrong, where, and what to do."""

import json
import re

import numpy as np
import pytest

import blindsum as bs
from blindsum import _native, os_errors, texts
from blindsum.cli import main
from blindsum.places import place_of

GOOD = 'protocol = "plain"\nparties = 3\ndim = 4\n'


def said(capsys, *words):
    """What a command that is refused prints."""
    status = main(list(words))
    out, err = capsys.readouterr()
    assert status in (1, 2)
    assert out == ""
    assert err.startswith("blindsum: error: ")
    assert "[Errno" not in err
    return err.removeprefix("blindsum: error: ").strip()


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("job.toml", GOOD.replace("plain", "secag"), ["job.toml: protocol: ", "must be one of", "secag"]),
        ("job.toml", "a = 1\nb\n", ["job.toml, line 2: ", "expected '='", "NAME = VALUE"]),
        ("job.toml", 'a = "x', ["job.toml, line 1: ", "NAME = VALUE"]),
        ("job.json", '{"a": 1,\n"b" 2}', ["job.json, line 2: ", "delimiter", "double quotes"]),
        ("job.json", '{"a": 1, "a": 2}', ["job.json: a is there twice", "leave one"]),
    ],
)
def test_a_job_file_that_is_wrong_is_named(capsys, tmp_path, monkeypatch, name, text, parts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    found = said(capsys, "spec", name)
    for part in parts:
        assert part in found


def test_the_error_of_a_file_has_the_file(tmp_path):
    (tmp_path / "job.toml").write_text(GOOD + "bits = 1\n")
    from blindsum.cli.jobs import spec_from_file

    with pytest.raises(bs.SpecError) as caught:
        spec_from_file(str(tmp_path / "job.toml"))
    assert caught.value.file == str(tmp_path / "job.toml")
    with pytest.raises(bs.SpecError) as caught:
        bs.JobSpec(protocol="secag", parties=3, dim=4)
    assert caught.value.file is None


def test_a_file_that_is_not_there_is_told_without_numbers(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.toml").mkdir()
    assert said(capsys, "spec", "x").endswith(
        "x cannot be read: there is no such file; give the path of one that is there"
    )
    assert "it is a folder" in said(capsys, "spec", "folder.toml")
    assert os_errors.in_words(FileNotFoundError(2, "No such file", "y")).startswith(
        "y: there is no such file"
    )
    assert os_errors.in_words(OSError(28, "No space left on device")).endswith(
        "make room, or write elsewhere"
    )
    assert "permissions" in os_errors.in_words(PermissionError(13, "Permission denied", "y"))
    assert "permissions" in os_errors.unreadable(PermissionError(13, "Permission denied", "y"))


@pytest.mark.parametrize(("number", "text"), [(0, "0 parties"), (1, "1 party"), (2, "2 parties")])
def test_things_are_counted(number, text):
    assert texts.counted(number, "party") == text
    assert texts.counted(1, "run") == "1 run"
    assert texts.counted(3, "run") == "3 runs"


def test_an_option_that_is_unknown_names_the_list(capsys):
    found = said(capsys, "simulate", "--protocol", "plain", "--parties", "3", "--dim", "4", "--set", "foo=1")
    assert "`blindsum spec --schema`" in found


def test_the_schema_is_plain_text():
    assert "](" not in json.dumps(_native.job_schema())
    assert "[`" not in json.dumps(_native.job_schema())


def test_a_file_of_another_kind_is_no_store(capsys, tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(GOOD)
    assert "is no store, but a file of another kind" in said(capsys, "status", "--store", str(path))
    assert path.read_text() == GOOD


def test_a_job_that_a_store_does_not_have(capsys, place, tmp_path):
    store = tmp_path / "job.sqlite"
    with place.coordinator(place.spec(), store=store) as coordinator:
        coordinator.stop()
    found = said(capsys, "faults", "--store", str(store), "--job", "foo")
    assert found == "--job: the store has no job 'foo'; give one of the store's jobs: job"


def test_a_function_that_is_not_there_lists_those_that_are(tmp_path, monkeypatch):
    from blindsum.cli.training import imported

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "some_steps.py").write_text(
        "from json import dumps\ndef fit(): ...\ndef test(): ...\ndef _own(): ...\n"
    )
    (tmp_path / "no_steps.py").write_text("x = 1\n")
    with pytest.raises(bs.ConfigError, match=r"has no function nofun; it has fit, test$"):
        imported("--train", "some_steps:nofun", tmp_path)
    with pytest.raises(bs.ConfigError, match="it defines none: write one there"):
        imported("--train", "no_steps:nofun", tmp_path)


def test_an_update_that_cannot_be_used_says_how_to_sit_out(place):
    layout = ["conv.weight float32 2x3", "conv.bias float32 2"]
    spec = place.spec(parties=1, min_parties=1, dim=8, layout=layout)
    wrong = np.zeros(8)
    wrong[5] = np.nan
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        current = session.next_round()
        for update, weight, rule in (
            (None, 1, r"update: is None.*rnd\.skip\(\)"),
            (np.zeros(8), 0, r"weight: 0 must be .*; call rnd\.skip\(\) to sit the round out"),
            (wrong, 1, r"coordinate 5 is not a finite number \(conv\.weight\[1, 2\]\); .*sit the round out"),
        ):
            with pytest.raises(bs.InputError, match=rule):
                current.submit(update, weight)
        current.submit(np.zeros(8))


def test_a_simulated_update_that_is_not_finite_names_its_tensor():
    tensors = [{"name": "w", "len": 3, "clip": 1.0}, {"name": "b", "len": 1, "clip": 1.0}]
    spec = bs.JobSpec(protocol="plain", parties=2, dim=4, encoding={"name": "quantised", "tensors": tensors})
    with pytest.raises(bs.InputError, match=r"updates\[1\]: coordinate 3 is not a finite number \(b\[0\]\)"):
        bs.simulate(spec, [np.zeros(4), np.array([0, 0, 0, np.inf])])
    assert place_of(bs.JobSpec(protocol="plain", parties=2, dim=4), 3) is None


def test_fewer_updates_than_parties_are_told(caplog):
    spec = bs.JobSpec(protocol="plain", parties=4, dim=2)
    result = bs.simulate(spec, np.zeros((3, 2)))
    assert result.survivor_count == 3
    (line,) = [record.getMessage() for record in caplog.records]
    assert "3 given for a job of 4 parties" in line
    assert "parties=3" in line


def test_what_a_job_survives_is_shown_beside_what_is_planned():
    spec = bs.JobSpec(protocol="secagg", parties=10, dim=100)
    shown = re.sub("<[^>]*>", " ", spec._repr_html_())
    assert re.search(f"a sum needs +{spec.quorum} survivors", shown)
    assert re.search(f"a sum survives the loss of +{10 - spec.quorum} parties", shown)
    assert re.search("planned dropouts +1 party", shown)


def test_spec_says_both(capsys, tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('protocol = "secagg"\nparties = 10\ndim = 4\n')
    assert main(["spec", str(path)]) == 0
    assert (
        "# a round of all has a sum also after the loss of 3 parties; planned dropouts: 1 party"
        in capsys.readouterr().out
    )
    assert main(["spec", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropouts"] == 1
