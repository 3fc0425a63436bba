"""Rounds that a host begins at a coordinator elsewhere, as an operator: over the admin interface."""

import gc
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from test_hosted import DIM, Nodes, names, spec_of, value_of

import blindsum as bs
from blindsum.cli import main


@pytest.fixture(scope="module")
def operator(place):
    return place.operator("flora")


def served(place, spec=None, **options):
    options = {"admin": "127.0.0.1:0", "stop_when_done": False, "hosted": True} | options
    return place.coordinator(spec_of(place) if spec is None else spec, **options)


def admin_of(place, coordinator, identity):
    port = coordinator.admin.rpartition(":")[2]
    return bs.Admin(f"https://localhost:{port}", identity=identity, ca=place.folder / "ca.pem")


@pytest.fixture
def world(place, operator):
    """A coordinator, its host elsewhere, and its nodes."""
    with served(place) as coordinator, Nodes(place, coordinator) as nodes:
        yield coordinator, admin_of(place, coordinator, operator), nodes


@pytest.mark.parametrize("protocol", ["plain", "secagg", "secagg+", "fssa", "pss", "paillier-ring"])
@pytest.mark.parametrize(("bits", "precision"), [(16, "float32"), (30, "float64")])
def test_the_result_is_that_of_the_parties(place, operator, protocol, bits, precision):
    parties = 5
    spec = spec_of(place, parties=parties, min_parties=0, bits=bits, protocol=protocol)
    chosen = names(*range(parties))
    with served(place, spec) as coordinator, Nodes(place, coordinator) as nodes:
        admin = admin_of(place, coordinator, operator)
        for tag in (7, 8):
            told = nodes.train(chosen, tag, weight=3)
            result = admin.round("job", chosen, tag=tag)
            assert (result.tag, result.survivors, dict(result.lost)) == (tag, chosen, {})
            assert (result.total_weight, result.mean.dtype, result.model_version) == (15, precision, 0)
            for future in told.values():
                own = future.result()
                assert (own.result, own.survivors) == (result.result, result.survivors)
                assert np.array_equal(own.mean, result.mean)
                assert own.mean.dtype == result.mean.dtype
            expected = np.mean([value_of(name) for name in chosen])
            assert np.allclose(result.mean, expected, atol=spec.max_error)
            assert not result.mean.flags.writeable


def test_a_mean_of_many_pieces_and_exact_sums_of_integers_arrive(place, operator):
    dim = 700_001
    spec = spec_of(place, dim=dim, encoding="integers", bits=60, max_weight=1)
    values = np.arange(dim, dtype=np.uint64) << np.uint64(39)
    with (
        served(place, spec) as coordinator,
        Nodes(place, coordinator, update=lambda name: values) as nodes,
    ):
        told = nodes.train(names(0, 1, 2), 1)
        result = admin_of(place, coordinator, operator).round("job", names(0, 1, 2), tag=1)
        assert np.array_equal(result.sum, values * np.uint64(3))
        assert result.sum.dtype == next(iter(told.values())).result().sum.dtype
        assert np.array_equal(result.mean, next(iter(told.values())).result().mean)


def test_a_model_of_the_host_goes_to_the_parties(place, operator):
    spec = spec_of(place, model_update="add")
    start = np.array([0.5, -0.25, 3.0, 1e-9])
    with served(place, spec) as coordinator, Nodes(place, coordinator) as nodes:
        admin = admin_of(place, coordinator, operator)
        seen = {}
        told = nodes.train(names(0, 1, 2), 1, before=lambda name, job: seen.update({name: job.model(tag=1)}))
        admin.round("job", names(0, 1, 2), start, tag=1)
        assert all(isinstance(one.result(), bs.RoundResult) for one in told.values())
        assert all(np.array_equal(model, start.astype(np.float32)) for model in seen.values())
        with pytest.raises(bs.InputError, match="model: has 3 coordinates, and the job has 4"):
            admin.begin("job", names(0, 1, 2), start[:3])
        with pytest.raises(bs.InputError, match="coordinate 1 is not a finite number"):
            admin.begin("job", names(0, 1, 2), np.array([0.0, np.nan, 0.0, 0.0]))
    with (
        served(place) as coordinator,
        pytest.raises(bs.InputError, match="has no model"),
    ):
        admin_of(place, coordinator, operator).begin("job", names(0, 1, 2), start)


