"""What happens in a session is said: a second update, a round that is sat out, an end amid a round."""

import json
import logging
import signal
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

import blindsum as bs
from blindsum import machines
from blindsum.domains import Domain, PeerLost

LONG = {"parties": 3, "min_parties": 2, "join_deadline": 60.0, "input_deadline": 60.0, "stage_deadline": 60.0}
OTHERS = ("b", "c")

TRAINING = """
import numpy as np

u = np.full(4, 0.5, np.float32)

def step(model, number):
    return {what} if number == 1 else (u, 1)

def nothing(model, number):
    raise SystemExit("it is never called")
"""


class Held:
    """Parties that give their updates when they are let."""

    def __init__(self, place, coordinator, names=OTHERS):
        self.go_on = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(place, coordinator, name)) for name in names]
        for thread in self.threads:
            thread.start()

    def _run(self, place, coordinator, name):
        # A coordinator that a failed test stops is no news.
        with suppress(bs.NetworkError), place.join(coordinator, name) as session:
            for current in session.rounds(on_lost=lambda _: None):
                self.go_on.wait(60)
                current.submit(np.zeros(4))

    def finish(self):
        self.go_on.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


def wait_for(coordinator, wanted):
    for status in coordinator.statuses():
        if wanted(status):
            return status
    raise AssertionError("it never came there")


def is_out(status):
    """Whether the update of party "a" is with the coordinator, and the others hold theirs back."""
    current = status["round"]
    waits_for = status["waiting_for"]
    return current is not None and current["state"] == "running" and waits_for and "a" not in waits_for


def with_update_out(session, coordinator):
    current = session.next_round()
    current.submit(np.full(4, 0.5))
    wait_for(coordinator, is_out)
    return current


@pytest.mark.parametrize("protocol", ["plain", "secagg", "flashe"])
def test_a_second_update_and_one_after_the_end_are_refused(place, partner, protocol):
    spec = place.spec(**{**LONG, "protocol": protocol, "rounds": 2, "adversary": "semi-honest"})
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.5)) for name in OTHERS]
        with place.join(coordinator, "a") as session:
            for current in session.rounds():
                current.submit(np.full(4, 0.5))
                with pytest.raises(
                    bs.SubmitError, match=f"round {current.number}: .*submitted already"
                ) as second:
                    current.submit(np.full(4, 0.9))
                assert np.allclose(current.result(), 0.5, atol=1e-3)
                with pytest.raises(bs.SubmitError, match="over") as late:
                    current.submit(np.full(4, 0.9))
                assert (second.value.state, late.value.state) == ("submitted", "over")
                assert second.value.number == late.value.number == current.number
        for other in others:
            assert len(other.wait()) == 2


def test_a_round_that_is_sat_out_takes_no_update(place, partner):
    spec = place.spec(**LONG, rounds=2)
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.5)) for name in OTHERS]
        with place.join(coordinator, "a") as session:
            first, second = session.rounds(), None
            current = next(first)
            current.skip("it is not finite")
            assert current.result() is None
            with pytest.raises(bs.RoundAborted, match="gave no update"):
                current.outcome()
            with pytest.raises(bs.SubmitError) as refused:
                current.submit(np.full(4, 0.5))
            assert refused.value.state == "sits out"
            second = next(first)
            second.submit(np.full(4, 0.5))
            assert len(second.outcome().survivors) == 3
            assert next(first, None) is None
        for other in others:
            assert len(other.wait()) == 2


@pytest.mark.parametrize(
    "what", ["None", "(u, 0)", "(None, 1)", "(u * float('nan'), 1)", "u[:2]", "(u, 1, 1)"]
)
def test_join_sits_out_a_round_and_stays(processes, place, tmp_path, partner, what):
    (tmp_path / "training.py").write_text(TRAINING.format(what=what))
    spec = place.spec(**LONG, rounds=2)
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.5)) for name in OTHERS]
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        words = [
            "--identity",
            place.identity("a"),
            "--ca",
            place.folder / "ca.pem",
            *place.take_any,
            "--json",
        ]
        party = processes("join", url, "--job", "job", *words, "--train", "training:step")
        status = wait_for(coordinator, lambda it: it["round"] is not None and it["round"]["state"] == "done")
        [reason] = [stage["dropped"]["a"] for stage in status["round"]["stages"] if "a" in stage["dropped"]]
        out, err = party.communicate(timeout=60)
        for other in others:
            other.wait()
    first, second = (json.loads(line) for line in out.splitlines())
    assert party.returncode == 0, err
    assert (first["round"], first["outcome"]) == (1, "skipped")
    assert (second["outcome"], len(second["survivors"])) == ("sum", 3)
    assert status["round"]["survivors"] == list(OTHERS)
    # It says that, and nothing of the data.
    sits_out = what in ("None", "(u, 0)", "(None, 1)")
    assert reason.startswith("its program gave no update" if sits_out else "its update was not accepted: ")
    [causes] = [stage["causes"] for stage in status["round"]["stages"] if "causes" in stage]
    assert causes == {"a": "sat_out" if sits_out else "not_accepted"}
    assert "nan" not in reason


