"""Three servers that compute together, over mutual TLS: from Python and from the command line."""

import json
import signal
import threading
import time

import numpy as np
import pytest
from conftest import listen_at, three_urls

import blindsum as bs
from blindsum import pki
from blindsum.cli import main


def spec_of(place, **fields):
    fields = {"protocol": "mpc3", "parties": 4, "rounds": 2, "dropout": 0.25} | fields
    return place.spec(**fields)


def take_part(place, coordinator, name, means):
    """Give the same update in every round, whatever becomes of the round before."""
    with place.join(coordinator, name, give_up_after=20.0) as session:
        for current in session.rounds(on_lost=lambda _: None):
            time.sleep(0.3)
            current.submit(np.full(4, 0.5))
            if (mean := current.result()) is not None:
                means.append(mean)


def test_a_server_that_is_started_again_takes_part_in_the_next_round(place):
    spec = spec_of(place, rounds=4, stage_deadline=2.0)
    urls, means = three_urls(), {rank: [] for rank in range(3)}
    options = {"servers": urls, "listen": listen_at(urls[0]), "limits": {"reconnect_grace": 1.0}}
    state, restarted = place.folder / "state-of-third", False
    with (
        place.server(spec, urls, 1),
        bs.Coordinator(spec, identity=place.folder / "agg", ca=place.folder, **options) as coordinator,
    ):
        third = place.server(spec, urls, 2, state_dir=state)
        parties = [
            threading.Thread(target=take_part, args=(place, coordinator, f"party-{rank}", means[rank]))
            for rank in range(3)
        ]
        for party in parties:
            party.start()
        for status in coordinator.statuses():
            if not restarted and status["rounds_done"] == 1:
                restarted = True
                third.stop()
                assert third.wait(10.0)
                third = place.server(spec, urls, 2, state_dir=state)
        for party in parties:
            party.join(30.0)
        third.stop()
        assert third.wait(10.0)
    assert restarted
    assert [len(of_party) for of_party in means.values()] == [4, 4, 4]
    for mean in (mean for of_party in means.values() for mean in of_party):
        assert np.abs(mean - 0.5).max() <= spec.max_error


def test_every_end_of_a_round_is_told(place):
    spec = spec_of(place, parties=3, rounds=40, dropout=0.0)

    def play(coordinator, name):
        with place.join(coordinator, name, give_up_after=20.0) as session:
            for current in session.rounds():
                current.submit(np.full(4, 0.5))
                current.result()

    with place.coordinator(spec) as coordinator:
        parties = [threading.Thread(target=play, args=(coordinator, f"party-{rank}")) for rank in range(3)]
        for party in parties:
            party.start()
        ends = []
        for status in coordinator.statuses():
            current = status["round"]
            if current is not None and current["state"] == "done":
                ends.append(current["number"])
        for party in parties:
            party.join(30.0)
    assert sorted(set(ends)) == list(range(1, 41))
    assert ends == sorted(ends)


def test_a_party_names_all_three_servers(place):
    spec = spec_of(place)
    with (
        place.coordinator(spec) as coordinator,
        pytest.raises(bs.BlindsumError, match="servers"),
    ):
        bs.join(
            coordinator.servers[0],
            job="job",
            identity=place.identity("party-0"),
            ca=place.folder,
            policy=bs.Policy(**place.any_job),
            give_up_after=3.0,
        ).next_round(timeout=5.0)


def test_a_job_that_needs_more_memory_than_a_server_has_is_refused(place):
    of_sum = spec_of(place, parties=16, dim=1000)
    assert of_sum.server_memory == 2 * 6 * 20 * 1000 // 8 + 2 * 4 * 1000
    assert place.spec(parties=16, dim=1000).server_memory == 0
    spec = spec_of(place, rule="median", dim=1_000_000, min_parties=4)
    assert 20e9 < spec.server_memory < 60e9
    with pytest.raises(bs.ConfigError, match=r"limits\.computing_memory: .*computes with up to [0-9]+ bytes"):
        place.server(spec, three_urls(), 1)
    small = {"limits": {"computing_memory": of_sum.server_memory - 1}}
    with (
        pytest.raises(bs.ConfigError, match=f"{of_sum.server_memory} <= computing_memory"),
        place.coordinator(of_sum, **small),
    ):
        pass


@pytest.mark.parametrize(
    "urls", [[], 5, ["https://a.example", 3], ["https://a.example", "https://b.example"]]
)
def test_a_list_of_servers_that_is_none(place, urls):
    with pytest.raises(bs.ConfigError):
        bs.join(urls, job="job", identity=place.identity("party-0"), ca=place.folder)


def test_a_server_needs_a_job_and_a_certificate_for_it(place):
    urls = three_urls()
    spec = spec_of(place)
    common = {"identity": place.folder / "server-1", "ca": place.folder, "state_dir": place.folder / "s"}
    with pytest.raises(bs.ConfigError, match="place"):
        bs.Server(spec, servers=urls, place=3, **common)
    with pytest.raises(bs.ConfigError, match="needs no second server"):
        place.server(place.spec(), urls, 1)
    with pytest.raises(bs.BlindsumError, match="server"):
        place.server(spec, urls, 1, identity=place.folder / "agg")
    with pytest.raises(bs.ConfigError, match="certificate"):
        place.server(spec, urls, 2, identity=place.folder / "server-1")
    with pytest.raises(bs.ConfigError, match="servers"):
        bs.Coordinator(spec, identity=place.folder / "agg", ca=place.folder)


