"""Training runs: what happened in each round, in files and as a page."""

from blindsum.training.devices import Link

__all__ = ["Link"]
