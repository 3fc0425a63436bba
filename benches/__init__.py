"""Measurements: rounds over real processes, and protocols and kernels against their targets.

They need the source tree and a native module with the timers, as `make bench` builds it. ``blindsum bench``
finds them there.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""Of the source tree."""
