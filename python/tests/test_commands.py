"""Every command of ``--help``, and every protocol through it: nothing ends in a traceback, small.

A command without a case here fails :func:`test_every_command_has_a_case`.
"""

import argparse
import json
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import blindsum as bs
from benches import timers
from blindsum import _native, pki
from blindsum.cli import SUBCOMMANDS, Parser, main
from blindsum.cli.jobs import spec_from_file
from blindsum.demo.digits import Examples
from blindsum.demo.run import DemoResult, DemoRound, Settings
from blindsum.errors import ConfigError
from blindsum.testing import Cluster, PartyProcess

PARTIES = {"pss-malicious": 8, "paillier-ring": 5, "paillier-allreduce": 5, "paillier-broadcast": 5}
"""How many take part, so that a round can do without one; of the others 6."""

COVERED = set()


def covers(*commands):
    """Marks a test as the case of these commands."""
    COVERED.update(tuple(command.split()) for command in commands)
    return lambda test: test


def leaves():
    """Every command that does something, by its words."""

    def below(parser, path):
        children = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if not children:
            yield path
        for action in children:
            for name, child in action.choices.items():
                yield from below(child, (*path, name))

    for name in SUBCOMMANDS:
        parser = Parser(prog=f"blindsum {name}")
        import_module(f"blindsum.cli.{name}").add(parser)
        yield from below(parser, (name,))


def parties(protocol):
    return PARTIES.get(protocol, 6)


def status_of(*words):
    """The exit status of a command that runs in this process; a traceback fails the test."""
    try:
        return main([str(word) for word in words])
    except SystemExit as error:
        return error.code


@covers("demo", "serve", "join")
@pytest.mark.parametrize("protocol", bs.protocols())
def test_a_demonstration_of_every_protocol_with_a_party_killed(protocol, tmp_path, capsys):
    words = [
        "demo",
        "--protocol",
        protocol,
        "--parties",
        parties(protocol),
        "--rounds",
        "2",
        "--out",
        tmp_path,
    ]
    assert status_of(*words) == 0
    out = capsys.readouterr().out
    report = json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))
    assert report["problems"] == []
    assert [len(one["survivors"]) for one in report["rounds"]] == [parties(protocol), parties(protocol) - 1]
    assert report["victim"] in report["rounds"][1]["dropped"]
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "plain FedAvg" in out
    assert report["weighted"] == (protocol != "pss-malicious")
    assert ("all parties weigh alike" in out) != report["weighted"]


@covers("demo")
def test_a_demonstration_as_json(tmp_path, capsys):
    words = ["demo", "--protocol", "paillier-ring", "--parties", "4", "--rounds", "2", "--json"]
    assert status_of(*words, "--out", tmp_path) == 0
    report = json.loads(capsys.readouterr().out)
    stages = [[stage["name"] for stage in one["stages"]] for one in report["rounds"]]
    assert [names.count("hop") for names in stages] == [4, 3]
    assert report["plot"] == str(tmp_path / "demo.png")


def test_stages_are_matched_by_their_names():
    def one(number, *names):
        stages = [{"name": name, "seconds": place, "up": 1, "down": 1} for place, name in enumerate(names)]
        return DemoRound(number, ["a"], {}, 0.9, 0.9, 0.0, 1.0, stages)

    rounds = [one(1, "keys", "hop", "hop", "open"), one(2, "keys", "hop", "dispute", "open")]
    found = DemoResult(Settings(), [1], True, rounds, 1.0, 1.0).stages()
    shown = {
        name: [(round_.number, stage["seconds"]) for round_, stage in same] for name, same in found.items()
    }
    assert shown == {
        "keys": [(1, 0), (2, 0)],
        "hop 1": [(1, 1), (2, 1)],
        "hop 2": [(1, 2)],
        "open": [(1, 3), (2, 3)],
        "dispute": [(2, 2)],
    }
    assert list(found) == ["keys", "hop 1", "hop 2", "open", "dispute"]


def test_a_demonstration_says_first_what_is_missing(monkeypatch, tmp_path, capsys):
    began = []
    monkeypatch.setattr(Examples, "save", lambda *_: began.append(1))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert status_of("demo", "--parties", "3", "--rounds", "1", "--out", tmp_path) == 1
    assert "pip install 'blindsum[demo]'" in capsys.readouterr().err
    assert began == []


