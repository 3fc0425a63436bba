"""Clipping bounds found from the means of earlier rounds, with the error function of the C library.

The factor of a number of bits is where the derivative of the mean square error is 0. It stands in the file
rounded to a multiple of 2^-20; an assert sees to it that no reasonable way to compute it rounds another way.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from .encoding import double, single

UNIT = 2.0**20


def error(alpha: float, bits: int) -> float:
    """Mean square error of a standard Gaussian clipped at alpha and rounded to 2^bits levels (ACIQ)."""
    beyond = math.erfc(alpha / math.sqrt(2))
    density = math.exp(-alpha * alpha / 2) / math.sqrt(2 * math.pi)
    return (alpha * alpha + 1) * beyond - 2 * alpha * density + alpha * alpha / (3 * 4**bits)


def optimum(bits: int) -> float:
    """Where half the derivative, alpha * (erfc + 1 / (3 * 4^bits)) - 2 * density, changes its sign."""
    low, high = 0.5, 20.0
    while high - low > 1e-13:
        alpha = (low + high) / 2
        density = math.exp(-alpha * alpha / 2) / math.sqrt(2 * math.pi)
        rising = alpha * (math.erfc(alpha / math.sqrt(2)) + 1 / (3 * 4**bits)) > 2 * density
        low, high = (low, alpha) if rising else (alpha, high)
    return low


def factor(bits: int) -> float:
    """The optimum as the library has it."""
    alpha = optimum(bits)
    if bits <= 12:  # Beyond, the minimum is too flat to be seen in doubles.
        assert error(alpha, bits) < min(error(alpha * near, bits) for near in (0.999, 1.001))
    assert abs(alpha * UNIT % 1 - 0.5) > 1e-6
    return round(alpha * UNIT) / UNIT


def squares(values: list[float]) -> float:
    """16 partial sums of squares, coordinate i in the one numbered i mod 16, added in order."""
    stripes = [0.0] * 16
    for i, value in enumerate(values):
        stripes[i % 16] += value * value
    total = 0.0
    for stripe in stripes:
        total += stripe
    return total


@dataclass
class Tensor:
    """One tensor of a history."""

    length: int
    clip: float
    power: float = 0.0
    peak: float = 0.0
    reached: int = 0
    rest: int = 0
    rounding: str = "stochastic"

    def observe(self, bits: int, power: float, peak: float, roundings: float) -> None:
        """Takes the power and the peak of another round, in which so many roundings may be."""
        resting = self.rest
        self.take(bits, power, peak, roundings)
        if resting:
            self.rest = resting - 1

    def take(self, bits: int, power: float, peak: float, roundings: float) -> None:
        """What another round tells."""
        if peak == 0.0:
            if self.rounding == "nearest":
                # Nothing was above half a level: the bound halves.
                self.power, self.peak = self.power / 4, self.bound(bits) / 4
            return
        if 4 * peak >= 3 * self.bound(bits):
            # Somebody may have been cut off.
            step = 1 / (2**bits - 2) if self.rounding == "nearest" else 2 / (2**bits - 1)
            of_updates = peak - roundings * step * self.bound(bits)
            if self.bound(bits) < self.clip and of_updates >= 0.75 * self.bound(bits):
                self.reached += 1
                self.rest = 8 * 4 ** min(self.reached, 12)
                self.power = self.peak = 0.0
                return
            self.power = self.peak = 0.0
        else:
            self.power = power if self.power == 0.0 else (self.power + power) / 2
            self.peak = max(peak, self.peak / 2)

    def observe_dense(self, bits: int, values: list[float], survivors: int, scale: float) -> None:
        """Takes the mean of a dense round."""
        power = survivors * squares(values) / self.length
        self.observe(bits, power, scale * max(abs(value) for value in values), scale)

    def bound(self, bits: int) -> float:
        """The bound of the next round."""
        if self.peak == 0.0 or self.rest > 0:
            return self.clip
        wanted = max(self.clip / UNIT, factor(bits) * math.sqrt(self.power), 2 * self.peak)
        return min(self.clip, wanted)


def scale_of(survivors: int, total_weight: int, max_weight: int) -> float:
    """The largest that a party's coordinate may be, over that of the mean."""
    lightest = max(1, total_weight - (survivors - 1) * max_weight)
    return total_weight / lightest


def mean_of(label: str, tensor: Tensor, size: float) -> list[float]:
    """Coordinates of single precision around 0, of about this size."""
    digests = [hashlib.sha256(f"{label}/{i}".encode()).digest() for i in range(tensor.length)]
    return [single(size * (int.from_bytes(digest[:8], "little") / 2**63 - 1.0)) for digest in digests]


def state(tensors: list[Tensor]) -> str:
    """A history in bytes."""
    numbers = "".join(
        double(tensor.power)
        + double(tensor.peak)
        + (tensor.reached << 32 | tensor.rest).to_bytes(8, "big").hex()
        for tensor in tensors
    )
    return "02" + len(tensors).to_bytes(4, "big").hex() + numbers


