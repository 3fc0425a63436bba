"""``blindsum train``: a model and data of a user's own, simulated and as processes."""

import json
import logging
import sys

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.clipping import ClippingLog
from blindsum.rounds import Clipped
from blindsum.training import processes

MODULE = """
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from blindsum.sklearn import ModelVector

FEATURES, LABELS = load_digits(return_X_y=True)
FEATURES = FEATURES / 16


def net():
    made = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.1, random_state=0)
    return made, ModelVector(made, classes=range(10), n_features=64)


def parts(parties, seed):
    order = np.random.default_rng(seed).permutation(1500)
    return [Part(FEATURES[own], LABELS[own]) for own in np.array_split(order, parties)]


class Part:
    def __init__(self, features, labels):
        self.features, self.labels = features, labels

    def __len__(self):
        return len(self.labels)


def train(net, part, epochs, turn):
    accuracy = float(net.score(part.features, part.labels))
    rng = np.random.default_rng(turn.seed)
    for _ in range(epochs):
        order = rng.permutation(len(part))
        net.partial_fit(part.features[order], part.labels[order])
    return {"accuracy": accuracy}


def test(net):
    return {"accuracy": float(net.score(FEATURES[1500:], LABELS[1500:]))}


def step(model, part, turn):
    return np.full(3, 0.125) - model


def three(model):
    return {"first": float(model[0])}


def broken(parties, seed):
    raise ValueError("no data today")
"""

NET = """
[training]
net = "digitsmodel:net"
data = "digitsmodel:parts"
train = "digitsmodel:train"
test = "digitsmodel:test"
seed = 3

[job]
protocol = "secagg"
parties = 4
rounds = 4
adversary = "semi-honest"
encoding = { name = "quantised", clip = 4.0, max_weight = 1000 }
metrics = [{ name = "accuracy", low = 0, high = 1 }]

[job.parameters]
epochs = 1
"""

STEP = """
[training]
step = "digitsmodel:step"
data = "digitsmodel:parts"
evaluate = "digitsmodel:three"

[job]
protocol = "plain"
parties = 3
dim = 3
rounds = 2
adversary = "semi-honest"
"""


