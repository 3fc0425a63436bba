"""Identity keys, their signatures, and X.509 certificates in DER (RFC 5280, RFC 8410, RFC 5958)."""

from __future__ import annotations

import base64
import textwrap
from dataclasses import dataclass
from datetime import UTC, datetime

from . import curve25519, p256
from .derive import label_bytes

PREFIX = b"Blindsum signature\0"


@dataclass(frozen=True)
class Identity:
    """Long-term key of a party: "ed25519" or "p256" and its 32 secret bytes."""

    algorithm: str
    secret: bytes

    def public(self) -> bytes:
        """Public key as it stands in a certificate: 32 bytes, or an uncompressed point of 65."""
        if self.algorithm == "ed25519":
            return curve25519.ed25519_public(self.secret)
        return p256.uncompressed(p256.public_point(self.secret))

    def sign(self, label: str, message: bytes) -> bytes:
        """Sign for the purpose ``label``; 64 bytes."""
        signed = PREFIX + label_bytes(label) + message
        if self.algorithm == "ed25519":
            return curve25519.ed25519_sign(self.secret, signed)
        return p256.sign_low_s(self.secret, signed)

    def verify(self, label: str, message: bytes, signature: bytes) -> bool:
        """Check a signature of :meth:`sign`."""
        signed = PREFIX + label_bytes(label) + message
        if self.algorithm == "ed25519":
            return curve25519.ed25519_verify(self.public(), signed, signature)
        return p256.verify_low_s(p256.public_point(self.secret), signed, signature)

    def to_pem(self) -> str:
        """PKCS#8 in PEM."""
        if self.algorithm == "ed25519":
            inner = der(OCTETS, self.secret)
        else:
            inner = der(SEQUENCE, integer(1), der(OCTETS, self.secret))
        key = der(SEQUENCE, integer(0), key_algorithm(self.algorithm), der(OCTETS, inner))
        return pem("PRIVATE KEY", key)


# --- DER ---

INTEGER, BITS, OCTETS, OID, UTF8, UTC_TIME = 0x02, 0x03, 0x04, 0x06, 0x0C, 0x17
SEQUENCE, SET = 0x30, 0x31
COMMON_NAME, BASIC_CONSTRAINTS, KEY_USAGE = "2.5.4.3", "2.5.29.19", "2.5.29.15"
EXTENDED_KEY_USAGE, SUBJECT_ALT_NAME = "2.5.29.37", "2.5.29.17"
SERVER_AUTH, CLIENT_AUTH = "1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"
OF_SERVERS = SERVER_AUTH, CLIENT_AUTH
ED25519, EC_PUBLIC_KEY, PRIME256V1 = "1.3.101.112", "1.2.840.10045.2.1", "1.2.840.10045.3.1.7"
TRUE = b"\x01\x01\xff"


def der(tag: int, *content: bytes) -> bytes:
    """One value: tag, length, content."""
    body = b"".join(content)
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def integer(value: int) -> bytes:
    """A non-negative INTEGER."""
    return der(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def oid(dotted: str) -> bytes:
    """An OBJECT IDENTIFIER."""
    first, second, *rest = map(int, dotted.split("."))
    content = bytes([40 * first + second])
    for number in rest:
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(number & 0x7F | 0x80)
        content += bytes(reversed(digits))
    return der(OID, content)


def pem(name: str, content: bytes) -> str:
    """RFC 7468."""
    lines = "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 64))
    return f"-----BEGIN {name}-----\n{lines}\n-----END {name}-----\n"


def key_algorithm(algorithm: str) -> bytes:
    """AlgorithmIdentifier of a key."""
    if algorithm == "ed25519":
        return der(SEQUENCE, oid(ED25519))
    return der(SEQUENCE, oid(EC_PUBLIC_KEY), oid(PRIME256V1))


# --- Certificates ---


def name(common_name: str) -> bytes:
    """A distinguished name of one common name."""
    attribute = der(SEQUENCE, oid(COMMON_NAME), der(UTF8, common_name.encode()))
    return der(SEQUENCE, der(SET, attribute))


def time(seconds: int) -> bytes:
    """UTCTime of Unix seconds."""
    return der(UTC_TIME, f"{datetime.fromtimestamp(seconds, UTC):%y%m%d%H%M%SZ}".encode())


def extension(identifier: str, value: bytes, *, critical: bool) -> bytes:
    """One extension."""
    return der(SEQUENCE, oid(identifier), TRUE if critical else b"", der(OCTETS, value))


@dataclass(frozen=True)
class Authority:
    """The CA of a job; its key is Ed25519."""

    common_name: str
    identity: Identity
    not_before: int
    not_after: int

    def certificate(self) -> bytes:
        """Sign itself."""
        constraints = der(SEQUENCE, TRUE, integer(0))
        extensions = [
            extension(BASIC_CONSTRAINTS, constraints, critical=True),
            extension(KEY_USAGE, b"\x03\x02\x01\x06", critical=True),  # keyCertSign, cRLSign
        ]
        return self.issue(1, self.common_name, self.identity, extensions)

    def certify(
        self, serial: int, party: str, identity: Identity, purposes: tuple[str, ...] = (CLIENT_AUTH,)
    ) -> bytes:
        """Certificate of a party or of a server, by its purposes in TLS; its name is the only DNS name."""
        dns_name = der(SEQUENCE, der(0x82, party.encode()))
        extensions = [
            extension(KEY_USAGE, b"\x03\x02\x07\x80", critical=True),  # digitalSignature
            extension(EXTENDED_KEY_USAGE, der(SEQUENCE, *map(oid, purposes)), critical=False),
            extension(SUBJECT_ALT_NAME, dns_name, critical=False),
        ]
        return self.issue(serial, party, identity, extensions)

    def issue(self, serial: int, subject: str, key: Identity, extensions: list[bytes]) -> bytes:
        """Certificate of version 3."""
        signature_algorithm = key_algorithm(self.identity.algorithm)
        validity = der(SEQUENCE, time(self.not_before), time(self.not_after))
        public = der(SEQUENCE, key_algorithm(key.algorithm), der(BITS, b"\0", key.public()))
        body = der(
            SEQUENCE,
            der(0xA0, integer(2)),
            integer(serial),
            signature_algorithm,
            name(self.common_name),
            validity,
            name(subject),
            public,
            der(0xA3, der(SEQUENCE, *extensions)),
        )
        signature = curve25519.ed25519_sign(self.identity.secret, body)
        return der(SEQUENCE, body, signature_algorithm, der(BITS, b"\0", signature))
