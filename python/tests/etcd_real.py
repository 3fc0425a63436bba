"""Leases in a real etcd, over mutual TLS: `make etcd` runs this where the program etcd is.

The same is tested everywhere with a stand-in for etcd, in crates/net/tests/suite/membership.rs.
"""

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import blindsum as bs
from blindsum import pki
from blindsum.coordinator import stored_rounds
from blindsum.testing.cluster import free_ports

ETCD = os.environ.get("ETCD") or shutil.which("etcd")
LEASE = 3


class Etcd:
    """A server of etcd that takes only clients with a certificate of its CA; and that can be killed."""

    def __init__(self, folder):
        assert ETCD, "no etcd on the PATH, and ETCD names none"
        self.ca = folder / "etcd-ca"
        pki.init(self.ca, "Clients of etcd")
        pki.issue(self.ca, "localhost", hosts=["localhost", "127.0.0.1"], computes=True)
        pki.issue(self.ca, "to-etcd")
        self.port, self._peers = list(free_ports().values())[:2]
        self._folder, self._process = folder, None
        self.start()

    @property
    def url(self):
        return f"etcd://localhost:{self.port}"

    @property
    def options(self):
        return {"membership": self.url, "membership_identity": self.ca / "to-etcd", "membership_ca": self.ca}

    def start(self):
        client, peer = f"https://localhost:{self.port}", f"http://localhost:{self._peers}"
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(client, peer), stdout=log, stderr=log)

    def _command(self, client, peer):
        return list(
            map(
                str,
                [
                    *(ETCD, "--data-dir", self._folder / "etcd-data", "--logger", "zap"),
                    *(
                        "--listen-client-urls",
                        f"https://127.0.0.1:{self.port}",
                        "--advertise-client-urls",
                        client,
                    ),
                    *("--listen-peer-urls", peer.replace("localhost", "127.0.0.1")),
                    *("--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
                    *("--client-cert-auth", "--trusted-ca-file", self.ca / "ca.pem"),
                    *("--cert-file", self.ca / "localhost.pem", "--key-file", self.ca / "localhost.key"),
                ],
            )
        )

    def signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def etcd(tmp_path):
    server = Etcd(tmp_path)
    yield server
    server.kill()


@contextmanager
def served(place, processes, folder, etcd, *more, **fields):
    """A coordinator as a process; gives its URL, and the statuses that it prints."""
    (folder / "job.json").write_text(place.spec(**fields).to_json())
    until = time.monotonic() + 20
    while True:
        process = processes(
            *("serve", "--json", "--job", folder / "job.json", "--ca", place.folder / "ca.pem"),
            *(
                "--identity",
                place.folder / "agg",
                "--listen",
                "127.0.0.1:0",
                "--store",
                folder / "job.sqlite",
            ),
            *("--membership", etcd.url, "--membership-identity", etcd.ca / "to-etcd"),
            *("--membership-ca", etcd.ca / "ca.pem", "--limit", f"lease={LEASE}", "--log", "info", *more),
        )
        ready = process.stdout.readline()
        # Etcd takes a moment to start.
        if ready or time.monotonic() > until:
            break
    assert ready, process.communicate()[1]
    statuses, errors = queue.Queue(), []
    threads = [
        threading.Thread(target=lambda: [statuses.put(json.loads(line)) for line in process.stdout]),
        threading.Thread(target=lambda: errors.extend(process.stderr)),
    ]
    for thread in threads:
        thread.start()
    port = json.loads(ready)["address"].rpartition(":")[2]
    yield f"https://localhost:{port}", statuses, errors
    process.terminate()
    for thread in threads:
        thread.join(30)


def party(place, processes, url, name):
    """A party as a process of its own, which can be stopped."""
    return processes(
        *("join", url, "--job", "job", "--ca", place.folder / "ca.pem", "--identity", place.identity(name)),
        *("--train", "training:slow", *place.take_any),
    )


def until_round(statuses, accepts, seconds=60.0):
    """Wait for a status whose round is accepted."""
    end = time.monotonic() + seconds
    while True:
        status = statuses.get(timeout=max(0.1, end - time.monotonic()))
        if (current := status.get("round")) is not None and accepts(current):
            return current


def until_line(lines, text, seconds, times=1):
    """Wait for a line of a log that holds this, or for so many of them."""
    end = time.monotonic() + seconds
    while sum(text in line for line in lines) < times:
        assert time.monotonic() < end, "".join(lines[-100:])
        time.sleep(0.02)


def forget(statuses):
    """What was told until now is of no interest."""
    with suppress(queue.Empty):
        while True:
            statuses.get_nowait()


def done_with(*names):
    return lambda current: current["state"] == "done" and set(current["survivors"]) == set(names)


def test_a_party_that_stands_still_fails_and_comes_back(place, processes, etcd, tmp_path):
    fields = {"parties": 3, "min_parties": 2, "dropout": 0.4, "rounds": 0, "input_deadline": 600.0}
    with served(place, processes, tmp_path, etcd, **fields) as (url, statuses, errors):
        parties = {name: party(place, processes, url, name) for name in ("a", "b", "c")}
        until_round(statuses, done_with("a", "b", "c"))
        # Its connection stands: only its lease tells.
        parties["c"].send_signal(signal.SIGSTOP)
        until_line(errors, "its lease ran out", LEASE + 6)
        forget(statuses)
        until_round(statuses, done_with("a", "b"))
        parties["c"].send_signal(signal.SIGCONT)
        until_round(statuses, done_with("a", "b", "c"))


def test_rounds_go_on_while_etcd_is_killed_and_started_again(place, processes, etcd, tmp_path):
    with served(place, processes, tmp_path, etcd, rounds=0) as (url, statuses, errors):
        parties = {name: party(place, processes, url, name) for name in ("a", "b")}
        first = until_round(statuses, done_with("a", "b"))["number"]
        for again in (1, 2):
            etcd.kill()
            time.sleep(LEASE + 2.0)
            forget(statuses)
            first = until_round(statuses, lambda current, least=first: current["number"] > least)["number"]
            etcd.start()
            until_line(errors, "etcd is back", 30, again)
            # For longer than a lease: nobody fails who lives.
            time.sleep(LEASE + 2.0)
        # Leases are there again: one of them runs out there.
        parties["b"].send_signal(signal.SIGSTOP)
        until_line(errors, "its lease ran out", LEASE + 6)
        parties["b"].send_signal(signal.SIGCONT)
        forget(statuses)
        until_round(statuses, done_with("a", "b"))
    assert sum("etcd cannot be reached" in line for line in errors) == 2, errors
    assert sum("etcd is back" in line for line in errors) == 2
    assert not any("panicked" in line or "PRIVATE KEY" in line for line in errors)
    reports = stored_rounds(tmp_path / "job.sqlite", "job")
    reasons = [one["reason"] for one in reports if one["state"] == "aborted"]
    # But for the one in which b stood still, and the one under way at the end.
    assert len(reasons) <= 3, reasons


def test_an_etcd_that_stands_still_fails_nobody(place, processes, etcd, tmp_path):
    with served(place, processes, tmp_path, etcd, rounds=0) as (url, statuses, errors):
        for name in ("a", "b"):
            party(place, processes, url, name)
        until_round(statuses, done_with("a", "b"))
        etcd.signal(signal.SIGSTOP)
        until_line(errors, "etcd cannot be reached", LEASE + 10)
        # When it goes on, it finds that every lease has run out.
        time.sleep(LEASE + 2.0)
        forget(statuses)
        until_round(statuses, done_with("a", "b"))
        etcd.signal(signal.SIGCONT)
        until_line(errors, "etcd is back", 30)
        time.sleep(LEASE + 2.0)
        forget(statuses)
        until_round(statuses, done_with("a", "b"))
    assert not any("its lease ran out" in line for line in errors), errors


def test_what_cannot_be_used_is_refused_at_the_start(place, etcd):
    spec = place.spec()
    own = {"identity": place.folder / "agg", "ca": place.folder}

    def refused(rule, **other):
        with pytest.raises(bs.ConfigError, match=rule) as caught:
            bs.Coordinator(spec, **own, **(etcd.options | other))
        assert caught.value.field == "membership"

    with etcd_answers(spec, own, etcd):
        pass
    refused("client authentication", membership_identity=None)
    refused("not signed by the CA that is trusted", membership_ca=place.folder)
    refused("does not accept this side's certificate", membership_identity=place.identity("a"))
    refused("refused", membership=f"etcd://localhost:{etcd._peers + 1}")
    refused("is for other hosts", membership=f"etcd://[::ffff:127.0.0.1]:{etcd.port}")
    refused("must be HOST:PORT", membership="etcd://localhost")
    refused("Name or service not known|lookup", membership="etcd://no-such-host.invalid:2379")


@contextmanager
def etcd_answers(spec, own, etcd):
    """A coordinator, as soon as etcd has started."""
    end = time.monotonic() + 20
    while True:
        try:
            running = bs.Coordinator(spec, **own, **etcd.options)
            break
        except bs.ConfigError:
            assert time.monotonic() < end
    with running:
        yield running


def test_any_server_of_a_cluster_will_do(place, partner, etcd):
    spec, own = place.spec(), {"identity": place.folder / "agg", "ca": place.folder}
    with etcd_answers(spec, own, etcd):
        pass
    nobody = etcd._peers + 1
    several = {"membership": f"etcd://localhost:{nobody},localhost:{etcd.port}"}
    with bs.Coordinator(spec, **own, **(etcd.options | several)) as coordinator:
        parties = [partner(place, coordinator, name, np.ones(4)) for name in ("a", "b")]
        for party in parties:
            party.wait()
