"""Jobs over mutual TLS from Python, and abuse case 43: nothing that user code does may hang a party."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest

import blindsum as bs


@pytest.mark.parametrize("protocol", [*bs.protocols(), "pss-malicious with l2"])
def test_a_job_gives_everybody_the_mean(place, partner, protocol):
    # Weights cannot be proved, and a round of fewer than five could not outvote a liar.
    protocol, *more = protocol.split()
    proved = protocol == "pss-malicious"
    fields = {"min_parties": 5} if proved else {"max_weight": 10}
    if more:
        fields |= {"bound": "l2", "max_norm": 1.0}
    spec = place.spec(protocol=protocol, parties=5, rounds=2, **fields)
    updates = [np.array([0.1, -0.2, 0.3, place]) / 8 for place in range(5)]
    weights = [1] * 5 if proved else [1, 2, 3, 4, 10]
    expected = np.average(updates, axis=0, weights=weights)
    with place.coordinator(spec) as coordinator:
        others = [
            partner(place, coordinator, f"party-{rank}", updates[rank], weights[rank]) for rank in range(1, 5)
        ]
        with place.join(coordinator, "party-0") as session:
            assert session.name == "party-0"
            assert session.spec == spec
            models = []
            for current in session.rounds():
                assert current.parties == tuple(f"party-{rank}" for rank in range(5))
                models.append(current.model.copy())
                current.submit(updates[0], weight=weights[0])
                outcome = current.outcome()
                assert outcome.survivors == current.parties
                assert outcome.total_weight == sum(weights)
                assert np.array_equal(current.result(), outcome.mean)
                assert np.abs(outcome.mean - expected).max() <= spec.max_error
                assert np.array_equal(outcome.model, models[-1] + outcome.mean)
            assert session.next_round() is None
        for other in others:
            assert np.array_equal(other.wait()[-1], outcome.mean)
    assert len(models) == 2
    assert not models[0].any()
    assert models[1].any()


def test_the_model_is_read_only_and_starts_as_given(place):
    spec = place.spec(parties=1)
    start = np.array([1, 2, 3, 4], dtype=np.float64)
    with place.coordinator(spec, model=start) as coordinator, place.join(coordinator, "a") as session:
        current = session.next_round()
        assert current.model.tolist() == start.tolist()
        with pytest.raises(ValueError, match="read-only"):
            current.model[0] = 1


def test_party_and_coordinator_have_one_name_for_a_result(place):
    with place.coordinator(place.spec(parties=1)) as coordinator:
        with place.join(coordinator, "a") as session:
            current = session.next_round()
            current.submit(np.zeros(4))
            result = current.outcome().result
            assert session.next_round() is None
        *_, last = coordinator.statuses()
    assert last["round"]["result"] == result
    assert len(bytes.fromhex(result)) == 32
    assert last["unconfirmed"] == []


def test_a_missed_result_is_no_aborted_round_in_words():
    error = bs.ResultMissed(3, "too late")
    assert isinstance(error, bs.RoundAborted)
    assert (error.number, error.reason) == (3, "too late")
    assert "counts this party's update" in str(error)
    assert "without a sum" not in str(error)


READ_ONLY = np.full(4, 0.5, dtype=np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "update",
    [
        np.full(4, 0.5, dtype=np.float64),
        np.full((2, 2), 0.5, dtype=np.float32),
        np.full(8, 0.5, dtype=np.float32)[::2],
        np.full(4, 0.5, dtype=ml_dtypes.bfloat16),
        READ_ONLY,
        memoryview(READ_ONLY),
    ],
    ids=["float64", "shaped", "strided", "bfloat16", "read-only", "buffer"],
)
def test_updates_may_be_any_arrays(place, update):
    spec = place.spec(parties=1)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        current = session.next_round()
        current.submit(update)
        assert np.abs(current.result() - 0.5).max() <= spec.max_error


def test_memory_may_be_used_again_after_submit(place):
    spec = place.spec(parties=1, dim=100_000)
    update = np.full(spec.dim, 0.5, dtype=np.float32)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        current = session.next_round()
        current.submit(update)
        update[:] = np.nan
        assert np.abs(current.result() - 0.5).max() <= spec.max_error


def test_a_refused_update_may_be_followed_by_a_good_one(place):
    spec = place.spec(parties=1, max_weight=5)
    good = np.zeros(4, dtype=np.float32)
    bad = good.copy()
    bad[2] = np.nan
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        current = session.next_round()
        with pytest.raises(bs.InputError, match="coordinate 2") as caught:
            current.submit(bad)
        assert caught.value.index == 2
        with pytest.raises(bs.InputError, match="dim is 4"):
            current.submit(np.zeros(5, dtype=np.float32))
        for weight in (0, 6, -1, 1.5, "2"):
            with pytest.raises(bs.InputError, match="weight"):
                current.submit(good, weight)
        with pytest.raises(bs.InputError, match="submit an update"):
            current.result()
        current.submit(good, weight=5)
        assert current.outcome().total_weight == 5


def test_waits_may_be_limited(place):
    spec = place.spec(parties=2, min_parties=2, join_deadline=60.0)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        with pytest.raises(bs.WaitTimeoutError) as caught:
            session.next_round(timeout=0.2)
        assert isinstance(caught.value, TimeoutError)


def test_a_name_that_no_job_has_is_refused_at_once(place):
    for name in ("Tu mour", "", "a" * 65, ".", ".."):
        # Nobody listens there: it would be tried for 120 s.
        with pytest.raises(bs.ConfigError, match="a name is 1 to 64 of a-z 0-9") as caught:
            bs.join("https://localhost:1", job=name, identity=place.identity("a"), ca=place.folder / "ca.pem")
        assert caught.value.field == "job"


def test_a_wrong_address_to_listen_on_is_a_setting_that_is_wrong(place):
    for address in ("nonsense", "0.0.0.0", "localhost:99999", "localhost:-1", ":9443", "[::1]"):
        with (
            pytest.raises(bs.ConfigError, match="must be HOST:PORT with a port from 0 to 65535") as caught,
            place.coordinator(place.spec(), listen=address),
        ):
            pass
        assert caught.value.field == "listen"
    with (
        place.coordinator(place.spec()) as coordinator,
        pytest.raises(bs.NetworkError, match="the port is in use"),
        place.coordinator(place.spec(), listen=coordinator.address),
    ):
        pass


def test_the_policy_is_the_party_s_own(place):
    with place.coordinator(place.spec(parties=3)) as coordinator:
        with pytest.raises(bs.PolicyError, match="allowed_protocols") as refused:
            place.join(coordinator, "a", policy=bs.Policy())
        assert refused.value.field == "allowed_protocols"
        with pytest.raises(bs.ConfigError, match="policy"):
            place.join(coordinator, "a", policy=bs.Policy(allowed_protocols=["nonsense"]))
        with pytest.raises(bs.ConfigError, match=r"policy\.min_corrupt: 1\.5 must be a number from 0 to 1"):
            place.join(coordinator, "a", policy=bs.Policy(min_corrupt=1.5))
        for text in ("nonsense", "ab", "é" * 64):
            with pytest.raises(bs.ConfigError, match="job_hash"):
                place.join(coordinator, "a", policy=bs.Policy(job_hash=text))


@pytest.mark.parametrize(
    ("fields", "rules", "text"),
    [
        ({"adversary": "semi-honest"}, {}, "require_adversary"),
        ({"corrupt": 0.05}, {}, "min_corrupt"),
        ({}, {"min_honest": 9}, "min_honest"),
        ({}, {"max_dim": 3}, "max_dim"),
        ({}, {"job_hash": "0" * 64}, "job_hash"),
    ],
)
def test_a_job_that_protects_too_little_is_refused(place, fields, rules, text):
    spec = place.spec(**{"protocol": "secagg", "parties": 5} | fields)
    with place.coordinator(spec) as coordinator, pytest.raises(bs.PolicyError, match=text) as refused:
        place.join(coordinator, "a", policy=bs.Policy(**rules))
    assert refused.value.field == text
    assert text in bs.Policy.__dataclass_fields__


def test_the_job_that_was_agreed_on_is_taken(place):
    spec = place.spec(protocol="secagg", parties=5)
    with place.coordinator(spec) as coordinator:
        place.join(coordinator, "a", policy=bs.Policy(job_hash=spec.hash)).close()


def test_an_unknown_job_and_a_dead_coordinator_are_named(place, tmp_path):
    with place.coordinator(place.spec()) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        with pytest.raises(bs.NetworkError, match="other"):
            bs.join(url, job="other", identity=place.identity("a"), ca=place.folder)
    with pytest.raises(bs.NetworkError, match=r"not reached within 0\.3 s"):
        bs.join(url, job="job", identity=place.identity("a"), ca=place.folder, give_up_after=0.3)
    with pytest.raises(bs.IdentityError, match="no file"):
        bs.join(url, job="job", identity=tmp_path / "nobody", ca=place.folder)


def test_a_stranger_is_not_let_in(place, tmp_path):
    stranger = type(place)(tmp_path / "other")
    with place.coordinator(place.spec()) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        with pytest.raises(bs.IdentityError, match="not signed by the job's CA"):
            bs.join(url, job="job", identity=stranger.identity("a"), ca=place.folder)
        with pytest.raises(bs.NetworkError, match="TLS"):
            bs.join(url, job="job", identity=stranger.identity("a"), ca=stranger.folder, give_up_after=2.0)


def test_an_exception_in_training_leaves_the_round_to_the_others(place, partner):
    # The others get their mean long before the deadline.
    spec = place.spec(parties=3, min_parties=2, input_deadline=600.0)
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.25)) for name in ("b", "c")]
        with pytest.raises(ZeroDivisionError), place.join(coordinator, "a") as session:
            for _ in session.rounds():
                raise ZeroDivisionError
        for other in others:
            assert np.abs(other.wait()[0] - 0.25).max() <= spec.max_error


def test_a_round_that_cannot_go_on_says_why(place, partner):
    spec = place.spec(parties=2, min_parties=2, rounds=1)
    with place.coordinator(spec) as coordinator:
        with place.join(coordinator, "b") as session:
            other = partner(place, coordinator, "a", np.zeros(4))
            deadline = time.monotonic() + 30
            while other.error is None and time.monotonic() < deadline:
                with suppress(bs.WaitTimeoutError):
                    session.next_round(timeout=0.5).abandon()
        coordinator.stop()
        with pytest.raises(bs.RoundAborted, match="too few"):
            other.wait()


def test_a_closed_session_says_so(place):
    with place.coordinator(place.spec(parties=1)) as coordinator:
        session = place.join(coordinator, "a")
        session.close()
        session.close()
        with pytest.raises(bs.SessionClosedError):
            session.next_round()


def test_other_threads_run_while_a_party_waits(place):
    spec = place.spec(parties=2, min_parties=2, join_deadline=60.0)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        outcomes = []

        def wait():
            try:
                outcomes.append(session.next_round(timeout=3600))
            except bs.BlindsumError as error:
                outcomes.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        # A wait that held the GIL would never let this thread get here.
        session.close()
        waiting.join(10)
        assert isinstance(outcomes[0], bs.SessionClosedError)


def test_ctrl_c_ends_a_wait(place):
    spec = place.spec(parties=2, min_parties=2, join_deadline=60.0)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.next_round()
        timer.join()


def test_ctrl_c_ends_a_join(place):
    identity = place.identity("a")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        # What was given up goes on by itself for so long.
        bs.join("https://127.0.0.1:1", job="job", identity=identity, ca=place.folder, give_up_after=1.0)
    timer.join()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_to_join_itself(place):
    with place.coordinator(place.spec(parties=1)) as coordinator, place.join(coordinator, "a") as session:
        current = session.next_round()
        child = os.fork()
        if child == 0:
            refused = 0
            calls = (session.next_round, current.result, lambda: current.submit(np.zeros(4)), session.close)
            for call in calls:
                try:
                    call()
                except bs.SessionClosedError as error:
                    refused += "forked" in str(error)
            del current
            os._exit(refused)
        deadline = time.monotonic() + 60
        while (status := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                pytest.fail("the child hangs")
            time.sleep(0.01)
        assert os.waitstatus_to_exitcode(status[1]) == 4
        # The parent goes on as if nothing had happened.
        current.submit(np.zeros(4))
        assert current.result().shape == (4,)


def test_the_interpreter_exits_with_a_live_session(place):
    spec = place.spec(parties=2, min_parties=2, join_deadline=60.0)
    program = textwrap.dedent("""
        import sys, threading
        import blindsum as bs
        url, folder = sys.argv[1:]
        rules = {"require_adversary": None, "min_corrupt": 0, "min_honest": 0, "min_cohort": 1}
        policy = bs.Policy(allowed_protocols=bs.protocols(), **rules)
        session = bs.join(url, job="job", identity=f"{folder}/a", ca=folder, policy=policy)
        threading.Thread(target=session.next_round, daemon=True).start()
        print("leaving", session.name)
    """)
    place.identity("a")
    with place.coordinator(spec) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        done = subprocess.run(
            [sys.executable, "-c", program, url, str(place.folder)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "leaving a\n"), done.stderr


def test_a_store_remembers_rounds_and_models(place, tmp_path):
    spec = place.spec(parties=1, rounds=3)
    store = tmp_path / "job.sqlite"
    limits = {"models_kept": 10}
    with place.coordinator(spec, store=store, limits=limits) as coordinator:
        with pytest.raises(bs.StoreError, match="another coordinator"):
            place.coordinator(spec, store=store).__enter__()
        with place.join(coordinator, "a") as session:
            models = []
            for current in session.rounds():
                current.submit(np.full(4, 0.5))
                models.append(current.outcome().model)
    rounds = bs.coordinator.stored_rounds(store, "job")
    assert [one["number"] for one in rounds] == [1, 2, 3]
    assert all(one["state"] == "done" and one["survivors"] == ["a"] for one in rounds)
    for version, model in enumerate(models, start=1):
        assert np.array_equal(bs.coordinator.stored_model(store, "job", version), model)
    assert bs.coordinator.stored_model(store, "job", 99) is None
    with pytest.raises(bs.StoreError, match="no such file"):
        bs.coordinator.stored_rounds(tmp_path / "none", "job")


def test_a_coordinator_that_cannot_start_says_why(place):
    with place.coordinator(place.spec()) as coordinator, pytest.raises(bs.NetworkError, match="in use"):
        place.coordinator(place.spec(), listen=coordinator.address).__enter__()
    with pytest.raises(bs.ConfigError, match=r"limits.*reconnect_grace"):
        place.coordinator(place.spec(), limits={"nonsense": 1}).__enter__()
    with pytest.raises(bs.InputError, match="model"):
        place.coordinator(place.spec(), model=np.zeros(5)).__enter__()
    with pytest.raises(bs.InputError, match="model: coordinate 1"):
        place.coordinator(place.spec(), model=np.array([0, np.inf, 0, 0])).__enter__()
