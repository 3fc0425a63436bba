"""What goes wrong in a training run without an error is said: once, by whom, and what to do."""

import logging
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import blindsum as bs
from blindsum.sklearn import ModelVector
from blindsum.training.processes import run_processes

DIM = 20
START = np.linspace(-1, 1, DIM, dtype=np.float32)


def job(**fields):
    settings = {"protocol": "secagg", "parties": 4, "dim": DIM, "rounds": 2, "adversary": "semi-honest"}
    return bs.JobSpec(**{**settings, **fields})


def said(caplog, spec, step, **options):
    with caplog.at_level(logging.WARNING, "blindsum"):
        record = bs.simulate_training(spec, step, [1, 2, 3, 4], **options)
    return record, [line.getMessage() for line in caplog.records]


def small(model, data, turn):
    return np.full(DIM, 0.25)


def test_zeros_are_told_unless_they_are_meant(caplog):
    _, (line,) = said(caplog, job(), small)
    assert "all zeros" in line
    caplog.clear()
    assert said(caplog, job(initial="zeros"), small)[1] == []
    assert said(caplog, job(), small, model=START)[1] == []


def test_a_first_model_that_a_party_gives_must_be_given():
    spec = job(initial="first-party")
    with pytest.raises(bs.ConfigError, match="model: is missing, and the job takes its first model from a"):
        bs.simulate_training(spec, small, [1, 2, 3, 4])
    assert bs.simulate_training(spec, small, [1, 2, 3, 4], model=START).rounds[-1].outcome == "sum"


def test_clipped_updates_are_told_once_with_their_number(caplog):
    spec = job(encoding=bs.Quantised(clip=0.125))
    record, (line,) = said(caplog, spec, small, model=START)
    assert [one.clipped for one in record.rounds] == [4 * DIM, 4 * DIM]
    assert (
        f"round 1: {4 * DIM} of {4 * DIM} coordinates of the parties' updates were cut off (clip = 0.125)"
        in line
    )


def test_a_metric_beyond_its_range_is_told_once_and_nan_is_missing(caplog):
    spec = job(metrics=[bs.Metric("loss", 0, 1), bs.Metric("f1", 0, 1)])

    def step(model, data, turn):
        return small(model, data, turn), 1, {"loss": 2.5 if data == 3 else 0.5, "f1": float("nan")}

    record, (missing, line) = said(caplog, spec, step, model=START)
    assert "round 1, party-1: metric f1 is nan, and counts as missing" in missing
    assert "round 1, party-3: metric loss is 2.5, outside of its range from 0 to 1" in line
    assert record.rounds[0].metrics["loss"] == pytest.approx((1 + 3 * 0.5) / 4, abs=1e-6)
    assert record.rounds[0].reported["f1"] == 0.0


def test_the_root_is_the_last_party_and_has_its_name():
    rule = {"rule": "fltrust", "root": "clinic"}
    spec = job(protocol=bs.Mpc3(**rule), parties=6, encoding=bs.Quantised(clipping="l2", clip=2.0), rounds=1)
    record = bs.simulate_training(spec, small, range(1, 7), model=START)
    assert record.rounds[0].survivors[-1] == "clinic"
    assert record.error_bound is None
    other = spec.replace(protocol=bs.Mpc3(**(rule | {"root": "party-1"})))
    with pytest.raises(bs.ConfigError, match="root: is party-1, and the root of a simulated run is its last"):
        bs.simulate_training(other, small, range(1, 7), model=START)


def test_a_model_that_is_trained_on_without_a_load_is_told(caplog):
    from sklearn.linear_model import SGDRegressor

    net = SGDRegressor()
    vector = ModelVector(net, n_features=2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))

    def train():
        net.partial_fit(x, x @ [1.0, -2.0])
        return vector.change()

    with caplog.at_level(logging.WARNING, "blindsum"):
        for _ in range(3):
            vector.load(np.zeros(vector.dim, np.float32))
            train()
            # The same change twice is no news.
            vector.change()
        assert not caplog.records
        train()
        train()
    (line,) = [line.getMessage() for line in caplog.records]
    assert "Call load(rnd.model) in each round" in line


def test_in_a_round_without_a_sum_nobody_who_answered_is_called_late():
    spec = job(parties=8, rounds=1)
    stage = spec.input_stage
    record = bs.simulate_training(spec, small, range(1, 9), model=START, drop_at={stage: 7})
    (one,) = record.rounds
    assert one.outcome == "abort"
    assert sorted(one.lost.values()) == ["vanished"] * 7
    assert record.ended == "all rounds are over, and none has a sum"


