"""NVFlare's simulator: sites that wait for each other need a thread each."""

from __future__ import annotations

from typing import Any

from blindsum.errors import ConfigError


def check_threads(args: Any, sites: int) -> None:
    """Refuse a simulation in which fewer sites run at once than a round has: they would wait for ever.

    Parameters
    ----------
    args
        The arguments of the simulator, as a context of NVFlare has them; of anything else nothing is checked.
    sites
        The sites of a round.

    Raises
    ------
    blindsum.ConfigError
        Too few threads; ``field`` is ``"num_threads"``.
    """
    threads = getattr(args, "threads", None)
    if threads is None:
        return
    # Groups of GPUs run one site each.
    groups = getattr(args, "gpu", None)
    at_once = str(groups).count("[") or len(str(groups).split(",")) if groups else int(threads)
    if at_once < sites:
        raise ConfigError(
            "num_threads",
            f"{at_once} must be {sites} or more: the sites of a round wait for each other, and the simulator "
            f"runs {at_once} at once. Set SimEnv(num_threads={sites}), or -t {sites} of nvflare simulator",
        )
