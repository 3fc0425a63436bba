"""Where the coordinator and the servers of a job are."""

from __future__ import annotations

from collections.abc import Sequence

from blindsum.errors import ConfigError

MPC3_SERVERS = 3


def addresses(url: str | Sequence[str]) -> tuple[str, list[str]]:
    """The coordinator's URL, and all servers' where there are several.

    Raises
    ------
    blindsum.ConfigError
        It is neither one URL nor a list of them.
    """
    if isinstance(url, str):
        return url, []
    servers = list(url) if isinstance(url, Sequence) else []
    if not servers or not all(isinstance(one, str) for one in servers):
        raise ConfigError("url", f"{url!r} must be a URL, or a list of three")
    if len(servers) != MPC3_SERVERS:
        rule = (
            f"{len(servers)} URLs: give the three servers of an mpc3 job, in order; of every other job, e.g. "
            "paillier, give the coordinator's URL alone"
        )
        raise ConfigError("url", rule)
    return servers[0], servers
