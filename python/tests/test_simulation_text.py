"""Results of simulations and comparisons print as tables, and name what they are of."""

import json

import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.lies import LIES
from blindsum.misbehaviours import MISBEHAVIOURS

SPEC = bs.JobSpec(protocol="secagg", parties=10, dim=100)


def test_a_result_prints_what_the_command_prints():
    text = str(bs.simulate(SPEC, drop=0.1, seed=3))
    for part in ("stage", "masked-input", "secagg, 10 parties, 100 coordinates", "sum of 9 survivors: exact"):
        assert part in text
    assert "peak memory of this process" in text


def test_a_result_has_its_job_seed_and_rounds():
    result = bs.simulate(SPEC, rounds=3, seed=7)
    assert result.spec == SPEC
    assert result.seed == 7
    assert [one.outcome for one in result.rounds] == ["sum"] * 3
    assert [one.survivor_count for one in result.rounds] == [10] * 3
    assert result.rounds[-1].server_ms == result.server_ms
    assert len(bs.simulate(SPEC).rounds) == 1


def test_older_names_still_work():
    result = bs.simulate(SPEC)
    assert result.survivors == result.survivor_count == 10
    assert result.peak_rss_bytes == result.process_peak_bytes > 0
    assert LIES == MISBEHAVIOURS
    proved = bs.JobSpec(protocol="pss-malicious", parties=9, dim=10, corrupt=0.1)
    with pytest.warns(DeprecationWarning, match="called malicious and misbehaviour now"):
        old = bs.simulate(proved, liars=1, lie="non-bit")
    assert old.excluded == bs.simulate(proved, malicious=1, misbehaviour="non-bit").excluded


def test_the_command_takes_older_names(capsys):
    words = ["simulate", "--protocol", "pss-malicious", "--parties", "9", "--dim", "10", "--json"]
    assert main([*words, "--liars", "1", "--lie", "non-bit"]) == 0
    old = json.loads(capsys.readouterr().out)
    assert main([*words, "--malicious", "1", "--misbehaviour", "non-bit"]) == 0
    assert json.loads(capsys.readouterr().out)["excluded"] == old["excluded"]


def test_a_repetition_prints_its_table(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(bs.simulate(SPEC, seed=4).to_dict()))
    text = str(bs.simulate_again(file))
    assert "in the file" in text
    assert text.endswith("the same again")


def test_a_comparison_prints_its_summary():
    text = str(bs.sweep(protocol=["plain", "secagg"], parties=4, dim=10, drop=[0.1, 0.5]))
    assert "survivors" in text
    assert "dropped" in text
    assert "drop 0.1 of 4 parties is 0 parties, rounded down: nobody dropped out" in text


def test_a_drop_of_nobody_is_told(capsys):
    words = ["simulate", "--protocol", "plain", "--parties", "4", "--dim", "10"]
    assert main([*words, "--drop", "0.1"]) == 0
    assert "no party dropped out: drop 0.1 of 4 parties is 0" in capsys.readouterr().out
    assert main([*words, "--drop", "0.25"]) == 0
    assert "no party dropped out" not in capsys.readouterr().out


@pytest.mark.parametrize("settings", [{}, {"neighbours": 3}])
def test_an_option_of_another_protocol_is_refused_before_anything_runs(settings):
    protocol = "secagg" if settings else "secagg:neighbours=3"
    with pytest.raises(bs.ConfigError, match=r"neighbours is an option of secagg\+, not of secagg"):
        bs.sweep(protocol=protocol, parties=4, dim=10, settings=settings)


def test_a_comparison_in_which_nothing_is_possible_fails(capsys, tmp_path):
    words = ["compare", "--protocol", "secagg", "--dim", "10", "--jobs", "1", "--write", "markdown"]
    assert main([*words, "--parties", "2", "--out", str(tmp_path / "none")]) == 1
    assert main([*words, "--parties", "2,4", "--out", str(tmp_path / "some")]) == 0
    assert "2 runs" in capsys.readouterr().out


def test_a_coordinator_gives_the_model_of_its_store(place, partner, tmp_path):
    import numpy as np

    spec = place.spec(parties=1, min_parties=1, rounds=2)
    with (
        place.coordinator(spec, store=tmp_path / "job.sqlite") as coordinator,
        place.join(coordinator, "a") as session,
    ):
        for current in session.rounds():
            current.submit(np.full(4, 0.5))
            result = current.outcome()
    assert np.array_equal(coordinator.model, result.model)
    with place.coordinator(spec) as coordinator:
        with pytest.raises(bs.ConfigError, match="this coordinator stores no models: give store="):
            _ = coordinator.model
        coordinator.stop()
