"""Names, reasons and files of a training run: they act on no page, terminal, table or next run."""

import dataclasses
import multiprocessing
import shutil
import stat

import numpy as np
import pytest
from training_records import one_round, record

import blindsum as bs
from blindsum.cli import main
from blindsum.cli.train import _Table
from blindsum.training import figures, html
from blindsum.training.checkpoints import Checkpoints
from blindsum.training.report import page

EVIL = "\"><img src=x onerror=alert(1)>'"
TERMINAL = "\x1b[2J\x1b]0;owned\x07\u202e"

SPEC = {"protocol": "secagg", "parties": 3, "dim": 2, "rounds": 3, "adversary": "semi-honest"}
PARTS = [np.array([0.5, 0.0]), np.array([0.25, 0.25]), np.array([0.0, 0.5])]


def train(out, **options):
    return bs.simulate_training(
        bs.JobSpec(**SPEC), lambda model, data, turn: data - model, PARTS, out=out, **options
    )


@pytest.mark.parametrize(
    "made",
    [
        html.pairs([(EVIL, 1)]),
        html.pairs([("name", EVIL)]),
        html.Card(EVIL, "1").html(),
        html.Card("name", EVIL).html(),
        html.Card("name", "1", EVIL).html(),
        html.chart(figures.Figure("name", EVIL, "summary", "note", [], {})),
        html.chart(figures.Figure("name", "title", EVIL, "note", [], {})),
        html.chart(figures.Figure("name", "title", "summary", EVIL, [], {})),
        html.table([EVIL], [[1]]),
        html.table(["name"], [[EVIL, EVIL]]),
        html.section(EVIL, "inside"),
    ],
)
def test_every_text_of_a_page_is_escaped(made):
    assert "<img" not in made
    assert "&lt;img src=x onerror=alert(1)&gt;&#x27;" in made


def test_the_end_of_a_run_is_text():
    assert "<img" not in page(dataclasses.replace(record(), ended=EVIL))


def test_nothing_in_the_data_ends_its_script(monkeypatch):
    monkeypatch.setattr(figures, "page_data", lambda drawn, of: {"text": "</script><img src=x>"})
    assert "<img" not in page(record())


