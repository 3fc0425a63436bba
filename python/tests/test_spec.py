"""The job specification: the same rules and defaults as in Rust."""

import copy
import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

import blindsum as bs
from blindsum import _native, checks
from blindsum.machine_waits import Waits
from blindsum.machines import PartyMachine
from blindsum.options import JobArguments

PLAIN = {"protocol": "plain", "parties": 3, "dim": 10}


def test_defaults_are_those_of_the_core():
    core = _native.Job.read(PLAIN).described()["spec"]
    assert bs.JobSpec(**PLAIN).to_dict() == core


def test_fields_are_those_of_the_core():
    core = _native.Job.read(PLAIN).described()["spec"]
    names = {field.name for field in dataclasses.fields(bs.JobSpec) if field.init}
    assert names == set(core)
    assert set(JobArguments.__annotations__) == names


def test_every_table_is_a_class():
    schema = _native.job_schema()
    for place, table in schema["$defs"].items():
        field, dot, name = place.partition(".")
        if dot:
            needed = {"metric": "loss"} if place == "stop.plateau" else {}
            fields = {field: getattr(bs, table["title"])(**needed), "metrics": [bs.Metric("loss", 0, 1)]}
            if field == "privacy" and name != "none":
                noise = getattr(bs, table["title"])(noise_multiplier=1.0, delta=1e-5)
                fields = {"protocol": "secagg", field: noise, "encoding": bs.Quantised(clipping="l2", bits=8)}
            spec = bs.JobSpec(**PLAIN | fields | {"parties": 30})
            chosen = getattr(spec, field)
            assert (type(chosen).__name__, chosen.name, str(chosen)) == (table["title"], name, name)
            assert {item.name for item in dataclasses.fields(chosen)} | {"name"} == set(table["properties"])


def test_options_stand_in_their_table():
    spec = bs.JobSpec(protocol=bs.SecAggPlus(neighbours=18), parties=40, dim=10)
    assert spec.protocol == bs.SecAggPlus(neighbours=18, threshold=0)
    assert spec == bs.JobSpec(protocol={"name": "secagg+", "neighbours": 18}, parties=40, dim=10)
    assert spec != bs.JobSpec(protocol="secagg+", parties=40, dim=10)
    assert bs.JobSpec(protocol="secagg+", parties=40, dim=10).protocol.neighbours == 0
    with pytest.raises(bs.SpecError, match=r"neighbours: is an option of secagg\+, not a field of the job"):
        bs.JobSpec(protocol="secagg+", parties=40, dim=10, neighbours=18)
    with pytest.raises(bs.SpecError, match=r"neighbours: is an option of secagg\+, not of plain"):
        bs.JobSpec(**PLAIN, neighbours=0)


def test_what_is_not_said_follows_from_what_is():
    integers = bs.JobSpec(**PLAIN, encoding="integers")
    assert integers.model_update == "none"
    assert bs.JobSpec(**PLAIN).replace(encoding=bs.Integers(bits=8)).model_update == "none"
    assert integers.replace(encoding="quantised").model_update == "add"


