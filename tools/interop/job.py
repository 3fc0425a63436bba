"""The specification of a job: docs/options.md, and "The job specification" of docs/wire.md."""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from typing import Any

import derive
from encoding import Quantised


class BadJob(ValueError):
    """A job that breaks a rule, or has something this client does not know."""


@dataclass(frozen=True)
class Option:
    """What an option may be: `kind` is text, choice, whole, real, tensors or metrics."""

    kind: str
    default: Any = None
    low: float = 0
    high: float = 2**32 - 1
    above: bool = False  # low itself is not allowed
    below: bool = False  # high itself is not allowed
    choices: tuple[str, ...] = ()


def _seconds(default: float) -> Option:
    return Option("real", default, 0, 1e6, above=True)


CLIP = Option("real", 1.0, 1e-100, 1e100)
NORM = Option("real", 0.0, 0, 1e100)
WEIGHT = Option("whole", 1, 1)
COUNT = Option("whole", 0)
DENSITY = Option("real", 1.0, 0, 1, above=True)
TENSORS = Option("tensors", [])
JOB: dict[str, Option] = {
    "parties": Option("whole", None, 1, 100_000),
    "dim": Option("whole", None, 1, 2**32),
    "job": Option("text", "job"),
    "adversary": Option("choice", "active", choices=("semi-honest", "active")),
    "suite": Option("choice", "x25519", choices=("x25519", "p256")),
    "min_parties": COUNT,
    "rounds": Option("whole", 1),
    "corrupt": Option("real", 0.1, 0, 1, below=True),
    "dropout": Option("real", 0.1, 0, 1, below=True),
    "join_deadline": _seconds(60.0),
    "stage_deadline": _seconds(30.0),
    "input_deadline": _seconds(600.0),
    "model_update": Option("choice", None, choices=("add", "replace", "none")),
    "metrics": Option("metrics", []),
    "initial": Option("choice", "coordinator", choices=("coordinator", "zeros", "first-party")),
}
ETA = {value: Option("real", value, 0, 1e6, above=True) for value in (1.0, 0.01, 0.1)}
TAU = Option("real", 0.001, 1e-12, 1e3)


def _part(default: float) -> Option:
    return Option("real", default, 0, 1, below=True)


ADAM = {"learning_rate": ETA[0.01], "beta1": _part(0.9), "beta2": _part(0.99), "tau": TAU}
RAMP = {"threshold": COUNT, "packing": COUNT}
CHOSEN: dict[str, dict[str, dict[str, Option]]] = {
    "protocol": {
        "plain": {},
        "secagg": {"threshold": COUNT},
        "secagg+": {"neighbours": COUNT, "threshold": COUNT},
        "fssa": RAMP,
        "pss": RAMP,
        "flashe": {
            "masking": Option("choice", "cheaper", choices=("cheaper", "double", "single")),
            "key_rounds": COUNT,
            "density": DENSITY,
            "density_start": DENSITY,
            "density_steps": COUNT,
            "density_rounds": Option("whole", 1, 1),
            "min_contributors": COUNT,
            "divisor": Option("choice", "parties", choices=("parties", "senders")),
        },
        "mpc3": {},
    },
    "encoding": {
        "quantised": {
            "bits": Option("whole", 16, 2, 32),
            "clip": CLIP,
            "clipping": Option("choice", "tensor", choices=("tensor", "l2", "aciq")),
            "max_norm": NORM,
            "rounding": Option("choice", "stochastic", choices=("stochastic", "nearest")),
            "max_weight": WEIGHT,
            "tensors": TENSORS,
        },
        "fixed64": {"clip": CLIP, "max_weight": WEIGHT, "tensors": TENSORS},
        "integers": {"bits": Option("whole", 16, 1, 64), "max_weight": WEIGHT},
    },
    "step": {
        "fedavg": {"learning_rate": ETA[1.0]},
        "fedavgm": {"learning_rate": ETA[1.0], "momentum": _part(0.9)},
        "fedadam": ADAM,
        "fedyogi": ADAM,
        "fedadagrad": {"learning_rate": ETA[0.1], "beta1": _part(0.0), "tau": TAU},
    },
    "stop": {
        "never": {},
        "plateau": {
            "metric": Option("text", ""),
            "better": Option("choice", "higher", choices=("higher", "lower")),
            "patience": Option("whole", 5),
            "least_gain": Option("real", 0.0, 0, math.inf, below=True),
        },
    },
}
USUAL = {"encoding": "quantised", "step": "fedavg", "stop": "never"}
# The names of these are said only where they are others, or have an option with another value.
QUIET = ("step", "stop")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise BadJob("a name stands twice in an object")
    return result


def _no_constant(text: str) -> float:
    raise BadJob(f"{text} is no number of a job")


