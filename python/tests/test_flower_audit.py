"""What a deviating server or node meets in the Flower package, as far as it needs no flwr."""

import dataclasses
import sys
import types

import pytest
from test_flower import Node, ended, place, spec_of

import blindsum as bs
from blindsum.flower import measured, refusals, settings, simulated
from blindsum.flower.direct import Identity, Rounds
from blindsum.flower.refusals import Refusal, foreign
from blindsum.flower.settings import NodeSettings, RunSettings
from blindsum.flower.simulated import is_simulated_node
from blindsum.flower.trained import Cohorts

__all__ = ["place"]

# Rules of nodes

VALUES = {
    "allowed_protocols": "pss",
    "allowed_rules": "fedavg",
    "require_adversary": "semi-honest",
    "min_corrupt": 0.3,
    "min_corrupt_parties": 2,
    "min_honest": 5,
    "min_cohort": 6,
    "max_weight": 7,
    "max_dim": 8,
    "max_message": 9000,
    "max_parties": 10,
    "min_cohort_change": 2,
    "max_rounds": 3,
    "job_hash": "0" * 64,
    "require_privacy": True,
    "max_epsilon": 8.0,
    "max_delta": 1e-5,
    "privacy_unit": "ward-3",
}

BUDGET = ("max_epsilon", "max_delta")
"""Rules that go together, and need a folder."""


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(bs.Policy)])
def test_every_rule_of_a_policy_is_kept_or_refused_by_name(field):
    """A new rule fails here: decide whether a job of one round can keep it."""
    key = settings.POLICY + field.replace("_", "-")
    config = {key: VALUES[field]}
    if field in BUDGET:
        config |= {settings.POLICY + name.replace("_", "-"): VALUES[name] for name in BUDGET}
        config |= {"blindsum-state": "folder"}
    if field in settings.KEPT:
        found = getattr(NodeSettings.read(config).policy, field)
        assert found == ([VALUES[field]] if field.startswith("allowed") else VALUES[field])
    else:
        with pytest.raises(bs.ConfigError, match="job of its own") as caught:
            NodeSettings.read(config)
        assert caught.value.field == key


@pytest.mark.parametrize(
    ("more", "field", "said"),
    [
        ({}, "blindsum-state", "policy-max-epsilon needs it"),
        (
            {"blindsum-state": "folder", "blindsum-policy-plain": True},
            "blindsum-policy-plain",
            "has no epsilon",
        ),
    ],
)
def test_a_budget_needs_a_folder_and_lets_nothing_out_as_it_is(more, field, said):
    config = {"blindsum-policy-max-epsilon": 8.0, "blindsum-policy-max-delta": 1e-5}
    with pytest.raises(bs.ConfigError, match=said) as caught:
        NodeSettings.read(config | more)
    assert caught.value.field == field


@pytest.mark.parametrize("adversary", [None, "active", "none"])
def test_certificates_of_a_run_need_a_policy_that_says_so(tmp_path, adversary):
    config = {"blindsum-trust-run": True, "blindsum-state": str(tmp_path)}
    key = "blindsum-policy-require-adversary"
    with pytest.raises(bs.ConfigError) as caught:
        NodeSettings.read(config if adversary is None else config | {key: adversary})
    assert caught.value.field == key
    assert NodeSettings.read(config | {key: "semi-honest"}).trusts_run


@pytest.mark.parametrize(
    "key",
    ["blindsum_policy_min_honest", "Blindsum-policy-min-honest", "BLINDSUM-CA", "blind-sum-ca", "blindsum"],
)
def test_a_key_that_only_looks_like_ours_is_refused_by_name(key):
    with pytest.raises(bs.ConfigError) as caught:
        NodeSettings.read({key: 9})
    assert caught.value.field == key
    with pytest.raises(bs.ConfigError):
        RunSettings.read({key: 9}, {})
    assert NodeSettings.read({"partition-id": 0, "blinding": 1, "sum": 2})


# What a server is told


@pytest.mark.parametrize(
    ("error", "kind", "kept"),
    [
        (bs.InputError("weight", "1100 must be 1 to 2"), bs.InputError, "weight"),
        (bs.InputError("metrics['n']", "0.873 is no whole number"), bs.InputError, "metrics"),
        (bs.InputError("arrays['w'][3, 1100]", "is not finite"), bs.InputError, "arrays"),
        (bs.ConfigError("blindsum-ca", "/etc/secret is a file"), bs.ConfigError, "blindsum-ca"),
        (bs.IdentityError("/etc/secret/a.key: cannot be read"), bs.IdentityError, "certificates"),
        (bs.NetworkError("10.0.0.7:22 refused: SSH-2.0"), bs.NetworkError, "coordinator"),
        (
            bs.PolicyError("min_honest", "policy min_honest: 3, this party wants 1100"),
            bs.PolicyError,
            "blindsum-policy-min-honest",
        ),
        (bs.PolicyError(None, "the coordinator has seen 1100 graphs"), bs.PolicyError, "policy: the job"),
        (bs.RoundAborted(1, "too few: secret"), bs.BlindsumError, "RoundAborted"),
        (OSError(28, "no space", "/etc/secret"), bs.BlindsumError, "OSError"),
        (KeyError("secret"), bs.BlindsumError, "KeyError"),
    ],
)
def test_an_error_tells_the_server_field_and_rule_and_no_value(error, kind, kept, caplog):
    told = refusals.for_server(error)
    assert isinstance(told, kind)
    assert kept in str(told)
    for secret in ("1100", "0.873", "secret", "10.0.0.7", "SSH"):
        assert secret not in str(told)
    assert "no space" in caplog.text or str(error) in caplog.text or repr(error) in caplog.text


