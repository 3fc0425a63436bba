"""What the noise of a job guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blindsum.display import Shown
from blindsum.errors import ConfigError
from blindsum.texts import counted

if TYPE_CHECKING:
    from blindsum.spec import JobSpec

NOT_PROTECTED = (
    "who takes part in a round, when, and for how long",
    "who is lost, and in which stage",
    "the number of survivors",
    "metrics, and other values that travel beside updates",
    "the model that the job starts from",
    "what is common to many parties' data: several parties with data of one person count as one",
)
"""What no noise of sums protects."""


@dataclass(frozen=True)
class PrivacyClaim(Shown):
    """The differential privacy of the sums of a job, after a number of releases.

    A release is a round whose updates were sent, with or without a result. Every ε holds for ``delta`` and is
    never below the exact one.

    Attributes
    ----------
    mechanism : str
        ``"discrete-gaussian"`` or ``"skellam"``.
    adjacency : str
        Which two jobs cannot be told apart: ``"zero-out"`` (the update of a party is 0 in one of them) or
        ``"replace"`` (it is any other one).
    delta : float
        δ.
    noise_multiplier : float
        The standard deviation of the noise that hides a party, by the largest norm of an update. It is the
        noise of the honest survivors, or in ``mpc3`` of the one component that a server does not know.
    clip : float
        The norm that updates are clipped to: by the parties, or by the servers of ``mpc3``.
    growth : float
        By what factor rounding can lift that norm: the noise counts it.
    honest : int
        Survivors whose noise the claim counts on: ``min_parties`` less the corrupt ones; 1 where a party can
        rely on its own noise alone; 0 in ``mpc3``, whose servers add the noise.
    releases : int
        Releases so far.
    allowed : int or None
        Releases that the job may have: its rounds, and ``spare`` of them. ``None`` in a job without an end.
    target : float or None
        The largest ε of the job, where it says one.
    epsilon : float
        The claim; in ``mpc3`` against those who work with one of the servers. For ``skellam`` it is a bound
        by Rényi divergences.
    epsilon_rdp : float
        A bound by Rényi divergences, for comparison with other accountants.
    epsilon_replace : float
        The claim for ``adjacency = "replace"``, whatever the job says.
    epsilon_alone : float or None
        ε against who sees the vector of a single party, as a coordinator of ``flashe`` with one of its
        parties. ``None`` where the noise of one party hides nobody, and in ``mpc3``.
    epsilon_outside : float or None
        ε against those who work with no server of ``mpc3``: they see the noise of three components. ``None``
        for other protocols.
    noise_deviation : float
        Standard deviation of the noise in a coordinate of the mean of the fewest survivors.
    width : int
        Bits of a word that holds every sum with its noise.
    """

    mechanism: str
    adjacency: str
    delta: float
    noise_multiplier: float
    clip: float
    growth: float
    honest: int
    releases: int
    allowed: int | None
    target: float | None
    epsilon: float
    epsilon_rdp: float
    epsilon_replace: float
    epsilon_alone: float | None
    epsilon_outside: float | None
    noise_deviation: float
    width: int

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What the claim says nothing of."""
        return NOT_PROTECTED

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**vars(self), "not_protected": list(NOT_PROTECTED)}

    def __str__(self) -> str:
        of = "" if self.target is None else f" of {self.target:g}"
        if self.epsilon_outside is None:
            alone = "none" if self.epsilon_alone is None else f"{self.epsilon_alone:.2f}"
            others = f"honest {self.honest}, alone {alone}"
        else:
            others = f"outside the servers {self.epsilon_outside:.2f}"
        return (
            f"privacy: epsilon {self.epsilon:.2f}{of} at delta {self.delta:g} after "
            f"{counted(self.releases, 'release')} ({self.adjacency}, {others})"
        )

    def _shown(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if value is not None}


def check_rounds(spec: JobSpec, rounds: int) -> None:
    """Refuse more rounds than the target of a job's privacy has room for: the job would have ended before.

    Raises
    ------
    blindsum.ConfigError
        There are more.
    """
    claim = spec.privacy_after(0)
    if claim is None or claim.target is None or claim.allowed is None or rounds <= claim.allowed:
        return
    rule = (
        f"{rounds} is above the {claim.allowed} that epsilon = {claim.target:g} has room for "
        f"(rounds = {spec.rounds} of the job, and spare); set rounds = {rounds} in the job"
    )
    raise ConfigError("rounds", rule)


@dataclass(frozen=True)
class PrivacySpent:
    """What a party's data has cost over all jobs and coordinators, by the ledger in its ``state_dir``.

    Attributes
    ----------
    unit : str
        The name of the data: :attr:`Policy.privacy_unit`.
    releases : int
        Rounds for which an update was about to leave, in all jobs with noise.
    epsilon : float
        ε of all of them together, not below; infinite where the noise of a release hides nobody.
    delta : float
        The δ that it is for: :attr:`Policy.max_delta`, or that of the job.
    max_epsilon : float or None
        The most that ε may be: :attr:`Policy.max_epsilon`.
    honest : int
        How many parties' noise a round of this job counts on; 0 where the servers of ``mpc3`` add the noise.
    """

    unit: str
    releases: int
    epsilon: float
    delta: float
    max_epsilon: float | None
    honest: int

    def __str__(self) -> str:
        limit = "" if self.max_epsilon is None else f" of {self.max_epsilon:g}"
        after = counted(self.releases, "release")
        whose = f"honest {self.honest}" if self.honest else "noise of the servers"
        said = f"epsilon {self.epsilon:.4g}{limit} at delta {self.delta:g} after {after} of {self.unit}"
        return f"{said} ({whose})"
