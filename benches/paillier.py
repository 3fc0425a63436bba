"""Paillier's scheme on one core, for each backend of this machine, and that of others in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benches import kernels
from benches.he.measure import CANDIDATES, HeCost, measure
from benches.he.schemes import TERMS
from benches.kernels import HeRate
from benches.rows import Row, number

PEERS = ("pypaillier-batched", "heu-batched", "phe-batched", "fate-batched", "pypaillier", "phe")
KEY_BITS = 2048
LANE_BITS = 22
"""Of values of 16 bits that 40 parties add up."""
NUMBERS = 16 * 100
"""Values that others are measured with: whole ciphertexts, as many as one process needs seconds for."""
TARGETS = {
    "ifma": {"encrypt": 1e6, "decrypt": 240e3, "add 10": 100e6},
    "portable": {"encrypt": 200e3, "decrypt": 40e3, "add 10": 20e6},
}
WORKS = ("encrypt", "encrypt, short exponents", "decrypt", "add 10", "add 2", "read")

Work = Callable[[Callable[[str], object]], object]


@dataclass
class Measured:
    """What was found so far: rates of ours, and costs of others that are installed."""

    rates: list[HeRate] = field(default_factory=list)
    peers: list[HeCost] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """Ours against targets and the best of the others."""
        return rows(self.rates, self.peers)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "rates": [asdict(rate) for rate in self.rates],
            "peers": [asdict(peer) for peer in self.peers],
            "absent": self.absent,
        }


def steps(found: Measured, quick: bool = False) -> Iterator[tuple[str, Work]]:
    """What is measured, in order: a name for the progress, and the work.

    Parameters
    ----------
    found
        What the work adds to. Work is called with what to call with news of it.
    quick
        Everything once: says that it works, not how fast it is.
    """
    yield "ours (builds a bench)", lambda _: found.rates.extend(kernels.paillier(quick))
    for name in PEERS:
        yield CANDIDATES[name].title, _adds_peer(found, name, 0.0 if quick else 1.5)


def _adds_peer(found: Measured, name: str, seconds: float) -> Work:
    def work(_on_text: Callable[[str], object]) -> None:
        cost = measure(name, NUMBERS, seconds)
        if cost is None:
            found.absent.append(CANDIDATES[name].title)
        else:
            found.peers.append(cost)

    return work


def peer_rates(peer: HeCost) -> dict[str, float]:
    """Values a second, by work."""
    return {
        "encrypt": peer.numbers / peer.encrypt_s,
        "decrypt": peer.numbers / peer.decrypt_s,
        "add 10": (TERMS - 1) * peer.numbers / peer.add_s,
    }


def rows(rates: list[HeRate], peers: list[HeCost]) -> list[Row]:
    """Ours against targets, and against the best of the others in each kind of work."""
    by_peer = [peer_rates(peer) for peer in peers]
    made = []
    for rate in sorted(rates, key=lambda one: (one.bits, one.backend, WORKS.index(one.work))):
        is_target = rate.bits == KEY_BITS
        target = TARGETS[rate.backend].get(rate.work) if is_target else None
        best = max((one[rate.work] for one in by_peer if rate.work in one), default=None)
        made.append(
            Row(
                f"{rate.work}, {rate.bits} bits, {rate.backend}",
                "k/s",
                rate.rate / 1e3,
                None if target is None else target / 1e3,
                better="more",
                peer=None if best is None or not is_target else best / 1e3,
            )
        )
    lanes = (KEY_BITS - 1) // LANE_BITS
    sizes = [peer.ciphertext_bytes / peer.numbers for peer in peers]
    made.append(
        Row(
            "bytes a value, 40 parties",
            "B",
            2 * KEY_BITS / 8 / lanes,
            5.51,
            peer=min(sizes, default=None),
            note=f"{lanes} values of {LANE_BITS} bits in a ciphertext; others have lanes of 20",
        )
    )
    return made


PEER_HEADER = ("others, 2048 bits, one core", "encrypt", "decrypt", "add ten", "bytes a value")


def peer_cells(peer: HeCost) -> list[str]:
    """The row of a table: thousands of values a second."""
    rates = peer_rates(peer)
    of = [f"{number(rates[work] / 1e3)} k/s" for work in ("encrypt", "decrypt", "add 10")]
    return [peer.scheme, *of, f"{number(peer.ciphertext_bytes / peer.numbers)} B"]