def test_servers_that_no_job_needs_are_refused(place, capsys, tmp_path):
    spec, urls = place.spec(), three_urls()
    common = {"identity": place.folder / "agg", "ca": place.folder}
    with pytest.raises(bs.ConfigError, match="servers: no job here has other servers"):
        bs.Coordinator(spec, servers=urls, **common)
    (tmp_path / "job.json").write_text(spec.to_json())
    arguments = ["--job", tmp_path / "job.json", "--ca", place.folder / "ca.pem", "--servers", ",".join(urls)]
    serve = ["serve", *arguments, "--identity", place.folder / "agg", "--listen", "127.0.0.1:0"]
    assert main([str(argument) for argument in serve]) == 2
    assert "--servers: no job here has other servers" in capsys.readouterr().err
    with place.coordinator(spec) as coordinator:
        port = coordinator.address.rpartition(":")[2]
        urls = [f"https://localhost:{port}", *urls[1:]]
        options = {"policy": bs.Policy(**place.any_job), "give_up_after": 3.0}
        with pytest.raises(bs.ConfigError, match="servers: the coordinator's job has no other servers"):
            bs.join(urls, job="job", identity=place.identity("party-0"), ca=place.folder, **options)


def test_a_damaged_record_of_a_server_says_what_to_do(place, tmp_path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "last-round").write_bytes(b"torn")
    server = place.server(spec_of(place), three_urls(), 1, state_dir=tmp_path)
    with pytest.raises(bs.BlindsumError, match=r"last-round: damaged.*Remove it"):
        server.wait(10.0)


def test_serve_and_join_from_the_shell(place, processes, tmp_path):
    spec, urls = spec_of(place, parties=3, rounds=1, max_weight=10), three_urls()
    (tmp_path / "job.json").write_text(spec.to_json())
    common = ["--job", "job.json", "--ca", place.folder / "ca.pem", "--servers", ",".join(urls)]
    serve = ["serve", "--json", *common, "--listen"]
    first = processes(*serve, listen_at(urls[0]), "--identity", place.folder / "agg")
    others = [
        processes(
            *serve,
            listen_at(urls[number]),
            *(
                "--identity",
                place.folder / f"server-{number}",
                "--server",
                number,
                "--state-dir",
                f"s{number}",
            ),
        )
        for number in (1, 2)
    ]
    parties = [
        processes(
            *("join", ",".join(urls), "--json", "--job", "job", "--train", "training:step"),
            *("--identity", place.identity(f"party-{rank}"), "--ca", place.folder / "ca.pem"),
            *place.take_any,
        )
        for rank in range(3)
    ]
    for party in parties:
        out, errors = party.communicate(timeout=60)
        assert party.returncode == 0, errors
        assert json.loads(out.splitlines()[-1])["survivors"] == [f"party-{rank}" for rank in range(3)]
    for server, number in zip(others, (1, 2), strict=True):
        out, errors = server.communicate(timeout=60)
        assert server.returncode == 0, errors
        events = [json.loads(line) for line in out.splitlines()]
        assert [event["event"] for event in events] == ["ready", "stopped"]
        assert events[0]["server"] == number
        assert_no_warning_of_the_end(errors)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 0
    assert_no_warning_of_the_end(errors)


def assert_no_warning_of_the_end(log):
    """That servers leave when the job is over is no reason to warn."""
    left = [line for line in log.splitlines() if "line lost" in line or "server left" in line]
    assert not [line for line in left if "WARN" in line]


def test_a_server_stops_on_a_signal(place, processes, tmp_path):
    spec, urls = spec_of(place), three_urls()
    (tmp_path / "job.json").write_text(spec.to_json())
    server = processes(
        *("serve", "--job", "job.json", "--ca", place.folder / "ca.pem", "--servers", ",".join(urls)),
        *("--server", 1, "--state-dir", "state", "--listen", listen_at(urls[1])),
        *("--identity", place.folder / "server-1"),
    )
    assert "server 1 of job job" in server.stdout.readline()
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["--server", "1"], "--state-dir"),
        (["--server", "1", "--state-dir", "s", "--store", "x.sqlite"], "--store"),
        (["--state-dir", "s"], "--state-dir"),
    ],
)
def test_flags_that_do_not_fit_together(place, tmp_path, words, field, capsys):
    (tmp_path / "job.json").write_text(spec_of(place).to_json())
    common = ["serve", "--job", str(tmp_path / "job.json"), "--ca", str(place.folder / "ca.pem")]
    assert main([*common, "--identity", str(place.folder / "agg"), *words]) == 2
    assert field in capsys.readouterr().err


def test_certificates_of_servers(tmp_path, capsys):
    pki.init(tmp_path)
    words = ["pki", "issue", str(tmp_path), "second", "--server"]
    assert main(words) == 2
    assert "--host" in capsys.readouterr().err
    assert main([*words, "--host", "second.example"]) == 0
    capsys.readouterr()
    assert main(["pki", "show", str(tmp_path / "second.pem")]) == 0
    assert "second.example" in capsys.readouterr().out
    with pytest.raises(bs.IdentityError, match="a server needs"):
        pki.issue(tmp_path, "third", computes=True)
