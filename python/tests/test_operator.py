"""What the operator of a coordinator, and a party, are told while nothing seems to happen."""

import json
import shutil
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import blindsum as bs
from blindsum import pki

ENDLESS = {"parties": 2, "min_parties": 1, "rounds": 0, "join_deadline": 1.0}


@pytest.fixture
def other(place, tmp_path):
    """A copy of the CA, whose revocation lists are this test's own."""
    folder = tmp_path / "pki"
    shutil.copytree(place.folder, folder)
    return folder


def write_list(ca, seconds):
    """A revocation list with nobody on it that is valid for so many seconds from now on."""
    key = serialization.load_pem_private_key((ca / "ca.key").read_bytes(), None)
    issuer = x509.load_pem_x509_certificate((ca / "ca.pem").read_bytes())
    now = datetime.now(tz=UTC)
    made = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    made = made.last_update(now - timedelta(days=1)).next_update(now + timedelta(seconds=seconds))
    made = made.add_extension(x509.CRLNumber(1), critical=False)
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    of = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    made = made.add_extension(of, critical=False).sign(key, None)
    new = ca / "crl.new"
    new.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    new.replace(ca / "crl.pem")


def done(status):
    report = status["round"]
    return report is not None and report["state"] == "done" and report["number"]


def test_a_revocation_list_that_ends_fails_no_job(place, partner, other):
    write_list(other, 5)
    limits = {"reconnect_grace": 0.1, "failed_rounds": 1}
    with place.coordinator(place.spec(**ENDLESS), revoked=other / "crl.pem", limits=limits) as coordinator:
        party = partner(place, coordinator, "a", np.zeros(4), pause=0.05)
        statuses = coordinator.statuses()
        assert any(done(status) for status in statuses)
        soon = next(status for status in statuses if status["warning"])
        assert soon["warning"].startswith("the revocation list ends 20")
        over = next(status for status in statuses if "out of date since 20" in status["warning"])
        assert (over["state"], over["reason"]) == ("running", "")
        assert "blindsum pki revoke" in over["warning"]
        time.sleep(2)
        pki.revoke(other, [])
        well = next(status for status in statuses if not status["warning"])
        last = done(well) or well["round"]["number"]
        assert any(done(status) and done(status) > last for status in statuses)
        coordinator.stop()
    with pytest.raises((bs.NetworkError, bs.RoundAborted)):
        party.wait()


def test_a_party_that_is_revoked_hears_it_and_gets_no_further_model(place, other):
    pki.revoke(other, [])
    place.identity("bad")
    spec = place.spec(**ENDLESS | {"min_parties": 2, "parties": 3, "join_deadline": 60.0})
    with place.coordinator(spec, revoked=other / "crl.pem") as coordinator:
        statuses = coordinator.statuses()
        with place.join(coordinator, "bad") as job:
            assert any(status["connected"] == ["bad"] for status in statuses)
            pki.revoke(other, [place.folder / "bad.pem"])
            with pytest.raises(bs.NetworkError, match=r"does not accept this party's certificate.*revoked"):
                job.next_round(timeout=30)
            gone = next(status for status in statuses if not status["connected"] and status["left"])
            assert gone["left"] == {"bad": "its certificate is revoked"}
        coordinator.stop()


def serve(processes, place, tmp_path, *words, as_json=True, **fields):
    spec = place.spec(**{"parties": 3, "min_parties": 3, "rounds": 1} | fields)
    (tmp_path / "job.json").write_text(spec.to_json())
    fixed = ["--identity", place.folder / "agg", "--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0"]
    process = processes("serve", "--job", tmp_path / "job.json", *fixed, *words, *["--json"] * as_json)
    line = process.stdout.readline()
    address = json.loads(line)["address"] if as_json else line.split()[-1].removeprefix("https://")
    return process, f"https://localhost:{address.rpartition(':')[2]}"


def join(processes, place, url, name, *words):
    identity = ["--identity", place.identity(name), "--ca", place.folder / "ca.pem"]
    return processes(
        "join", url, "--job", "job", *identity, *place.take_any, "--train", "training:light", *words
    )


def test_who_waits_for_whom_is_said(processes, place, tmp_path):
    store = tmp_path / "job.sqlite"
    process, url = serve(processes, place, tmp_path, "--store", store, as_json=False)
    assert "parties connect by" in process.stdout.readline()
    assert "starts from zeros; --model FILE" in process.stdout.readline()
    assert "no party can be revoked" in process.stdout.readline()
    assert process.stdout.readline() == "0 of at least 3 parties are here; waiting\n"
    parties = [join(processes, place, url, "a")]
    joined = "joined job job as a: a round begins when at least 3 parties are here\n"
    assert parties[0].stdout.readline() == joined
    assert process.stdout.readline() == "1 of at least 3 parties are here (a); waiting\n"
    out, _ = processes("status", "--store", store).communicate(timeout=60)
    assert "a round begins when at least 3 parties are here" in out
    parties += [join(processes, place, url, name) for name in "bc"]
    lines = process.communicate(timeout=60)[0].splitlines()
    waits = [line for line in lines if "waiting" in line]
    # Either of the two may be the first to come, or both at once.
    assert waits in ([], *([f"2 of at least 3 parties are here (a, {two}); waiting"] for two in "bc"))
    assert "round 1: sum of 3 of 3 parties" in "\n".join(lines)
    for party in parties:
        assert "round 1: sum of 3 parties" in party.communicate(timeout=60)[0]


def test_who_waits_for_whom_is_in_the_events(processes, place, tmp_path):
    process, url = serve(processes, place, tmp_path)
    first = json.loads(process.stdout.readline())
    assert (first["connected"], first["min_parties"]) == ([], 3)
    join(processes, place, url, "a")
    assert json.loads(process.stdout.readline())["connected"] == ["a"]


def test_errors_are_logged_unless_told_otherwise(processes, place, other, tmp_path):
    pki.revoke(other, [])
    process, _ = serve(processes, place, tmp_path, "--crl", other / "crl.pem")
    (other / "crl.pem").write_text("broken")
    said = next(line for line in process.stderr if "ERROR" in line)
    assert "crl.pem" in said


def test_a_model_that_is_not_used_is_named(processes, place, tmp_path):
    store = ["--store", tmp_path / "job.sqlite"]
    np.save(tmp_path / "m.npy", np.full(4, 3.0))
    process, url = serve(processes, place, tmp_path, *store, parties=1, min_parties=1)
    join(processes, place, url, "a").communicate(timeout=60)
    assert process.wait(timeout=60) == 0
    process, _ = serve(
        processes, place, tmp_path, *store, "--model", tmp_path / "m.npy", parties=1, min_parties=1
    )
    said = process.communicate(timeout=60)[1]
    assert "the store has the job already" in said
    assert "version=1" in said


def test_a_failed_job_says_why_once_in_each_place(processes, place, tmp_path):
    process, _ = serve(processes, place, tmp_path, "--limit", "patience=0.5", as_json=False)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    reason = "0 parties were connected within 0.5 s, 3 are needed"
    # Once to the reader, once in the log.
    assert (out.count(reason), err.count(reason)) == (1, 1)
