"""The record of a training run: its files, its best round, and a coordinator's store as a record."""

import csv
import dataclasses
import json
import math

import numpy as np
import pytest
from conftest import Partner
from test_display import Cells
from training_records import HOSTILE, one_round, record

import blindsum as bs
from blindsum.coordinator import stored_spec
from blindsum.training import stored
from blindsum.training.words import bytes_text, count_text, number_text, rounds_text, seconds_text


def test_a_record_is_read_as_it_was_written(tmp_path):
    setup = one_round(number=3, stages=(bs.StageCost("keys", 0.5, 10, 20),))
    written = record(key_setups=(setup,), kind="simulated", error_bound=None)
    written.to_jsonl(tmp_path / "run.jsonl")
    assert bs.TrainingRecord.from_jsonl(tmp_path / "run.jsonl") == written
    lines = (tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(written.rounds)
    assert json.loads(lines[2])["lost"] == dict(written.rounds[1].lost)


def test_numbers_that_are_not_finite_are_texts(tmp_path):
    strange = one_round(
        test={"loss": math.inf, "gain": -math.inf}, metrics={"loss": None}, deviation=math.nan
    )
    record(rounds=0).to_jsonl(tmp_path / "run.jsonl")
    dataclasses.replace(record(), rounds=(strange,)).to_jsonl(tmp_path / "run.jsonl")
    text = (tmp_path / "run.jsonl").read_text(encoding="utf-8")
    assert "NaN" not in text
    assert '"nan"' in text
    (read,) = bs.TrainingRecord.from_jsonl(tmp_path / "run.jsonl").rounds
    assert (read.test, read.metrics) == (strange.test, strange.metrics)
    assert math.isnan(read.deviation)


def changed(line, change):
    """Lines of a record in whose given line a change was made."""

    def lines(written):
        table = json.loads(written[line])
        change(table)
        return [*written[:line], json.dumps(table), *written[line + 1 :]]

    return lines


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (lambda _: [], "is empty"),
        (lambda _: ["round,outcome"], "line 1: is no JSON"),
        (lambda _: ["[" * 100_000], "line 1: is no JSON"),
        (lambda _: ["[1]"], "line 1: must be a JSON object"),
        (lambda written: written[1:], "line 1, format: must be 'blindsum-training-1'"),
        (lambda written: written[:-1], "line 1, rounds: is 12, and 11 lines follow: the file was cut off"),
        (changed(0, lambda it: it.pop("job")), "line 1, job: is missing"),
        (
            changed(0, lambda it: it.update(kind="magic")),
            "line 1, kind: must be one of simulated, processes, job",
        ),
        (changed(0, lambda it: it.update(more=1)), "line 1, more: is no field of this version"),
        (changed(0, lambda it: it.update(spec=[])), "line 1, spec: must be a JSON object"),
        (
            changed(3, lambda it: it.update(number=True)),
            "line 4, number: must be a whole number of 0 or more",
        ),
        (changed(3, lambda it: it.update(number=-1)), "line 4, number: must be a whole number of 0 or more"),
        (
            changed(3, lambda it: it.update(seconds="fast")),
            "line 4, seconds: must be a number, or one of nan",
        ),
        (changed(3, lambda it: it.update(survivors="a")), "line 4, survivors: must be a list"),
        (changed(3, lambda it: it.update(lost={"a": 1})), "line 4, lost: must be a text"),
        (changed(3, lambda it: it["stages"][0].pop("up")), "line 4, up: is missing"),
        (changed(3, lambda it: it.update(stages=[1])), "line 4: must be a JSON object"),
    ],
)
def test_a_file_that_is_no_record_says_where(lines, said, tmp_path):
    path = tmp_path / "run.jsonl"
    record().to_jsonl(path)
    path.write_text("".join(f"{line}\n" for line in lines(path.read_text(encoding="utf-8").splitlines())))
    with pytest.raises(bs.InputError) as caught:
        bs.TrainingRecord.from_jsonl(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert str(caught.value).count("give a file that TrainingRecord.to_jsonl") == 1


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(bs.InputError, match="cannot be read: there is no such file"):
        bs.TrainingRecord.from_jsonl(tmp_path / "none")
    (tmp_path / "wide").write_text("x", encoding="utf-16")
    with pytest.raises(bs.InputError, match="UTF-16"):
        bs.TrainingRecord.from_jsonl(tmp_path / "wide")


def test_a_table_has_a_row_a_round(tmp_path):
    written = record()
    written.to_csv(tmp_path / "rounds.csv")
    text = (tmp_path / "rounds.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert [int(row["round"]) for row in rows] == [one.number for one in written.rounds]
    for row, one in zip(rows, written.rounds, strict=True):
        assert row["outcome"] == one.outcome
        assert row["test.accuracy"] == ("" if one.outcome == "abort" else repr(one.test["accuracy"]))
        assert float(row["seconds.masked-input"]) == one.stages[1].seconds
        assert (
            int(row["up_bytes"]) == one.up == sum(int(row[f"up_bytes.{stage.name}"]) for stage in one.stages)
        )
        assert row["survivor_names"].split() == list(one.survivors)
        assert row["lost_why"].count("masked-input") == len(one.lost)
    dataclasses.replace(written, rounds=()).to_csv(tmp_path / "rounds.csv")
    assert (tmp_path / "rounds.csv").read_text(encoding="utf-8").startswith("round,outcome,fault,")


def test_a_reason_with_line_breaks_stays_in_its_row(tmp_path):
    written = dataclasses.replace(record(), rounds=(one_round(lost={"a": "keys: one\nline\r\nmore"}),))
    written.to_csv(tmp_path / "rounds.csv")
    assert (tmp_path / "rounds.csv").read_text(encoding="utf-8").count("\n") == 2


def test_stages_of_one_name_are_one_column(tmp_path):
    hops = (bs.StageCost("hop", 1.0, 1, 2), bs.StageCost("hop", 2.0, 3, 4))
    dataclasses.replace(record(), rounds=(one_round(stages=hops),)).to_csv(tmp_path / "rounds.csv")
    (row,) = csv.DictReader((tmp_path / "rounds.csv").read_text(encoding="utf-8").splitlines())
    assert (row["seconds.hop"], row["up_bytes.hop"], row["down_bytes.hop"]) == ("3.0", "4", "6")


def test_the_best_round_is_that_of_the_test_where_there_is_one():
    def run(*rounds):
        return dataclasses.replace(record(), rounds=rounds)

    rounds = [
        one_round(number=1, test={"loss": 2.0}, metrics={"loss": 0.1, "accuracy": 0.5}),
        one_round(number=2, test={"loss": 1.0}, metrics={"loss": 0.9, "accuracy": 0.7}),
        one_round(number=3, test={"loss": 1.0}, metrics={"loss": 0.8, "accuracy": 0.7}),
        one_round(number=4, test={"loss": math.nan}, metrics={"accuracy": None}),
    ]
    tested = run(*rounds)
    assert tested.best("loss", "min").number == 2
    assert tested.best("loss").number == 1
    assert tested.best("accuracy").number == 2
    with pytest.raises(bs.ConfigError, match=r"metric: 'recall' has no finite value .* accuracy, loss"):
        tested.best("recall")
    with pytest.raises(bs.ConfigError, match="goal: 'most' must be 'max' or 'min'"):
        tested.best("loss", "most")
    with pytest.raises(bs.ConfigError, match="none"):
        run().best("loss")


def test_a_record_shows_itself():
    written = record()
    html = written._repr_html_()
    found = {row[0]: row[1:] for row in Cells(html).rows}
    assert found["accuracy"] == [number_text(written.rounds[-1].test["accuracy"])]
    assert found["12"][:2] == ["sum", str(len(written.rounds[-1].survivors))]
    assert "and 2 rounds before" in html
    assert HOSTILE not in html
    assert repr(written).startswith("<blindsum.TrainingRecord run: processes: job tumour, secagg+, rounds: ")
    assert "rounds: 0 of 0" in repr(dataclasses.replace(written, rounds=()))


def test_numbers_for_people():
    assert [bytes_text(count) for count in (0, 1023, 1536, 2**20 * 250, 2**50)] == [
        *("0 B", "1023 B", "1.5 KiB", "250 MiB", "1024 TiB")
    ]
    assert [seconds_text(seconds) for seconds in (0.34, 2.5, 200, 7500)] == [
        *("340 ms", "2.5 s", "3 min 20 s", "2 h 5 min")
    ]
    values = (None, 0.0, 0.95123, 1e-7, 2e6, math.nan)
    assert [number_text(value) for value in values] == [
        "",
        "0",
        "0.9512",
        "1.00e-07",
        "2.00e+06",
        "not finite",
    ]
    assert rounds_text([]) == ""
    assert rounds_text([3, 7, 8, 9]) == "3, 7\N{EN DASH}9"
    assert rounds_text([1, 3, 5, 6, 7], most=2) == "1, 3 and 3 more"
    assert [count_text(count, "round") for count in (0, 1, 2)] == ["0 rounds", "1 round", "2 rounds"]


@pytest.fixture(scope="module")
def store(place, tmp_path_factory):
    """The store of a job of three rounds, with its models from version 2 on."""
    path = tmp_path_factory.mktemp("store") / "job.sqlite"
    spec = place.spec(rounds=3)
    with place.coordinator(spec, store=path, limits={"models_kept": 2}) as coordinator:
        both = [Partner(place, coordinator, name, np.full(4, 0.5)) for name in ("a", "b")]
        for one in both:
            one.wait()
    return path


def test_a_store_is_a_record(store, place, tmp_path):
    spec = place.spec(rounds=3)
    found = bs.TrainingRecord.from_store(store, evaluate=lambda model: {"mean": model.mean()})
    assert (found.kind, found.job, found.protocol) == ("job", "job", "plain")
    assert (found.spec, found.error_bound) == (spec.to_dict(), spec.max_error)
    assert found.ended == "the job is done after 3 rounds"
    assert [one.number for one in found.rounds] == [1, 2, 3]
    for one in found.rounds:
        assert (one.outcome, one.fault, one.lost, one.model_version) == ("sum", None, {}, one.number - 1)
        assert (set(one.roster), set(one.survivors)) == ({"a", "b"}, {"a", "b"})
        assert [stage.name for stage in one.stages] == list(spec.stages)
        assert one.up > 0
        assert one.down > 0
    # The store has the last two versions of the model.
    means = [one.test.get("mean") for one in found.rounds]
    assert means == [None, pytest.approx(1.0, abs=1e-3), pytest.approx(1.5, abs=1e-3)]
    found.to_jsonl(tmp_path / "run.jsonl")
    assert bs.TrainingRecord.from_jsonl(tmp_path / "run.jsonl") == found


def test_a_store_without_more_is_a_record(store, place):
    found = bs.TrainingRecord.from_store(store, "job")
    assert (found.spec, found.parameters) == (place.spec(rounds=3).to_dict(), {})
    assert {one.test == {} for one in found.rounds} == {True}


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"job": "other"}, bs.ConfigError, "job: give one of the store's jobs: job"),
        ({"evaluate": lambda _: 0.5}, bs.InputError, "version 3 of the model must be numbers by their names"),
        ({"evaluate": lambda _: {"x": "good"}}, bs.InputError, "version 3 of the model, x: str is no number"),
    ],
)
def test_what_a_store_cannot_give_is_refused(arguments, error, said, store):
    with pytest.raises(error, match=said):
        bs.TrainingRecord.from_store(store, **arguments)


