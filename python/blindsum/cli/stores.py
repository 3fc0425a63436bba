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
    if name is not None and name in names:
        return name
    what = "the store has no job" if not names else f"give one of the store's jobs: {', '.join(names)}"
    if asked is not None and names:
        what = f"the store has no job {asked!r}; {what}"
    elif not names:
        what += "; `blindsum serve --store` makes one when it starts"
    raise ConfigError("--job", what)
