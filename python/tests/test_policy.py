"""A party's policy: what is no policy is refused by name, and the recipes of the help take what they say."""

import contextlib

import pytest

import blindsum as bs
from blindsum.cli.join import RECIPES, policy_from

WRONG = [
    ("min_honest", -5),
    ("min_honest", 1.5),
    ("min_cohort", "x"),
    ("min_corrupt", "x"),
    ("min_corrupt", 1.0),
    ("min_corrupt", 2),
    ("min_corrupt_parties", -1),
    ("max_dim", -1),
    ("max_message", 1.5),
    ("max_parties", "x"),
    ("max_weight", 0),
    ("allowed_protocols", "plain"),
    ("allowed_protocols", ["plane"]),
    ("allowed_protocols", []),
    ("allowed_protocols", 5),
    ("allowed_rules", ["mode"]),
    ("allowed_rules", []),
    ("require_adversary", "strong"),
    ("job_hash", "abc"),
]


@pytest.mark.parametrize(("rule", "value"), WRONG)
def test_a_rule_that_is_none_is_named_where_it_is_written(rule, value):
    with pytest.raises(bs.ConfigError) as error:
        bs.Policy(**{rule: value})
    assert error.value.field == f"policy.{rule}"


@pytest.mark.parametrize(
    "text",
    [
        "allowed_protocols=plane",
        "allowed_rules=mode",
        "require_adversary=strong",
        "min_honest=-1",
        "min_corrupt=7",
    ],
)
def test_so_it_is_on_the_command_line(text):
    with pytest.raises(bs.ConfigError) as error:
        policy_from([text])
    assert error.value.field == f"--policy {text.partition('=')[0]}"


def test_what_is_no_policy_is_refused(place):
    with pytest.raises(bs.ConfigError, match=r"blindsum\.Policy"):
        bs.join("https://localhost:1", job="job", identity="a", ca="ca.pem", policy={"min_honest": 1})


@pytest.mark.parametrize("value", [1.5, -1, "1", 2**63])
def test_memory_that_cannot_be_had_is_refused(place, value):
    options = {"identity": place.identity("a"), "ca": place.folder / "ca.pem", "mask_memory": value}
    with pytest.raises(bs.ConfigError) as error:
        bs.join("https://localhost:1", job="job", **options)
    assert error.value.field == "mask_memory"


JOBS = [
    {"protocol": "plain", "parties": 3, "min_parties": 3},
    {"protocol": "secagg+", "parties": 2, "adversary": "semi-honest"},
    {"protocol": "flashe", "parties": 3},
]


@pytest.mark.parametrize(("recipe", "fields"), list(zip(RECIPES, JOBS, strict=True)), ids=range(3))
def test_the_recipes_of_the_help_take_their_jobs(place, recipe, fields):
    rules = [word for word in RECIPES[recipe] if word != "--policy"]
    with place.coordinator(place.spec(**fields)) as coordinator:
        with pytest.raises(bs.PolicyError):
            place.join(coordinator, "a", policy=bs.Policy())
        with contextlib.closing(place.join(coordinator, "a", policy=policy_from(rules))) as job:
            assert job.spec.protocol.name == fields["protocol"]
        coordinator.stop()
