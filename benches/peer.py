"""The same work by the public functions of flwr, where it is installed (extra ``bench``).

Only its functions are called. Work that would take minutes is measured by a part of its calls and
multiplied; the note of the row says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLIP, LEVELS, MODULUS = 8.0, 1 << 22, 1 << 32
"""Defaults of the peer's workflow."""


def installed() -> str | None:
    """Version of the peer; ``None`` where it is not installed."""
    try:
        return version("flwr")
    except PackageNotFoundError:
        return None


def word_bytes() -> int:
    """Bytes of a masked value on the wire."""
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    return int(pseudo_rand_gen(bytes(32), MODULUS, [(1,)])[0].itemsize)


def client_ms(dim: int, neighbours: int, threshold: int) -> float:
    """One client: quantise, keys, shares for its neighbours, masks of all neighbours."""
    from flwr.common.secure_aggregation import ndarrays_arithmetic as arithmetic
    from flwr.common.secure_aggregation.crypto import shamir, symmetric_encryption
    from flwr.common.secure_aggregation.quantization import quantize
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, private_key_to_bytes

    update = np.random.default_rng(0).uniform(-1, 1, dim).astype(np.float32)
    others = [generate_key_pairs() for _ in range(neighbours)]

    def work() -> None:
        generate_key_pairs()
        secret, _ = generate_key_pairs()
        shamir.create_shares(os.urandom(32), threshold, neighbours)
        shamir.create_shares(private_key_to_bytes(secret), threshold, neighbours)
        keys = [symmetric_encryption.generate_shared_key(secret, public) for _, public in others]
        for key in keys:
            symmetric_encryption.encrypt(key, bytes(300))
        masked = quantize([update], CLIP, LEVELS)
        own = pseudo_rand_gen(os.urandom(32), MODULUS, [(dim,)])
        masked = arithmetic.parameters_addition(masked, own)
        for key in keys:
            mask = pseudo_rand_gen(key, MODULUS, [(dim,)])
            masked = arithmetic.parameters_addition(masked, mask)
        arithmetic.parameters_mod(masked, MODULUS)

    return _best(work, 3)


def server_ms(dim: int, parties: int, dropped: int, neighbours: int, threshold: int) -> float:
    """The server: sum, rebuild every secret, remove every mask. Masks and secrets are measured singly."""
    from flwr.common.secure_aggregation import ndarrays_arithmetic as arithmetic
    from flwr.common.secure_aggregation.crypto import shamir
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    alive = parties - dropped
    shapes = [(dim,)]
    total: list[NDArray[Any]] = [np.zeros(dim, dtype=np.int64)]
    mask = pseudo_rand_gen(os.urandom(32), MODULUS, shapes)
    add = _best(lambda: arithmetic.parameters_addition(total, mask), 3)
    expand = _best(lambda: pseudo_rand_gen(os.urandom(32), MODULUS, shapes), 3)
    seeds = shamir.create_shares(os.urandom(32), threshold, neighbours)[:threshold]
    combine = _best(lambda: shamir.combine_shares(seeds), 3)
    masks = alive + dropped * neighbours * alive / parties
    return alive * add + masks * (expand + add) + parties * combine


def share_ms(parties: int, threshold: int) -> float:
    """One client's share creation on the complete graph: its seed and its key."""
    from flwr.common.secure_aggregation.crypto import shamir
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, private_key_to_bytes

    key = private_key_to_bytes(generate_key_pairs()[0])

    def work() -> None:
        shamir.create_shares(os.urandom(32), threshold, parties)
        shamir.create_shares(key, threshold, parties)

    return _best(work, 1)


def _best(work: Callable[[], object], times: int) -> float:
    """Least milliseconds of several runs."""
    least = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begin)
    return 1000 * least
