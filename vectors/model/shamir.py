"""Shamir's sharing of 32-byte secrets over the integers modulo 2^61 - 1, slowly.

Interpolation is Newton's, decoding is the search of all sets of t shares: other ways than the
library's.
"""

from __future__ import annotations

import hashlib
from itertools import combinations

P = 2**61 - 1
LIMBS = 5
LIMB_BITS = 52


def stream(label: str, count: int) -> list[int]:
    """``count`` integers below 2^256 that depend on the label only."""
    digests = (hashlib.sha256(f"{label}/{i}".encode()).digest() for i in range(count))
    return [int.from_bytes(digest, "little") for digest in digests]


def split(secret: bytes) -> list[int]:
    """The limbs of a secret, the low bits first."""
    number = int.from_bytes(secret, "little")
    return [number >> (LIMB_BITS * i) & (2**LIMB_BITS - 1) for i in range(LIMBS)]


def join(limbs: list[int]) -> bytes | None:
    """The secret with these limbs, None if there is none."""
    number = 0
    for i, limb in enumerate(limbs):
        if limb >= 2 ** min(LIMB_BITS, 256 - LIMB_BITS * i):
            return None
        number += limb << (LIMB_BITS * i)
    return number.to_bytes(32, "little")


def evaluate(coefficients: list[int], x: int) -> int:
    """The value at x of the polynomial with these coefficients, X^0 first."""
    return sum(c * pow(x, i, P) for i, c in enumerate(coefficients)) % P


def newton(points: list[int], values: list[int]) -> list[int]:
    """Divided differences of the values at the points."""
    table = list(values)
    for level in range(1, len(points)):
        for i in range(len(points) - 1, level - 1, -1):
            table[i] = (table[i] - table[i - 1]) * pow(points[i] - points[i - level], -1, P) % P
    return table


def newton_at(points: list[int], table: list[int], x: int) -> int:
    """The interpolating polynomial at x."""
    value, product = 0, 1
    for point, difference in zip(points, table, strict=True):
        value += difference * product
        product = product * (x - point) % P
    return value % P


def share(secret: bytes, rows: list[list[int]], points: list[int]) -> list[list[int]]:
    """One list of five values a point; row i of ``rows`` has the coefficients of X^(i+1)."""
    limbs = split(secret)
    return [[evaluate([limbs[k]] + [row[k] for row in rows], x) for k in range(LIMBS)] for x in points]


def reconstruct(threshold: int, points: list[int], shares: list[list[int]]) -> bytes | None:
    """The secret behind the first ``threshold`` shares, None if there is none."""
    used = points[:threshold]
    columns = [[values[k] for values in shares[:threshold]] for k in range(LIMBS)]
    return join([newton_at(used, newton(used, column), 0) for column in columns])


def decode(threshold: int, points: list[int], column: list[int]) -> tuple[int, set[int]] | None:
    """Value at 0 and wrong points of the one polynomial that explains nearly all values."""
    correctable = (len(points) - threshold) // 2
    for subset in combinations(range(len(points)), threshold):
        used = [points[i] for i in subset]
        table = newton(used, [column[i] for i in subset])
        wrong = {x for x, v in zip(points, column, strict=True) if newton_at(used, table, x) != v}
        if len(wrong) <= correctable:
            return newton_at(used, table, 0), wrong
    return None


def robust(threshold: int, points: list[int], shares: list[list[int]]) -> tuple[bytes, list[int]] | None:
    """The secret and the points of the wrong shares, None if too many are wrong."""
    limbs, wrong = [], set()
    for k in range(LIMBS):
        decoded = decode(threshold, points, [values[k] for values in shares])
        if decoded is None:
            return None
        limbs.append(decoded[0])
        wrong |= decoded[1]
    secret = join(limbs)
    if secret is None or len(wrong) > (len(points) - threshold) // 2:
        return None
    return secret, [x for x in points if x in wrong]


def encode(values: list[int]) -> str:
    """Five values as 40 bytes in hexadecimal."""
    return b"".join(value.to_bytes(8, "little") for value in values).hex()


def sharing(label: str, secret: bytes, threshold: int, points: list[int]) -> dict[str, object]:
    """A sharing with its polynomials."""
    numbers = [number % P for number in stream(label, LIMBS * (threshold - 1))]
    rows = [numbers[i : i + LIMBS] for i in range(0, len(numbers), LIMBS)]
    shares = share(secret, rows, points)
    assert reconstruct(threshold, points, shares) == secret
    return {
        "threshold": threshold,
        "points": points,
        "secret": secret.hex(),
        "coefficients": [encode(row) for row in rows],
        "shares": [encode(values) for values in shares],
    }


def received(label: str, threshold: int, points: list[int], lies: dict[int, list[int]]) -> dict[str, object]:
    """A sharing in which the holder at position i adds ``lies[i]`` to its five values."""
    numbers = [number % P for number in stream(label, LIMBS * (threshold - 1))]
    rows = [numbers[i : i + LIMBS] for i in range(0, len(numbers), LIMBS)]
    shares = share(hashlib.sha256(label.encode()).digest(), rows, points)
    for position, lie in lies.items():
        pairs = zip(shares[position], lie, strict=True)
        shares[position] = [(value + delta) % P for value, delta in pairs]
    result = robust(threshold, points, shares)
    return {
        "threshold": threshold,
        "points": points,
        "shares": [encode(values) for values in shares],
        "secret": result[0].hex() if result else None,
        "wrong": result[1] if result else None,
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``shamir.json``."""
    one = [1, 0, 0, 0, 0]
    full = [number % P for number in stream("lie", LIMBS)]
    out_of_range = [[0, 0, 0, 0, 2**48], [2**52, 0, 0, 0, 0], [0, 0, P - 1, 0, 0]]
    return {
        "sharings": [
            sharing("one of one", bytes(range(32)), 1, [1]),
            sharing("two of three", bytes(32), 2, [1, 2, 3]),
            sharing("all ones", b"\xff" * 32, 3, [1, 2, 3, 4, 5]),
            sharing("sparse", hashlib.sha256(b"sparse").digest(), 4, [7, 2**32 - 1, 1, 65536, 99]),
            sharing("ten", hashlib.sha256(b"ten").digest(), 7, list(range(1, 11))),
        ],
        "received": [
            received("honest", 3, [1, 2, 3, 4, 5, 6, 7], {}),
            received("one liar", 3, [1, 2, 3, 4, 5, 6, 7], {2: one}),
            received("two liars", 3, [9, 2, 30, 4, 5, 6, 7], {6: full, 0: one}),
            received("three liars", 3, [1, 2, 3, 4, 5, 6, 7], {0: one, 3: full, 4: full}),
            received("no redundancy to spare", 4, [1, 2, 3, 4, 5], {4: full}),
        ],
        "bad_shares": [
            encode([P, 0, 0, 0, 0]),
            encode([0, 0, 0, 0, P + 1]),
            encode([0, 0, 2**64 - 1, 0, 0]),
            encode([0, 0, 0, 0, 0])[2:],
            encode([0, 0, 0, 0, 0]) + "00",
        ],
        "bad_secrets": [encode(limbs) for limbs in out_of_range],
    }
