"""Grids of experiments that papers made, for ``blindsum experiments``. Each axis may be replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FSSA = {"adversary": "semi-honest", "suite": "p256"}
"""What all jobs of FSSA §VII are: parties are semi-honest, with keys of P-256."""

SEMI_HONEST = "adversary=semi-honest"
"""As an option of a protocol in a grid, where not all protocols have the choice."""

EVERY = (
    *("plain", "secagg", "secagg+", "fssa", "pss", "pss-malicious", "flashe", "mpc3"),
    *("paillier-ring", "paillier-broadcast", "paillier-allreduce"),
)

PAILLIER = ("paillier-ring", "paillier-broadcast", "paillier-allreduce")


@dataclass(frozen=True)
class Experiment:
    """A grid with a name.

    Attributes
    ----------
    source : str
        Where it comes from.
    about : str
        What it shows.
    grid : mapping
        Arguments of :func:`blindsum.sweep`.
    module : str
        The module of a checkout whose page sets such numbers beside those of the source.
    """

    source: str
    about: str
    grid: Mapping[str, Any]
    module: str


EXPERIMENTS = {
    "fssa-parties": Experiment(
        "FSSA §VII, cases 1 and 3",
        "time and bytes against the number of parties",
        {
            "protocol": ["fssa"],
            "parties": [20, 50, 100, 200, 350, 500],
            "dim": [10_000],
            "drop": [0.3],
            "settings": {**FSSA, "corrupt": 0.2, "dropout": 0.3},
        },
        "fssa",
    ),
    "fssa-dim": Experiment(
        "FSSA §VII, cases 2 and 4",
        "time and bytes against the number of coordinates",
        {
            "protocol": ["fssa"],
            "parties": [100],
            "dim": [1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000],
            "drop": [0.3],
            "settings": {**FSSA, "corrupt": 0.2, "dropout": 0.3},
        },
        "fssa",
    ),
    "fssa-secagg": Experiment(
        "FSSA §VII-E",
        "where fssa costs less than secagg and secagg+",
        {
            "protocol": ["fssa", "secagg", "secagg+"],
            "parties": [20, 50, 100, 200, 500],
            "dim": [1_000, 10_000, 100_000],
            "drop": [0.1],
            "settings": {"adversary": "semi-honest", "corrupt": 0.1, "dropout": 0.1},
        },
        "fssa_secagg",
    ),
    "pss-rounds": Experiment(
        "Y. Zhang, thesis on packed secret sharing (Rochester, 2025), Table I",
        "rounds of 40 and 100 parties with 64-bit inputs, in one process",
        {
            "protocol": ["pss"],
            "parties": [40, 100],
            "dim": [200, 600, 1_000],
            "settings": {"adversary": "semi-honest", "encoding": "fixed64", "suite": "p256"},
        },
        "pss_rounds",
    ),
    "three-servers": Experiment(
        "B. Akhtar, thesis on three servers (Virginia Tech, 2024), Figures 5.1 and 5.2",
        "work of parties and servers against the number of parties, by rule",
        {
            "protocol": ["mpc3:rule=fedavg", "mpc3:rule=fltrust:bits=14"],
            "parties": [4, 8, 16, 32, 64],
            "dim": [100_000],
        },
        "mpc_tables",
    ),
    "mystiko": Experiment(
        "MYSTIKO, Tables I and II",
        "Paillier's scheme in a ring, by broadcast and by all-reduce, beside other protocols; short vectors",
        {
            "protocol": [
                *PAILLIER,
                *(f"{name}:{SEMI_HONEST}" for name in ("mpc3", "secagg+")),
                "flashe",
                "plain",
            ],
            "parties": [2, 3, 5, 10, 20, 40],
            "dim": [25_000],
            "latency": [0.01],
        },
        "mystiko",
    ),
    "accuracy": Experiment(
        "none; FLASHE, Figure 9, and the thesis on three servers, Table 5.21, compare such trainings",
        "by how much a round's mean is off, for every protocol",
        {
            "protocol": [*EVERY],
            "parties": [6],
            "dim": [2_410, 7_850],
            "settings": {"clip": 2.0},
        },
        "accuracy",
    ),
    "overhead": Experiment(
        "FLASHE §6.2 and the thesis on three servers: sizes of their models",
        "a round of the models' sizes with every protocol that takes minutes at most",
        {
            "protocol": [
                *("plain", "secagg", "secagg+", "fssa", "pss", "flashe"),
                *(f"mpc3:adversary={adversary}" for adversary in ("semi-honest", "active")),
            ],
            "parties": [10],
            "dim": [61_706, 269_722, 661_075, 1_206_590],
            "settings": {"model_update": "none"},
        },
        "overhead",
    ),
    "robust-rules": Experiment(
        "the thesis on three servers, §2.1.3 and its FLTrust; Cao et al. (2021)",
        "a round of every rule as training under attack has it; without attackers",
        {
            "protocol": [
                *(f"mpc3:rule={rule}" for rule in ("fedavg", "clipped", "fltrust", "cosine", "median")),
                *(f"mpc3:rule={rule}:bad=4" for rule in ("krum", "multi-krum", "trimmed-mean")),
            ],
            "parties": [20],
            "dim": [2_410],
            "settings": {"adversary": "semi-honest", "clip": 2.5, "clipping": "l2"},
        },
        "robust_training",
    ),
    "flashe-sparse": Experiment(
        "FLASHE §6.4, Figures 10 and 11",
        "a sparse round beside dense ones, in the clear and with Paillier's scheme",
        {
            "protocol": ["plain", "flashe", "flashe:density=0.1", "paillier-broadcast"],
            "parties": [10],
            "dim": [270_000],
            "settings": {"model_update": "none"},
        },
        "flashe_training",
    ),
    "thesis-workers": Experiment(
        "the thesis on three servers, Figures 5.8 and 5.9",
        "a round of its trainings by number of workers; its accuracy needs data",
        {
            "protocol": ["mpc3"],
            "parties": [4, 8, 16, 32],
            "dim": [2_410, 25_450],
            "settings": {"adversary": "semi-honest", "clip": 2.0},
        },
        "thesis_skew",
    ),
    "links": Experiment(
        "none; what messages wait in the rounds that `python -m experiments.links` measures",
        "a round by protocol and latency, in virtual time",
        {
            "protocol": ["plain", "secagg+", "pss", "flashe", "mpc3"],
            "parties": [6],
            "dim": [61_706],
            "latency": [0.0, 0.01, 0.05],
            "settings": {"model_update": "none"},
        },
        "links",
    ),
}
"""By name."""
