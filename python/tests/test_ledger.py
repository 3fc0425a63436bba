"""The ledger of a party's data: over jobs, coordinators, kills and restored folders."""

from __future__ import annotations

import json
import shutil
import signal
from contextlib import suppress

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.machines import PartyMachine

UPDATE = np.array([0.1, -0.2, 0.3, 0.4])
NOISE = {"privacy": "discrete-gaussian", "noise_multiplier": 2.0, "delta": 1e-5}
FIELDS = {"clipping": "l2", "adversary": "semi-honest", "parties": 4, "min_parties": 3, "corrupt": 0.0}


def noisy(place, protocol="secagg", **fields):
    return place.spec(protocol=protocol, **FIELDS | NOISE | fields)


def budget(place, epsilon, **rules):
    return bs.Policy(**place.any_job | {"max_epsilon": epsilon, "max_delta": 1e-5} | rules)


def take_part(place, coordinator, name, **options):
    """The results that a party is told until its part ends, and why it ended."""
    told = []
    try:
        with place.join(coordinator, name, **options) as session:
            for current in session.rounds():
                current.submit(UPDATE)
                told.append(current.outcome().privacy)
    except bs.PolicyError as error:
        return told, error
    return told, None


def test_a_budget_holds_over_jobs_of_two_coordinators(place, partner, tmp_path):
    """Two rounds of one job and one of another are what the budget allows; the second job goes on."""
    told, seen = [], []
    for protocol in ("secagg", "fssa"):
        spec = noisy(place, protocol, rounds=2)
        with place.coordinator(spec) as coordinator:
            others = [partner(place, coordinator, f"party-{rank}", UPDATE, 1) for rank in range(1, 4)]
            found, error = take_part(
                place, coordinator, "party-0", policy=budget(place, 3.9), state_dir=tmp_path / "state"
            )
            told += found
            seen.append(error)
            for other in others:
                other.wait()
    assert [one.releases for one in told] == [1, 2, 3]
    assert told[0].epsilon < told[1].epsilon < told[2].epsilon <= 3.9
    assert {(one.unit, one.delta, one.max_epsilon, one.honest) for one in told} == {("data", 1e-5, 3.9, 2)}
    assert seen[0] is None
    assert isinstance(seen[1], bs.PolicyError)
    assert seen[1].field == "max_epsilon"
    assert "3 releases before" in str(seen[1])
    ledger = bs.privacy_ledger(tmp_path / "state")
    assert ledger.epsilon == told[2].epsilon
    assert len(ledger.releases) == 3
    assert len({one.job_hash for one in ledger.releases}) == 2


