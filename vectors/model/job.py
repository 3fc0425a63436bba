"""Job specification, roster and round: what every key is bound to."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from math import ceil, floor

from .derive import framed_hash
from .said import CHOICES, job_hash


@dataclass(frozen=True)
class Tensor:
    """A run of coordinates with its own clipping bound."""

    name: str
    len: int
    clip: float


@dataclass(frozen=True)
class Metric:
    """A metric that parties may report, with its range."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Job:
    """Job specification: every field and option, whichever of the tables in ``said.py`` it stands in."""

    job: str = "job"
    protocol: str = "secagg+"
    adversary: str = "active"
    suite: str = "x25519"
    parties: int = 3
    min_parties: int = 0
    dim: int = 1
    rounds: int = 1
    encoding: str = "quantised"
    bits: int = 16
    clip: float = 1.0
    clipping: str = "tensor"
    max_norm: float = 0.0
    rounding: str = "stochastic"
    max_weight: int = 1
    tensors: tuple[Tensor, ...] = ()
    neighbours: int = 0
    threshold: int = 0
    packing: int = 0
    bound: str = "entries"
    masking: str = "cheaper"
    key_rounds: int = 0
    density: float = 1.0
    density_start: float = 1.0
    density_steps: int = 0
    density_rounds: int = 1
    min_contributors: int = 0
    divisor: str = "parties"
    rule: str = "fedavg"
    norm: float = 0.0
    bad: int = 0
    root: str = "root"
    trust: str = "shown"
    noise: float = 0.0
    result: str = "both"
    truncation: str = "probabilistic"
    key_bits: str = "2048"
    exponents: str = "full"
    key_minutes: float = 0.0
    order: str = "name"
    decryptor: str = ""
    corrupt: float = 0.1
    dropout: float = 0.1
    join_deadline: float = 60.0
    stage_deadline: float = 30.0
    input_deadline: float = 600.0
    model_update: str = "add"
    metrics: tuple[Metric, ...] = ()
    layout: tuple[str, ...] = ()
    parameters: dict[str, object] = field(default_factory=dict)
    step: str = "fedavg"
    initial: str = "coordinator"
    stop: str = "never"
    privacy: str = "none"
    noise_multiplier: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0
    adjacency: str = "zero-out"
    spare: float = 0.1
    learning_rate: float | None = None
    momentum: float | None = None
    beta1: float | None = None
    beta2: float | None = None
    tau: float | None = None
    metric: str = ""
    better: str = "higher"
    patience: int = 5
    least_gain: float = 0.0

    def hash(self) -> bytes:
        """Hash of what the job says."""
        return job_hash(self)

    def option(self, choice: str, name: str) -> object:
        """An option of a chosen table: as the job has it, or the default of the table."""
        given = getattr(self, name)
        return CHOICES[choice][getattr(self, choice)][name] if given is None else given

    def halved_clips(self) -> list[float]:
        """Half the bound of every tensor, or of the one that there is without tensors."""
        return [tensor.clip / 2 for tensor in self.tensors] or [self.clip / 2]

    def width(self) -> int:
        """Bits of a word: no sum of ``parties`` weighted values wraps."""
        if self.encoding == "fixed64":
            return 64
        return (32 if self.is_split() else self.bits) + self.carry()

    def carry(self) -> int:
        """Bits that the sum of all parties adds to a word."""
        return (self.parties * self.max_weight - 1).bit_length()

    def is_split(self) -> bool:
        """Whether an integer takes two words, of its low 32 bits and of the others."""
        return self.encoding == "integers" and self.bits + self.carry() > 64

    def lanes(self) -> int:
        """Words of a vector; where weights above 1 are allowed, the weight is one more word."""
        return (1 + self.is_split()) * self.dim + (self.max_weight > 1)

    def lane_bits(self) -> int:
        """Bits of the mask lanes for words of this width."""
        return 32 if self.width() <= 32 else 64

    def is_active(self) -> bool:
        """Whether the adversary is active."""
        return self.adversary == "active"

    def corrupt_parties(self) -> int:
        """Most parties that may side with the server, whatever the roster; one at least."""
        return max(ceiling_of_fraction(self.corrupt, self.parties), 1)

    def dropouts_among(self, n: int) -> int:
        """Most of ``n`` parties that are expected to drop out."""
        return floor(self.dropout * n + 1e-9)

    def losses_among(self, n: int) -> int:
        """Parties that a round of ``n`` may lose: within the fraction, and leaving enough."""
        return max(min(self.dropouts_among(n), n - self.least_survivors()), 0)

    def least_survivors(self) -> int:
        """Smallest number of survivors whose sum may be opened."""
        if self.min_parties:
            return self.min_parties
        left = self.parties - self.dropouts_among(self.parties)
        least = self.corrupt_parties() + 2 if self.is_active() else 2
        if self.protocol == "plain":
            return 1
        if self.protocol == "flashe" or self.protocol.startswith("paillier-"):
            return max(min(least, self.parties), 2)
        if self.protocol == "mpc3":
            return self.least_for_rule(max(least, 3))
        if self.protocol in ("fssa", "pss", "pss-malicious"):
            proved = self.protocol == "pss-malicious"
            most = max(left - proved * self.corrupt_parties(), least)
            return min(most, self.parties) if proved else most
        half = 2 * self.parties // 3 if self.is_active() else self.parties // 2
        return max(min(max(half + 1, self.threshold), left), least)

    def bad_vectors(self) -> int:
        """How many vectors may be bad, for the rules that ask."""
        return self.bad or self.corrupt_parties()

    def least_for_rule(self, least: int) -> int:
        """The smallest number of survivors of which three servers can compute the job's rule."""
        match self.rule:
            case "fltrust":
                return least + 1
            case "krum" | "multi-krum":
                return max(least, self.bad_vectors() + 3)
            case "trimmed-mean":
                return max(least, 2 * self.bad_vectors() + 1)
            case _:
                return least


