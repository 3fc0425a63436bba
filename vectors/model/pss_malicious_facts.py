"""Facts about proofs: largest norms, rows, masks, columns, answers, and what answers say about who lies."""

from __future__ import annotations

from math import nextafter
from typing import Any

from .job import Job
from .play import pick
from .pss_malicious_proof import FIELD, TESTS, P, Statement, largest_norm
from .pss_malicious_server import judge
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

    def job(bits: int, clip: float, norm: float, dim: int) -> Job:
        encoding: dict[str, Any] = {"bits": bits, "clip": clip, "max_norm": norm, "rounding": "nearest"}
        return Job(protocol="plain", parties=3, dim=dim, **encoding)

    return [{"spec": said(job(*of)), "most": str(largest_norm(*of))} for of in NORMS]


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
    ]


def words_of(statement: Statement, label: str) -> list[int]:
    """Words that are not too long."""
    words = [pick(f"{label}/{i}")[0] % 2**statement.bits for i in range(statement.words)]
    if statement.most is None:
        return words
    words = [statement.half] * statement.words
    for step in range(1000):
        draw = pick(f"{label}/{step}")
        longer, at = list(words), draw[0] % statement.words
        longer[at] += 1 if draw[1] % 2 else -1
        total = sum(statement.square(word) for word in longer)
        if total <= statement.most and 0 <= longer[at] < 2**statement.bits:
            words = longer
    return words


def proof(statement: Statement) -> dict[str, Any]:
    """Everything that follows from words, seeds and a challenge."""
    label = f"proof/{statement}"
    rows, masks, challenge = (pick(f"{label}/{name}") for name in ("rows", "masks", "challenge"))
    words = words_of(statement, label)
    content = statement.content(words)
    columns = statement.columns(content, rows, masks)
    factors = [statement.challenge(challenge, *mask) for mask in statement.masks]
    return {
        "bits": statement.bits,
        "most": None if statement.most is None else str(statement.most),
        "n": statement.n,
        "k": statement.k,
        "l": statement.l,
        "words": words,
        "weights": [] if statement.most is None else statement.weights(),
        "content": content,
        "rows_seed": rows.hex(),
        "masks_seed": masks.hex(),
        "masks": [FIELD.pack(mask).hex() for mask in statement.all_masks(masks)],
        "columns": [FIELD.pack(column).hex() for column in columns],
        "challenge": challenge.hex(),
        "factors": [FIELD.pack(of_test).hex() for of_test in factors],
        "answers": [
            FIELD.pack(statement.answers(column, rank, challenge)).hex()
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
) -> dict[str, Any]:
    """A verdict on a vector and answers of which some are other ones (None: the other bit)."""
    label = f"judging/{statement}/{content}/{wrong}"
    rows = statement.content(words_of(statement, label))
    for (row, element), more in content.items():
        true = rows[row][element]
        rows[row][element] = 1 - true if more is None else (true + more) % P
    columns = statement.columns(rows, pick(f"{label}/rows"), pick(f"{label}/masks"))
    challenge = pick(f"{label}/challenge")
    answers = {
        rank: statement.answers(column, rank, challenge)
        for rank, column in enumerate(columns)
        if rank not in without | unusable
    }
    for (rank, number), more in wrong.items():
        answers[rank][number] = (answers[rank][number] + more) % P
    verdict = judge(statement, corrupt, answers, unusable)
    return {
        "bits": statement.bits,
        "words": statement.words,
        "most": None if statement.most is None else str(statement.most),
        "n": statement.n,
        "k": statement.k,
        "l": statement.l,
        "corrupt": corrupt,
        "answers": {str(rank): FIELD.pack(answer).hex() for rank, answer in answers.items()},
        "unusable": sorted(unusable),
        "fault": verdict.fault,
        "accusers": sorted(verdict.accusers),
    }


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
    ]
    assert {verdict["fault"] for verdict in found} == {"", "wrong-share", *TESTS}
    return found