def test_a_session_that_is_closed_with_an_update_out_says_that_it_is_not_known(place):
    spec = place.spec(**LONG, rounds=1)
    with place.coordinator(spec) as coordinator:
        others = Held(place, coordinator)
        session = place.join(coordinator, "a")
        current = with_update_out(session, coordinator)
        session.close()
        with pytest.raises(bs.RoundUnknown) as unknown:
            current.result()
        assert not isinstance(unknown.value, bs.RoundAborted)
        assert unknown.value.number == 1
        with pytest.raises(bs.RoundUnknown):
            current.outcome()
        status = wait_for(coordinator, lambda status: "a" in status["left"])
        assert status["left"]["a"] == "it has left the job"
        others.finish()


def test_whoever_is_displaced_is_told_that_it_is_not_known(place):
    spec = place.spec(**LONG, protocol="secagg", adversary="semi-honest", rounds=1)
    with place.coordinator(spec) as coordinator:
        others = Held(place, coordinator)
        with place.join(coordinator, "a") as session:
            rounds = session.rounds(on_lost=lambda error: pytest.fail(f"lost: {error}"))
            current = next(rounds)
            current.submit(np.full(4, 0.5))
            wait_for(coordinator, is_out)
            with place.join(coordinator, "a"):
                # Where nobody asks for the result, the loop raises it.
                with pytest.raises(bs.RoundUnknown, match="another process") as unknown:
                    next(rounds)
                first = unknown.value.__cause__
                assert isinstance(first, bs.NetworkError)
                for _ in range(2):
                    with pytest.raises(bs.SessionClosedError) as again:
                        session.next_round()
                    assert str(first) in str(again.value)
        others.finish()


def test_sigterm_is_said_and_an_update_that_is_out_is_not_denied(processes, place, tmp_path):
    (tmp_path / "training.py").write_text(TRAINING.format(what="u"))
    spec = place.spec(**LONG, rounds=1)
    with place.coordinator(spec) as coordinator:
        others = Held(place, coordinator)
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        words = [
            "--identity",
            place.identity("a"),
            "--ca",
            place.folder / "ca.pem",
            *place.take_any,
            "--json",
        ]
        party = processes("join", url, "--job", "job", *words, "--train", "training:step")
        wait_for(coordinator, is_out)
        party.send_signal(signal.SIGTERM)
        out, err = party.communicate(timeout=60)
        assert party.returncode == 130, err
        [told] = [json.loads(line) for line in out.splitlines()]
        assert (told["round"], told["outcome"]) == (1, "unknown")
        status = wait_for(coordinator, lambda status: "a" in status["left"])
        assert status["left"]["a"] == "its program was stopped"
        assert "a" not in status["lost"]
        others.finish()


def test_a_policy_that_refuses_the_job_is_named_at_the_coordinator(processes, place, tmp_path):
    (tmp_path / "job.json").write_text(place.spec(**LONG).to_json())
    fixed = ["--identity", place.folder / "agg", "--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0"]
    server = processes("serve", "--job", tmp_path / "job.json", *fixed)
    lines = iter(server.stdout.readline, "")
    url = next(lines).split(" at ")[1].strip().replace("127.0.0.1", "localhost")
    assert "parties connect" in next(lines)
    assert next(lines) == "blindsum: job job starts from zeros; --model FILE to start from yours\n"
    words = ["--identity", place.identity("a"), "--ca", place.folder / "ca.pem"]
    strict = ["--policy", "allowed_protocols=plain", "--policy", "max_message=10"]
    party = processes("join", url, "--job", "job", *words, *strict, "--train", "training:step")
    _, err = party.communicate(timeout=60)
    assert party.returncode == 1, err
    said = next(line for line in lines if line.startswith("a has left"))
    assert said.startswith("a has left: it refuses the job: policy ")
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)


