"""SIGTERM and orders to a coordinator that runs in a process of its own, while parties train."""

import json
import signal
import threading
import time

import numpy as np
import pytest

import blindsum as bs
from blindsum.coordinator import stored_jobs, stored_rounds


@pytest.fixture
def serve(processes, place, tmp_path):
    """Starts a coordinator process on a store; gives it and where it listens."""

    def start(*words, listen="127.0.0.1:0", **fields):
        spec = place.spec(**{"input_deadline": 60.0, "join_deadline": 60.0} | fields)
        (tmp_path / "job.json").write_text(spec.to_json())
        process = processes(
            *("serve", "--job", "job.json", "--json", "--listen", listen, "--store", "store.sqlite"),
            *("--identity", place.folder / "agg", "--ca", place.folder / "ca.pem", *words),
        )
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        return process, ready["address"]

    return start


class Trainer:
    """A party on a thread that trains in round 1 until it is let go."""

    def __init__(self, place, address, name, go, patience=30.0):
        self.trains, self.results, self.error = threading.Event(), [], None
        self._place, self._url = place, f"https://localhost:{address.rpartition(':')[2]}"
        self._name, self._go, self._patience = name, go, patience
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        policy = bs.Policy(**self._place.any_job)
        files = {"identity": self._place.identity(self._name), "ca": self._place.folder / "ca.pem"}
        try:
            with bs.join(
                self._url, job="job", policy=policy, give_up_after=self._patience, **files
            ) as session:
                for current in session.rounds():
                    if current.number == 1:
                        self.trains.set()
                        assert self._go.wait(60)
                    current.submit(np.ones(4))
                    self.results.append((current.number, current.outcome().mean.tolist()))
        except bs.BlindsumError as error:
            self.error = error

    def wait(self):
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.results


def line_with(process, text):
    """The next line of its standard error with this text."""
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended without saying {text!r}")


def last_event(out):
    return json.loads(out.splitlines()[-1])


def test_sigterm_during_training_loses_no_round(serve, place, tmp_path):
    process, address = serve(rounds=2)
    go = threading.Event()
    parties = [Trainer(place, address, name, go) for name in "ab"]
    assert all(party.trains.wait(60) for party in parties)
    # Parties train: the store knows that, and who they are, a moment after they do.
    while (stored := stored_jobs(tmp_path / "store.sqlite")[0]["round"])["state"] == "joining":
        time.sleep(0.01)
    assert (stored["state"], stored["parties"]) == ("running", ["a", "b"])
    process.send_signal(signal.SIGTERM)
    line_with(process, "draining")
    go.set()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert last_event(out)["rounds_done"] == 1
    # Parties wait for the next one.
    serve(rounds=2, listen=address)
    for party in parties:
        (first, *_), (_, *_) = results = party.wait()
        assert first == 1
        assert [mean for _, mean in results] == [[1.0] * 4] * 2
    # A round may have been offered just before the order came. No round that had parties was lost.
    rounds = stored_rounds(tmp_path / "store.sqlite", "job")
    assert [report["state"] for report in rounds if report["parties"]] == ["done", "done"]


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once(serve, place, second):
    process, address = serve()
    go = threading.Event()
    parties = [Trainer(place, address, name, go, patience=1.0) for name in "ab"]
    assert all(party.trains.wait(60) for party in parties)
    process.send_signal(signal.SIGTERM)
    line_with(process, "draining")
    process.send_signal(second)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert last_event(out)["rounds_done"] == 0
    go.set()
    for party in parties:
        party.wait()


def test_a_drain_lasts_no_longer_than_its_limit(serve, place):
    process, address = serve("--limit", "drain_deadline=0.2")
    go = threading.Event()
    parties = [Trainer(place, address, name, go, patience=1.0) for name in "ab"]
    assert all(party.trains.wait(60) for party in parties)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert last_event(out)["rounds_done"] == 0
    go.set()
    for party in parties:
        party.wait()


def test_a_program_orders_its_coordinator(place, partner, tmp_path):
    spec = place.spec(rounds=1)
    with place.coordinator(spec, store=tmp_path / "store.sqlite") as coordinator:
        assert coordinator.pause("a look at the data").startswith("paused now")
        with pytest.raises(bs.OrderError, match="paused by program: a look at the data") as refused:
            coordinator.pause("again")
        assert refused.value.code == "unchanged"
        parties = [partner(place, coordinator, name, np.ones(4)) for name in "ab"]
        statuses = coordinator.statuses()
        held = next(status for status in statuses if len(status["connected"]) == 2)
        assert held["held"] == "paused by program: a look at the data"
        assert held["round"] is None
        assert "→ 2" in coordinator.extend("the loss still falls", rounds=2)
        assert coordinator.resume("looked at") == "rounds begin again"
        assert [len(party.wait()) for party in parties] == [2, 2]
        for refused_order in (
            lambda: coordinator.unban("a", "it was never banned"),
            lambda: coordinator.extend("nothing"),
            lambda: coordinator.ban("a", "", seconds=3.0),
        ):
            with pytest.raises(bs.OrderError):
                refused_order()
        with pytest.raises(bs.ConfigError, match=r"seconds: -1\.0 must be a number from 0"):
            coordinator.ban("a", "for no time", seconds=-1.0)
        with pytest.raises(bs.ConfigError, match=r"rounds: -1 must be a whole number from 0 \(without end\)"):
            coordinator.extend("less than nothing", rounds=-1)
    with pytest.raises(bs.OrderError) as refused:
        coordinator.resume("too late")
    assert refused.value.code == "stopping"


def test_a_program_drains_its_coordinator(place):
    with place.coordinator(place.spec(rounds=1)) as coordinator:
        with pytest.raises(bs.ConfigError, match="within"):
            coordinator.drain(within=-1)
        coordinator.drain("an upgrade")
        assert [status["state"] for status in coordinator.statuses()][-1] == "running"


def test_a_store_of_another_job_says_what_differs(serve, place, tmp_path):
    process, _ = serve(rounds=8)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    files = {"identity": place.folder / "agg", "ca": place.folder}
    spec = place.spec(rounds=10, input_deadline=60.0, join_deadline=60.0)
    with pytest.raises(bs.StoreError, match=r"rounds: 8 → 10; .*blindsum admin extend"):
        bs.Coordinator(spec, store=tmp_path / "store.sqlite", **files)