def test_what_follows_from_the_fields():
    spec = bs.JobSpec(**PLAIN, encoding=bs.Quantised(bits=16))
    assert spec.stages == ("input",)
    assert spec.input_stage == "input"
    assert spec.chosen == {}
    assert spec.word_bits == 18
    assert spec.packed_bytes == -(-10 * 18 // 8)
    assert spec.quorum == 1
    # One level, and what rounding to float32 adds.
    assert spec.max_error == pytest.approx(2 / (2**16 - 1) + 2**-24, rel=1e-6)
    assert len(bytes.fromhex(spec.hash)) == 32


def test_a_plan_says_who_says_what_to_whom():
    spec = bs.JobSpec(protocol="secagg+", parties=10, dim=100_000, input_deadline=7, stage_deadline=3)
    up, down = spec.plan[::2], spec.plan[1::2]
    assert tuple(step.name for step in up) == tuple(step.name for step in down) == spec.stages
    assert [step.stage for step in up] == [step.stage for step in down] == list(range(5))
    assert {(step.speaker, step.hearer) for step in up} == {("parties", "coordinator")}
    assert {(step.speaker, step.hearer) for step in down} == {("coordinator", "parties")}
    small = 4096 + 10 * 1024
    assert spec.plan[4] == bs.Step(
        stage=2,
        name="masked-input",
        speaker="parties",
        hearer="coordinator",
        input=True,
        relayed=False,
        optional=False,
        enough=spec.quorum,
        largest=small + spec.packed_bytes,
        deadline=7.0,
    )
    assert [step.deadline for step in up] == [3, 3, 7, 3, 3]
    assert [step.name for step in spec.plan if step.input] == [spec.input_stage]
    assert spec.key_setup_plan == ()


def test_a_plan_says_what_is_passed_on():
    spec = bs.JobSpec(protocol="fssa", parties=10, dim=1000)
    assert [step.name for step in spec.plan if step.relayed] == ["share-vector"]


def test_every_field_changes_the_hash():
    spec = bs.JobSpec(**PLAIN)
    options = {"bits": 8, "clip": 0.5, "rounding": "nearest", "max_weight": 9}
    changed = {"job": "other", "corrupt": 0.2}
    changed |= {name: bs.Quantised(**{name: value}) for name, value in options.items()}
    hashes = {spec.hash}
    for name, value in changed.items():
        field = "encoding" if isinstance(value, bs.Quantised) else name
        hashes.add(spec.replace(**{field: value}).hash)
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
        **PLAIN | {"dim": 4},
        encoding=bs.Quantised(tensors=[bs.Tensor("w", 3, 0.5), {"name": "b", "len": 1, "clip": 1.0}]),
    )
    assert bs.JobSpec.from_dict(spec.to_dict()) == spec
    assert bs.JobSpec.from_dict(json.loads(spec.to_json())).hash == spec.hash


def test_numpy_numbers_are_numbers():
    numpy = bs.JobSpec(**PLAIN | {"dim": np.int64(10)}, encoding=bs.Quantised(clip=np.float32(0.5)))
    assert numpy == bs.JobSpec(**PLAIN, encoding=bs.Quantised(clip=0.5))


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
        ({"encoding": {"name": "quantised", "clip": "much"}}, "encoding.clip"),
        ({"min_parties": 9}, "min_parties"),
        ({"encoding": {"name": "fixed64", "tensors": [3]}}, "encoding.tensors.0"),
    ],
)
def test_a_broken_rule_names_its_field(change, field):
    with pytest.raises(bs.SpecError) as caught:
        bs.JobSpec(**PLAIN | change)
    assert caught.value.field == field
    assert caught.value.rule
    assert isinstance(caught.value, ValueError)


def test_not_a_number_is_refused():
    with pytest.raises(bs.SpecError, match=r"encoding\.clip: must be a finite number"):
        bs.JobSpec(**PLAIN, encoding=bs.Quantised(clip=float("nan")))


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
    assert spec.chosen == chosen
    assert spec.replace(protocol=bs.Fssa(packing=1)).chosen["blocks"] == 1009
    assert spec.replace(protocol="secagg").chosen["neighbours"] == 99


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_weight", 0), ("clip", 0.0), ("bits", 1), ("tensors", [bs.Tensor("a", 2, 1.0)]), ("parties", 2)],
)
def test_the_field_of_an_error_is_one_of_the_job(field, value):
    with pytest.raises(bs.SpecError) as error:
        bs.JobSpec.from_settings([("protocol", "secagg+"), ("parties", 4), ("dim", 4), (field, value)])
    assert error.value.field.removeprefix("encoding.") == field


def test_two_parties_hear_of_the_way_that_there_is():
    with pytest.raises(bs.SpecError, match=r"must be at least 3 \(is 2\).*adversary = semi-honest"):
        bs.JobSpec(protocol="secagg+", parties=2, dim=4)
    assert bs.JobSpec(protocol="secagg+", parties=2, dim=4, adversary="semi-honest").quorum == 2


def test_limits_and_settings_are_named(place):
    for name, value in (
        ("farewell", "x"),
        ("farewell", math.nan),
        ("keepalive", math.inf),
        ("connections", -1),
        ("connections", 1.5),
        ("connections", True),
        ("nonsense", 1),
    ):
        with pytest.raises(bs.ConfigError) as error, place.coordinator(place.spec(), limits={name: value}):
            pass
        assert error.value.field == f"limits.{name}"
    with pytest.raises(bs.InputError, match="one array per party"):
        bs.simulate(place.spec(), 5)
    with pytest.raises(bs.ConfigError, match="progress"):
        bs.simulate(place.spec(), progress=5)


