"""What an iteration costs with each protocol: a round of a model's size, a plain sum, a step of training."""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import blindsum as bs
from benches.provenance import COLUMNS
from blindsum.cli import console
from blindsum.errors import BlindsumError
from experiments import output

PARTIES = 10
PLAIN = "plain"
SEMI_HONEST, ACTIVE = "mpc3, semi-honest", "mpc3, active"
SHORT = 300_000
"""Up to so many coordinates a round is repeated."""
BATCH = 32
STEPS = 10
"""Local steps of an iteration."""
STEPS_FILE = "overhead-steps.csv"
UNKNOWN = "not measured"


@dataclass(frozen=True)
class Model:
    """A model of a paper.

    Attributes
    ----------
    name : str
        What the papers call it.
    dim : int
        Its parameters, as `blindsum.learning.nets` has them.
    net : str
        The name there.
    papers : str
        Who trains it.
    """

    name: str
    dim: int
    net: str
    papers: str


LENET = Model("LeNet-5", 61_706, "lenet5", "LeCun et al.")
MODELS = (
    LENET,
    Model("ResNet-20", 269_722, "resnet20", "FLASHE"),
    Model("GRU", 661_075, "gru", "FLASHE"),
    Model("CNN", 1_206_590, "cnn5", "FLASHE"),
    Model("VGG-11", 9_231_114, "vgg11", "thesis"),
)
MORE = (
    Model("DenseNet-121", 6_956_298, "densenet121", "thesis"),
    Model("ResNet-18", 11_173_962, "resnet18", "thesis, MYSTIKO"),
    Model("Simple DLA", 15_142_970, "simple-dla", "thesis"),
)

MOST = {"pss-malicious": 62_000, "paillier-ring": 300_000}
"""Coordinates up to which slow protocols are run; elsewhere they would take hours."""
PROTOCOLS = (
    *(PLAIN, "secagg", "secagg+", "fssa", "pss", "flashe", SEMI_HONEST, ACTIVE),
    *MOST,
)


@dataclass(frozen=True)
class Sizes:
    """How much is run: models, protocols, repetitions of short rounds, factor of the limits of slow ones."""

    models: tuple[Model, ...]
    protocols: tuple[str, ...]
    repetitions: int
    further: int = 1


FULL = Sizes(MODELS, PROTOCOLS, repetitions=3)
LARGE = Sizes((*MODELS, *MORE), PROTOCOLS, repetitions=5, further=100)
QUICK = Sizes((Model("small", 500, "logistic", "none"),), (PLAIN, "secagg+", ACTIVE), repetitions=1)


@dataclass(frozen=True)
class Case:
    """A round: a model and a protocol."""

    model: Model
    protocol: str

    @cached_property
    def spec(self) -> bs.JobSpec:
        """The job; against active adversaries where nothing else is said."""
        name, _, adversary = self.protocol.partition(", ")
        kind: dict[str, Any] = {"adversary": adversary} if adversary else {}
        return bs.JobSpec(protocol=name, parties=PARTIES, dim=self.model.dim, model_update="none", **kind)


@dataclass(frozen=True)
class Cost:
    """What a round costs: CPU time, least of the repetitions.

    Attributes
    ----------
    party_ms : float
        Work of the median party.
    server_ms : float
        Work of the coordinator, or of the slowest of three servers.
    up_bytes, down_bytes : int
        That a party sends and is sent.
    """

    case: Case
    party_ms: float
    server_ms: float
    up_bytes: int
    down_bytes: int

    @property
    def path_ms(self) -> float:
        """Work that is done one after the other, if everybody has a machine: of a party and of the server."""
        return self.party_ms + self.server_ms


@dataclass(frozen=True)
class Step:
    """What a step of training takes, of one run, with the columns of that run.

    Attributes
    ----------
    net : str
        The net.
    device : str
        Where it was trained.
    step_ms : float
        The median step, milliseconds.
    is_kept : bool
        Whether that was another run than this one.
    """

    net: str
    device: str
    step_ms: float
    origin: Mapping[str, str]
    is_kept: bool


@dataclass(frozen=True)
class Found:
    """Everything that was measured.

    Attributes
    ----------
    costs : mapping of Case to Cost
        Rounds.
    left_out : mapping of Case to str
        Rounds that were not run, and why.
    sums : mapping of Model to float
        Milliseconds in which numpy adds up the vectors of all parties.
    steps : mapping of str to Step
        By net.
    """

    costs: Mapping[Case, Cost]
    left_out: Mapping[Case, str]
    sums: Mapping[Model, float]
    steps: Mapping[str, Step]


