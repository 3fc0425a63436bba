"""Jobs that a metric ends, and their best model: over the network, on one machine, on the command line."""

import json

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.coordinator import stored_best_model, stored_jobs, stored_rounds, stored_versions

ACCURACY = bs.Metric("accuracy", 0.0, 1.0)
MEASURED = [0.25, 0.5, 0.375, 0.5, 0.125]
REASON = "accuracy has not risen for 3 rounds; the best is 0.5, of model version 1"
ONE_MODEL = {"models_kept": 1}


def job(place, **fields):
    stop = bs.Plateau(metric="accuracy", patience=3)
    spec = place.spec(parties=1, min_parties=1, rounds=20)
    return spec.replace(metrics=[ACCURACY], **{"stop": stop, **fields})


def play(session, measured):
    """Takes part in a round for each value, with an update of ones; until the job is done."""
    for value in measured:
        current = session.next_round()
        current.submit(np.full(4, 1.0), metrics=None if value is None else {"accuracy": value})
        assert current.result() is not None


def test_a_job_is_read_and_refused_by_its_fields():
    def spec(**fields):
        settings = {"protocol": "plain", "parties": 2, "dim": 4, "metrics": [ACCURACY]}
        return bs.JobSpec(**{**settings, **fields})

    made = spec(stop=bs.Plateau(metric="accuracy", patience=3))
    assert (made.stop.name, made.stop.metric, made.stop.better) == ("plateau", "accuracy", "higher")
    assert (made.stop.patience, made.stop.least_gain) == (3, 0.0)
    assert spec(stop={"metric": "accuracy", "patience": 3}) == made
    assert bs.JobSpec.from_dict(made.to_dict()) == made
    assert spec().stop.name == "never"
    assert spec().hash == spec(stop="never").hash != made.hash
    for fields, field in (
        ({"stop": bs.Plateau()}, "stop.metric"),
        ({"stop": bs.Plateau(metric="loss")}, "stop.metric"),
        ({"stop": bs.Plateau(metric="accuracy"), "metrics": []}, "stop.metric"),
        ({"stop": bs.Plateau(metric="accuracy", least_gain=-1.0)}, "stop.least_gain"),
        ({"stop": bs.Plateau(metric="accuracy", better="more")}, "stop.better"),
        ({"stop": {"name": "never", "patience": 3}}, "stop.patience"),
        ({"stop": {"metric": "accuracy"}, "model_update": "none"}, "stop"),
        ({"stop": {"metric": "accuracy"}, "protocol": "flashe", "parties": 4}, "stop"),
    ):
        with pytest.raises(bs.SpecError) as refused:
            spec(**fields)
        assert refused.value.field == field


def test_a_job_ends_early_and_goes_on_after_a_restart_with_what_it_knew(place, tmp_path, capsys):
    spec, store = job(place), tmp_path / "job.sqlite"
    out = tmp_path / "best.npy"
    best = ["model", "--store", str(store), "--best", "--out", str(out), "--force"]
    with place.coordinator(spec, store=store, limits=ONE_MODEL) as coordinator:
        with pytest.raises(bs.StoreError, match="no best model yet"):
            stored_best_model(store, "job")
        assert main(best) == 1
        assert "no best model yet" in capsys.readouterr().err
        with place.join(coordinator, "a") as session:
            play(session, MEASURED[:3])
        coordinator.stop()
    (status,) = stored_jobs(store)
    assert status["stop_metric"] == "accuracy"
    assert (status["best"]["version"], status["best"]["round"]) == (1, 2)
    assert stored_versions(store, "job") == [1, 3]
    # Another coordinator goes on with the best value and the count, and keeps the model.
    with place.coordinator(spec, store=store, limits=ONE_MODEL) as coordinator:
        with place.join(coordinator, "a") as session:
            assert session.done_early == ""
            play(session, MEASURED[3:])
            assert session.next_round() is None
            assert session.done_early == REASON
        model = coordinator.best_model
        last = list(coordinator.statuses())[-1]
    assert (last["state"], last["reason"], last["rounds_done"]) == ("done", REASON, 5)
    assert last["best"]["without_gain"] == 3
    assert last["best"]["value"] == pytest.approx(0.5, abs=1e-6)
    found, stored = stored_best_model(store, "job")
    assert found == last["best"]
    assert np.array_equal(model, stored)
    assert np.allclose(stored, 1.0, atol=1e-3)
    assert stored_versions(store, "job") == [1, 5]
    assert stored_rounds(store, "job")[-1]["best"] == found
    assert main(best) == 0
    assert "version 1 of the model of job job, best accuracy 0.5" in capsys.readouterr().out
    assert np.array_equal(np.load(out), stored)
    assert main(["status", "--store", str(store)]) == 0
    said = capsys.readouterr().out
    assert f"done: {REASON}" in said
    assert "best accuracy 0.5, of model version 1" in said
    assert "3 rounds since then" in said
    record = bs.TrainingRecord.from_store(store)
    assert record.ended == f"the job is done after 5 rounds: {REASON}"
    assert (record.best_model.version, record.best_model.round) == (1, 2)