def test_stages_of_a_simulated_round_are_as_a_coordinator_reports_them(place, tmp_path):
    from conftest import Partner

    spec = place.spec(protocol="secagg", parties=3, dim=DIM, rounds=1)
    with place.coordinator(spec, store=tmp_path / "job.sqlite") as coordinator:
        parties = [Partner(place, coordinator, name, np.full(DIM, 0.5)) for name in ("a", "b", "c")]
        for one in parties:
            one.wait()
    (real,) = bs.TrainingRecord.from_store(tmp_path / "job.sqlite").rounds
    run = bs.simulate_training(spec, small, [1, 2, 3], compute=7.5, model=START)
    (simulated,) = run.rounds
    assert [one.name for one in simulated.stages] == [one.name for one in real.stages]
    for ours, theirs in zip(simulated.stages, real.stages, strict=True):
        # Frames and names differ by some bytes.
        assert ours.up == pytest.approx(theirs.up, rel=0.25, abs=100)
        assert ours.down == pytest.approx(theirs.down, rel=0.25, abs=100)
    spent = {one.name: one.seconds for one in simulated.stages}
    assert spent[spec.input_stage] == pytest.approx(7.5)
    assert simulated.seconds == pytest.approx(sum(spent.values()))


MODULE = """
import os
import numpy as np


def parts(parties, seed):
    return list(range(1, parties + 1))


def step(model, data, turn):
    if data == 3 and turn >= 2 and os.environ.get("ENDS"):
        os._exit(7)
    return np.full(20, 0.25)


def evaluate(model):
    return {"first": float(model[0])}
"""

RUN = """
[training]
step = "ownstep:step"
data = "ownstep:parts"
evaluate = "ownstep:evaluate"

[job]
protocol = "secagg"
adversary = "semi-honest"
initial = "zeros"
parties = 4
min_parties = 2
corrupt = 0.0
dropout = 0.5
dim = 20
rounds = 4
join_deadline = 3.0
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "ownstep.py").write_text(MODULE)
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    monkeypatch.chdir(tmp_path)
    return path


def test_processes_go_on_without_a_party_that_ends(run, monkeypatch):
    monkeypatch.setenv("ENDS", "1")
    told, seen = [], []
    record = run_processes(str(run), [], seen.append, told.append).record
    assert [one.outcome for one in record.rounds[-1:]] == ["sum"]
    assert sum(one.outcome == "sum" for one in record.rounds) == 4
    assert [one.number for one in seen] == [one.number for one in record.rounds]
    assert "party-3" not in record.rounds[-1].survivors
    assert [line for line in told if line.startswith("party-3 ended with status 7")]
    assert record.rounds[-1].test["first"] == pytest.approx(1.0, abs=1e-3)


def test_processes_end_where_too_few_are_left_for_a_round(run, monkeypatch):
    monkeypatch.setenv("ENDS", "1")
    ended = run_processes(str(run), [("min_parties", "4"), ("dropout", "0")], lambda _: None, print)
    assert "3 of 4 parties are left, and a round needs 4: party-3 ended with status 7" in str(ended.stopped)
    assert ended.record.rounds[0].outcome == "sum"


def test_in_processes_a_party_gives_the_first_model(run, tmp_path):
    np.save(tmp_path / "start.npy", START)
    text = RUN.replace('initial = "zeros"', 'initial = "first-party"')
    run.write_text(text.replace("[job]", 'model = "start.npy"\n\n[job]').replace("\nmodel", "model"))
    record = run_processes(str(run), [("rounds", "1")], lambda _: None, print).record
    assert record.rounds[0].test["first"] == pytest.approx(float(START[0]) + 0.25, abs=1e-3)


def test_processes_that_are_stopped_leave_their_rounds(run):
    def stop(one):
        if one.number == 2:
            raise KeyboardInterrupt

    ended = run_processes(str(run), [("rounds", "400")], stop, print)
    assert isinstance(ended.stopped, KeyboardInterrupt)
    record = ended.record
    assert len(record.rounds) >= 2
    assert {one.outcome for one in record.rounds[:2]} == {"sum"}


def test_ctrl_c_writes_what_there_is(run, tmp_path):
    words = [sys.executable, "-m", "blindsum", "train", str(run), "--processes", "--set", "rounds=100000"]
    process = subprocess.Popen(
        [*words, "--out", "real"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    limit = threading.Timer(240, process.kill)
    limit.start()
    for line in process.stdout:
        if line.split()[:1] == ["2"]:
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate()
    limit.cancel()
    assert process.returncode == 130, err
    assert "a run of processes starts over" in err
    record = bs.TrainingRecord.from_jsonl(tmp_path / "real" / "record.jsonl")
    assert len(record.rounds) >= 2
    assert (tmp_path / "real" / "report.html").exists()
