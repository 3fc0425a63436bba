"""One CA takes the place of another while a job runs over TLS, and keys that are encrypted."""

import json
import shutil
import socket
import ssl
import threading
import time

import numpy as np
import pytest

import blindsum as bs
from blindsum import pki
from blindsum.cli import main

WORDS = "correct horse"
NAMES = ("a", "b", "c")


class Member:
    """Somebody's own folder: a certificate, its key, the CA and its list, replaced as by ``mv``."""

    def __init__(self, folder, ca, name, **kind):
        self.folder, self.name, self._kind = folder / name, name, kind
        self.request = pki.request(name, out=self.folder)
        self.renew(ca)
        self.trust(ca / "ca.pem", "ca.pem")
        self.trust(ca / "crl.pem", "crl.pem")

    def renew(self, ca):
        pki.sign(ca, self.request, replace=True, **self._kind)

    def trust(self, file, name):
        new = self.folder / f"{name}.new"
        shutil.copy(file, new)
        new.replace(self.folder / name)

    @property
    def credentials(self):
        return {
            "identity": self.folder / self.name,
            "ca": self.folder / "ca.pem",
            "revoked": self.folder / "crl.pem",
        }


class Party:
    """Takes part in every round on a thread, and notes how each ends."""

    def __init__(self, place, url, member):
        self.rounds, self.error = [], None
        self._arguments = (url, member, bs.Policy(**place.any_job))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        url, member, policy = self._arguments
        try:
            with bs.join(url, job="job", policy=policy, give_up_after=20, **member.credentials) as job:
                for rnd in job.rounds():
                    time.sleep(0.05)
                    rnd.submit(np.ones(4), 1)
                    result = rnd.outcome()
                    self.rounds.append((rnd.number, tuple(result.survivors)))
        except bs.BlindsumError as error:
            self.error = error

    def wait_for(self, more):
        """Wait until so many more rounds are over."""
        until, goal = time.monotonic() + 60, len(self.rounds) + more
        while len(self.rounds) < goal:
            assert self.error is None, self.error
            assert time.monotonic() < until, self.rounds
            time.sleep(0.05)


def test_a_ca_is_replaced_while_rounds_run_and_no_round_is_lost(place, tmp_path):
    old, new = tmp_path / "ca", tmp_path / "ca-2"
    pki.init(old)
    pki.revoke(old, [])
    agg = Member(tmp_path, old, "agg", hosts=["localhost"])
    members = [agg, *(Member(tmp_path, old, name) for name in NAMES)]
    stranger = Member(tmp_path, old, "stranger")
    spec = place.spec(parties=3, min_parties=3, rounds=0, join_deadline=60.0)
    coordinator = bs.Coordinator(spec, **agg.credentials, listen="127.0.0.1:0")
    try:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        parties = [Party(place, url, member) for member in members[1:]]

        def go_on():
            # Files are looked at every two seconds; rounds go on meanwhile.
            time.sleep(2.5)
            parties[0].wait_for(3)

        parties[0].wait_for(3)
        rolled = pki.roll(old, new)
        for member in members:
            member.trust(rolled.bundle, "ca.pem")
        go_on()
        for member in members:
            member.trust(rolled.lists, "crl.pem")
        go_on()
        assert {entry.name for entry in pki.unrenewed(old, new)} == {"agg", *NAMES, "stranger"}
        # Half of them have new certificates, and half old ones.
        for member in members[:2]:
            member.renew(new)
        go_on()
        for member in members[2:]:
            member.renew(new)
        go_on()
        assert [entry.name for entry in pki.unrenewed(old, new)] == ["stranger"]
        for member in members:
            member.trust(new / "crl.pem", "crl.pem")
            member.trust(new / "ca.pem", "ca.pem")
        go_on()
        # The old CA is good for nothing any more.
        stranger.trust(rolled.bundle, "ca.pem")
        stranger.trust(rolled.lists, "crl.pem")
        with pytest.raises(bs.BlindsumError, match="certificate"):
            bs.join(url, job="job", give_up_after=3, **stranger.credentials)
        assert [party.error for party in parties] == [None] * 3
        found = [list(party.rounds) for party in parties]
    finally:
        coordinator.stop()
    # Every round has a sum of all three, at every party.
    for rounds in found:
        assert [number for number, _ in rounds] == list(range(1, len(rounds) + 1))
        assert {survivors for _, survivors in rounds} == {NAMES}
    assert min(map(len, found)) >= 18


