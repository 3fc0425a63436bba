"""How corrupt parties can misbehave in a simulation."""

from typing import Literal, TypeAlias, get_args

Misbehaviour: TypeAlias = Literal[
    "bad-degree",
    "non-bit",
    "wrong-square",
    "out-of-bound",
    "cancelling-pair",
    "wrong-norm",
    "wrong-share",
    "lying-verifier",
    "mass-accuser",
    "silent-discloser",
    "lying-aggregator",
    "equivocator",
    "mixed",
]
"""A kind of misbehaviour."""

MISBEHAVIOURS: tuple[str, ...] = get_args(Misbehaviour)
"""All kinds of misbehaviour."""
