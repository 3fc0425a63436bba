"""Every default of a job specification, the hash that each option gives, what is refused."""

from __future__ import annotations

from dataclasses import replace

from .job import Job, Metric, Tensor
from .said import COMMON, ENCODINGS, MECHANISMS, NOISE, PROTOCOLS, STEPS, STOPS, Option, job_hash, said

# Another value than the default, which a job of 40 parties and 15 coordinates may have beside the defaults.
OTHERS: dict[str, Option] = {
    "parties": 41,
    "dim": 16,
    "job": "tumour",
    "adversary": "semi-honest",
    "suite": "p256",
    "min_parties": 35,
    "rounds": 0,
    "corrupt": 0.07,
    "dropout": 0.2,
    "join_deadline": 0.5,
    "stage_deadline": 7.25,
    "input_deadline": 1e6,
    "model_update": "replace",
    "metrics": (Metric("accuracy", 0.0, 1.0), Metric("loss_2.val-x", -0.5, 1e30)),
    "layout": ("conv1.weight float32 2x1x3x2", "bn.weight float64 2", "scale bfloat16 1"),
    "parameters": {
        "learning_rate": 0.1,
        "epochs": 3,
        "offset": -7,
        "nesterov": True,
        "freeze": False,
        "optimiser": "sgd",
        "betas": [0.9, 0.999],
        "stages": [[1, "warm"], []],
        "one": 1.0,
        "_Zeta9": 0,
    },
    "initial": "first-party",
    "neighbours": 30,
    "threshold": 31,
    "packing": 2,
    "masking": "single",
    "key_rounds": 5,
    "key_bits": "3072",
    "exponents": "short",
    "key_minutes": 7.5,
    "order": "location",
    "decryptor": "keys.example.org",
    "density": 0.3,
    "bits": 12,
    "clip": 0.1 + 0.2,
    "clipping": "l2",
    "max_norm": 0.75,
    "rounding": "nearest",
    "max_weight": 100,
    "tensors": (Tensor("dense.weight", 12, 0.5), Tensor("", 3, 2.0)),
    "learning_rate": 0.3,
    "momentum": 0.5,
    "beta1": 0.75,
    "beta2": 0.9,
    "tau": 0.1,
}
# These need a density below 1.
SPARSE: dict[str, dict[str, Option]] = {
    "density_start": {"density_start": 0.9, "density_steps": 2},
    "density_steps": {"density_steps": 3},
    "density_rounds": {"density_rounds": 2},
    "min_contributors": {"min_contributors": 4},
    "divisor": {"divisor": "senders"},
}
# Options of a rule need that rule.
RULES: dict[str, dict[str, Option]] = {
    "rule": {"rule": "cosine"},
    "norm": {"rule": "clipped", "norm": 0.75},
    "bad": {"rule": "multi-krum", "bad": 7},
    "root": {"rule": "fltrust", "root": "hospital-a"},
    "trust": {"rule": "fltrust", "trust": "hidden"},
    "noise": {"noise": 0.25},
    "result": {"result": "parties"},
    "truncation": {"rule": "median", "truncation": "exact"},
}
# Projections need a norm.
PROVED: dict[str, dict[str, Option]] = {"bound": {"bound": "l2", "max_norm": 0.75}}
# A rule that ends a job needs a metric.
STOPPED: dict[str, dict[str, Option]] = {
    "metric": {},
    "better": {"better": "lower"},
    "patience": {"patience": 3},
    "least_gain": {"least_gain": 0.001},
}
NOISED: dict[str, dict[str, Option]] = {
    "noise_multiplier": {"noise_multiplier": 3.5},
    "epsilon": {"epsilon": 20.0},
    "delta": {"delta": 1e-7},
    "adjacency": {"adjacency": "replace"},
    "spare": {"spare": 0.5},
}
# The threshold of ramp sharing is that of sums.
RAMP_THRESHOLD = 30
BASE = Job(parties=40, dim=15)


def hashed(job: Job) -> dict[str, object]:
    """A job and its hash."""
    return {"spec": said(job), "hash": job_hash(job).hex()}


