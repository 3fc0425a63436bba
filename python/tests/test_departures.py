"""A party that is stopped or fails in a round: everybody hears that, and not that it sits the round out."""

import json
import os
import signal
import threading

import numpy as np
import pytest

LONG = {"parties": 3, "min_parties": 2, "rounds": 1, "join_deadline": 60.0, "input_deadline": 60.0}

TRAINING = """
import os, pathlib

def step(model, round):
    pathlib.Path("begun").touch()
    {what}
"""

WAITS = "import time; time.sleep(60)"
RAISES = 'raise ValueError("patient 4711 has age 200")'


def reason_of(status, name):
    [reason] = [stage["dropped"][name] for stage in status["round"]["stages"] if name in stage["dropped"]]
    return reason


@pytest.fixture
def others(place, partner):
    def start(coordinator):
        return [partner(place, coordinator, name, np.full(4, 0.5)) for name in ("b", "c")]

    return start


def lost(coordinator, others, leave):
    """Runs a round in which ``a`` is lost; gives the reason."""
    running = others(coordinator)
    leave()
    for other in running:
        other.wait()
    ended = (
        it for it in coordinator.statuses() if it["round"] is not None and it["round"]["state"] == "done"
    )
    return reason_of(next(ended), "a")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (WAITS, "its program was stopped"),
        (RAISES, "its training function failed (ValueError)"),
    ],
)
def test_join_that_is_stopped_or_fails_does_not_sit_out(processes, place, tmp_path, others, what, expected):
    (tmp_path / "training.py").write_text(TRAINING.format(what=what))
    audit = tmp_path / "audit.jsonl"
    with place.coordinator(place.spec(**LONG), audit=audit) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        words = ["--identity", place.identity("a"), "--ca", place.folder / "ca.pem", *place.take_any]

        def leave():
            party = processes("join", url, "--job", "job", *words, "--train", "training:step")
            if what == WAITS:
                while not (tmp_path / "begun").exists():
                    assert party.poll() is None
                os.kill(party.pid, signal.SIGTERM)
            party.communicate(timeout=60)

        assert lost(coordinator, others, leave) == expected
    entries = [json.loads(line) for line in audit.read_text().splitlines()]
    [ending] = [entry for entry in entries if entry["event"] == "round-ended"]
    assert ending["lost"] == {"a": f"input: {expected}"}
    left = [entry["reason"] for entry in entries if entry["event"] == "left" and entry["name"] == "a"]
    assert left == [expected]
    assert "patient" not in audit.read_text()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("patient 4711"), "its training function failed (ValueError)"),
        (KeyboardInterrupt(), "its program was stopped"),
    ],
)
def test_a_loop_whose_body_raises_does_not_sit_out(place, others, error, expected):
    with place.coordinator(place.spec(**LONG)) as coordinator:

        def leave():
            with pytest.raises(type(error)), place.join(coordinator, "a") as session:
                for _ in session.rounds():
                    raise error

        assert lost(coordinator, others, leave) == expected


def test_a_loop_that_is_left_by_break_sits_out(place, others):
    heard = threading.Event()
    with place.coordinator(place.spec(**LONG)) as coordinator, place.join(coordinator, "a") as session:

        def leave():
            for _ in session.rounds():
                break
            heard.set()

        assert lost(coordinator, others, leave) == "its program gave no update"
    assert heard.is_set()


def test_the_next_wait_after_break_sits_out_at_once(place, others):
    with place.coordinator(place.spec(**LONG)) as coordinator, place.join(coordinator, "a") as session:

        def leave():
            for _ in session.rounds():
                break
            assert session.next_round() is None

        assert lost(coordinator, others, leave) == "its program gave no update"
