"""How long parties take: computing and links, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from blindsum import checks
from blindsum.errors import ConfigError
from blindsum.plan import Step
from blindsum.spec import JobSpec

Compute: TypeAlias = float | Sequence[float] | Callable[[int, int], float] | str | None
"""Seconds for which a party trains: of all, by rank, or ``compute(rank, round)``; ``"measured"`` takes the
seconds that the training step took here; ``None`` none."""


@dataclass(frozen=True)
class Link:
    """The connection of a party with the coordinator.

    Attributes
    ----------
    latency : float
        Seconds that a message takes, in either direction.
    up, down : float
        Bytes a second from and to the party.
    """

    latency: float = 0.0
    up: float = math.inf
    down: float = math.inf

    def __post_init__(self) -> None:
        checks.seconds("link.latency", self.latency)
        for name in ("up", "down"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"link.{name}", f"{value!r} must be above 0: bytes a second")


@dataclass(frozen=True)
class Devices:
    """The parties' computers and links.

    Attributes
    ----------
    spec : JobSpec
        The job.
    compute : Compute
        How long they train.
    links : tuple of Link
        By rank.
    """

    spec: JobSpec
    compute: Compute
    links: tuple[Link, ...]

    @classmethod
    def of(cls, spec: JobSpec, compute: Compute, link: Link | Sequence[Link] | None) -> Devices:
        """Check what a caller says of devices.

        Raises
        ------
        blindsum.ConfigError
            A number that is no time or no speed, or another number of them than there are parties.
        """
        one = Link() if link is None else link
        links = [one] * spec.parties if not isinstance(one, Sequence) else list(one)
        if len(links) != spec.parties or not all(isinstance(one, Link) for one in links):
            rule = f"must be one blindsum.training.Link, or one for each of the {spec.parties} parties"
            raise ConfigError("link", rule)
        if isinstance(compute, str):
            if compute != "measured":
                raise ConfigError("compute", f"{compute!r} must be seconds, a function, 'measured' or None")
        elif isinstance(compute, Sequence):
            if len(compute) != spec.parties:
                rule = f"{len(compute)} given, but the job has parties = {spec.parties}; give one for each"
                raise ConfigError("compute", rule)
            for rank, seconds in enumerate(compute):
                checks.seconds(f"compute[{rank}]", seconds)
        elif compute is not None and not callable(compute):
            checks.seconds("compute", compute)
        return cls(spec, compute, tuple(links))

    def trains_for(self, rank: int, number: int, measured: float) -> float:
        """Seconds for which a party trains in a round."""
        compute = self.compute
        if compute is None:
            return 0.0
        if isinstance(compute, str):
            return measured
        if callable(compute):
            return checks.seconds(f"compute({rank}, {number})", compute(rank, number))
        return float(compute[rank]) if isinstance(compute, Sequence) else float(compute)

    def delays(self, training: Mapping[int, float]) -> list[tuple[int, str, float]]:
        """By how much answers are late: the rank of the party, the number of the stage, seconds.

        Where parties give their inputs one after the other, as in a ring, all of them train meanwhile: each
        is late by what it needs longer than those before it.

        Parameters
        ----------
        training
            Seconds for which the parties train in this round, by rank.
        """
        waits = {
            (rank, step.stage): 2 * self.links[rank].latency
            for step in self._answers
            for rank in self._speakers(step, training)
        }
        over = 0.0
        for step in (step for step in self._answers if step.input):
            speakers = self._speakers(step, training)
            for rank in speakers:
                waits[rank, step.stage] += max(training[rank] - over, 0.0) + self._transfer(rank)
            if len(speakers) == 1:
                over = max(over, training[speakers[0]])
        return [(rank, str(stage), seconds) for (rank, stage), seconds in waits.items() if seconds > 0]

    def _transfer(self, rank: int) -> float:
        """Seconds for the model and the vector of a party."""
        link, spec = self.links[rank], self.spec
        model = 0 if spec.model_update == "none" else 4 * spec.dim
        return model / link.down + spec.packed_bytes / link.up

    @property
    def _answers(self) -> list[Step]:
        """What parties say in a round, in order."""
        parties = ("parties", "few")
        return [s for s in self.spec.plan if s.speaker in parties or s.speaker.startswith("party ")]

    def _speakers(self, step: Step, training: Mapping[int, float]) -> list[int]:
        if not step.speaker.startswith("party "):
            return list(training)
        rank = int(step.speaker.removeprefix("party "))
        return [rank] if rank in training else []
