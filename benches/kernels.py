"""Timings of kernels that Python cannot call: they come from a Rust bench."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from benches import ROOT
from blindsum.errors import BlindsumError

PACKAGE = "blindsum-bench"
"""Where the Rust benches are."""
NEEDS = "needs cargo"
"""Why there are no timings."""


@dataclass(frozen=True)
class Timing:
    """Least time of many runs of one kernel, one thread.

    Attributes
    ----------
    inputs, block, blocks : int
        Words of the vector, words of a block, blocks.
    values : int
        Words and random elements of a block.
    shares : int
        Shares of a block.
    work : str
        ``"radix-2"``, ``"radix-3"``, ``"transforms"`` (both ways) or ``"share"`` (words to packed columns,
        random elements included).
    backend : str
        Whose: ``"thesis"``, ``"tfhe-ntt"``, or one of ours.
    ms : float
        Milliseconds.
    """

    inputs: int
    block: int
    blocks: int
    values: int
    shares: int
    work: str
    backend: str
    ms: float


@dataclass(frozen=True)
class HeRate:
    """The best rate of Paillier's scheme in one kind of work, one thread.

    Attributes
    ----------
    bits : int
        Of the key.
    backend : str
        ``"ifma"`` or ``"portable"``.
    work : str
        ``"encrypt"``, ``"encrypt, short exponents"``, ``"add 2"``, ``"add 10"``, ``"read"`` or ``"decrypt"``.
    rate : float
        Values a second.
    us : float
        Microseconds a ciphertext.
    """

    bits: int
    backend: str
    work: str
    rate: float
    us: float


@dataclass(frozen=True)
class ProofTime:
    """Least time of one kind of work on a proof that all words of a vector are in range, one thread.

    Attributes
    ----------
    scheme : str
        Whose, and of Prio the field.
    dim, bits : int
        Words of the vector, bits of a word.
    work : str
        ``"client"``: all that the owner of the vector does. ``"verify"``: of ours what one of 100 verifiers
        does, the hash of its column included; of Prio's both aggregators together. Of ours also ``"deal"``
        and ``"hash"``, the parts of ``"client"``, and ``"judge"``: for one of 100 vectors, judging answers.
    ms : float
        Milliseconds.
    bytes : int
        What the work gives to others: shares, hashes, answers.
    """

    scheme: str
    dim: int
    bits: int
    work: str
    ms: float
    bytes: int


def available() -> bool:
    """Whether the Rust benches can be built."""
    return shutil.which("cargo") is not None


def sharing(quick: bool = False) -> list[Timing]:
    """Build and run the bench of packed sharing.

    Parameters
    ----------
    quick
        The smallest size, once, as ``cargo test`` builds it: says that it works, not how fast it is.

    Raises
    ------
    blindsum.BlindsumError
        There is no cargo, or the bench failed.
    """
    return [Timing(**found) for found in _run("pss", quick)]


def paillier(quick: bool = False) -> list[HeRate]:
    """Build and run the bench of Paillier's scheme.

    Parameters
    ----------
    quick
        Everything once, as ``cargo test`` builds it: says that it works, not how fast it is.

    Raises
    ------
    blindsum.BlindsumError
        There is no cargo, or the bench failed.
    """
    return [HeRate(**found) for found in _run("paillier", quick)]


def proofs(quick: bool = False) -> list[ProofTime]:
    """Build and run the bench of proofs that vectors are valid.

    Parameters
    ----------
    quick
        The shortest vector, once, as ``cargo test`` builds it: says that it works, not how fast it is.

    Raises
    ------
    blindsum.BlindsumError
        There is no cargo, or the bench failed.
    """
    return [ProofTime(**found) for found in _run("proofs", quick)]


def _run(bench: str, quick: bool) -> list[dict[str, Any]]:
    """What a Rust bench prints."""
    if not available():
        raise BlindsumError(f"timings of the bench {bench}: {NEEDS}")
    how = ["test", "--workspace"] if quick else ["bench", "-p", PACKAGE]
    command = ["cargo", *how, "--locked", "--quiet", "--bench", bench, "--", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BlindsumError(f"{' '.join(command)}: {' | '.join(done.stderr.splitlines()[-5:])}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def pick(timings: list[Timing], work: str, backend: str, inputs: int, block: int) -> float | None:
    """Milliseconds of one kernel; ``None`` where it was not measured, as backends differ by machine."""
    for one in timings:
        if (one.work, one.backend, one.inputs, one.block) == (work, backend, inputs, block):
            return one.ms
    return None