def _value(name: str, option: Option, value: Any) -> Any:
    """A value as its option's type has it."""
    if option.kind == "choice":
        if value not in option.choices:
            raise BadJob(f"{name}: {value!r} is none of {', '.join(option.choices)}")
        return value
    if option.kind == "text":
        if not isinstance(value, str) or not re.fullmatch(r"(?!\.+$)[a-z0-9._-]{1,64}", value):
            raise BadJob(f"{name}: {value!r} is no name of a job")
        return value
    if option.kind == "tensors":
        return _tensors(name, value)
    if option.kind == "metrics":
        return _metrics(name, value)
    numbers = (int,) if option.kind == "whole" else (int, float)
    if isinstance(value, bool) or not isinstance(value, numbers):
        raise BadJob(f"{name}: {value!r} is not a {option.kind} number")
    result = value if option.kind == "whole" else float(value)
    outside = result < option.low or result > option.high or not math.isfinite(result)
    if outside or (option.above and result == option.low) or (option.below and result == option.high):
        raise BadJob(f"{name}: {value} is out of range")
    return result


def _tensors(name: str, value: Any) -> list[tuple[str, int, float]]:
    if not isinstance(value, list):
        raise BadJob(f"{name}: not a list")
    result = []
    for at, tensor in enumerate(value):
        if not isinstance(tensor, dict) or set(tensor) != {"name", "len", "clip"}:
            raise BadJob(f"{name}.{at}: a tensor has name, len and clip")
        if not isinstance(tensor["name"], str):
            raise BadJob(f"{name}.{at}.name: not a text")
        length = _value(f"{name}.{at}.len", Option("whole", None, 1), tensor["len"])
        result.append((tensor["name"], length, _value(f"{name}.{at}.clip", CLIP, tensor["clip"])))
    return result


def _metrics(name: str, value: Any) -> list[tuple[str, float, float]]:
    if not isinstance(value, list) or len(value) > 64:
        raise BadJob(f"{name}: not a list of 64 metrics at most")
    result: list[tuple[str, float, float]] = []
    for at, metric in enumerate(value):
        if not isinstance(metric, dict) or set(metric) != {"name", "low", "high"}:
            raise BadJob(f"{name}.{at}: a metric has name, low and high")
        named = metric["name"]
        if not isinstance(named, str) or not re.fullmatch(r"[a-z0-9_.-]{1,64}", named):
            raise BadJob(f"{name}.{at}.name: {named!r} is no name of a metric")
        if any(named == other for other, _, _ in result):
            raise BadJob(f"{name}.{at}.name: {named!r} stands twice")
        end = Option("real", None, -math.inf, math.inf)
        low, high = (_value(f"{name}.{at}.{key}", end, metric[key]) for key in ("low", "high"))
        if not low < high or not math.isfinite(high - low):
            raise BadJob(f"{name}.{at}.high: low < high must hold, with a finite distance")
        result.append((named, low, high))
    return result


def _parts(kind: str, value: Any) -> list[bytes]:
    """The parts of the job hash that say a value."""
    if kind in ("text", "choice"):
        return [b"t" + value.encode()]
    if kind == "whole":
        return [b"n" + derive.u64(value)]
    if kind == "real":
        return [b"r" + struct.pack(">d", value)]
    parts = [b"l" + derive.u64(len(value))]
    second = "whole" if kind == "tensors" else "real"
    for name, one, other in value:
        parts += _parts("text", name) + _parts(second, one) + _parts("real", other)
    return parts


def _ceil(number: float) -> int:
    down = math.floor(number)
    return down if number - down <= 1e-9 else down + 1


def _floor(number: float) -> int:
    up = math.ceil(number)
    return up if up - number <= 1e-9 else up - 1


