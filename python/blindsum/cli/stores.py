"""What commands that read a coordinator's store have in common."""

from __future__ import annotations

from collections.abc import Sequence

from blindsum.errors import ConfigError


def job_name(names: Sequence[str], asked: str | None) -> str:
    """Name of the job that is asked for: the store's only one where none is named.

    Raises
    ------
    blindsum.ConfigError
        The store has no such job, or several and none is named.
    """
    name = names[0] if asked is None and len(names) == 1 else asked
    if name is None or name not in names:
        raise ConfigError("--job", f"give one of the store's jobs: {', '.join(names) or 'it has none'}")
    return name