def status_of(*words):
    return main(list(words))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "digitsmodel.py").write_text(MODULE)
    (tmp_path / "net.toml").write_text(NET)
    (tmp_path / "step.toml").write_text(STEP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_network_learns_and_a_report_is_written(folder, capsys):
    assert status_of("train", "net.toml", "--plain", "--out", "run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["round", "parties", "seconds", "bytes", "sent", "numbers"]
    assert lines[-1] == "all rounds are done; run/report.html"
    record = bs.TrainingRecord.from_jsonl(folder / "run" / "record.jsonl")
    last = record.rounds[-1]
    assert last.test["accuracy"] > 0.85
    assert last.test["accuracy"] == pytest.approx(last.plain_test["accuracy"], abs=0.02)
    # What parties report is of the model before the round.
    assert last.metrics["accuracy"] > record.rounds[0].metrics["accuracy"]
    assert record.parameters == {"epochs": 1}
    assert (folder / "run" / "rounds.csv").read_text().count("\n") == 5
    assert "<!doctype html>" in (folder / "run" / "report.html").read_text().lower()


def test_processes_train_the_same_model(folder, capsys):
    assert status_of("train", "net.toml", "--out", "one", "--set", "rounds=2") == 0
    assert status_of("train", "net.toml", "--processes", "--json", "--out", "two", "--set", "rounds=2") == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    one, two = (bs.TrainingRecord.from_jsonl(folder / name / "record.jsonl") for name in ("one", "two"))
    assert (one.kind, two.kind) == ("simulated", "processes")
    assert len(shown) == len(two.rounds) == 2
    for simulated, real in zip(one.rounds, two.rounds, strict=True):
        # Stochastic rounding draws other bits.
        assert real.metrics["accuracy"] == pytest.approx(simulated.metrics["accuracy"], abs=0.02)
        assert real.test["accuracy"] == pytest.approx(simulated.test["accuracy"], abs=0.02)


def test_a_step_of_arrays_needs_no_library(folder, capsys):
    np.save(folder / "first.npy", np.ones(3, np.float32))
    text = STEP.replace("evaluate = ", 'model = "first.npy"\nevaluate = ')
    (folder / "step.toml").write_text(text)
    assert status_of("train", "step.toml", "--json", "--set", "protocol=secagg+") == 0
    rounds = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["test"]["first"] for one in rounds] == pytest.approx([0.125, 0.125], abs=1e-3)


def test_a_run_that_goes_on_says_so(folder, capsys):
    (folder / "goes.py").write_text(
        "from digitsmodel import parts, three\n"
        "import digitsmodel, os\n\n\n"
        "def step(model, part, turn):\n"
        "    if turn == 2 and os.environ.get('STOPS'):\n"
        "        raise KeyboardInterrupt\n"
        "    return digitsmodel.step(model, part, turn)\n"
    )
    (folder / "goes.toml").write_text(STEP.replace("digitsmodel:step", "goes:step"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOPS", "1")
        assert status_of("train", "goes.toml", "--out", "goes", "--set", "rounds=3") == 130
    capsys.readouterr()
    assert status_of("train", "goes.toml", "--out", "goes", "--set", "rounds=3") == 0
    assert "goes on after round 1, which goes has" in capsys.readouterr().err


def test_a_stopped_run_goes_on(folder, capsys):
    assert status_of("train", "step.toml", "--out", "run", "--set", "rounds=2") == 0
    assert status_of("train", "step.toml", "--out", "run", "--set", "rounds=3") == 2
    assert "holds a run of another job" in capsys.readouterr().err
    assert status_of("train", "step.toml", "--json", "--out", "run", "--set", "rounds=2") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (('step = "digitsmodel:step"\n', ""), "training.step: is missing"),
        (("digitsmodel:step", "digitsmodel:nothing"), "module digitsmodel has no function nothing"),
        (("digitsmodel:step", "nomodule:step"), "there is no module nomodule"),
        (("digitsmodel:parts", "digitsmodel"), "must be MODULE:FUNCTION"),
        (("[job]", "[jobs]"), "has no table [job]"),
        (("[job]", "sead = 3\n[job]"), "training.sead: is unknown"),
        (("[job]", "[other]\n[job]"), "'other' is unknown"),
        (("[job]", "seed = -3\n[job]"), "training.seed: -3 must be a whole number"),
        (("dim = 3", "dim = 0"), "dim"),
        (("[training]", "[training"), "step.toml:"),
        (('evaluate = "digitsmodel:three"', 'model = "none.npy"'), "training.model: none.npy cannot be read"),
        (('evaluate = "digitsmodel:three"', "evaluate = 3"), "training.evaluate: 3 must be text"),
    ],
)
def test_a_description_that_cannot_be_right_is_refused(folder, capsys, change, text):
    (folder / "step.toml").write_text(STEP.replace(*change))
    assert status_of("train", "step.toml") == 2
    assert text in capsys.readouterr().err


def test_flags_that_go_with_nothing_are_refused(folder, capsys):
    assert status_of("train", "step.toml", "--processes", "--plain") == 2
    assert "--plain: goes with a simulated run only" in capsys.readouterr().err
    assert status_of("train", "nowhere.toml") == 2
    assert "FILE: nowhere.toml cannot be read" in capsys.readouterr().err


RAISES = """
import numpy as np
from digitsmodel import parts

seen = []


def step(model, part, turn):
    if turn == 3:
        raise LookupError("no batch today")
    return np.full(3, 0.125) - model


def good(model, part, turn):
    # Each round has a model of its own: the same one again is not tested again.
    return np.full(3, 0.125 + turn / 64) - model


def heavy(model, part, turn):
    return np.full(3, 0.125) - model, 99


def evaluate(model):
    seen.append(model)
    if len(seen) == 3:
        raise LookupError("no test today")
    return {"first": float(model[0])}
"""


@pytest.fixture
def raises(folder):
    (folder / "raises.py").write_text(RAISES)

    def write(**functions):
        text = STEP
        for name, function in functions.items():
            known = {"step": "digitsmodel:step", "evaluate": "digitsmodel:three"}[name]
            text = text.replace(known, f"raises:{function}")
        (folder / "raises.toml").write_text(text)
        sys.modules.pop("raises", None)

    return write


@pytest.mark.parametrize("processes", [(), ("--processes",)])
def test_what_there_is_stays_where_the_evaluation_raises(raises, folder, capsys, processes):
    raises(step="good", evaluate="evaluate")
    words = ("train", "raises.toml", "--set", "rounds=5", "--out", "run", *processes)
    assert status_of(*words) == 1
    said = capsys.readouterr().err
    assert "in evaluate" in said
    assert "blindsum/training" not in said
    assert "evaluate raised LookupError: no test today" in said.splitlines()[-1]
    if processes:
        record = bs.TrainingRecord.from_jsonl(folder / "run" / "record.jsonl")
        # Rounds that are new are tested from the latest one on.
        over = [one for one in record.rounds if one.test]
        assert len(over) == 2
        assert [one.test["first"] for one in over] == pytest.approx(
            [0.125 + one.number / 64 for one in over], abs=1e-3
        )
        assert (folder / "run" / "report.html").exists()
    else:
        assert said.splitlines()[-1].endswith("up to round 2; the same command goes on from there")
        assert status_of(*words) == 0
        assert len(bs.TrainingRecord.from_jsonl(folder / "run" / "record.jsonl").rounds) == 5


def test_a_step_that_raises_is_told_with_party_and_round(raises, capsys):
    raises(step="step")
    assert status_of("train", "raises.toml", "--set", "rounds=5", "--out", "run") == 1
    said = capsys.readouterr().err
    assert "blindsum/training" not in said
    last = said.splitlines()[-1]
    assert "the training step of party-1 in round 3 raised LookupError: no batch today" in last


def test_a_run_whose_parties_can_never_give_an_update_ends_and_says_why(raises, folder, capsys):
    raises(step="heavy")
    assert status_of("train", "raises.toml", "--processes", "--set", "rounds=5", "--out", "run") == 1
    said = capsys.readouterr().err
    assert "no update: weight: 99 must be a whole number from 1 to max_weight = 1" in said
    assert "3 rounds in a row have no sum" in said
    record = bs.TrainingRecord.from_jsonl(folder / "run" / "record.jsonl")
    assert {one.outcome for one in record.rounds} == {"abort"}


def test_parties_of_a_run_write_their_warnings_about_rounds(tmp_path, monkeypatch):
    logger = logging.getLogger("blindsum")
    monkeypatch.setattr(logger, "handlers", [])
    path = tmp_path / "party-1.warnings"
    assert processes._warnings(path) == []
    processes._write_warnings(str(path))
    log = ClippingLog(bs.JobSpec(protocol="secagg", parties=3, dim=4, job="one"))
    log.tell(7, Clipped(2, None))
    logger.info("job %r, round %d: nothing", "one", 7, extra={"round": 7})
    logger.warning("job 'one', round 7: another program's line")
    logger.handlers[0].close()
    with path.open("a", encoding="utf-8") as file:
        file.write('"under way')
    (text,) = processes._warnings(path)
    assert text.startswith("job 'one', round 7: 2 of 4 coordinates of this party's update were cut off")
