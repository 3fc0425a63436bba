"""What a CA has signed: its index, revocation by name, and what ends soon."""

import json
import os
import stat
import subprocess
import sys
import time

import pytest
from cryptography import x509

import blindsum as bs
from blindsum import pki
from blindsum.cli import main
from blindsum.pki import index

DAY = 86_400


@pytest.fixture
def ca(tmp_path):
    return pki.init(tmp_path / "ca").parent


def without_index(ca):
    """The folder as the version before left it."""
    (ca / "index.json").unlink()
    (ca / "index.lock").unlink(missing_ok=True)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def listed(ca, capsys):
    capsys.readouterr()
    assert main(["pki", "list", str(ca), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def revoked_serials(ca):
    found = x509.load_pem_x509_crl((ca / "crl.pem").read_bytes())
    return {f"{one.serial_number:032x}" for one in found}


def test_the_index_has_what_was_signed(ca, tmp_path):
    hospital = pki.sign(ca, pki.request("hospital-a", out=tmp_path), days=20)
    pki.issue(ca, "agg", hosts=["localhost"])
    pki.issue(ca, "second", hosts=["localhost"], computes=True)
    pki.issue(ca, "alice", operator=True)
    known = pki.certificates(ca)
    assert [(entry.name, entry.role) for entry in known.entries] == [
        ("hospital-a", "party"),
        ("agg", "coordinator"),
        ("second", "server"),
        ("alice", "operator"),
    ]
    assert known.unknown_until is None
    certificate = x509.load_pem_x509_certificate(hospital.read_bytes())
    first = known.entries[0]
    assert int(first.serial, 16) == certificate.serial_number
    assert first.fingerprint == pki.show(hospital)["fingerprint"]
    assert first.not_after == certificate.not_valid_after_utc.timestamp()
    assert first.revoked is None
    # Without the key, as where the list is looked at elsewhere.
    (ca / "ca.key").unlink()
    assert pki.certificates(ca) == known


def test_files_are_for_their_owner_alone(ca, tmp_path):
    before = os.umask(0)
    try:
        pki.issue(ca, "a", out=tmp_path / "new" / "deeper")
        pki.request("b", out=tmp_path / "other")
        pki.revoke(ca, ["a"])
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 10
    assert {str(path): mode(path) for path in files} == {str(path): 0o600 for path in files}
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {mode(path) for path in folders} == {0o700}
    # What somebody has opened for others stays open.
    (ca / "crl.pem").chmod(0o644)
    pki.revoke(ca, [])
    assert mode(ca / "crl.pem") == 0o644


def test_commands_at_once_lose_nothing(ca):
    script = (
        "import sys; from blindsum import pki\n"
        "for number in range(4):\n"
        "    pki.issue(sys.argv[1], f'{sys.argv[2]}-{number}')\n"
        "    pki.revoke(sys.argv[1], [f'{sys.argv[2]}-{number}'], why='test')\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", script, ca, name]) for name in ("a", "b", "c")]
    assert [process.wait(120) for process in started] == [0, 0, 0]
    known = pki.certificates(ca)
    names = {f"{name}-{number}" for name in "abc" for number in range(4)}
    assert {entry.name for entry in known.entries} == names
    assert len(known.entries) == len(names) == len(known.revoked)
    assert known.list_number == len(names)
    assert revoked_serials(ca) == set(known.revoked)
    assert not list(ca.glob(".*.new"))


def test_a_lock_that_stays_is_named(ca, monkeypatch):
    monkeypatch.setattr(index, "LOCK_WAIT", 0.1)
    with index.locked(ca), pytest.raises(bs.IdentityError, match=r"index\.lock: another command"):
        pki.issue(ca, "a")
    assert not (ca / "a.pem").exists()


def test_a_name_is_revoked_without_its_file(ca, capsys):
    first = pki.issue(ca, "hospital-a")
    serial = pki.show(first.certificate)["serial"]
    first.certificate.unlink()
    assert main(["pki", "revoke", str(ca), "hospital-a", "--why", "key lost"]) == 0
    assert f"revoked party hospital-a, serial number {serial}" in capsys.readouterr().out
    assert revoked_serials(ca) == {serial}
    (entry,) = listed(ca, capsys)["certificates"]
    assert (entry["state"], entry["revoked"]["why"]) == ("revoked", "key lost")
    assert abs(entry["revoked"]["when"] - time.time()) < 60
    with pytest.raises(bs.IdentityError, match="hospital-a has no valid certificate, all 1 have expired or"):
        pki.revoke(ca, ["hospital-a"])


def test_a_name_means_all_its_valid_certificates(ca, tmp_path):
    request = pki.request("a", out=tmp_path)
    for _ in range(3):
        pki.sign(ca, request, replace=True)
    serials = [entry.serial for entry in pki.certificates(ca).entries]
    pki.revoke(ca, [serials[0].upper()], why="first")
    pki.revoke(ca, ["a"], why="all")
    assert revoked_serials(ca) == set(serials)
    # The first one keeps its reason.
    assert [entry.revoked.why for entry in pki.certificates(ca).entries] == ["first", "all", "all"]


