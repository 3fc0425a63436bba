"""Leases of parties, and what is refused of the place where they are kept.

Leases in etcd are tested in crates/net/tests/suite/membership.rs with a stand-in, and by `make etcd`.
"""

import json
import queue
import re
import signal
import threading
import time

import pytest

import blindsum as bs
from blindsum.cli import main

NO_PLACE = [
    ("", "must be embedded, or etcd://HOST:PORT"),
    ("https://localhost:2379", "must be embedded, or etcd://HOST:PORT"),
    ("etcd://localhost", "must be HOST:PORT"),
    ("etcd://user:secret@localhost:2379", "without user and password"),
    # A coordinator's own certificate is for servers only.
    ("etcd://localhost:2379", "certificates with client authentication"),
]


@pytest.mark.parametrize(("where", "rule"), NO_PLACE)
def test_a_place_that_cannot_be_used_is_refused(place, where, rule):
    with pytest.raises(bs.ConfigError, match=rule) as caught:
        bs.Coordinator(place.spec(), identity=place.folder / "agg", ca=place.folder, membership=where)
    assert caught.value.field == "membership"


def test_an_etcd_that_is_not_there_is_refused(place):
    own = {"identity": place.folder / "agg", "ca": place.folder, "membership": "etcd://localhost:1"}
    with pytest.raises(bs.ConfigError, match=r"etcd at localhost:1: nothing listens there") as caught:
        bs.Coordinator(place.spec(), **own, membership_identity=place.identity("to-etcd"))
    assert caught.value.field == "membership"
    own["membership"] = "embedded"
    with pytest.raises(bs.ConfigError, match="leave them out"):
        bs.Coordinator(place.spec(), **own, membership_identity=place.identity("to-etcd"))


@pytest.mark.parametrize("lease", [0, 0.5, -1, 1e7])
def test_a_lease_that_is_none_is_refused(place, lease):
    own = {"identity": place.folder / "agg", "ca": place.folder}
    with pytest.raises(bs.ConfigError, match=r"limits\.lease") as caught:
        bs.Coordinator(place.spec(), **own, limits={"lease": lease})
    assert caught.value.field == "limits.lease"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--membership", "etcd://nowhere"], "--membership: .*must be HOST:PORT"),
        (["--membership", "etcd://localhost:1"], "--membership: .*client authentication"),
        (
            ["--server", "1", "--membership", "etcd://localhost:1"],
            "--membership: only the coordinator has one",
        ),
        (["--server", "1", "--membership-ca", "ca.pem"], "--membership-ca: only the coordinator has one"),
    ],
)
def test_the_command_names_its_flag(place, tmp_path, capsys, flags, says):
    (tmp_path / "job.json").write_text(place.spec().to_json())
    own = ["--ca", str(place.folder / "ca.pem"), "--identity", str(place.folder / "agg")]
    assert main(["serve", "--job", str(tmp_path / "job.json"), *own, "--listen", "127.0.0.1:0", *flags]) == 2
    said = capsys.readouterr().err
    assert re.search(says, said), said


def test_a_party_that_stands_still_fails_and_comes_back(place, processes, tmp_path):
    """Its connection stands all the time: only the lease tells."""
    fields = {"parties": 3, "min_parties": 2, "dropout": 0.4, "rounds": 0, "input_deadline": 600.0}
    (tmp_path / "job.json").write_text(place.spec(**fields).to_json())
    server = processes(
        *("serve", "--json", "--job", tmp_path / "job.json", "--ca", place.folder / "ca.pem"),
        *("--identity", place.folder / "agg", "--listen", "127.0.0.1:0", "--limit", "lease=2"),
    )
    port = json.loads(server.stdout.readline())["address"].rpartition(":")[2]
    statuses = queue.Queue()
    reader = threading.Thread(target=lambda: [statuses.put(json.loads(line)) for line in server.stdout])
    reader.start()
    parties = {
        name: processes(
            *("join", f"https://localhost:{port}", "--job", "job", "--ca", place.folder / "ca.pem"),
            *("--identity", place.identity(name), "--train", "training:slow", *place.take_any),
        )
        for name in ("a", "b", "c")
    }

    def until(accepts):
        end = time.monotonic() + 60
        while not accepts(status := statuses.get(timeout=max(0.1, end - time.monotonic()))):
            pass
        return status

    def done_with(*names):
        def accepts(status):
            current = status.get("round") or {"state": "", "survivors": []}
            return current["state"] == "done" and sorted(current["survivors"]) == list(names)

        return accepts

    until(done_with("a", "b", "c"))
    parties["c"].send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    until(lambda status: "c" not in status.get("connected", ["c"]))
    assert time.monotonic() - begun < 15
    until(done_with("a", "b"))
    parties["c"].send_signal(signal.SIGCONT)
    until(done_with("a", "b", "c"))
    server.terminate()
    reader.join(30)
