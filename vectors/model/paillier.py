"""Paillier's scheme: keys, encryption, re-randomisation, sums, decryption and packed values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import gcd

from .derive import framed_hash

SMALL = [n for n in range(3, 2**11) if all(n % d for d in range(2, n))]


def draw(label: str, count: int) -> bytes:
    """As many bytes as asked for, of a hash with a counter."""
    blocks = (sha256(f"{label}/{i}".encode()).digest() for i in range(-(-count // 32)))
    return b"".join(blocks)[:count]


def is_prime(number: int) -> bool:
    """Miller and Rabin's test to ten drawn bases, for a number that is 3 mod 4."""
    if any(number % small == 0 for small in SMALL):
        return False
    length = number.bit_length() // 8
    bases = (int.from_bytes(draw(f"base/{i}", length), "big") % number for i in range(10))
    return all(pow(base, number // 2, number) in (1, number - 1) for base in bases)


def prime(label: str, bits: int) -> int:
    """The first of a drawn list: 3 mod 4, with its two highest bits set."""
    i = 0
    while True:
        number = int.from_bytes(draw(f"{label}/{i}", bits // 8), "big") | 3 | 3 << (bits - 2)
        if is_prime(number):
            return number
        i += 1


@dataclass(frozen=True)
class Key:
    """A secret key; ``bits`` are those of its modulus."""

    bits: int
    p: int
    q: int
    x: int

    @property
    def n(self) -> int:
        """The modulus."""
        return self.p * self.q

    @property
    def h(self) -> int:
        """What the noise is made of."""
        return -self.x * self.x % self.n

    @cached_property
    def noise(self) -> int:
        """The power of ``h`` whose powers hide plaintexts."""
        return pow(self.h, self.n, self.n**2)

    def number(self, value: int, times: int = 1) -> bytes:
        """Big-endian, as long as the modulus or several times that."""
        return value.to_bytes(times * self.bits // 8, "big")

    def public(self) -> bytes:
        """What everybody knows."""
        return self.number(self.n) + self.number(self.h)

    def secret(self) -> bytes:
        """What must be sealed."""
        half = self.bits // 16
        return self.p.to_bytes(half, "big") + self.q.to_bytes(half, "big") + self.number(self.h)

    def encrypt(self, plaintext: int, alpha: int) -> int:
        """A ciphertext, from the definition."""
        square = self.n**2
        return pow(1 + self.n, plaintext, square) * pow(self.noise, alpha, square) % square

    def decrypt(self, ciphertext: int) -> int:
        """The plaintext, from the definition, without any trick."""
        square = self.n**2
        phi = (self.p - 1) * (self.q - 1)
        power = pow(ciphertext, phi, square)
        assert power % self.n == 1
        return (power - 1) // self.n * pow(phi, -1, self.n) % self.n


def key(bits: int) -> Key:
    """The key of a size: primes in order, that have no more in common than they must."""
    p, q = sorted(prime(f"paillier/{bits}/{name}", bits // 2) for name in "pq")
    x = int.from_bytes(draw(f"paillier/{bits}/x", bits // 8), "big") % (p * q)
    assert gcd(p - 1, q - 1) == 2
    assert gcd(p * q, (p - 1) * (q - 1)) == 1 == gcd(x, p * q)
    return Key(bits, p, q, x)


def pack(modulus_bits: int, bits: int, parties: int, values: list[int]) -> list[int]:
    """Plaintexts with a lane for each value."""
    width = bits + (parties - 1).bit_length()
    lanes = (modulus_bits - 1) // width
    rows = [values[at : at + lanes] for at in range(0, len(values), lanes)]
    return [sum((value + 2 ** (bits - 1)) << width * j for j, value in enumerate(row)) for row in rows]


def signed(label: str, bits: int, count: int) -> list[int]:
    """Values, the smallest and the largest first."""
    drawn = [draw(f"{label}/{i}", 8) for i in range(count - 2)]
    half = 2 ** (bits - 1)
    return [-half, half - 1, *(int.from_bytes(one, "big") % (2 * half) - half for one in drawn)]


def played(secret: Key, exponent_bits: int, bits: int, parties: int, count: int) -> dict[str, object]:
    """Three vectors: what is drawn, ciphertexts, their sum, its new ciphertexts and what it decrypts to."""
    size, square = exponent_bits // 8, secret.n**2
    vectors, columns = [], []
    for rank in range(3):
        label = f"paillier/{secret.bits}/{exponent_bits}/{rank}"
        values = signed(label, bits, count)
        plaintexts = pack(secret.bits, bits, parties, values)
        drawn = draw(f"{label}/alpha", size * len(plaintexts))
        alphas = [int.from_bytes(drawn[at : at + size], "little") for at in range(0, len(drawn), size)]
        ciphertexts = [secret.encrypt(m, alpha) for m, alpha in zip(plaintexts, alphas, strict=True)]
        columns.append(ciphertexts)
        vectors.append(
            {
                "values": values,
                "plaintexts": b"".join(map(secret.number, plaintexts)).hex(),
                "drawn": drawn.hex(),
                "ciphertexts": b"".join(secret.number(c, 2) for c in ciphertexts).hex(),
            }
        )
    added = [a * b * c % square for a, b, c in zip(*columns, strict=True)]
    drawn = draw(f"paillier/{secret.bits}/{exponent_bits}/again", size * len(added))
    zeros = [secret.encrypt(0, int.from_bytes(drawn[at : at + size], "little"))
             for at in range(0, len(drawn), size)]  # fmt: skip
    again = [c * zero % square for c, zero in zip(added, zeros, strict=True)]
    opened = [secret.decrypt(c) for c in added]
    assert opened == [secret.decrypt(c) for c in again]
    return {
        "exponent_bits": exponent_bits,
        "bits": bits,
        "parties": parties,
        "vectors": vectors,
        "sum": b"".join(secret.number(c, 2) for c in added).hex(),
        "drawn_again": drawn.hex(),
        "rerandomised": b"".join(secret.number(c, 2) for c in again).hex(),
        "decrypted": b"".join(map(secret.number, opened)).hex(),
        "sums": [sum(column) for column in zip(*(v["values"] for v in vectors), strict=True)],
    }


def edges(secret: Key, plaintexts: list[int]) -> list[dict[str, object]]:
    """Single plaintexts with exponents at the ends of their range."""
    size = secret.bits // 16
    cases = []
    for plaintext in plaintexts:
        for alpha in (0, 1, 2 ** (8 * size) - 1):
            if (plaintext, alpha) == (0, 0):
                continue
            ciphertext = secret.encrypt(plaintext, alpha)
            assert secret.decrypt(ciphertext) == plaintext
            cases.append(
                {
                    "plaintext": secret.number(plaintext).hex(),
                    "drawn": alpha.to_bytes(size, "little").hex(),
                    "ciphertext": secret.number(ciphertext, 2).hex(),
                }
            )
    return cases


def refused(secret: Key) -> list[dict[str, str]]:
    """Numbers that are no ciphertexts."""
    n, square = secret.n, secret.n**2
    numbers = {
        "zero": 0,
        "one": 1,
        "the square": square,
        "above the square": square + 1,
        "the modulus": n,
        "a multiple of the modulus": n * (n - 1),
        "a multiple of a factor": secret.p * (square // secret.p - 2),
        "all ones": 2 ** (2 * secret.bits) - 1,
    }
    return [{"why": why, "bytes": secret.number(c, 2).hex()} for why, c in numbers.items()]


def refused_keys(secret: Key) -> list[dict[str, str]]:
    """Bytes that are no public keys."""
    n, h, bits = secret.n, secret.h, secret.bits
    short = secret.p * prime(f"paillier/{bits}/short", bits // 2 - 8)
    not_square = next(
        c for c in range(2, 100) if pow(c, secret.p // 2, secret.p) == 1 != pow(c, secret.q // 2, secret.q)
    )
    pairs = {
        "an even modulus": (n - 1, h),
        "a modulus that is 3 mod 4": (n + 2, h),
        "a modulus that is too short": (short, h % short),
        "a modulus with a small factor": (5 * ((2**bits - 1) // 5 // 4 * 4 - 3), h),
        "a square": (secret.q**2, h),
        "zero for h": (n, 0),
        "one for h": (n, 1),
        "minus one for h": (n, n - 1),
        "an h that is not below the modulus": (n, n + 4),
        "an h with a factor of the modulus": (n, secret.p * 4),
        "an h of Jacobi symbol -1": (n, not_square),
    }
    return [
        {"why": why, "bytes": (secret.number(a) + secret.number(b)).hex()} for why, (a, b) in pairs.items()
    ]


def of_size(bits: int, exponents: list[int]) -> dict[str, object]:
    """All that is computed with one key."""
    secret = key(bits)
    plaintexts = [0, 1, secret.n - 1, secret.n // 2, 2 ** (bits - 1)]
    return {
        "key_bits": bits,
        "public_key": secret.public().hex(),
        "secret_key": secret.secret().hex(),
        "key_id": framed_hash("paillier key id", secret.public())[:16].hex(),
        "sums": [played(secret, exponents[0], 16, 40, 100), played(secret, exponents[1], 33, 3, 5)],
        "edges": edges(secret, plaintexts if bits == 2048 else plaintexts[2:3]),
        "refused_ciphertexts": refused(secret),
        "refused_keys": refused_keys(secret),
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``paillier.json``."""
    return {"keys": [of_size(2048, [1024, 448]), of_size(3072, [1536, 512])]}
