"""What three servers compute, step by step in whole numbers; a generator says where truncations go up.

The steps are those of the protocol's description: 28 bits behind the point, powers of two multiplied in last.
"""

import math
from fractions import Fraction

import numpy as np

FRACTION = 28
ONE = 1 << FRACTION
MIN_TOTAL = ONE >> 6


class Servers:
    """Truncations are rounded down, up or at random."""

    def __init__(self, exponent, up):
        self.exponent = exponent
        self.up = up

    def shifted(self, value, bits):
        """value / 2^bits, one of the two neighbours."""
        assert -(2**62) <= value < 2**62
        low, rest = divmod(value, 1 << bits)
        return low + (1 if rest and self.up() else 0)

    def inverse_root(self, n):
        """The inverse root of m, and i, for n = m · 4^i; nothing for 0."""
        if n == 0:
            return 0, None
        place = (n.bit_length() - 1) // 2
        m = self.shifted(n * 4 ** (self.exponent - place), 2 * self.exponent - FRACTION)
        a, b = (1.26410, 0.28632) if n < 2 * 4**place else (1.26410 / math.sqrt(2), 0.28632 / math.sqrt(8))
        y = round(a * ONE) - self.shifted(round(b * ONE) * m, FRACTION)
        g = self.shifted(m * y, FRACTION)
        for _ in range(2):
            r = ONE // 2 - self.shifted(g * y, FRACTION + 1)
            g, y = g + self.shifted(g * r, FRACTION), y + self.shifted(y * r, FRACTION)
        return y, place

    def clipped(self, rows, clip):
        """The clipped mean."""
        weights = []
        for row in rows:
            n = sum(x * x for x in row)
            y, place = self.inverse_root(n)
            if n <= clip * clip:
                weights.append(ONE)
            else:
                weights.append(self.shifted((clip * ONE >> place) * y, FRACTION))
        return combined(weights, rows, Fraction(1, ONE * len(rows)), self.hidden(FRACTION))

    def fltrust(self, rows, root):
        """The mean of trusted vectors."""
        length = math.sqrt(sum(x * x for x in root))
        unit = [round(x * 2**26 / length) for x in root]
        weights, total = [], 0
        for row in rows:
            y, place = self.inverse_root(sum(x * x for x in row))
            scale = 0 if place is None else 2 ** (self.exponent - place)
            forward = max(0, sum(x * u for x, u in zip(row, unit, strict=True)))
            trust = self.shifted(self.shifted(forward * scale, self.exponent + 26 - FRACTION) * y, FRACTION)
            total += trust
            weights.append(self.shifted(trust * y, FRACTION) * scale)
        if total < MIN_TOTAL:
            return np.zeros(len(root))
        factor = Fraction(length) / 2**self.exponent / total
        even = math.floor(FRACTION + self.exponent - math.log2(max(length, 1)))
        return combined(weights, rows, factor, self.hidden(even))

    def cosine(self, rows):
        """The mean of unlike vectors."""
        n = len(rows)
        roots = [self.inverse_root(sum(x * x for x in row)) for row in rows]
        largest = [0] * n
        for i in range(n):
            for j in range(i + 1, n):
                (y_i, i_place), (y_j, j_place) = roots[i], roots[j]
                if i_place is None or j_place is None:
                    continue
                value = sum(a * b for a, b in zip(rows[i], rows[j], strict=True))
                value *= 4**self.exponent >> (i_place + j_place)
                value = self.shifted(value, 2 * self.exponent - FRACTION)
                value = self.shifted(self.shifted(value * y_i, FRACTION) * y_j, FRACTION)
                largest[i], largest[j] = max(largest[i], value), max(largest[j], value)
        weights = [ONE + 16 - value for value in largest]
        assert min(weights) > 0
        if sum(weights) < MIN_TOTAL:
            return np.zeros(len(rows[0]))
        return combined(weights, rows, Fraction(1, sum(weights)), self.hidden(FRACTION))

    def hidden(self, even):
        """What hidden bits of all components add at most, up or down."""
        most = 3 * 2**even // 2
        return most if self.up() else -most


def combined(weights, rows, factor, hidden):
    """Σ weight · row and what hidden bits add, times the factor."""
    sums = [sum(w * row[d] for w, row in zip(weights, rows, strict=True)) for d in range(len(rows[0]))]
    return np.array([float(factor * (value + hidden)) for value in sums])
