"""Secure aggregation for federated learning.

Blindsum computes the sum (or weighted mean) of vectors held by parties who may not see each other's vectors.
Five words are used throughout: the job specification (:class:`JobSpec`), a round, its roster (the parties
that take part), its stages, and its survivors (the parties whose update is in the sum).

Start with :func:`simulate` for a job in this process, :func:`join` for a party and :class:`Coordinator`.

>>> import blindsum as bs
>>> spec = bs.JobSpec(protocol="plain", parties=3, dim=4)
>>> spec.stages
('input',)

Names are loaded when they are first used, so that ``import blindsum`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blindsum.admin import Admin
    from blindsum.campaigns import Tally, campaign
    from blindsum.comparison.repeats import Repetition, simulate_again
    from blindsum.comparison.sweeps import sweep
    from blindsum.comparison.table import Comparison
    from blindsum.coordinator import Coordinator
    from blindsum.domains import Domain, DomainRound, join_domain
    from blindsum.errors import (
        AuditError,
        BlindsumError,
        CallError,
        ConfigError,
        DataError,
        DomainError,
        DomainInputError,
        Fault,
        ForkedError,
        HiddenModelError,
        IdentityError,
        InputError,
        LayoutError,
        MemoryLimitError,
        ModelError,
        NetworkError,
        OrderError,
        OtherContent,
        OtherTag,
        PolicyError,
        PromiseBroken,
        ResultMissed,
        RoundAborted,
        RoundLost,
        RoundUnknown,
        SessionClosedError,
        SpecError,
        StoreError,
        SubmitError,
        WaitTimeoutError,
    )
    from blindsum.hosted import HostedResult, PendingRound
    from blindsum.joining import join
    from blindsum.ledgers import PrivacyLedger, PrivacyRelease, privacy_ledger
    from blindsum.options import *  # noqa: F403
    from blindsum.plan import Step
    from blindsum.policy import Policy
    from blindsum.privacy_claim import PrivacyClaim, PrivacySpent
    from blindsum.rounds import Clipped, Leftover, Round, RoundResult, Timings
    from blindsum.server import Server
    from blindsum.session import Session
    from blindsum.simulation import simulate
    from blindsum.simulation_result import (
        Excluded,
        KeySetupReport,
        ServerReport,
        SimulationResult,
        StageReport,
    )
    from blindsum.spec import JobSpec, protocols
    from blindsum.tables import Metric, Tensor
    from blindsum.training.record import StageCost, TrainingRecord, TrainingRound
    from blindsum.training.report import report
    from blindsum.training.simulated import simulate_training
    from blindsum.trees import flatten, unflatten

    __version__: str

_HOME = {
    "Clipped": "rounds",
    "Leftover": "rounds",
    "Policy": "policy",
    "Round": "rounds",
    "RoundResult": "rounds",
    "Server": "server",
    "Session": "session",
    "Timings": "rounds",
    "join": "joining",
    "HostedResult": "hosted",
    "PendingRound": "hosted",
    "CallError": "errors",
    "OtherContent": "errors",
    "OtherTag": "errors",
    "RoundLost": "errors",
    "join_domain": "domains",
    "Coordinator": "coordinator",
    "flatten": "trees",
    "unflatten": "trees",
    "AuditError": "errors",
    "BlindsumError": "errors",
    "ConfigError": "errors",
    "DataError": "errors",
    "Domain": "domains",
    "DomainError": "errors",
    "DomainInputError": "errors",
    "DomainRound": "domains",
    "Fault": "errors",
    "ForkedError": "errors",
    "HiddenModelError": "errors",
    "MemoryLimitError": "errors",
    "ModelError": "errors",
    "IdentityError": "errors",
    "InputError": "errors",
    "LayoutError": "errors",
    "Admin": "admin",
    "NetworkError": "errors",
    "OrderError": "errors",
    "PolicyError": "errors",
    "PrivacyClaim": "privacy_claim",
    "PrivacyLedger": "ledgers",
    "PrivacyRelease": "ledgers",
    "PrivacySpent": "privacy_claim",
    "privacy_ledger": "ledgers",
    "PromiseBroken": "errors",
    "Tally": "campaigns",
    "campaign": "campaigns",
    "Comparison": "comparison.table",
    "Repetition": "comparison.repeats",
    "simulate_again": "comparison.repeats",
    "sweep": "comparison.sweeps",
    "ResultMissed": "errors",
    "RoundAborted": "errors",
    "RoundUnknown": "errors",
    "SessionClosedError": "errors",
    "SpecError": "errors",
    "StoreError": "errors",
    "SubmitError": "errors",
    "WaitTimeoutError": "errors",
    "KeySetupReport": "simulation_result",
    "ServerReport": "simulation_result",
    "Excluded": "simulation_result",
    "SimulationResult": "simulation_result",
    "StageReport": "simulation_result",
    "simulate": "simulation",
    "JobSpec": "spec",
    "Step": "plan",
    "Metric": "tables",
    "Tensor": "tables",
    "protocols": "spec",
    "StageCost": "training.record",
    "TrainingRecord": "training.record",
    "TrainingRound": "training.record",
    "report": "training.report",
    "simulate_training": "training.simulated",
    "__version__": "_native",
}

__all__ = [
    "Admin",
    "AuditError",
    "BlindsumError",
    "CallError",
    "Clipped",
    "Comparison",
    "ConfigError",
    "Coordinator",
    "DataError",
    "Domain",
    "DomainError",
    "DomainInputError",
    "DomainRound",
    "Excluded",
    "Fault",
    "ForkedError",
    "HiddenModelError",
    "HostedResult",
    "IdentityError",
    "InputError",
    "JobSpec",
    "KeySetupReport",
    "LayoutError",
    "Leftover",
    "MemoryLimitError",
    "Metric",
    "ModelError",
    "NetworkError",
    "OrderError",
    "OtherContent",
    "OtherTag",
    "PendingRound",
    "Policy",
    "PolicyError",
    "PrivacyClaim",
    "PrivacyLedger",
    "PrivacyRelease",
    "PrivacySpent",
    "PromiseBroken",
    "Repetition",
    "ResultMissed",
    "Round",
    "RoundAborted",
    "RoundLost",
    "RoundResult",
    "RoundUnknown",
    "Server",
    "ServerReport",
    "Session",
    "SessionClosedError",
    "SimulationResult",
    "SpecError",
    "StageCost",
    "StageReport",
    "Step",
    "StoreError",
    "SubmitError",
    "Tally",
    "Tensor",
    "Timings",
    "TrainingRecord",
    "TrainingRound",
    "WaitTimeoutError",
    "__version__",
    "campaign",
    "flatten",
    "join",
    "join_domain",
    "privacy_ledger",
    "protocols",
    "report",
    "simulate",
    "simulate_again",
    "simulate_training",
    "sweep",
    "unflatten",
]


def __getattr__(name: str) -> object:
    # Whatever is not listed may be a protocol or an encoding.
    home = _HOME.get(name, "options")
    if name not in _HOME and name not in _options():
        raise AttributeError(f"module 'blindsum' has no attribute {name!r}")
    value: object = getattr(import_module(f"blindsum.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_options()])


def _options() -> list[str]:
    """Names of the classes of protocols and encodings."""
    names: list[str] = import_module("blindsum.options").__all__
    return names
