"""Facts about proofs: largest norms and projections, rows, masks, columns, answers, and who lies by them."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, nextafter
from typing import Any

from .job import Job
from .play import pick
from .pss_malicious_liars import nearest, wrapping
from .pss_malicious_projections import fits, largest_projection
from .pss_malicious_proof import FIELD, L2, TESTS, P, Statement, largest_norm
from .pss_malicious_server import judge
from .ramp_sharing import Rows
from .said import said

# bits, clip, max_norm, coordinates. With 2 bits and a clip of 1.5 a step is 1.
NORMS = [
    (2, 1.5, 2.0, 4),
    (2, 1.5, nextafter(2.0, 0.0), 4),
    (2, 1.5, nextafter(2.0, 3.0), 4),
    (2, 1.5, 1.5, 1),
    (4, 1.0, 1.0, 3),
    (4, 0.1 + 0.2, 0.3, 2),
    (8, 0.1, 1.0, 100),
    (10, 1.0, 2.0, 100),
    (14, 1.0, 30.0, 1000),
    (16, 1.0, 1e-3, 7),
    (16, 0.7, 10.0, 131072),
    (16, 1e-30, 2e-30, 5),
    (16, 1e30, 2e30, 5),
    (20, 3.0, 1.0, 10),
]


def largest_norms() -> list[dict[str, object]]:
    """T of some jobs, whose field would be too small for some of them."""

    def job(bits: int, clip: float, norm: float, dim: int, rounding: str) -> Job:
        encoding: dict[str, Any] = {"bits": bits, "clip": clip, "max_norm": norm, "rounding": rounding}
        return Job(protocol="plain", parties=3, dim=dim, **encoding)

    found = []
    for of in NORMS:
        bits, clip, norm, dim = of
        for rounding, last, part in (("nearest", 2**bits - 2, 0.5), ("stochastic", 2**bits - 1, 1.0)):
            # A job is refused where rounding alone may reach its norm.
            if norm > 1.001 * part * dim**0.5 * 2 * clip / last:
                found.append({"spec": said(job(*of, rounding)), "most": str(largest_norm(*of, rounding))})
    return found


# T and m. Where 34 (2T + m) is a square, Y is its root, and larger for one number more.
EXACT = [(34 * j**2 - m) // 2 for j, m in ((1, 2), (2, 4), (1000, 12), (10**6, 10**6))]
PROJECTED = [
    *((most, m + more) for most, m in zip(EXACT, (2, 4, 12, 10**6), strict=True) for more in (-1, 0, 1)),
    (1, 1),
    (1, 4),
    (9, 9),
    (2**30, 131072),
    # The last of 148 Y^2 < p, and the first that is not.
    *((most, 1) for most in (13984195935, 13984195936, 13984195937, 2**46, P - 1)),
    # The same for (2m + 1) Y < p.
    *((1, m) for m in (526127575, 526127576, 526127577, 2**31)),
]


def largest_projections() -> list[dict[str, object]]:
    """Y for T and m, and whether the field is large enough for it."""
    return [
        {"most": str(most), "numbers": m, "largest": str(largest_projection(most, m)), "fits": fits(most, m)}
        for most, m in PROJECTED
    ]


def statements() -> list[Statement]:
    """Norms whose bits are one, some, and a whole number of rows; blocks that are full and not."""
    return [
        Statement(4, 5, None, 7, 3, 2),
        Statement(1, 1, None, 4, 2, 1),
        Statement(3, 4, 12, 7, 3, 2),
        Statement(5, 7, 1000, 11, 5, 3),
        Statement(2, 2, 1, 5, 2, 1),
        Statement(6, 5, 2**9 - 1, 16, 6, 4),
        Statement(6, 3, 2**9, 5, 2, 1),
        # More than 256 rows: sharing draws tile by tile, challenges do not.
        Statement(20, 13, None, 3, 2, 1),
        # 2Y is a power of 2, so that the last of its bits counts 1; more than 256 other rows.
        Statement(3, 3, 2, 5, 2, 1, L2),
        # Bits of projections are a whole number of rows, and not.
        Statement(4, 5, 10, 7, 3, 2, L2),
        Statement(2, 4, 1, 7, 4, 3, L2),
        Statement(16, 10, 10**9, 9, 5, 4, L2),
        # Rounded to nearest: the last bit of a word counts one less.
        Statement(4, 5, None, 7, 3, 2, nearest=True),
        Statement(3, 4, 12, 7, 3, 2, nearest=True),
        Statement(2, 2, 1, 5, 2, 1, nearest=True),
        Statement(3, 3, 2, 5, 2, 1, L2, nearest=True),
    ]


def words_of(statement: Statement, label: str) -> list[int]:
    """Words that are not too long."""
    words = [pick(f"{label}/{i}")[0] % (statement.last + 1) for i in range(statement.words)]
    if statement.most is None:
        return words
    words = [statement.half] * statement.words
    if statement.bound == L2:
        # Half as long as they may be, or nearly; what follows makes small ones longer.
        most = isqrt(statement.most // (4 * statement.words))
        draws = (int.from_bytes(pick(f"{label}/long/{i}")[:4], "little") for i in range(statement.words))
        words = [statement.half - most + draw % (2 * most + 1) for draw in draws]
    for step in range(1000):
        draw = pick(f"{label}/{step}")
        longer, at = list(words), draw[0] % statement.words
        longer[at] += 1 if draw[1] % 2 else -1
        total = sum(statement.square(word) for word in longer)
        if total <= statement.most and 0 <= longer[at] <= statement.last:
            words = longer
    return words


def said_of(statement: Statement) -> dict[str, Any]:
    """A statement, and how it is shared."""
    return {
        "bound": statement.bound,
        "bits": statement.bits,
        "rounding": "nearest" if statement.nearest else "stochastic",
        "most": None if statement.most is None else str(statement.most),
        "largest": str(statement.largest) if statement.bound == L2 else None,
        "n": statement.n,
        "k": statement.k,
        "l": statement.l,
    }


def columns_of(statement: Statement, rows: Rows, label: str) -> Rows:
    """The column of every rank, of these rows; seeds follow from a label."""
    words, others, masks = (pick(f"{label}/{name}") for name in ("words", "rows", "masks"))
    blocks = statement.blocks
    return statement.columns(statement.share(rows[:blocks], words), rows[blocks:], others, masks)


def proof(statement: Statement) -> dict[str, Any]:
    """Everything that follows from words, seeds and a challenge."""
    label = f"proof/{statement}"
    names = "words", "rows", "masks", "challenge", "projections"
    words_seed, rows, masks, challenge, seed = (pick(f"{label}/{name}") for name in names)
    words = words_of(statement, label)
    content = statement.content(words, seed)
    columns = columns_of(statement, content, label)
    factors = [statement.challenge(challenge, *mask) for mask in statement.masks]
    projected = statement.bound == L2
    return said_of(statement) | {
        "words": words,
        "weights": [] if statement.most is None else statement.weights(),
        "projections_seed": seed.hex() if projected else "",
        "projections": statement.projections(words, seed),
        "projection_weights": statement.projection_weights() if projected else [],
        "content": content,
        "words_seed": words_seed.hex(),
        "rows_seed": rows.hex(),
        "masks_seed": masks.hex(),
        "masks": [FIELD.pack(mask).hex() for mask in statement.all_masks(masks)],
        "columns": [FIELD.pack(column).hex() for column in columns],
        "challenge": challenge.hex(),
        "factors": [FIELD.pack(of_test).hex() for of_test in factors],
        "answers": [
            FIELD.pack(statement.answers(column, rank, challenge, seed)).hex()
            for rank, column in enumerate(columns)
        ],
    }


def proofs() -> list[dict[str, Any]]:
    """Proofs of all statements."""
    return [proof(statement) for statement in statements()]


Change = tuple[int, int]
"""Row and element of the content, and a rank and number of an answer."""


def judging(
    statement: Statement,
    corrupt: int,
    content: dict[Change, int | None],
    wrong: dict[Change, int],
    without: set[int],
    unusable: set[int],
    lie: Callable[[Statement, list[int], bytes], Rows] = Statement.content,
) -> dict[str, Any]:
    """A verdict on a vector and answers of which some are other ones (None: the other bit)."""
    label = f"judging/{statement}/{content}/{wrong}"
    seed = pick(f"{label}/projections")
    rows = lie(statement, words_of(statement, label), seed)
    for (row, element), more in content.items():
        true = rows[row][element]
        rows[row][element] = 1 - true if more is None else (true + more) % P
    columns = columns_of(statement, rows, label)
    challenge = pick(f"{label}/challenge")
    answers = {
        rank: statement.answers(column, rank, challenge, seed)
        for rank, column in enumerate(columns)
        if rank not in without | unusable
    }
    for (rank, number), more in wrong.items():
        answers[rank][number] = (answers[rank][number] + more) % P
    verdict = judge(statement, corrupt, answers, unusable)
    return said_of(statement) | {
        "words": statement.words,
        "corrupt": corrupt,
        "answers": {str(rank): FIELD.pack(answer).hex() for rank, answer in answers.items()},
        "unusable": sorted(unusable),
        "fault": verdict.fault,
        "accusers": sorted(verdict.accusers),
    }


def wrapped(statement: Statement, _: list[int], seed: bytes) -> Rows:
    """Rows of a vector whose squares add up to a little more than p."""
    words = wrapping(statement)
    projected = nearest(statement, words, seed)
    return statement.word_rows(words) + statement.other_rows(words, projected)


def mirrored(statement: Statement, words: list[int], seed: bytes) -> Rows:
    """Rows with another word that has the same square, and the bits of the projections of the right one."""
    other = [2 * statement.half - 1 - words[0], *words[1:]]
    return statement.word_rows(other) + statement.other_rows(words, statement.projections(words, seed))


def projected_judgings() -> list[dict[str, Any]]:
    """The same with projections. Rows: words 0 to 2, squares 3 to 5, bits of the norm 6 and 7."""
    statement = Statement(3, 6, 12, 8, 3, 2, L2)
    first, last = statement.rows - statement.projection_rows, statement.rows - 1
    none: set[int] = set()
    found = [
        judging(statement, 1, {}, {}, none, none),
        judging(statement, 1, {}, {}, {0}, {5}),
        judging(statement, 1, {}, {(4, number): 1 + number for number in range(12)}, {3}, none),
        judging(statement, 1, {}, {(2, 4): 1}, none, none),
        judging(statement, 1, {}, {(2, 11): P - 1}, none, none),
        judging(statement, 1, {}, {(2, 5): 1, (6, 10): 1}, none, none),
        judging(statement, 1, {}, {(2, 4): 1, (6, 4): 1}, none, none),
        judging(statement, 1, {}, {}, none, none, mirrored),
        judging(statement, 1, {}, {}, none, none, wrapped),
        judging(statement, 1, {}, {(7, 0): 3}, none, none, wrapped),
        judging(statement, 1, {(0, 0): 5}, {}, none, none),
        judging(statement, 1, {(3, 0): 1}, {}, none, none),
        judging(statement, 1, {(6, 0): 2}, {}, none, none),
        judging(statement, 1, {(6, 0): None}, {}, none, none),
        judging(statement, 1, {(first, 0): 2}, {}, none, none),
        judging(statement, 1, {(first, 0): None}, {}, none, none),
        judging(statement, 1, {(last, 1): P - 2}, {}, none, none),
        judging(statement, 1, {(last, 1): None}, {}, none, none),
    ]
    expected = ["", "", "", "", "", "wrong-share", "projection-bit", "projection", "projection", "projection"]
    expected += ["quadratic", "quadratic", "norm-bit", "norm"]
    assert [verdict["fault"] for verdict in found] == expected + ["projection-bit", "projection"] * 2
    return found


def judgings() -> list[dict[str, Any]]:
    """Vectors that break each test, and as many wrong answers as can be corrected, and one more."""
    plain, norm = Statement(3, 4, None, 8, 3, 2), Statement(3, 3, 12, 8, 3, 2)
    wide = Statement(2, 2, None, 9, 3, 1)
    last = norm.rows - 1
    none: set[int] = set()
    found = [
        judging(plain, 1, {}, {}, none, none),
        judging(norm, 1, {}, {}, none, none),
        judging(norm, 1, {}, {}, {3}, none),
        judging(norm, 1, {}, {(4, 0): 1}, none, none),
        judging(norm, 1, {}, {(4, number): 1 + number for number in range(12)}, {3}, none),
        judging(norm, 1, {}, {(0, 11): P - 1}, none, none),
        judging(norm, 1, {}, {}, none, {5}),
        judging(norm, 1, {}, {}, {0}, {5}),
        judging(norm, 1, {}, {(2, 1): 1}, none, {5}),
        judging(norm, 1, {}, {(2, 1): 1, (6, 7): 1}, none, none),
        judging(norm, 1, {}, {(2, 1): 1, (6, 1): 1}, none, none),
        judging(wide, 2, {}, {(2, 1): 1, (6, 1): 1}, none, none),
        judging(wide, 2, {}, {(2, 1): 1}, none, {0}),
        judging(wide, 2, {}, {(2, 0): 1, (6, 2): 1}, none, {0}),
        # Rows: words 0 and 1, squares 2 and 3, bits from 4 on.
        judging(norm, 1, {(4, 0): 1}, {}, none, none),
        judging(norm, 1, {(0, 1): 1}, {}, none, none),
        judging(norm, 1, {(0, 0): 1, (1, 0): P - 1}, {}, none, none),
        judging(norm, 1, {(0, 0): 1, (0, 1): P - 1}, {}, none, none),
        judging(norm, 1, {(2, 0): 1}, {}, none, none),
        judging(norm, 1, {(3, 1): 2}, {(0, 0): 5}, {7}, none),
        judging(norm, 1, {(last, 0): 1}, {}, none, none),
        judging(norm, 1, {(last, 0): None}, {}, none, none),
        judging(plain, 1, {(2, 0): 3}, {(7, 3): 1}, none, none),
        judging(plain, 1, {}, {(1, 0): 1, (2, 0): 5, (4, 0): 9}, none, none),
        *projected_judgings(),
    ]
    assert {verdict["fault"] for verdict in found} == {"", "wrong-share", *TESTS}
    return found
