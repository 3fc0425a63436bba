"""The job specification: the same rules and defaults as in Rust."""

import dataclasses
import json

import numpy as np
import pytest

import blindsum as bs
from blindsum import _native

PLAIN = {"protocol": "plain", "parties": 3, "dim": 10}


def test_defaults_are_those_of_the_core():
    core = json.loads(_native.validate_job(json.dumps(PLAIN)))["spec"]
    assert bs.JobSpec(**PLAIN).to_dict() == core


def test_fields_are_those_of_the_core():
    core = json.loads(_native.validate_job(json.dumps(PLAIN)))["spec"]
    names = {field.name for field in dataclasses.fields(bs.JobSpec) if field.init}
    assert names == set(core)


def test_what_follows_from_the_fields():
    spec = bs.JobSpec(**PLAIN, bits=16)
    assert spec.stages == ("input",)
    assert spec.input_stage == "input"
    assert spec.parameters == {}
    assert spec.word_bits == 18
    assert spec.packed_bytes == -(-10 * 18 // 8)
    assert spec.quorum == 1
    # One level, and what rounding to float32 adds.
    assert spec.max_error == pytest.approx(2 / (2**16 - 1), rel=1e-4)
    assert len(bytes.fromhex(spec.hash)) == 32


def test_every_field_changes_the_hash():
    spec = bs.JobSpec(**PLAIN)
    changed = {"job": "other", "bits": 8, "clip": 0.5, "rounding": "nearest", "max_weight": 9, "corrupt": 0.2}
    hashes = {spec.hash} | {spec.replace(**{name: value}).hash for name, value in changed.items()}
    assert len(hashes) == 1 + len(changed)


def test_it_is_frozen_and_comparable():
    spec = bs.JobSpec(**PLAIN)
    assert spec == bs.JobSpec(**PLAIN)
    assert hash(spec) == hash(bs.JobSpec(**PLAIN))
    assert spec != spec.replace(dim=11)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.dim = 4


def test_dictionaries_go_both_ways():
    spec = bs.JobSpec(
        **PLAIN | {"dim": 4}, tensors=[bs.Tensor("w", 3, 0.5), {"name": "b", "len": 1, "clip": 1.0}]
    )
    assert bs.JobSpec.from_dict(spec.to_dict()) == spec
    assert bs.JobSpec.from_dict(json.loads(spec.to_json())).hash == spec.hash


def test_numpy_numbers_are_numbers():
    assert bs.JobSpec(**PLAIN | {"dim": np.int64(10)}, clip=np.float32(0.5)) == bs.JobSpec(**PLAIN, clip=0.5)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dim": 0}, "dim"),
        ({"parties": 0}, "parties"),
        ({"parties": -1}, "parties"),
        ({"dim": 1.5}, "dim"),
        ({"protocol": "nonsense"}, "protocol"),
        ({"adversary": "friendly"}, "adversary"),
        ({"job": "Bad Name"}, "job"),
        ({"corrupt": 1.0}, "corrupt"),
        ({"stage_deadline": 0}, "stage_deadline"),
        ({"clip": "much"}, "clip"),
        ({"min_parties": 9}, "min_parties"),
        ({"tensors": [3]}, "tensors"),
    ],
)
def test_a_broken_rule_names_its_field(change, field):
    with pytest.raises(bs.SpecError) as caught:
        bs.JobSpec(**PLAIN | change)
    assert caught.value.field == field
    assert caught.value.rule
    assert isinstance(caught.value, ValueError)


def test_not_a_number_is_refused():
    with pytest.raises(bs.SpecError, match="clip: must be a finite number"):
        bs.JobSpec(**PLAIN, clip=float("nan"))


def test_unknown_and_missing_fields_are_named():
    with pytest.raises(bs.SpecError) as caught:
        bs.JobSpec.from_dict(PLAIN | {"partys": 3})
    assert caught.value.field == "partys"
    with pytest.raises(bs.SpecError) as caught:
        bs.JobSpec.from_dict({"protocol": "plain", "dim": 3})
    assert caught.value.field == "parties"


def test_protocols_can_all_be_specified():
    assert bs.protocols()[0] == "plain"
    for protocol in bs.protocols():
        assert bs.JobSpec(protocol=protocol, parties=20, dim=5).stages


def test_what_protocols_choose() -> None:
    spec = bs.JobSpec(protocol="fssa", parties=100, dim=1009)
    chosen = {"threshold": 90, "packing": 78, "random": 12, "blocks": 13, "share_bytes": 4}
    assert spec.parameters == chosen
    assert spec.replace(packing=1).parameters["blocks"] == 1009
    assert spec.replace(protocol="secagg").parameters["neighbours"] == 99


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_weight", 0), ("clip", 0.0), ("bits", 65), ("tensors", [bs.Tensor("a", 2, 1.0)]), ("parties", 2)],
)
def test_the_field_of_an_error_is_one_of_the_job(field, value):
    with pytest.raises(bs.SpecError) as error:
        bs.JobSpec(**{"protocol": "secagg+", "parties": 4, "dim": 4} | {field: value})
    assert error.value.field == field


def test_two_parties_hear_of_the_way_that_there_is():
    with pytest.raises(bs.SpecError, match=r"must be at least 3 \(is 2\).*adversary = semi-honest"):
        bs.JobSpec(protocol="secagg+", parties=2, dim=4)
    assert bs.JobSpec(protocol="secagg+", parties=2, dim=4, adversary="semi-honest").quorum == 2


def test_limits_and_settings_are_named(place):
    for name, value in (("farewell", "x"), ("connections", -1), ("nonsense", 1)):
        with pytest.raises(bs.ConfigError) as error, place.coordinator(place.spec(), limits={name: value}):
            pass
        assert error.value.field == f"limits.{name}"
    with pytest.raises(bs.InputError, match="one array per party"):
        bs.simulate(place.spec(), 5)
    with pytest.raises(bs.ConfigError, match="progress"):
        bs.simulate(place.spec(), progress=5)
