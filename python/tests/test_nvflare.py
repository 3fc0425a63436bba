"""The NVFlare package as far as it needs no nvflare: settings, models as vectors, rounds of sites."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest

import blindsum as bs
import blindsum.nvflare
from blindsum import told_once
from blindsum.nvflare.params import Params, metrics_of, weight_of
from blindsum.nvflare.server import JobSettings, names_of
from blindsum.nvflare.settings import SiteSettings
from blindsum.nvflare.simulated import check_threads

SITES = ("site-1", "site-2", "site-3", "site-4")
MODEL = {"layer": np.zeros((2, 2), np.float32), "count": np.array(7), "scale": 1.5}
DEFAULTS = {
    "protocol": "secagg+",
    "adversary": "active",
    "corrupt": 0.1,
    "dropout": 0.1,
    "min_parties": 0,
    "clip": 1.0,
    "bits": 20,
    "max_weight": 100_000,
    "metrics": "",
    "join_deadline": 30.0,
    "stage_deadline": 30.0,
    "train_deadline": 60.0,
}


def job_settings(**fields):
    return JobSettings(**DEFAULTS | fields)


@pytest.fixture(autouse=True)
def _nothing_was_told():
    told_once.told.clear()


# Imports


def test_the_package_needs_no_nvflare_to_be_imported():
    code = (
        "import sys; sys.modules['nvflare'] = None\n"
        "import blindsum, blindsum.nvflare\n"
        "blindsum.nvflare.aggregate, blindsum.nvflare.secure"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_blindsum_does_not_import_its_nvflare_package():
    code = "import sys, blindsum; blindsum.JobSpec; sys.exit('blindsum.nvflare' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_names_what_it_has():
    with pytest.raises(AttributeError, match="SecureGrid"):
        _ = blindsum.nvflare.SecureGrid


# Settings


def read(folder, text, site="site-1"):
    (folder / "blindsum.json").write_text(text if isinstance(text, str) else json.dumps(text))
    return SiteSettings.read(folder, site)


def test_a_site_has_its_settings_from_its_own_file(tmp_path):
    assert SiteSettings.read(tmp_path, "site-1") == SiteSettings()
    found = read(
        tmp_path,
        {
            "identity": "/keys/{site}",
            "ca": "ca.pem",
            "state": "/var/lib/{site}",
            "policy": {"min_honest": 4, "allowed_protocols": ["secagg+"], "min_cohort_change": 2},
            "give_up_after": 7,
        },
        "site-3",
    )
    assert found.identity == "/keys/site-3"
    assert found.ca == str(tmp_path / "ca.pem")
    assert found.state == "/var/lib/site-3"
    assert found.give_up_after == 7.0
    assert found.policy == bs.Policy(min_honest=4, allowed_protocols=["secagg+"], min_cohort_change=2)
    assert not found.plain
    assert not found.arrays


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"identiti": "/keys/a"}, "identiti"),
        ({"identity": "/keys/a"}, "ca"),
        ({"coordinator_identity": "/keys/agg"}, "ca"),
        ({"identity": "", "ca": "/keys"}, "identity"),
        ({"url": "https://agg:9443"}, "job"),
        ({"job": "tumour"}, "url"),
        ({"plain": "true"}, "plain"),
        ({"arrays": 1}, "arrays"),
        ({"give_up_after": -1}, "give_up_after"),
        ({"policy": ["min_honest"]}, "policy"),
        ({"policy": {"min_honset": 4}}, "policy.min_honset"),
        ({"policy": {"min_honest": "four"}}, "policy.min_honest"),
        ({"policy": {"min_cohort_change": 2}}, "state"),
        ({"listen": 9443}, "listen"),
        ({"unbound": True}, "unbound"),
        ({"url": "http://agg:9443", "job": "tumour"}, "url"),
    ],
)
def test_an_error_names_the_key_and_the_file(tmp_path, content, field):
    with pytest.raises(bs.ConfigError) as caught:
        read(tmp_path, content)
    assert caught.value.field == field
    assert f"set it in {tmp_path / 'blindsum.json'}" in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "{", '"a"', '{"ca": "/a", "ca": "/b"}', "[" * 100_000])
def test_a_file_that_is_no_object_is_refused(tmp_path, text):
    with pytest.raises(bs.ConfigError, match=r"blindsum\.json"):
        read(tmp_path, text)


def test_a_job_is_checked_before_it_runs():
    job_settings().check()
    for protocol in ("flashe", "mpc3", "paillier"):
        with pytest.raises(bs.ConfigError) as caught:
            job_settings(protocol=protocol).check()
        assert caught.value.field == "protocol"
    with pytest.raises(bs.ConfigError) as caught:
        job_settings(metrics="loss:0").check()
    assert caught.value.field == "metrics"
    with pytest.raises(bs.ConfigError) as caught:
        job_settings().spec("tumour", 3, 2)
    assert caught.value.field == "min_clients"


def test_a_job_sums_what_it_declares():
    spec = job_settings(metrics="loss:0:10, accuracy:0:1", clip=2, max_weight=50).spec("tumour", 3, 5)
    assert spec.metrics == (bs.Metric("loss", 0.0, 10.0), bs.Metric("accuracy", 0.0, 1.0))
    assert (spec.rounds, spec.model_update, spec.parties, spec.quorum) == (0, "none", 5, 4)
    assert (spec.clip, spec.max_weight) == (2.0, 50)


@pytest.mark.parametrize(
    ("args", "at_once"),
    [({"threads": 2}, 2), ({"threads": 1, "gpu": "0,1"}, 2), ({"threads": 1, "gpu": "[0,1],[2],[3]"}, 3)],
)
def test_a_simulation_needs_a_thread_for_each_site(args, at_once):
    args = argparse.Namespace(**{"gpu": None} | args)
    check_threads(args, at_once)
    with pytest.raises(bs.ConfigError, match="num_threads=4") as caught:
        check_threads(args, 4)
    assert caught.value.field == "num_threads"


def test_nothing_but_a_simulation_is_checked_for_threads():
    check_threads(None, 100)
    check_threads(argparse.Namespace(), 100)


# Models


def test_a_model_is_a_vector_and_back():
    params = Params(MODEL)
    assert params.dim == 5
    assert params.fixed == ("count",)
    local = {"scale": 2.0, "count": np.array(9), "layer": np.full((2, 2), 0.25, np.float32)}
    vector = params.difference(local)
    assert vector.tolist() == [0.25] * 4 + [0.5]
    moved = params.full(vector)
    assert list(moved) == ["layer", "count", "scale"]
    assert moved["layer"].dtype == np.float32
    assert np.array_equal(moved["layer"], local["layer"])
    assert moved["count"] == 7
    assert moved["scale"] == 2.0
    change = params.diff(vector)
    assert list(change) == ["layer", "scale"]
    assert np.array_equal(params.change(change | {"count": np.array(0)}), vector)
    assert np.array_equal(params.change(change), vector)


def test_an_unchanged_model_is_that_of_the_task():
    params = Params(MODEL)
    assert params.unchanged(is_diff=False).keys() == MODEL.keys()
    assert not any(array.any() for array in params.unchanged(is_diff=True).values())


@pytest.mark.parametrize(
    ("local", "says"),
    [
        ({"scale": 1.5, "count": 7}, r"without 'layer'.*task \(3 arrays\)"),
        (MODEL | {"more": np.zeros(1)}, "with 'more' besides"),
        (MODEL | {"layer": np.zeros(4, np.float32)}, r"arrays\['layer'\]: has the shape \(4,\)"),
        (
            MODEL | {"layer": np.array([[0, np.nan], [0, 0]], np.float32)},
            r"\['layer'\]\[0, 1\]: is not finite",
        ),
        (MODEL | {"scale": np.array("x")}, r"arrays\['scale'\]: is of"),
    ],
)
def test_a_result_that_is_no_model_of_the_task_is_refused(local, says):
    with pytest.raises(bs.InputError, match=says):
        Params(MODEL).difference(local)


class Tensor:
    """As PyTorch's, as far as it matters: no array of NumPy."""

    shape = (2,)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ([1.0], "must be a dictionary"),
        ({1: np.zeros(1)}, "must be a dictionary"),
        ({"a": Tensor()}, "server_expected_format=ExchangeFormat.NUMPY"),
        ({"a": [1.0]}, "must be an array of NumPy"),
        ({"a": np.array(1)}, "no array of floats"),
        ({"a": np.zeros(1, complex)}, "complex128"),
    ],
)
def test_a_model_that_has_no_vector_is_refused(params, says):
    with pytest.raises(bs.ConfigError, match=says):
        Params(params)


