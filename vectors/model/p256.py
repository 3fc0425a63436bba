"""NIST P-256: key agreement (SP 800-56A) and deterministic ECDSA (FIPS 186-5, RFC 6979)."""

from __future__ import annotations

import hashlib
import hmac

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

Point = tuple[int, int] | None
"""None is the point at infinity."""


def add(a: Point, b: Point) -> Point:
    """Add on y^2 = x^3 - 3x + b, in affine coordinates."""
    if a is None or b is None:
        return a or b
    (x1, y1), (x2, y2) = a, b
    if x1 == x2 and (y1 + y2) % P == 0:
        return None
    rise, run = (3 * x1 * x1 - 3, 2 * y1) if a == b else (y2 - y1, x2 - x1)
    slope = rise * pow(run, -1, P)
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def times(scalar: int, point: Point) -> Point:
    """Multiply by doubling and adding."""
    result: Point = None
    for bit in reversed(range(scalar.bit_length())):
        result = add(result, result)
        if scalar >> bit & 1:
            result = add(result, point)
    return result


def public_point(secret: bytes) -> tuple[int, int]:
    """Public key of 32 secret bytes, a big-endian number in 1..order."""
    scalar = int.from_bytes(secret, "big")
    assert is_scalar(secret)
    point = times(scalar, BASE)
    assert point is not None
    return point


def is_scalar(secret: bytes) -> bool:
    """Whether 0 < secret < group order."""
    return 0 < int.from_bytes(secret, "big") < ORDER


def compress(point: tuple[int, int]) -> bytes:
    """SEC 1 section 2.3.3: the parity of y, then x."""
    return bytes([2 + point[1] % 2]) + point[0].to_bytes(32, "big")


def uncompressed(point: tuple[int, int]) -> bytes:
    """SEC 1 section 2.3.3: 4, x, y."""
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def decompress(encoded: bytes) -> tuple[int, int] | None:
    """SEC 1 section 2.3.4; None if there is no such point."""
    if len(encoded) != 33 or encoded[0] not in (2, 3):
        return None
    x = int.from_bytes(encoded[1:], "big")
    square = (x**3 - 3 * x + B) % P
    y = pow(square, (P + 1) // 4, P)
    if x >= P or y * y % P != square:
        return None
    return x, (y if y % 2 == encoded[0] % 2 else P - y)


def agree(secret: bytes, public: bytes) -> bytes:
    """The x coordinate of the shared point."""
    point = decompress(public)
    assert point is not None
    shared = times(int.from_bytes(secret, "big"), point)
    assert shared is not None
    return shared[0].to_bytes(32, "big")


def deterministic_nonce(secret: bytes, digest: bytes) -> int:
    """RFC 6979 section 3.2 with SHA-256."""
    reduced = (int.from_bytes(digest, "big") % ORDER).to_bytes(32, "big")
    key, value = bytes(32), b"\x01" * 32
    for separator in (b"\x00", b"\x01"):
        key = hmac.digest(key, value + separator + secret + reduced, "sha256")
        value = hmac.digest(key, value, "sha256")
    while True:
        value = hmac.digest(key, value, "sha256")
        if is_scalar(value):
            return int.from_bytes(value, "big")
        key = hmac.digest(key, value + b"\x00", "sha256")
        value = hmac.digest(key, value, "sha256")


def sign(secret: bytes, message: bytes) -> tuple[int, int]:
    """RFC 6979: r and s; s may be in the upper half."""
    digest = hashlib.sha256(message).digest()
    nonce = deterministic_nonce(secret, digest)
    point = times(nonce, BASE)
    assert point is not None
    r = point[0] % ORDER
    number = int.from_bytes(digest, "big") + r * int.from_bytes(secret, "big")
    return r, number * pow(nonce, -1, ORDER) % ORDER


def sign_low_s(secret: bytes, message: bytes) -> bytes:
    """Give r and s of 32 bytes each, s at most half the order."""
    r, s = sign(secret, message)
    return r.to_bytes(32, "big") + min(s, ORDER - s).to_bytes(32, "big")


def verify_low_s(public: tuple[int, int], message: bytes, signature: bytes) -> bool:
    """FIPS 186-5 section 6.4.2, and s at most half the order."""
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if len(signature) != 64 or not 0 < r < ORDER or not 0 < s <= ORDER // 2:
        return False
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    inverse = pow(s, -1, ORDER)
    point = add(times(digest * inverse % ORDER, BASE), times(r * inverse % ORDER, public))
    return point is not None and point[0] % ORDER == r
