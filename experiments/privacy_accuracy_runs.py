"""Trainings of `privacy_accuracy`: a frozen net whose last layer is trained under noise, and whole nets.

Noise of jobs is that of the product: each sum is a round of the job's protocol. Central and local noise are
none of its mechanisms. They are added here, to the sums of jobs without noise, by an exact sampler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np

import blindsum as bs
from blindsum.cli import console
from blindsum.learning import partitions
from blindsum.learning.dataset import Dataset
from blindsum.training.contribution import TrainingTurn
from experiments import tasks
from experiments.classifiers import Classifier, Floats
from experiments.tasks import DIGITS, Task
from experiments.taylor_noise import DiscreteGaussian

DELTA = 1e-5
BITS = 14
CLIP = 2.0
CORRUPT = DROPOUT = 0.1

PUBLIC = 300
"""Examples that the frozen net was trained with. No party has them."""
SIDE = 5
"""The root of the number of its features."""

DISTRIBUTED, CENTRAL, LOCAL, NONE = "distributed", "central", "local", "none"


class Trained(Protocol):
    """What is trained."""

    @property
    def rate(self) -> float:
        """Learning rate."""

    @property
    def net(self) -> Classifier:
        """The net, whose parameters are one vector."""

    def parts(self, partition: str, parties: int, seed: int) -> list[Dataset]:
        """What each party has."""

    def step(self, model: Any, part: Dataset, turn: TrainingTurn) -> Floats:
        """The training function of a party."""

    def right(self, model: Any) -> int:
        """How many test examples the model labels as it should."""

    @property
    def test(self) -> Dataset:
        """The examples that accuracy is measured on."""


@cache
def frozen() -> tuple[Dataset, Dataset, float]:
    """Training and test examples as the frozen net sees them, and its own accuracy on the test."""
    train, test = tasks.loaded(DIGITS, "train"), tasks.loaded(DIGITS, "test")
    public, rest = train.take(np.arange(PUBLIC)), train.take(np.arange(PUBLIC, len(train)))
    net = Classifier("one hidden layer", 8, (SIDE**2,))
    model = net.initial(0)
    model = model + net.trained(model, public.features, public.labels, 0, steps=600, batch=32, rate=0.3)
    first, bias = model[: 64 * SIDE**2].reshape(64, -1), model[64 * SIDE**2 :][: SIDE**2]

    def features(part: Dataset) -> Floats:
        seen: Floats = np.maximum(part.flat @ first + bias, 0)
        return seen

    # Of a norm of about 2, so that one rate does for all.
    scale = 2 / float(np.linalg.norm(features(public), axis=1).mean())
    shown = [
        Dataset((scale * features(part)).reshape(-1, 1, SIDE, SIDE), part.labels, None, part.names)
        for part in (rest, test)
    ]
    accuracy = float((net.labels(model, test.features) == test.labels).mean())
    return shown[0], shown[1], accuracy


@dataclass(frozen=True)
class LastLayer:
    """The last layer of the frozen net, which parties train anew.

    Attributes
    ----------
    rate : float
        Learning rate.
    steps, batch : int
        Local steps of a round, and images of a step.
    """

    rate: float = 1.0
    steps: int = 20
    batch: int = 32

    @property
    def net(self) -> Classifier:
        """Scores of ten labels from the features."""
        return Classifier("last layer", SIDE)

    @property
    def test(self) -> Dataset:
        """The examples that accuracy is measured on."""
        return frozen()[1]

    def parts(self, partition: str, parties: int, seed: int) -> list[Dataset]:
        """What each party has."""
        whole = frozen()[0]
        return [
            whole.take(place) for place in partitions.partition(partition, whole.labels, parties, seed=seed)
        ]

    def step(self, model: Any, part: Dataset, turn: TrainingTurn) -> Floats:
        """The training function of a party."""
        return self.net.trained(
            model, part.features, part.labels, turn.seed, self.steps, self.batch, self.rate
        )

    def right(self, model: Any) -> int:
        """How many test examples the model labels as it should."""
        return int((self.net.labels(model, self.test.features) == self.test.labels).sum())


@dataclass(frozen=True)
class Case:
    """A training.

    Attributes
    ----------
    task : Trained
        What is trained.
    protocol : str
        Of the job; ``plain`` where noise is added beside it.
    noise : str
        ``distributed``, ``central``, ``local`` or ``none``.
    parties : int
        Parties, who have examples at random.
    epsilon : float
        ε after all rounds; 0 without noise.
    rounds : int
        Rounds.
    """

    task: Trained
    protocol: str
    noise: str
    parties: int
    epsilon: float
    rounds: int

    @property
    def spec(self) -> bs.JobSpec:
        """The job."""
        return self._spec(self.protocol, self.noise == DISTRIBUTED)

    @property
    def noisy(self) -> bs.JobSpec:
        """A job of the same ε with distributed noise, which has the multiplier."""
        return self._spec(self.protocol if self.noise == DISTRIBUTED else "secagg", True)

    def _spec(self, protocol: str, has_noise: bool) -> bs.JobSpec:
        hidden: dict[str, Any] = (
            {} if protocol == "plain" else {"adversary": "semi-honest", "corrupt": CORRUPT}
        )
        noise = bs.DiscreteGaussian(epsilon=self.epsilon, delta=DELTA, spare=0.0)
        return bs.JobSpec(
            protocol=protocol,
            parties=self.parties,
            dim=self.task.net.dim,
            rounds=self.rounds,
            dropout=DROPOUT,
            initial="zeros",
            encoding=bs.Quantised(bits=BITS, clip=CLIP, clipping="l2"),
            privacy=noise if has_noise else bs.NoPrivacy(),
            **hidden,
        )


def claim(spec: bs.JobSpec, releases: int | None = None) -> bs.PrivacyClaim:
    """What a job with noise claims, by default after all its rounds."""
    found = spec.privacy_after(releases)
    if found is None:
        raise ValueError(f"{spec.protocol.name}: the job has no noise")
    return found


def accuracies(case: Case, seed: int) -> tuple[float, ...]:
    """The accuracy after each round.

    Raises
    ------
    ArithmeticError
        A round has no sum.
    """
    train = _in_the_clear if case.noise in (CENTRAL, LOCAL) else _in_a_job
    return tuple(train(case, seed))


def _in_a_job(case: Case, seed: int) -> Iterator[float]:
    task, spec = case.task, case.spec
    size = len(task.test)
    record = bs.simulate_training(
        spec,
        task.step,
        task.parts("iid", case.parties, seed),
        evaluate=lambda model: {"accuracy": task.right(model) / size},
        seed=seed,
    )
    for one in record.rounds:
        if one.outcome != "sum":
            raise ArithmeticError(f"{case}, round {one.number}: {one.fault}")
        yield one.test["accuracy"]


def _in_the_clear(case: Case, seed: int) -> Iterator[float]:
    """Noise on the sums of a job without noise: of one mechanism, or of as many as there are parties."""
    task, spec, said = case.task, case.spec, claim(case.noisy)
    parts = task.parts("iid", case.parties, seed)
    step = CLIP / (2 ** (BITS - 1) - 1)
    once = Fraction(said.noise_multiplier * said.growth * CLIP / step) ** 2
    # Shares of a discrete Gaussian add up to one of the sum of their variances.
    noise = sampler(once if case.noise == CENTRAL else case.parties * once, seed)
    model = np.zeros(spec.dim, np.float32)
    for number in range(1, case.rounds + 1):
        turns = [TrainingTurn.of(number, f"party-{rank}", rank, {}, seed) for rank in range(case.parties)]
        updates = [task.step(model, part, turn) for part, turn in zip(parts, turns, strict=True)]
        mean = bs.simulate(spec, updates, seed=1000 * seed + number).mean
        if mean is None:
            raise ArithmeticError(f"{case}, round {number}: no sum")
        total = case.parties * np.asarray(mean, np.float64) + step * noise(spec.dim)
        model = (model + total / case.parties).astype(np.float32)
        yield task.right(model) / len(task.test)


def sampler(variance: Fraction, seed: int) -> Callable[[int], Floats]:
    """Exact numbers of a discrete Gaussian; the variance as a fraction of few digits."""
    drawn = DiscreteGaussian(variance.limit_denominator(1), random.Random(seed).getrandbits)
    return lambda count: np.array([drawn.draw() for _ in range(count)], np.float64)


# What is run.


@dataclass(frozen=True)
class Sizes:
    """How much is run.

    Attributes
    ----------
    parties : tuple of int
        Numbers of parties.
    epsilons : tuple of float
        ε of jobs, the smallest first.
    beside : tuple of int
        Numbers of parties with central and local noise beside the job's.
    rounds, seeds : int
        Of each training.
    small_epsilons : tuple of float
        ε of MYSTIKO's figure.
    rates : tuple of float
        Learning rates of it, of which the best counts.
    small_parties, small_rounds, small_seeds : int
        Of its trainings.
    """

    parties: tuple[int, ...]
    epsilons: tuple[float, ...]
    beside: tuple[int, ...]
    rounds: int
    seeds: int
    small_epsilons: tuple[float, ...]
    rates: tuple[float, ...]
    small_parties: int
    small_rounds: int
    small_seeds: int


FULL = Sizes(
    parties=(4, 8, 16, 32),
    epsilons=(1.0, 2.0, 4.0, 8.0, 16.0),
    beside=(8, 32),
    rounds=10,
    seeds=10,
    small_epsilons=(1.0, 4.0, 16.0, 100.0),
    rates=(0.5, 2.0),
    small_parties=8,
    small_rounds=5,
    small_seeds=3,
)
QUICK = Sizes(
    parties=(4, 8),
    epsilons=(8.0,),
    beside=(4,),
    rounds=2,
    seeds=2,
    small_epsilons=(100.0,),
    rates=(0.5,),
    small_parties=3,
    small_rounds=1,
    small_seeds=1,
)

PAILLIER = "paillier-ring"
FINE_TUNED = LastLayer()


def whole_net(rate: float) -> Task:
    """All parameters of a small net, from zeros."""
    return Task(DIGITS, Classifier("logistic regression", 8), rate=rate, steps=20)


def fine_tunings(sizes: Sizes) -> list[Case]:
    """Trainings of the last layer: without noise, with that of a job, and with central and local noise."""
    found = []
    for parties in sizes.parties:
        case = Case(FINE_TUNED, "secagg+", NONE, parties, 0.0, sizes.rounds)
        found += [case, *(replace(case, noise=DISTRIBUTED, epsilon=one) for one in sizes.epsilons)]
        if parties in sizes.beside:
            found += [
                replace(case, protocol="plain", noise=noise, epsilon=one)
                for noise in (CENTRAL, LOCAL)
                for one in sizes.epsilons
            ]
    return found


def whole_trainings(sizes: Sizes) -> list[Case]:
    """Trainings of MYSTIKO's figure."""
    found = []
    for rate in sizes.rates:
        case = Case(whole_net(rate), PAILLIER, NONE, sizes.small_parties, 0.0, sizes.small_rounds)
        found += [case, *(replace(case, noise=DISTRIBUTED, epsilon=one) for one in sizes.small_epsilons)]
    return found


Found = dict[Case, list[tuple[float, ...]]]
"""Accuracies after each round, one training for each seed."""


def run(sizes: Sizes) -> Found:
    """Train all."""
    planned = [(case, sizes.seeds) for case in fine_tunings(sizes)]
    planned += [(case, sizes.small_seeds) for case in whole_trainings(sizes)]
    found: Found = {}
    with console.progress("trainings", len(planned)) as bar, tasks.one_thread():
        for done, (case, seeds) in enumerate(planned):
            bar.update(done, f"{case.protocol}, {case.parties} parties, {case.noise} noise")
            found[case] = [accuracies(case, seed) for seed in range(seeds)]
    return found
