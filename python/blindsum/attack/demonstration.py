"""The whole demonstration: what servers hold, what sums tell, and how far the attack goes."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from blindsum.attack import membership
from blindsum.attack.inversion import Floats, check_solver, invert
from blindsum.attack.membership import Game
from blindsum.attack.observed import Observed, names, observe
from blindsum.attack.reading import random_words, read
from blindsum.attack.results import GUESSES, Attacked, AttackResult, Held, Seen, Settings
from blindsum.attack.similarity import Likeness, likeness, psnr
from blindsum.demo import digits, network
from blindsum.demo.digits import Examples
from blindsum.errors import ConfigError, SpecError
from blindsum.options import Quantised
from blindsum.simulation import simulate
from blindsum.spec import JobSpec

CLIP = 1.0
"""Bound on a coordinate of an update: none of one local step is beyond it."""

SUMS = (2, 8, 32)
"""Numbers of parties whose mean is attacked."""

SUM_NOISE = 1.0
"""``noise_multiplier`` of the attacked mean with noise."""

BATCHES, LOCAL_STEPS, TIMES = (1, 2, 4, 8, 16, 32), (1, 5, 20), 4
"""Images and local steps of the plain updates that show how far the attack goes, and updates of each kind."""

GAMES = (2, 8)
"""Numbers of parties in the games of membership."""

OnProgress = Callable[[float, str], object]
"""Called with the part that is done, from 0 to 1, and what is under way."""


def run(settings: Settings | None = None, progress: OnProgress | None = None) -> AttackResult:
    """Attack real rounds, sums, and plain updates of several sizes.

    Parameters
    ----------
    settings
        What is attacked; ``None`` takes the defaults.
    progress
        Called from time to time.

    Raises
    ------
    blindsum.ConfigError
        A setting that cannot be, or a protocol that was named and has no round of so many parties.
    blindsum.BlindsumError
        scikit-learn is not installed, or a round ended without a sum.
    """
    asked = settings or Settings()
    asked.check()
    check_solver()
    train, _ = digits.load(asked.seed)
    return _Attack(asked, train, progress or (lambda _done, _text: None)).run()


class _Attack:
    """One demonstration."""

    def __init__(self, settings: Settings, data: Examples, progress: OnProgress) -> None:
        self._settings, self._data, self._progress = settings, data, progress
        self._pool = data.images.astype(np.float64)
        self._rng = self._random("data")
        self._model = network.initial_model(settings.seed)
        self._places = [self._draw(settings.images) for _ in range(settings.parties)]
        self._updates = [self._update(self._model, places) for places in self._places]
        self._seen = [Seen("true images", self._pool[self._places[0]])]

    def run(self) -> AttackResult:
        """Attack all there is."""
        began = time.monotonic()
        specs, impossible = self._specs()
        chance = self._chance(specs[0])
        held = []
        for place, spec in enumerate(specs):
            self._progress(0.3 * place / len(specs), f"a round of {spec.protocol.name}")
            held += list(self._held(spec, observe(spec, self._updates, self._model), chance))
        sums = list(self._sums())
        reach = list(self._reach())
        games = list(self._games())
        seconds = time.monotonic() - began
        mean, deviation = chance
        settings, seen = self._settings, self._seen
        return AttackResult(settings, held, impossible, mean, deviation, sums, reach, games, seen, seconds)

    def _random(self, *what: object) -> np.random.Generator:
        """Random numbers for one part of the work, whatever the other parts draw."""
        words = zlib.crc32(repr(what).encode())
        return np.random.default_rng([self._settings.seed, words])

    def _draw(self, images: int) -> NDArray[np.int64]:
        """Where the images of a party are in the data."""
        return self._rng.choice(len(self._data), images, replace=False)

    def _update(
        self, model: NDArray[np.float32], places: NDArray[np.int64], steps: int = 1
    ) -> NDArray[np.float32]:
        """A party's update: so many steps of gradient descent with all its images."""
        images, labels = self._data.images[places], self._data.labels[places]
        trained = np.array(model)
        for _ in range(steps):
            trained -= np.float32(network.LEARNING_RATE) * network.gradient(trained, images, labels)
        return trained - model

    def _specs(self) -> tuple[list[JobSpec], dict[str, str]]:
        """The jobs that are possible, and why the others are not; named ones must be."""
        specs, impossible = [], {}
        for name in self._settings.attacked:
            try:
                specs.append(self._spec(name))
            except (ConfigError, SpecError) as error:
                if name in self._settings.protocols:
                    raise
                impossible[name] = str(error)
        return specs, impossible

    def _spec(self, protocol: str) -> JobSpec:
        return JobSpec(
            job="attack",
            protocol=protocol,
            parties=self._settings.parties,
            dim=network.DIM,
            rounds=1,
            dropout=0.0,
            encoding=Quantised(bits=16, clip=CLIP),
        )

    def _invert(
        self,
        vector: Floats,
        places: NDArray[np.int64],
        steps: int = 1,
        model: NDArray[np.float32] | None = None,
    ) -> tuple[Floats, Likeness]:
        """The images that an attack finds, in the order of the true ones, and how like those they are."""
        start = self._model if model is None else model
        found = invert(start, vector, len(places), -network.LEARNING_RATE * steps, self._rng).images
        like = likeness(found, places, self._pool, self._rng)
        return found[list(like.order)], like

    def _chance(self, spec: JobSpec) -> tuple[float, float]:
        """Mean and deviation of the correlation in attacks on random words."""
        self._progress(0.0, "attacks on random words")
        self._rng = self._random("chance")
        found = [
            self._invert(random_words(spec, self._rng), self._places[turn % len(self._places)])[1].correlation
            for turn in range(GUESSES)
        ]
        return float(np.mean(found)), float(np.std(found, ddof=1))

    def _held(self, spec: JobSpec, observed: Observed, chance: tuple[float, float]) -> Iterator[Held]:
        """The attack on what each server got of each party."""
        for server, messages in observed.messages.items():
            self._rng = self._random(spec.protocol.name, server)
            likes: list[Likeness] = []
            for rank, name in enumerate(names(spec.parties)):
                vector = read(spec, messages[name])
                if vector is None:
                    continue
                found, like = self._invert(vector, self._places[rank])
                likes.append(like)
                if rank == 0:
                    self._seen.append(Seen(f"{spec.protocol.name}: {server}", found))
            yield _summed(spec.protocol.name, server, likes, chance)

    def _sums(self) -> Iterator[Attacked]:
        """Attacks on means of several parties, which every party gets, without noise and with it."""
        settings = self._settings
        for place, parties in enumerate(SUMS):
            self._rng = self._random("mean", parties)
            places = self._places[:parties]
            while len(places) < parties:
                places.append(self._draw(settings.images))
            updates = np.stack([self._update(self._model, own) for own in places])
            for multiplier in (0.0, SUM_NOISE):
                self._progress(0.3 + 0.1 * place / len(SUMS), f"the mean of {parties} parties")
                mean = simulate(membership.job(parties, multiplier), updates, seed=settings.seed).mean
                assert mean is not None
                found, like = self._invert(np.asarray(mean, np.float64), np.concatenate(places))
                noise = f", noise {multiplier:g}" if multiplier else ""
                self._seen.append(Seen(f"mean of {parties} parties{noise}", found[: settings.images]))
                yield self._attacked(parties, settings.images, 1, multiplier, [like])

    def _reach(self) -> Iterator[Attacked]:
        """Attacks on single plain updates of several sizes."""
        for place, images in enumerate(BATCHES):
            for steps in LOCAL_STEPS:
                self._rng = self._random("reach", images, steps)
                self._progress(0.4 + 0.2 * place / len(BATCHES), f"{images} images, {steps} local steps")
                likes = []
                for turn in range(TIMES):
                    model = network.initial_model(self._settings.seed + turn)
                    places = self._draw(images)
                    update = self._update(model, places, steps).astype(np.float64)
                    likes.append(self._invert(update, places, steps, model)[1])
                yield self._attacked(1, images, steps, 0.0, likes)

    def _games(self) -> Iterator[Game]:
        """Membership inference on means."""
        settings = self._settings
        if not settings.trials:
            return
        kinds = [(parties, noise) for parties in GAMES for noise in (0.0, *settings.multipliers)]
        for place, (parties, noise) in enumerate(kinds):

            def show(part: float, place: int = place, parties: int = parties) -> None:
                done = 0.6 + 0.4 * (place + part) / len(kinds)
                self._progress(done, f"membership in the mean of {parties} parties")

            yield from membership.play(self._data, parties, noise, settings.trials, settings.seed, show)

    @staticmethod
    def _attacked(
        parties: int, images: int, steps: int, multiplier: float, likes: Sequence[Likeness]
    ) -> Attacked:
        correlation, peak = _means(likes)
        recognised, total = sum(like.recognised for like in likes), sum(like.images for like in likes)
        chance = sum(like.by_chance for like in likes)
        return Attacked(parties, images, steps, multiplier, correlation, peak, recognised, total, chance)


def _summed(protocol: str, server: str, likes: Sequence[Likeness], chance: tuple[float, float]) -> Held:
    """One row of many parties."""
    if not likes:
        return Held(protocol, server, 0, 0.0, 0.0, 0, 0, 0.0, 0.0)
    mean, deviation = chance
    correlation, peak = _means(likes)
    above = (correlation - mean) / (deviation / np.sqrt(len(likes)))
    recognised, images = sum(like.recognised for like in likes), sum(like.images for like in likes)
    by_chance = sum(like.by_chance for like in likes)
    return Held(protocol, server, len(likes), correlation, peak, recognised, images, by_chance, float(above))


def _means(likes: Sequence[Likeness]) -> tuple[float, float]:
    """The mean correlation, and the signal-to-noise ratio of all."""
    correlation = float(np.mean([like.correlation for like in likes]))
    return correlation, psnr(float(np.mean([like.error for like in likes])))