def test_an_operator_lets_a_job_go_on_with_the_rounds_that_it_has(place, tmp_path):
    spec, store = job(place), tmp_path / "job.sqlite"
    with place.coordinator(spec, store=store) as coordinator, place.join(coordinator, "a") as session:
        play(session, MEASURED)
        assert session.next_round() is None
    settings = {"store": store, "limits": ONE_MODEL, "stop_when_done": False}
    with place.coordinator(spec, **settings) as coordinator:
        coordinator.extend("it may still learn", rounds=20)
        with place.join(coordinator, "a") as session:
            play(session, [0.25, 0.25, 0.75])
        coordinator.stop()
    (status,) = stored_jobs(store)
    assert (status["state"], status["best"]["without_gain"]) == ("running", 0)
    assert status["best"]["value"] == pytest.approx(0.75, abs=1e-6)


def test_which_model_is_asked_for_is_said_once(place, tmp_path, capsys):
    store, out = tmp_path / "job.sqlite", str(tmp_path / "best.npy")
    spec = job(place, stop="never")
    with place.coordinator(spec, store=store) as coordinator:
        with pytest.raises(bs.ConfigError, match="must have stop"):
            _ = coordinator.best_model
        coordinator.stop()
    assert main(["model", "--store", str(store), "--best", "--out", out]) == 2
    assert "--best: job job must have stop" in capsys.readouterr().err
    both = ["model", "--store", str(store), "--best", "--version", "0", "--out", out]
    assert main(both) == 2
    assert "leave --best or --version out" in capsys.readouterr().err
    with pytest.raises(bs.ConfigError, match="must be one of the store's jobs: job"):
        stored_best_model(store, "another")


