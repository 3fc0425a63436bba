"""A coordinator in operation: signals, its own credentials, files that change, a store that others read."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import blindsum as bs
from blindsum import _native, pki
from blindsum.coordinator import back_up, stored_jobs, stored_model, stored_rounds


@pytest.fixture
def serve(processes, place, tmp_path):
    """Starts ``blindsum serve`` on a plain job; gives the process and its first event."""

    def start(*words, certificate=None, **fields):
        spec = place.spec(**{"parties": 1, "join_deadline": 60.0} | fields)
        (tmp_path / "job.json").write_text(spec.to_json())
        prefix = place.folder / "agg" if certificate is None else certificate
        fixed = ["--identity", prefix, "--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0", "--json"]
        process = processes("serve", "--job", tmp_path / "job.json", *fixed, *words)
        line = process.stdout.readline()
        return process, json.loads(line) if line else None

    return start


def joined(place, ready, name, **options):
    url = f"https://localhost:{ready['address'].rpartition(':')[2]}"
    options = {
        "policy": bs.Policy(**place.any_job),
        "give_up_after": 5.0,
    } | options
    return bs.join(url, job="job", identity=place.identity(name), ca=place.folder / "ca.pem", **options)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_cleanly_on_signals(serve, number):
    process, ready = serve()
    assert set(ready["hosts"]) == {"localhost", "127.0.0.1"}
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["event"] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_cleanly_while_it_starts(processes, place, tmp_path, number):
    os.mkfifo(tmp_path / "job.json")
    process = processes("serve", "--job", tmp_path / "job.json", *identity_words(place))
    # It waits for its job from here on.
    with open(tmp_path / "job.json", "w"):
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["event"] == "stopped"


def in_the_background(words, **options):
    """As ``sh -c 'command &'`` starts it: with SIGINT ignored."""
    return subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-m", "blindsum", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def serve_words(place, tmp_path, **fields):
    spec = place.spec(**{"parties": 1, "join_deadline": 60.0} | fields)
    (tmp_path / "job.json").write_text(spec.to_json())
    return ["serve", "--job", tmp_path / "job.json", *identity_words(place)]


def identity_words(place):
    files = ["--identity", place.folder / "agg", "--ca", place.folder / "ca.pem"]
    return [*files, "--listen", "127.0.0.1:0", "--json"]


def test_serve_stops_cleanly_where_sigint_was_ignored(place, tmp_path):
    with in_the_background(serve_words(place, tmp_path)) as process:
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_serve_has_handlers_of_its_own_which_process_one_needs(serve):
    process, _ = serve()
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"SigCgt:\s+(\w+)", status)[1], 16)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        assert caught & 1 << (number - 1), number.name


def test_a_hangup_ends_nothing(serve):
    process, _ = serve()
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_serve_goes_on_where_nobody_reads_what_it_prints(serve, place):
    process, ready = serve(parties=1, rounds=300, join_deadline=1.0)
    with joined(place, ready, "a") as job:
        for rnd in job.rounds():
            time.sleep(0.01)
            rnd.submit(np.zeros(4))
    # It has printed more than a pipe holds by now; that nobody reads must not keep it.
    process.wait(timeout=120)
    assert process.returncode == 0


@pytest.fixture
def other(place, tmp_path):
    """Another CA, and certificates that a coordinator cannot be started with."""
    folder = tmp_path / "pki"
    shutil.copytree(place.folder, folder)
    return folder


def refused(process, *texts):
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert err.startswith("blindsum: error: ")
    assert err.count("\n") == 1, err
    for text in texts:
        assert text in err, err


def test_serve_refuses_a_party_s_certificate(serve, place):
    process, ready = serve(certificate=place.identity("a"))
    assert ready is None
    refused(process, "a.pem", "server authentication", "blindsum pki issue", "--coordinator --host")


def test_serve_refuses_a_certificate_of_another_ca(serve, tmp_path):
    pki.init(tmp_path / "foreign")
    pki.issue(tmp_path / "foreign", "agg", hosts=["localhost"])
    process, ready = serve(certificate=tmp_path / "foreign" / "agg")
    assert ready is None
    refused(process, str(tmp_path / "foreign" / "agg.pem"), "not signed by the job's CA", "ca.pem")


def test_serve_refuses_an_expired_certificate(serve, place, tmp_path):
    authority = ((place.folder / "ca.pem").read_text(), (place.folder / "ca.key").read_text())
    certificate, key = _native.pki_issue(authority, "old", "coordinator", ["localhost"], "ed25519", 0)
    (tmp_path / "old.pem").write_text(certificate)
    (tmp_path / "old.key").write_text(key)
    time.sleep(1.5)
    process, ready = serve(certificate=tmp_path / "old")
    assert ready is None
    refused(process, "old.pem", "expired", "new one")


def test_serve_refuses_the_key_of_another_certificate(serve, place, tmp_path):
    shutil.copy(place.folder / "agg.pem", tmp_path / "mixed.pem")
    place.identity("a")
    shutil.copy(place.folder / "a.key", tmp_path / "mixed.key")
    process, ready = serve(certificate=tmp_path / "mixed")
    assert ready is None
    refused(process, "mixed.key", "mixed.pem", "belong together")


def write_list_of_yesterday(ca):
    key = serialization.load_pem_private_key((ca / "ca.key").read_bytes(), None)
    issuer = x509.load_pem_x509_certificate((ca / "ca.pem").read_bytes())
    now = datetime.now(tz=UTC)
    made = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    made = made.last_update(now - timedelta(days=2)).next_update(now - timedelta(days=1))
    made = made.add_extension(x509.CRLNumber(1), critical=False)
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    of = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    made = made.add_extension(of, critical=False).sign(key, None)
    (ca / "crl.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))


def test_serve_refuses_a_revocation_list_that_is_out_of_date_or_of_another_ca(serve, other, tmp_path):
    write_list_of_yesterday(other)
    process, ready = serve("--crl", other / "crl.pem")
    assert ready is None
    refused(process, "crl.pem", "out of date", "blindsum pki revoke")
    pki.init(tmp_path / "foreign")
    pki.revoke(tmp_path / "foreign", [])
    process, ready = serve("--crl", tmp_path / "foreign" / "crl.pem")
    assert ready is None
    refused(process, "foreign/crl.pem", "not signed by the job's CA")


def test_serve_refuses_its_own_revoked_certificate(serve, other):
    pki.revoke(other, [other / "agg.pem"])
    process, ready = serve("--crl", other / "crl.pem")
    assert ready is None
    refused(process, "agg.pem", "revoked")


ENDLESS = {"parties": 2, "min_parties": 1, "rounds": 0, "join_deadline": 1.0}


def survivors(coordinator):
    """Of every round that is done, as they come."""
    last = 0
    for status in coordinator.statuses():
        report = status["round"]
        if report is not None and report["state"] == "done" and report["number"] > last:
            last = report["number"]
            yield report["survivors"]


def test_a_party_on_a_new_revocation_list_is_in_no_further_round(place, partner, other):
    pki.revoke(other, [])
    place.identity("bad")
    with place.coordinator(place.spec(**ENDLESS), revoked=other / "crl.pem") as coordinator:
        parties = [partner(place, coordinator, name, np.zeros(4), pause=0.02) for name in ("bad", "good")]
        rounds = survivors(coordinator)
        assert any(found == ["bad", "good"] for found in rounds)
        pki.revoke(other, [place.folder / "bad.pem"])
        assert any(found == ["good"] for found in rounds)
        # A list that cannot be read changes nothing.
        (other / "crl.pem").write_text("nothing")
        coordinator.reload()
        assert next(rounds) == ["good"]
        coordinator.stop()
    for party in parties:
        with pytest.raises((bs.NetworkError, bs.RoundAborted)):
            party.wait()


def test_a_party_reads_a_new_revocation_list_too(place, partner, other):
    pki.revoke(other, [])
    place.identity("bad")
    told = []

    def on_lost(error):
        told.append(error)
        if "revoked" in str(error):
            raise error

    spec = place.spec(**ENDLESS | {"parties": 3})
    with place.coordinator(spec) as coordinator:
        parties = [partner(place, coordinator, name, np.zeros(4), pause=0.02) for name in ("bad", "good")]
        careful = place.join(coordinator, "careful", revoked=other / "crl.pem")
        with careful as job, pytest.raises(bs.BlindsumError, match="revoked"):
            for rnd in job.rounds(on_lost):
                rnd.submit(np.zeros(4))
                if rnd.result() is not None and "bad" in rnd.parties:
                    pki.revoke(other, [place.folder / "bad.pem"])
                    job.reload()
        coordinator.stop()
    for party in parties:
        with pytest.raises((bs.NetworkError, bs.RoundAborted)):
            party.wait()


def test_a_broken_file_is_logged_by_its_name_and_a_renewed_certificate_is_shown(
    serve, place, other, tmp_path
):
    log = tmp_path / "log"
    process, ready = serve("--log", "info", certificate=other / "agg", parties=1)
    (other / "agg.pem").write_text("broken")
    process.send_signal(signal.SIGHUP)
    # The certificate that it has is shown all the same.
    joined(place, ready, "a").close()
    for ending in ("pem", "key"):
        (other / f"agg.{ending}").unlink()
    pki.issue(other, "agg", hosts=["renewed.example"])
    deadline = time.monotonic() + 60
    while True:
        try:
            joined(place, ready, "a", server_name="renewed.example").close()
            break
        except bs.NetworkError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    log.write_text(err)
    broken = [line for line in err.splitlines() if "cannot be used" in line]
    assert broken, err
    assert "agg.pem" in broken[0]
    assert "ERROR" in broken[0]
    assert "read again" in err


def test_a_store_is_read_and_copied_while_rounds_go_on(place, partner, tmp_path):
    store, spec = tmp_path / "job.sqlite", place.spec(**ENDLESS | {"parties": 1})
    with place.coordinator(
        spec, store=store, limits={"models_kept": 50, "reconnect_grace": 0.5}
    ) as coordinator:
        party = partner(place, coordinator, "a", np.full(4, 0.5), pause=0.02)
        rounds = survivors(coordinator)
        seen = []
        for _ in range(10):
            next(rounds)
            (status,) = stored_jobs(store)
            model = stored_model(store, "job", status["model_version"])
            assert np.allclose(model, 0.5 * status["model_version"], atol=1e-3 * status["model_version"])
            seen.append(status["rounds_done"])
        assert seen == sorted(seen)
        assert seen[-1] >= 10
        back_up(store, tmp_path / "copy.sqlite")
        with pytest.raises(bs.StoreError, match="exists"):
            back_up(store, tmp_path / "copy.sqlite")
        with pytest.raises(bs.StoreError, match="another coordinator uses it"):
            bs.Coordinator(spec, identity=place.folder / "agg", ca=place.folder, store=store)
        (tmp_path / "alias.sqlite").symlink_to(store)
        with pytest.raises(bs.StoreError, match="another coordinator uses it"):
            bs.Coordinator(
                spec, identity=place.folder / "agg", ca=place.folder, store=tmp_path / "alias.sqlite"
            )
        coordinator.stop()
    with pytest.raises((bs.NetworkError, bs.RoundAborted)):
        party.wait()
    (copied,) = stored_jobs(tmp_path / "copy.sqlite")
    assert copied["rounds_done"] >= 10
    # The copy is a store like any other: a job goes on from it.
    with place.coordinator(spec, store=tmp_path / "copy.sqlite") as coordinator:
        first = next(status for status in coordinator.statuses() if status["round"])
        assert first["rounds_done"] == copied["rounds_done"]
        with place.join(coordinator, "b") as session:
            current = session.next_round()
            assert np.allclose(current.model, 0.5 * copied["model_version"], atol=0.1)
            current.submit(np.zeros(4))
            assert current.outcome().model_version == copied["model_version"] + 1
        coordinator.stop()


def test_faults_are_listed_with_what_shows_them(processes, place, tmp_path):
    store = tmp_path / "job.sqlite"
    with place.coordinator(place.spec(), store=store) as coordinator:
        coordinator.stop()
    rows = [(1, "a", None, "malformed", b"\x07" * 9, 70_000), (3, "b", "c", "does not open", b"", 0)]
    insert = (
        "INSERT INTO faults (at_ms, job, round, culprit, accuser, what, evidence, length, times) "
        "VALUES (0, 'job', ?, ?, ?, ?, ?, ?, 1)"
    )
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.executemany(insert, rows)
    first, second = bs.coordinator.stored_faults(store, "job")
    assert (first.round, first.culprit, first.accuser, first.length) == (1, "a", None, 70_000)
    assert (first.evidence, second.accuser) == (b"\x07" * 9, "c")
    assert "evidence" not in repr(first)
    process = processes("faults", "--store", store, "--out", tmp_path / "shown")
    out, _ = process.communicate(timeout=60)
    lines = out.splitlines()
    assert lines[0] == f"round 1: a: malformed ({tmp_path / 'shown' / '000-round-1.bin'})"
    assert lines[1].startswith("round 3: b, says c: does not open")
    assert (tmp_path / "shown" / "000-round-1.bin").read_bytes() == b"\x07" * 9
    process = processes("faults", "--store", store, "--json")
    out, _ = process.communicate(timeout=60)
    assert [json.loads(line)["bytes"] for line in out.splitlines()] == [70_000, 0]
    process = processes("faults", "--store", store, "--job", "other")
    _, err = process.communicate(timeout=60)
    assert "give one of the store's jobs: job" in err


def test_the_commands_read_a_store_in_use(serve, processes, place, tmp_path):
    def ran(*words):
        process = processes(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    store = tmp_path / "job.sqlite"
    process, ready = serve("--store", store, rounds=0)
    with joined(place, ready, "a") as job:
        rnd = job.next_round()
        rnd.submit(np.full(4, 0.5))
        rnd.outcome()
        status, out, _ = ran("status", "--store", store)
        assert status == 0
        assert "job job (plain): running, 1 rounds done, model version 1" in out
        assert json.loads(ran("status", "--store", store, "--json")[1])[0]["rounds_done"] == 1
        assert ran("model", "--store", store, "--out", tmp_path / "model.npy")[0] == 0
        assert np.allclose(np.load(tmp_path / "model.npy"), 0.5, atol=1e-3)
        assert ran("backup", "--store", store, "--out", tmp_path / "copy.sqlite")[0] == 0
        status, _, err = ran("model", "--store", store, "--job", "other", "--out", tmp_path / "other.npy")
        assert (status, "give one of the store's jobs: job" in err) == (2, True)
        status, _, err = ran("model", "--store", store, "--version", "9", "--out", tmp_path / "other.npy")
        assert (status, "version 9" in err) == (1, True)
        status, _, err = ran("backup", "--store", store, "--out", tmp_path / "copy.sqlite")
        assert (status, "exists" in err) == (1, True)
    assert stored_rounds(tmp_path / "copy.sqlite", "job")[0]["state"] == "done"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    status, out, _ = ran("faults", "--store", tmp_path / "copy.sqlite")
    assert (status, out) == (0, "no faults of job job\n")
    # The same where nobody uses it, and of a file that is none.
    assert ran("status", "--store", store)[0] == 0
    (tmp_path / "other").write_text("no database at all, but a text that is long enough" * 99)
    status, _, err = ran("status", "--store", tmp_path / "other")
    assert status == 1
    assert err.startswith("blindsum: error: ")


def test_a_job_without_a_model_has_none_to_write(serve, processes, place, tmp_path):
    store = tmp_path / "job.sqlite"
    process, ready = serve("--store", store, rounds=1, model_update="none")
    url = f"https://localhost:{ready['address'].rpartition(':')[2]}"
    words = ["join", url, "--job", "job", "--identity", place.identity("a"), "--ca", place.folder / "ca.pem"]
    words += [*place.take_any, "--train", "training:light"]
    for path, expected in [(["--out", tmp_path / "a.npy"], 2), ([], 0)]:
        party = processes(*words, *path)
        _, err = party.communicate(timeout=60)
        assert party.returncode == expected, err
        assert ("the job has no model" in err) == bool(path)
    assert process.wait(60) == 0
    model = processes("model", "--store", store, "--out", tmp_path / "a.npy")
    _, err = model.communicate(timeout=60)
    assert (model.returncode, "job job has no model" in err) == (1, True), err
    assert not (tmp_path / "a.npy").exists()