def test_the_weight_is_the_number_of_steps(caplog):
    assert weight_of({"NUM_STEPS_CURRENT_ROUND": 12}) == 12
    assert weight_of({"NUM_STEPS_CURRENT_ROUND": 12.0}) == 12
    assert weight_of({"NUM_STEPS_CURRENT_ROUND": 0}) == 0
    for wrong in (12.5, -1, "12", True, float("nan"), float("inf")):
        with pytest.raises(bs.InputError, match="NUM_STEPS_CURRENT_ROUND"):
            weight_of({"NUM_STEPS_CURRENT_ROUND": wrong})
    assert not caplog.records
    assert weight_of({}) == 1
    assert "each site weighs 1" in caplog.text


def test_a_weight_that_is_too_large_names_what_nvflare_has():
    assert weight_of({"NUM_STEPS_CURRENT_ROUND": 10.0}, 10) == 10
    with pytest.raises(bs.InputError, match="set max_weight = 12 or more in SecureAggregator") as caught:
        weight_of({"NUM_STEPS_CURRENT_ROUND": 12}, 10)
    assert str(caught.value).startswith("meta['NUM_STEPS_CURRENT_ROUND']: 12 is more than max_weight = 10")


@pytest.mark.parametrize("metrics", [5, None, ["loss"], 1.5, {"loss": 1}])
def test_metrics_of_the_aggregator_are_a_text(metrics):
    with pytest.raises(bs.ConfigError, match="must be a text") as caught:
        job_settings(metrics=metrics).check()
    assert caught.value.field == "metrics"
    assert "SecureAggregator" in caught.value.rule


