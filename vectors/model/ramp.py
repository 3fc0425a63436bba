"""Vectors of ramp sharing: fields, points, shares, rebuilding, randomness, parameters, sums."""

from __future__ import annotations

from hashlib import sha256
from itertools import product

from .parameters import ParameterError
from .prime import FIELD31, FIELD47, FIELD48, FIELDS, PrimeField, crt, secret_points, share_points
from .ramp_parameters import Wish, corrupt_among, dropouts_among, fields_for, least_random, shape
from .ramp_sharing import Rows, Shape, Vector, sample

EMBEDDINGS = "coefficients", "evaluations"


def elements(field: PrimeField, label: str, count: int) -> list[int]:
    """Elements that follow from a label."""
    digests = (sha256(f"{label}/{i}".encode()).digest() for i in range(count))
    return [int.from_bytes(digest, "little") % field.p for digest in digests]


def hexadecimal(field: PrimeField, rows: Rows) -> list[str]:
    """Packed rows."""
    return [field.pack(row).hex() for row in rows]


# --- Fields ---


def field_facts(field: PrimeField) -> dict[str, object]:
    """Arithmetic, roots and encoding of a field, most of all at its ends."""
    p = field.p
    ends = [0, 1, 2, field.generator, (p - 1) // 2, (p + 1) // 2, p - 2, p - 1]
    numbers = ends + elements(field, f"{field.name}/factors", 6)
    bad = [p, p + 1, 2 ** field.bits() - 1, 2 ** (8 * field.size) - 1]
    encoded = [n.to_bytes(field.size, "little") for n in bad]
    one = field.pack([1])
    return {
        "field": field.name,
        "modulus": p,
        "generator": field.generator,
        "roots": [field.root(2**a) for a in range(field.two_adicity() + 1)],
        "numbers": numbers,
        "packed": field.pack(numbers).hex(),
        "sums": [[(a + b) % p for b in numbers] for a in numbers],
        "differences": [[(a - b) % p for b in numbers] for a in numbers],
        "products": [[a * b % p for b in numbers] for a in numbers],
        "inverses": [field.inverse(a) if a else None for a in numbers],
        "bad_packed": [
            *(text.hex() for text in encoded),
            *((9 * one + text).hex() for text in encoded),
            one[:-1].hex(),
            (one + b"\0").hex(),
        ],
    }


def points_of(field: PrimeField, n: int) -> dict[str, object]:
    """Points for n parties and for n secrets."""
    shares, secrets = share_points(field, n), secret_points(field, n)
    assert len({*shares, *secrets, 0}) == 2 * n + 1
    return {"field": field.name, "count": n, "shares": shares, "secrets": secrets}


def joined(a: int, b: int) -> list[object]:
    """Residues of one number, and the number; it may have 96 bits."""
    number = crt(a, b)
    assert (number % FIELD47.p, number % FIELD48.p) == (a, b)
    return [a, b, str(number)]


def joins() -> list[list[object]]:
    """Numbers of both larger fields, at the ends of all ranges that matter."""
    p, q = FIELD47.p, FIELD48.p
    numbers = [0, 1, p - 1, p, q - 1, q, 2**47, 2**64 - 1, 2**64, 2**64 + 1, 3 * 2**64 - 7, p * q - 1]
    numbers += [int.from_bytes(sha256(f"join/{i}".encode()).digest()) % (p * q) for i in range(6)]
    return [joined(number % p, number % q) for number in numbers]


# --- Sharing ---

SHAPES = [
    # n, k, l, blocks
    (2, 2, 1, 1),
    (2, 2, 1, 9),
    (3, 2, 1, 8),
    (4, 4, 3, 3),
    (5, 3, 2, 7),
    (7, 6, 1, 2),
    (8, 4, 2, 3),
    (8, 8, 7, 1),
    (9, 7, 3, 11),
    (16, 16, 8, 2),
    (17, 9, 8, 1),
    (27, 18, 9, 2),
    (33, 32, 16, 1),
    (64, 40, 21, 1),
    (81, 65, 50, 1),
    (100, 64, 50, 2),
]


def sharing(field: PrimeField, shape_: Shape, blocks: int, *, extreme: bool = False) -> dict[str, object]:
    """A sharing, rebuilt from three sets of survivors; ``extreme`` has p - 1 in every place."""
    label = f"{field.name}/{shape_}"

    def rows(name: str, count: int) -> Rows:
        if extreme:
            return [[field.p - 1] * blocks for _ in range(count)]
        return [elements(field, f"{label}/{name}/{i}", blocks) for i in range(count)]

    secrets, random = rows("secrets", shape_.l), rows("random", shape_.random)
    shares = shape_.share(field, secrets, random)
    survivors = survivor_sets(shape_)
    for ranks in survivors:
        assert shape_.rebuild(field, {rank: shares[rank] for rank in ranks}) == secrets
    return {
        "field": field.name,
        "embedding": shape_.embedding,
        "n": shape_.n,
        "k": shape_.k,
        "l": shape_.l,
        "secrets": hexadecimal(field, secrets),
        "random": hexadecimal(field, random),
        "shares": hexadecimal(field, shares),
        "survivors": survivors,
    }


def survivor_sets(shape_: Shape) -> list[list[int]]:
    """The first, the last and some k ranks, each set once."""
    n, k = shape_.n, shape_.k
    some = sorted(range(n), key=lambda rank: sha256(f"{n}/{rank}".encode()).digest())[:k]
    sets = [list(range(k)), list(range(n - k, n)), sorted(some)]
    return [ranks for i, ranks in enumerate(sets) if ranks not in sets[:i]]


def sharings() -> list[dict[str, object]]:
    """Sharings of all shapes, over all fields, in both embeddings."""
    found = [
        sharing(field, Shape(embedding, n, k, packed), blocks)
        for (n, k, packed, blocks), field, embedding in product(SHAPES, FIELDS, EMBEDDINGS)
        if n < 64 or field is not FIELD48
    ]
    found += [
        sharing(field, Shape(embedding, *sizes), 1, extreme=True)
        for sizes in ((5, 3, 2), (40, 32, 20))
        for field, embedding in product(FIELDS, EMBEDDINGS)
    ]
    found += [sharing(FIELD47, Shape(embedding, 243, 70, 33), 1) for embedding in EMBEDDINGS]
    return found


# --- Randomness ---


def sampling(
    label: str, fields: tuple[PrimeField, ...], index: int, rows: int, blocks: int
) -> dict[str, object]:
    """Random elements that follow from a seed."""
    seed = sha256(label.encode()).digest()
    return {
        "fields": [field.name for field in fields],
        "index": index,
        "seed": seed.hex(),
        "blocks": blocks,
        "rows": hexadecimal(fields[index], sample(fields, index, seed, rows, blocks)),
    }


def samplings() -> list[dict[str, object]]:
    """Of every field: few blocks, whole tiles, several tiles, draws that are thrown away."""
    pair = FIELD47, FIELD48
    return [
        sampling("one", (FIELD31,), 0, 1, 1),
        # A hundred draws: two or so of Field31 are thrown away here.
        sampling("hundreds", (FIELD31,), 0, 60, 5),
        sampling("tile", (FIELD31,), 0, 2, 256),
        sampling("tiles", (FIELD31,), 0, 2, 513),
        sampling("one", (FIELD47,), 0, 3, 1),
        sampling("tiles", (FIELD47,), 0, 2, 258),
        # Its second draw is thrown away, which happens once in 300,000 draws.
        sampling("field47/21843", (FIELD47,), 0, 2, 4),
        sampling("field47/21843", pair, 0, 2, 4),
        sampling("pair", pair, 0, 3, 7),
        sampling("pair", pair, 1, 3, 7),
        sampling("tiles of a pair", pair, 0, 1, 260),
        sampling("tiles of a pair", pair, 1, 1, 260),
    ]


# --- Parameters ---

COLUMNS = "n", "adversary", "corrupt", "dropout", "c", "d", "threshold", "packing", "words"


def parameters_of(
    n: int,
    words: int,
    active: bool = False,
    fractions: tuple[float, float] = (0.1, 0.1),
    given: tuple[int, int] = (0, 0),
) -> list[object]:
    """One row: what was asked for, then k, l and the random elements, or the field to change."""
    corrupt, dropout = fractions
    wish = Wish(active, corrupt_among(corrupt, n), dropouts_among(dropout, n), *given)
    adversary = "active" if active else "semi-honest"
    row = [n, adversary, *fractions, wish.corrupt, wish.dropouts, *given, words]
    try:
        k, packed = shape(wish, n, words)
    except ParameterError as error:
        return [*row, str(error)]
    assert k - packed >= least_random(wish)
    return [*row, [k, packed, k - packed]]


def table() -> list[list[object]]:
    """Parameters for many jobs."""
    usual = [(0.0, 0.0), (0.1, 0.1), (0.2, 0.05), (0.05, 0.2), (0.07, 0.29)]
    harsh = [(0.5, 0.5), (0.4, 0.3), (0.0, 0.9), (0.9, 0.0), (0.3, 0.1)]
    rows = [
        parameters_of(n, words, active, fractions)
        for n in (2, 3, 4, 5, 7, 10, 40, 100, 729, 1000)
        for active in (False, True)
        for fractions in usual + harsh
        for words in (1000, 10**6)
    ]
    rows += [
        parameters_of(20, words, active, given=(threshold, packing))
        for active in (False, True)
        for threshold in (0, 1, 2, 3, 4, 11, 12, 13, 18, 19, 20, 21)
        for packing in (0, 1, 6, 7, 8, 15, 16, 17)
        for words in (50,)
    ]
    # Few words: no more of them in a block than needed.
    rows += [parameters_of(30, words) for words in (1, 2, 23, 24, 25, 47, 48, 49, 73, 97)]
    # 0.07 * 100 is 7.000000000000001 in doubles and means 7, 0.29 * 100 is 28.999999999999996 and
    # means 29; 0.0700001 * 100 does not mean 7.
    rows += [
        parameters_of(100, 1000, active, (fraction, 0.29))
        for fraction in (0.07, 0.0700001)
        for active in (False, True)
    ]
    rows += [parameters_of(n, 10) for n in (0, 1)]
    return rows


def choices() -> list[list[object]]:
    """Largest sums, and the fields that hold them."""
    ends = [field.p for field in (FIELD31, FIELD47)]
    sums = [1, *(end + step for end in ends for step in (-1, 0, 1)), FIELD48.p, 2**64, 10**5 * 2**64]
    return [[str(number), [field.name for field in fields_for(number)]] for number in sums]


# --- Whole vectors ---


def aggregation(
    label: str, shape_: Shape, fields: tuple[PrimeField, ...], words: int, largest: int
) -> dict[str, object]:
    """Vectors of all parties, shared with all, added by some k of them, and rebuilt."""
    vector, parties = Vector(shape_, fields, words), range(shape_.n)
    seeds = [sha256(f"{label}/seed/{i}".encode()).digest() for i in parties]
    digests = [[sha256(f"{label}/{i}/{d}".encode()).digest() for d in range(words)] for i in parties]
    inputs = [[int.from_bytes(digest) % (largest + 1) for digest in row] for row in digests]
    inputs[0][0] = inputs[-1][-1] = largest
    columns = [vector.columns(row, seed) for row, seed in zip(inputs, seeds, strict=True)]
    ranks = survivor_sets(shape_)[-1]
    sums = {rank: vector.add([of_party[rank] for of_party in columns]) for rank in ranks}
    total = [sum(column) for column in zip(*inputs, strict=True)]
    assert vector.open(sums) == total
    return {
        "fields": [field.name for field in fields],
        "embedding": shape_.embedding,
        "n": shape_.n,
        "k": shape_.k,
        "l": shape_.l,
        "parties": [
            {"words": row, "seed": seed.hex(), "columns": [vector.pack(c).hex() for c in of_party]}
            for row, seed, of_party in zip(inputs, seeds, columns, strict=True)
        ],
        "sums": {str(rank): vector.pack(column).hex() for rank, column in sums.items()},
        "total": [str(number) for number in total],
    }


def aggregations() -> list[dict[str, object]]:
    """Both embeddings over all fields; lanes left over in the last word; more than one tile."""
    pair = FIELD47, FIELD48
    return [
        aggregation("small", Shape("coefficients", 4, 3, 2), (FIELD31,), 11, 2**16 - 1),
        aggregation("middle", Shape("evaluations", 5, 4, 2), (FIELD47,), 20, 2**43),
        aggregation("large", Shape("evaluations", 4, 4, 3), pair, 7, 2**64 - 1),
        aggregation("wide", Shape("coefficients", 3, 2, 1), pair, 5, 2**64 - 1),
        aggregation("tiles", Shape("evaluations", 2, 2, 1), pair, 259, 2**64 - 1),
    ]


def decoding(
    shape_: Shape, fields: tuple[PrimeField, ...], words: int, missing: set[int], lies: dict[int, int]
) -> dict[str, object]:
    """A shared vector from which columns are missing, and in others an element of a field is wrong."""
    label, vector = f"decoding/{shape_}/{lies}", Vector(shape_, fields, words)
    shared = elements(FIELD31, label, words)
    columns = vector.columns(shared, sha256(label.encode()).digest())
    for number, (rank, index) in enumerate(lies.items()):
        row, block = columns[rank][index], number % vector.blocks
        row[block] = (row[block] + 1 + number) % fields[index].p
    given = {rank: column for rank, column in enumerate(columns) if rank not in missing}
    decoded = vector.decode(given)
    assert decoded is None or decoded == (shared, set(lies))
    return {
        "fields": [field.name for field in fields],
        "embedding": shape_.embedding,
        "n": shape_.n,
        "k": shape_.k,
        "l": shape_.l,
        "columns": {str(rank): vector.pack(column).hex() for rank, column in given.items()},
        "wrong": sorted(lies) if decoded else None,
        "words": shared,
    }


def decodings() -> list[dict[str, object]]:
    """As many wrong columns as can be found, and one more; none missing and some."""
    pair = FIELD47, FIELD48
    small, large = Shape("coefficients", 7, 3, 2), Shape("evaluations", 9, 4, 2)
    return [
        decoding(small, (FIELD31,), 5, set(), {}),
        decoding(small, (FIELD31,), 5, set(), {6: 0, 1: 0}),
        decoding(small, (FIELD31,), 5, set(), {6: 0, 1: 0, 2: 0}),
        decoding(small, (FIELD31,), 5, {0, 4}, {5: 0}),
        decoding(small, (FIELD31,), 5, {0, 3, 4}, {5: 0}),
        decoding(small, (FIELD31,), 5, {0, 3, 4, 6}, {}),
        decoding(large, (FIELD47,), 4, {8}, {0: 0, 3: 0}),
        decoding(large, pair, 4, set(), {1: 0, 2: 1}),
        # Each field alone could be corrected, both together have one wrong column too many.
        decoding(large, pair, 4, {5, 6}, {1: 0, 2: 1}),
        decoding(large, pair, 4, {5, 6}, {4: 1}),
    ]


# --- Why the points are on a coset ---


def trap(field: PrimeField, packed: int, k: int, n: int) -> dict[str, object]:
    """Secrets at roots of unity of order 2^a, shares at those of order 3^b: both have 1.

    So the share of rank 0 is the first secret. This is what the protocols must not do.
    """
    bits = k.bit_length() - 1
    assert k == 2**bits
    omega, order = field.root(k), next(3**b for b in range(8) if 3**b >= n)
    nu = field.root(order)
    content = elements(field, "trap", k)
    f = field.newton([pow(omega, e, field.p) for e in range(k)], content)
    shares = [field.horner(f, pow(nu, j, field.p)) for j in range(n)]
    assert shares[0] == content[0]
    return {
        "field": field.name,
        "k": k,
        "n": n,
        "secrets": content[:packed],
        "random": content[packed:],
        "shares": shares,
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``ramp.json``."""
    return {
        "fields": [field_facts(field) for field in FIELDS],
        "points": [points_of(f, n) for f in FIELDS for n in (1, 2, 3, 4, 5, 8, 9, 16, 27, 33)],
        "joins": joins(),
        "sharings": sharings(),
        "samplings": samplings(),
        "columns": [*COLUMNS, "k, l and r, or refused"],
        "parameters": table(),
        "choices": choices(),
        "aggregations": aggregations(),
        "decodings": decodings(),
        "trap": [trap(field, 5, 8, 9) for field in (FIELD47, FIELD48)],
    }
