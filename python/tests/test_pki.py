"""Certificates on disk, read again by another library."""

import hashlib
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import blindsum as bs
from blindsum import pki
from blindsum.cli import main
from blindsum.pki import Identity


@pytest.fixture
def ca(tmp_path):
    return pki.init(tmp_path / "ca").parent


def load(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_party_certificate_is_signed_by_the_ca(ca):
    identity = pki.issue(ca, "hospital-a")
    certificate = load(identity.certificate)
    certificate.verify_directly_issued_by(load(ca / "ca.pem"))
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    key = serialization.load_pem_private_key(identity.key.read_bytes(), None)
    assert isinstance(key, ed25519.Ed25519PrivateKey)
    assert key.public_key() == certificate.public_key()


def test_a_coordinator_has_its_hosts(ca):
    identity = pki.issue(ca, "agg", hosts=["localhost", "127.0.0.1"], algorithm="p256")
    names = load(identity.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    key = serialization.load_pem_private_key(identity.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    with pytest.raises(bs.IdentityError, match="at least one host"):
        pki.issue(ca, "agg2", hosts=[])


def test_keys_are_for_their_owner_only(ca):
    identity = pki.issue(ca, "hospital-a")
    pki.request("hospital-b", out=ca)
    for key in (ca / "ca.key", identity.key, ca / "hospital-b.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(ca.stat().st_mode) == 0o700


def test_nothing_is_overwritten(ca, tmp_path):
    before = (ca / "ca.key").read_bytes()
    with pytest.raises(bs.IdentityError, match="not overwritten"):
        pki.init(ca)
    assert (ca / "ca.key").read_bytes() == before
    pki.issue(ca, "a")
    with pytest.raises(bs.IdentityError, match="not overwritten"):
        pki.issue(ca, "a")
    pki.request("b", out=tmp_path)
    with pytest.raises(bs.IdentityError, match="not overwritten"):
        pki.request("b", out=tmp_path)


def test_a_key_never_leaves_its_party(ca, tmp_path):
    party = tmp_path / "party"
    request = pki.request("hospital-a", out=party)
    at_the_ca = tmp_path / "inbox" / "hospital-a.csr"
    at_the_ca.parent.mkdir()
    at_the_ca.write_bytes(request.read_bytes())
    certificate = pki.sign(ca, at_the_ca)
    (party / certificate.name).write_bytes(certificate.read_bytes())
    identity = Identity.find(party)
    key = serialization.load_pem_private_key(identity.key.read_bytes(), None)
    assert load(identity.certificate).public_key() == key.public_key()


def test_signing_shows_the_names_and_the_fingerprint_of_the_key(ca, tmp_path, capsys):
    request = pki.request("hospital-a", out=tmp_path)
    assert main(["pki", "sign", str(ca), str(request)]) == 0
    said = capsys.readouterr().out
    key = serialization.load_pem_private_key((tmp_path / "hospital-a.key").read_bytes(), None)
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    fingerprint = hashlib.sha256(key.public_key().public_bytes(encoding, form)).hexdigest()
    assert "names       hospital-a\n" in said
    assert f"fingerprint {fingerprint}\n" in said


def test_a_request_for_another_common_name_says_how_openssl_makes_one(ca, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Hospital O")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    path = tmp_path / "hospital-o.csr"
    path.write_bytes(request.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(
        bs.IdentityError, match=r"asks for CN=Hospital O, must ask for DNS:hospital-o"
    ) as caught:
        pki.sign(ca, path)
    assert 'openssl req -new -key hospital-o.key -subj "/CN=hospital-o"' in str(caught.value)


def test_a_request_for_another_name_is_not_signed(ca, tmp_path):
    request = pki.request("hospital-a", out=tmp_path)
    with pytest.raises(bs.IdentityError, match="hospital-a"):
        pki.sign(ca, request, "hospital-b")
    request.write_text("nonsense")
    with pytest.raises(bs.IdentityError):
        pki.sign(ca, request)


def test_revocation_lists_grow(ca):
    first, second = pki.issue(ca, "a"), pki.issue(ca, "b")
    pki.revoke(ca, [first.certificate])
    path = pki.revoke(ca, [second.certificate])
    revoked = x509.load_pem_x509_crl(path.read_bytes())
    assert {entry.serial_number for entry in revoked} == {
        load(identity.certificate).serial_number for identity in (first, second)
    }
    assert revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 2


def test_show_says_what_is_in_a_certificate(ca):
    fields = pki.show(pki.issue(ca, "hospital-a", days=10).certificate)
    assert fields["names"] == ["hospital-a"]
    assert (fields["client"], fields["server"], fields["is_ca"]) == (True, False, False)
    authority = pki.show(ca / "ca.pem")
    assert fields["not_before"] >= authority["not_before"]
    assert pki.show(ca / "ca.pem")["is_ca"]


def test_what_is_made_now_begins_ten_minutes_ago(ca, tmp_path):
    def check(begins, ends, days):
        made = ends - days * 86400
        # Not before the CA's own beginning.
        assert begins == max(made - 600, authority["not_before"])

    authority = pki.show(ca / "ca.pem")
    assert authority["not_after"] - authority["not_before"] == pki.CA_DAYS * 86400 + 600
    identity = pki.issue(ca, "a", days=10)
    request = pki.request("b", out=tmp_path)
    signed = pki.sign(ca, request, days=20)
    for certificate, days in ((identity.certificate, 10), (signed, 20)):
        fields = pki.show(certificate)
        check(fields["not_before"], fields["not_after"], days)
    revoked = x509.load_pem_x509_crl(pki.revoke(ca, [signed], days=30).read_bytes())
    check(revoked.last_update_utc.timestamp(), revoked.next_update_utc.timestamp(), 30)


def test_identities_are_found_by_prefix_and_by_folder(ca, tmp_path):
    one = pki.issue(ca, "a.b", out=tmp_path / "one")
    assert Identity.find(tmp_path / "one" / "a.b") == one
    assert Identity.find(tmp_path / "one") == one
    pki.issue(ca, "c", out=tmp_path / "one")
    with pytest.raises(bs.IdentityError, match=r"found: a\.b, c"):
        Identity.find(tmp_path / "one")
    with pytest.raises(bs.IdentityError, match="no file"):
        Identity.find(tmp_path / "one" / "d")


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "../a", "-a", "a" * 65])
def test_bad_names_are_refused_before_anything_is_written(ca, name):
    files = sorted(ca.rglob("*"))
    with pytest.raises(bs.IdentityError):
        pki.issue(ca, name)
    assert sorted(ca.parent.rglob("*")) == sorted([ca, *files])


def test_a_folder_without_ca_says_how_to_make_one(tmp_path):
    with pytest.raises(bs.IdentityError, match="blindsum pki init"):
        pki.issue(tmp_path, "a")


def test_damaged_files_are_refused(ca, tmp_path):
    for data, why in ((b"\xff\xfe-\0-\0", "save it as UTF-8"), (b"\x30\x82\0", "openssl x509 -inform DER")):
        (tmp_path / "x.pem").write_bytes(data)
        with pytest.raises(bs.IdentityError, match=f"x.pem: .*{why}"):
            pki.show(tmp_path / "x.pem")
    with pytest.raises(bs.IdentityError, match="cannot be read"):
        pki.show(tmp_path / "none.pem")
    (ca / "ca.key").write_text("nonsense")
    with pytest.raises(bs.IdentityError):
        pki.issue(ca, "a")


def test_a_ca_revokes_only_what_it_has_signed(ca, tmp_path):
    # Of the same name.
    other = pki.init(tmp_path / "other").parent
    foreign = pki.issue(other, "a")
    with pytest.raises(bs.IdentityError, match="not signed by CA"):
        pki.revoke(ca, [foreign.certificate])
    assert not (ca / "crl.pem").exists()
    pki.revoke(ca, [pki.issue(ca, "agg", hosts=["localhost"]).certificate])


@pytest.mark.parametrize("days", [-1, 0, 1.5, 2**40])
def test_times_that_no_certificate_can_have_are_refused(ca, days, tmp_path):
    request = pki.request("b", out=tmp_path)
    for make in (
        lambda: pki.init(tmp_path / "new", days=days),
        lambda: pki.issue(ca, "a", days=days),
        lambda: pki.sign(ca, request, days=days),
        lambda: pki.revoke(ca, [], days=days),
    ):
        with pytest.raises(bs.ConfigError) as error:
            make()
        assert error.value.field == "days"


def test_a_request_that_is_signed_again_renews_the_certificate(ca, tmp_path):
    request = pki.request("hospital-a", out=tmp_path)
    first = load(pki.sign(ca, request, days=1))
    with pytest.raises(bs.IdentityError, match="not overwritten"):
        pki.sign(ca, request)
    second = load(pki.sign(ca, request, replace=True))
    assert second.public_key() == first.public_key()
    assert second.not_valid_after_utc > first.not_valid_after_utc
    assert load(tmp_path / "hospital-a.pem") == second


def test_a_file_that_holds_something_else_is_named(ca, tmp_path):
    wrong = tmp_path / "job.toml"
    wrong.write_text("parties = 3\n")
    for use, what in (
        (lambda: pki.show(wrong), "none of the sections CERTIFICATE, "),
        (lambda: pki.revoke(ca, [wrong]), "no section CERTIFICATE;"),
        (lambda: pki.sign(ca, wrong, name="a"), "no section CERTIFICATE REQUEST;"),
    ):
        with pytest.raises(bs.IdentityError, match=f"job.toml: has {what}"):
            use()
