"""``blindsum attack``: what it prints and writes, and its errors."""

import json
import re

import numpy as np
import pytest

import blindsum as bs
from blindsum.attack import demonstration as attack
from blindsum.attack.observed import Observed
from blindsum.attack.reading import read
from blindsum.cli import main
from blindsum.demo import network

QUICK = ("--parties", "3", "--images", "1", "--trials", "20", "--noise", "2")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Fewer sizes than users get."""
    monkeypatch.setattr(attack, "SUMS", (2, 4))
    monkeypatch.setattr(attack, "BATCHES", (1, 2))
    monkeypatch.setattr(attack, "LOCAL_STEPS", (1, 5))
    monkeypatch.setattr(attack, "TIMES", 2)
    monkeypatch.setattr(attack, "GAMES", (2,))


def status_of(*words):
    try:
        return main([str(word) for word in words])
    except SystemExit as error:
        return error.code


def test_a_protocol_beside_plain(tmp_path, capsys):
    assert status_of("attack", "--protocol", "secagg+", *QUICK, "--out", tmp_path) == 0
    out = capsys.readouterr().out
    summary = out.strip().splitlines()[-1]
    assert summary == (
        "Under plain the coordinator gets 3 of 3 images back; under secagg+ the messages that servers get "
        "tell the attack no more than random words; the mean of 2 parties gives 2 of 2 images, with noise 0."
    )
    for title in ("what a server holds", "what the released mean tells", "membership inference"):
        assert title in out
    report = json.loads((tmp_path / "attack.json").read_text(encoding="utf-8"))
    assert [(one["protocol"], one["server"]) for one in report["held"]] == [
        ("plain", "coordinator"),
        ("secagg+", "coordinator"),
    ]
    assert report["held"][0]["correlation"] > 0.99
    assert report["held"][1]["verdict"] == "no better than random words"
    assert [(one["parties"], one["multiplier"]) for one in report["sums"]] == [(2, 0), (2, 1), (4, 0), (4, 1)]
    assert [(game["parties"], game["multiplier"]) for game in report["membership"]] == [
        *[(2, 0.0)] * 2,
        *[(2, 2.0)] * 2,
    ]


def test_the_page_loads_nothing_and_has_all_pictures(tmp_path, capsys):
    assert status_of("attack", "--protocol", "mpc3", *QUICK, "--json", "--out", tmp_path) == 0
    printed = json.loads(capsys.readouterr().out)
    page = (tmp_path / "attack.html").read_text(encoding="utf-8")
    assert printed["page"] == str(tmp_path / "attack.html")
    assert printed["summary"] in page
    assert "{{" not in page
    assert not re.search(r"\b(src|href)=|url\(", page)
    assert "default-src 'none'" in page
    titles = re.findall(r"<text [^>]*>([^<]*)</text>", page)
    assert titles == [
        *("true images", "plain: coordinator", "mpc3: coordinator", "mpc3: server-2"),
        *("mean of 2 parties", "mean of 2 parties, noise 1"),
        *("mean of 4 parties", "mean of 4 parties, noise 1"),
    ]
    assert page.count("<g ") == len(titles)
    assert (tmp_path / "attack.svg").read_text(encoding="utf-8") in page


def test_the_same_seed_gives_the_same_attacks_on_sums(tmp_path, capsys):
    def once(*more):
        words = ("attack", *QUICK, "--trials", "0", "--json", "--out", tmp_path, *more)
        assert status_of(*words) == 0
        return json.loads(capsys.readouterr().out)

    one, other = once("--protocol", "secagg"), once("--protocol", "flashe")
    for name in ("sums", "reach", "chance", "membership"):
        assert one[name] == other[name]
    assert one["membership"] == []


def test_all_protocols_of_three_parties_name_the_one_that_needs_more(tmp_path, capsys):
    assert status_of("attack", *QUICK, "--trials", "0", "--out", tmp_path) == 0
    out = capsys.readouterr().out
    assert "; under 9 of 9 other protocols the messages" in out
    assert re.search(r"^pss-malicious was not attacked: .*parties", out, re.MULTILINE)
    assert "pss-malicious" in (tmp_path / "attack.html").read_text(encoding="utf-8")


def test_a_protocol_that_showed_images_would_be_named(tmp_path, monkeypatch, capsys):
    real = attack.observe

    def leaking(spec, updates, model):
        if spec.protocol.name == "plain":
            leaking.plain = real(spec, updates, model)
            return leaking.plain
        return Observed(leaking.plain.messages, leaking.plain.mean)

    monkeypatch.setattr(attack, "observe", leaking)
    monkeypatch.setattr(attack, "read", lambda _spec, messages: plain_vector(messages))
    assert status_of("attack", "--protocol", "secagg", *QUICK, "--trials", "0", "--out", tmp_path) == 1
    out = capsys.readouterr().out
    assert "NOT AS PROMISED: coordinator gets images under secagg: 3 of 3 images" in out
    assert "; no other protocol hides them from a server; " in out


def plain_vector(messages):
    encoding = bs.Quantised(bits=16, clip=1.0)
    spec = bs.JobSpec(job="attack", protocol="plain", parties=3, dim=network.DIM, encoding=encoding)
    return read(spec, messages)


def test_an_attack_that_finds_nothing_proves_nothing(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(1)
    monkeypatch.setattr(attack, "read", lambda spec, _messages: attack.random_words(spec, rng))
    assert status_of("attack", "--protocol", "secagg", *QUICK, "--trials", "0", "--out", tmp_path) == 1
    assert "the attack finds nothing in plain updates" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--parties", "1"], "--parties: 1 must be a whole number from 2 to 100"),
        (["--images", "0"], "--images: 0 must be a whole number from 1 to 16"),
        (["--trials", "3"], "--trials: 3 must be a whole number from 20 to 100000"),
        (["--noise", "0"], "--noise: 0 must be from 0.015625 to 1024"),
        (["--noise", "much"], "--noise: must be numbers separated by commas, not 'much'"),
        (["--protocol", "secag"], "--protocol: 'secag' must be one of plain, secagg"),
        (["--protocol", "secagg,"], "--protocol: must be names separated by commas"),
        (["--protocol", "pss-malicious", "--parties", "3"], "parties"),
        (["--seed", "-1"], "--seed: -1 must be a whole number from 0"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(words, said, tmp_path, capsys):
    assert status_of("attack", *words, "--out", tmp_path / "out") == 2
    err = capsys.readouterr().err
    assert said in err
    assert "blindsum: error: " in err
