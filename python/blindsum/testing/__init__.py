"""For tests and measurements: a job with its coordinator and parties as processes of this machine."""

from blindsum.testing.cluster import Cluster, PartyProcess

__all__ = ["Cluster", "PartyProcess"]
