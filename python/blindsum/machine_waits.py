"""How long a coordinator waits that is a machine."""

from __future__ import annotations

from dataclasses import dataclass

from blindsum import checks
from blindsum.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Waits:
    """How long a coordinator waits, in seconds, and for what; as the limits of :class:`blindsum.Coordinator`.

    Attributes
    ----------
    patience : float
        For enough parties to be ready; then the job ends.
    reconnect_grace : float
        For a lost party of a round, before the stage goes on without it.
    chunk_timeout : float
        For a piece of a model that a party seals for others.
    failed_rounds : int
        Rounds that may fail in a row before the job ends.
    models_kept : int
        Versions of the model that stay in the store.
    """

    patience: float = 3600.0
    reconnect_grace: float = 5.0
    chunk_timeout: float = 30.0
    failed_rounds: int = 10
    models_kept: int = 3

    def __post_init__(self) -> None:
        for name in ("patience", "reconnect_grace", "chunk_timeout"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e6:
                raise ConfigError(f"waits.{name}", f"0 < {name} = {value!r} <= 1000000 seconds")
        for name in ("failed_rounds", "models_kept"):
            checks.setting(f"waits.{name}", getattr(self, name), 1, 2**32 - 1)
