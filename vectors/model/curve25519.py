"""X25519 (RFC 7748) and Ed25519 (RFC 8032)."""

from __future__ import annotations

import hashlib

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493

# --- X25519 ---


def clamp(secret: bytes) -> int:
    """Scalar of 32 secret bytes, RFC 7748 section 5."""
    scalar = int.from_bytes(secret, "little")
    return scalar & (2**254 - 8) | 2**254


def x25519(secret: bytes, u: bytes) -> bytes:
    """The Montgomery ladder of RFC 7748 section 5."""
    scalar = clamp(secret)
    x1 = int.from_bytes(u, "little") % 2**255 % P
    x2, z2, x3, z3 = 1, 0, x1, 1
    for bit in reversed(range(255)):
        if scalar >> bit & 1:
            x2, z2, x3, z3 = *add_differentially(x2, z2, x3, z3, x1), *double_x(x3, z3)
        else:
            x2, z2, x3, z3 = *double_x(x2, z2), *add_differentially(x2, z2, x3, z3, x1)
    return (x2 * pow(z2, -1, P) % P).to_bytes(32, "little") if z2 else bytes(32)


def double_x(x: int, z: int) -> tuple[int, int]:
    """2 (x : z) on y^2 = x^3 + 486662 x^2 + x."""
    plus, minus = (x + z) ** 2 % P, (x - z) ** 2 % P
    difference = plus - minus
    return plus * minus % P, difference * (minus + 121666 * difference) % P


def add_differentially(x2: int, z2: int, x3: int, z3: int, x1: int) -> tuple[int, int]:
    """Sum of two points whose difference is (x1 : 1)."""
    da, cb = (x3 - z3) * (x2 + z2), (x3 + z3) * (x2 - z2)
    return (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P


def x25519_public(secret: bytes) -> bytes:
    """Public key of a secret."""
    return x25519(secret, (9).to_bytes(32, "little"))


# --- Ed25519 ---

D = -121665 * pow(121666, -1, P) % P

Point = tuple[int, int, int, int]
"""X, Y, Z, T with x = X/Z, y = Y/Z, x y = T/Z."""
NEUTRAL: Point = (0, 1, 1, 0)


def add(a: Point, b: Point) -> Point:
    """Add on -x^2 + y^2 = 1 + d x^2 y^2, RFC 8032 section 5.1.4."""
    left = (a[1] - a[0]) * (b[1] - b[0])
    right = (a[1] + a[0]) * (b[1] + b[0])
    across = 2 * a[3] * b[3] * D
    depth = 2 * a[2] * b[2]
    e, f, g, h = right - left, depth - across, depth + across, right + left
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar: int, point: Point) -> Point:
    """Multiply by doubling and adding."""
    result = NEUTRAL
    for bit in reversed(range(scalar.bit_length())):
        result = add(result, result)
        if scalar >> bit & 1:
            result = add(result, point)
    return result


def decompress(encoded: bytes) -> Point | None:
    """RFC 8032 section 5.1.3; None if there is no such point."""
    y, sign = int.from_bytes(encoded, "little") % 2**255, encoded[31] >> 7
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or (x == 0 and sign):
        return None
    x = P - x if x % 2 != sign else x
    return x, y, 1, x * y % P


def compress(point: Point) -> bytes:
    """RFC 8032 section 5.1.2."""
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def base_point() -> Point:
    """The point with y = 4/5 and even x."""
    point = decompress((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    assert point is not None
    return point


BASE = base_point()


def expand(seed: bytes) -> tuple[int, bytes]:
    """Secret scalar and prefix of a seed."""
    digest = hashlib.sha512(seed).digest()
    return clamp(digest[:32]), digest[32:]


def ed25519_public(seed: bytes) -> bytes:
    """Public key of a seed of 32 bytes."""
    return compress(times(expand(seed)[0], BASE))


def hash_to_scalar(*parts: bytes) -> int:
    """SHA-512 modulo the group order."""
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def ed25519_sign(seed: bytes, message: bytes) -> bytes:
    """RFC 8032 section 5.1.6."""
    scalar, prefix = expand(seed)
    public = compress(times(scalar, BASE))
    nonce = hash_to_scalar(prefix, message)
    commitment = compress(times(nonce, BASE))
    response = nonce + hash_to_scalar(commitment, public, message) * scalar
    return commitment + (response % ORDER).to_bytes(32, "little")


def ed25519_verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """RFC 8032 section 5.1.7, without the cofactor."""
    key, commitment = decompress(public), decompress(signature[:32])
    response = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or response >= ORDER or len(signature) != 64:
        return False
    challenge = hash_to_scalar(signature[:32], public, message)
    expected = add(commitment, times(challenge, key))
    return compress(times(response, BASE)) == compress(expected)
