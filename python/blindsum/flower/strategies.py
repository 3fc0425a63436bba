"""Which strategies of Flower work with a mean alone."""

from __future__ import annotations

from typing import Any

from blindsum.errors import ConfigError
from blindsum.flower.texts import warn_once

WORKS = (
    *("FedAvg", "FedAvgM", "FedOpt", "FedAdagrad", "FedAdam", "FedYogi", "FedProx"),
    "DifferentialPrivacyClientSideFixedClipping",
)
"""Strategies that need nothing but the weighted mean of arrays and metrics."""

_SINGLE = "it compares or sorts the updates of single nodes"
_RULES = "the servers of mpc3 do that without seeing one, as rule = 'multi-krum' or 'trimmed-mean' of a job"
_CLIPS = "it clips the update of each node at the server"

REFUSED = {
    "Krum": (_SINGLE, _RULES),
    "MultiKrum": (_SINGLE, _RULES),
    "Bulyan": (_SINGLE, _RULES),
    "FedMedian": (_SINGLE, _RULES),
    "FedTrimmedAvg": (_SINGLE, _RULES),
    "QFedAvg": ("it weighs each node by its own loss at the server", "FedAvg, FedProx"),
    "FedXgbBagging": ("it puts the trees of single nodes side by side, which is no mean", "FedAvg on a net"),
    "FedXgbCyclic": ("it hands the trees of one node to the next, which is no mean", "FedAvg on a net"),
    "DifferentialPrivacyServerSideFixedClipping": (
        _CLIPS,
        "DifferentialPrivacyClientSideFixedClipping, and fixedclipping_mod after blindsum.flower.mod()",
    ),
    "DifferentialPrivacyServerSideAdaptiveClipping": (
        _CLIPS,
        "DifferentialPrivacyClientSideFixedClipping, and fixedclipping_mod after blindsum.flower.mod()",
    ),
    "DifferentialPrivacyClientSideAdaptiveClipping": (
        "it counts a bit of each node at the server",
        "DifferentialPrivacyClientSideFixedClipping, and fixedclipping_mod after blindsum.flower.mod()",
    ),
}
"""Strategies that look at single updates, by name: why, and what does the same with a mean."""


def check(strategy: Any) -> None:
    """Refuse a strategy that looks at single updates, also one inside a wrapper, before anything is sent.

    Subclasses count as the class that they are of. Of a strategy that is in neither list the log says once
    that it gets one reply.

    Raises
    ------
    blindsum.ConfigError
        Such a strategy; ``field`` is ``"strategy"``.
    """
    from flwr.serverapp import strategy as known

    if strategy is None:
        warn_once(
            "strategy",
            "SecureGrid does not know the strategy and cannot check it: one that uses single updates "
            "(Krum, medians, clipping at the server) gets one reply with the mean of all nodes; give "
            "strategy=strategy",
        )
        return
    for name, (reason, way) in REFUSED.items():
        # Versions of Flower differ in what they have.
        kind = getattr(known, name, None)
        if kind is not None and isinstance(strategy, kind):
            rule = f"{type(strategy).__name__} cannot work on a sum: {reason}. Use instead: {way}"
            raise ConfigError("strategy", rule)
    if not _is_known(strategy):
        warn_once(
            f"strategy {type(strategy).__qualname__}",
            "the strategy %s is not one that Blindsum knows: it gets one reply with the weighted mean of all "
            "nodes, in place of a reply of each",
            type(strategy).__name__,
        )
    inner = getattr(strategy, "strategy", None)
    if inner is not None:
        check(inner)


def weighted_by(strategy: Any) -> str:
    """The key of the metric that is the weight of a reply, ``"num-examples"`` unless the strategy says it."""
    while (inner := getattr(strategy, "strategy", None)) is not None:
        strategy = inner
    return str(getattr(strategy, "weighted_by_key", "num-examples"))


def counts_replies(strategy: Any) -> bool:
    """Whether the strategy compares the number of replies with that of the nodes."""
    return hasattr(strategy, "num_sampled_clients")


def _is_known(strategy: Any) -> bool:
    """Whether it is one of Flower's own: a subclass may do something else."""
    kind = type(strategy)
    return kind.__name__ in WORKS and kind.__module__.startswith("flwr.")
