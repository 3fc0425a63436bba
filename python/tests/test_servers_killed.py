"""Processes of three servers are killed while rounds go on, one after the other, and come back."""

import random
import signal
import threading
import time

import numpy as np
import pytest
from conftest import listen_at, three_urls

import blindsum as bs
from blindsum.coordinator import stored_rounds

ROUNDS = 25


class Servers:
    """The three servers of a job as processes."""

    def __init__(self, place, processes, job, folder):
        self.urls, self.folder = three_urls(), folder
        common = ["serve", "--json", "--job", job, "--ca", place.folder / "ca.pem"]
        common += ["--servers", ",".join(self.urls), "--limit", "reconnect_grace=1"]
        whose = [["agg", "--store", folder / "job.sqlite"]]
        whose += [[f"server-{n}", "--server", n, "--state-dir", folder / f"state-{n}"] for n in (1, 2)]
        self._start = lambda number: processes(
            *(*common, "--listen", listen_at(self.urls[number]), "--results", folder / f"results-{number}"),
            *("--identity", place.folder / whose[number][0], *whose[number][1:]),
        )
        self.running = [self._start(number) for number in range(3)]

    def kill(self, number):
        """Without a warning; and start it again."""
        self.running[number].send_signal(signal.SIGKILL)
        self.running[number].communicate()
        self.running[number] = self._start(number)

    def results(self, number):
        """The sums that a server has written, by round."""
        files = (self.folder / f"results-{number}").glob("job-*-sums.npy")
        return {int(file.stem.split("-")[1]): np.load(file) for file in files}


def take_part(place, urls, rank):
    """Give the same update in every round, whatever becomes of the round before."""
    options = {"policy": bs.Policy(**place.any_job), "give_up_after": 60.0, "ca": place.folder / "ca.pem"}
    with bs.join(urls, job="job", identity=place.identity(f"party-{rank}"), **options) as session:
        for current in session.rounds(on_lost=lambda _: None):
            time.sleep(0.1)
            current.submit(np.full(4, rank + 1))
            current.result()


@pytest.mark.parametrize("adversary", ["semi-honest", "active"])
def test_case_03_servers_that_are_killed_come_back_and_keep_what_counts(
    place, processes, tmp_path, adversary
):
    fields = {"protocol": "mpc3", "result": "servers", "model_update": "none", "adversary": adversary}
    fields |= {"encoding": "integers", "bits": 8, "parties": 4, "dropout": 0.0, "rounds": ROUNDS}
    spec = place.spec(**fields, stage_deadline=3.0, min_parties=4)
    (tmp_path / "job.json").write_text(spec.to_json())
    servers = Servers(place, processes, tmp_path / "job.json", tmp_path)
    parties = [threading.Thread(target=take_part, args=(place, servers.urls, rank)) for rank in range(4)]
    for party in parties:
        party.start()
    dice, until = random.Random(5), time.monotonic() + 90
    for number in (1, 2, 0, 2, 1):
        had = len(servers.results(0))
        while len(servers.results(0)) <= had:
            assert time.monotonic() < until, "no round has a result"
            time.sleep(0.02)
        # At any moment of the round that follows.
        time.sleep(dice.uniform(0.0, 0.3))
        servers.kill(number)
    for party in parties:
        party.join(90)
        assert not party.is_alive()
    for server in servers.running:
        _, errors = server.communicate(timeout=60)
        assert server.returncode == 0, errors
    rounds = stored_rounds(tmp_path / "job.sqlite", "job")
    counted = [one["number"] for one in rounds if one["state"] == "done"]
    assert len(counted) == ROUNDS
    for results in map(servers.results, range(3)):
        for number in counted:
            assert results[number].tolist() == [10] * 4
