"""Three servers that compute together, in simulations."""

import json

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main

NAMES = ("coordinator", "second server", "third server")


def spec(**changes):
    fields = {"protocol": "mpc3", "parties": 8, "dim": 50, "dropout": 0.25} | changes
    return bs.JobSpec.from_settings(list(fields.items()))


@pytest.mark.parametrize("adversary", ["active", "semi-honest"])
def test_simulate_prints_the_promised_object_and_each_server(adversary, capsys):
    words = ["simulate", "--protocol", "mpc3", "--parties", "16", "--dim", "100000"]
    assert main([*words, "--adversary", adversary, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["protocol"], report["parties"], report["dim"]) == ("mpc3", 16, 100_000)
    assert (report["outcome"], report["fault"], report["exact"]) == ("sum", None, True)
    assert report["survivors"] == 16
    assert report["max_abs_error"] > 0
    assert [stage["name"] for stage in report["stages"]] == ["upload", "open", "result"]
    assert tuple(server["name"] for server in report["servers"]) == NAMES
    assert report["servers"][0]["server_ms"] == report["server_ms"]
    for server in report["servers"]:
        assert server["server_rounds"] == 3
        assert server["server_ms"] > 0
        assert server["server_bytes"] == server["received_bytes"] + server["sent_bytes"]
    received = sum(server["received_bytes"] for server in report["servers"])
    assert received > 16 * (report["up_bytes_per_party"] - 1)


def test_the_text_has_a_row_for_each_server(capsys):
    words = ["simulate", "--protocol", "mpc3", "--parties", "5", "--dim", "20"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in NAMES)
    assert "rounds between servers" in text
    assert main(["plain" if word == "mpc3" else word for word in words]) == 0
    assert "second server" not in capsys.readouterr().out


def test_servers_of_a_result():
    result = bs.simulate(spec(), drop=0.25)
    assert (result.survivors, result.exact) == (6, True)
    assert tuple(server.name for server in result.servers) == NAMES
    assert {server.server_rounds for server in result.servers} == {3}
    alone = bs.simulate(spec(protocol="plain"))
    assert alone.servers == ()
    assert "servers" not in alone.to_dict()


@pytest.mark.parametrize("encoding", ["quantised", "fixed64", "integers"])
def test_sums_of_every_encoding(encoding):
    job = spec(encoding=encoding, max_weight=10)
    integers = encoding == "integers"
    rows = np.random.default_rng(1).integers(0, 2, (8, 50))
    given = rows if integers else rows.astype(np.float64)
    weights = list(range(1, 9))
    result = bs.simulate(job, given, weights=weights)
    assert result.exact
    if integers:
        assert np.array_equal(result.sum, (rows * np.array(weights)[:, None]).sum(axis=0))
    expected = np.average(rows, axis=0, weights=weights)
    assert np.abs(result.mean - expected).max() <= job.max_error + 1e-9


@pytest.mark.parametrize(("stage", "survivors"), [("upload", 6), ("open", 8), ("result", 8)])
def test_parties_that_vanish(stage, survivors):
    result = bs.simulate(spec(), drop_at={stage: 2})
    assert (result.survivors, result.exact) == (survivors, True)


def test_too_few_uploads_end_the_round():
    result = bs.simulate(spec(), drop_at={"upload": 6})
    assert (result.outcome, result.survivors) == ("abort", 0)
    assert "too few parties are left" in result.fault


def test_messages_take_time_also_between_servers():
    # Parts and receipts, an answer, what the servers are told, three rounds of letters, an answer, the sum.
    assert bs.simulate(spec(), latency=0.05).virtual_seconds == pytest.approx(9 * 0.05)
    assert bs.simulate(spec(protocol="plain"), latency=0.05).virtual_seconds == pytest.approx(2 * 0.05)
    late = bs.simulate(spec(stage_deadline=1.0), latency=0.3)
    assert (late.outcome, late.survivors) == ("abort", 0)


def test_campaigns_play_its_servers(capsys):
    tally = bs.campaign(spec(), steps=5000, seed=1)
    assert tally.rounds > 0
    assert tally.kills > 0
    assert main(["simulate", "--protocol", "mpc3", "--parties", "5", "--dim", "10", "--faults", "10"]) == 0
    assert "every promise was kept" in capsys.readouterr().out
