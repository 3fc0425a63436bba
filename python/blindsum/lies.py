"""How parties can lie in a simulation."""

from typing import Literal, TypeAlias, get_args

Lie: TypeAlias = Literal[
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
"""A kind of lie."""

LIES: tuple[str, ...] = get_args(Lie)
"""All kinds of lies."""