def test_a_refusal_goes_as_it_is():
    error = Refusal("blindsum-policy-plain", "is not true")
    assert refusals.for_server(error) is error


def test_foreign_text_is_cut_and_escaped():
    assert foreign("a\n\x1b[31mb", 10) == r"a\n\x1b[31mb"
    assert foreign("é" * 30, 4).startswith("éééé… (30")


# Models that were trained on


def test_a_model_is_trained_with_one_cohort(tmp_path):
    cohorts = Cohorts(str(tmp_path / "state"))
    four, three = ("a", "b", "c", "d"), ("a", "b", "c")
    cohorts.enter("m1", four)
    cohorts.enter("m1", tuple(reversed(four)))
    cohorts.enter("m2", three)
    with pytest.raises(bs.ConfigError) as caught:
        Cohorts(str(tmp_path / "state")).enter("m1", three)
    assert caught.value.field == "blindsum-policy-repeats"
    # One of two sums was lost, the other was not.
    cohorts.lost("m1", four)
    with pytest.raises(bs.ConfigError):
        cohorts.enter("m1", three)
    cohorts.lost("m1", four)
    cohorts.enter("m1", three)


def test_what_is_remembered_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("blindsum.flower.remembered.MOST", 10)
    for number in range(40):
        assert measured.is_first_report(str(tmp_path), f"m{number}")
        assert not measured.is_first_report(str(tmp_path), f"m{number}")
    assert len((tmp_path / "measured").read_text().split()) <= 11


# Simulation


def test_only_the_actor_of_flowers_simulation_is_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(is_initialized=lambda: True))
    config = {"partition-id": 0}
    assert not is_simulated_node(config)
    name = {"__name__": simulated._ACTOR, "ask": is_simulated_node}
    exec("def run(config): return ask(config)\ndef other(config): return ask(config)", name)
    assert name["run"](config)
    assert not name["other"](config)
    assert not name["run"](config | {"blindsum_ca": "x"})
    assert not name["run"]({})


# Rounds


def test_a_party_of_no_sampled_node_takes_no_place_of_one(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    spec = spec_of(1, join_deadline=600.0)
    url = rounds.begin(spec, {100 + n: f"node-{n}" for n in range(4)})
    intruder = Node(place, url, spec, 4, value=9.0)
    early = [Node(place, url, spec, n, value=0.3) for n in range(3)]
    # Three of four are there, and one that was not asked.
    assert not rounds.wait(1)
    assert not rounds.began
    late = Node(place, url, spec, 3, value=0.3)
    ended(*early, late)
    assert rounds.wait(10)
    assert rounds.result().survivors == ("node-0", "node-1", "node-2", "node-3")
    rounds.end()
    ended(intruder)
    assert isinstance(intruder.error, bs.BlindsumError)


def test_more_parties_than_nodes_end_no_round(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    spec = spec_of(1, join_deadline=600.0, parties=3)
    url = rounds.begin(spec, {100: "node-4"})
    nodes = [Node(place, url, spec, n, value=0.3) for n in range(4)]
    assert not rounds.wait(1)
    known = Node(place, url, spec, 4, value=0.3)
    ended(known)
    assert rounds.wait(10)
    survivors = rounds.result().survivors
    assert len(survivors) == 3
    assert "node-4" in survivors
    rounds.end()
    ended(*nodes)


def test_a_node_that_is_connected_has_not_failed_and_fails_once(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    spec = spec_of(1, join_deadline=600.0)
    url = rounds.begin(spec, {100 + n: f"node-{n}" for n in range(4)})
    nodes = [Node(place, url, spec, n, value=0.3) for n in range(2)]
    # It is connected, and says that it has failed; another says it twice.
    rounds.failed(100)
    rounds.failed(103)
    rounds.failed(103)
    assert not rounds.wait(1)
    assert not rounds.began
    nodes.append(Node(place, url, spec, 2, value=0.3))
    ended(*nodes)
    assert rounds.wait(10)
    assert rounds.result().survivors == ("node-0", "node-1", "node-2")
    rounds.end()
