"""Jobs under Paillier's scheme over mutual TLS: their key service, who is lost, and the order of rings."""

import json
import signal
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from conftest import listen_at, three_urls

import blindsum as bs
from blindsum.coordinator import stored_jobs, stored_model, stored_rounds

RING, BROADCAST, ALL_REDUCE = "paillier-ring", "paillier-broadcast", "paillier-allreduce"
ELSEWHERE = "127.0.0.2"
"""The host of a decryptor at another organisation."""


class Learner(threading.Thread):
    """A party that gives the same update in every round, and keeps what comes of each."""

    def __init__(self, place, coordinator, rank, **options):
        super().__init__()
        self.results, self.rosters = [], []
        self.session = place.join(coordinator, f"party-{rank}", **options)
        self.update = update(rank)
        self.start()

    def run(self):
        with self.session:
            for current in self.session.rounds():
                self.rosters.append(current.parties)
                current.submit(self.update)
                self.results.append(current.result())


def update(rank):
    return np.full(4, (rank + 1) / 8)


def mean(ranks):
    return np.mean([update(rank) for rank in ranks], axis=0)


@pytest.mark.parametrize("protocol", [RING, BROADCAST, ALL_REDUCE])
def test_case_37_a_learner_that_is_lost_costs_a_round_and_returns(place, protocol):
    spec = place.spec(protocol=protocol, parties=4, min_parties=3, rounds=2, input_deadline=3.0)
    limits = {"reconnect_grace": 0.2}
    with place.coordinator(spec, limits=limits) as coordinator:
        learners = [Learner(place, coordinator, rank) for rank in range(3)]
        # It takes its place in the first round, and vanishes in it.
        lost = place.join(coordinator, "party-3")
        first = lost.next_round()
        assert len(first.parties) == 4
        lost.close()
        learners.append(Learner(place, coordinator, 3))
        for learner in learners:
            learner.join(60)
            assert not learner.is_alive()
    for learner in learners[:3]:
        results = [result for result in learner.results if result is not None]
        assert len(results) == 2
        for result, roster in zip(results, learner.rosters[-2:], strict=True):
            ranks = [int(name[-1]) for name in roster]
            assert np.abs(result - mean(ranks)).max() <= spec.max_error
        # Nobody is in the sum of a round that it was lost in.
        assert learner.results[0] is None
        assert learner.rosters[0] == first.parties


class Truant(threading.Thread):
    """A party that is in every round that takes it, and never gives an update."""

    def __init__(self, place, coordinator, rank):
        super().__init__()
        self.rounds = 0
        self.session = place.join(coordinator, f"party-{rank}")
        self.start()

    def run(self):
        with self.session:
            for _ in self.session.rounds(on_lost=lambda _: None):
                self.rounds += 1


@pytest.mark.parametrize("protocol", [RING, BROADCAST, ALL_REDUCE])
def test_case_37_a_party_that_is_always_late_costs_ever_fewer_rounds(place, protocol):
    fields = {"parties": 4, "min_parties": 2, "input_deadline": 1.5, "join_deadline": 2.0}
    spec = place.spec(protocol=protocol, rounds=6, **fields)
    with place.coordinator(spec, limits={"failed_rounds": 3}) as coordinator:
        truant = Truant(place, coordinator, 0)
        learners = [Learner(place, coordinator, rank) for rank in range(1, 4)]
        for learner in learners:
            learner.join(60)
            assert not learner.is_alive()
        reports = [status["round"] for status in coordinator.statuses() if status["round"]]
        truant.join(60)
    results = [result for result in learners[0].results if result is not None]
    assert len(results) == 6
    assert all(np.abs(result - mean([1, 2, 3])).max() <= spec.max_error for result in results)
    # It is in the first round, and sits out one, then two, then four.
    assert 1 <= truant.rounds <= 3
    lost = {report["reason"] for report in reports if report["state"] == "aborted"}
    assert lost
    assert all("lost party-0 (" in reason for reason in lost), lost