@pytest.mark.parametrize("names", [5, "site-1", ["site-1"], {"site-1": 5}, {5: "a"}])
def test_names_of_certificates_are_a_mapping_of_texts(names):
    with pytest.raises(bs.ConfigError, match="SecureAggregator") as caught:
        names_of(names)
    assert caught.value.field == "names"


def test_sites_may_have_other_names():
    assert names_of(None) == {}
    assert names_of({"site-1": "clinic"}) == {"site-1": "clinic"}


def test_metrics_that_the_job_does_not_declare_stay_and_are_named(caplog):
    assert metrics_of({"loss": 0.5, "auc": 0.9}, ["loss", "accuracy"]) == {"loss": 0.5}
    assert "as the job does not declare them: auc;" in caplog.text
    assert metrics_of(None, ["loss"]) == {}
    for wrong in (float("nan"), "low", True, None):
        with pytest.raises(bs.InputError, match="loss"):
            metrics_of({"loss": wrong}, ["loss"])


def test_settings_are_not_refused_for_a_number_of_sites_that_nobody_knows():
    for fields in ({"min_parties": 11}, {"min_parties": 500}, {"corrupt": 0.49}):
        job_settings(**fields).check()
    assert job_settings(min_parties=11).spec("tumour", 5, 12).min_parties == 11
    with pytest.raises(bs.ConfigError, match="min_parties: is 11 and must be at most parties = 4") as caught:
        job_settings(min_parties=11).spec("tumour", 5, 4)
    assert caught.value.field == "min_parties"
    for fields, field in (
        ({"bits": 99}, "bits"),
        ({"bits": 99, "min_parties": 500}, "bits"),
        ({"bits": 99, "corrupt": 0.49}, "bits"),
        ({"protocol": "flashe", "min_parties": 11}, "protocol"),
        ({"min_parties": "many"}, "min_parties"),
        ({"min_parties": -1}, "min_parties"),
        ({"min_parties": 2**32}, "min_parties"),
    ):
        with pytest.raises(bs.ConfigError) as caught:
            job_settings(**fields).check()
        assert caught.value.field == field