@covers("demo")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-kill"], "--no-kill: cannot be given with --flower"),
        (["--out", "x"], "--out: cannot be given beside --flower"),
        (["--parties", "2"], "--parties: 3 <= parties = 2"),
        (["--rounds", "0"], "--rounds: 1 <= rounds = 0"),
        (["--protocol", "flashe"], "--protocol: flashe hides sums from the server"),
        (["--protocol", "nothing"], "--protocol: must be one of"),
    ],
)
def test_a_demonstration_in_flower_refuses_what_it_has_not(words, said, capsys):
    assert status_of("demo", "--flower", *words) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@covers("bench flower")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "2"], "--nodes: 3 <= 2"),
        (["--rounds", "0"], "--rounds: 1 <= 0"),
        (["--turns", "0"], "--turns: 1 <= 0"),
        (["--dim", "many"], "--dim: 'many' must be a number"),
        (["--dim", "1000,0"], "--dim: 1 <= 0"),
        (["--where", "moon"], "--where: 'moon' must be one of deployment, simulation"),
        (["--transport", "pigeon"], "--transport: 'pigeon' must be one of direct"),
        (["--protocol", "nothing"], "--protocol: must be one of"),
        (["--markdown", "nowhere/page.md"], "there is no folder nowhere"),
    ],
)
def test_a_bench_of_flower_refuses_what_cannot_be_measured(words, said, monkeypatch, capsys):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert status_of("bench", "flower", *words) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@covers("train")
@pytest.mark.parametrize("protocol", bs.protocols())
def test_a_model_of_a_user_is_trained_with_every_protocol(protocol, tmp_path, monkeypatch, capsys):
    (tmp_path / "ours.py").write_text(
        "import numpy as np\n"
        "def parts(parties, seed):\n    return [np.full(4, 0.1 * rank) for rank in range(parties)]\n"
        "def step(model, own, turn):\n    return own - model\n"
    )
    (tmp_path / "run.toml").write_text(
        '[training]\nstep = "ours:step"\ndata = "ours:parts"\n'
        f'[job]\nprotocol = "{protocol}"\nparties = {parties(protocol)}\ndim = 4\nrounds = 1\n'
    )
    monkeypatch.chdir(tmp_path)
    assert status_of("train", "run.toml", "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["outcome"] == "sum"
    assert (tmp_path / "blindsum-train" / "report.html").exists()


@covers("model init")
def test_the_first_model_of_a_job_comes_from_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "ourmodel.py").write_text(
        "import numpy as np\n"
        "from sklearn.linear_model import Ridge\n"
        "from blindsum.sklearn import ModelVector\n"
        "TREE = {'w': np.ones((2, 3), np.float32), 'b': np.zeros(3)}\n"
        "def vector():\n    return ModelVector(Ridge(), n_features=4)\n"
        "def broken():\n    raise RuntimeError('no weights today')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert status_of("model", "init", "ourmodel:TREE", "--out", "tree.npy") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "# tree.npy: 9 coordinates in 2 tensors"
    (tmp_path / "job.toml").write_text(f'protocol = "plain"\nparties = 3\n{out}')
    assert spec_from_file("job.toml").layout == ("b float64 3", "w float32 2x3")
    assert np.load("tree.npy").tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    words = ("model", "init", "ourmodel:vector", "--out", "ridge.npy", "--layout", "head.toml")
    assert status_of(*words) == 0
    assert "5 coordinates in 2 tensors; for the job file: head.toml" in capsys.readouterr().out
    assert "coef_ float64 4" in (tmp_path / "head.toml").read_text()
    for target, text in (
        ("ourmodel", "must be MODULE:NAME"),
        ("ourmodel:Absent", "module ourmodel has no Absent"),
        ("ourmodel:broken", "RuntimeError: no weights today"),
        ("nomodel:Net", "there is no module nomodel"),
        ("ourmodel:np", "no tensor takes part"),
    ):
        assert status_of("model", "init", target, "--out", "x.npy") == 2
        assert text in capsys.readouterr().err
    assert status_of("model", "--out", "x.npy") == 2
    assert "--store: must be given" in capsys.readouterr().err


@covers("status", "report", "faults", "backup", "spec", "serve", "join")
@pytest.mark.parametrize("protocol", bs.protocols())
def test_a_job_of_every_protocol_is_looked_at(protocol, tmp_path, capsys):
    (tmp_path / "own_training.py").write_text(
        "def step(model, round):\n    return model + 0.25 * (round.number == round)\n"
    )
    names = [f"p{number}" for number in range(parties(protocol))]
    environment = {"PYTHONPATH": str(tmp_path)}
    members = [PartyProcess(name, "own_training:step", environment) for name in names]
    deadlines = {"join_deadline": 5.0, "stage_deadline": 20.0, "input_deadline": 20.0}
    spec = bs.JobSpec(protocol=protocol, parties=len(names), dim=4, rounds=2, dropout=0.25, **deadlines)
    with Cluster(spec, members, tmp_path, limits={"farewell": 5.0}) as cluster:
        last = list(cluster.statuses())[-1]
    assert (last["state"], last["rounds_done"]) == ("done", 2)
    store = ["--store", cluster.store]
    files = ["--out", tmp_path / "report.html", "--jsonl", tmp_path / "run.jsonl"]
    for words, said in (
        (["status", *store], f"job job ({protocol}): done"),
        (["status", *store, "--json"], '"state": "done"'),
        (["faults", *store], "no faults of job job"),
        (["faults", *store, "--out", tmp_path / "evidence", "--json"], ""),
        (["spec", tmp_path / "job.json"], f"# hash {spec.hash}"),
        (["spec", tmp_path / "job.json", "--json"], spec.hash),
        (["spec", "--schema"], '"$defs"'),
        (["report", *store, *files], "2 rounds, 2 with a sum"),
        (["report", tmp_path / "run.jsonl", "--csv", tmp_path / "rounds.csv"], "2 rounds, 2 with a sum"),
        (["backup", *store, "--out", tmp_path / "copy.sqlite"], "copy of"),
        (["status", "--store", tmp_path / "copy.sqlite"], "done"),
    ):
        assert status_of(*words) == 0, words
        assert said in capsys.readouterr().out
    assert status_of("model", *store, "--out", tmp_path / "model.npy") == int(spec.hides_sum)
    assert (tmp_path / "model.npy").exists() != spec.hides_sum


@covers("data")
def test_data_are_dealt_and_listed(tmp_path, capsys):
    words = ["data", "digits", "--partition", "skewed:0.9", "--parties", "3"]
    assert status_of(*words, "--out", tmp_path / "parts") == 0
    assert "1,442 examples, 3 parties, from 480 to 481" in capsys.readouterr().out
    files = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert files == [
        "partition.json",
        "partition.svg",
        "party-0.npz",
        "party-1.npz",
        "party-2.npz",
        "test.npz",
    ]
    with np.load(tmp_path / "parts" / "party-2.npz") as arrays:
        assert {name: arrays[name].shape for name in arrays.files} == {
            "index": (480,),
            "features": (480, 1, 8, 8),
            "labels": (480,),
        }
    # Parties of two partitions are not mixed.
    assert status_of(*words, "--out", tmp_path / "parts") == 2
    assert "give another folder" in capsys.readouterr().err
    words = ["data", "python-topics", "--partition", "by-user", "--index-only", "--json"]
    assert status_of(*words, "--out", tmp_path / "topics") == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((tmp_path / "topics" / "partition.json").read_text(encoding="utf-8"))
    with np.load(tmp_path / "topics" / "party-0.npz") as arrays:
        assert arrays.files == ["index"]
    assert status_of("data", "--list") == 0
    assert "fashion-mnist" in capsys.readouterr().out
    assert status_of("data", "--list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["digits"]["licence"] == "CC BY 4.0"


@covers("audit verify", "audit show")
def test_an_audit_trail_is_looked_at(place, tmp_path, capsys):
    trail = tmp_path / "audit.jsonl"
    with place.coordinator(place.spec(), audit=trail):
        pass
    assert status_of("audit", "verify", trail) == 0
    assert "4 entries" in capsys.readouterr().out
    assert status_of("audit", "show", trail, "--job", "job") == 0
    assert "job-opened job job" in capsys.readouterr().out


@covers("ledger")
def test_the_ledger_of_a_party_is_looked_at(tmp_path, capsys):
    (tmp_path / "privacy-data.ledger").touch()
    assert status_of("ledger", tmp_path) == 0
    assert "data: epsilon 0 at delta 1e-05 after 0 releases" in capsys.readouterr().out


@covers("simulate")
@pytest.mark.parametrize("protocol", bs.protocols())
def test_every_protocol_is_simulated(protocol, capsys):
    spec = bs.JobSpec(protocol=protocol, parties=parties(protocol), dim=6, dropout=0.25)
    words = ["simulate", "--protocol", protocol, "--parties", spec.parties, "--dim", "6", "--dropout", "0.25"]
    assert status_of(*words) == 0
    assert "sum of" in capsys.readouterr().out
    for stage in (spec.stages[0], spec.input_stage):
        status = status_of(*words, "--drop-at", f"{stage}:1", "--json")
        report = json.loads(capsys.readouterr().out)
        assert status == (0 if report["outcome"] == "sum" else 3)
        assert report["outcome"] in ("sum", "abort")


@covers("simulate")
@pytest.mark.parametrize("rule", _native.rules())
def test_every_rule_is_simulated(rule, capsys):
    weights = ["--set", "max_weight=9"] if rule == "weighted" else []
    words = ["simulate", "--protocol", "mpc3", "--rule", rule, "--parties", "8", "--dim", "6", *weights]
    assert status_of(*words) == 0
    assert "result of 8 survivors" in capsys.readouterr().out.replace("sum of", "result of")


@covers("attack")
def test_an_attack_on_one_protocol(tmp_path, capsys):
    words = ["--protocol", "secagg", "--parties", "3", "--images", "1", "--trials", "0", "--out", tmp_path]
    assert status_of("attack", *words) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Under plain the coordinator gets 3 of 3 images")
    assert (tmp_path / "attack.html").exists()


@covers("compare")
@pytest.mark.parametrize("protocol", bs.protocols())
def test_every_protocol_is_compared(protocol, tmp_path, capsys):
    words = ["--parties", parties(protocol), "--dim", "6", "--jobs", "1", "--out", tmp_path / "grid"]
    assert status_of("compare", "--protocol", protocol, *words) == 0
    assert "1 run;" in capsys.readouterr().out


@covers("experiments")
def test_experiments_are_listed_and_run(tmp_path, capsys):
    assert status_of("experiments") == 0
    assert "mystiko" in capsys.readouterr().out
    words = ["--protocol", "plain", "--parties", "3", "--dim", "6", "--jobs", "1", "--out", tmp_path / "grid"]
    assert status_of("experiments", "mystiko", *words) == 0
    assert "1 run;" in capsys.readouterr().out


PKI = ("init", "issue", "request", "sign", "revoke", "show", "list", "expiring", "index", "roll")
PKI += ("bundle", "passphrase")


@covers(*(f"pki {name}" for name in PKI))
@pytest.mark.parametrize("algorithm", ["ed25519", "p256"])
def test_certificates_of_every_kind(algorithm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("correct horse\n")
    key = ["--algorithm", algorithm]
    for words in (
        ["init", "ca", *key],
        ["issue", "ca", "agg", "--coordinator", "--host", "agg.example", "--host", "[::1]", *key],
        ["issue", "ca", "second", "--server", "--host", "10.0.0.5", *key],
        ["request", "hospital-a", *key],
        ["sign", "ca", "hospital-a.csr"],
        ["sign", "ca", "hospital-a.csr", "--replace"],
        ["issue", "ca", "alice", "--operator", *key],
        ["revoke", "ca", "alice", "--why", "left"],
        ["revoke", "ca", "hospital-a.pem"],
        ["show", "ca/ca.pem"],
        ["show", "ca/crl.pem", "--json"],
        ["list", "ca"],
        ["list", "ca", "--json"],
        ["expiring", "ca", "hospital-a.pem", "--within", "12h", "--json"],
        ["index", "ca", "hospital-a.pem"],
        ["roll", "ca", "ca-2", *key],
        ["bundle", "ca/crl.pem", "ca-2/crl.pem", "--out", "both.pem"],
        ["passphrase", "ca-2/ca.key", "--new-passphrase-file", "words"],
        ["passphrase", "ca-2/ca.key", "--key-passphrase-file", "words", "--remove"],
    ):
        assert status_of("pki", *words) == 0, words
    assert pki.show("ca/agg.pem")["names"] == ["agg.example", "::1"]


ADMIN = (
    *("jobs", "describe", "pause", "resume", "extend", "ban", "unban", "add", "reload", "end", "drain"),
    "round",
)


@covers("watch", *(f"admin {name}" for name in ADMIN))
def test_orders_to_a_running_coordinator(place, tmp_path, capsys):
    place.operator("anna")
    (tmp_path / "second.toml").write_text('job = "second"\nprotocol = "plain"\nparties = 3\ndim = 4\n')
    with place.coordinator(place.spec(), admin="127.0.0.1:0", stop_when_done=False) as coordinator:
        port = coordinator.admin.rpartition(":")[2]
        files = ["--identity", place.folder / "anna", "--ca", place.folder / "ca.pem"]
        there = ["--at", f"https://localhost:{port}", *files]
        why = [*there, "--reason", "a test"]
        for words, said in (
            (["admin", "jobs", *there], "waits for parties, at least 1; 0 of 1 rounds done"),
            (["admin", "jobs", *there, "--json"], '"stage": "waiting"'),
            (["admin", "pause", "job", *why], "paused now"),
            (["admin", "describe", "job", *there], "held: paused by anna: a test"),
            (["admin", "resume", "job", *why], "rounds begin again"),
            (["admin", "extend", "job", "--rounds", "9", "--input-deadline", "30m", *why], "→ 9"),
            (["admin", "ban", "job", "a", "--for", "2h", *why], "a takes no part for 7200 s"),
            (["admin", "describe", "job", *there, "--json"], '"banned": {"a": '),
            (["admin", "unban", "job", "a", *why], "a may take part again"),
            (["admin", "add", tmp_path / "second.toml", *why], "job second was added"),
            (["admin", "reload", *why], "were read again"),
            (["watch", "--once", *there], "job second (plain): waits"),
            (["watch", "second", "--once", *there], "0 of 1 rounds done"),
            (["admin", "end", "job", *why], "done now"),
            (["admin", "drain", "second", "--within", "5s", *why], "stops now"),
        ):
            assert status_of(*words) == 0, (words, capsys.readouterr().err)
            assert said in capsys.readouterr().out
        for words, status, said in (
            (["admin", "pause", "other", *why], 1, "there is no such job here"),
            (["admin", "describe", "other", *there], 1, "there is no such job here"),
            (["admin", "round", "job", "--parties", "a", *there], 1, "no host begins its rounds"),
            (["admin", "pause", "job", *there], 2, "--reason"),
            (["admin", "ban", "job", "a", "--for", "soon", *why], 2, "must be a time such as"),
            (["watch", "--every", "0", *there], 2, "0.1 <= 0.0 <= 3600"),
            (["admin", "jobs", "--at", f"https://localhost:{port}", *files[2:]], 2, "--identity"),
        ):
            assert status_of(*words) == status, words
            assert said in capsys.readouterr().err
        assert status_of("admin", "drain", *why) == 0
        assert "the coordinator stops then" in capsys.readouterr().out
        assert [status["state"] for status in coordinator.statuses()][-1] == "done"


BENCHES = ["flashe", "link", "load", "paillier", "pss", "pss-malicious", "round", "secagg"]
JOB = ["--protocol", "plain", "--parties", "3", "--dim", "8"]


@covers(*(f"bench {name}" for name in BENCHES))
@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_without_timers_says_so_before_any_work(name, monkeypatch, capsys):
    monkeypatch.setattr(_native, "build_features", [])
    if name in ("paillier", "pss-malicious"):
        # These take times of cargo's own.
        monkeypatch.setattr("benches.kernels.run", lambda *_: pytest.fail("it ran"), raising=False)
        assert status_of("bench", name, "--markdown", "nowhere/page.md") == 2
        assert "there is no folder nowhere" in capsys.readouterr().err
        return
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert status_of("bench", name, *(JOB if name in ("link", "load", "round") else [])) == 2
    err = capsys.readouterr().err
    assert "run `make bench`" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("protocol", [name for name in bs.protocols() if name != "plain"])
def test_rounds_of_every_protocol_are_measured(protocol, capsys):
    words = ["--protocol", protocol, "--parties", parties(protocol), "--dim", "8", "--rounds", "1", "--json"]
    assert status_of("bench", "round", *words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["measured"]["protocol"] == protocol
    assert report["ratio"]["up_bytes"] > 0


@pytest.mark.parametrize("protocol", bs.protocols())
@pytest.mark.parametrize("what", ["load", "link"])
def test_many_parties_of_every_protocol_are_measured(what, protocol, capsys):
    words = ["--protocol", protocol, "--parties", parties(protocol), "--dim", "8"]
    status = status_of("bench", what, *words, *(["--rounds", "1"] if what == "load" else []), "--json")
    said = capsys.readouterr()
    taking_turns = what == "link" and protocol in ("paillier-ring", "paillier-allreduce")
    if protocol == "mpc3" or taking_turns:
        assert status == 2
        assert ("take turns" if taking_turns else "three servers") in said.err
    else:
        assert status == 0, said.err
        assert json.loads(said.out)["protocol"] == protocol


def test_timers_that_are_missing_are_found(monkeypatch):
    timers.need("bench")
    monkeypatch.setattr(_native, "build_features", ["other"])
    with pytest.raises(ConfigError, match="run `make bench`"):
        timers.need("bench")


def test_every_command_has_a_case():
    assert set(leaves()) == COVERED