def test_what_is_unknown_is_not_revoked(ca):
    pki.issue(ca, "a")
    for what in ("b", "0" * 32, "no such file.pem"):
        with pytest.raises(bs.IdentityError, match="is no file, and no name or serial number") as caught:
            pki.revoke(ca, [what])
        assert "blindsum pki list" in str(caught.value)
    assert not (ca / "crl.pem").exists()
    assert pki.certificates(ca).list_number == 0


def test_a_folder_of_the_version_before_goes_on(ca, tmp_path, capsys):
    here = pki.issue(ca, "here")
    away = pki.sign(ca, pki.request("away", out=tmp_path))
    gone = pki.show(pki.issue(ca, "gone", out=tmp_path / "gone").certificate)["serial"]
    pki.revoke(ca, [gone])
    without_index(ca)
    said = listed(ca, capsys)
    states = {entry["name"]: entry["state"] for entry in said["certificates"]}
    assert states == {"here": "valid", "unknown": "revoked"}
    assert abs(said["unknown_until"] - time.time()) < 60
    assert main(["pki", "list", str(ca)]) == 0
    assert "may be missing: an earlier version kept no index" in capsys.readouterr().out
    # The first command that changes something writes the index, and what is known of the list goes on.
    pki.revoke(ca, ["here"], why="test")
    assert revoked_serials(ca) == {gone, pki.show(here.certificate)["serial"]}
    assert pki.certificates(ca).list_number == 2
    # A certificate that is not in the folder can be added, or revoked by its serial number.
    assert main(["pki", "index", str(ca), str(away)]) == 0
    assert "1 certificates" not in capsys.readouterr().out
    assert [entry.name for entry in pki.find(ca, "away")] == ["away"]
    pki.revoke(ca, ["ab" * 16])
    assert "ab" * 16 in revoked_serials(ca)
    known = pki.learn(ca, complete=True)
    assert known.unknown_until is None
    assert len(known.entries) == 4


def test_the_version_before_finds_its_record(ca):
    """An installation that goes back loses no revocation, and what it revokes is not lost here."""
    pki.issue(ca, "a")
    pki.issue(ca, "b")
    pki.revoke(ca, ["a"])
    record = json.loads((ca / "revoked.json").read_text())
    assert record == {"number": 1, "serials": [pki.certificates(ca).entries[0].serial]}
    b = pki.certificates(ca).entries[1]
    record = {"number": 7, "serials": [*record["serials"], b.serial]}
    (ca / "revoked.json").write_text(json.dumps(record))
    known = pki.certificates(ca)
    assert known.list_number == 7
    assert known.of_serial(b.serial).revoked == pki.Revocation(None)


DAMAGES = [
    b"",
    b"{",
    b"[]",
    b'{"form": 1}',
    b'{"form": 1, "list_number": "2", "unknown_until": null, "certificates": []}',
    b'{"form": 1, "list_number": 1, "unknown_until": null, "certificates": [{"name": "a"}]}',
    b'{"form": 1, "list_number": 1, "unknown_until": null, "certificates": null}',
    b"\xff\xfe{\0}\0",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_refused_and_made_anew(ca, damage, capsys):
    pki.issue(ca, "a")
    pki.issue(ca, "b")
    pki.revoke(ca, ["b"])
    before = (ca / "crl.pem").read_bytes()
    (ca / "index.json").write_bytes(damage)
    for use in (
        lambda: pki.certificates(ca),
        lambda: pki.issue(ca, "c"),
        lambda: pki.revoke(ca, ["a"]),
        lambda: pki.learn(ca),
        lambda: pki.expiring([ca], 1),
    ):
        with pytest.raises(bs.IdentityError, match=r"index .*index\.json: "):
            use()
    assert (ca / "crl.pem").read_bytes() == before
    assert (ca / "index.json").read_bytes() == damage
    assert main(["pki", "index", str(ca), "--rebuild"]) == 0
    assert "may be missing" in capsys.readouterr().out
    assert (ca / "index.json.damaged").read_bytes() == damage
    known = pki.certificates(ca)
    assert {entry.name: entry.state(time.time()) for entry in known.entries} == {"a": "valid", "b": "revoked"}
    assert known.list_number == 1


def test_a_serial_number_that_is_there_twice_is_damage(ca):
    pki.issue(ca, "a")
    said = json.loads((ca / "index.json").read_text())
    said["certificates"] *= 2
    (ca / "index.json").write_text(json.dumps(said))
    with pytest.raises(bs.IdentityError, match=r"is there twice.*; .*pki index .* --rebuild"):
        pki.certificates(ca)


def test_an_index_of_a_later_version_is_not_touched(ca):
    said = (ca / "index.json").read_text().replace('"form": 1', '"form": 2')
    (ca / "index.json").write_text(said)
    with pytest.raises(bs.IdentityError, match="has form 2, must be 1"):
        pki.issue(ca, "a")
    assert (ca / "index.json").read_text() == said


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"number": "1", "serials": []}', '{"number": 1, "serials": [1]}']
)
def test_a_damaged_record_of_revocations_is_refused(ca, damage):
    pki.issue(ca, "a")
    pki.revoke(ca, ["a"])
    (ca / "revoked.json").write_text(damage)
    with pytest.raises(bs.IdentityError, match=r"revoked\.json: is damaged .*; put a copy of it back"):
        pki.revoke(ca, [])


