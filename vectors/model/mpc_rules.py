"""Rules that three servers compute on vectors of whole numbers: what may come out, for rules that round.

Weights are intervals, found from exact fractions and roots; sums and means of vectors follow from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .encoding import double
from .mpc_fixed import (
    FRACTION,
    ONE,
    Interval,
    ceiling,
    floor,
    inverse_case,
    inverse_root,
    pair,
    place_of,
    product,
    product_truncation,
    root_above,
    root_below,
    root_case,
    times,
    total,
    truncated,
    truncation,
)
from .mpc_refused import refused
from .mpc_sharing import EXTREMES, dot, sharing, texts
from .words import numbers

MEAN_BITS = 20
UNLIKE_ONE = ONE + 16

Vectors = list[list[int]]
Means = list[tuple[Fraction, Fraction]]


@dataclass
class Weighed:
    """What a rule comes to."""

    sums: list[Interval]
    total: Interval | None
    divisor: float
    means: Means

    def row(self) -> dict[str, object]:
        """As it stands in the file."""
        return {
            "sum": [pair(interval) for interval in self.sums],
            "total": None if self.total is None else pair(self.total),
            "divisor": double(self.divisor),
            "mean": [pair(widened(*mean)) for mean in self.means],
        }


def widened(low: Fraction, high: Fraction) -> Interval:
    """A mean in units of 2^-20, with room for what doubles round."""
    below, above = floor(low * 2**MEAN_BITS) - 1, ceiling(high * 2**MEAN_BITS) + 1
    return below - (abs(below) >> 48), above + (abs(above) >> 48)


def dots(x: list[int], y: list[int]) -> int:
    """The dot product."""
    return sum(a * b for a, b in zip(x, y, strict=True))


def weighted(weights: list[Interval], rows: Vectors) -> list[Interval]:
    """The sum of vectors with these weights, coordinate by coordinate."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    return [total([times(w, x) for w, x in zip(weights, column, strict=True)]) for column in columns]


def over(sums: list[Interval], divisor: Fraction | int) -> Means:
    """Sums divided by a known number."""
    return [(Fraction(low) / divisor, Fraction(high) / divisor) for low, high in sums]


def exact(sums: list[int], divisor: int) -> Weighed:
    """What a rule without rounding comes to."""
    intervals = [(value, value) for value in sums]
    return Weighed(intervals, None, float(divisor), over(intervals, divisor))


def clipped_mean(rows: Vectors, clip: int) -> Weighed:
    """The mean of vectors that are shortened to the clip where they are longer."""
    weights = [clipped_weight(dots(row, row), clip) for row in rows]
    sums = weighted(weights, rows)
    divisor = len(rows) * ONE
    return Weighed(sums, None, float(divisor), over(sums, divisor))


def clipped_weight(n: int, clip: int) -> Interval:
    """min(1, clip / √n): two units of rounding below, one and the inverse root's above."""
    if n <= clip * clip:
        return ONE, ONE
    square = Fraction(clip**2 * ONE**2, n)
    return root_below(square * (1 - Fraction(1, 2**20)) ** 2) - 2, root_above(
        square * (1 + Fraction(6, ONE)) ** 2
    ) + 1


def unit_root(root: list[float]) -> tuple[list[int], tuple[Fraction, Fraction]]:
    """The trusted vector with norm 2^26, in whole numbers, and its norm, from below and above."""
    exact_root = [Fraction(value) for value in root]
    square = sum((value * value for value in exact_root), Fraction(0))
    fine = 2**200 * max(1, ceiling(1 / square))
    norm = Fraction(root_below(square * fine**2), fine), Fraction(root_above(square * fine**2), fine)
    unit = []
    for value in exact_root:
        scaled = abs(value) * 2**26 / norm[0]
        nearest = floor(scaled + Fraction(1, 2))
        # Doubles round it the same way.
        assert (
            abs(scaled + Fraction(1, 2) - round(scaled + Fraction(1, 2))) > Fraction(1, 10**5) or scaled == 0
        )
        unit.append(nearest if value >= 0 else -nearest)
    return unit, norm


