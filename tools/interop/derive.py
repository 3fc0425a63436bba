"""Hashes, keys, seals, signatures, masks and the graph: docs/wire-derivations.md."""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
X25519_PRIME = 2**255 - 19
# The u-coordinates below the prime whose points have a low order.
LOW_ORDER = {
    0,
    1,
    X25519_PRIME - 1,
    int.from_bytes(
        bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"), "little"
    ),
    int.from_bytes(
        bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"), "little"
    ),
}
# Version of protocol messages and of the header of sealed bytes; it is 1, though the wire is at version 4.
MESSAGE_VERSION = 1


class BadKey(ValueError):
    """A public key that must be refused."""


def u32(number: int) -> bytes:
    return struct.pack(">I", number)


def u64(number: int) -> bytes:
    return struct.pack(">Q", number)


def h(label: str, *parts: bytes) -> bytes:
    """H(label; part, ...)."""
    data = bytes([len(label)]) + label.encode()
    for part in parts:
        data += u64(len(part)) + part
    return hashlib.sha256(data).digest()


def hkdf(secret: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(secret)


def kdf(secret: bytes, context: bytes, label: str, *parts: bytes) -> bytes:
    """KDF(secret, context, label; part, ...)."""
    info = bytes([len(label)]) + label.encode() + context
    for part in parts:
        info += struct.pack(">H", len(part)) + part
    return hkdf(secret, info)


def fingerprint(certificate: bytes) -> bytes:
    return h("blindsum certificate", certificate)


def model_hash(values: bytes) -> bytes:
    return h("blindsum model", values)


def commitment(job_hash: bytes, number: int, name: str, nonce: bytes) -> bytes:
    """What a party says before its nonce."""
    return h("blindsum nonce", job_hash, u64(number), name.encode(), nonce)


def roster_bytes(members: Sequence[tuple[str, bytes, bytes]]) -> bytes:
    """The roster of (name, certificate, nonce)."""
    data = u32(len(members))
    for name, certificate, nonce in members:
        data += bytes([len(name)]) + name.encode() + struct.pack(">H", len(certificate)) + certificate + nonce
    return data


def round_context(
    job_hash: bytes, number: int, roster: bytes, model: bytes, numbers: tuple[int, int, int]
) -> bytes:
    """The context of a round, from the roster as bytes and the hash of the model."""
    said = b"".join(u32(value) for value in numbers)
    return h("blindsum round", job_hash, u64(number), h("roster", roster), model, said)


def result_name(context: bytes, message: bytes) -> bytes:
    return h("blindsum result", context, message)


# Key agreement


class AgreementKey:
    """A secret of the job's suite with its public key."""

    def __init__(self, suite: str, secret: bytes) -> None:
        self.suite, self.secret = suite, secret
        if suite == "x25519":
            self._x = x25519.X25519PrivateKey.from_private_bytes(secret)
            self.public = self._x.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        else:
            number = int.from_bytes(secret, "big")
            if not 0 < number < P256_ORDER:
                raise BadKey("no scalar of P-256")
            self._p = ec.derive_private_key(number, ec.SECP256R1())
            self.public = self._p.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)

    def shared(self, other: bytes) -> bytes:
        """The secret shared with the owner of another public key."""
        check_agreement_key(self.suite, other)
        if self.suite == "x25519":
            x = self._x.exchange(x25519.X25519PublicKey.from_public_bytes(other))
        else:
            x = self._p.exchange(
                ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), other)
            )
        low, high = sorted((self.public, other))
        return hkdf(x, b"agreement" + low + high)


def check_agreement_key(suite: str, key: bytes) -> None:
    """Refuses public keys that nobody may use."""
    if suite == "x25519":
        if len(key) != 32:
            raise BadKey(f"an X25519 key of {len(key)} bytes")
        number = int.from_bytes(key, "little")
        if number >= X25519_PRIME or number in LOW_ORDER:
            raise BadKey("an X25519 key of low order or not reduced")
        return
    if len(key) != 33 or key[0] not in (2, 3):
        raise BadKey("not a compressed point of P-256")
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)
    except ValueError as error:
        raise BadKey("not a point of P-256") from error


# Sealing


def seal_key(shared: bytes, context: bytes, sender: int, receiver: int, purpose: str) -> bytes:
    return kdf(shared, context, "share", u32(sender), u32(receiver), purpose.encode())


def seal_header(context: bytes, sender: int, receiver: int) -> bytes:
    return bytes([MESSAGE_VERSION]) + context + u32(sender) + u32(receiver)


def seal(key: bytes, header: bytes, plaintext: bytes) -> bytes:
    return AESGCM(key).encrypt(bytes(12), plaintext, header)


def open_sealed(key: bytes, header: bytes, sealed: bytes) -> bytes | None:
    """What was sealed, or None where it does not open."""
    try:
        return AESGCM(key).decrypt(bytes(12), sealed, header)
    except (InvalidTag, ValueError):
        return None


# Signatures


def _signed_bytes(label: str, message: bytes) -> bytes:
    return b"Blindsum signature\0" + bytes([len(label)]) + label.encode() + message


def sign(key: PrivateKey, label: str, message: bytes) -> bytes:
    data = _signed_bytes(label, message)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True)))
    s = min(s, P256_ORDER - s)
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def verify(key: PublicKey, label: str, message: bytes, signature: bytes) -> bool:
    if len(signature) != 64:
        return False
    data = _signed_bytes(label, message)
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, data)
            return True
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        if s > P256_ORDER // 2:
            return False
        key.verify(encode_dss_signature(r, s), data, ec.ECDSA(hashes.SHA256()))
        return True
    except InvalidSignature:
        return False


# Keystreams


def keystream(key: bytes, length: int, first: int = 0) -> bytes:
    """Bytes of AES-256-CTR under a key, from byte `first` on."""
    block, skip = divmod(first, 16)
    stream = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(16, "big"))).encryptor()
    return stream.update(bytes(skip + length))[skip:]


def mask(key: bytes, count: int, bits: int, first: int = 0) -> list[int]:
    """Words of a mask; sums of them are to be taken modulo 2^bits."""
    size, code = (4, "I") if bits <= 32 else (8, "Q")
    data = keystream(key, size * count, size * first)
    return list(struct.unpack(f"<{count}{code}", data))


class Draws:
    """Numbers below a bound, from the keystream of a key."""

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def below(self, bound: int) -> int:
        limit = bound * ((2**64 - 1) // bound)
        while True:
            number = int.from_bytes(self._stream.update(bytes(8)), "little")
            if number < limit:
                return number % bound


def graph(context: bytes, members: int, neighbours: int) -> tuple[list[list[int]], list[int]]:
    """The neighbours of every party, and the witnesses, by rank in ascending order."""
    draws = Draws(h("blindsum graph", context))
    circle = list(range(members))
    for last in range(members - 1, 0, -1):
        other = draws.below(last + 1)
        circle[last], circle[other] = circle[other], circle[last]
    steps = [step for near in range(1, neighbours // 2 + 1) for step in (near, -near)]
    if neighbours % 2:
        steps.append(members // 2)
    lists: list[list[int]] = [[] for _ in range(members)]
    for place, rank in enumerate(circle):
        lists[rank] = sorted({circle[(place + step) % members] for step in steps})
    return lists, sorted(circle[: neighbours + 1])


def same(left: bytes, right: bytes) -> bool:
    return hmac.compare_digest(left, right)
