"""The demonstration, small: processes, TLS, a kill, and equality with plain FedAvg."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blindsum.demo import digits, network
from blindsum.demo.run import Settings, run, uploads_of_all
from blindsum.errors import ConfigError
from blindsum.spec import JobSpec
from blindsum.testing import Cluster


def children(parent):
    return [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and read_parent(path) == parent
    ]


def read_parent(path):
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def test_the_split_is_uneven_and_complete():
    train, test = digits.load(7)
    parts = digits.deal(train, 8, 7)
    sizes = [len(part) for part in parts]
    assert sum(sizes) + len(test) == 1797
    assert max(sizes) > 3 * min(sizes) > 0
    images = sorted(image.tobytes() for part in parts for image in part.images)
    assert images == sorted(image.tobytes() for image in train.images)


def test_training_depends_on_its_seed_only():
    train, _ = digits.load(7)
    model = network.initial_model(7)
    updates = [network.local_update(model, train.images, train.labels, [7, 1, rank]) for rank in (0, 0, 1)]
    assert (updates[0] == updates[1]).all()
    assert (updates[0] != updates[2]).any()


@pytest.mark.parametrize("protocol", ["plain", "secagg+", "flashe"])
def test_a_killed_party_costs_only_its_own_update(protocol):
    settings = Settings(protocol=protocol, parties=4, rounds=3)
    statuses = []
    result = run(settings, statuses.append)
    assert result.problems == []
    assert [len(one.survivors) for one in result.rounds] == [4, 4, 3]
    assert settings.victim == "party-3"
    assert list(result.rounds[2].dropped) == ["party-3"]
    assert all(one.deviation <= result.bound for one in result.rounds)
    assert abs(result.accuracy - result.plain_accuracy) <= 0.02
    assert statuses[-1]["rounds_done"] == 3
    json.dumps(result.to_dict())


def test_nobody_is_killed_whom_no_sum_can_do_without():
    settings = Settings(protocol="mpc3", parties=3, rounds=1)
    with pytest.raises(ConfigError, match="4 <= parties = 3 must hold if one is killed"):
        run(settings, lambda _status: None)


@pytest.mark.parametrize("parties", [3, 4, 8, 16])
def test_uploads_to_three_servers_are_counted(parties):
    # Whose explicit component the coordinator hears: its own one and the next.
    to_coordinator = [rank for rank in range(parties) if rank % 3 in (0, 1)]
    assert uploads_of_all(parties) * len(to_coordinator) == pytest.approx(2 * parties)


DEMO = ["demo", "--rounds", "100000", "--no-kill", "--json", "--parties", "3", "--out"]
BENCH = ["bench", "round", "--rounds", "100000", "--protocol", "plain", "--parties", "3", "--dim", "10"]


@pytest.mark.parametrize(
    ("words", "end"), [(DEMO, signal.SIGINT), (DEMO, signal.SIGTERM), (BENCH, signal.SIGTERM)]
)
def test_nothing_is_left_behind(tmp_path, words, end):
    words = [*words, str(tmp_path)] if words is DEMO else words
    process = subprocess.Popen(
        [sys.executable, "-m", "blindsum", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while len(started := children(process.pid)) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(end)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
    for child in started:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_a_second_signal_spares_no_process(tmp_path):
    told = []

    class Process:
        def poll(self):
            return None

        def send_signal(self, _end):
            told.append(self)
            signal.raise_signal(signal.SIGINT)

        def wait(self, timeout):
            return 0

    cluster = Cluster(JobSpec(protocol="plain", parties=3, dim=1), [], tmp_path)
    cluster._running = {name: Process() for name in "abc"}
    with pytest.raises(KeyboardInterrupt):
        cluster.__exit__(None, None, None)
    assert len(told) == 3