def fltrust(rows: Vectors, root: list[float], exponent: int) -> tuple[Weighed, list[int], list[Interval]]:
    """The mean of vectors that point where the root points, with the dot products and the trust in each."""
    unit, norm = unit_root(root)
    along = [dots(row, unit) for row in rows]
    trust, weights = [], []
    for row, d in zip(rows, along, strict=True):
        n = dots(row, row)
        place = place_of(n)
        if place is None:
            trust.append((0, 0))
            weights.append((0, 0))
            continue
        scale, inverse = 2 ** (exponent - place), inverse_root(n)
        scaled = truncated(Fraction(max(0, d) * scale, 2 ** (exponent + 26 - FRACTION)))
        trust.append(product(scaled, inverse, FRACTION))
        weights.append(times(product(trust[-1], inverse, FRACTION), scale))
    sums, everything = weighted(weights, rows), total(trust)
    divisor = float(2 ** (FRACTION + exponent) / norm[0])
    assert divisor == float(2 ** (FRACTION + exponent) / norm[1])
    # Sums that are shown are at least one unit, so that nothing is divided by 0.
    shown = [Fraction(max(end, 1), ONE) for end in everything]
    means = []
    for interval in sums:
        ends = [
            Fraction(y, 2 ** (FRACTION + exponent)) * length / s
            for y in interval
            for length in norm
            for s in shown
        ]
        means.append((min(ends), max(ends)))
    return Weighed(sums, everything, divisor, means), along, trust


def krum(rows: Vectors, bad: int, keep: int) -> tuple[Weighed, list[int], list[int]]:
    """The mean of the vectors with the least scores, with all scores and which vectors are kept."""
    scores = []
    for i, row in enumerate(rows):
        others = [[a - b for a, b in zip(row, other, strict=True)] for j, other in enumerate(rows) if j != i]
        scores.append(sum(sorted(dots(other, other) for other in others)[: len(rows) - bad - 2]))
    assert max(scores) < 2**62
    kept = smallest(scores, keep)
    sums = [dots(kept, list(column)) for column in zip(*rows, strict=True)]
    return exact(sums, keep), scores, kept


def ranks(values: list[int]) -> list[int]:
    """How many are smaller, or equal and before it."""
    return [sum((other, j) < (value, i) for j, other in enumerate(values)) for i, value in enumerate(values)]


def smallest(values: list[int], keep: int) -> list[int]:
    """1 for the smallest, 0 for the others."""
    return [int(rank < keep) for rank in ranks(values)]


def unlike(rows: Vectors, exponent: int) -> tuple[Weighed, list[Interval]]:
    """The mean in which a vector counts less the more another one points where it points, and the weights."""
    weights = []
    for i, row in enumerate(rows):
        cosines = [cosine(row, other, exponent) for j, other in enumerate(rows) if j != i]
        largest = max([0, *(high for _, high in cosines)])
        least = max([0, *(low for low, _ in cosines)])
        weights.append((UNLIKE_ONE - largest, UNLIKE_ONE - least))
    # No weight is ever 0 or below.
    assert min(low for low, _ in weights) > 0
    everything = total(weights)
    means = [mean_between(weights, list(column)) for column in zip(*rows, strict=True)]
    return Weighed(weighted(weights, rows), everything, float(ONE), means), weights


def cosine(x: list[int], y: list[int], exponent: int) -> Interval:
    """The cosine, with 28 bits behind the point; 0 with a vector of zeros."""
    n_x, n_y = dots(x, x), dots(y, y)
    at_x, at_y = place_of(n_x), place_of(n_y)
    if at_x is None or at_y is None:
        return 0, 0
    scaled = truncated(Fraction(dots(x, y) * 4**exponent, 2 ** (at_x + at_y + 2 * exponent - FRACTION)))
    return product(product(scaled, inverse_root(n_x), FRACTION), inverse_root(n_y), FRACTION)


def mean_between(weights: list[Interval], column: list[int]) -> tuple[Fraction, Fraction]:
    """The least and the largest mean of numbers whose weights are from these intervals.

    The largest one gives the upper weight to all numbers above some place in their order, and the lower
    weight to the others.
    """
    order = sorted(zip(column, weights, strict=True))
    means = []
    for cut in range(len(order) + 1):
        for first, last in ((0, 1), (1, 0)):
            chosen = [(x, w[first if i < cut else last]) for i, (x, w) in enumerate(order)]
            means.append(Fraction(sum(x * w for x, w in chosen), sum(w for _, w in chosen)))
    return min(means), max(means)


def middle(rows: Vectors, bits: int, trim: int) -> Weighed:
    """The mean of each coordinate without its smallest and largest values; they count modulo 2^bits."""
    half = 2 ** (bits - 1)
    columns = [sorted((x + half) % 2**bits - half for x in column) for column in zip(*rows, strict=True)]
    kept = len(rows) - 2 * trim
    return exact([sum(column[trim : len(rows) - trim]) for column in columns], kept)


