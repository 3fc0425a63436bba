"""What `blindsum bench flower` computes and shows; rounds of a real Flower are run by `make flower`."""

import csv
import io
import socket
import subprocess
import sys

import numpy as np
import pytest

from benches import flower, flower_page
from benches.counted import counting
from benches.flower import PEER, PLAIN, Cost, Loss, Measured, Settings
from benches.flower_app import work
from benches.flower_deployment import Ran, _descendants
from blindsum.errors import BlindsumError


def cost(way, seconds, where="deployment", dim=1000, per_run=3, **changes):
    told = {"deviation": 1e-7, "up": 2048.0, "down": 4096.0, "server_memory": 2**20, "node_memory": 2**21}
    return Cost(where=where, way=way, dim=dim, seconds=seconds, per_run=per_run, **told | changes)


@pytest.fixture
def measured():
    found = Measured(Settings(nodes=10, dims=(1000,)))
    found.costs = [
        cost(PLAIN, [9.0, 2.0, 2.0]),
        cost("secagg+, direct", [9.0, 2.1, 2.1]),
        cost("secagg+, messages", [9.0, 8.0, 8.0]),
        cost(PEER, [9.0, 12.0, 12.0]),
        cost(PLAIN, [9.0, 0.1, 0.1], "simulation", up=None, down=None),
        cost("secagg+", [9.0, 0.2, 0.2], "simulation", up=None, down=None),
        cost(PEER, [9.0, 0.4, 0.4], "simulation", up=None, down=None),
    ]
    found.losses = [
        Loss("deployment", "secagg+, direct", "training raises", 2.0, 4),
        Loss("simulation", PEER, "share_keys", 6.0, 0),
    ]
    return found


def test_the_first_round_of_each_run_is_not_in_the_median():
    assert cost(PLAIN, [9.0, 1.0, 2.0, 9.0, 3.0, 4.0]).median == 2.5
    assert cost(PLAIN, [9.0], per_run=1).median == 9.0


def test_targets_are_those_of_our_rounds_beside_plain_ones(measured):
    rows = {row.work: row for row in measured.rows}
    assert list(rows) == [
        "deployment, 1,000 coordinates, secagg+, direct",
        "simulation, 1,000 coordinates, secagg+",
    ]
    kept, missed = rows.values()
    assert kept.measured == pytest.approx(1.05)
    assert kept.peer == pytest.approx(6)
    assert kept.ratio > 1
    assert missed.ratio == pytest.approx(0.55)


def test_tables_have_every_round_and_every_loss(measured):
    targets, deployment, simulation, losses = flower_page.tables(measured)
    assert "(missed)" in targets.markdown
    assert deployment.rows[0][:5] == ["1,000, plain FedAvg", "9.00 2.00 2.00", "2.00", "1", "2.0 KiB"]
    assert simulation.rows[1][3:6] == ["2", "", ""]
    assert [row[2] for row in losses.rows] == ["4 nodes", "none: the round is lost"]
    assert "5 nodes × 1,000 coordinates" in losses.note
    rows = list(csv.reader(io.StringIO(deployment.csv)))
    assert len(rows) == 5
    assert measured.to_dict()["costs"][0]["median"] == 2.0
    assert flower_page.tables(Measured(Settings())) == []


def test_transports_are_those_that_the_run_may_say():
    assert flower.transports()[0] == "direct"
    labels = [way.label for way in flower.ways(Settings(transports=("direct", "messages")), "deployment")]
    assert labels == [PLAIN, "secagg+, direct", "secagg+, messages", PEER]
    assert [way.label for way in flower.ways(Settings(), "simulation")] == [PLAIN, "secagg+", PEER]


def test_a_wrong_sum_is_no_measurement():
    way = flower.Way(PLAIN, work.PLAIN)
    ran = Ran([{"seconds": 1.0, "survivors": 10, "deviation": 0.1}], 1, 1, None, None)
    with pytest.raises(BlindsumError, match=r"round 1: a sum of 10 nodes that deviates by 1\.0e-01"):
        flower._check_sums(ran, way)


def test_a_round_without_all_nodes_is_no_measurement_and_says_why(measured):
    rounds = [
        {"seconds": 2.0 + place, "survivors": survivors, "deviation": 0.0}
        for place, survivors in enumerate((10, 0, 10))
    ]
    ran = Ran(rounds, 1, 1, None, None, ("round 2 has no sum: nobody came; 10 nodes failed",))
    flower._check_sums(ran, flower.Way(PLAIN, work.PLAIN))
    lossy = flower._cost("deployment", "secagg+, direct", 1000, [ran], 10)
    assert lossy.seconds == [2.0, None, 4.0]
    assert lossy.median == 4.0
    measured.costs[1] = lossy
    shown = flower_page.tables(measured)[1]
    assert shown.rows[1][1:3] == ["2.00 no sum 4.00", "4.00"]
    assert "secagg+, direct: round 2 has no sum: nobody came; 10 nodes failed." in shown.note

    nothing = flower._cost("deployment", "secagg+, direct", 1000, [Ran(rounds[1:2], 1, 1, None, None)], 10)
    assert nothing.median is None
    measured.costs[1] = nothing
    assert flower_page.tables(measured)[1].rows[1][1:4] == ["no sum", "", ""]
    assert [row.work for row in measured.rows] == ["simulation, 1,000 coordinates, secagg+"]


def test_updates_are_known_and_their_mean_is_weighted():
    updates = [work.update(node, 4) for node in (0, 1)]
    assert not np.array_equal(*updates)
    assert np.allclose(work.mean([0, 1], 4), (100 * updates[0] + 101 * updates[1]) / 201)
    assert [work.lost_at("-,setup", number) for number in (1, 2, 3)] == ["-", "setup", "-"]
    assert work.lost_at("", 1) == work.NOBODY


def test_stages_of_losses_begin_with_none():
    ways = flower.ways(Settings(transports=("direct", "messages")), "deployment")
    for way in ways:
        stages = flower.stages_of(way, "deployment")
        assert stages[0] == work.NOBODY
        assert stages[-1] == work.KILLED
        assert work.KILLED not in flower.stages_of(way, "simulation")
    assert "after its upload" in flower.stages_of(ways[1], "deployment")
    assert "after its upload" not in flower.stages_of(ways[2], "deployment")


def test_a_relay_counts_what_goes_through_it():
    with socket.create_server(("127.0.0.1", 0)) as server, counting(server.getsockname()[1]) as relay:
        with socket.create_connection(("127.0.0.1", relay.port)) as near, server.accept()[0] as far:
            near.sendall(bytes(100_000))
            taken = 0
            while taken < 100_000:
                taken += len(far.recv(65536))
            far.sendall(b"abc")
            assert near.recv(3) == b"abc"
        assert (relay.up, relay.down) == (100_000, 3)


def test_a_relay_without_anybody_behind_it_hangs_up():
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = server.getsockname()[1]
    with counting(nobody) as relay, socket.create_connection(("127.0.0.1", relay.port)) as near:
        assert near.recv(1) == b""


def test_processes_below_a_process_are_found():
    child = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True) as process:
        grandchild = int(process.stdout.readline())
        assert _descendants(process.pid) == [grandchild]
        subprocess.run(["kill", str(grandchild)], check=True)
        process.wait()
