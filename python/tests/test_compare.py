"""Comparisons: every run has a row, none disturbs another, and what was interrupted goes on."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.comparison import runs, workers
from blindsum.comparison import table as tables
from blindsum.comparison.columns import COLUMNS, NAMES, read_csv, write_csv
from blindsum.comparison.folder import Folder
from blindsum.comparison.grid import Grid

SMALL = {"protocol": "plain", "parties": [3, 4], "dim": 10}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A comparison with runs of every outcome but errors, and its folder."""
    folder = tmp_path_factory.mktemp("compared")
    found = bs.sweep(
        protocol=["plain", "secagg", bs.SecAggPlus(neighbours=9), "flashe", "mpc3"],
        parties=[2, 10],
        dim=20,
        drop=[0, 0.5],
        latency=0.02,
        repeat=2,
        seed=7,
        out=folder / "new",
    )
    return found, folder / "new"


def outcomes(found):
    return {(row["protocol"], row["parties"], row["drop"]): row["outcome"] for row in found.rows}


# --- rows


def test_every_run_has_a_row_that_says_how_it_ended(table):
    found, _ = table
    assert [row["run"] for row in found.rows] == list(range(1, 41))
    assert {tuple(row) for row in found.rows} == {NAMES}
    ended = outcomes(found)
    assert ended["plain", 2, 0.5] == ended["flashe", 10, 0.5] == ended["mpc3", 10, 0.0] == "sum"
    assert ended["secagg", 2, 0.0] == "impossible"
    assert ended["secagg", 10, 0.5] == ended["secagg+:neighbours=9", 10, 0.5] == "abort"
    for row in found.rows:
        assert bool(row["reason"]) == (row["outcome"] != "sum")
        assert row["exact"] is (None if row["outcome"] == "impossible" else row["outcome"] == "sum")
    reasons = {row["outcome"]: row["reason"] for row in found.rows if row["protocol"] == "secagg"}
    assert "parties: must be at least 3 (is 2)" in reasons["impossible"]
    assert "too few parties are left: only 5 of the" in reasons["abort"]


def test_a_row_has_the_numbers_of_its_simulation(table):
    found, _ = table
    row = next(row for row in found.rows if (row["protocol"], row["repeat"]) == ("flashe", 2))
    spec = bs.JobSpec.from_dict(json.loads(row["spec"]))
    assert spec == bs.JobSpec(protocol="flashe", parties=2, dim=20)
    assert (row["job_hash"], json.loads(row["chosen"])) == (spec.hash, spec.chosen)
    result = bs.simulate(spec, drop=row["drop"], latency=0.02, seed=8)
    setup = result.key_setup
    assert row["seed"] == 8
    assert row["max_abs_error"] == result.max_abs_error
    assert row["up_bytes_per_party"] == result.up_bytes_per_party
    assert row["down_bytes_per_party"] == result.down_bytes_per_party
    assert row["setup_up_bytes_per_party"] == setup.up_bytes_per_party
    assert row["virtual_seconds"] == result.virtual_seconds > 0
    assert [stage["name"] for stage in json.loads(row["stages"])] == [stage.name for stage in result.stages]
    assert row["bits"] == spec.encoding.bits
    assert row["wall_seconds"] > 0 < row["cpu_seconds"]
    assert row["version"] == bs.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row["date"])
    three = next(row for row in found.rows if (row["protocol"], row["outcome"]) == ("mpc3", "sum"))
    assert three["servers_ms"] > three["coordinator_ms"] > 0


def test_the_peak_of_memory_is_that_of_the_run_alone():
    found = bs.sweep(protocol="plain", parties=3, dim=[2_000_000, 10], jobs=1)
    large, small = found.rows
    # A vector of the large one alone has 8 MB in floats, and the small one comes after it.
    assert large["peak_bytes"] > small["peak_bytes"] + 8_000_000
    assert 0 < small["start_bytes"] <= small["peak_bytes"]