def jobs() -> list[Job]:
    """One job for every option, with another value than the default, and one with every name."""
    found = [replace(BASE, **{name: OTHERS[name]}) for name in COMMON if name in OTHERS]
    for protocol, options in PROTOCOLS.items():
        base = replace(BASE, protocol=protocol)
        found.append(base)
        for name in options:
            if name in SPARSE:
                found.append(replace(base, density=0.3, **SPARSE[name]))
            elif name in RULES | PROVED:
                found.append(replace(base, **(RULES | PROVED)[name]))
            elif name == "threshold" and protocol in ("fssa", "pss"):
                found.append(replace(base, threshold=RAMP_THRESHOLD))
            else:
                found.append(replace(base, **{name: OTHERS[name]}))
    for encoding, options in ENCODINGS.items():
        base = replace(BASE, encoding=encoding, model_update="none" if encoding == "integers" else "add")
        found.append(base)
        found += [replace(base, **{name: OTHERS[name]}) for name in options]
    for step, options in STEPS.items():
        base = replace(BASE, step=step)
        found.append(base)
        found += [replace(base, **{name: OTHERS[name]}) for name in options]
    stopped = replace(BASE, metrics=OTHERS["metrics"], stop="plateau", metric="accuracy")
    found += [replace(stopped, **STOPPED[name]) for name in STOPS["plateau"]]
    # Skellam noise has a variance of at most 2^20 steps².
    for mechanism, bits in (("discrete-gaussian", 16), ("skellam", 8)):
        noised = replace(BASE, bits=bits, clipping="l2", privacy=mechanism, noise_multiplier=1.25, delta=1e-5)
        found.append(noised)
        found += [replace(noised, **NOISED[name]) for name in NOISE]
    return found


# Job files, and what they mean to everybody who reads one.
FILES: dict[str, Job] = {
    """\
protocol = "plain"
parties = 3
dim = 20
metrics = [{ name = "loss", low = 0.0, high = 4.0 }]
stop = { metric = "loss", better = "lower", patience = 5 }
""": Job(
        protocol="plain",
        parties=3,
        dim=20,
        metrics=(Metric("loss", 0.0, 4.0),),
        stop="plateau",
        metric="loss",
        better="lower",
    ),
    'protocol = "plain"\nparties = 3\ndim = 20\nencoding = "integers"\nmin_parties = 1\n': Job(
        protocol="plain", parties=3, dim=20, encoding="integers", min_parties=1, model_update="none"
    ),
    """\
protocol = "plain"
parties = 3
layout = ["w float32 4x5"]

[parameters]
epochs = 2
decay = 1e-4
""": Job(
        protocol="plain",
        parties=3,
        dim=20,
        layout=("w float32 4x5",),
        parameters={"epochs": 2, "decay": 1e-4},
    ),
    """\
dim = 20
parties = 6
adversary = "semi-honest"
job = "tumour"
min_parties = 4

[encoding]
name = "quantised"
clip = 1
bits = 12

[protocol]
threshold = 4
name = "secagg"
""": Job(
        job="tumour",
        protocol="secagg",
        parties=6,
        dim=20,
        adversary="semi-honest",
        min_parties=4,
        bits=12,
        threshold=4,
    ),
}