def case(
    bits: int, tensors: list[Tensor], rounds: list[tuple[int, list[float]]], max_weight: int = 1
) -> dict[str, object]:
    """A history of dense rounds, each given by its survivors and the size of every tensor's mean."""
    start = [[tensor.length, double(tensor.clip)] for tensor in tensors]
    steps = []
    for number, (survivors, sizes) in enumerate(rounds):
        mean: list[float] = []
        total = max(survivors, survivors * max_weight - (max_weight - 1) * (number + 1))
        for i, (tensor, size) in enumerate(zip(tensors, sizes, strict=True)):
            values = mean_of(f"{bits}/{number}/{i}", tensor, size)
            tensor.observe_dense(bits, values, survivors, scale_of(survivors, total, max_weight))
            mean += values
        steps.append(
            {
                "mean": [double(value) for value in mean],
                "counts": [survivors, total],
                "state": state(tensors),
                "clips": [double(tensor.bound(bits)) for tensor in tensors],
            }
        )
    return {
        "bits": bits,
        "tensors": start,
        "rounding": tensors[0].rounding,
        "max_weight": max_weight,
        "minimum": 0,
        "divisor": 0,
        "rounds": steps,
    }


def sparse_case(
    bits: int, tensors: list[Tensor], minimum: int, sizes: list[float], divisor: int = 0
) -> dict[str, object]:
    """A history of sparse rounds, in which few parties sent coordinate d, or none.

    The divisor of their sum is their number, or this one.
    """
    start = [[tensor.length, double(tensor.clip)] for tensor in tensors]
    steps = []
    for number, size in enumerate(sizes):
        mean, counts = [], []
        for i, tensor in enumerate(tensors):
            label = f"sparse/{bits}/{number}/{i}"
            values = mean_of(label, tensor, size)
            # Nobody sends anything of the last tensor in the first round.
            silent = number == 0 and i == len(tensors) - 1
            of_tensor = [
                0 if silent else hashlib.sha256(f"{label}/{d}/count".encode()).digest()[0] % 5
                for d in range(tensor.length)
            ]
            sums = [
                ((divisor or count) * value, count)
                for value, count in zip(values, of_tensor, strict=True)
                if count >= minimum
            ]
            power = 0.0
            for total, count in sums:
                power += total * total / count
            if sums:
                most = float(max(count for _, count in sums))
                tensor.observe(bits, power / len(sums), max(abs(total) for total, _ in sums), most)
            mean += values
            counts += of_tensor
        steps.append(
            {
                "mean": [double(value) for value in mean],
                "counts": counts,
                "state": state(tensors),
                "clips": [double(tensor.bound(bits)) for tensor in tensors],
            }
        )
    return {
        "bits": bits,
        "tensors": start,
        "rounding": tensors[0].rounding,
        "max_weight": 1,
        "minimum": minimum,
        "divisor": divisor,
        "rounds": steps,
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``aciq.json``."""
    layers = [(37, 1.0), (1, 0.25), (18, 1e-3)]
    return {
        "factors": [double(factor(bits)) for bits in range(1, 33)],
        "histories": [
            case(2, [Tensor(40, 2.0)], [(3, [0.1]), (2, [0.2])]),
            case(
                8,
                [Tensor(*layer) for layer in layers],
                [(10, [1e-2, 0.1, 1e-4]), (7, [1e-3, 0.0, 1e-3]), (9, [1e-12, 1e-20, 1e-7])],
            ),
            case(16, [Tensor(21, 1e30), Tensor(5, 1e-30)], [(1000, [1e20, 1e-32])]),
            case(4, [Tensor(9, 1.0), Tensor(9, 1.0)], [(5, [1e-9, 1.0]), (5, [1e-9, 1.0])]),
            # Peaks fall by half, reach the bound, and begin anew; a mean of 0 changes nothing.
            case(
                16, [Tensor(9, 1.0)], [(3, [size]) for size in (1e-2, 1e-4, 0.0, 1e-4, 3e-2, 3e-2, 0.4, 0.4)]
            ),
            # A bound that was reached: the job's for 32 rounds, and for 128 the next time.
            case(
                16,
                [Tensor(3, 1.0), Tensor(2, 1.0)],
                [
                    (4, [0.2 if i in (1, 34) else 1e-3, 0.2 if i == 9 else 0.9 if i == 12 else 2e-3])
                    for i in range(40)
                ],
            ),
            case(16, [Tensor(9, 1.0)], [(3, [1e-3]), (3, [1e-3]), (2, [1e-3])], max_weight=7),
            case(
                4,
                [Tensor(9, 1.0, rounding="nearest"), Tensor(3, 0.5, rounding="nearest")],
                [(3, sizes) for sizes in ([0.0, 0.1], [0.0, 0.0], [0.01, 0.0], [0.02, 0.3], [0.0, 0.1])],
            ),
            sparse_case(6, [Tensor(*layer) for layer in layers], 2, [1e-2, 2e-3, 0.2, 0.2]),
            sparse_case(16, [Tensor(30, 0.5)], 1, [1e-3, 1e-3]),
            sparse_case(16, [Tensor(30, 0.5)], 2, [1e-3, 1e-4, 1e-3], divisor=4),
        ],
    }