def vectors_of(label: str, n: int, exponent: int) -> Vectors:
    """Vectors of four numbers with norms below 2^exponent: large, small, opposite, equal, zeros."""
    rows = []
    for c in range(n):
        top = (2**exponent - 1) >> (1 + (0, 0, 3, 7, 0)[c % 5])
        rows.append([number % (2 * top + 1) - top for number in numbers(f"{label}, vector {c}", 4)])
    if n > 3:
        rows[3] = [-x for x in rows[0]]
    if n > 4:
        rows[4] = rows[1]
    if n > 5:
        rows[5] = [0] * 4
    if n > 6:
        rows[6] = [2**exponent - 1, 0, 0, 0]
    return rows


def given(rows: Vectors, **options: int) -> dict[str, object]:
    """What a rule is given, as it stands in the file."""
    return {**{name: str(value) for name, value in options.items()}, "vectors": [texts(row) for row in rows]}


def alike(exponent: int) -> list[Vectors]:
    """One vector, equal ones, opposite ones, zeros, right angles, as long as bounds allow."""
    top = 2**exponent - 1
    return [
        [[top, 0, 0, 0]],
        [[top, 0, 0, 0]] * 4,
        [[top, 0, 0, 0], [-top, 0, 0, 0], [top, 0, 0, 0], [1, 0, 0, 0]],
        [[0] * 4] * 3,
        [[top >> i if i == j else 0 for j in range(4)] for i in range(4)],
        [[1, 0, 0, 0], [0, -1, 0, 0], [1, 1, 0, 0]],
    ]


def of_clipped() -> list[dict[str, object]]:
    """Cases of ``clipped_mean``."""
    cases = []
    for exponent, n, clip in (
        (15, 3, 1),
        (15, 7, 10_000),
        (20, 5, 2**19),
        (30, 9, 2**29),
        (30, 7, 2**30 - 1),
    ):
        rows = vectors_of(f"clipped {exponent} {n}", n, exponent)
        cases.append({**given(rows, exponent=exponent, clip=clip), **clipped_mean(rows, clip).row()})
    for rows in alike(30):
        cases.append({**given(rows, exponent=30, clip=2**28 + 1), **clipped_mean(rows, 2**28 + 1).row()})
    return cases


def of_fltrust() -> list[dict[str, object]]:
    """Cases of ``fltrust``."""
    cases = []
    plans = [
        (exponent, vectors_of(f"fltrust {exponent} {n}", n, exponent), root)
        for exponent, n, root in (
            (15, 3, [3.0, -4.0, 0.0, 0.0]),
            (20, 7, [1.0, 2.0, -3.0, 0.5]),
            (30, 9, [1e12, 1e12, 1e12, 1e12]),
            (30, 7, [-1e-3, 0.0, 0.0, 0.0]),
        )
    ]
    plans += [(30, rows, [2.0, -1.0, 2.0, 0.0]) for rows in alike(30)]
    for exponent, rows, root in plans:
        weighed, along, trust = fltrust(rows, root, exponent)
        case = given(rows, exponent=exponent)
        case["root"] = [double(value) for value in root]
        case["along"], case["trust"] = texts(along), [pair(interval) for interval in trust]
        cases.append({**case, **weighed.row()})
    return cases


def of_krum() -> list[dict[str, object]]:
    """Cases of ``krum``."""
    plans = [
        (exponent, bad, keep, vectors_of(f"krum {exponent} {n}", n, exponent))
        for exponent, n, bad, keep in (
            (15, 3, 0, 1),
            (15, 7, 2, 1),
            (20, 7, 2, 5),
            (20, 9, 6, 9),
            (28, 9, 3, 1),
            (29, 4, 1, 3),
        )
    ]
    # All scores are equal, or those of pairs; at the end scores that doubles would not tell apart.
    square = [[3, 0, 0, 0], [0, 3, 0, 0], [-3, 0, 0, 0], [0, -3, 0, 0]]
    plans += [(15, 1, keep, square) for keep in (1, 3, 4)]
    plans += [(29, len(rows) - 3, 1, rows) for rows in alike(29)[1:]]
    near, far = 2**28, [2**28, 1, 0, 0]
    plans.append((29, 0, 1, [far, [0, 0, 0, 0], [-near, 0, 0, 0]]))
    cases = []
    for exponent, bad, keep, rows in plans:
        weighed, scores, kept = krum(rows, bad, keep)
        case = given(rows, exponent=exponent, bad=bad, keep=keep)
        cases.append({**case, "scores": texts(scores), "kept": texts(kept), **weighed.row()})
    return cases


def of_unlike() -> list[dict[str, object]]:
    """Cases of ``unlike``."""
    plans = [(e, vectors_of(f"unlike {e} {n}", n, e)) for e, n in ((15, 3), (20, 7), (30, 9))]
    plans += [(exponent, rows) for exponent in (15, 30) for rows in alike(exponent)]
    cases = []
    for exponent, rows in plans:
        weighed, weights = unlike(rows, exponent)
        case = given(rows, exponent=exponent)
        cases.append({**case, "weights": [pair(interval) for interval in weights], **weighed.row()})
    return cases


