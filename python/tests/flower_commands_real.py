"""``blindsum demo --flower`` and ``blindsum bench flower`` with a real flwr: `make flower`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benches import flower
from benches.flower import PEER, PLAIN, Settings

ROOT = Path(__file__).resolve().parents[2]


def environment():
    """That of a command: the package under test, also where it is not installed."""
    paths = [str(ROOT / "python"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def command(*words):
    """The exit status of a command and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "blindsum", *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_demonstration_in_flower_gives_what_plain_fedavg_gives():
    status, out, err = command("demo", "--flower", "--parties", "4", "--rounds", "4")
    assert status == 0, err
    *_, last = out.splitlines()
    words = last.replace(",", "").split()
    assert words[:2] == ["test", "accuracy"]
    assert words[3:5] == ["plain", "FedAvg"]
    assert abs(float(words[2]) - float(words[5])) < 0.02
    assert float(words[2]) > 0.9
    assert "the protocol ran in the process of the ServerApp" in out
    assert "simulation: nodes send their updates as they are" in err


def test_a_demonstration_in_flower_as_json_where_nodes_weigh_alike():
    words = ("--protocol", "pss-malicious", "--parties", "8", "--rounds", "1", "--json")
    status, out, err = command("demo", "--flower", *words)
    assert status == 0, err
    report = json.loads(out)
    assert report["problems"] == []
    assert not report["weighted"]
    assert [one["number"] for one in report["rounds"]] == [1]
    assert report["rounds"][0]["deviation"] <= report["bound"]


def test_a_demonstration_in_flower_is_interrupted():
    words = [sys.executable, "-m", "blindsum", "demo", "--flower", "--parties", "4", "--rounds", "5000"]
    with subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert any("secagg+ round" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in said


@pytest.mark.parametrize("where", ["deployment", "simulation"])
def test_a_small_bench(where, tmp_path):
    words = ("--nodes", "3", "--dim", "1000", "--rounds", "1", "--no-losses", "--where", where, "--json")
    status, out, err = command("bench", "flower", *words, "--markdown", str(tmp_path / "flower.md"))
    assert status == 0, err
    costs = {one["way"]: one for one in json.loads(out)["costs"]}
    assert [*costs][:: len(costs) - 1] == [PLAIN, PEER]
    assert len(costs) == (3 if where == "simulation" else 2 + len(flower.transports()))
    assert all(one["median"] > 0 and one["node_memory"] > 2**20 for one in costs.values())
    if where == "deployment":
        # A node sends its update once, of 20 bits and more a coordinate.
        assert costs["secagg+, direct"]["up"] > 1000 * 20 / 8
    assert "Load average" in (tmp_path / "flower.md").read_text()
    assert (tmp_path / f"flower-{where}.csv").read_text().count("\n") == 1 + len(costs)


def test_a_node_is_lost_in_each_stage_and_the_others_have_their_sum(monkeypatch):
    ours = flower.ways(Settings(), "deployment")[1]
    monkeypatch.setattr(flower, "ways", lambda *_: [ours])
    losses = flower.measure_losses(Settings(nodes=4, dims=(1000,)), "deployment", lambda _text: None)
    assert {loss.stage: loss.survivors for loss in losses} == {
        "-": 4,
        "before it joins": 3,
        "training raises": 3,
        "after its upload": 4,
        "killed in training": 3,
    }
