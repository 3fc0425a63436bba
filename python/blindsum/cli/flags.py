"""Errors about settings that came from flags, with the names that the flags have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def named_as_flags(*fields: str) -> Iterator[None]:
    """In an error about one of these settings, name the flag: ``drop_at`` is ``--drop-at``.

    Parameters
    ----------
    fields
        The settings whose flags have their names.

    Raises
    ------
    blindsum.ConfigError
        What was raised inside, with the flag in place of the setting.
    """
    from blindsum.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        if error.field not in fields:
            raise
        raise ConfigError(f"--{error.field.replace('_', '-')}", error.rule) from error