def test_a_layout_and_hyperparameters_are_part_of_the_job():
    fields = {"protocol": "plain", "parties": 3}
    spec = bs.JobSpec(
        **fields, layout=["w float32 2x3", "b float64 1"], parameters={"betas": [0.9, 0.99], "epochs": 2}
    )
    assert (spec.dim, spec.layout) == (7, ("w float32 2x3", "b float64 1"))
    assert spec.parameters == {"betas": (0.9, 0.99), "epochs": 2}
    assert dict(**spec.parameters)["epochs"] == 2
    assert len({spec, bs.JobSpec.from_dict(spec.to_dict()), copy.deepcopy(spec)}) == 1
    assert spec.hash != spec.replace(parameters={"betas": [0.9, 0.99], "epochs": 3}).hash
    assert bs.JobSpec(**fields, dim=7).hash == bs.JobSpec(**fields, dim=7, layout=[], parameters={}).hash
    with pytest.raises(TypeError):
        spec.parameters["epochs"] = 3
    flat = [("protocol", "plain"), ("parties", "3"), ("layout", list(spec.layout))]
    flat += [("parameters.epochs", "2"), ("parameters.betas", [0.9, 0.99])]
    assert bs.JobSpec.from_settings(flat) == spec
    for wrong, field in (
        ({"dim": 8, "layout": ["w float32 7"]}, "layout"),
        ({"layout": ["w float32 7", "w float32 1"]}, "layout.1"),
        ({"dim": 1, "parameters": {"a": {"b": 1}}}, "parameters.a"),
        ({"dim": 1, "parameters": {"a": [1, np.nan]}}, "parameters.a.1"),
    ):
        with pytest.raises(bs.SpecError) as caught:
            bs.JobSpec(**fields, **wrong)
        assert caught.value.field == field


def test_a_specification_is_copied_and_pickled():
    spec = bs.JobSpec(
        protocol=bs.SecAggPlus(neighbours=9), parties=10, dim=4, metrics=[bs.Metric("loss", 0, 1)]
    )
    for made in (copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert made == spec
        assert made.hash == spec.hash
        assert made.chosen == spec.chosen
        assert bs.simulate(made, [np.zeros(4)] * 10, metrics=[{"loss": 0.5}] * 10).mean is not None


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ({1: 2}, "has a name that is no text: 1"),
        (object(), "must be a number or a text, not <object"),
        (np.ones(2), "must be a number or a text"),
        (1j, "must be a number or a text"),
    ],
)
def test_what_is_no_plain_data_is_refused_by_the_name_of_its_field(value, rule):
    with pytest.raises(bs.SpecError) as refused:
        bs.JobSpec(protocol="plain", parties=2, dim=value)
    assert refused.value.field == "dim"
    assert refused.value.rule.startswith(rule)


HALF = "a\udcff"


def test_a_specification_that_an_earlier_version_pickled_is_whole():
    spec = bs.JobSpec(**PLAIN)
    old = bs.JobSpec.__new__(bs.JobSpec)
    old.__setstate__({"_checked": {"said": PLAIN, "spec": {}}})
    assert old == spec
    assert old.hash == spec.hash
    assert bs.simulate(old, [np.zeros(10)] * 3).exact


@pytest.mark.parametrize(
    ("make", "field", "rule"),
    [
        (lambda: bs.JobSpec(**PLAIN, parameters={"path": HALF}), "parameters.path", "half a character"),
        (lambda: bs.JobSpec(**PLAIN, parameters={HALF: 1}), "parameters", "half a character"),
        (lambda: bs.JobSpec.from_dict(PLAIN | {HALF: 1}), "fields", "half a character"),
        (lambda: bs.JobSpec.from_settings([(1, 2)]), "settings", "no text: 1"),
        (lambda: bs.JobSpec.from_settings([("job", HALF)]), "job", "half a character"),
        (lambda: checks.limit(5, 1.0), "limits", "the name 5"),
        (lambda: checks.limit(HALF, 1.0), "limits", "names are texts"),
        (lambda: Waits(patience=True), "waits.patience", "True"),
    ],
)
def test_names_and_texts_that_no_file_has_are_refused(make, field, rule):
    with pytest.raises(bs.ConfigError) as refused:
        make()
    assert refused.value.field == field
    assert rule in refused.value.rule


def test_numbers_of_numpy_are_rules_of_a_policy(place):
    policy = bs.Policy(min_honest=np.int64(2), min_corrupt=np.float32(0.0), max_rounds=np.uint8(3))
    party = PartyMachine.open("job", identity=place.identity("a"), ca=place.folder, policy=policy)
    assert party.name == "a"
    assert policy.to_dict()["min_honest"] == 2