def test_a_roll_makes_files_for_both(tmp_path, capsys):
    old, new = tmp_path / "ca", tmp_path / "ca-2"
    pki.init(old)
    bad = pki.show(pki.issue(old, "bad").certificate)["serial"]
    pki.issue(old, "good")
    pki.revoke(old, ["bad"])
    assert main(["pki", "roll", str(old), str(new), "--algorithm", "p256"]) == 0
    said = capsys.readouterr().out
    for name in ("ca.pem", "both.pem", "both-crl.pem"):
        assert str(new / name) in said
        assert (new / name).stat().st_mode & 0o777 == 0o600
    shown = pki.show(new / "both.pem")
    assert [one["subject"] for one in (shown, *shown["others"])] == ["CN=Blindsum CA", "CN=Blindsum CA 2"]
    lists = pki.show(new / "both-crl.pem")
    assert lists["serials"] == [bad]
    assert [one["issuer"] for one in lists["others"]] == ["CN=Blindsum CA 2"]
    assert main(["pki", "roll", str(old), str(new), "--status"]) == 3
    assert capsys.readouterr().out == f"party good has no certificate of {new} yet\n"
    pki.issue(new, "good")
    assert main(["pki", "roll", str(old), str(new), "--status"]) == 0
    third = pki.roll(new, tmp_path / "ca-3")
    assert pki.show(third.authority)["subject"] == "CN=Blindsum CA 3"


def test_a_roll_is_refused_before_anything_is_made(tmp_path):
    old, new = tmp_path / "ca", tmp_path / "ca-2"
    pki.init(old, passphrase=WORDS)
    before = {path: path.read_bytes() for path in old.iterdir()}
    for arguments, why in (
        ({"name": "Blindsum CA", "ca_passphrase": WORDS}, "is called 'Blindsum CA' too"),
        ({}, "no passphrase is given"),
        ({"ca_passphrase": "wrong words"}, "the passphrase is wrong"),
    ):
        with pytest.raises(bs.IdentityError, match=why):
            pki.roll(old, new, **arguments)
    with pytest.raises(bs.IdentityError, match="not overwritten"):
        pki.roll(old, old, name="other", ca_passphrase=WORDS)
    assert not new.exists()
    assert {path: path.read_bytes() for path in old.iterdir()} == before
    pki.roll(old, new, ca_passphrase=WORDS, passphrase="another one")
    assert pki.is_encrypted(new / "ca.key")


def test_a_bundle_holds_one_of_each_ca(tmp_path, capsys):
    first, second = pki.init(tmp_path / "1").parent, pki.init(tmp_path / "2", name="Second").parent
    same = pki.init(tmp_path / "3").parent
    lists = [pki.revoke(ca, []) for ca in (first, second)]
    party = pki.issue(first, "a").certificate
    out = tmp_path / "out.pem"
    for files, why in (
        ([first / "ca.pem", lists[0]], "alone"),
        ([first / "ca.pem", party], "no certificate of a CA"),
        ([first / "ca.pem", same / "ca.pem"], "is the second certificate of CN=Blindsum CA"),
        ([lists[0], lists[0]], "is the second revocation list of CN=Blindsum CA"),
        ([first / "ca.key"], "is a private key"),
    ):
        assert main(["pki", "bundle", *map(str, files), "--out", str(out)]) == 2
        assert why in capsys.readouterr().err
        assert not out.exists()
    assert main(["pki", "bundle", *map(str, lists), "--out", str(out)]) == 0
    assert len(pki.show(out)["others"]) == 1


