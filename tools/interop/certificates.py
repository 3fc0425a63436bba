"""Certificates of a job's CA: docs/wire.md, "Connection" and "A round"."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID

from derive import PublicKey

LARGEST = 64 * 1024
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
NAME = re.compile(rf"{LABEL}(\.{LABEL})*")


class BadCertificate(ValueError):
    """A certificate that no member may have."""


def valid_name(name: str) -> bool:
    return len(name) <= 64 and NAME.fullmatch(name) is not None


class Authority:
    """The CA of a job, with its revocation list where there is one."""

    def __init__(self, pem: bytes, revoked: bytes | None = None, now: float | None = None) -> None:
        self.certificate = x509.load_pem_x509_certificate(pem)
        self._list = None if revoked is None else x509.load_pem_x509_crl(revoked)
        self._now = now

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time() if self._now is None else self._now, UTC)

    def _check(self, certificate: x509.Certificate, usage: x509.ObjectIdentifier) -> None:
        """What holds for parties and coordinators alike."""
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (InvalidSignature, ValueError, TypeError) as error:
            raise BadCertificate("not of the job's CA") from error
        if not certificate.not_valid_before_utc <= self.now() <= certificate.not_valid_after_utc:
            raise BadCertificate("not in its time")
        try:
            uses = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
            extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except x509.ExtensionNotFound as error:
            raise BadCertificate("no key usage, or no extended key usage") from error
        if not uses.digital_signature or uses.key_cert_sign:
            raise BadCertificate("another key usage")
        if list(extended) != [usage]:
            raise BadCertificate("another extended key usage")
        self._check_revoked(certificate)

    def _check_revoked(self, certificate: x509.Certificate) -> None:
        if self._list is None:
            return
        authority = self.certificate.public_key()
        if not self._list.is_signature_valid(authority):  # type: ignore[arg-type]
            raise BadCertificate("the revocation list is not of the CA")
        until = self._list.next_update_utc
        if until is None or not self._list.last_update_utc <= self.now() <= until:
            raise BadCertificate("the revocation list is not in its time")
        if self._list.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            raise BadCertificate("revoked")

    def party(self, der: bytes) -> tuple[str, PublicKey]:
        """The name and key of a party's certificate, after all checks."""
        if len(der) > LARGEST:
            raise BadCertificate("longer than 64 KiB")
        try:
            certificate = x509.load_der_x509_certificate(der)
            self._check(certificate, ExtendedKeyUsageOID.CLIENT_AUTH)
            names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        except (ValueError, x509.ExtensionNotFound) as error:
            raise BadCertificate(str(error)) from error
        if len(names) != 1 or not isinstance(names[0], x509.DNSName) or not valid_name(names[0].value):
            raise BadCertificate("not just one name of a party")
        return names[0].value, self._key(certificate)

    def coordinator(self, der: bytes) -> None:
        """Checks the certificate of a coordinator; its host is for TLS to check."""
        try:
            self._check(x509.load_der_x509_certificate(der), ExtendedKeyUsageOID.SERVER_AUTH)
        except ValueError as error:
            raise BadCertificate(f"the coordinator's certificate: {error}") from error

    @staticmethod
    def _key(certificate: x509.Certificate) -> PublicKey:
        key = certificate.public_key()
        if isinstance(key, ed25519.Ed25519PublicKey):
            return key
        if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            return key
        raise BadCertificate("neither an Ed25519 nor a P-256 key")
