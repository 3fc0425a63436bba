"""Errors that operators read: plain words, with what to do, and nothing of a library or of the system."""

import json
import re
import stat
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import blindsum as bs
from blindsum import pki
from blindsum.cli import main
from blindsum.cli.events import Lines
from blindsum.pki import IDENTITY_DAYS

FOREIGN = re.compile(r"os error|Errno|tonic|hyper|Custom \{|transport error|code: '|Kind\(|Error\(")


def said(capsys, *words):
    """The error of a command."""
    assert main([str(word) for word in words]) != 0
    err = capsys.readouterr().err
    assert not FOREIGN.search(err), err
    return err


@pytest.fixture
def files(place):
    return ["--identity", place.identity("a"), "--ca", place.folder / "ca.pem"]


@pytest.fixture
def operator(place):
    return ["--identity", place.operator("ada"), "--ca", place.folder / "ca.pem"]


def url(address):
    return f"https://localhost:{address.rpartition(':')[2]}"


def test_who_uses_the_other_address_is_told(place, files, operator, capsys, tmp_path, monkeypatch):
    (tmp_path / "training.py").write_text("def step(model, round):\n    return model\n")
    monkeypatch.chdir(tmp_path)
    with place.coordinator(place.spec(), admin="127.0.0.1:0") as coordinator:
        there = [url(coordinator.admin), "--job", "job", *files, "--train", "training:step"]
        err = said(capsys, "join", *there, "--give-up-after", "0.5")
        assert "the address of operators (admin) accepts only certificates of operators" in err
        err = said(capsys, "admin", "jobs", "--at", url(coordinator.address), *operator)
        assert "ask the coordinator's operator whether this is the admin address" in err
        assert "within" not in err
        err = said(capsys, "admin", "jobs", "--at", url(coordinator.admin), *files)
        assert "certificates of operators" in err
        err = said(capsys, "admin", "describe", "other", "--at", url(coordinator.admin), *operator)
        assert "blindsum admin jobs" in err


def test_nothing_that_listens_is_said_plainly(operator, capsys):
    err = said(capsys, "admin", "jobs", "--at", "https://localhost:1", *operator)
    assert "nothing listens there" in err


def test_a_file_that_is_not_there_is_said_plainly(capsys, tmp_path):
    err = said(capsys, "spec", tmp_path / "nix.toml")
    assert "nix.toml cannot be read: there is no such file" in err
    (tmp_path / "job.toml").write_text('job = "x"\nparties = = 3\n')
    err = said(capsys, "spec", tmp_path / "job.toml")
    assert "job.toml, line 2: invalid value; a line is NAME = VALUE" in err


def test_the_key_of_a_revoked_certificate_is_not_signed_again(tmp_path, capsys):
    ca = pki.init(tmp_path / "ca").parent
    request = pki.request("hospital-o", out=tmp_path)
    pki.sign(ca, request)
    pki.revoke(ca, ["hospital-o"], why="key lost")
    words = ("pki", "sign", ca, request, "--replace")
    for more in ((), ("--yes",)):
        err = said(capsys, *words, *more)
        assert re.search(r"hospital-o that was revoked on \d{4}-\d\d-\d\d, reason: key lost", err)
        assert "--revoked-key" in err
    with pytest.raises(bs.IdentityError, match="key lost"):
        pki.sign(ca, request, replace=True, days=IDENTITY_DAYS)
    assert main([*map(str, words), "--revoked-key"]) == 0
    # A new key is signed as before.
    (tmp_path / "new").mkdir()
    pki.sign(ca, pki.request("hospital-o", out=tmp_path / "new"), out=tmp_path / "new")


def test_an_older_form_of_an_encrypted_key_names_the_command_that_converts_it(place, tmp_path, capsys):
    plain, older = place.folder / "a.key", tmp_path / "older.key"
    place.identity("a")
    words = [
        "openssl",
        "genrsa",
        "-traditional",
        "-aes256",
        "-passout",
        "pass:secret123",
        "-out",
        older,
        "2048",
    ]
    subprocess.run(list(map(str, words)), check=True, capture_output=True)
    assert plain.exists()
    (tmp_path / "word").write_text("secret123\n")
    err = said(capsys, "pki", "passphrase", older, "--remove", "--key-passphrase-file", tmp_path / "word")
    assert "openssl pkcs8 -topk8 -v2 aes-256-cbc" in err


