"""Prime fields with many roots of unity: numbers modulo p, polynomials over them, their encoding."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrimeField:
    """Integers modulo p.

    Attributes
    ----------
    name
        In the vector files.
    p
        The modulus.
    factors
        Prime factors of p - 1, with repetition.
    generator
        Of the multiplicative group.
    size
        Bytes of an encoded element, little-endian.
    draw
        Bytes of a random draw, of which the low bits count.
    """

    name: str
    p: int
    factors: tuple[int, ...]
    generator: int
    size: int
    draw: int

    def bits(self) -> int:
        """Bits of an element, and of a draw."""
        return self.p.bit_length()

    def two_adicity(self) -> int:
        """Largest a so that there is a root of unity of order 2^a."""
        return self.factors.count(2)

    def root(self, order: int) -> int:
        """The root of unity of this order that the generator gives."""
        assert (self.p - 1) % order == 0
        return pow(self.generator, (self.p - 1) // order, self.p)

    def inverse(self, a: int) -> int:
        """1 / a."""
        return pow(a, -1, self.p)

    def pack(self, elements: list[int]) -> bytes:
        """Encoded elements, one after the other."""
        return b"".join(element.to_bytes(self.size, "little") for element in elements)

    def unpack(self, packed: bytes) -> list[int] | None:
        """The elements, None where bytes are left over or a number is no element."""
        pieces = [packed[i : i + self.size] for i in range(0, len(packed), self.size)]
        numbers = [int.from_bytes(piece, "little") for piece in pieces]
        return None if len(packed) % self.size or any(n >= self.p for n in numbers) else numbers

    def horner(self, coefficients: list[int], x: int) -> int:
        """The value at x of the polynomial with these coefficients, X^0 first."""
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % self.p
        return value

    def newton(self, points: list[int], values: list[int]) -> list[int]:
        """Coefficients of the polynomial of least degree with these values, X^0 first.

        One point after the other: what is found so far, plus a multiple of the product of all
        X - point, which changes nothing at the points before.
        """
        found, product = [0] * len(points), [1] + [0] * len(points)
        for i, (point, value) in enumerate(zip(points, values, strict=True)):
            missing = value - self.horner(found, point)
            factor = missing * self.inverse(self.horner(product[: i + 1], point)) % self.p
            found = [(f + factor * c) % self.p for f, c in zip(found, product)]
            product = [(low - point * c) % self.p for low, c in zip([0, *product[:-1]], product, strict=True)]
        return found

    def lagrange(self, points: list[int], x: int) -> list[int]:
        """Value at x of each basis polynomial: 1 at its own point, 0 at the others."""
        basis = []
        for own in points:
            above, below = 1, 1
            for other in points:
                if other != own:
                    above = above * (x - other) % self.p
                    below = below * (own - other) % self.p
            basis.append(above * self.inverse(below) % self.p)
        return basis


FIELD31 = PrimeField("field31", 2**31 - 2**24 + 1, (2,) * 24 + (127,), 3, 4, 4)
FIELD47 = PrimeField("field47", 0x7FFFE4380001, (2,) * 19 + (3,) * 7 + (122741,), 5, 6, 8)
FIELD48 = PrimeField("field48", 0x88B000000001, (2,) * 36 + (3,) * 7, 5, 6, 8)
FIELDS = FIELD31, FIELD47, FIELD48


def crt(a: int, b: int) -> int:
    """The number below the product of the two larger moduli that is a and b modulo them."""
    p, q = FIELD47.p, FIELD48.p
    return a + p * ((b - a) * pow(p, -1, q) % q)


def bit_reversed(number: int, bits: int) -> int:
    """The number with its lowest ``bits`` bits in the other order."""
    return int(format(number, f"0{bits}b")[::-1], 2) if bits else 0


def log2_ceil(number: int) -> int:
    """Smallest a with 2^a >= number."""
    return next(a for a in range(number + 1) if 2**a >= number)


def share_points(field: PrimeField, n: int) -> list[int]:
    """Where the polynomials are evaluated for n parties: on a coset, in bit-reversed order."""
    bits = log2_ceil(n)
    theta = field.root(2**bits)
    return [field.generator * pow(theta, bit_reversed(j, bits), field.p) % field.p for j in range(n)]


def secret_points(field: PrimeField, k: int) -> list[int]:
    """Where `pss` puts secrets and randomness: roots of unity in bit-reversed order."""
    bits = log2_ceil(k)
    omega = field.root(2**bits)
    return [pow(omega, bit_reversed(e, bits), field.p) for e in range(k)]
