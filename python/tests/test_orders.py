"""Orders after the last round, to a coordinator that was started again; health and the trail of orders."""

import http.client
import json
import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli.events import Lines


@pytest.fixture(scope="module")
def operator(place):
    return place.operator("olga")


@pytest.mark.parametrize("attempt", range(4))
def test_an_order_that_is_accepted_after_the_last_round_is_carried_out(place, partner, attempt):
    spec = place.spec(rounds=1, min_parties=2)
    with place.coordinator(spec, limits={"farewell": 20.0}) as coordinator:
        join = lambda name: partner(place, coordinator, name, np.ones(4))  # noqa: E731
        parties = {name: join(name) for name in "ab"}
        statuses = coordinator.statuses(quiet_after=0.1)
        next(status for status in statuses if status is not None and status["state"] == "done")
        try:
            coordinator.extend("one more", rounds=2)
            wanted = 2
        except bs.OrderError:
            wanted = 1
        done = 1
        for status in statuses:
            done = done if status is None else status["rounds_done"]
            if done == wanted:
                break
            # A party that had heard that the job was done has left, and comes back for the round that is new.
            gone = [name for name, party in parties.items() if party.has_ended()]
            parties |= {name: join(name) for name in gone}
    assert done == wanted


def test_an_operator_s_orders_reach_a_coordinator_that_was_started_again(place, operator, tmp_path):
    options = {"store": tmp_path / "s.sqlite", "admin": "127.0.0.1:0", "stop_when_done": False}
    with place.coordinator(place.spec(), **options) as coordinator:
        options["admin"] = coordinator.admin
        url = f"https://localhost:{coordinator.admin.rpartition(':')[2]}"
        admin = bs.Admin(url, identity=operator, ca=place.folder / "ca.pem")
        admin.order("job", "pause", "maintenance")
    with place.coordinator(place.spec(), **options):
        assert "olga" in admin.describe("job")["held"]
        admin.order("job", "resume", "it is over")
        for name in ("a\x1b[2Jb", "bad name", "a" * 5000):
            with pytest.raises(bs.OrderError, match=r"ban: party: name .* labels of \[a-z0-9-\]"):
                admin.order("job", "ban", "why not", party=name)
        with pytest.raises(bs.OrderError, match="reason: has a line break"):
            admin.order("job", "pause", "one\ntwo")


def test_serve_says_that_operators_hold_the_job():
    out = []
    lines = Lines(SimpleNamespace(line=out.append))
    status = {
        "warnings": [],
        "blocked": "",
        "left": {},
        "round": None,
        "state": "running",
        "connected": "ab",
        "min_parties": 2,
    }
    for held in ("", "paused by olga: maintenance", "paused by olga: maintenance", ""):
        lines.say("status", status | {"held": held})
    assert out == ["blindsum: paused by olga: maintenance", "blindsum: rounds begin again"]


def answer(address, path):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_a_job_that_operators_hold_is_not_ready(place, partner):
    spec = place.spec(rounds=0, join_deadline=60.0)
    with place.coordinator(spec, metrics="127.0.0.1:0") as coordinator:
        parties = [partner(place, coordinator, name, np.ones(4)) for name in "ab"]
        statuses = coordinator.statuses()
        next(status for status in statuses if status["rounds_done"] > 0)
        coordinator.pause("maintenance")
        next(status for status in statuses if status["held"])
        status, text = answer(coordinator.metrics, "/readyz/job")
        assert status == 503
        assert "operators let no round begin" in text
        assert answer(coordinator.metrics, "/readyz")[0] == 200
        coordinator.resume("it is over")
        next(status for status in statuses if not status["held"])
        assert answer(coordinator.metrics, "/readyz/job")[0] == 200
        coordinator.end("enough")
        for party in parties:
            party.wait()


def test_a_paused_job_misses_no_parties(place):
    with place.coordinator(place.spec(), metrics="127.0.0.1:0") as coordinator:
        assert "too few parties are connected" in answer(coordinator.metrics, "/readyz/job")[1]
        coordinator.pause("maintenance")
        first = answer(coordinator.metrics, "/readyz/job")[1].splitlines()[0]
        assert first.startswith("not ready: operators let no round begin")


def test_one_address_is_for_one_setting(place):
    with pytest.raises(bs.ConfigError, match=r'admin: "127\.0\.0\.1:19443" is the address of listen too'):
        bs.Coordinator(
            place.spec(),
            identity=place.folder / "agg",
            ca=place.folder,
            listen="127.0.0.1:19443",
            admin="127.0.0.1:19443",
        )


def test_orders_that_are_refused_are_in_the_audit_trail(place, tmp_path):
    trail = tmp_path / "audit.jsonl"
    with place.coordinator(place.spec(), audit=trail) as coordinator:
        coordinator.pause("maintenance")
        with pytest.raises(bs.OrderError):
            coordinator.pause("maintenance")
        with pytest.raises(bs.OrderError):
            coordinator.unban("nobody", "a slip")
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    orders = [(line["order"], line.get("refused", False)) for line in lines if line["event"] == "order"]
    assert orders == [("pause", False), ("pause", True), ("unban", True)]


def test_parties_are_told_who_paused_the_job_and_that_it_goes_on(place, processes, partner):
    spec = place.spec(rounds=1, parties=3, min_parties=3)
    with place.coordinator(spec, limits={"farewell": 20.0}) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        who = ("--identity", place.identity("a"), "--ca", place.folder / "ca.pem", *place.take_any)
        party = processes("join", url, "--job", "job", *who, "--train", "training:light")
        assert party.stdout.readline().startswith("joined job")
        told, session = queue.SimpleQueue(), place.join(coordinator, "b")
        assert session.held == ""

        def take_part():
            with session:
                for current in session.rounds(on_held=told.put):
                    current.submit(np.ones(4))

        thread = threading.Thread(target=take_part)
        thread.start()
        coordinator.pause("hospital-b moves")
        reason = "paused by program: hospital-b moves"
        assert party.stdout.readline() == f"no round begins: {reason}\n"
        assert told.get(timeout=60) == reason
        assert session.held == reason
        # Whoever comes now is told, too.
        with place.join(coordinator, "c") as late:
            assert late.held == reason
        coordinator.resume("it has moved")
        assert party.stdout.readline() == "rounds begin again\n"
        assert told.get(timeout=60) == ""
        third = partner(place, coordinator, "c", np.ones(4))
        thread.join(60)
        third.wait()
        assert party.wait(60) == 0