def of_middle(trims: tuple[int, ...] | None) -> list[dict[str, object]]:
    """Cases of ``median``, or of ``trimmed_mean``: numbers of all sizes, ties, and some of too many bits."""
    cases = []
    for bits, n in ((2, 3), (16, 4), (16, 7), (16, 9), (33, 5), (60, 8), (62, 2), (62, 1)):
        half = 2 ** (bits - 1)
        rows = [[x % 2**bits - half for x in numbers(f"middle {bits} {n} {c}", 3)] for c in range(n)]
        # All ends, and a column of three values.
        for c, row in enumerate(rows):
            row += [(half - 1) if c % 2 else -half, c % 3 - 1]
        if bits == 16:
            rows[0][0], rows[1][1] = 2**15, -(2**40) - 3
        for trim in ((n - 1) // 2,) if trims is None else trims:
            if 2 * trim < n and bits - 1 + (n - 2 * trim - 1).bit_length() <= 62:
                case = given(rows, bits=bits) if trims is None else given(rows, bits=bits, trim=trim)
                cases.append({**case, **middle(rows, bits, trim).row()})
    return cases


def of_ranks() -> list[dict[str, object]]:
    """Cases of ``ranks`` and ``smallest``: groups one behind the other, with ties and extreme numbers."""
    cases = []
    for size, keep, groups in ((1, 0, 2), (1, 1, 2), (2, 1, 3), (5, 2, 3), (9, 4, 2), (9, 9, 1), (7, 8, 1)):
        values = [n % 7 - 3 for n in numbers(f"ranks {size} {keep}", size * groups)]
        values[:3] = [2**62 - 1, -(2**62), 2**62 - 1]
        values = values[: size * groups]
        parts = [values[at : at + size] for at in range(0, len(values), size)]
        cases.append(
            {
                "size": str(size),
                "keep": str(keep),
                "values": texts(values),
                "ranks": [str(rank) for part in parts for rank in ranks(part)],
                "smallest": [str(bit) for part in parts for bit in smallest(part, keep)],
            }
        )
    return cases


def sums() -> list[dict[str, object]]:
    """Cases of the plain sum, which counts modulo 2^64."""
    plans = [vectors_of(f"sum {n}", n, 30) for n in (1, 3, 9)] + [[EXTREMES] * 3]
    return [
        {**given(rows), "sum": texts([signed(sum(column)) for column in zip(*rows, strict=True)])}
        for rows in plans
    ]


def signed(value: int) -> int:
    """The number from -2^63 to 2^63 - 1 that is equal modulo 2^64."""
    return (value + 2**63) % 2**64 - 2**63


def vectors() -> dict[str, object]:
    """Everything that goes into ``mpc_rules.json``."""
    edges = [0, 1, -1, 5 << 20, -(5 << 20) + 1, 2**62 - 1, -(2**62)]
    roots = [0, 1, 2, 3, 4, 5, 63, 64, 10**6, 4**15 - 1]
    return {
        "sharings": [sharing(ring, values) for ring in (64, 128) for values in (EXTREMES, [7])],
        "dots": [dot(ring, length) for ring in (64, 128) for length in (1, 5)],
        "truncate": [truncation(x, f) for f in (1, 20, 28, 61) for x in edges],
        "multiply_truncate": [
            product_truncation(x, y, f)
            for x, y, f in (
                (0, 5, 28),
                (3 << 28, 1 << 27, 28),
                (-(2**31), 2**31 - 1, 1),
                (2**31 - 1, 2**31, 61),
                (-1, 1, 61),
                (123_456_789, -987_654_321, 29),
            )
        ],
        "inverse_root": [root_case(n, 15) for n in (*roots, 4**16 - 1)]
        + [root_case(n, 30) for n in (*roots, 2**31, 2**32 + 1, 3 * 2**50, 4**30 - 1, 4**30, 4**31 - 1)],
        "inverse": [inverse_case(v, 30) for v in (0, 1, 2, 3, 2**29, 2**30 - 1)]
        + [inverse_case(v, 61) for v in (0, 1, 5, 10**9 + 7, 2**60 - 1, 2**60, 2**61 - 1)],
        "ranks": of_ranks(),
        "sum": sums(),
        "clipped_mean": of_clipped(),
        "fltrust": of_fltrust(),
        "krum": of_krum(),
        "unlike": of_unlike(),
        "median": of_middle(None),
        "trimmed_mean": of_middle((0, 1, 3)),
        "refused": refused(),
    }
