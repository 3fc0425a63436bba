"""What is attacked, and what the attacks have found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from blindsum.attack.inversion import Floats
from blindsum.attack.membership import Game
from blindsum.checks import setting
from blindsum.errors import ConfigError
from blindsum.spec import protocols

PLAIN = "plain"

MIN_MULTIPLIER, MAX_MULTIPLIER = 2**-6, 2**10
"""Bounds of the noise multiplier of a job."""

MAX_IMAGES = 16
"""Images of a party, at most: the means of many parties have as many images as the data set can give."""

GUESSES = 40
"""Attacks on random words, for comparison."""

SIGMAS = 5.0
"""So many standard deviations above attacks on random words is better than chance."""


@dataclass(frozen=True)
class Settings:
    """What is attacked.

    Attributes
    ----------
    protocols : tuple of str
        The protocols beside ``plain``, which is always attacked; all by default.
    parties : int
        Parties of a round.
    images : int
        Images of a party.
    trials : int
        Rounds with a party, and as many without it, in each game of membership; 0 plays none.
    multipliers : tuple of float
        Noise multipliers of these games, beside none.
    seed : int
        Of data, model and attack. Masks, keys and noise of real rounds are drawn anew each time.
    """

    protocols: tuple[str, ...] = ()
    parties: int = 5
    images: int = 4
    trials: int = 100
    multipliers: tuple[float, ...] = (0.5, 2.0)
    seed: int = 7

    @property
    def attacked(self) -> tuple[str, ...]:
        """The protocols in their order, ``plain`` first."""
        chosen = self.protocols or tuple(protocols())
        return (PLAIN, *(name for name in protocols() if name in chosen and name != PLAIN))

    def check(self) -> None:
        """Check the numbers.

        Raises
        ------
        blindsum.ConfigError
            One is out of its bounds.
        """
        setting("parties", self.parties, 2, 100)
        setting("images", self.images, 1, MAX_IMAGES)
        setting("seed", self.seed, 0, 2**31 - 1)
        if self.trials:
            setting("trials", self.trials, 20, 100_000)
        for multiplier in self.multipliers:
            if not MIN_MULTIPLIER <= multiplier <= MAX_MULTIPLIER:
                rule = f"{multiplier:g} must be from {MIN_MULTIPLIER:g} to {MAX_MULTIPLIER:g}"
                raise ConfigError("multipliers", rule)
        for name in self.protocols:
            if name not in protocols():
                raise ConfigError("protocol", f"{name!r} must be one of {', '.join(protocols())}")


@dataclass(frozen=True)
class Seen:
    """Images beside those that an attack found, for pictures.

    Attributes
    ----------
    title : str
        Where the attacked vector is from.
    images : numpy.ndarray
        Shape ``(n, 64)``, in the order of the true images.
    """

    title: str
    images: Floats


@dataclass(frozen=True)
class Held:
    """What a server holds of parties, and the attack on it.

    Attributes
    ----------
    protocol, server : str
        Of which protocol, and who looks.
    vectors : int
        Parties of which the server got as many bytes as a vector has.
    correlation, psnr : float
        The mean correlation of true images and those found, and the peak signal-to-noise ratio in dB.
    recognised, images : int
        Images of these parties that the attack has found, and all.
    by_chance : float
        How many of as many other images it would seem to have found.
    above_chance : float
        By how many standard deviations the correlation is above that of attacks on random words.
    """

    protocol: str
    server: str
    vectors: int
    correlation: float
    psnr: float
    recognised: int
    images: int
    by_chance: float
    above_chance: float

    @property
    def shows_images(self) -> bool:
        """Whether the attack is better than on random words."""
        return self.above_chance > SIGMAS

    @property
    def verdict(self) -> str:
        """What the attack gives, in words."""
        if not self.vectors:
            return "not possible: seeds only"
        if not self.shows_images:
            return "no better than random words"
        return f"{self.recognised} of {self.images} images"


@dataclass(frozen=True)
class Attacked:
    """An attack on a vector that is not hidden: the mean of several parties, or one plain update.

    Attributes
    ----------
    parties : int
        Parties whose mean it is.
    images : int
        Images of a party.
    steps : int
        Local steps of a party, each with all of its images.
    multiplier : float
        ``noise_multiplier`` of the job; 0 without noise.
    correlation, psnr : float
        As in :class:`Held`.
    recognised, total : int
        Images that the attack has found, and all that are in the attacked vectors.
    by_chance : float
        As in :class:`Held`.
    """

    parties: int
    images: int
    steps: int
    multiplier: float
    correlation: float
    psnr: float
    recognised: int
    total: int
    by_chance: float


@dataclass(frozen=True)
class AttackResult:
    """What the attacks have found.

    Attributes
    ----------
    settings : Settings
        What was attacked.
    held : list of Held
        By protocol and server.
    impossible : dict of str to str
        Protocols that have no round of so many parties, with the reason.
    chance, chance_deviation : float
        The mean correlation of attacks on random words, and its standard deviation.
    sums : list of Attacked
        The means that every party gets, by number of parties, without noise and with it.
    reach : list of Attacked
        Single plain updates, by images and local steps.
    games : list of Game
        Membership inference.
    seen : list of Seen
        The images of one party, true and found.
    seconds : float
        Of all of it.
    """

    settings: Settings
    held: list[Held]
    impossible: dict[str, str]
    chance: float
    chance_deviation: float
    sums: list[Attacked]
    reach: list[Attacked]
    games: list[Game]
    seen: list[Seen]
    seconds: float

    @property
    def problems(self) -> list[str]:
        """What is not as promised: protocols that show images to a server."""
        found = [
            f"{one.server} gets images under {one.protocol}: {one.verdict}"
            for one in self.held
            if one.protocol != PLAIN and one.shows_images
        ]
        if not self.held[0].shows_images:
            found.append("the attack finds nothing in plain updates: it shows nothing about other protocols")
        return found

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        plain = self.held[0]
        text = f"Under plain the coordinator gets {plain.recognised} of {plain.images} images back"
        others = {one.protocol for one in self.held} - {PLAIN}
        hidden = others - {one.protocol for one in self.held if one.shows_images}
        if hidden:
            of = f"{len(hidden)} of {len(others)} other protocols" if len(others) > 1 else min(hidden)
            text += f"; under {of} the messages that servers get tell the attack no more than random words"
        elif others:
            text += "; no other protocol hides them from a server"
        few, noisy = self.sums[0], self.sums[1]
        text += (
            f"; the mean of {few.parties} parties gives {few.recognised} of {few.total} images, "
            f"with noise {noisy.recognised}."
        )
        return text

    def to_dict(self) -> dict[str, Any]:
        """All of it but the pictures, as plain data."""
        return {
            "settings": asdict(self.settings),
            "held": [asdict(one) | {"verdict": one.verdict} for one in self.held],
            "impossible": self.impossible,
            "chance": {
                "correlation": self.chance,
                "deviation": self.chance_deviation,
                "attacks": GUESSES,
            },
            "sums": [asdict(one) for one in self.sums],
            "reach": [asdict(one) for one in self.reach],
            "membership": [game.to_dict() for game in self.games],
            "summary": self.summary,
            "problems": self.problems,
            "seconds": round(self.seconds, 1),
        }
