"""Encrypted private keys, requests that are looked at before they are signed, operators."""

import hashlib
import os
import pty
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import blindsum as bs
from blindsum import pki
from blindsum.cli import main

WORDS = "correct horse"


@pytest.fixture
def ca(tmp_path):
    return pki.init(tmp_path / "ca").parent


@pytest.fixture
def words(tmp_path):
    """The file of a passphrase."""
    path = tmp_path / "words"
    path.write_text(f"{WORDS}\nnot this\n")
    return path


def load_key(path, password=None):
    return serialization.load_pem_private_key(path.read_bytes(), password)


def fingerprint(key):
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_key().public_bytes(encoding, form)).hexdigest()


def by_other_tool(path, subject, password=None):
    """A request with a common name alone, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Hospitals"),
            x509.NameAttribute(NameOID.COMMON_NAME, subject),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    path.write_bytes(request.public_bytes(serialization.Encoding.PEM))
    form = (
        serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    )
    key_text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, form)
    path.with_suffix(".key").write_bytes(key_text)
    return key


@pytest.mark.parametrize("algorithm", ["ed25519", "p256"])
def test_keys_are_encrypted_as_other_tools_read_them(ca, tmp_path, algorithm):
    identity = pki.issue(ca, "a", algorithm=algorithm, passphrase=WORDS)
    request = pki.request("b", out=tmp_path, algorithm=algorithm, passphrase=WORDS)
    for key in (identity.key, request.with_suffix(".key")):
        assert pki.is_encrypted(key)
        assert load_key(key, WORDS.encode()).public_key()
        with pytest.raises(ValueError, match=r"(?i)password|decrypt"):
            load_key(key, b"wrong words")
    assert WORDS not in repr(pki.Identity.find(ca / "a", WORDS))


def test_keys_of_other_tools_are_read(ca, tmp_path):
    key = by_other_tool(tmp_path / "a.csr", "a", WORDS)
    pki.sign(ca, tmp_path / "a.csr")
    shown = pki.show(tmp_path / "a.key", WORDS)
    assert shown == {
        "kind": "private key",
        "encrypted": True,
        "key": "ECDSA P-256",
        "key_fingerprint": fingerprint(key),
    }


def test_an_encrypted_key_shows_nothing_without_its_passphrase(ca, words, capsys):
    identity = pki.issue(ca, "a", passphrase=WORDS)
    assert pki.show(identity.key) == {"kind": "private key", "encrypted": True}
    with pytest.raises(bs.IdentityError, match=r"a\.key: .*the passphrase is wrong"):
        pki.show(identity.key, "wrong words")
    assert main(["pki", "show", str(identity.key), "--key-passphrase-file", str(words)]) == 0
    said = capsys.readouterr().out
    assert pki.show(identity.certificate)["key_fingerprint"] in said
    assert WORDS not in said


def test_a_plain_key_shows_only_what_is_public(ca, capsys):
    identity = pki.issue(ca, "a")
    assert main(["pki", "show", str(identity.key)]) == 0
    said = capsys.readouterr().out
    assert fingerprint(load_key(identity.key)) in said
    body = "".join(line for line in identity.key.read_text().splitlines() if not line.startswith("-"))
    assert body[20:] not in said
    raw = load_key(identity.key).private_bytes_raw()
    assert raw.hex() not in said


def test_a_ca_with_a_passphrase_signs_with_it_alone(tmp_path, words, monkeypatch, capsys):
    ca = tmp_path / "locked"
    assert main(["pki", "init", str(ca), "--encrypt", "--key-passphrase-file", str(words)]) == 0
    request = pki.request("a", out=tmp_path)
    for use in (
        lambda: pki.issue(ca, "b"),
        lambda: pki.sign(ca, request),
        lambda: pki.revoke(ca, []),
    ):
        with pytest.raises(bs.IdentityError, match=r"ca\.key: is encrypted, and no passphrase is given"):
            use()
    with pytest.raises(bs.IdentityError, match="the passphrase is wrong"):
        pki.issue(ca, "b", ca_passphrase="wrong words")
    assert pki.certificates(ca).entries == ()
    assert sorted(path.name for path in ca.iterdir()) == ["ca.key", "ca.pem", "index.json", "index.lock"]
    assert main(["pki", "sign", str(ca), str(request), "--ca-passphrase-file", str(words)]) == 0
    monkeypatch.setenv("BLINDSUM_CA_PASSPHRASE", WORDS)
    assert main(["pki", "revoke", str(ca), "a"]) == 0
    monkeypatch.setenv("BLINDSUM_CA_PASSPHRASE", "")
    assert main(["pki", "revoke", str(ca)]) == 2
    assert "BLINDSUM_CA_PASSPHRASE: is set and empty" in capsys.readouterr().err


def test_a_passphrase_is_changed_and_taken_off(ca, tmp_path, words, monkeypatch, capsys):
    identity = pki.issue(ca, "a")
    before = fingerprint(load_key(identity.key))
    monkeypatch.setenv("BLINDSUM_NEW_PASSPHRASE", "another one")
    assert main(["pki", "passphrase", str(identity.key)]) == 0
    assert fingerprint(load_key(identity.key, b"another one")) == before
    monkeypatch.setenv("BLINDSUM_KEY_PASSPHRASE", "another one")
    assert main(["pki", "passphrase", str(identity.key), "--new-passphrase-file", str(words)]) == 0
    assert fingerprint(load_key(identity.key, WORDS.encode())) == before
    assert identity.key.stat().st_mode & 0o777 == 0o600
    kept = identity.key.read_bytes()
    assert main(["pki", "passphrase", str(identity.key), "--remove"]) == 2
    assert "the passphrase is wrong" in capsys.readouterr().err
    assert identity.key.read_bytes() == kept
    monkeypatch.setenv("BLINDSUM_KEY_PASSPHRASE", WORDS)
    assert main(["pki", "passphrase", str(identity.key), "--remove"]) == 0
    assert fingerprint(load_key(identity.key)) == before


def test_new_passphrases_have_rules(ca, tmp_path, capsys, monkeypatch):
    for bad in ("", "1234567", "two\nlines of it", 12345678):
        with pytest.raises(bs.ConfigError) as caught:
            pki.issue(ca, "a", passphrase=bad)
        assert caught.value.field == "passphrase"
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert main(["pki", "issue", str(ca), "a", "--encrypt"]) == 2
    assert "--key-passphrase-file: no passphrase is given; give this file, or set" in capsys.readouterr().err
    assert main(["pki", "issue", str(ca), "a", "--key-passphrase-file", str(ca / "ca.pem")]) == 2
    assert "add --encrypt" in capsys.readouterr().err
    (tmp_path / "empty").write_text("\nsecond line")
    words = ["--encrypt", "--key-passphrase-file", str(tmp_path / "empty")]
    assert main(["pki", "issue", str(ca), "a", *words]) == 2
    assert "has an empty first line; write the passphrase there" in capsys.readouterr().err
    assert not (ca / "a.key").exists()
    assert pki.certificates(ca).entries == ()


def at_a_terminal(words, answers):
    """What a command says at a terminal where these lines are typed, and its exit status."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "blindsum", *map(str, words)])
    said = b""
    for prompt, answer in answers:
        while prompt.encode() not in said:
            said += os.read(terminal, 1024)
        os.write(terminal, f"{answer}\n".encode())
    try:
        while more := os.read(terminal, 1024):
            said += more
    except OSError:
        pass
    os.close(terminal)
    return said.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_passphrase_is_typed_in_unseen(ca, tmp_path):
    request = pki.request("a", out=tmp_path)
    typed = [("new passphrase", WORDS), ("the same again", WORDS)]
    said, status = at_a_terminal(["pki", "passphrase", ca / "ca.key"], typed)
    assert status == 0, said
    assert WORDS not in said
    assert load_key(ca / "ca.key", WORDS.encode())
    said, status = at_a_terminal(
        ["pki", "sign", ca, request], [("sign it? [y/N]", "y"), ("passphrase of", WORDS)]
    )
    assert status == 0, said
    assert (tmp_path / "a.pem").exists()
    said, status = at_a_terminal(
        ["pki", "issue", ca, "b", "--encrypt"], [("new passphrase", WORDS), ("the same again", "other")]
    )
    assert status == 2
    assert "not the same; try again" in said


