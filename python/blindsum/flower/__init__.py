"""Secure sums in Flower apps: a mod for the ClientApp, and a grid for the ServerApp. Extra: ``flower``.

::

    app = ClientApp(mods=[blindsum.flower.mod()])

    with blindsum.flower.SecureGrid(grid, context, strategy=strategy) as secure:
        strategy.start(grid=secure, initial_arrays=arrays)

The strategy gets one reply with the weighted mean of the nodes' arrays in place of a reply of each node.
"""

from __future__ import annotations

from blindsum.flower.grid import SecureGrid
from blindsum.flower.mods import mod

__all__ = ["SecureGrid", "mod"]