def test_a_terminal_shows_names_and_does_nothing_else(tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    run = dataclasses.replace(record(), job=TERMINAL, rounds=(one_round(outcome="abort", fault=TERMINAL),))
    run.to_jsonl(path)
    assert main(["report", str(path), "--csv", str(tmp_path / "run.csv")]) == 0
    _Table(False, None).add(run.rounds[0])
    shown = capsys.readouterr().out
    assert shown.count("\\x1b[2J\\x1b]0;owned\\x07\\u202e") == 2
    assert not set("\x1b\x07\u202e") & set(shown)


@pytest.mark.parametrize("end", list("\u2028\u2029\x85\x1c\x0b\x0c"))
def test_line_ends_within_a_reason_are_read_back(tmp_path, end):
    path = tmp_path / "run.jsonl"
    run = dataclasses.replace(record(), rounds=(one_round(fault=f"out of{end}memory"),))
    run.to_jsonl(path)
    assert bs.TrainingRecord.from_jsonl(path) == run


def test_no_cell_is_a_formula(tmp_path):
    path = tmp_path / "run.csv"
    one = one_round(survivors=("=HYPERLINK(1)",), fault="@SUM(1)", lost={"+1": "gone"}, test={"x": -1.5})
    dataclasses.replace(record(), rounds=(one,)).to_csv(path)
    cells = path.read_text().splitlines()[1].split(",")
    assert {"'=HYPERLINK(1)", "'@SUM(1)", "'+1 (gone)", "-1.5"} <= set(cells)


def damage(folder, **arrays):
    with np.load(folder / "state.npz") as there:
        whole = dict(there) | arrays
    np.savez(folder / "state.npz", **whole)


def cut(at):
    return lambda folder: (folder / "state.npz").write_bytes((folder / "state.npz").read_bytes()[:at])


@pytest.mark.parametrize(
    "change",
    [
        cut(300),
        cut(0),
        lambda folder: (folder / "state.npz").write_bytes(
            (folder / "state.npz").read_bytes().replace(b"NUMPY", b"NUMPX", 1)
        ),
        lambda folder: (folder / "record.jsonl").unlink(),
        lambda folder: (folder / "state.npz").write_bytes(b"no archive"),
        *(
            lambda folder, numbers=numbers: damage(folder, numbers=numbers)
            for numbers in (
                np.array([1, 2]),
                np.array([np.nan] * 5),
                np.array(5),
                np.array([-1, 2, 2, 2, -1]),
                np.array([2, -2, 2, 2, -1]),
                np.array([9, 2, 2, 2, -1]),
            )
        ),
        lambda folder: damage(folder, model=np.zeros(4, np.uint8)),
        lambda folder: damage(folder, chain=np.zeros(3, np.uint8)),
    ],
)
def test_a_damaged_state_is_refused_by_name(tmp_path, change):
    train(tmp_path / "run", rounds=2)
    change(tmp_path / "run")
    with pytest.raises(bs.ConfigError, match=r"state\.npz cannot be used: .+; give another folder"):
        train(tmp_path / "run")


def test_the_state_is_for_its_owner_and_follows_no_link(tmp_path):
    folder, other = tmp_path / "run", tmp_path / "other"
    folder.mkdir()
    other.write_text("precious")
    (folder / ".state.npz").symlink_to(other)
    train(folder, rounds=1)
    assert other.read_text() == "precious"
    state = folder / "state.npz"
    assert not state.is_symlink()
    assert stat.S_IMODE(state.stat().st_mode) == 0o600


def test_another_run_does_not_go_on_here(tmp_path):
    train(tmp_path, rounds=1, model=np.ones(2))
    for options in ({"model": np.zeros(2)}, {}, {"model": np.ones(2), "plain": True}):
        with pytest.raises(bs.ConfigError, match="another job, or with other settings"):
            train(tmp_path, **options)
    assert len(train(tmp_path, model=np.ones(2)).rounds) == 3


def _is_used(folder, answer):
    try:
        with Checkpoints.of(folder, bs.JobSpec(**SPEC), {}):
            answer.put("free")
    except bs.ConfigError as error:
        answer.put(str(error))


def test_one_process_uses_a_folder(tmp_path):
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    with Checkpoints.of(tmp_path, bs.JobSpec(**SPEC), {}):
        other = context.Process(target=_is_used, args=(tmp_path, answer))
        other.start()
        assert "is used by another run now" in answer.get(timeout=60)
        other.join()


def test_rounds_after_the_state_are_run_again(tmp_path):
    """A run that is stopped between the record and the state has one round more in its record."""
    whole = train(tmp_path / "whole")
    train(tmp_path / "run", rounds=1)
    kept = (tmp_path / "run" / "state.npz").read_bytes()
    train(tmp_path / "run", rounds=2)
    (tmp_path / "run" / "state.npz").write_bytes(kept)
    again = train(tmp_path / "run")
    assert [one.number for one in again.rounds] == [1, 2, 3]
    assert [one.deviation for one in again.rounds] == [one.deviation for one in whole.rounds]
    shutil.rmtree(tmp_path / "whole")


def test_whole_numbers_stay_whole():
    with pytest.raises(bs.SpecError, match=r"parameters\.seed.*must be a whole number from -2\^63"):
        bs.JobSpec(protocol="plain", parties=2, dim=4, parameters={"seed": 10**30})


@pytest.mark.parametrize("sign", list("\u202e\u2066\u200b\ufeff\xad"))
def test_tensors_have_names_that_can_be_seen(sign):
    with pytest.raises(bs.SpecError, match="without spaces, control and format characters"):
        bs.JobSpec(protocol="plain", parties=2, layout=[f"a{sign}b float32 4"])


@pytest.mark.parametrize("write", ["to_csv", "to_jsonl", "report"])
def test_an_error_of_a_file_names_the_file_that_was_asked_for(write, tmp_path):
    path = tmp_path / "nosuch" / "run.out"
    with pytest.raises(FileNotFoundError) as caught:
        getattr(record(), write)(path)
    assert caught.value.filename == str(path)
    with pytest.raises(IsADirectoryError) as caught:
        getattr(record(), write)(tmp_path)
    assert caught.value.filename == str(tmp_path)


def test_a_store_is_no_record(tmp_path):
    path = tmp_path / "job.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(84))
    with pytest.raises(bs.InputError, match="is a coordinator's store: `blindsum report --store` reads it"):
        bs.TrainingRecord.from_jsonl(path)