def cost(case: Case, repetitions: int) -> Cost:
    """Simulate a round.

    Raises
    ------
    ArithmeticError
        There was no sum, or a wrong one.
    """
    results = [bs.simulate(case.spec, seed=seed) for seed in range(repetitions)]
    for result in results:
        if not result.exact:
            raise ArithmeticError(f"{case}: {result.fault or 'a wrong sum'}")

    def server_ms(result: bs.SimulationResult) -> float:
        # Elsewhere what other servers do in a round is in it, and what is left is the key of the job.
        three = [server.server_ms for server in result.servers] if case.spec.needs_servers else []
        return max([result.server_ms, *three])

    return Cost(
        case=case,
        party_ms=min(result.client_ms.median for result in results),
        server_ms=min(server_ms(result) for result in results),
        up_bytes=results[0].up_bytes_per_party,
        down_bytes=results[0].down_bytes_per_party,
    )


def plain_sum_ms(dim: int) -> float:
    """Milliseconds in which numpy makes the mean of float32 vectors of all parties: the median of five."""
    vectors = np.random.default_rng(0).random((PARTIES, dim), dtype=np.float32)

    def mean() -> None:
        total = vectors[0].copy()
        for vector in vectors[1:]:
            total += vector
        total /= PARTIES

    return _median_ms(mean, 5)


def _median_ms(work: Callable[[], object], times: int) -> float:
    work()
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(1000 * (time.perf_counter() - begin))
    return statistics.median(found)


def step_of(name: str) -> tuple[str, float] | None:
    """The device and the milliseconds of a step of a net; none where torch, or torchvision, is missing."""
    try:
        import torch

        from blindsum.learning import nets

        net = nets.make(name)
    except (ImportError, BlindsumError):
        return None
    # As rounds, which have one as well.
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    about = nets.NETS[name]
    shape = (BATCH, *about.shape)
    inputs = torch.randint(0, about.classes, shape) if len(about.shape) == 1 else torch.rand(shape)
    labels = torch.randint(0, about.classes, (BATCH,)).to(device)
    inputs, net = inputs.to(device), net.to(device)
    optimiser = torch.optim.SGD([one for one in net.parameters() if one.requires_grad], lr=0.01)

    def step() -> None:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimiser.step()
        if device == "cuda":
            torch.cuda.synchronize()

    on = torch.cuda.get_device_name() if device == "cuda" else "one thread of the CPU"
    return on, _median_ms(step, 5)


def steps(options: output.Options, sizes: Sizes) -> dict[str, Step]:
    """Steps of the models: measured now, or kept of the run that measured them last."""
    found = _stored(output.RESULTS / STEPS_FILE)
    for model in () if options.quick else sizes.models:
        measured = step_of(model.net)
        if measured is not None:
            found[model.net] = Step(model.net, *measured, options.run.row, is_kept=False)
    return found


def _stored(path: Path) -> dict[str, Step]:
    if not path.exists():
        return {}
    with path.open() as file:
        return {
            row["net"]: Step(
                row["net"],
                row["device"],
                float(row["step_ms"]),
                {name: row[name] for name in COLUMNS},
                is_kept=True,
            )
            for row in csv.DictReader(file)
        }


def step_row(step: Step) -> dict[str, Any]:
    """A step for a CSV file, with the origin of its own run."""
    return {"net": step.net, "device": step.device, "step_ms": step.step_ms, **step.origin}


def run(options: output.Options, sizes: Sizes) -> Found:
    """Measure everything, the shortest models first."""
    cases = [Case(model, protocol) for model in sizes.models for protocol in sizes.protocols]
    costs: dict[Case, Cost] = {}
    left_out: dict[Case, str] = {}
    measured = steps(options, sizes)
    sums = {model: plain_sum_ms(model.dim) for model in sizes.models}
    with console.progress("rounds", len(cases)) as bar:
        for done, case in enumerate(cases):
            bar.update(done, f"{case.model.name}, {case.protocol}")
            most = sizes.further * MOST.get(case.protocol, case.model.dim)
            if case.model.dim > most:
                left_out[case] = f"more than {most:,} coordinates"
                continue
            try:
                costs[case] = cost(case, sizes.repetitions if case.model.dim <= SHORT else 1)
            except bs.MemoryLimitError as error:
                left_out[case] = str(error)
    return Found(costs, left_out, sums, measured)