def test_a_host_says_who_has_failed_and_calls_off(world):
    _, admin, nodes = world
    told = nodes.train(names(0, 1, 2), 1)
    begun = admin.begin("job", names(0, 1, 2, 3), tag=1)
    begun.report_failed("node-3", "its process is gone")
    result = begun.result()
    assert result.survivors == names(0, 1, 2)
    assert "its process is gone" in result.lost["node-3"]
    assert all(isinstance(one.result(), bs.RoundResult) for one in told.values())
    begun = admin.begin("job", names(0, 1, 2), tag=2)
    with pytest.raises(bs.WaitTimeoutError):
        begun.result(timeout=0)
    begun.call_off("enough")
    with pytest.raises(bs.RoundLost, match="enough") as lost:
        begun.result()
    assert lost.value.tag == 2
    with pytest.raises(bs.RoundLost, match="enough"):
        begun.result()


@pytest.mark.parametrize(
    ("words", "named", "error", "said"),
    [
        ({"job": "other"}, {}, bs.CallError, "there is no such job here"),
        ({"parties": []}, {}, bs.ConfigError, "parties: 3 <= 0 names <= parties = 5"),
        ({"parties": ["a", "b", "a"]}, {}, bs.ConfigError, 'parties: "a" is named twice'),
        ({"parties": "node-1"}, {}, bs.ConfigError, "give a list of names"),
        ({}, {"tag": -1}, bs.ConfigError, "tag: -1 must be"),
        ({}, {"tag": 2**63}, bs.ConfigError, "tag: "),
        ({}, {"join_within": 0}, bs.ConfigError, "join_within"),
        ({}, {"deadline": float("nan")}, bs.ConfigError, "deadline"),
        ({"model": "text"}, {}, bs.InputError, "model"),
    ],
)
def test_what_cannot_be_is_named(world, words, named, error, said):
    _, admin, _ = world
    given = {"job": "job", "parties": names(0, 1, 2)} | words
    with pytest.raises(error, match=said.replace("(", "\\(")):
        admin.begin(given.pop("job"), given.pop("parties"), *given.values(), **named)


def test_only_a_hosted_job_is_hosted_and_one_round_at_a_time(place, operator, world):
    _, admin, _ = world
    begun = admin.begin("job", names(0, 1, 2))
    with pytest.raises(bs.CallError) as busy:
        admin.begin("job", names(0, 1, 2))
    assert busy.value.code == "busy"
    begun.call_off()
    assert admin.describe("job")["hosted"] is True
    admin.add(spec_of(place, job="second"), "a test", hosted=True)
    admin.add(spec_of(place, job="third"), "a test")
    admin.begin("second", names(0, 1, 2)).call_off()
    with pytest.raises(bs.CallError) as not_hosted:
        admin.begin("third", names(0, 1, 2))
    assert not_hosted.value.code == "not-hosted"


HOST = """
import sys
import blindsum as bs
admin = bs.Admin(sys.argv[1], identity=sys.argv[2], ca=sys.argv[3])
begun = admin.begin("job", ["node-0", "node-1", "node-2"], tag=1)
print("begun", flush=True)
begun.result()
"""