def ceiling_of_fraction(fraction: float, n: int) -> int:
    """``fraction * n`` rounded up, unless the double is at most 1e-9 above an integer.

    0.07 * 100 is a little above 7 as a product of doubles; 7 parties are meant.
    """
    product = fraction * n
    return floor(product) if product - floor(product) <= 1e-9 else ceil(product)


@dataclass(frozen=True)
class Member:
    """A party as it joins a round: name, certificate in DER, 32 bytes drawn for the round."""

    name: str
    certificate: bytes
    nonce: bytes


def roster_bytes(members: list[Member]) -> bytes:
    """Number of members, then each of them."""
    encoded = len(members).to_bytes(4, "big")
    for member in members:
        encoded += len(member.name).to_bytes(1, "big") + member.name.encode("utf-8")
        encoded += len(member.certificate).to_bytes(2, "big") + member.certificate + member.nonce
    return encoded


def roster_hash(members: list[Member]) -> bytes:
    """Hash of the roster."""
    return framed_hash("roster", roster_bytes(members))


def round_context(job: Job, number: int, members: list[Member], model_hash: bytes, numbers: bytes) -> bytes:
    """What everybody in a round must agree on."""
    parts = job.hash(), number.to_bytes(8, "big"), roster_hash(members), model_hash, numbers
    return framed_hash("blindsum round", *parts)


def key_setup_context(job: Job, number: int, members: list[Member]) -> bytes:
    """What everybody in a key set-up must agree on."""
    return framed_hash("blindsum key set-up", job.hash(), number.to_bytes(8, "big"), roster_hash(members))


def clips_context(context: bytes, clips: list[float]) -> bytes:
    """The context of a round with other bounds than the job's."""
    return framed_hash("blindsum clips", context, *(struct.pack(">d", clip) for clip in clips))
