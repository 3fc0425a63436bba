"""A simulation again, from the file that it was written to."""

import csv
import json
import shutil

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.cli.repeat import file_and_row
from blindsum.comparison import repeats
from blindsum.comparison.columns import REPEATABLE


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The folder of a comparison: a sum, an abort, and what is impossible."""
    folder = tmp_path_factory.mktemp("compared")
    bs.sweep(
        protocol=["flashe", "secagg"], parties=[2, 8], dim=20, drop=[0, 0.5], latency=0.01, out=folder, seed=3
    )
    return folder


@pytest.fixture
def table(compared, tmp_path):
    """A copy of the table, that may be changed."""
    return shutil.copy(compared / "runs.csv", tmp_path)


def changed(path, row, **cells):
    """Change cells of a row of a table."""
    with open(path) as file:
        header, *lines = csv.reader(file)
    for name, text in cells.items():
        lines[row - 1][header.index(name)] = text
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *lines])


@pytest.fixture
def report(tmp_path):
    """The file of a simulation, and its result."""

    def make(spec, updates=None, **arguments):
        result = bs.simulate(spec, updates, **arguments)
        path = tmp_path / "run.json"
        path.write_text(json.dumps(result.to_dict()))
        return path, result

    return make


# --- tables


@pytest.mark.parametrize("name", ["runs.csv", "runs.parquet"])
def test_every_run_of_a_table_gives_the_same_again(compared, name):
    ended = set()
    for run in range(1, 9):
        found = bs.simulate_again(compared / name, run)
        assert found.same
        assert found.differing == ()
        assert tuple(value.name for value in found.values) == REPEATABLE
        assert found.version_before == found.version_now == bs.__version__
        ended.add(found.now["outcome"])
    assert ended == {"sum", "abort", "impossible"}


def test_what_differs_is_named(table):
    changed(table, 1, survivors="1", up_bytes_per_party="7", exact="false", party_ms="99.5")
    found = bs.simulate_again(table, 1)
    assert not found.same
    # Times are others every time.
    assert found.differing == ("survivors", "exact", "up_bytes_per_party")
    before = {value.name: (value.before, value.now) for value in found.values}
    assert before["survivors"] == (1, 2)


def test_a_run_is_repeated_with_its_own_job_and_seed(table):
    changed(table, 1, seed="4")
    assert "max_abs_error" in bs.simulate_again(table, 1).differing
    spec = bs.JobSpec(protocol="flashe", parties=2, dim=21)
    changed(table, 3, spec=spec.to_json())
    assert {"up_bytes_per_party", "job_hash"} <= set(bs.simulate_again(table, 3).differing)
    # What is impossible was asked for as settings.
    changed(table, 5, spec='{"protocol": "secagg", "parties": 8, "dim": 20}')
    found = bs.simulate_again(table, 5)
    assert found.now["outcome"] == "sum"
    assert {"outcome", "reason"} <= set(found.differing)


@pytest.mark.parametrize(
    ("row", "cells", "text"),
    [
        (None, {}, "runs.csv: has 8 runs; say which, e.g. "),
        (9, {}, "runs.csv: has no run 9: it has runs 1 to 8; give one of them"),
        (1, {"spec": "{"}, "run 1, column spec: must be a job as JSON"),
        (1, {"spec": ""}, "run 1, column spec: must be a job as JSON"),
        (1, {"spec": "[1]"}, "run 1, column spec: must be an object of JSON"),
        (1, {"run": "one"}, "runs.csv: line 2, column run: 'one' must be a whole number"),
    ],
)
def test_what_cannot_be_repeated_says_why(table, row, cells, text):
    changed(table, 1, **cells)
    with pytest.raises(bs.InputError) as caught:
        bs.simulate_again(table, row)
    assert text in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path, monkeypatch):
    for name, content, text in (
        ("a.csv", "x,y\n1,2\n", "column run: is missing"),
        ("b.csv", "", "column run: is missing"),
        ("c.json", "{}", "has no spec, so that it cannot be repeated"),
        ("d.json", "[", "is no JSON"),
        ("e.json", '{"spec": {}, "scenario": {}, "origin": {}}', "has no drop, so that"),
        ("f.parquet", "no", "give the table of a comparison"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(bs.InputError) as caught:
            bs.simulate_again(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}: ")
        assert text in str(caught.value)
    for name in ("none.csv", "none.json"):
        with pytest.raises(bs.InputError, match="cannot be read: there is no such file"):
            bs.simulate_again(tmp_path / name)
    monkeypatch.setattr(repeats, "find_spec", lambda _: None)
    with pytest.raises(bs.InputError, match="needs pyarrow, which is not installed: give the CSV"):
        bs.simulate_again(tmp_path / "f.parquet")


# --- reports


def test_a_report_says_everything_that_repeats_it(report):
    spec = bs.JobSpec(protocol="secagg", parties=8, dim=20)
    _, result = report(spec, drop=0.1, drop_at={"unmask": 1}, latency=0.25, rounds=2, seed=11, threads=2)
    found = result.to_dict()
    assert bs.JobSpec.from_dict(found["spec"]) == spec
    assert (found["job_hash"], found["chosen"]) == (spec.hash, spec.chosen)
    assert found["scenario"] == {
        "drop": 0.1,
        "drop_at": ["unmask:1"],
        "latency": 0.25,
        "liars": 0,
        "lie": "mixed",
        "rounds": 2,
        "seed": 11,
        "threads": 2,
        "updates": "random",
    }
    assert set(found["origin"]) == {"version", "build", "python", "machine", "date"}
    # When and where a result was made is no part of it.
    assert result.to_dict() is not found
    assert result == type(result)(**vars(result) | {"_made_by": {}})


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        (
            {"protocol": "secagg", "parties": 8},
            {"drop_at": ["unmask:1"], "rounds": 3, "seed": 5, "threads": 2},
        ),
        ({"protocol": "flashe", "parties": 5}, {"drop_at": {"deliver-key": 1}, "rounds": 3, "latency": 0.1}),
        ({"protocol": "pss-malicious", "parties": 20}, {"malicious": 2, "misbehaviour": "out-of-bound"}),
        ({"protocol": "mpc3", "parties": 6}, {"drop": 0.3}),
        ({"protocol": "secagg", "parties": 8}, {"drop": 0.9}),
    ],
    ids=str,
)
def test_a_report_gives_the_same_again(report, fields, arguments):
    path, result = report(bs.JobSpec(dim=20, **fields), **arguments)
    found = bs.simulate_again(path, threads=1)
    assert found.same, found.differing
    assert found.now["outcome"] == result.outcome
    names = {value.name for value in found.values}
    assert {"outcome", "fault", "survivors", "exact", "stages", "up_bytes_per_party", "job_hash"} <= names
    assert not names & {"client_ms", "server_ms", "peak_rss_bytes", "origin"}


def test_a_report_that_was_changed_differs_by_name(report):
    path, _ = report(bs.JobSpec(protocol="plain", parties=4, dim=10), rounds=2)
    fields = json.loads(path.read_text())
    fields["rounds"][0]["survivors"] = 3
    fields["dim"] = 11
    fields["client_ms"]["max"] = 77.0
    path.write_text(json.dumps(fields))
    assert bs.simulate_again(path).differing == ("dim", "rounds")


def test_updates_that_were_given_are_given_again(report):
    spec = bs.JobSpec(protocol="plain", parties=3, dim=4, encoding=bs.Quantised(max_weight=5))
    updates = np.full((3, 4), 0.5)
    path, _ = report(spec, updates, weights=[1, 2, 3])
    with pytest.raises(
        bs.InputError, match="of updates that were given, and no file has them; give them again"
    ):
        bs.simulate_again(path)
    assert bs.simulate_again(path, updates=updates, weights=[1, 2, 3]).same
    assert "max_abs_error" in bs.simulate_again(path, updates=updates / 3, weights=[1, 2, 3]).differing
    path, _ = report(spec)
    with pytest.raises(bs.InputError, match="is of random updates; leave updates and weights out"):
        bs.simulate_again(path, updates=updates)
    with pytest.raises(bs.ConfigError, match=r"row: .* holds one report and has no runs"):
        bs.simulate_again(path, 1)


def test_runs_of_a_table_take_no_updates(table):
    with pytest.raises(bs.InputError, match="have random ones; leave updates and weights out"):
        bs.simulate_again(table, 1, updates=np.zeros((2, 20)))


# --- the command


def run(capsys, *words):
    status = main(["simulate", *words])
    return status, *capsys.readouterr()


def test_the_command_repeats_what_it_has_printed(capsys, tmp_path):
    words = ["--protocol", "secagg", "--parties", "6", "--dim", "20", "--drop-at", "unmask:1", "--seed", "4"]
    _, printed, _ = run(capsys, *words, "--json")
    path = tmp_path / "run.json"
    path.write_text(printed)
    status, out, _ = run(capsys, "--repeat", str(path))
    assert (status, out.splitlines()[-1]) == (0, "the same again")
    path.write_text(
        printed.replace(f'"{bs.__version__}"', '"0.0.9"').replace('"survivors": 6', '"survivors": 4')
    )
    status, out, _ = run(capsys, "--repeat", str(path))
    assert status == 1
    assert out.splitlines()[-2:] == [
        f"the file is of version 0.0.9, and this is {bs.__version__}",
        "DIFFERENT: survivors",
    ]
    status, out, _ = run(capsys, "--repeat", str(path), "--json")
    found = json.loads(out)
    assert (status, found["same"], found["version_before"]) == (1, False, "0.0.9")
    assert {"name": "survivors", "before": 4, "now": 6, "same": False} in found["values"]


def test_the_command_repeats_a_row(capsys, compared):
    status, out, _ = run(capsys, "--repeat", f"{compared / 'runs.csv'}:4")
    assert (status, out.splitlines()[-1]) == (0, "the same again")
    status, _, err = run(capsys, "--repeat", f"{compared / 'runs.csv'}:9")
    assert status == 2
    assert "has no run 9" in err


def test_the_command_refuses_what_the_file_says(capsys, compared):
    status, _, err = run(
        capsys, "--repeat", f"{compared / 'runs.csv'}:4", "--seed", "3", "--dim", "4", "--set", "clip=1"
    )
    assert status == 2
    assert "--repeat: the file has the whole simulation: leave --seed and --dim and --set out" in err


def test_a_file_may_have_the_name_of_a_row(tmp_path):
    assert file_and_row("a/runs.csv:12") == ("a/runs.csv", 12)
    assert file_and_row("runs.csv") == ("runs.csv", None)
    assert file_and_row("a:b.csv") == ("a:b.csv", None)
    assert file_and_row(":3") == (":3", None)
    own = tmp_path / "runs.csv:3"
    own.write_text("")
    assert file_and_row(str(own)) == (str(own), None)