def test_rows_do_not_depend_on_how_many_run_side_by_side(table):
    found, _ = table
    again = bs.sweep(protocol=["secagg", "flashe"], parties=10, dim=20, latency=0.02, seed=7, jobs=1)
    for row in again.rows:
        (before,) = [
            one
            for one in found.rows
            if (one["protocol"], one["parties"], one["drop"], one["seed"]) == (row["protocol"], 10, 0, 7)
        ]
        assert all(row[column.name] == before[column.name] for column in COLUMNS if column.repeats)


FRAGILE = """#!{python}
import json, os, signal, sys
line = sys.stdin.readline()
with open({log!r}, "a") as log:
    print(json.loads(line)["spec"]["parties"], file=log)
match json.loads(line)["spec"]["parties"]:
    case 4:
        os.kill(os.getpid(), signal.SIGKILL)
    case 5:
        os.kill(os.getpid(), signal.SIGSEGV)
    case 6:
        raise LookupError("no such thing")
from blindsum.comparison import runs
class Stdin:
    readline = staticmethod(lambda: line)
    fileno = staticmethod(lambda: 0)
sys.stdin = Stdin
sys.exit(runs.main())
"""


@pytest.fixture
def fragile(tmp_path, monkeypatch):
    """A Python whose runs with four to six parties fail; gives the log of what was run."""
    script = tmp_path / "python"
    log = tmp_path / "log"
    script.write_text(FRAGILE.format(python=sys.executable, log=str(log)))
    script.chmod(0o755)
    monkeypatch.setattr(workers.sys, "executable", str(script))
    return log


def test_a_run_that_fails_takes_nothing_from_the_others(fragile, tmp_path):
    found = bs.sweep(
        protocol="plain", parties=[3, 4, 5, 6, 7], dim=10, jobs=2, out=tmp_path / "new", write=[]
    )
    assert [row["outcome"] for row in found.rows] == ["sum", "error", "error", "error", "sum"]
    killed, crashed, raised = (row["reason"] for row in found.rows[1:4])
    assert "killed, as the system does where memory runs out: compare on a machine with more memory" in killed
    assert "ended by SIGSEGV" in crashed
    assert "LookupError: no such thing" in raised
    # What may have lacked memory beside others was tried once more, alone and last.
    tried = fragile.read_text().split()
    assert sorted(tried) == ["3", "4", "4", "5", "6", "7"]
    assert tried[-1] == "4"
    assert [row["jobs"] for row in found.rows] == [2, 1, 2, 2, 2]


