"""FLASHE against other homomorphic encryption, against its targets, and against its own theorem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np

from benches.flashe_jobs import JobCost, beside_plain, sparse_jobs
from benches.he.measure import CANDIDATES, HeCost, measure
from benches.he.schemes import SUM_BITS, TERMS, VALUE_BITS
from benches.rounds import OnText
from benches.rows import Row
from blindsum import _native

OURS = "FLASHE, double masking"
NUMBERS = (16_384, 65_536, 262_144)
SWEEP_DIM, SWEEP_PARTIES = 262_144, (20, 40, 80)
RATES = tuple(tenth / 10 for tenth in range(10))
SETS = 50
"""Random sets of survivors whose masks are counted for each rate, as in the paper."""
TIMED = 5
"""Of those, so many are timed."""
MODELS = {"ResNet-20": 270_000, "GRU": 660_000, "CNN": 1_200_000}
"""Parameters of the paper's models."""
KEPT = 0.1
"""Fraction of the coordinates that sparsification keeps."""
SINGLE_PAILLIER = [CANDIDATES[name].title for name in ("phe", "pypaillier")]
SECONDS = 2.0
"""That each of our operations is repeated for."""

Work = Callable[[OnText], None]


@dataclass(frozen=True)
class SweepPoint:
    """Random sets of survivors of one size.

    Attributes
    ----------
    parties, survivors : int
        n and s.
    double_masks, single_masks : float
        Mean number of masks a lane that a survivor computes.
    double_expected, single_expected : float
        The same by Theorem 2.
    double_ms, single_ms : float
        Encryption and decryption: the median of the sets that were timed, one core.
    """

    parties: int
    survivors: int
    double_masks: float
    double_expected: float
    single_masks: float
    single_expected: float
    double_ms: float
    single_ms: float


@dataclass(frozen=True)
class Sparse:
    """A model of which every party keeps a tenth.

    Attributes
    ----------
    model : str
        The model.
    parameters, kept : int
        All of its coordinates, and those that a party sends.
    dense_bytes : int
        Packed words of all coordinates.
    mask_bytes : int
        Which coordinates: a bitmap or delta-coded, whichever is smaller.
    plain_bytes, flashe_bytes : int
        What a party sends, with words in the clear and encrypted; the mask is in both.
    paillier_bytes : int or None
        The same with one ciphertext for each word, where one was measured.
    sum_bytes : int
        The encrypted sum, which has the coordinates that anybody kept.
    double_masks, single_masks : float
        Masks of single words that a party computes, by the exact count.
    permute_ms, encrypt_ms, add_ms, decrypt_ms : float
        Permuting the mask, encryption, the server's addition, decryption, with the scheme of fewer masks.
    """

    model: str
    parameters: int
    kept: int
    dense_bytes: int
    mask_bytes: int
    plain_bytes: int
    flashe_bytes: int
    paillier_bytes: int | None
    sum_bytes: int
    double_masks: float
    single_masks: float
    permute_ms: float
    encrypt_ms: float
    add_ms: float
    decrypt_ms: float


@dataclass(frozen=True)
class Ahead:
    """Masks computed in idle time against masks computed on the spot: milliseconds, one core.

    Attributes
    ----------
    model : str
        The model.
    parameters : int
        Its coordinates.
    lost : int
        Parties of ten that drop out; what is computed ahead is for nobody to.
    encrypt_ms, encrypt_ahead_ms : float
        Encryption without and with.
    decrypt_ms, decrypt_ahead_ms : float
        Decryption without and with.
    """

    model: str
    parameters: int
    lost: int
    encrypt_ms: float
    encrypt_ahead_ms: float
    decrypt_ms: float
    decrypt_ahead_ms: float


@dataclass
class Measured:
    """What was found so far.

    Attributes
    ----------
    rows : list of Row
        Ours against the targets.
    costs : list of HeCost
        Table 2.
    absent : list of str
        Distributions that are not installed or do not load.
    sweep : list of SweepPoint
        Theorem 2 and Figure 12.
    ahead : list of Ahead
        Figure 13.
    sparse : list of Sparse
        Figure 11.
    jobs : list of JobCost
        Sparse rounds over processes and mutual TLS, after dense ones.
    """

    rows: list[Row] = field(default_factory=list)
    costs: list[HeCost] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    sweep: list[SweepPoint] = field(default_factory=list)
    ahead: list[Ahead] = field(default_factory=list)
    sparse: list[Sparse] = field(default_factory=list)
    jobs: list[JobCost] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "costs": [asdict(cost) for cost in self.costs],
            "absent": self.absent,
            "sweep": [asdict(point) for point in self.sweep],
            "ahead": [asdict(ahead) for ahead in self.ahead],
            "sparse": [asdict(line) for line in self.sparse],
            "jobs": [asdict(job) for job in self.jobs],
        }


def steps(found: Measured) -> Iterator[tuple[str, Work]]:
    """What is measured, in order: a name for the progress, and the work.

    Parameters
    ----------
    found
        What the work adds to.
    """
    yield "targets", lambda _: found.rows.extend(targets())
    yield "rounds of processes", lambda on_text: found.rows.extend(beside_plain(on_text))
    for numbers in NUMBERS:
        yield f"{numbers:,} numbers", _adds_costs(found, numbers)
    for parties in SWEEP_PARTIES:
        yield f"survivors of {parties}", _adds_sweep(found, parties)
    yield "masks computed ahead", lambda _: found.ahead.extend(masks_ahead())
    yield "sparse vectors", lambda _: found.sparse.extend(sparse(found.costs))
    yield "sparse jobs", lambda on_text: found.jobs.extend(sparse_jobs(on_text))