def refused() -> list[dict[str, object]]:
    """Specifications to refuse, each with the field that is named."""
    base: dict[str, object] = {"protocol": "plain", "parties": 3, "dim": 4}
    plain = {"name": "plain"}
    proved = {"parties": 10, "dim": 4, "protocol": {"name": "pss-malicious", "bound": "l3"}}
    return [
        {"spec": spec, "field": field}
        for spec, field in (
            (base | {"discretion": "some"}, "discretion"),
            (base | {"privacy": "some"}, "privacy"),
            (base | {"neighbours": 20}, "neighbours"),
            (base | {"bits": 16}, "bits"),
            (base | {"protocol": plain | {"neighbours": 0}}, "protocol.neighbours"),
            (base | {"protocol": plain | {"dim": 4}}, "protocol.dim"),
            (base | {"protocol": plain | {"novelty": 1}}, "protocol.novelty"),
            (base | {"protocol": {"neighbours": 20}}, "protocol.name"),
            (base | {"protocol": {"name": "secagg", "neighbours": 20}}, "protocol.neighbours"),
            (base | {"protocol": "secagg++"}, "protocol"),
            (base | {"protocol": {"name": "novel"}}, "protocol.name"),
            (base | {"encoding": {"name": "fixed64", "bits": 16}}, "encoding.bits"),
            (base | {"encoding": {"name": "integers", "clip": 1.0}}, "encoding.clip"),
            (base | {"encoding": {"name": "quantised", "bits": "16"}}, "encoding.bits"),
            (base | {"encoding": {"name": "quantised", "bits": 16.0}}, "encoding.bits"),
            (base | {"encoding": {"name": "quantised", "bits": -1}}, "encoding.bits"),
            (base | {"encoding": {"name": "quantised", "bits": 2**32}}, "encoding.bits"),
            (base | {"encoding": None}, "encoding"),
            (base | {"step": "sgd"}, "step"),
            (base | {"step": {"momentum": 0.5}}, "step.name"),
            (base | {"step": {"name": "fedadagrad", "beta2": 0.5}}, "step.beta2"),
            (base | {"privacy": {"name": "none", "delta": 1e-5}}, "privacy.delta"),
            (base | {"privacy": {"delta": "small"}}, "privacy.delta"),
            (base | {"stop": "soon"}, "stop"),
            (base | {"stop": {"name": "never", "patience": 5}}, "stop.patience"),
            (base | {"stop": {"patience": 2.5}}, "stop.patience"),
            (base | {"stop": {"name": "plateau", "better": "more"}}, "stop.better"),
            (base | {"patience": 5}, "patience"),
            (base | {"learning_rate": 0.5}, "learning_rate"),
            (base | {"min_parties": True}, "min_parties"),
            (proved, "protocol.bound"),
            (base | {"protocol": plain | {"bound": "entries"}}, "protocol.bound"),
            (base | {"metrics": "loss"}, "metrics"),
            (base | {"metrics": ["loss"]}, "metrics.0"),
            (base | {"metrics": [{"name": "loss", "low": 0}]}, "metrics.0.high"),
            (base | {"metrics": [{"name": "loss", "low": "0", "high": 1}]}, "metrics.0.low"),
            (base | {"metrics": [{"name": "loss", "low": 0, "high": 1, "clip": 1}]}, "metrics.0.clip"),
            (base | {"layout": "w float32 4"}, "layout"),
            (base | {"layout": ["w float32 4", 5]}, "layout.1"),
            (base | {"parameters": [1]}, "parameters"),
            (base | {"parameters": {"a": None}}, "parameters.a"),
            (base | {"parameters": {"a": {"b": 1}}}, "parameters.a"),
            (base | {"parameters": {"a": [1, [None]]}}, "parameters.a.1.0"),
            (base | {"parameters": {"9a": 1}}, "parameters.9a"),
            (base | {"parameters": {"a-b": 1}}, "parameters.a-b"),
            (base | {"parameters": {"a": 2**63}}, "parameters.a"),
            (base | {"parameters": {"a": [[[[[1]]]]]}}, "parameters.a.0.0.0.0"),
            ({"protocol": "plain", "parties": 3, "layout": ["w int8 4"]}, "layout.0"),
            ({"protocol": "plain", "dim": 4}, "parties"),
            ({"protocol": "plain", "parties": 3}, "dim"),
            ({"parties": 3, "dim": 4}, "protocol"),
        )
    ]


def vectors() -> dict[str, object]:
    """Everything that goes into ``options.json``."""
    return {
        "defaults": {
            "job": {name: default for name, default in COMMON.items() if default is not None},
            "protocol": PROTOCOLS,
            "encoding": ENCODINGS,
            "step": STEPS,
            "stop": STOPS,
            "privacy": MECHANISMS,
        },
        "jobs": [hashed(job) for job in jobs()],
        "refused": refused(),
        "files": [{"toml": text, "hash": job_hash(job).hex()} for text, job in FILES.items()],
    }
