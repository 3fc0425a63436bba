"""Secure sums in jobs of NVFlare: a filter for sites, an aggregator for the server. Extra: ``nvflare``.

::

    recipe = FedAvgRecipe(aggregator=blindsum.nvflare.SecureAggregator(clip=0.5), …)
    blindsum.nvflare.secure(recipe)

Sites add their updates up over Blindsum's own connection, and the server gets the weighted mean. Training
code that owns its loop may call :func:`aggregate` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blindsum.nvflare.jobs import secure
from blindsum.nvflare.loops import aggregate

if TYPE_CHECKING:
    from blindsum.nvflare.aggregators import SecureAggregator
    from blindsum.nvflare.filters import SecureFilter

__all__ = ["SecureAggregator", "SecureFilter", "aggregate", "secure"]


def __getattr__(name: str) -> type:
    """The classes that are components of NVFlare, which is imported for them."""
    if name == "SecureAggregator":
        from blindsum.nvflare.aggregators import SecureAggregator

        return SecureAggregator
    if name == "SecureFilter":
        from blindsum.nvflare.filters import SecureFilter

        return SecureFilter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