def test_statuses_that_nobody_reads_are_bounded(place, partner):
    spec = place.spec(parties=1, min_parties=1, dim=1, rounds=300)
    with place.coordinator(spec) as coordinator:
        party = partner(place, coordinator, "a", np.zeros(1))
        assert len(party.wait()) == 300
        statuses = list(coordinator.statuses())
    assert len(statuses) <= 260
    ends = [one["round"]["number"] for one in statuses if one["round"]["state"] == "done"]
    assert ends[-1] == 300
    assert ends == sorted(ends)


@pytest.mark.parametrize(("dim", "model", "warns"), [(16, None, True), (4, None, False), (16, 1.0, False)])
def test_a_job_that_starts_from_zeros_says_so(place, caplog, dim, model, warns):
    spec = place.spec(parties=1, min_parties=1, dim=dim, rounds=2)
    start = None if model is None else np.full(dim, model, np.float32)
    with (
        caplog.at_level(logging.INFO, "blindsum"),
        place.coordinator(spec, model=start) as coordinator,
        place.join(coordinator, "a") as session,
    ):
        assert coordinator.starts_from.kind == ("zeros" if model is None else "given")
        assert (coordinator.starts_from.version, len(coordinator.starts_from.hash)) == (0, 64)
        for current in session.rounds():
            current.submit(np.zeros(dim))
    said = [record.getMessage() for record in caplog.records]
    assert sum("starts from" in line and "model version 0" in line for line in said) == 1
    assert sum("--model FILE" in line and "all zeros" in line for line in said) == warns


def test_a_job_that_goes_on_names_its_store(place, tmp_path):
    spec = place.spec(parties=1, min_parties=1, rounds=0)
    store = tmp_path / "job.sqlite"
    with place.coordinator(spec, store=store) as coordinator, place.join(coordinator, "a") as session:
        current = session.next_round()
        current.submit(np.full(4, 0.5))
        current.result()
    with place.coordinator(spec, store=store) as coordinator:
        start = coordinator.starts_from
        assert (start.kind, start.version) == ("store", 1)


def test_a_machine_takes_one_update_of_a_round(place):
    spec = place.spec(parties=1, min_parties=1)
    server = machines.ServerMachine.open(spec, ca=place.folder)
    party = machines.PartyMachine.open(
        "job", identity=place.identity("a"), ca=place.folder, policy=bs.Policy(**place.any_job)
    )
    link = server.connected(party.certificate, "a test")
    party.connected()

    def exchange():
        moved = True
        while moved:
            moved = False
            for frame in party.frames():
                server.receive(link, frame)
                moved = True
            for outgoing in server.frames():
                party.receive(outgoing.frame)
                moved = True

    with pytest.raises(bs.BlindsumError, match="has not joined"):
        party.submit(1, np.zeros(4))
    party.want_round()
    found = None
    end = time.monotonic() + 60
    while found is None and time.monotonic() < end:
        exchange()
        server.tick()
        events = party.events()
        found = next((event for event in events if isinstance(event, machines.RoundBegins)), None)
        time.sleep(0.01)
    with pytest.raises(bs.SubmitError) as early:
        party.submit(found.number + 1, np.zeros(4))
    party.submit(found.number, np.zeros(4))
    with pytest.raises(bs.SubmitError) as second:
        party.submit(found.number, np.zeros(4))
    assert (early.value.state, second.value.state) == ("not begun", "submitted")
    party.leave()
    [lost] = [event for event in party.events() if isinstance(event, machines.RoundLost)]
    assert isinstance(lost.error, bs.RoundUnknown)


class Alone:
    """A domain of one learner needs no way to others."""

    rank, size, speaker, timeout = 0, 1, 0, 60.0

    def send(self, message, to):
        assert not to

    def receive(self, learner):
        raise PeerLost(learner, "there is none")

    def reduce(self, vector):
        return vector

    def flush(self, learner):
        pass

    def close(self):
        pass


def test_a_domain_takes_one_update_of_a_round_and_may_sit_one_out(place, partner):
    spec = place.spec(**LONG, rounds=2, encoding="fixed64")
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.5)) for name in OTHERS]
        with Domain(Alone(), lambda: place.join(coordinator, "a")) as domain:
            first, second = (None, None)
            for current in domain.rounds():
                if first is None:
                    first = current
                    current.skip()
                    assert current.result() is None
                    with pytest.raises(bs.SubmitError, match="sits the round out"):
                        current.submit(np.full(4, 0.5))
                    continue
                second = current
                current.submit(np.full(4, 0.5))
                with pytest.raises(bs.SubmitError, match="submitted already"):
                    current.submit(np.full(4, 0.5))
                assert len(current.outcome().survivors) == 3
                with pytest.raises(bs.SubmitError, match="over"):
                    current.submit(np.full(4, 0.5))
            assert second is not None
        for other in others:
            other.wait()
