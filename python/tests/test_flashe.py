"""FLASHE from Python: key set-ups, and sums and models that only the parties have."""

import json
import threading

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.coordinator import stored_model, stored_rounds

SETUP_STAGES = ("advertise-keys", "deliver-key", "confirm-key")
STAGES = (*SETUP_STAGES, "upload", "result")
SIMULATE = ["simulate", "--protocol", "flashe", "--parties", "6", "--dim", "100"]


def job(**changes):
    fields = {"protocol": "flashe", "parties": 6, "dim": 100, "min_parties": 2} | changes
    return bs.JobSpec.from_settings(list(fields.items()))


def test_what_follows_from_the_protocol():
    spec = job()
    assert (spec.stages, spec.key_setup_stages, spec.hides_sum) == (("upload",), SETUP_STAGES, True)
    setup = spec.key_setup_plan
    assert (tuple(step.name for step in setup[::2]), len(setup)) == (SETUP_STAGES, 6)
    assert not any(step.input for step in setup)
    # Only the leader delivers the key, and which party that is the plan does not know.
    assert [step.speaker for step in setup[::2]] == ["parties", "few", "parties"]
    assert job(masking="single").chosen == {"masks": 1}
    assert job(masking="double").chosen == {"masks": 2}
    other = bs.JobSpec(protocol="secagg+", parties=6, dim=100)
    assert (other.key_setup_stages, other.hides_sum) == ((), False)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("masking", "triple", 'must be one of cheaper, double, single, not "triple"'),
        ("key_rounds", -1, "must be a whole number from 0 to 4294967295, not -1"),
        ("parties", 1, "2 <= parties = 1 for flashe"),
        ("min_parties", 1, "2 <= min_parties = 1 for flashe: the sum of one update is the update"),
        ("packing", 4, "is an option of fssa, pss and pss-malicious, not of flashe"),
    ],
)
def test_rules_that_are_broken_are_quoted(field, value, rule, capsys):
    with pytest.raises(bs.SpecError) as caught:
        job(**{"min_parties": 0, field: value})
    assert caught.value.field.removeprefix("protocol.") == field
    assert rule in caught.value.rule
    assert main([*SIMULATE, "--set", f"{field}={value}"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"blindsum: error: job specification: {caught.value.field}: ")
    assert rule in said.err


def test_a_key_setup_has_its_own_costs():
    rows = np.random.default_rng(1).uniform(-1, 1, (6, 100)).astype(np.float32)
    result = bs.simulate(job(max_weight=9), rows, weights=range(1, 7))
    expected = np.average(rows.astype(np.float64), axis=0, weights=range(1, 7))
    assert np.abs(result.mean - expected).max() <= job().max_error
    assert (result.survivors, result.exact) == (6, True)
    setup = result.key_setup
    assert (setup.holders, setup.fault) == (6, None)
    assert [stage.name for stage in setup.stages] == [*SETUP_STAGES, "result"]
    assert setup.client_ms.max >= setup.client_ms.median > 0
    assert setup.server_ms > 0
    assert setup.virtual_seconds == 0
    # Each stage's bytes are in the sum, and the vector is in no stage of it.
    assert sum(stage.up_bytes.median for stage in setup.stages) <= setup.up_bytes_per_party
    assert 0 < setup.up_bytes_per_party < 1000 < 2 * job(dim=10_000).packed_bytes
    large = bs.simulate(job(dim=10_000, max_weight=9))
    assert large.key_setup.up_bytes_per_party == setup.up_bytes_per_party
    assert large.up_bytes_per_party >= job(dim=10_000, max_weight=9).packed_bytes
    assert result.to_dict()["key_setup"]["holders"] == 6
    with_none = bs.simulate(bs.JobSpec(protocol="plain", parties=2, dim=2))
    assert with_none.key_setup is None
    assert "key_setup" not in with_none.to_dict()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("masking", ["single", "double"])
def test_parties_may_vanish_at_any_stage(stage, masking):
    result = bs.simulate(job(masking=masking), drop_at={stage: 2})
    assert (result.outcome, result.exact) == ("sum", True)
    # Who vanishes while taking the result has given an update, and who confirms a key may hold it without.
    assert result.survivors == (6 if stage == "result" else 4)
    assert result.key_setup.holders == (4 if stage in SETUP_STAGES else 6)


def test_keys_are_kept_and_replaced():
    def setups(**changes):
        result = bs.simulate(job(**changes), rounds=5)
        assert result.exact
        # The report of a round has its own key set-up; the result has the latest.
        assert "key_setup" not in result.to_dict() or changes
        assert result.key_setup.holders == 6
        return [one.get("key_setup") is not None for one in result.to_dict()["rounds"]]

    assert setups() == [True, False, False, False, False]
    assert setups(key_rounds=2) == [True, False, True, False, True]


def test_those_who_missed_the_key_get_it_before_the_next_round():
    # Another one vanishes in the second key set-up, which holds the key already.
    result = bs.simulate(job(), drop_at={"deliver-key": 1}, rounds=2)
    rounds = result.to_dict()["rounds"]
    assert [one["survivors"] for one in rounds] == [5, 6]
    assert all(one["key_setup"]["fault"] is None for one in rounds)


def test_progress_counts_rounds_and_not_key_setups():
    seen = []
    bs.simulate(
        job(key_rounds=1), rounds=3, progress=lambda done, total, text: seen.append((done, total, text))
    )
    dones = [done for done, _, _ in seen]
    assert dones == sorted(dones)

    def at(stage):
        return {done for done, _, text in seen if text.startswith(stage)}

    assert (at("upload"), at("deliver-key")) == ({0, 1, 2}, {0, 1})


def test_a_failed_key_setup_is_told():
    result = bs.simulate(job(min_parties=5), drop_at={"deliver-key": 2})
    assert (result.outcome, result.exact) == ("abort", False)
    assert "does not hold the key of the job" in result.fault
    assert result.key_setup.holders == 0
    assert "too few parties are left" in result.key_setup.fault


def test_simulate_shows_the_key_setup(capsys):
    words = [*SIMULATE, "--drop-at", "deliver-key:1"]
    assert main([*words, "--rounds", "3", "--key-rounds", "1", "--masking", "single"]) == 0
    out = capsys.readouterr().out
    assert "key set-up" in out
    assert all(stage in out for stage in STAGES)
    assert "5 of 6 parties hold the key of the job" in out
    assert "chosen: masks 1" in out
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["key_setup"]["holders"], report["survivors"]) == (5, 5)
    assert main([*words, "--drop-at", "deliver-key:4"]) == 3
    assert "the key set-up failed: too few parties are left" in capsys.readouterr().out