def test_a_host_that_is_killed_holds_no_round(place, operator, world):
    coordinator, admin, nodes = world
    at = f"https://localhost:{coordinator.admin.rpartition(':')[2]}"
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, at, str(operator), str(place.folder / "ca.pem")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert host.stdout.readline() == "begun\n"
    os.kill(host.pid, signal.SIGKILL)
    host.communicate()
    # Its round is called off, and the next host begins another one with the same tag.
    told = nodes.train(names(0, 1, 2), 2)
    result = None
    while result is None:
        # Until the coordinator has noticed, it is busy.
        with suppress(bs.CallError):
            result = admin.round("job", names(0, 1, 2), tag=2)
    assert result.survivors == names(0, 1, 2)
    assert all(isinstance(one.result(), bs.RoundResult) for one in told.values())


def test_a_coordinator_that_ends_is_told_of(place, operator):
    with served(place) as coordinator:
        begun = admin_of(place, coordinator, operator).begin("job", names(0, 1, 2))
        coordinator.stop()
    with pytest.raises((bs.NetworkError, bs.RoundLost)):
        begun.result()


def test_parties_begin_no_round(place, operator):
    """Whoever begins rounds learns sums: an operator may, a party may not."""
    with served(place) as coordinator:
        party = admin_of(place, coordinator, place.identity("node-0"))
        with pytest.raises(bs.NetworkError, match="certificates of operators"):
            party.begin("job", names(0, 1, 2))
        # It is as if nothing had been said.
        begun = admin_of(place, coordinator, operator).begin("job", names(0, 1, 2))
        begun.call_off()


def test_who_has_begun_a_round_is_in_the_audit_trail(place, operator, tmp_path):
    trail = tmp_path / "audit.jsonl"
    with served(place, audit=trail) as coordinator:
        admin = admin_of(place, coordinator, operator)
        admin.begin("job", names(0, 1, 2), tag=5).call_off()
        with pytest.raises(bs.ConfigError):
            admin.begin("job", names(0))
    entries = [json.loads(line) for line in trail.read_text().splitlines()]
    orders = [entry for entry in entries if entry["event"] == "order"]
    assert [(one["by"], one["order"], one["reason"]) for one in orders] == [
        ("flora", "round", "a round of tag 5 of 3 parties"),
        ("flora", "round", "a round of 1 parties"),
    ]


def test_from_the_command_line(place, operator, world, tmp_path, capsys):
    coordinator, _, nodes = world
    there = ["--at", f"https://localhost:{coordinator.admin.rpartition(':')[2]}"]
    there += ["--identity", str(operator), "--ca", str(place.folder / "ca.pem")]

    def run(*words):
        status = main(["admin", "round", "job", *map(str, words), *there])
        said = capsys.readouterr()
        return status, said.out, said.err

    told = nodes.train(names(0, 1, 2), 3)
    status, out, err = run("--parties", "node-0, node-1,node-2", "--tag", 3, "--out", tmp_path / "mean.npy")
    assert (status, err) == (0, "")
    result = told["node-1"].result()
    assert "tag 3: sum of node-0, node-1, node-2, total weight 3" in out
    assert np.array_equal(np.load(tmp_path / "mean.npy"), result.mean)
    told = nodes.train(names(0, 1, 2), 4)
    status, out, err = run("--parties", "node-0,node-1,node-2", "--tag", 4, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["result"] == told["node-0"].result().result
    status, out, err = run("--parties", "node-0,node-1,node-2", "--join-within", "0.05s")
    assert (status, out) == (1, "")
    assert "the round has no result" in err
    assert "lost: node-0: " in err
    status, out, err = run("--parties", "node-0,node-1,node-2", "--join-within", "0.05s", "--json")
    assert (status, set(json.loads(out)["lost"])) == (1, set(names(0, 1, 2)))
    status, out, err = run("--parties", "node-0")
    assert (status, out) == (2, "")
    assert "--parties: 3 <= 1 names" in err
    (tmp_path / "start.npy").write_bytes(b"nothing")
    status, out, err = run("--parties", "node-0,node-1,node-2", "--model", tmp_path / "start.npy")
    assert (status, out) == (2, "")
    assert "--model" in err


@pytest.fixture
def command(place, operator, capsys):
    """`blindsum admin round` at a coordinator: status, output and messages."""

    def run(coordinator, *words):
        there = ["--at", f"https://localhost:{coordinator.admin.rpartition(':')[2]}"]
        there += ["--identity", str(operator), "--ca", str(place.folder / "ca.pem")]
        status = main(["admin", "round", "job", *map(str, words), *there])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_a_mean_that_nobody_here_learns_is_refused_before_the_round(place, operator, command, tmp_path):
    with served(place, spec_of(place, protocol="flashe")) as coordinator:
        chosen = ",".join(names(0, 1, 2))
        status, out, err = command(coordinator, "--parties", chosen, "--out", tmp_path / "mean.npy")
        assert (status, out) == (2, "")
        assert "--out: " in err
        assert "job 'job'" in err
        assert "flashe" in err
        assert "blindsum join --out" in err
        # No round has begun: another host may begin one.
        admin = admin_of(place, coordinator, operator)
        assert admin.describe("job")["ended"] == []
        admin.begin("job", names(0, 1, 2)).call_off()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--parties", "node-0,node-1,node-2", "--about", "model"], "--about: needs a tag"),
        (["--parties", ""], "--parties: must be names of parties with commas between"),
        (["--parties", "node-0,,node-2"], "--parties: has an empty name"),
    ],
)
def test_what_is_wrong_in_a_command_is_named_by_its_flags(world, command, words, said):
    status, out, err = command(world[0], *words)
    assert (status, out) == (2, "")
    assert said in err
    assert "tag=" not in err
    assert ("--tag N" in err) == ("--about" in words)