class Job:
    """A job with all of its options, and its hash."""

    def __init__(self, said: Any) -> None:
        """From the object that says the job; `Job.read` takes its text."""
        if not isinstance(said, dict):
            raise BadJob("a job is an object")
        said = dict(said)
        self.options: dict[str, Any] = {}
        kinds: dict[str, tuple[str, Any]] = {}
        for place, alternatives in CHOSEN.items():
            chosen = said.pop(place, USUAL.get(place))
            self._choose(place, alternatives, chosen, kinds)
        none = "none" if self.options["encoding"] == "integers" else "add"
        for name, option in JOB.items():
            default = none if name == "model_update" else option.default
            value = said.pop(name, default)
            if value is None:
                raise BadJob(f"{name} must be said")
            self.options[name] = _value(name, option, value)
            kinds[name] = (option.kind, default)
        for name in said:
            raise BadJob(f"{name} is no field of a job")
        self._rules()
        parts = []
        for name in sorted(kinds, key=lambda name: name.encode()):
            kind, default = kinds[name]
            value = _parts(kind, self.options[name])
            if name in QUIET and any(
                self.options[option] != kinds[option][1] for option in kinds if option.startswith(f"{name}.")
            ):
                default = None
            if default is None or value != _parts(kind, default):
                parts += [name.encode(), *value]
        self.hash = derive.h("blindsum job", *parts)

    @staticmethod
    def read(text: str) -> Job:
        try:
            return Job(json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant))
        except json.JSONDecodeError as error:
            raise BadJob(f"not JSON: {error}") from error

    def _choose(
        self,
        place: str,
        alternatives: dict[str, dict[str, Option]],
        chosen: Any,
        kinds: dict[str, tuple[str, Any]],
    ) -> None:
        options: dict[str, Any] = {}
        where = place
        if isinstance(chosen, dict):
            options = dict(chosen)
            chosen = options.pop("name", None)
            where = f"{place}.name"
        if not isinstance(chosen, str) or chosen not in alternatives:
            raise BadJob(f"{where}: {chosen!r} is none of {', '.join(alternatives)}")
        self.options[place] = chosen
        kinds[place] = ("choice", USUAL[place] if place in QUIET else None)
        for name, option in alternatives[chosen].items():
            full = f"{place}.{name}"
            self.options[full] = _value(full, option, options.pop(name, option.default))
            kinds[full] = (option.kind, option.default)
        for name in options:
            raise BadJob(f"{place}.{name} is no option of {chosen}")

    def _rules(self) -> None:
        """The rules that look at several options, as far as this client takes such jobs."""
        asked = self["min_parties"]
        if asked > self.parties:
            raise BadJob("min_parties: more than parties")
        guarded = self.active and self.protocol not in ("plain", "flashe")
        if guarded and 0 < asked < self.corrupt + 2:
            raise BadJob(f"min_parties: {asked} is below {self.corrupt + 2}")
        if self.protocol == "mpc3" and 0 < asked < 3:
            raise BadJob(f"min_parties: {asked} is below 3")
        if self["encoding"] == "integers" and self["model_update"] != "none":
            raise BadJob("model_update: integers need none")
        tensors = self.options.get("encoding.tensors")
        if tensors and sum(tensor[1] for tensor in tensors) != self["dim"]:
            raise BadJob("encoding.tensors: their lengths are not dim")
        if tensors and self.options.get("encoding.clipping") == "l2":
            raise BadJob("encoding.tensors: l2 bounds the whole vector")
        if self.options.get("encoding.max_norm"):
            self._norm_rules(bool(tensors))
        if guarded and self.parties < self.corrupt + 2:
            raise BadJob(f"parties: {self.parties} are fewer than {self.corrupt + 2}")
        if self["encoding"] == "quantised":
            top = self["encoding.max_weight"] * (2 ** self["encoding.bits"] - 1)
            if top >= 2**52:
                raise BadJob("encoding.max_weight: words would not be exact doubles")

    def _norm_rules(self, tensors: bool) -> None:
        """The rules of a bound on what is sent."""
        if self["encoding.clipping"] != "tensor" or tensors:
            raise BadJob("encoding.max_norm: only where one clip bounds all coordinates")
        if self.quantised().norm_bound() <= 0:
            raise BadJob("encoding.max_norm: rounding alone may reach it")

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    @property
    def protocol(self) -> str:
        return str(self["protocol"])

    @property
    def parties(self) -> int:
        return int(self["parties"])

    @property
    def active(self) -> bool:
        return bool(self["adversary"] == "active")

    @property
    def commits(self) -> bool:
        """Whether parties commit to their nonces."""
        return self.protocol == "secagg+" and self.active

    @property
    def corrupt(self) -> int:
        """c: how many parties count as corrupt."""
        return max(_ceil(self["corrupt"] * self.parties), 1)

    @property
    def min_parties(self) -> int:
        """As said, or the default of the protocol: docs/wire-derivations.md, "Numbers"."""
        if self["min_parties"]:
            return int(self["min_parties"])
        if self.protocol == "plain":
            return 1
        fewest = self.corrupt + 2 if self.active else 2
        if self.protocol == "flashe":
            return max(min(fewest, self.parties), 2)
        if self.protocol == "mpc3":
            return max(fewest, 3)
        left = self.parties - _floor(self["dropout"] * self.parties)
        if self.protocol in ("secagg", "secagg+"):
            most = 2 * self.parties // 3 + 1 if self.active else self.parties // 2 + 1
            left = min(max(most, self["protocol.threshold"]), left)
        return max(left, fewest)

    def dropped(self, members: int) -> int:
        """d: how many members a round may lose."""
        return max(min(_floor(self["dropout"] * members), members - self.min_parties), 0)

    def quantised(self) -> Quantised:
        """The encoding, where this client speaks it."""
        if self["encoding"] != "quantised" or self["encoding.clipping"] == "aciq":
            raise BadJob("encoding: this client speaks quantised only, and no aciq")
        if self["step"] != "fedavg" or self["step.learning_rate"] != 1.0:
            raise BadJob("step: this client adds the mean as it is")
        return Quantised(
            dim=self["dim"],
            parties=self.parties,
            bits=self["encoding.bits"],
            clip=self["encoding.clip"],
            clipping=self["encoding.clipping"],
            max_norm=self["encoding.max_norm"],
            rounding=self["encoding.rounding"],
            max_weight=self["encoding.max_weight"],
            tensors=tuple((length, clip) for _, length, clip in self["encoding.tensors"]),
            metrics=len(self["metrics"]),
        )