def test_a_model_is_for_its_owner_and_replaces_nothing(place, partner, tmp_path, capsys):
    store, out = tmp_path / "s.sqlite", tmp_path / "model.npy"
    with place.coordinator(place.spec(rounds=1, min_parties=2), store=store) as coordinator:
        for party in [partner(place, coordinator, name, np.ones(4)) for name in "ab"]:
            party.wait()
    words = ["model", "--store", str(store), "--out", str(out)]
    assert main(words) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert "--force" in said(capsys, *words)
    assert main([*words, "--force"]) == 0
    err = said(capsys, *words, "--force", "--version", "77")
    assert "one of those that are kept: 0, 1" in err


def test_serve_says_how_a_job_goes_on_that_is_done():
    out = []
    lines = Lines(SimpleNamespace(line=out.append))
    lines._is_old = True
    status = {
        "job": "tumour",
        "warnings": [],
        "blocked": "",
        "held": "",
        "left": {},
        "state": "running",
        "rounds_done": 8,
        "rounds": 8,
        "connected": [],
        "min_parties": 3,
        "round": {"number": 8, "state": "done", "key_setup": False, "parties": "abc", "survivors": "abc"},
    }
    lines.say("status", status)
    lines.say("status", status | {"state": "done"})
    lines.say("stopped", {"rounds_done": 8})
    first, last = out
    assert first.startswith(
        "blindsum: job tumour is done: 8 of 8 rounds; to go on, start with --stay --admin"
    )
    assert last == "blindsum: stopped; nothing was left to do"


def test_serve_names_who_was_lost_and_why_it_waits_once():
    out = []
    lines = Lines(SimpleNamespace(line=out.append))
    current = {
        "number": 3,
        "state": "done",
        "key_setup": False,
        "parties": "abcd",
        "survivors": "abc",
        "seconds": 1.0,
        "stages": [{"dropped": {"d": "its program was stopped"}}],
    }
    sat_out = {"dropped": {"b": "its program gave no update"}, "causes": {"b": "sat_out"}}
    whom = "waiting for other parties"
    dated = f"{whom}; the next round begins at the earliest 2026-11-27 22:15:07 UTC"
    status = {"held": "", "left": {}, "state": "done", "round": current}
    for blocked in ("", dated, whom, ""):
        lines.say("status", status | {"warnings": [], "blocked": blocked})
    current |= {"number": 4, "survivors": "ac", "stages": [*current["stages"], sat_out]}
    lines.say("status", status | {"warnings": [], "blocked": "", "round": current})
    lost = "; lost: d (its program was stopped)"
    assert out == [
        f"round 3: sum of 3 of 4 parties, 1.00 s{lost}",
        f"blindsum: {dated}",
        f"round 4: sum of 2 of 4 parties, 1.00 s{lost}; sat out: b (its program gave no update)",
    ]


def test_serve_tells_the_other_warnings_apart_from_whom_it_waits_for():
    out = []
    lines = Lines(SimpleNamespace(line=out.append))
    status = {"held": "", "left": {}, "state": "done", "round": None, "blocked": "waiting for b"}
    lines.say("status", status | {"warnings": ["a is missing", "bounds fall"]})
    lines.say("status", status | {"warnings": ["bounds fall"]})
    lines.say("status", status | {"warnings": []})
    assert out == [
        "blindsum: waiting for b",
        "blindsum: a is missing; bounds fall",
        "blindsum: bounds fall",
        "blindsum: no longer: bounds fall",
    ]


def test_stderr_is_json_where_it_is_wanted(processes, place, tmp_path):
    spec = place.spec(parties=1, join_deadline=60.0)
    (tmp_path / "job.json").write_text(spec.to_json())
    files = ["--identity", place.folder / "agg", "--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0"]
    process = processes("serve", "--job", tmp_path / "job.json", *files, "--json", "--log-format", "json")
    ready = json.loads(process.stdout.readline())
    assert any("no party can be revoked" in warning for warning in ready["warnings"])
    process.terminate()
    _, err = process.communicate(timeout=60)
    messages = [json.loads(line)["message"] for line in err.splitlines()]
    assert any(message.startswith("draining") for message in messages)


def test_a_policy_that_no_round_can_satisfy_is_refused_at_once(place):
    spec = place.spec(parties=4)
    with place.coordinator(spec) as coordinator:
        policy = bs.Policy(**place.any_job | {"min_cohort": 9})
        with pytest.raises(bs.PolicyError, match="at most 4 parties in a round, this party wants 9"):
            place.join(coordinator, "a", policy=policy)