def hidden(place, **fields):
    fields = {"protocol": "flashe", "parties": 3, "max_weight": 5} | fields
    return place.spec(**fields)


def together(sessions, update, weight=1):
    """All do one round, each on a thread; gives the starting models and the results by name."""
    told, errors = {}, []

    def take_part(session):
        try:
            current = session.next_round(timeout=60)
            start = current.model.copy()
            current.submit(update, weight)
            told[session.name] = (start, current.outcome(timeout=60))
        except bs.BlindsumError as error:
            errors.append(error)

    threads = [threading.Thread(target=take_part, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return told


def setups_in(store):
    rounds = [one for one in stored_rounds(store, "job") if one["state"] == "done"]
    return [one["key_setup"] for one in rounds], rounds


def test_only_the_parties_have_sum_weight_and_model(place, tmp_path):
    store = tmp_path / "job.sqlite"
    update = np.array([0.5, -0.25, 0.125, 0.0])
    with place.coordinator(hidden(place), store=store) as coordinator:
        told = together([place.join(coordinator, name) for name in "abc"], update, weight=2)
        last = [status for status in coordinator.statuses() if status is not None][-1]
    for start, outcome in told.values():
        assert not start.any()
        assert np.abs(outcome.mean - update).max() <= hidden(place).max_error
        assert np.array_equal(outcome.model, outcome.mean)
        assert (outcome.total_weight, outcome.survivors, outcome.model_version) == (6, ("a", "b", "c"), 1)
    assert (last["rounds_done"], last["model_version"], last["round"]["total_weight"]) == (1, 1, None)
    kinds, rounds = setups_in(store)
    assert kinds == [True, False]
    assert [one["survivors"] for one in rounds] == [["a", "b", "c"]] * 2
    assert [one["total_weight"] for one in rounds] == [None, None]
    assert [stage["name"] for stage in rounds[0]["stages"]] == list(SETUP_STAGES)
    assert not stored_model(store, "job", 0).any()
    with pytest.raises(bs.HiddenModelError, match="only the parties have it"):
        stored_model(store, "job", 1)


def test_a_late_joiner_starts_from_the_others_model(place, tmp_path):
    store = tmp_path / "job.sqlite"
    start, update = np.full(4, 2.0), np.full(4, 0.5)
    spec = hidden(place, min_parties=2, rounds=2)
    with place.coordinator(spec, store=store, model=start) as coordinator:
        early = [place.join(coordinator, name) for name in "ab"]
        first = together(early, update)
        assert all(np.array_equal(model, start) for model, _ in first.values())
        second = together([*early, place.join(coordinator, "c")], update)
    after = first["a"][1].model
    assert np.allclose(after, 2.5, atol=1e-4)
    assert sorted(second) == ["a", "b", "c"]
    for model, outcome in second.values():
        assert np.array_equal(model, after)
        assert np.array_equal(outcome.model, second["c"][1].model)
    assert np.allclose(second["c"][1].model, 3.0, atol=2e-4)
    assert setups_in(store)[0] == [True, False, True, False]


def test_a_late_joiner_gets_the_state_of_the_step_sealed(place):
    update = np.full(4, 0.5)
    spec = hidden(place, min_parties=2, rounds=2).replace(step={"name": "fedavgm", "momentum": 0.5})
    with place.coordinator(spec) as coordinator:
        early = [place.join(coordinator, name) for name in "ab"]
        first = together(early, update)
        second = together([*early, place.join(coordinator, "c")], update)
    assert np.allclose(first["a"][1].model, 0.5, atol=1e-4)
    # The momentum is 0.5 · 0.5 + 0.5 in round 2, at the late party as well.
    models = [outcome.model for _, outcome in second.values()]
    assert np.allclose(models[0], 0.5 + 0.75, atol=2e-4)
    assert all(np.array_equal(model, models[0]) for model in models)


def test_a_state_folder_keeps_key_and_model(place, tmp_path):
    store = tmp_path / "job.sqlite"
    update = np.full(4, 0.5)
    spec = hidden(place, rounds=2)

    def join(coordinator):
        return [place.join(coordinator, name, state_dir=tmp_path / name) for name in "abc"]

    with place.coordinator(spec, store=store) as coordinator:
        sessions = join(coordinator)
        first = together(sessions, update)
        for session in sessions:
            session.close()
    # Nobody is left who could send key or model; coordinator and parties begin anew.
    with place.coordinator(spec, store=store) as coordinator:
        second = together(join(coordinator), update)
    for name in "abc":
        assert np.array_equal(second[name][0], first[name][1].model)
        assert second[name][1].model_version == 2
    assert setups_in(store)[0] == [True, False, False]


def test_a_party_that_comes_too_late_has_no_model(place, tmp_path, monkeypatch, capsys):
    train = tmp_path / "late.py"
    train.write_text("def step(model, round):\n    raise AssertionError('there is no round')\n")
    monkeypatch.chdir(tmp_path)
    with place.coordinator(hidden(place, rounds=1), stop_when_done=False) as coordinator:
        sessions = {name: place.join(coordinator, name) for name in "abc"}
        outcomes = together(list(sessions.values()), np.full(4, 0.5))
        for name, session in sessions.items():
            assert session.final_model is None
            assert session.next_round() is None
            assert np.array_equal(session.final_model, outcomes[name][1].model)
            session.close()
        late = place.join(coordinator, "c")
        assert list(late.rounds()) == []
        assert late.final_model is None
        late.close()
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        words = ["join", url, "--job", "job", "--identity", place.identity("c")]
        rules = ["--ca", place.folder / "ca.pem", *place.take_any]
        options = ["--train", "late:step", "--out", tmp_path / "c.npy"]
        monkeypatch.chdir(tmp_path)
        assert main([*map(str, words), *map(str, rules), *map(str, options)]) == 1
    assert "--out: this party does not have the last model: it missed" in capsys.readouterr().err
    assert not (tmp_path / "c.npy").exists()


def test_the_coordinator_cannot_write_the_model(place, tmp_path, capsys):
    path = tmp_path / "job.json"
    path.write_text(hidden(place).to_json())
    words = ["serve", "--job", path, "--identity", place.folder / "agg", "--ca", place.folder / "ca.pem"]
    options = ["--store", tmp_path / "job.sqlite", "--out", tmp_path / "final.npy"]
    assert main([*map(str, words), *map(str, options)]) == 2
    assert "write it at a party, with blindsum join --out" in capsys.readouterr().err
    assert not (tmp_path / "job.sqlite").exists()


def test_serve_and_join_run_a_hidden_job_to_its_end(processes, place, tmp_path):
    (tmp_path / "job.json").write_text(hidden(place, rounds=2).to_json())
    authority = ["--ca", place.folder / "ca.pem"]
    words = ["--job", "job.json", "--identity", place.folder / "agg", "--listen", "127.0.0.1:0"]
    coordinator = processes("serve", *words, *authority, "--store", "job.sqlite")
    ready = coordinator.stdout.readline()
    url = f"https://localhost:{ready.rpartition(':')[2].strip()}"
    rest = [*authority, *place.take_any, "--train", "training:step"]
    parties = [
        processes(
            *("join", url, "--job", "job", "--identity", place.identity(name), *rest, "--json"),
            *("--state-dir", f"state-{name}", "--out", f"{name}.npy"),
        )
        for name in "abc"
    ]
    for party in parties:
        out, err = party.communicate(timeout=60)
        assert (party.returncode, err) == (0, "")
        rounds = [json.loads(line) for line in out.splitlines()]
        # The first number was that of the key set-up.
        assert [one["round"] for one in rounds] == [2, 3]
        assert all(one["survivors"] == ["a", "b", "c"] and one["total_weight"] == 6 for one in rounds)
    out, err = coordinator.communicate(timeout=60)
    assert (coordinator.returncode, err) == (0, "")
    assert "round 1: key set-up, 3 parties\n" in out
    assert "round 1: key set-up, held by 3 of 3 parties" in out
    assert "round 3: sum of 3 of 3 parties" in out
    assert out.endswith("blindsum: stopped; 2 rounds have a result\n")
    models = [np.load(tmp_path / f"{name}.npy") for name in "abc"]
    assert np.allclose(models[0], 1.0, atol=1e-3)
    assert all(np.array_equal(model, models[0]) for model in models)
