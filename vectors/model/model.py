"""Models: what follows from the means of rounds, and the hashes that name them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from hashlib import sha256

from . import aciq, wire
from .crypto import pick
from .derive import framed_hash
from .encoding import single
from .job import Job, Tensor
from .said import said
from .step import OPTIONS, Step

SMALLEST, LARGEST = 2.0**-149, single(3.4028234663852886e38)
WIDE = [0.1, -0.0, 5e-324, 1e300, 1.0]


def singles(values: list[float]) -> bytes:
    """IEEE 754 singles, little-endian."""
    return struct.pack(f"<{len(values)}f", *values)


def is_wide(job: Job) -> bool:
    """Whether means and models have double precision: where a value has more bits than a single."""
    return job.encoding != "quantised" or job.bits > 24


def reals(job: Job, values: list[float]) -> bytes:
    """IEEE 754 numbers in the precision of the job, little-endian."""
    return struct.pack(f"<{len(values)}{'d' if is_wide(job) else 'f'}", *values)


@dataclass
class Model:
    """Values with their version, the history if bounds follow from earlier rounds, the step's state."""

    job: Job
    values: list[float]
    version: int = 0

    def __post_init__(self) -> None:
        tensors = self.job.tensors or (Tensor("", self.job.dim, self.job.clip),)
        self.step = Step(self.job, len(self.values), is_wide=is_wide(self.job))
        self.history = [aciq.Tensor(t.len, t.clip) for t in tensors] if self.job.clipping == "aciq" else []

    def parts(self) -> list[bytes]:
        """What is hashed."""
        history = [bytes.fromhex(aciq.state(self.history))] if self.history else []
        state = self.step.state()
        return [reals(self.job, self.values), *history, *([reals(self.job, state)] if state else [])]

    def hash(self) -> bytes:
        """The name of the model."""
        return framed_hash("blindsum model", *self.parts())

    def take(self, mean: list[float], reached: list[int]) -> None:
        """The model after a round in which the coordinates of each tensor went so far."""
        if self.job.model_update == "none":
            return
        self.values = mean if self.job.model_update == "replace" else self.step.take(self.values, mean)
        self.version += 1
        for tensor, far in zip(self.history, reached, strict=True):
            tensor.observe(far)

    def shown(self) -> dict[str, object]:
        """What the file says of it."""
        return {"version": self.version, "bytes": b"".join(self.parts()).hex(), "hash": self.hash().hex()}


def values_of(label: str, count: int, size: float = 1.0) -> list[float]:
    """Singles around 0, of about this size."""
    digests = (sha256(f"{label}/{i}".encode()).digest() for i in range(count))
    return [single(size * (int.from_bytes(digest[:8], "little") / 2**63 - 1.0)) for digest in digests]


def fine(label: str, count: int = 5) -> list[float]:
    """Numbers around 0 that are no singles."""
    digests = (sha256(f"{label}/{i}".encode()).digest() for i in range(count))
    return [int.from_bytes(digest[:8], "little") / 2**63 - 1.0 for digest in digests]


def grown(job: Job, first: list[float], means: list[tuple[list[int], list[float]]]) -> dict[str, object]:
    """A model and those after it, by how far coordinates went in each round, and the mean."""
    model = Model(job, first)
    start, rounds = model.shown(), []
    for reached, mean in means:
        model.take(mean, reached)
        rounds.append({"reached": reached, "mean": reals(job, mean).hex(), "model": model.shown()})
    return {"spec": said(job), "first": start, "rounds": rounds}


def stepped(job: Job) -> list[dict[str, object]]:
    """Three rounds with every server step, in both precisions, beside a history, and with other options."""
    means = [values_of("one", 5, 0.1), values_of("two", 5, 1e-3), [0.0, -0.0, SMALLEST, 0.5, 2.0**-25]]
    plain, first = [([], mean) for mean in means], values_of("stepped", 5)
    doubles = [([], fine(label)) for label in ("one", "two", "three")]
    learnt = [([far], mean) for far, mean in zip((1, 0, 2), means, strict=True)]
    others = {"learning_rate": 0.3, "momentum": 0.5, "beta1": 0.5, "beta2": 0.75, "tau": 0.25}
    found = [grown(replace(job, learning_rate=0.1), first, plain)]
    for step, options in OPTIONS.items():
        of = replace(job, step=step)
        given = {name: others[name] for name in ("learning_rate", *options)}
        found += [grown(of, first, plain), grown(replace(of, **given), first, plain)]
        found += [
            grown(replace(of, bits=25), WIDE, doubles),
            grown(replace(of, clipping="aciq"), first, learnt),
        ]
    return found


def hidden(job: Job, first: list[float]) -> dict[str, object]:
    """Names of the models after the first one, where only the parties learn their values."""
    model = Model(job, first)
    start, name, rounds = model.shown(), model.hash(), []
    for number in range(3):
        label = f"{job.job}/{number}"
        told = wire.frame(pick(f"{label}/context"), 0, pick(f"{label}/body", 3 + 40 * number))
        name = framed_hash("blindsum hidden model", name, told)
        rounds.append({"told": told.hex(), "version": number + 1, "hash": name.hex()})
    return {"spec": said(job), "first": start, "rounds": rounds}


def vectors() -> dict[str, object]:
    """Everything that goes into ``model.json``."""
    job = Job(job="model", protocol="plain", dim=5)
    tensors = (Tensor("a", 3, 1.0), Tensor("b", 20, 0.5))
    powers = replace(job, dim=23, tensors=tensors, clipping="aciq", bits=6)
    edges = [0.0, -0.0, SMALLEST, LARGEST, 1.0]
    zeros = [0.0] * 23
    flashe = Job(job="hidden", protocol="flashe", dim=5)
    return {
        "models": [
            grown(job, edges, [([], [-0.0, -0.0, SMALLEST, -1.0, 2.0**-25]), ([], values_of("add", 5))]),
            grown(replace(job, model_update="replace"), edges, [([], values_of("replace", 5))]),
            grown(replace(job, model_update="none"), [], [([], values_of("none", 5))]),
            grown(replace(job, model_update="none"), edges, [([], values_of("none", 5))]),
            grown(
                powers,
                zeros,
                [
                    ([2, 0], values_of("one", 23)),
                    ([1, 4], values_of("two", 23, 0.01)),
                    ([3, 1], [*zeros[3:], 0.5, 0.25, 0.125]),
                ],
            ),
            grown(replace(job, clipping="aciq"), edges, [([1], values_of("whole", 5))]),
            grown(replace(job, bits=24), edges, [([], values_of("narrow", 5))]),
            grown(replace(job, bits=25), WIDE, [([], fine("wide")), ([], fine("wider"))]),
            grown(
                replace(job, bits=32, clipping="aciq"), WIDE, [([0], fine("history")), ([4], fine("more"))]
            ),
            grown(replace(job, encoding="fixed64", model_update="replace"), WIDE, [([], fine("fixed"))]),
            *stepped(job),
        ],
        "hidden": [
            hidden(flashe, values_of("hidden", 5)),
            hidden(replace(flashe, clipping="aciq"), [0.0] * 5),
            hidden(replace(flashe, model_update="none"), []),
            hidden(replace(flashe, step="fedadam"), values_of("hidden", 5)),
        ],
    }