@pytest.fixture
def _two_gibibytes():
    """What this process, and those that it starts, may take."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.mark.usefixtures("_two_gibibytes")
def test_a_run_that_no_memory_holds_is_impossible_also_alone():
    found = bs.sweep(protocol="plain", parties=3, dim=[10, 200_000_000], jobs=2)
    assert [(row["outcome"], row["jobs"]) for row in found.rows] == [("sum", 2), ("impossible", 1)]
    assert "memory" in found.rows[1]["reason"]


def test_runs_that_failed_run_again(fragile, tmp_path, monkeypatch):
    asked = {"protocol": "plain", "parties": [3, 5], "dim": 10, "out": tmp_path / "new", "write": []}
    assert [row["outcome"] for row in bs.sweep(**asked).rows] == ["sum", "error"]
    monkeypatch.undo()
    again = bs.sweep(**asked)
    assert [row["outcome"] for row in again.rows] == ["sum", "sum"]
    assert fragile.read_text().split().count("3") == 1


def test_processes_that_end_before_they_are_told_anything_are_errors(monkeypatch):
    def late(*arguments):
        time.sleep(0.5)
        return request(*arguments)

    request = runs.request
    monkeypatch.setattr(workers.sys, "executable", shutil.which("false"))
    monkeypatch.setattr(runs, "request", late)
    found = bs.sweep(**SMALL)
    assert [(row["outcome"], row["reason"]) for row in found.rows] == 2 * [
        ("error", "the process of the run failed with no message: repeat the run to see more")
    ]
    monkeypatch.setattr(workers.sys, "executable", "/nothing/here")
    assert "no process could be started for the run: No such file" in bs.sweep(**SMALL).rows[0]["reason"]


def test_a_process_of_a_run_ends_with_whoever_started_it():
    request = json.dumps({"spec": bs.JobSpec(protocol="secagg", parties=200, dim=100_000).to_dict()})
    asked = {**json.loads(request), "drop": 0.0, "latency": 0.0, "seed": 1}
    process = subprocess.Popen(
        [sys.executable, "-m", "blindsum.comparison.runs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdin.write(json.dumps(asked).encode() + b"\n")
    process.stdin.close()
    assert process.wait(60) == 1
    assert process.stdout.read() == b""
    process.stdout.close()


# --- folders


class Enough(Exception):
    pass


def stop_after(count):
    def progress(done, _total, _text):
        if done >= count:
            raise Enough

    return progress


def test_what_was_interrupted_goes_on_with_what_is_missing(tmp_path):
    asked = {**SMALL, "repeat": 3, "jobs": 1, "out": tmp_path, "write": []}
    with pytest.raises(Enough):
        bs.sweep(**asked, progress=stop_after(2))
    before = read_csv((tmp_path / "runs.csv").read_text())
    assert [row["run"] for row in before] == [1, 2]
    # The machine went down while a third row was written.
    with (tmp_path / "runs.csv").open("a") as file:
        file.write("3,plain,3,10,0.")
    seen = []
    found = bs.sweep(**asked, progress=lambda *state: seen.append(state[:2]))
    assert seen == [(count, 6) for count in range(2, 7)]
    assert [dict(row) for row in found.rows[:2]] == before
    assert read_csv((tmp_path / "runs.csv").read_text()) == [dict(row) for row in found.rows]
    # Nothing is missing: nothing runs.
    seen.clear()
    assert bs.sweep(**asked, progress=lambda *state: seen.append(state[:2])).rows == found.rows
    assert seen == [(6, 6)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"parties": [3, 5]}, "holds another grid: parties is [3, 4] there and [3, 5] here"),
        (
            {"seed": 4, "repeat": 2},
            "repeat is 1 there and 2 here; seed is 0 there and 4 here: give another folder",
        ),
        ({"settings": {"corrupt": 0.2}}, 'settings is {} there and {"corrupt": 0.2} here'),
    ],
)
def test_another_grid_is_refused_by_what_differs(changes, text, tmp_path):
    bs.sweep(**SMALL, out=tmp_path, write=[])
    before = (tmp_path / "runs.csv").read_text()
    with pytest.raises(bs.ConfigError) as caught:
        bs.sweep(**SMALL | changes, out=tmp_path)
    assert caught.value.field == "out"
    assert text in str(caught.value)
    assert (tmp_path / "runs.csv").read_text() == before


def test_a_folder_of_another_version_is_refused(tmp_path):
    bs.sweep(**SMALL, out=tmp_path, write=[])
    text = (tmp_path / "grid.json").read_text()
    (tmp_path / "grid.json").write_text(text.replace(f'"{bs.__version__}"', '"0.0.9"'))
    with pytest.raises(bs.ConfigError, match=f'version is "0.0.9" there and "{bs.__version__}" here'):
        bs.sweep(**SMALL, out=tmp_path)


def test_folders_that_cannot_be_used_are_refused(tmp_path):
    grid = Grid.of(**SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(bs.ConfigError, match=r"must be a folder, and .*file is a file"):
        bs.sweep(**SMALL, out=tmp_path / "file")
    with (
        Folder(tmp_path / "one", grid),
        pytest.raises(bs.ConfigError, match="is used by another comparison now"),
    ):
        bs.sweep(**SMALL, out=tmp_path / "one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "runs.csv").write_text("a,b\n")
    with pytest.raises(bs.ConfigError, match=r"has a runs\.csv but no grid\.json"):
        bs.sweep(**SMALL, out=tmp_path / "two")
    (tmp_path / "two" / "grid.json").write_text("{")
    with pytest.raises(bs.ConfigError, match=r"grid\.json is damaged"):
        bs.sweep(**SMALL, out=tmp_path / "two")
    (tmp_path / "two" / "grid.json").write_text(json.dumps({**grid.to_dict(), "version": bs.__version__}))
    with pytest.raises(bs.ConfigError, match=r"runs\.csv: column run: is missing"):
        bs.sweep(**SMALL, out=tmp_path / "two")
    assert (tmp_path / "two" / "runs.csv").read_text() == "a,b\n"


# --- what is written


def test_files_hold_the_same_rows(table):
    found, folder = table
    rows = [dict(row) for row in found.rows]
    assert read_csv((folder / "runs.csv").read_text()) == rows
    from blindsum.comparison.parquet import read_parquet

    assert read_parquet(folder / "runs.parquet") == rows
    assert {path.name for path in folder.iterdir()} == {
        *("grid.json", "runs.csv", "runs.parquet", "summary.md", "by-parties.svg", "by-drop.svg"),
    }


def test_the_summary_has_a_line_for_each_combination_and_every_reason(table):
    found, folder = table
    page = (folder / "summary.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    assert len(lines) == 1 + 20
    assert "| secagg | 2 | 0.5 | impossible |" in page
    assert "* Runs: 40 of 40 runs, 2 of each combination, seeds from 7." in page
    assert "dim 20, latency, s 0.02" in page
    for row in found.rows:
        assert not row["reason"] or row["reason"] in page
    assert "![by-drop](by-drop.svg)" in page
    assert found.to_markdown() in page


def test_combinations_with_different_ends_and_machines_say_so(table):
    found, _ = table
    rows = [dict(row) for row in found.rows[:2]]
    rows[0] |= {"exact": False, "machine": "another"}
    page = tables.Comparison(found.grid, tuple(rows)).to_markdown()
    assert "1 × WRONG sum, 1 × sum" in page
    assert "(several: compare times within each only)" in page


def test_pictures_have_every_protocol_and_are_the_same_again(table, tmp_path):
    found, folder = table
    for path in found.plot(tmp_path):
        text = path.read_text()
        assert text == (folder / path.name).read_text()
        for name in ("plain", "secagg+:neighbours=9", "mpc3", "peak memory"):
            assert name in text
    alone = bs.sweep(protocol=["plain", "secagg"], parties=4, dim=10)
    assert [path.name for path in alone.plot(tmp_path)] == ["by-protocol.svg"]
    aborted = bs.sweep(protocol=["plain", "secagg"], parties=[4, 10], dim=10, drop=0.5)
    (picture,) = aborted.plot(tmp_path / "aborted")
    assert "no run has a sum" not in picture.read_text()
    aborted = bs.sweep(protocol=["secagg"], parties=[4, 10], dim=10, drop=0.5)
    (picture,) = aborted.plot(tmp_path / "aborted")
    assert "no run has a sum" in picture.read_text()
    nothing = bs.sweep(protocol="secagg", parties=[1, 2], dim=10)
    assert nothing.plot(tmp_path) == []
    assert "impossible" in nothing.to_markdown()


@pytest.mark.parametrize(("name", "package"), [("svg", "matplotlib"), ("parquet", "pyarrow")])
def test_what_a_missing_package_would_write_is_refused_only_where_it_is_asked_for(
    name, package, monkeypatch, tmp_path
):
    monkeypatch.setattr(tables, "find_spec", lambda asked: None if asked == package else object())
    assert name not in tables.check_formats(None)
    with pytest.raises(bs.ConfigError) as caught:
        bs.sweep(**SMALL, out=tmp_path / "new", write=[name])
    assert str(caught.value).startswith(
        f"write: {name} needs {package}, which is not installed: run `pip install"
    )
    assert not (tmp_path / "new").exists()
    with pytest.raises(bs.ConfigError, match="write: 'excel' must be one of markdown, svg, parquet"):
        tables.check_formats(["excel"])
    with pytest.raises(bs.ConfigError, match="write: 'svg' must be a list"):
        tables.check_formats("svg")


def test_tables_that_were_changed_are_named_by_line_and_column(table):
    found, _ = table
    text = write_csv(found.rows)
    with pytest.raises(bs.InputError, match=r"line 3, column run: 'x' must be a whole number"):
        read_csv(text.replace("\n2,", "\nx,", 1))
    with pytest.raises(bs.InputError, match=r"column party_ms: is missing"):
        read_csv(text.replace("party_ms,", "client_ms,", 1))


def test_the_page_says_what_every_column_holds():
    page = (Path(__file__).resolve().parents[2] / "docs" / "comparing.md").read_text()
    lines = [line for line in page.splitlines() if re.match(r"\| `\w+` \| .* \| (yes)? \|$", line)]
    assert lines == [
        f"| `{column.name}` | {column.meaning} | {'yes' if column.repeats else ''} |" for column in COLUMNS
    ]


# --- the command


def run(capsys, *words):
    status = main(["compare", *words])
    return status, *capsys.readouterr()


def test_the_command_writes_and_shows_the_table(capsys, tmp_path):
    words = ("--protocol", "plain,secagg", "--parties", "2,1e1", "--dim", "20", "--set", "corrupt=0.05")
    status, out, _ = run(capsys, *words, "--write", "markdown", "--out", str(tmp_path / "new"))
    assert status == 0
    assert "impossible: job specification: parties: must be at least 3" in out
    assert "4 runs; in " in out
    rows = read_csv((tmp_path / "new" / "runs.csv").read_text())
    assert [row["outcome"] for row in rows] == ["sum", "sum", "impossible", "sum"]
    assert json.loads(rows[1]["spec"])["corrupt"] == 0.05
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"grid.json", "runs.csv", "summary.md"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--parties", "3,,4"], "argument --parties: must be values separated by commas"),
        (["--parties", "3.5"], "argument --parties: must be whole numbers, as in 1000,1e5, not '3.5'"),
        (["--drop", "much"], "argument --drop: must be numbers separated by commas, not 'much'"),
        (["--latency", "inf"], "argument --latency: must be numbers separated by commas, not 'inf'"),
        (["--drop", "2"], "--drop: 2.0 must be a number from 0 to 1"),
        (["--protocol", "secag"], "--protocol: 'secag' must be one of"),
        (["--set", "corupt=1"], "--set corupt: is no option of a job"),
        (["--set", "corrupt"], "--set: 'corrupt' must be OPTION=VALUE"),
        (["--jobs", "0"], "--jobs: 0 must be a whole number from 1 to 1024"),
        (["--write", "excel"], "--write: 'excel' must be one of markdown, svg, parquet"),
        (["--out", ""], "argument --out: '' must name a file or folder"),
    ],
)
def test_the_command_names_its_own_flags(capsys, words, text, tmp_path):
    base = ["--protocol", "plain", "--parties", "3", "--dim", "5", "--out", str(tmp_path / "new")]
    try:
        status = main(["compare", *base, *words])
    except SystemExit as left:
        status = left.code
    assert status == 2
    assert capsys.readouterr().err.startswith(f"blindsum: error: {text}")
    assert not (tmp_path / "new").exists()


def test_the_command_fails_where_a_run_does(fragile, capsys, tmp_path):
    words = ("--protocol", "plain", "--parties", "3,6", "--dim", "10", "--write", "markdown")
    status, out, _ = run(capsys, *words, "--out", str(tmp_path / "new"))
    assert status == 1
    assert "LookupError: no such thing" in out


def test_an_interrupt_keeps_the_rows_and_leaves_no_process(tmp_path):
    words = ["--protocol", "plain,secagg", "--parties", "10", "--dim", "20", "--repeat", "500", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "blindsum", "compare", *words, "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    runs = tmp_path / "runs.csv"
    while process.poll() is None and (not runs.exists() or runs.read_text().count("\n") < 3):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    done, total = map(
        int, re.search(r"(\d+) of (\d+) runs are in .*; the same command goes on", err).groups()
    )
    assert total == 1000
    assert done == len(read_csv(runs.read_text())) >= 2
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if is_run_of(pid, process.pid)]


def is_run_of(pid, parent):
    """Whether a process is one of the runs that this parent started, or their orphan."""
    try:
        with open(f"/proc/{pid}/cmdline") as words, open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
            started_by = {parent, os.getpid()}
            return (
                "blindsum.comparison.runs" in words.read()
                and int(fields[1]) in started_by
                and fields[0] != "Z"
            )
    except OSError:
        return False
