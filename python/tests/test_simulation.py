"""Simulated rounds from Python, and what abuse case 43 asks of long native work."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import blindsum as bs


def spec(**changes):
    fields = {"protocol": "plain", "parties": 5, "dim": 50} | changes
    return bs.JobSpec.from_settings(list(fields.items()))


def updates(parties=5, dim=50, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (parties, dim)).astype(np.float32)


@pytest.mark.parametrize("protocol", bs.protocols())
def test_the_mean_is_right_within_quantisation(protocol):
    job = spec(protocol=protocol, parties=10)
    rows = updates(10)
    result = bs.simulate(job, rows)
    assert (result.outcome, result.fault, result.survivors, result.exact) == ("sum", None, 10, True)
    assert result.mean.dtype == np.float64
    error = np.abs(result.mean - rows.astype(np.float64).mean(axis=0)).max()
    assert error <= job.max_error
    assert result.max_abs_error == pytest.approx(error, abs=1e-12)
    assert [stage.name for stage in result.stages] == [*job.stages, "result"]


# Servers beside the coordinator have no model to find bounds from.
OF_SERVERS = ("mpc3", "paillier-ring", "paillier-broadcast", "paillier-allreduce")


@pytest.mark.parametrize("protocol", [name for name in bs.protocols() if name not in OF_SERVERS])
def test_bounds_that_follow_earlier_rounds(protocol):
    rows = 1e-3 * updates(10)
    job = spec(protocol=protocol, parties=10, clipping="aciq", clip=1.0, bits=8)
    first = bs.simulate(job, rows)
    last = bs.simulate(job, rows, rounds=6)
    assert first.exact
    assert last.exact
    # With the job's own bounds the levels are 2 / 255 apart, wider than all updates.
    assert first.max_abs_error > 4e-4
    # Ten times the largest coordinate of the mean, and twice that, is about 16 times an update's deviation.
    assert last.max_abs_error < 8e-5
    with pytest.raises(bs.SpecError, match="not be aciq if model_update is none"):
        spec(clipping="aciq", model_update="none")


def test_weights_are_counted():
    rows = updates(3)
    job = spec(parties=3, max_weight=100)
    result = bs.simulate(job, rows, weights=[1, 20, 100])
    expected = np.average(rows.astype(np.float64), axis=0, weights=[1, 20, 100])
    assert np.abs(result.mean - expected).max() <= job.max_error


def test_updates_may_be_any_arrays():
    rows = [
        np.full((5, 10), 0.5),
        np.full(50, 0.5, dtype=np.float16),
        np.full(100, 0.5, dtype=np.float32)[::2],
    ]
    result = bs.simulate(spec(parties=3), rows)
    assert np.allclose(result.mean, 0.5, atol=spec(parties=3).max_error)


def test_the_seed_decides_everything():
    def run(**changes):
        return bs.simulate(spec(), updates(), **{"seed": 3} | changes).mean

    assert np.array_equal(run(), run())
    assert np.array_equal(run(), run(threads=2))
    assert not np.array_equal(run(), run(seed=4))


def test_dropouts_are_not_in_the_sum():
    result = bs.simulate(spec(parties=10), drop=0.2, drop_at={"input": 1}, rounds=2)
    assert result.survivors == 7
    assert result.exact
    assert len(result.to_dict()["rounds"]) == 2
    assert result.mean is None


def test_too_many_dropouts_abort_with_a_named_fault():
    result = bs.simulate(spec(min_parties=4), updates(), drop_at=["input:2"])
    assert result.outcome == "abort"
    assert "too few parties are left" in result.fault
    assert result.mean is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_finite_is_refused_with_its_index(bad, dtype):
    rows = updates().astype(dtype)
    rows[2, 17] = bad
    with pytest.raises(bs.InputError, match=r"updates\[2\]: coordinate 17") as caught:
        bs.simulate(spec(), rows)
    assert caught.value.index == 17


def test_settings_that_break_a_rule_are_named():
    with pytest.raises(bs.ConfigError, match="nonsense") as caught:
        bs.simulate(spec(), drop_at={"nonsense": 1})
    assert caught.value.field == "drop_at"
    with pytest.raises(bs.ConfigError):
        bs.simulate(spec(), drop=1.5)
    with pytest.raises(bs.InputError, match="6 given, but the job has parties = 5"):
        bs.simulate(spec(), updates(6))
    with pytest.raises(bs.InputError, match="weight"):
        bs.simulate(spec(), updates(), weights=[1, 1, 1, 1, 2])
    with pytest.raises(bs.InputError, match="only together with updates"):
        bs.simulate(spec(), weights=[1])


@pytest.mark.parametrize("bad", [1.9, "3", True, -1, 0, 6, 6.0, None, np.float32(1.5), np.True_, 2**70])
def test_a_weight_is_a_whole_number_that_the_job_allows(bad):
    weights = [1, 5, bad, 1, 1]
    with pytest.raises(bs.InputError) as caught:
        bs.simulate(spec(max_weight=5), updates(), weights=weights)
    text = str(caught.value)
    assert text.startswith(f"weights[2]: {bad!r} must be a whole number from 1 to max_weight = 5"), text


def test_weights_may_be_whole_numbers_of_numpy_and_as_many_as_parties():
    job = spec(parties=3, max_weight=5)
    result = bs.simulate(job, updates(3), weights=np.array([1, 5, 2], dtype=np.int16))
    assert result.exact
    with pytest.raises(bs.InputError, match=r"weights: 2 given, but there are 3 updates"):
        bs.simulate(job, updates(3), weights=[1, 1])
    with pytest.raises(bs.InputError, match=r"weights: must be a list of one whole number per party, not 3"):
        bs.simulate(job, updates(3), weights=3)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"seed": -1}, "seed: -1 must be a whole number from 0 to 18446744073709551615"),
        ({"seed": 2**64}, "seed: 18446744073709551616 must be a whole number"),
        ({"seed": 1.5}, "seed: 1.5 must be a whole number"),
        ({"seed": None}, "seed: None must be a whole number"),
        ({"rounds": -1}, "rounds: -1 must be a whole number from 1 to"),
        ({"rounds": True}, "rounds: True must be a whole number"),
        ({"threads": "2"}, "threads: '2' must be a whole number from 1 to 1024"),
        ({"drop": "much"}, "drop: 'much' must be a number from 0 to 1"),
        ({"drop": None}, "drop: None must be a number from 0 to 1"),
        ({"drop_at": [("unmask", 1)]}, "drop_at: ('unmask', 1) must be text, STAGE:COUNT"),
        ({"drop_at": 3}, "drop_at: 3 must be a mapping of stages to counts, or a list of texts STAGE:COUNT"),
        ({"drop_at": "input:1"}, "drop_at: 'input:1' must be a mapping of stages to counts, or a list"),
        ({"latency": -0.5}, "latency: -0.5 must be a number from 0 to 1000000"),
        ({"latency": "long"}, "latency: 'long' must be a number from 0 to 1000000"),
        ({"drop_at": {"input": 1.5}}, "drop_at: the count of stage 'input', 1.5, must be a whole number"),
    ],
)
def test_settings_of_the_wrong_kind_are_named(settings, text):
    with pytest.raises(bs.ConfigError) as caught:
        bs.simulate(spec(), updates(), **settings)
    assert str(caught.value).startswith(text), caught.value
    assert caught.value.field == next(iter(settings))


def test_what_is_no_job_is_named():
    with pytest.raises(bs.ConfigError, match=r"spec: must be a blindsum\.JobSpec, not a list"):
        bs.simulate([1, 2])
    with pytest.raises(bs.ConfigError, match=r"spec: must be a blindsum\.JobSpec, not a dict"):
        bs.Coordinator({"protocol": "plain"}, identity="agg", ca="ca")


@pytest.mark.parametrize(
    ("parties", "drop", "lost"), [(9, 0.1, 0), (10, 0.1, 1), (19, 0.1, 1), (100, 0.29, 29)]
)
def test_a_fraction_drops_what_a_job_with_it_tolerates(parties, drop, lost):
    job = spec(parties=parties, dropout=drop)
    result = bs.simulate(job, drop=drop)
    assert result.survivors == parties - lost == parties - job.dropouts


def test_what_clipping_cuts_off_is_reported():
    job = spec(parties=3, dim=4)
    result = bs.simulate(job, np.array([[5.0] * 4, [0.5, -1.5, 0.0, 0.0], [0.0] * 4]))
    assert (result.clipped, result.clipped_by_party) == (5, {0: 4, 1: 1})
    # Against the clipped mean nothing but quantisation; against the mean that was meant, a lot.
    assert result.max_abs_error <= job.max_error
    assert result.max_abs_error_unclipped == pytest.approx(4 / 3, abs=job.max_error)
    assert not result.scaled_by_party
    harmless = bs.simulate(job, np.full((3, 4), 0.5))
    assert (harmless.clipped, harmless.clipped_by_party) == (0, {})
    assert harmless.max_abs_error_unclipped == harmless.max_abs_error


def test_what_the_norm_cuts_off_is_reported():
    job = spec(parties=3, dim=2, clipping="l2", clip=2.5)
    result = bs.simulate(job, np.array([[3.0, 4.0], [1.0, 1.0], [0.0, 0.0]]))
    assert (result.clipped, result.clipped_by_party) == (0, {})
    assert result.scaled_by_party == {0: 0.5}
    assert result.max_abs_error_unclipped == pytest.approx(2 / 3, abs=job.max_error)


def test_clipping_is_counted_over_all_rounds():
    rows = np.full((3, 4), 5.0)
    result = bs.simulate(spec(parties=3, dim=4), rows, rounds=3)
    assert (result.clipped, result.clipped_by_party) == (36, {0: 12, 1: 12, 2: 12})
    assert [one["clipped"] for one in result.to_dict()["rounds"]] == [12, 12, 12]


def test_progress_is_told_and_may_stop():
    seen = []
    bs.simulate(spec(), rounds=3, progress=lambda *state: seen.append(state))
    assert {done for done, _, _ in seen} <= {0, 1, 2}
    assert all(total == 3 for _, total, _ in seen)
    assert seen

    def stop(*_):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        bs.simulate(spec(), rounds=1000, progress=stop)


LONG = spec(parties=20, dim=200_000)


def test_other_threads_run_meanwhile():
    turns = 0
    finished = threading.Event()

    def count():
        nonlocal turns
        while not finished.is_set():
            turns += 1

    counter = threading.Thread(target=count)
    bs.simulate(LONG, rounds=1)
    counter.start()
    before = turns
    bs.simulate(LONG, rounds=3)
    during = turns - before
    finished.set()
    counter.join()
    # With the GIL held, the counter would get one switch interval at most: some thousand turns.
    assert during > 20_000


def test_several_threads_simulate_at_once():
    results = [None] * 4

    def run(place):
        results[place] = bs.simulate(spec(), updates(seed=place), seed=place).mean

    threads = [threading.Thread(target=run, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place, mean in enumerate(results):
        assert np.array_equal(mean, bs.simulate(spec(), updates(seed=place), seed=place).mean)


def test_ctrl_c_ends_a_simulation():
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        bs.simulate(LONG, rounds=100_000)
    timer.join()
    assert bs.simulate(spec()).exact


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_simulate_too():
    bs.simulate(spec(), threads=2)
    child = os.fork()
    if child == 0:
        exact = bs.simulate(spec(), threads=2).exact
        os._exit(0 if exact else 1)
    deadline = time.monotonic() + 60
    while (status := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status[1]) == 0


@pytest.mark.parametrize("_again", range(5))
def test_the_interpreter_exits_while_a_thread_simulates(_again):
    # A thread that came back to an exiting interpreter would crash it, now and then.
    program = """
import threading, time
import blindsum as bs
spec = bs.JobSpec(protocol="plain", parties=20, dim=200_000)
started = threading.Event()
run = lambda: bs.simulate(spec, rounds=100_000, progress=lambda *_: started.set())
threading.Thread(target=run, daemon=True).start()
started.wait()
print("leaving")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "leaving\n"), done.stderr


@pytest.mark.parametrize(("parties", "lost"), [(3, 0), (4, 1), (10, 3)])
@pytest.mark.parametrize("protocol", ["secagg", "secagg+"])
def test_so_many_may_vanish_as_the_readme_says(protocol, parties, lost):
    job = bs.JobSpec(protocol=protocol, parties=parties, dim=4)
    outcomes = [bs.simulate(job, drop_at={job.input_stage: lost + more}).outcome for more in (0, 1)]
    assert outcomes == ["sum", "abort"]
