"""Five regions, what lies between them and what they charge: the setting of FLASHE §6, as a model.

A message over a link takes half a round trip and its bytes at the link's rate; rounds are synchronous. The
simulator's network knows one latency for everybody and no rates, hence this.

The paper prints its bandwidths as a picture only; its text says that the slowest link has 40 Mbit/s and
that links between regions have a 120th of a local one's bandwidth on average. Here a link to the server's
region has a bandwidth in inverse proportion to its round trip, as one connection with a fixed window has,
and the slowest one has 40 Mbit/s. With round trips of the order that is publicly reported between these
regions, the average comes to a 120th of 10 Gbit/s, so that both sentences hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SLOWEST_MBIT = 40.0
LOCAL_MBIT = 10_000.0
SERVER_HOUR = 1.008
"""Dollars for an r5.4xlarge in Ohio."""


@dataclass(frozen=True)
class Region:
    """Where two clients are.

    Attributes
    ----------
    name : str
        The region; the server is in Ohio.
    round_trip : float
        Seconds to the server and back. Assumed.
    hour : float
        Dollars for a c5.4xlarge, on demand.
    gigabyte : float
        Dollars for what leaves the region.
    """

    name: str
    round_trip: float
    hour: float
    gigabyte: float


CLIENTS = 2
"""In each region."""
REGIONS = (
    Region("Ohio", 0.0005, 0.68, 0.02),
    Region("N. California", 0.050, 0.848, 0.02),
    Region("London", 0.085, 0.808, 0.02),
    Region("Tokyo", 0.150, 0.856, 0.09),
    Region("Sydney", 0.195, 0.888, 0.098),
)
HOME = REGIONS[0]
REMOTE = REGIONS[1:]


def mbit(region: Region) -> float:
    """Bandwidth between a client there and the server, each way."""
    if region == HOME:
        return LOCAL_MBIT
    return SLOWEST_MBIT * max(other.round_trip for other in REMOTE) / region.round_trip


@dataclass(frozen=True)
class Round:
    """What one aggregation takes.

    Attributes
    ----------
    encrypt_s, add_s, decrypt_s : float
        Seconds of a client, of the server for all clients, of a client.
    up_bytes, down_bytes : float
        Of one client.
    """

    encrypt_s: float
    add_s: float
    decrypt_s: float
    up_bytes: float
    down_bytes: float

    @property
    def bytes(self) -> float:
        """Both ways."""
        return self.up_bytes + self.down_bytes


def message_s(region: Region, size: float) -> float:
    """Seconds that a message takes between a client there and the server."""
    return region.round_trip / 2 + 8 * size / (1e6 * mbit(region))


def iteration_s(aggregation: Round, training_s: float) -> float:
    """Seconds from the start of training until the last client has the sum in the clear."""
    uploaded = max(message_s(region, aggregation.up_bytes) for region in REGIONS)
    returned = max(message_s(region, aggregation.down_bytes) for region in REGIONS)
    work = aggregation.encrypt_s + aggregation.add_s + aggregation.decrypt_s
    return training_s + work + uploaded + returned


def dollars(hours: float, gigabytes: float) -> float:
    """Price of ten clients and the server, running all the time.

    Parameters
    ----------
    hours
        Of every machine.
    gigabytes
        That a client sends and is sent, half of it each; the server sends its half to all.
    """
    machines = SERVER_HOUR + sum(CLIENTS * region.hour for region in REGIONS)
    from_clients = sum(CLIENTS * region.gigabyte for region in REGIONS)
    from_server = CLIENTS * len(REGIONS) * HOME.gigabyte
    return hours * machines + gigabytes / 2 * (from_clients + from_server)


@dataclass(frozen=True)
class Printed:
    """A line of the paper's Table 4: hours, gigabytes of a client, dollars."""

    mode: str
    hours: float
    gigabytes: float
    dollars: float


@dataclass(frozen=True)
class Model:
    """What the paper trains.

    Attributes
    ----------
    name : str
        The model.
    parameters : int
        D.
    iterations : int
        Until it has converged (FLASHE §6.3).
    printed : sequence of Printed
        Its part of Table 4; the first line is plaintext.
    """

    name: str
    parameters: int
    iterations: int
    printed: Sequence[Printed]

    @property
    def plain_iteration_s(self) -> float:
        """Seconds of an iteration without encryption: the hours of Table 4 over the iterations."""
        return 3600 * self.printed[0].hours / self.iterations


def _printed(*lines: tuple[float, float, float]) -> Sequence[Printed]:
    modes = ("plaintext", "FLASHE", "Paillier, batched", "FV, batched", "CKKS, batched")
    return [Printed(mode, *line) for mode, line in zip(modes, lines, strict=True)]


MODELS = (
    Model(
        "ResNet-20",
        270_000,
        374,
        _printed(
            (1.91, 0.47, 17.69),
            (1.92, 0.47, 17.79),
            (2.60, 1.00, 24.16),
            (4.89, 12.05, 49.05),
            (6.44, 20.15, 66.06),
        ),
    ),
    Model(
        "GRU",
        660_000,
        95,
        _printed(
            (0.38, 0.29, 3.58),
            (0.39, 0.29, 3.71),
            (0.78, 0.60, 7.32),
            (2.11, 7.20, 21.88),
            (3.19, 11.22, 33.15),
        ),
    ),
    Model(
        "CNN",
        1_200_000,
        277,
        _printed(
            (1.02, 1.56, 9.85),
            (1.07, 1.56, 10.35),
            (3.46, 3.22, 32.86),
            (10.50, 38.84, 109.81),
            (16.13, 56.70, 167.59),
        ),
    ),
)
