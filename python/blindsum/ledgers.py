"""The ledger of a party's data, for its owner."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from blindsum import _native, checks
from blindsum.display import Shown
from blindsum.errors import ConfigError
from blindsum.pki import AnyPath

PREFIX, ENDING = "privacy-", ".ledger"

LATEST = 253_402_300_799
"""The last second that a datetime can have: a clock that is wrong may say a later one."""


@dataclass(frozen=True)
class PrivacyRelease:
    """A round for which an update was about to leave, with noise.

    Attributes
    ----------
    job_hash : str
        The hash of the job, :attr:`JobSpec.hash`.
    round : int
        The round.
    time : datetime.datetime
        When it was charged, UTC.
    honest : int
        How many parties' noise it counts on.
    """

    job_hash: str
    round: int
    time: datetime
    honest: int


@dataclass(frozen=True)
class PrivacyLedger(Shown):
    """What a party's data has cost over all jobs and coordinators.

    Attributes
    ----------
    unit : str
        The name of the data: :attr:`Policy.privacy_unit`.
    releases : tuple of PrivacyRelease
        Every release, in order.
    delta : float
        The δ that was asked for.
    epsilon : float
        ε of all releases together at that δ, not below.
    """

    unit: str
    releases: tuple[PrivacyRelease, ...]
    delta: float
    epsilon: float

    def _shown(self) -> dict[str, object]:
        return {
            "unit": self.unit,
            "releases": len(self.releases),
            "jobs": len({one.job_hash for one in self.releases}),
            "epsilon": f"{self.epsilon:.4g} at delta {self.delta:g}",
        }


def ledger_units(state_dir: AnyPath) -> list[str]:
    """The names of the ledgers in a state folder.

    Raises
    ------
    blindsum.ConfigError
        There is no such folder.
    """
    folder = Path(checks.path("state_dir", state_dir))
    if not folder.is_dir():
        raise ConfigError("state_dir", f"{folder} is no folder: name the state_dir of a party")
    names = (path.name for path in folder.glob(f"{PREFIX}*{ENDING}"))
    found = (re.fullmatch(f"{PREFIX}([a-z0-9-]{{1,64}}){ENDING}", name) for name in names)
    return sorted(one[1] for one in found if one)


def privacy_ledger(
    state_dir: AnyPath, unit: str = "data", *, delta: float = 1e-5, witness: AnyPath | None = None
) -> PrivacyLedger:
    """Read the ledger of a party's data, also while the party runs.

    Parameters
    ----------
    state_dir
        The folder that the party was given in :func:`blindsum.join`.
    unit
        The name of the data: :attr:`Policy.privacy_unit`.
    delta
        The δ for which ε is computed, from 1e-30 to 0.01.
    witness
        The file that the party was given as ``ledger_witness``, to verify the ledger.

    Raises
    ------
    blindsum.ConfigError
        There is no such ledger, or δ is out of its range.
    blindsum.StoreError
        The ledger is damaged, or older than its witness.
    """
    units = ledger_units(state_dir)
    if unit not in units:
        rule = f"{unit!r} has no ledger in {state_dir}; there are: {', '.join(units) or 'none'}"
        raise ConfigError("unit", rule)
    if not 1e-30 <= checks.finite("delta", delta) <= 1e-2:
        raise ConfigError("delta", f"1e-30 <= {delta:g} <= 0.01 must hold")
    seen = None if witness is None else checks.path("witness", witness)
    charged, [epsilon] = _native.ledger(checks.path("state_dir", state_dir), unit, seen, [delta])
    releases = (
        PrivacyRelease(job, number, datetime.fromtimestamp(min(time, LATEST), UTC), honest)
        for job, number, time, honest in charged
    )
    return PrivacyLedger(unit, tuple(releases), delta, epsilon)