def test_a_request_is_looked_at_before_it_is_signed(ca, tmp_path):
    request = pki.request("a", out=tmp_path)
    shown = pki.show(request)["key_fingerprint"]
    said, status = at_a_terminal(["pki", "sign", ca, request], [("sign it? [y/N]", "")])
    assert status == 1
    assert said.index(shown) < said.index("sign it?") < said.index("not signed")
    assert not (tmp_path / "a.pem").exists()
    assert pki.certificates(ca).entries == ()
    said, status = at_a_terminal(["pki", "sign", ca, request, "--yes"], [])
    assert status == 0, said


def test_another_key_than_expected_is_not_signed(ca, tmp_path, capsys):
    request, other = pki.request("a", out=tmp_path), pki.request("b", out=tmp_path)
    shown = pki.show(request)["key_fingerprint"]
    with_colons = ":".join(shown[at : at + 2].upper() for at in range(0, 64, 2))
    sign = ["pki", "sign", str(ca)]
    assert main([*sign, str(other), "--expect-fingerprint", shown]) == 2
    said = capsys.readouterr().err
    assert f"its key has the fingerprint {pki.show(other)['key_fingerprint']}, expected {shown}" in said
    assert not (tmp_path / "b.pem").exists()
    assert main([*sign, str(request), "--expect-fingerprint", with_colons]) == 0
    for bad in (shown[:-1], "", "x" * 64, 7):
        with pytest.raises(bs.ConfigError, match="64 hexadecimal digits") as caught:
            pki.sign(ca, other, expect_fingerprint=bad)
        assert caught.value.field == "expect_fingerprint"