def test_case_37_a_key_service_that_stands_still_is_named(place, processes, tmp_path, urls):
    spec = elsewhere(place, rounds=0, stage_deadline=1.0, max_weight=10)
    (tmp_path / "job.json").write_text(spec.to_json())
    store = tmp_path / "job.sqlite"
    common = [
        "serve",
        "--json",
        "--job",
        "job.json",
        "--ca",
        place.folder / "ca.pem",
        "--servers",
        ",".join(urls),
    ]
    processes(*common, "--listen", listen_at(urls[0]), "--identity", place.folder / "agg", "--store", store)
    service = ("--identity", place.folder / "server-1", "--server", "decryptor", "--state-dir", "s")
    decryptor = processes(*common, "--listen", listen_at(urls[1]), *service)
    for rank in range(3):
        processes(
            *("join", urls[0], "--json", "--job", "job", "--train", "training:step"),
            *("--identity", place.identity(f"party-{rank}"), "--ca", place.folder / "ca.pem"),
            *place.take_any,
        )
    until_rounds(store, 1)
    decryptor.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 60
    while not (lost := [one for one in stored_rounds(store, "job") if one["state"] == "aborted"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    decryptor.send_signal(signal.SIGCONT)
    assert "no sum without the decryptor, which is out of the round" in lost[0]["reason"]
    until_rounds(store, 1)


@pytest.fixture
def urls():
    return three_urls()[:2]


def elsewhere(place, protocol=RING, **fields):
    return place.spec(protocol=protocol, parties=3, decryptor=ELSEWHERE, **fields)


@pytest.mark.parametrize("protocol", [RING, BROADCAST, ALL_REDUCE])
def test_the_key_service_is_a_server_of_another_organisation(place, urls, protocol):
    spec = elsewhere(place, protocol, rounds=2)
    assert spec.decryptor == ELSEWHERE
    options = {"servers": urls, "listen": listen_at(urls[0])}
    with place.server(spec, urls, 1), place.coordinator(spec, **options) as coordinator:
        learners = [Learner(place, coordinator, rank) for rank in range(3)]
        for learner in learners:
            learner.join(60)
    for learner in learners:
        assert len(learner.results) == 2
        for result, first in zip(learner.results, learners[0].results, strict=True):
            assert np.array_equal(result, first)
            assert np.abs(result - mean(range(3))).max() <= spec.max_error


def test_from_the_shell(place, processes, tmp_path, urls):
    spec = elsewhere(place, rounds=1, max_weight=10)
    (tmp_path / "job.json").write_text(spec.to_json())
    common = ["--json", "--job", "job.json", "--ca", place.folder / "ca.pem", "--servers", ",".join(urls)]
    serve = ["serve", *common, "--listen"]
    coordinator = processes(*serve, listen_at(urls[0]), "--identity", place.folder / "agg")
    service = ("--identity", place.folder / "server-1", "--server", "decryptor", "--state-dir", "s")
    decryptor = processes(*serve, listen_at(urls[1]), *service)
    parties = [
        processes(
            *("join", urls[0], "--json", "--job", "job", "--train", "training:step", "--location", "x"),
            *("--identity", place.identity(f"party-{rank}"), "--ca", place.folder / "ca.pem"),
            *place.take_any,
        )
        for rank in range(3)
    ]
    for party in parties:
        out, errors = party.communicate(timeout=60)
        assert party.returncode == 0, errors
        assert json.loads(out.splitlines()[-1])["survivors"] == [f"party-{rank}" for rank in range(3)]
    for server in (decryptor, coordinator):
        _, errors = server.communicate(timeout=60)
        assert server.returncode == 0, errors


def until_rounds(store, more):
    """Wait until so many more rounds of the job in a store have given a sum."""

    def done():
        jobs = stored_jobs(store) if store.exists() else []
        return jobs[0]["rounds_done"] if jobs else 0

    enough, deadline = done() + more, time.monotonic() + 60
    while done() < enough:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_rounds_go_on_where_servers_are_killed_and_started_again(place, processes, tmp_path, urls):
    spec = elsewhere(place, rounds=0, stage_deadline=3.0, max_weight=10)
    (tmp_path / "job.json").write_text(spec.to_json())
    store = tmp_path / "job.sqlite"
    common = [
        "serve",
        "--json",
        "--job",
        "job.json",
        "--ca",
        place.folder / "ca.pem",
        "--servers",
        ",".join(urls),
    ]

    def coordinator():
        listen = ("--listen", listen_at(urls[0]), "--identity", place.folder / "agg")
        return processes(*common, *listen, "--store", store)

    def decryptor():
        listen = ("--listen", listen_at(urls[1]), "--identity", place.folder / "server-1")
        return processes(*common, *listen, "--server", "decryptor", "--state-dir", "s")

    running = {coordinator: coordinator(), decryptor: decryptor()}
    parties = [
        processes(
            *("join", urls[0], "--json", "--job", "job", "--train", "training:step"),
            *("--identity", place.identity(f"party-{rank}"), "--ca", place.folder / "ca.pem"),
            *place.take_any,
        )
        for rank in range(3)
    ]
    until_rounds(store, 2)
    for killed in (decryptor, coordinator, decryptor):
        running[killed].kill()
        running[killed].wait()
        running[killed] = killed()
        until_rounds(store, 2)
    assert [party.poll() for party in parties] == [None] * 3
    everybody = [f"party-{rank}" for rank in range(3)]
    done = [report for report in stored_rounds(store, "job") if report["state"] == "done"]
    assert len(done) >= 8
    assert all(report["survivors"] == everybody for report in done)
    # Every round that gave a sum has added one half, and no other round anything.
    version = stored_jobs(store)[0]["model_version"]
    model = stored_model(store, "job", version)
    assert np.abs(model - version / 2).max() <= version * spec.max_error


def test_whose_server_decrypts_is_in_the_job(place, urls):
    spec = elsewhere(place)
    with pytest.raises(bs.ConfigError, match="servers: must be two URLs"), place.coordinator(spec):
        pass
    for wrong in ([urls[0], "https://127.0.0.3:1"], [*urls, "https://127.0.0.3:1"]):
        refused = pytest.raises(bs.ConfigError, match=r"servers: .*must be")
        with refused, place.coordinator(spec, servers=wrong):
            pass
    embedded = place.spec(protocol=RING, parties=3)
    with (
        pytest.raises(bs.ConfigError, match="servers: no job here has other servers"),
        place.coordinator(embedded, servers=urls),
    ):
        pass
    with pytest.raises(bs.ConfigError, match="the second must be at"):
        place.server(embedded, urls, 1)
    with pytest.raises(bs.ConfigError, match="place"):
        place.server(spec, urls, 2)
    for host in ("UPPER.example", "a b", "-" * 256):
        with pytest.raises(bs.ConfigError, match="decryptor"):
            place.spec(protocol=RING, decryptor=host)


@pytest.mark.parametrize("order", ["name", "location", "hash"])
def test_learners_stand_in_the_order_of_the_job(place, order):
    spec = place.spec(protocol=RING, parties=3, rounds=1, order=order)
    places = ["oslo", "lima", "lima"]
    with place.coordinator(spec) as coordinator:
        learners = [Learner(place, coordinator, rank, location=places[rank]) for rank in range(3)]
        for learner in learners:
            learner.join(60)
        coordinator.stop()
        last = list(coordinator.statuses())[-1]
    ranks = [int(name[-1]) for name in last["round"]["parties"]]
    if order == "hash":
        assert sorted(ranks) == [0, 1, 2]
    else:
        assert ranks == ([0, 1, 2] if order == "name" else [1, 2, 0])
    assert np.abs(learners[0].results[0] - mean(ranks)).max() <= spec.max_error


def test_a_location_is_one_short_line(place):
    with place.coordinator(place.spec(protocol=RING)) as coordinator:
        for location in ("x" * 65, "two\nlines"):
            with pytest.raises(bs.ConfigError, match=r"location: .*at most 64 characters"):
                place.join(coordinator, "party-0", location=location)
        with pytest.raises(bs.ConfigError, match="location: must be a text"):
            place.join(coordinator, "party-0", location=7)


def test_a_simulated_round_begins_again_without_who_was_lost(place):
    for protocol in (RING, BROADCAST, ALL_REDUCE):
        for stage in (0, 2, 3):
            one = bs.simulate(place.spec(protocol=protocol, parties=5), drop_at={str(stage): 1})
            assert (one.exact, one.survivors, one.begun) == (True, 4, 2), (protocol, stage)


def test_rules_of_such_jobs(place):
    for fields, rule in [
        ({"parties": 1}, "parties"),
        ({"parties": 251}, "parties"),
        ({"min_parties": 1, "parties": 3}, "min_parties"),
        ({"key_bits": "1024"}, "key_bits"),
        ({"key_minutes": -1.0}, "key_minutes"),
        ({"order": "age"}, "order"),
    ]:
        with pytest.raises(bs.ConfigError, match=rule):
            place.spec(protocol=RING, **fields)


def test_who_never_gives_stops_no_job_whose_others_were_lost_before(place):
    """The others have back-offs, too, and come before the party with which the latest round was lost."""
    spec = place.spec(protocol=BROADCAST, parties=4, min_parties=2, rounds=0, dim=4, join_deadline=1.0)
    before = 12
    sits_out = threading.Event()

    def party(rank):
        # The job has no end, and the coordinator goes.
        with suppress(bs.NetworkError), place.join(coordinator, f"party-{rank}") as session:
            for current in session.rounds(lambda error: None):
                # At first the first three take turns in having no update, then the last one never has one.
                if rank == 3 and sits_out.is_set():
                    continue
                if rank < 3 and not sits_out.is_set() and current.number % 3 == rank:
                    continue
                current.submit(update(rank))
                current.result()

    lost, done = [], []
    with place.coordinator(spec, limits={"reconnect_grace": 0.05, "failed_rounds": 1000}) as coordinator:
        threads = [threading.Thread(target=party, args=(rank,), daemon=True) for rank in range(4)]
        for thread in threads:
            thread.start()
        for status in coordinator.statuses():
            current = status["round"]
            if current is None or current["state"] not in ("done", "aborted"):
                continue
            if not sits_out.is_set():
                if current["number"] >= before:
                    sits_out.set()
                continue
            (lost if current["state"] == "aborted" else done).append(current["number"])
            if len(set(done)) >= 20 or len(set(lost)) > 6:
                break
    assert len(set(done)) >= 20, f"lost {sorted(set(lost))}, done {sorted(set(done))}"
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