def test_join_says_why_the_job_is_done(place, tmp_path, monkeypatch, capsys):
    code = "import numpy as np\n\ndef train(model, number):\n    return np.ones(4), 1, {'accuracy': 0.5}\n"
    (tmp_path / "constant_accuracy.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    with place.coordinator(job(place)) as coordinator:
        files = ["--ca", str(place.folder / "ca.pem"), "--identity", str(place.identity("a"))]
        port = coordinator.address.rpartition(":")[2]
        target = [f"https://localhost:{port}", "--job", "job", *files]
        assert main(["join", *target, "--train", "constant_accuracy:train", *place.take_any]) == 0
    said = capsys.readouterr().out
    assert "the job is done: accuracy has not risen for 3 rounds; the best is 0.5, of model version 0" in said


TARGETS = [np.array([0.5, 0.0]), np.array([0.25, 0.25]), np.array([0.0, 0.5])]


def simulated(**fields):
    stop = bs.Plateau(metric="accuracy", patience=2)
    settings = {"protocol": "plain", "parties": 3, "dim": 2, "rounds": 9, "metrics": [ACCURACY], "stop": stop}
    return bs.JobSpec(**{**settings, **fields})


def measured(values):
    """A training function whose parties report these values, round by round."""

    def step(model, own, turn):
        return 0.5 * (own - model), None, {"accuracy": values[turn.number - 1]}

    return step


def test_a_run_on_one_machine_ends_by_the_same_rule(tmp_path):
    values = [0.25, 0.75, 0.5, None, 0.75]
    said = []
    record = bs.simulate_training(
        simulated(), measured(values), TARGETS, out=tmp_path, progress=lambda one: said.append(one.number)
    )
    assert said == [1, 2, 3, 4, 5]
    assert record.ended == "accuracy has not risen for 2 rounds; the best is 0.75, of model version 1"
    best = record.best_model
    assert (best.metric, best.round, best.version, best.without_gain) == ("accuracy", 2, 1, 2)
    # After the first round.
    assert np.allclose(best.model, 0.5 * np.mean(TARGETS, axis=0), atol=1e-3)
    assert np.array_equal(np.load(tmp_path / "best-model.npy"), best.model)
    record.to_jsonl(tmp_path / "copy.jsonl")
    assert bs.TrainingRecord.from_jsonl(tmp_path / "copy.jsonl") == record
    # The same call again goes on from the end, which is the end.
    again = bs.simulate_training(simulated(), measured(values), TARGETS, out=tmp_path)
    assert (len(again.rounds), again.ended, again.best_model) == (5, record.ended, best)


def test_a_run_that_was_stopped_goes_on_with_the_best_model_and_the_count(tmp_path):
    values = [0.25, 0.75, 0.5, None, 0.75]
    whole = bs.simulate_training(simulated(), measured(values), TARGETS)
    for stop in (1, 2, 3, 4):
        out = tmp_path / str(stop)
        first = bs.simulate_training(simulated(), measured(values), TARGETS, out=out, rounds=stop)
        assert len(first.rounds) == stop
        rest = bs.simulate_training(simulated(), measured(values), TARGETS, out=out)
        assert (rest.ended, rest.best_model) == (whole.ended, whole.best_model)
        assert np.array_equal(rest.best_model.model, whole.best_model.model)


def test_all_rounds_are_run_without_patience_and_without_stop():
    kept = simulated(stop=bs.Plateau(metric="accuracy", patience=0))
    values = [0.5] * 9
    record = bs.simulate_training(kept, measured(values), TARGETS)
    assert (len(record.rounds), record.ended) == (9, "all rounds are done")
    assert (record.best_model.version, record.best_model.without_gain) == (0, 8)
    plain = bs.simulate_training(simulated(stop="never"), measured(values), TARGETS)
    assert (len(plain.rounds), plain.best_model) == (9, None)


RUN = """\
[training]
step = "mystop:step"
data = "mystop:parts"

[job]
protocol = "plain"
parties = 3
dim = 2
rounds = 9
metrics = [{ name = "accuracy", low = 0.0, high = 1.0 }]
stop = { metric = "accuracy", patience = 2 }
"""
CODE = """\
import numpy as np

def parts(parties, seed):
    return [np.full(2, rank / 4) for rank in range(parties)]

def step(model, own, turn):
    return 0.5 * (own - model), None, {"accuracy": [0.25, 0.75, 0.5, 0.5][turn.number - 1]}
"""


def test_train_writes_the_best_model_and_says_why_it_ended(tmp_path, monkeypatch, capsys):
    pytest.importorskip("plotly")
    (tmp_path / "mystop.py").write_text(CODE)
    (tmp_path / "run.toml").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["train", "run.toml"]) == 0
    said = capsys.readouterr().out
    assert "best model: accuracy 0.75, of model version 1, in round 2" in said
    assert "accuracy has not risen for 2 rounds; the best is 0.75, of model version 1" in said
    out = tmp_path / "blindsum-train"
    assert np.allclose(np.load(out / "best-model.npy"), 0.125, atol=1e-3)
    first = json.loads((out / "record.jsonl").read_text().splitlines()[0])
    assert (first["rounds"], first["best_model"]["version"]) == (4, 1)
    page = (out / "report.html").read_text()
    assert "Best accuracy" in page
    assert "model version 1, measured in round 2; 2 rounds without a better one" in page
    assert "accuracy has not risen for 2 rounds" in page