def test_encrypted_keys_in_a_job(place, tmp_path):
    def encrypted(name, **kind):
        return pki.Identity.find(
            pki.issue(place.folder, name, out=tmp_path, passphrase=WORDS, **kind).key.with_suffix(""), WORDS
        )

    agg, a, b = encrypted("agg", hosts=["localhost"]), encrypted("a"), encrypted("b")
    for identity, why in (
        (tmp_path / "a", "the key is encrypted and no passphrase is given"),
        (pki.Identity(a.certificate, a.key, "wrong words"), "the passphrase is wrong"),
    ):
        with pytest.raises(bs.IdentityError, match=why):
            bs.join("https://localhost:1", job="job", identity=identity, ca=place.folder)
    with pytest.raises(bs.IdentityError, match="no passphrase is given"):
        bs.Coordinator(place.spec(), identity=tmp_path / "agg", ca=place.folder, listen="127.0.0.1:0")
    spec = place.spec(rounds=1, min_parties=2)
    coordinator = bs.Coordinator(spec, identity=agg, ca=place.folder, listen="127.0.0.1:0")
    url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
    means = []

    def take_part(identity):
        with bs.join(
            url, job="job", identity=identity, ca=place.folder, policy=bs.Policy(**place.any_job)
        ) as job:
            for rnd in job.rounds():
                rnd.submit(np.full(4, 0.5), 1)
                means.append(rnd.result())

    threads = [threading.Thread(target=take_part, args=(identity,), daemon=True) for identity in (a, b)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join(60)
        assert len(means) == 2
        assert np.allclose(means, 0.5, atol=1e-4)
    finally:
        coordinator.stop()


def test_serve_and_join_read_encrypted_keys(place, processes, tmp_path, monkeypatch):
    words = tmp_path / "words"
    words.write_text(f"{WORDS}\n")
    for name, kind in (("agg", {"hosts": ["localhost"]}), ("a", {}), ("b", {})):
        pki.issue(place.folder, name, out=tmp_path / "keys", passphrase=WORDS, **kind)
    (tmp_path / "job.json").write_text(place.spec(rounds=1, min_parties=2).to_json())
    common = ["--ca", place.folder / "ca.pem"]
    serve = [
        "serve",
        "--job",
        "job.json",
        *common,
        "--identity",
        "keys/agg",
        "--listen",
        "127.0.0.1:0",
        "--json",
    ]
    refused = processes(*serve)
    assert refused.wait(60) == 2
    assert "--key-passphrase-file" in refused.stderr.read()
    server = processes(*serve, "--key-passphrase-file", words)
    address = json.loads(server.stdout.readline())["address"]
    monkeypatch.setenv("BLINDSUM_KEY_PASSPHRASE", WORDS)
    url = f"https://localhost:{address.rpartition(':')[2]}"
    join = ["join", url, "--job", "job", *common, "--train", "training:light", *place.take_any]
    parties = [processes(*join, "--identity", f"keys/{name}") for name in "ab"]
    for process in [*parties, server]:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err


def test_the_coordinator_lets_no_operator_in(place, tmp_path):
    """Over TLS by another library: nothing is answered but that the connection ends."""
    operator = pki.issue(place.folder, "alice", operator=True, out=tmp_path)

    def answer(identity):
        context = ssl.create_default_context(cafile=place.folder / "ca.pem")
        context.load_cert_chain(f"{identity}.pem", f"{identity}.key")
        context.set_alpn_protocols(["h2"])
        stream = socket.create_connection(("127.0.0.1", port), timeout=20)
        with stream, context.wrap_socket(stream, server_hostname="localhost") as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            return connection.recv(1000)

    with place.coordinator(place.spec()) as coordinator:
        port = int(coordinator.address.rpartition(":")[2])
        # The settings of HTTP/2.
        assert answer(place.identity("a"))[3] == 4
        try:
            said = answer(operator.certificate.with_suffix(""))
        except (ssl.SSLError, ConnectionError):
            said = b""
        assert said == b""