def test_a_party_that_is_killed_again_and_again_spends_no_more(place, partner, processes, tmp_path, capsys):
    """Killed after each result, the party comes back with what it has spent, and ends with its budget."""
    spec = noisy(place, rounds=100_000)
    (tmp_path / "steps.py").write_text("def step(model, number):\n    return 0.25 - model\n")
    witness = tmp_path / "elsewhere"
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, f"party-{rank}", UPDATE, 1) for rank in range(1, 4)]
        port = coordinator.address.rpartition(":")[2]
        words = [
            *("join", f"https://localhost:{port}", "--job", "job", "--ca", place.folder / "ca.pem"),
            *("--identity", place.identity("party-0"), "--train", "steps:step", "--json"),
            *(*place.take_any, "--policy", "max_epsilon=3.9", "--policy", "max_delta=1e-5"),
            *("--state-dir", tmp_path / "state", "--ledger-witness", witness),
        ]
        spent = []
        while True:
            process = processes(*words)
            line = process.stdout.readline()
            if not line:
                break
            spent.append(json.loads(line).get("privacy"))
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert process.wait() == 1
        said = process.stderr.read()
    for other in others:
        with suppress(bs.BlindsumError):
            other.wait()
    assert "policy max_epsilon: with this round the data has epsilon" in said
    assert max(one["releases"] for one in spent if one) <= 3
    ledger = bs.privacy_ledger(tmp_path / "state", witness=witness)
    assert len(ledger.releases) == 3
    assert ledger.epsilon <= 3.9

    assert main(["ledger", str(tmp_path / "state"), "--witness", str(witness)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("data: epsilon ")
    assert f"job {spec.hash[:12]}: 3 releases" in shown
    assert main(["ledger", str(tmp_path / "state"), "--json", "--delta", "1e-6"]) == 0
    as_json = json.loads(capsys.readouterr().out)
    assert (len(as_json["releases"]), as_json["delta"]) == (3, 1e-6)
    assert as_json["epsilon"] > ledger.epsilon


def test_a_restored_state_folder_is_found_out_by_the_witness(place, partner, tmp_path):
    state, witness = tmp_path / "state", tmp_path / "elsewhere"
    options = {"policy": budget(place, 50.0), "state_dir": state, "ledger_witness": witness}
    with place.coordinator(noisy(place, rounds=2)) as coordinator:
        others = [partner(place, coordinator, f"party-{rank}", UPDATE, 1) for rank in range(1, 4)]
        with place.join(coordinator, "party-0", **options) as session:
            for current in session.rounds():
                if current.number == 2:
                    shutil.copytree(state, tmp_path / "backup")
                current.submit(UPDATE)
                current.outcome()
        for other in others:
            other.wait()
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "backup", state)
    told = pytest.raises(bs.StoreError, match="older than its witness: it has 1 releases of 2")
    with place.coordinator(noisy(place, "fssa")) as coordinator, told:
        place.join(coordinator, "party-0", **options)
    with pytest.raises(bs.StoreError, match="older than its witness"):
        bs.privacy_ledger(state, witness=witness)
    assert len(bs.privacy_ledger(state).releases) == 1


@pytest.mark.parametrize("rules", [{"require_privacy": True}, {"max_epsilon": 8.0, "max_delta": 1e-5}])
def test_a_job_without_noise_is_refused(place, tmp_path, rules):
    policy = bs.Policy(**place.any_job | rules)
    spec = place.spec(protocol="secagg", parties=4, corrupt=0.0)
    refused = pytest.raises(bs.PolicyError, match="the sums of the job have no noise")
    with place.coordinator(spec) as coordinator, refused as caught:
        place.join(coordinator, "party-0", policy=policy, state_dir=tmp_path)
    assert caught.value.field == next(iter(rules))


def test_a_budget_needs_a_folder_and_both_numbers(place, tmp_path):
    identity = place.identity("party-0")
    known = {"job": "job", "identity": identity, "ca": place.folder / "ca.pem"}
    url = "https://localhost:9"
    with pytest.raises(bs.ConfigError, match=r"policy.max_epsilon needs it") as caught:
        bs.join(url, policy=bs.Policy(max_epsilon=8, max_delta=1e-5), **known)
    assert caught.value.field == "state_dir"
    with pytest.raises(bs.ConfigError, match="needs state_dir") as caught:
        bs.join(url, ledger_witness=tmp_path / "w", **known)
    assert caught.value.field == "ledger_witness"
    with pytest.raises(bs.ConfigError, match=r"policy.max_epsilon needs it") as caught:
        PartyMachine.open(policy=bs.Policy(max_epsilon=8, max_delta=1e-5), **known)
    assert caught.value.field == "ledger"
    for wrong, field in [
        ({"max_epsilon": 8}, "max_delta"),
        ({"max_delta": 1e-5}, "max_epsilon"),
        ({"max_epsilon": 0, "max_delta": 1e-5}, "max_epsilon"),
        ({"max_epsilon": float("nan"), "max_delta": 1e-5}, "max_epsilon"),
        ({"max_epsilon": True, "max_delta": 1e-5}, "max_epsilon"),
        ({"max_epsilon": 8, "max_delta": 0.5}, "max_delta"),
        ({"privacy_unit": "../x"}, "privacy_unit"),
        ({"require_privacy": 1}, "require_privacy"),
    ]:
        with pytest.raises(bs.ConfigError) as caught:
            bs.Policy(**wrong)
        assert caught.value.field == f"policy.{field}"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("require_privacy=maybe", "require_privacy must be yes or no"),
        ("max_epsilon=much", "max_epsilon must be a number"),
        ("max_epsilon=8", "max_delta"),
    ],
)
def test_rules_of_the_command_line_are_checked(place, rule, said, capsys):
    words = ["join", "https://localhost:9", "--job", "job", "--ca", str(place.folder / "ca.pem")]
    words += ["--identity", str(place.identity("party-0")), "--train", "json:loads", "--policy", rule]
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "has no ledger: no job with noise"),
        (("--unit", "ward"), "--unit: 'ward' has no ledger"),
        (("--delta", "1"), "--delta"),
    ],
)
def test_ledgers_that_are_not_there(tmp_path, words, said, capsys):
    if "--delta" in words:
        (tmp_path / "privacy-data.ledger").touch()
    assert main(["ledger", str(tmp_path), *words]) == 2
    assert said in capsys.readouterr().err
    assert main(["ledger", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_a_damaged_ledger_is_told(tmp_path, capsys):
    (tmp_path / "privacy-data.ledger").write_bytes(b"nonsense, and more of it")
    assert main(["ledger", str(tmp_path)]) == 1
    assert "the ledger is damaged in record 1" in capsys.readouterr().err