def test_the_specification_is_in_the_store(place, tmp_path):
    path = tmp_path / "job.sqlite"
    spec = place.spec(rounds=7, parameters={"rate": 0.5, "name": "ü"}, metrics=[bs.Metric("loss", 0.0, 9.0)])
    with place.coordinator(spec, store=path):
        pass
    assert stored_spec(path, "job") == spec
    assert stored_spec(path, "job").hash == spec.hash
    with pytest.raises(bs.ConfigError, match="job: is 'other', and must be one of the store's jobs: job"):
        stored_spec(path, "other")


def report(number, state="done", **changes):
    """The report of a round as a store gives it."""
    stage = {
        "name": "input",
        "seconds": 1.5,
        "bytes": {"a": {"up": 5, "down": 1}, "b": {"up": 2, "down": 1}},
        "dropped": {"b": "its connection was lost"},
    }
    fields = {
        "number": number,
        "state": state,
        "reason": "",
        "key_setup": False,
        "model_version": number - 1,
        "seconds": 2.0,
        "parties": ["a", "b"],
        "survivors": ["a"],
        "stages": [stage],
    }
    return fields | changes


def test_every_kind_of_round_of_a_store_is_told(monkeypatch):
    status = {
        "job": "j",
        "protocol": "flashe",
        "state": "running",
        "reason": "",
        "rounds_done": 1,
        "rounds": 9,
    }
    reports = [
        report(1, key_setup=True, survivors=["a", "b"]),
        report(2, metrics={"loss": {"value": 0.5, "share": 0.75}, "f1": {"value": None, "share": 0.0}}),
        report(3, "aborted", reason="too few", survivors=[]),
        report(4, "running"),
    ]
    monkeypatch.setattr(stored, "stored_jobs", lambda _: [status])
    monkeypatch.setattr(stored, "stored_rounds", lambda *_: reports)
    spec = bs.JobSpec(job="j", protocol="flashe", parties=2, dim=4)
    monkeypatch.setattr(stored, "stored_spec", lambda *_: spec)
    found = bs.TrainingRecord.from_store("job.sqlite")
    assert [one.number for one in found.key_setups] == [1]
    done, lost = found.rounds
    assert (done.metrics, done.reported) == ({"loss": 0.5, "f1": None}, {"loss": 0.75, "f1": 0.0})
    assert (done.lost, done.lost_stages) == ({"b": "its connection was lost"}, {"b": "input"})
    assert (done.lost_words, done.up, done.down) == ({"b": "input: its connection was lost"}, 7, 2)
    assert (lost.outcome, lost.fault, lost.metrics) == ("abort", "too few", {})
    assert found.ended == "the job is not over: 1 round of 9 planned so far"
    for state, reason, said in (
        ("failed", "no luck", "the job failed: no luck"),
        ("done", "", "the job is done after 1 round"),
        ("done", "no gain", "the job is done after 1 round: no gain"),
    ):
        status |= {"state": state, "reason": reason}
        assert bs.TrainingRecord.from_store("job.sqlite").ended == said
    status |= {"state": "running", "rounds": 0, "held": "paused by anna"}
    assert bs.TrainingRecord.from_store("job.sqlite").ended.endswith("1 round so far; paused by anna")


def test_models_that_only_parties_have_are_not_evaluated(monkeypatch):
    def hidden(*_):
        raise bs.HiddenModelError("only the parties have it")

    status = {"job": "j", "protocol": "flashe", "state": "done", "reason": "", "rounds_done": 1, "rounds": 1}
    monkeypatch.setattr(stored, "stored_jobs", lambda _: [status])
    monkeypatch.setattr(stored, "stored_rounds", lambda *_: [report(1)])
    spec = bs.JobSpec(job="j", protocol="flashe", parties=2, dim=4)
    monkeypatch.setattr(stored, "stored_spec", lambda *_: spec)
    monkeypatch.setattr(stored, "stored_model", hidden)
    with pytest.raises(bs.HiddenModelError):
        bs.TrainingRecord.from_store("job.sqlite", evaluate=lambda _: {})