def test_the_list_itself_tells_what_is_revoked_where_all_else_is_lost(ca):
    for number in range(11):
        pki.issue(ca, f"a-{number}")
        pki.revoke(ca, [f"a-{number}"])
    before = revoked_serials(ca)
    (ca / "index.json").unlink()
    (ca / "revoked.json").unlink()
    assert pki.certificates(ca).list_number == 11
    pki.revoke(ca, [])
    assert revoked_serials(ca) == before
    assert pki.certificates(ca).list_number == 12


def test_certificates_of_others_are_not_added(ca, tmp_path):
    other = pki.init(tmp_path / "other").parent
    foreign = pki.issue(other, "a").certificate
    with pytest.raises(bs.IdentityError, match="not signed by CA"):
        pki.learn(ca, [foreign])
    # Nor are those that lie in the folder.
    without_index(ca)
    (ca / "foreign.pem").write_bytes(foreign.read_bytes())
    (ca / "damaged.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n")
    assert pki.certificates(ca).entries == ()


def test_what_ends_soon_is_said_with_a_status_for_cron(ca, tmp_path, capsys):
    request = pki.request("renewed", out=tmp_path)
    pki.sign(ca, request, days=5)
    pki.sign(ca, request, days=300, replace=True)
    pki.issue(ca, "gone", days=5)
    pki.issue(ca, "soon", days=5)
    pki.issue(ca, "late", days=300)
    pki.revoke(ca, ["gone"], days=60)
    assert main(["pki", "expiring", str(ca)]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{ca}: certificate of party soon ends ")
    assert main(["pki", "expiring", str(ca), "--within", "4d"]) == 0
    assert capsys.readouterr().out == ""
    found = pki.expiring([ca], 400 * DAY)
    assert [(one.what, one.name) for one in found] == [
        ("certificate", "soon"),
        ("revocation list", "CN=Blindsum CA"),
        ("certificate", "renewed"),
        ("certificate", "late"),
    ]
    assert main(["pki", "expiring", str(ca), "--within", "4000d", "--json"]) == 3
    assert [one["what"] for one in json.loads(capsys.readouterr().out)][-1] == "CA"
    # At a party, which has files and no CA.
    files = [str(ca / "soon.pem"), str(ca / "crl.pem"), str(ca / "ca.pem")]
    assert main(["pki", "expiring", *files, "--within", "10d"]) == 3
    assert "certificate of party soon ends" in capsys.readouterr().out
    for wrong in (["--within", "30"], ["--within", "x"]):
        with pytest.raises(SystemExit) as caught:
            main(["pki", "expiring", str(ca), *wrong])
        assert caught.value.code == 2
    assert main(["pki", "expiring", str(ca / "soon.key")]) == 2
    assert "is a private key, which does not end" in capsys.readouterr().err


def test_what_has_ended_and_was_not_renewed_is_said_too(ca, monkeypatch, capsys):
    pki.issue(ca, "old", days=1)
    later = time.time() + 3 * DAY
    monkeypatch.setattr(time, "time", lambda: later)
    assert main(["pki", "expiring", str(ca)]) == 3
    assert "certificate of party old ended " in capsys.readouterr().out
    assert listed(ca, capsys)["certificates"][0]["state"] == "expired"


def test_the_list_for_people(ca, capsys):
    pki.issue(ca, "agg", hosts=["localhost"])
    pki.issue(ca, "hospital-a")
    pki.revoke(ca, ["hospital-a"], why="left")
    assert main(["pki", "list", str(ca)]) == 0
    head, names, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("CA CN=Blindsum CA, ends 20")
    assert names.split() == ["NAME", "ROLE", "ENDS", "STATE", "SERIAL"]
    entries = pki.certificates(ca).entries
    assert [row.split()[:2] for row in rows] == [["agg", "coordinator"], ["hospital-a", "party"]]
    assert all(entry.serial in row for entry, row in zip(entries, rows, strict=True))
    assert rows[1].endswith(": left")


def test_without_a_ca_the_error_says_how_to_make_one(tmp_path, capsys):
    for words in (["list"], ["revoke"], ["index"]):
        assert main(["pki", *words, str(tmp_path)]) == 2
        assert "blindsum pki init" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