def test_a_wrong_model_is_named_by_its_flag(place, operator, command, tmp_path):
    files = {}
    for name, values in (("short", [0.0] * 3), ("nan", [0.0, np.nan, 0.0, 0.0]), ("right", [0.0] * 4)):
        np.save(tmp_path / name, np.array(values))
        files[name] = tmp_path / f"{name}.npy"
    with served(place, spec_of(place, model_update="add")) as coordinator:
        for name, rule in (("short", "has 3 coordinates"), ("nan", "coordinate 1 is not a finite number")):
            status, _, err = command(coordinator, "--parties", "node-0,node-1,node-2", "--model", files[name])
            assert status == 2
            assert f"--model: {files[name]}: {rule}" in err
    with served(place) as coordinator:
        words = ["--parties", "node-0,node-1,node-2", "--model", files["right"]]
        status, _, err = command(coordinator, *words)
        assert status == 2
        assert "--model: " in err
        assert "leave --model out" in err


def test_a_round_goes_on_while_anything_of_its_admin_is_left(place, operator, world):
    """It is called off once the admin object and all rounds that it has begun are gone."""
    _, other, _ = world
    other.add(spec_of(place, job="second"), "a test", hosted=True)
    admin = admin_of(place, world[0], operator)
    first, second = admin.begin("job", names(0, 1, 2), tag=1), admin.begin("second", names(0, 1, 2), tag=1)
    del admin, first
    gc.collect()
    with pytest.raises(bs.WaitTimeoutError):
        second.result(timeout=0.5)
    with pytest.raises(bs.CallError, match="under way"):
        other.begin("job", names(0, 1, 2))
    del second
    gc.collect()
    for job in ("job", "second"):
        begun = None
        while begun is None:
            # Until the coordinator has noticed, it is busy.
            with suppress(bs.CallError):
                begun = other.begin(job, names(0, 1, 2))
        begun.call_off()


def test_serve_without_an_admin_address_has_no_host(place, capsys, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(f'job = "job"\nprotocol = "plain"\nparties = 3\ndim = {DIM}\n')
    words = ["serve", "--hosted", "--job", job, "--identity", place.identity("agg"), "--ca", place.folder]
    assert main([str(word) for word in words]) == 2
    assert "--hosted: needs --admin HOST:PORT" in capsys.readouterr().err
