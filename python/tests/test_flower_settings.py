"""Settings of Flower apps: the keys of a coordinator that stands, and errors that name the run's keys."""

import re

import pytest

import blindsum as bs
from blindsum.flower import refusals
from blindsum.flower.settings import NodeSettings, RunSettings
from blindsum.flower.simulated import weight_in
from blindsum.nvflare.server import JobSettings

STANDING = {
    "blindsum-coordinator": "https://agg.example:9443",
    "blindsum-admin": "https://agg.example:9444",
    "blindsum-standing-job": "tumour",
    "blindsum-operator-identity": "/keys/flora",
    "blindsum-coordinator-ca": "/keys/ca.pem",
}


def refused(config):
    with pytest.raises(bs.ConfigError) as caught:
        RunSettings.read(config, {})
    return caught.value


def test_a_run_names_a_coordinator_that_stands():
    assert RunSettings.read(STANDING, {}).standing_job == "tumour"


@pytest.mark.parametrize("key", ["blindsum-admin", "blindsum-standing-job", "blindsum-operator-identity"])
def test_what_only_a_standing_coordinator_has_needs_one(key):
    error = refused({key: STANDING[key]})
    assert error.field == key
    assert "blindsum-coordinator" in error.rule


@pytest.mark.parametrize("key", ["blindsum-coordinator", "blindsum-admin"])
@pytest.mark.parametrize("url", ["http://agg.example:9443", "agg.example:9443", "https://"])
def test_addresses_are_https(key, url):
    error = refused(STANDING | {key: url})
    assert error.field == key
    assert "https://HOST:PORT" in error.rule
    assert "pyproject.toml" in error.rule


def test_the_servers_of_a_job_are_different_ones():
    urls = ["https://a:9443", "https://b:9443", "https://a:9443/"]
    with pytest.raises(bs.ConfigError) as caught:
        NodeSettings.read({"blindsum-servers": ", ".join(urls)})
    assert caught.value.field == "blindsum-servers"
    assert "https://a:9443" in caught.value.rule
    assert NodeSettings.read({"blindsum-servers": ",".join(urls[:2])}).servers == tuple(urls[:2])


# Errors that name what users of a framework have


def words(error):
    """The names of settings in a text, those of another world among them."""
    return set(
        re.findall(r"encoding\.\w+|metrics\.\d+\.\w+|(?<![\w-])(?:max_weight|min_parties|job spec\w*)", error)
    )


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"blindsum-protocol": "x"}, "blindsum-protocol"),
        ({"blindsum-corrupt": 2.0}, "blindsum-corrupt"),
        ({"blindsum-corrupt": 0.9}, "blindsum-dropout"),
        ({"blindsum-clip": -1.0}, "blindsum-clip"),
        ({"blindsum-bits": 99}, "blindsum-bits"),
        ({"blindsum-max-weight": 0}, "blindsum-max-weight"),
        ({"blindsum-protocol": "pss-malicious"}, "blindsum-max-weight"),
        ({"blindsum-metrics": "loss:1:0"}, "blindsum-metrics"),
        ({"blindsum-metrics": "lo ss"}, "blindsum-metrics"),
        ({"blindsum-metrics": "a:0:1,a:0:1"}, "blindsum-metrics"),
        ({"blindsum-join-deadline": -1.0}, "blindsum-join-deadline"),
    ],
)
def test_an_error_of_the_job_names_the_key_of_the_run(config, field):
    with pytest.raises(bs.ConfigError) as caught:
        RunSettings.read(config, {}).check_early()
    text = str(caught.value)
    assert caught.value.field == field
    assert text.startswith(f"{field}: ")
    assert not words(text), text
    assert "pyproject.toml" in text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"clip": -1.0}, "clip"),
        ({"max_weight": 0}, "max_weight"),
        ({"protocol": "pss-malicious"}, "max_weight"),
        ({"metrics": "loss:1:0"}, "metrics"),
        ({"stage_deadline": 0}, "stage_deadline"),
        ({"train_deadline": 0}, "train_deadline"),
    ],
)
def test_an_error_of_the_job_names_the_argument_of_the_aggregator(fields, field):
    given = {"protocol": "secagg+", "adversary": "active", "corrupt": 0.1, "dropout": 0.1, "min_parties": 0}
    given |= {"clip": 1.0, "bits": 20, "max_weight": 100, "metrics": ""}
    given |= {"join_deadline": 1, "stage_deadline": 1, "train_deadline": 1}
    with pytest.raises(bs.ConfigError) as caught:
        JobSettings(**given | fields).check()
    text = str(caught.value)
    assert caught.value.field == field
    assert text.startswith(f"{field}: ")
    assert not words(text) - {"max_weight"}, text
    assert "SecureAggregator" in text


def test_a_weight_that_is_too_large_names_the_key_of_the_run():
    spec = RunSettings(max_weight=10).spec("flower", 3, 4)
    assert weight_in({"examples": 10.0}, "examples", spec) == 10
    assert weight_in({"examples": 0}, "examples", spec) == 0
    with pytest.raises(bs.InputError) as caught:
        weight_in({"examples": 12}, "examples", spec)
    text = str(caught.value)
    assert text.startswith("metrics['examples']: 12 ")
    assert "blindsum-max-weight" in text
    assert not words(text), text


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (
            bs.PolicyError("min_honest", "policy min_honest: 3, this party wants 1100"),
            "blindsum-policy-min-honest",
        ),
        (bs.ConfigError("policy.min_honest", "no"), "blindsum-policy-min-honest"),
        (bs.ConfigError("identity", "no"), "blindsum-identity"),
        (bs.ConfigError("revoked", "no"), "blindsum-crl"),
        (bs.ConfigError("state_dir", "no"), "blindsum-state"),
        (bs.InputError("weight", "12 must be"), "blindsum-max-weight"),
        (bs.InputError("metrics['num-examples']", "12.5"), "blindsum-max-weight"),
    ],
)
def test_a_refusal_of_a_node_names_its_key(error, name):
    text = str(refusals.for_server(error))
    assert name in text
    assert not words(text), text
