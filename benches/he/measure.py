"""Costs of a scheme, measured by a process of its own on one core.

    python -m benches.he.measure SCHEME NUMBERS SECONDS

What would take minutes is measured on its first ciphertexts and multiplied, and says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benches import ROOT
from benches.he import schemes
from blindsum.errors import BlindsumError

CIPHERTEXTS = 16
"""That are measured at most."""


@dataclass(frozen=True)
class HeCost:
    """What a vector costs.

    Attributes
    ----------
    scheme : str
        The scheme, as people call it.
    numbers : int
        Length of the vector.
    measured : int
        Numbers that were measured; all else is in proportion to ciphertexts.
    ciphertext_bytes : int
        Of the encrypted vector.
    encrypt_s, decrypt_s, add_s : float
        Seconds of one core to encrypt a vector, to decrypt a sum and to add ten vectors: least of the runs.
    """

    scheme: str
    numbers: int
    measured: int
    ciphertext_bytes: int
    encrypt_s: float
    decrypt_s: float
    add_s: float

    @property
    def extrapolated(self) -> bool:
        """Whether times and bytes are those of a part, multiplied."""
        return self.measured < self.numbers


@dataclass(frozen=True)
class Candidate:
    """A scheme that may be measured: its title, the distribution it needs, and how it is made."""

    title: str
    needs: str
    make: Callable[[], schemes.Scheme]


CANDIDATES = {
    "numpy": Candidate("FLASHE in numpy, AES of OpenSSL", "cryptography", schemes.NumpyAes),
    "phe": Candidate("Paillier, phe", "phe", lambda: schemes.PythonPaillier(False)),
    "phe-batched": Candidate("Paillier, phe, batched", "phe", lambda: schemes.PythonPaillier(True)),
    "pypaillier": Candidate("Paillier, pypaillier", "pypaillier", lambda: schemes.RustPaillier(False)),
    "pypaillier-batched": Candidate(
        "Paillier, pypaillier, batched", "pypaillier", lambda: schemes.RustPaillier(True)
    ),
    "heu-batched": Candidate("Paillier, HEU, batched", "heu", schemes.Heu),
    "fate-batched": Candidate("Paillier, FATE, batched", "fate_utils", schemes.FateUtils),
    "openfhe": Candidate("BFV, OpenFHE", "openfhe", lambda: schemes.OpenFhe(False)),
    "openfhe-batched": Candidate("BFV, OpenFHE, batched", "openfhe", lambda: schemes.OpenFhe(True)),
    "bfv": Candidate("BFV, TenSEAL, N = 4096", "tenseal", lambda: schemes.Bfv(False)),
    "bfv-batched": Candidate("BFV, TenSEAL, N = 4096, batched", "tenseal", lambda: schemes.Bfv(True)),
    "bfv-paper": Candidate(
        "BFV, TenSEAL, N = 8192 (the paper's), batched",
        "tenseal",
        lambda: schemes.Bfv(True, 8192, 1964769281),
    ),
    "ckks": Candidate("CKKS, TenSEAL, N = 8192 (the paper's)", "tenseal", lambda: schemes.Ckks(False)),
    "ckks-batched": Candidate(
        "CKKS, TenSEAL, N = 8192 (the paper's), batched", "tenseal", lambda: schemes.Ckks(True)
    ),
    "ckks-small": Candidate(
        "CKKS, TenSEAL, N = 4096, batched", "tenseal", lambda: schemes.Ckks(True, 4096, (50, 50), 35)
    ),
}


def measure(scheme: str, numbers: int, seconds: float = 1.5) -> HeCost | None:
    """Measure in a process of its own; ``None`` where what the scheme needs does not load.

    Parameters
    ----------
    scheme
        A name of ``CANDIDATES``.
    numbers
        Length of the vector.
    seconds
        To go on for with each operation, which runs once at least.

    Raises
    ------
    blindsum.BlindsumError
        A sum was wrong, or the process failed.
    """
    command = [sys.executable, "-m", __name__, scheme, str(numbers), str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BlindsumError(f"{' '.join(command[1:])}: {' | '.join(done.stderr.splitlines()[-3:])}")
    # Libraries may log what they do.
    found = json.loads(done.stdout.splitlines()[-1])
    return None if found is None else HeCost(**found)


def measure_here(scheme: str, numbers: int, seconds: float) -> HeCost | None:
    """The same in this process."""
    candidate = CANDIDATES[scheme]
    try:
        made = candidate.make()
    except ImportError:
        return None
    per = min(made.per_ciphertext, numbers)
    ciphertexts = -(-numbers // per)
    part = min(numbers, CIPHERTEXTS * per)
    factor = ciphertexts / -(-part // per)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1 << schemes.VALUE_BITS, (schemes.TERMS, part))
    encrypted = [made.encrypt(vector, rank) for rank, vector in enumerate(values)]
    total = made.add(encrypted)
    error = np.abs(made.decrypt(total, part) - values.sum(axis=0)).max()
    # CKKS errs; by less than what quantisation does it may.
    if error >= schemes.TERMS / 2:
        raise ArithmeticError(f"{candidate.title}: a sum is wrong by {error}")
    return HeCost(
        scheme=candidate.title,
        numbers=numbers,
        measured=part,
        ciphertext_bytes=round(factor * sum(made.size(one) for one in encrypted[0])),
        encrypt_s=factor * _least(lambda: made.encrypt(values[0], 0), seconds),
        decrypt_s=factor * _least(lambda: made.decrypt(total, part), seconds),
        add_s=factor * _least(lambda: made.add(encrypted), seconds),
    )


def _least(work: Callable[[], Any], seconds: float) -> float:
    """Least seconds that this process computed, waiting for the core not included."""
    until = time.perf_counter() + seconds
    least = float("inf")
    while least == float("inf") or time.perf_counter() < until:
        begin = time.process_time()
        work()
        least = min(least, time.process_time() - begin)
    return least


def main() -> None:
    """Measure what the command line names, on one core."""
    scheme, numbers, seconds = sys.argv[1:]
    # Before a library is loaded, so that all of its threads stay there.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found = measure_here(scheme, int(numbers), float(seconds))
    print(json.dumps(None if found is None else asdict(found)))


if __name__ == "__main__":
    main()
