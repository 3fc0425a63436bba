"""How an attacker reads the vector of a party out of what a server got from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blindsum.attack.inversion import Floats
from blindsum.options import Quantised
from blindsum.spec import JobSpec

FRAME = 34
"""Bytes before the body of a message: version, stage, context."""

WORDS_FIRST = ("plain", "secagg", "secagg+", "flashe")
"""Protocols in which the body of the largest message of a party begins with its words, masked or not."""


def read(spec: JobSpec, messages: list[bytes]) -> Floats | None:
    """The numbers that the attacker takes for the update of a party, shape ``(dim,)``.

    Words that a message has in the clear, masked or not, are read on the grid of the job, as the sum is. In
    ``mpc3`` the message ends with them: the explicit component, for the two servers that get it. In the other
    protocols everything is sealed for other receivers, and its bytes are read like words.

    Parameters
    ----------
    spec
        The job, with ``quantised`` values of one weight.
    messages
        The messages of the round that a server got from the party, with their frames.

    Returns
    -------
    numpy.ndarray or None
        ``None`` where fewer bytes came than a vector has: only seeds, drawn before the update.
    """
    bodies = [message[FRAME:] for message in messages]
    largest = max(bodies, key=len, default=b"")
    # A party of an all-reduce sends its vector in parts.
    whole = largest if len(largest) >= spec.packed_bytes else b"".join(bodies)
    if len(whole) < spec.packed_bytes:
        return None
    is_first = spec.protocol.name in WORDS_FIRST
    words = whole[: spec.packed_bytes] if is_first else whole[-spec.packed_bytes :]
    return numbers(spec, unpack(words, spec.word_bits, spec.dim))


def unpack(packed: bytes, bits: int, count: int) -> NDArray[np.uint64]:
    """The first words of a packed vector, of up to 63 bits each."""
    single = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[: bits * count]
    weights = np.left_shift(np.uint64(1), np.arange(bits, dtype=np.uint64))
    words: NDArray[np.uint64] = (single.reshape(count, bits) * weights).sum(axis=1, dtype=np.uint64)
    return words


def numbers(spec: JobSpec, words: NDArray[np.uint64]) -> Floats:
    """Words as numbers, on the grid of the job for the sum of one party.

    The words of one update are below ``2**bits``; masked ones are not, and have numbers beyond the bound.
    """
    encoding = spec.encoding
    assert isinstance(encoding, Quantised)
    bits, clip = int(encoding.bits), float(encoding.clip)
    top = 2**bits - 1
    found: Floats = (2 * words.astype(np.float64) - top) * (clip / top)
    return found


def random_words(spec: JobSpec, rng: np.random.Generator) -> Floats:
    """What an attacker reads where every word is random, as no party has sent it."""
    return numbers(spec, rng.integers(0, 2**spec.word_bits, spec.dim, dtype=np.uint64))
