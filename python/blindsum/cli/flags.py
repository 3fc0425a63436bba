"""Errors about settings that came from flags, with the names that the flags have."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def named_as_flags(*fields: str, **arguments: str) -> Iterator[None]:
    """In an error about one of these settings, name the flag: ``drop_at`` is ``--drop-at``.

    Parameters
    ----------
    fields
        The settings whose flags have their names.
    arguments
        By the name of a setting, the argument or flag that sets it under another name.

    Raises
    ------
    blindsum.ConfigError
        What was raised inside, with the flag in place of the setting.
    """
    from blindsum.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        names = {field: f"--{field.replace('_', '-')}" for field in fields} | arguments
        if error.field not in names:
            raise
        raise ConfigError(names[error.field], error.rule) from error


def flagged(run: Callable[[argparse.Namespace], int], *fields: str) -> Callable[[argparse.Namespace], int]:
    """A command whose errors about these settings name the flags."""

    @functools.wraps(run)
    def named(options: argparse.Namespace) -> int:
        with named_as_flags(*fields):
            return run(options)

    return named
