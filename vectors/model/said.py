"""What a job specification says: its fields and options, their defaults, the part that travels, its hash."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .derive import framed_hash

if TYPE_CHECKING:
    from .job import Job

Option = str | int | float | tuple[object, ...] | dict[str, object]

PAILLIER: dict[str, Option] = {
    "key_bits": "2048",
    "exponents": "full",
    "key_rounds": 0,
    "key_minutes": 0.0,
    "order": "name",
    "decryptor": "",
}

# What every job has; None where the job must say it. A default is never changed: it would change hashes.
COMMON: dict[str, Option | None] = {
    "protocol": None,
    "parties": None,
    "dim": None,
    "job": "job",
    "adversary": "active",
    "suite": "x25519",
    "min_parties": 0,
    "rounds": 1,
    "encoding": "quantised",
    "corrupt": 0.1,
    "dropout": 0.1,
    "join_deadline": 60.0,
    "stage_deadline": 30.0,
    "input_deadline": 600.0,
    "model_update": "add",
    "metrics": (),
    "layout": (),
    "parameters": {},
    "step": "fedavg",
    "initial": "coordinator",
    "stop": "never",
    "privacy": "none",
}
PROTOCOLS: dict[str, dict[str, Option]] = {
    "plain": {},
    "secagg": {"threshold": 0},
    "secagg+": {"neighbours": 0, "threshold": 0},
    "fssa": {"threshold": 0, "packing": 0},
    "pss": {"threshold": 0, "packing": 0},
    "pss-malicious": {"packing": 0, "bound": "entries"},
    "flashe": {
        "masking": "cheaper",
        "key_rounds": 0,
        "density": 1.0,
        "density_start": 1.0,
        "density_steps": 0,
        "density_rounds": 1,
        "min_contributors": 0,
        "divisor": "parties",
    },
    "mpc3": {
        "rule": "fedavg",
        "norm": 0.0,
        "bad": 0,
        "root": "root",
        "trust": "shown",
        "noise": 0.0,
        "result": "both",
        "truncation": "probabilistic",
    },
    "paillier-ring": PAILLIER,
    "paillier-broadcast": PAILLIER,
    "paillier-allreduce": PAILLIER,
}
ENCODINGS: dict[str, dict[str, Option]] = {
    "quantised": {
        "bits": 16,
        "clip": 1.0,
        "clipping": "tensor",
        "max_norm": 0.0,
        "rounding": "stochastic",
        "max_weight": 1,
        "tensors": (),
    },
    "fixed64": {"clip": 1.0, "max_weight": 1, "tensors": ()},
    "integers": {"bits": 16, "max_weight": 1},
}
STEPS: dict[str, dict[str, Option]] = {
    "fedavg": {"learning_rate": 1.0},
    "fedavgm": {"learning_rate": 1.0, "momentum": 0.9},
    "fedadam": {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 0.001},
    "fedyogi": {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 0.001},
    "fedadagrad": {"learning_rate": 0.1, "beta1": 0.0, "tau": 0.001},
}
STOPS: dict[str, dict[str, Option]] = {
    "never": {},
    "plateau": {"metric": "", "better": "higher", "patience": 5, "least_gain": 0.0},
}
NOISE: dict[str, Option] = {
    "noise_multiplier": 0.0,
    "epsilon": 0.0,
    "delta": 0.0,
    "adjacency": "zero-out",
    "spare": 0.1,
}
MECHANISMS: dict[str, dict[str, Option]] = {"none": {}, "discrete-gaussian": NOISE, "skellam": NOISE}
CHOICES = {
    "protocol": PROTOCOLS,
    "encoding": ENCODINGS,
    "step": STEPS,
    "stop": STOPS,
    "privacy": MECHANISMS,
}
# A choice that is said only where its name or one of its options is another one.
QUIET = {"step", "stop", "privacy"}


def default_of(job: Job, name: str) -> Option | None:
    """Default of a field that every job has."""
    return "none" if name == "model_update" and job.encoding == "integers" else COMMON[name]


def dotted(job: Job) -> dict[str, Option]:
    """What differs from its default, by dotted name; the names of protocol and encoding always.

    Those of the step and the stop only where they or one of their options differ.
    """
    said = {name: getattr(job, name) for name in COMMON if getattr(job, name) != default_of(job, name)}
    said |= {f"parameters.{name}": value for name, value in said.pop("parameters", {}).items()}
    for choice, tables in CHOICES.items():
        name = getattr(job, choice)
        options = {option: job.option(choice, option) for option in tables[name]}
        others = {option: value for option, value in options.items() if value != tables[name][option]}
        if choice not in QUIET or others or name != COMMON[choice]:
            said[choice] = name
        said |= {f"{choice}.{option}": value for option, value in others.items()}
    return said


def said(job: Job) -> dict[str, object]:
    """The part that travels, as JSON writes it."""
    fields: dict[str, object] = {}
    for name, value in sorted(dotted(job).items()):
        choice, dot, option = name.partition(".")
        written = value
        if isinstance(value, tuple):
            written = [entry if isinstance(entry, str) else vars(entry) for entry in value]
        if not dot:
            fields[name] = written
            continue
        if choice == "parameters":
            fields.setdefault(choice, {})[option] = value
            continue
        chosen = fields[choice]
        table = chosen if isinstance(chosen, dict) else {"name": chosen}
        table[option] = written
        fields[choice] = table
    return fields


def job_hash(job: Job) -> bytes:
    """Each dotted name, in the order of their bytes, and what it says."""
    entries = sorted((name.encode(), value) for name, value in dotted(job).items())
    return framed_hash("blindsum job", *(part for name, value in entries for part in (name, *parts(value))))


def parts(value: object) -> list[bytes]:
    """Parts that a value adds to the hash, led by a letter for its kind."""
    if isinstance(value, str):
        return [b"t" + value.encode("utf-8")]
    if isinstance(value, bool):
        return [b"b" + bytes([value])]
    if isinstance(value, int):
        return [
            b"n" + value.to_bytes(8, "big") if value >= 0 else b"i" + value.to_bytes(8, "big", signed=True)
        ]
    if isinstance(value, float):
        return [b"r" + struct.pack(">d", value)]
    assert isinstance(value, (tuple, list))
    # A tensor or a metric is its parts; anything else in a list is one.
    items = [item for one in value for item in (vars(one).values() if hasattr(one, "__dict__") else [one])]
    return [b"l" + len(value).to_bytes(8, "big"), *(part for item in items for part in parts(item))]