def test_a_renewal_says_whether_the_key_is_the_same(ca, tmp_path, capsys):
    request = pki.request("a", out=tmp_path)
    pki.sign(ca, request)
    assert main(["pki", "sign", str(ca), str(request), "--replace"]) == 0
    assert "the same key as the latest certificate of a" in capsys.readouterr().out
    other = pki.request("a", out=tmp_path / "other")
    assert main(["pki", "sign", str(ca), str(other)]) == 0
    assert "ANOTHER KEY THAN the latest certificate of a" in capsys.readouterr().out


def test_a_request_of_openssl_with_a_common_name_alone_is_signed(ca, tmp_path):
    new = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", tmp_path / "hospital-o.key", "-out", tmp_path / "hospital-o.csr"]
    subprocess.run([*new, "-subj", "/O=Hospitals/CN=hospital-o", *files], check=True, capture_output=True)
    path = pki.sign(ca, tmp_path / "hospital-o.csr")
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=hospital-o"
    assert pki.show(path)["names"] == ["hospital-o"]
    assert load_key(tmp_path / "hospital-o.key").public_key() == certificate.public_key()


def test_operators_are_certified_for_nothing_else(ca, tmp_path):
    issued = pki.issue(ca, "alice", operator=True)
    signed = pki.sign(ca, pki.request("bob", out=tmp_path), operator=True)
    for path, name in ((issued.certificate, "alice"), (signed, "bob")):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        usages = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        assert usages[0] == ExtendedKeyUsageOID.CLIENT_AUTH
        assert [one.dotted_string for one in usages[1:]] == ["2.25.154868248036201392357572739927639843753"]
        assert pki.show(path)["role"] == "operator"
        assert pki.show(path)["names"] == [name]
    for wrong in ({"hosts": ["localhost"]}, {"hosts": ["localhost"], "computes": True}):
        with pytest.raises(bs.ConfigError) as caught:
            pki.issue(ca, "c", operator=True, **wrong)
        assert caught.value.field == "operator"


def test_an_operator_is_no_party_coordinator_or_server(place, tmp_path):
    operator = pki.issue(place.folder, "alice", operator=True, out=tmp_path)
    spec = place.spec()
    with pytest.raises(bs.IdentityError, match="client authentication as its only extended key usage"):
        bs.join("https://localhost:1", job="test", identity=operator, ca=place.folder)
    with pytest.raises(bs.IdentityError, match="server authentication as its only extended key usage"):
        bs.Coordinator(spec, identity=operator, ca=place.folder, listen="127.0.0.1:0")
    servers = [f"https://{host}:9443" for host in ("localhost", "127.0.0.2", "127.0.0.3")]
    job = place.spec(protocol="mpc3", parties=3)
    with pytest.raises(bs.IdentityError, match="client and server authentication as its only"):
        bs.Server(job, servers=servers, place=1, identity=operator, ca=place.folder, state_dir=tmp_path / "s")


def test_show_names_every_certificate_of_a_file(ca, tmp_path, capsys):
    other = pki.init(tmp_path / "other", name="Other CA").parent
    both = pki.bundle([ca / "ca.pem", other / "ca.pem"], tmp_path / "both.pem")
    shown = pki.show(both)
    assert [one["subject"] for one in (shown, *shown["others"])] == ["CN=Blindsum CA", "CN=Other CA"]
    assert main(["pki", "show", str(both)]) == 0
    said = capsys.readouterr().out
    assert said.count("kind            certificate") == 2
    assert "role            ca" in said