def targets() -> list[Row]:
    """Ten parties' vectors of 16-bit values in 20-bit words, one core."""
    dim = NUMBERS[-1]
    _, encrypt, add, decrypt = _native.flashe_times(dim, SUM_BITS, True, TERMS, list(range(TERMS)), SECONDS)
    title = f"{dim:,} values in {SUM_BITS}-bit words, one core"
    return [
        Row(f"{title}: encrypt, check and pack", "ms", encrypt, 0.25),
        Row(f"{title}: unpack, decrypt and check", "ms", decrypt, 0.20),
        Row(f"{title}: add {TERMS}", "ms", add, 0.15),
    ]


def ours(numbers: int) -> HeCost:
    """A line of Table 2."""
    everybody = list(range(TERMS))
    size, encrypt, add, decrypt = _native.flashe_times(numbers, SUM_BITS, True, TERMS, everybody, SECONDS)
    return HeCost(OURS, numbers, numbers, size, encrypt / 1000, decrypt / 1000, add / 1000)


def _adds_costs(found: Measured, numbers: int) -> Work:
    def work(on_text: OnText) -> None:
        found.costs.append(ours(numbers))
        for name, candidate in CANDIDATES.items():
            on_text(candidate.title)
            cost = measure(name, numbers)
            if cost is not None:
                found.costs.append(cost)
            elif candidate.needs not in found.absent:
                found.absent.append(candidate.needs)

    return work


def _adds_sweep(found: Measured, parties: int) -> Work:
    def work(on_text: OnText) -> None:
        for rate in RATES:
            on_text(f"{rate:.0%} lost")
            found.sweep.append(sweep_point(parties, rate, SWEEP_DIM))

    return work


def sweep_point(parties: int, rate: float, dim: int, sets: int = SETS, timed: int = TIMED) -> SweepPoint:
    """Count the masks of random survivors, and time some of them.

    Parameters
    ----------
    parties
        n.
    rate
        Fraction of them that drops out, in whole parties.
    dim
        Values of 16 bits; words hold the sum of all.
    sets, timed
        Random sets that are counted, and how many of them are timed as well.
    """
    survivors = parties - round(parties * rate)
    rng = np.random.default_rng([parties, survivors])
    drawn = [sorted(rng.permutation(parties)[:survivors].tolist()) for _ in range(sets)]
    masks = [_native.flashe_masks(parties, ranks) for ranks in drawn]
    double_expected, single_expected = _native.flashe_expected_masks(parties, survivors)
    bits = VALUE_BITS + (parties - 1).bit_length()

    def milliseconds(double: bool) -> float:
        runs = [
            _native.flashe_times(dim, bits, double, parties, ranks, SECONDS / 40) for ranks in drawn[:timed]
        ]
        return median(encrypt + decrypt for _, encrypt, _, decrypt in runs)

    return SweepPoint(
        parties=parties,
        survivors=survivors,
        double_masks=fmean(double for double, _ in masks),
        double_expected=double_expected,
        single_masks=fmean(single for _, single in masks),
        single_expected=single_expected,
        double_ms=milliseconds(True),
        single_ms=milliseconds(False),
    )


def masks_ahead() -> list[Ahead]:
    """Figure 13: ten parties, of which all or all but two arrive."""
    everybody = list(range(TERMS))
    found = []
    for model, parameters in MODELS.items():
        for lost in (0, 2):
            # Two gaps: three runs.
            survivors = [rank for rank in everybody if rank not in (3, 7)[:lost]]
            times = [
                _native.flashe_times(parameters, SUM_BITS, True, TERMS, survivors, SECONDS / 4, expected)
                for expected in (None, everybody)
            ]
            (_, encrypt, _, decrypt), (_, encrypt_ahead, _, decrypt_ahead) = times
            found.append(Ahead(model, parameters, lost, encrypt, encrypt_ahead, decrypt, decrypt_ahead))
    return found


def sparse(costs: list[HeCost]) -> list[Sparse]:
    """Figure 11: ten parties keep a tenth each, drawn at random, so that they overlap no more than by chance.

    Parameters
    ----------
    costs
        Table 2, of which Paillier's ciphertexts with one number each are taken.
    """
    single = next((cost for cost in costs if cost.scheme in SINGLE_PAILLIER), None)
    found = []
    for model, parameters in MODELS.items():
        kept = round(KEPT * parameters)
        rng = np.random.default_rng(parameters)
        sets = [np.sort(rng.permutation(parameters)[:kept]).tolist() for _ in range(TERMS)]
        (mask, ciphertext, total), masks, times = _native.flashe_sparse(
            parameters, SUM_BITS, sets, SECONDS / 4
        )
        paillier = None if single is None else mask + kept * single.ciphertext_bytes // single.numbers
        line = Sparse(
            model=model,
            parameters=parameters,
            kept=kept,
            dense_bytes=_packed(parameters),
            mask_bytes=mask,
            plain_bytes=mask + _packed(kept),
            flashe_bytes=mask + ciphertext,
            paillier_bytes=paillier,
            sum_bytes=total,
            double_masks=masks[0],
            single_masks=masks[1],
            permute_ms=times[0],
            encrypt_ms=times[1],
            add_ms=times[2],
            decrypt_ms=times[3],
        )
        found.append(line)
    return found


def _packed(words: int) -> int:
    return -(-words * SUM_BITS // 8)
