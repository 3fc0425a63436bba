"""What a party agrees to, whatever the coordinator says."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blindsum import _native, checks
from blindsum.errors import ConfigError
from blindsum.spec import protocols


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a party agrees to, whatever the coordinator says.

    The coordinator writes the job. The defaults are for a party that trusts neither the coordinator nor a
    tenth of the parties, at least one of them. The number of parties is taken from the job: a party that
    knows of more parties who may work together sets ``min_corrupt_parties``. A job that breaks a rule is
    refused with :class:`blindsum.PolicyError`, which names the rule.

    Attributes
    ----------
    allowed_protocols : sequence of str or None
        Protocols that may protect this party's updates; ``None`` allows ``secagg``, ``secagg+``, ``fssa``,
        ``pss``, ``pss-malicious`` and ``mpc3``. The coordinator reads every update of ``plain``, and together
        with any one party every update of ``flashe``: these must be named. In ``mpc3`` two of the three
        servers together read every update, so a party names all three in :func:`blindsum.join`.
    allowed_rules : sequence of str or None
        The rules that the servers of ``mpc3`` may apply to this party's updates; ``None`` allows the
        rules whose result is a mean of many: ``fedavg``, ``weighted``, ``clipped``, ``multi-krum`` and
        ``trimmed-mean``. The others must be named: ``krum`` shows the vector of one party, ``median`` a
        coordinate of one, and in ``fltrust`` and ``cosine`` other parties can bring about that one vector
        alone counts.
    require_adversary : str or None
        The adversary against which the job must protect: ``"semi-honest"`` or ``"active"``; ``None`` means
        either. ``plain`` protects against neither. In ``flashe`` the job's ``adversary`` is about the key
        set-up, and that is what counts here.
    min_corrupt : float
        The fraction of the parties that may work with the coordinator: the job's ``corrupt`` must be that
        or more. Not compared in ``plain`` and ``flashe``, which tolerate no corrupt party.
    min_corrupt_parties : int
        How many parties may work with the coordinator, however few the job has; the job must tolerate as
        many.
    min_honest : int
        Fewest honest parties in a sum. ``ceil(min_corrupt * parties)`` parties may be corrupt, or
        ``min_corrupt_parties`` where that is more. The smallest sum of the job and every set of survivors
        must have ``min_honest`` parties in addition to them. A coordinate of a sparse job must be sent by
        ``min_honest`` parties before it is opened.
    min_cohort : int
        Smallest number of certified parties in a round. In a sum of two, each party learns the other's
        update.
    min_cohort_change : int
        Fewest honest parties in whatever can be computed from several sums together; at least ``min_honest``.
        By default 0, which allows everything. If vectors change little from round to round, the difference of
        two sums over almost the same parties is one party's update. So this party compares survivors with
        those of all earlier sums in which it took part, and refuses them if a smaller group of parties could
        be told apart from the others. Corrupt parties come on top, as many as for ``min_honest``. A single
        sum is judged by ``min_honest`` alone. In ``plain``, ``flashe`` and ``mpc3`` all parties of the rounds
        are compared, which does not show whom a server leaves out of a sum. Sums are remembered while the
        rule is on, across processes with a ``state_dir``.
    max_weight : int or None
        Largest weight that the job may allow; ``None`` allows all.
    max_dim : int
        Largest ``dim`` of the job, which decides how much memory this party needs: 4 bytes for each
        coordinate of a vector, and several vectors in a round.
    max_message : int
        Bytes of the largest message that the job may ask for or send.
    max_parties : int
        Most ``parties`` of the job.
    max_rounds : int or None
        Most ``rounds`` of the job, also after its operator has extended it; ``None`` allows all numbers, and
        with ``job_hash`` those of the specification. A job of 0 rounds has no end, which is more than any
        number.
    job_hash : str or None
        The hash that the job must have, :attr:`JobSpec.hash`, if the parties agreed on its specification;
        ``None`` accepts any job that keeps the other rules.
    require_privacy : bool
        Whether the sums of the job must have noise (:attr:`JobSpec.privacy`).
    max_epsilon : float or None
        The largest ε of this party's data over all jobs and coordinators, at ``max_delta``; ``None`` sets no
        limit. Every release is charged to a ledger before the update leaves, and this party takes part in no
        round that would make it more. A job without noise is refused. Needs a ``state_dir``, the same one in
        all jobs: the ledger is there.
    max_delta : float or None
        The δ at which that ε is measured, from 1e-30 to 0.01; given if ``max_epsilon`` is.
    privacy_unit : str
        The name of the data whose owners are protected: lowercase letters, digits and ``-``. Each name has a
        ledger of its own. Give another name only to a job with other data.

    Raises
    ------
    blindsum.ConfigError
        A rule with an impossible value; ``field`` names it, as in ``policy.min_honest``.
    """

    allowed_protocols: Sequence[str] | None = None
    allowed_rules: Sequence[str] | None = None
    require_adversary: str | None = "active"
    min_corrupt: float = 0.1
    min_corrupt_parties: int = 1
    min_honest: int = 2
    min_cohort: int = 3
    min_cohort_change: int = 0
    max_weight: int | None = None
    max_dim: int = 2**28
    max_message: int = 2**32
    max_parties: int = 10_000
    max_rounds: int | None = None
    job_hash: str | None = None
    require_privacy: bool = False
    max_epsilon: float | None = None
    max_delta: float | None = None
    privacy_unit: str = "data"

    def __post_init__(self) -> None:
        for field, known in (("allowed_protocols", protocols()), ("allowed_rules", tuple(_native.rules()))):
            if getattr(self, field) is not None:
                _check_names(field, getattr(self, field), known)
        if self.require_adversary not in (None, "semi-honest", "active"):
            rule = f"{self.require_adversary!r} must be 'active', 'semi-honest' or None"
            raise ConfigError("policy.require_adversary", rule)
        if self.job_hash is not None and not re.fullmatch("[0-9a-fA-F]{64}", str(self.job_hash)):
            rule = f"{self.job_hash!r} must be 64 hexadecimal digits, as JobSpec.hash"
            raise ConfigError("policy.job_hash", rule)
        if checks.fraction("policy.min_corrupt", self.min_corrupt) == 1:
            raise ConfigError("policy.min_corrupt", "1 must be below 1: with 1 every party may be corrupt")
        for name in _COUNTS:
            checks.setting(f"policy.{name}", getattr(self, name), 0, MAX_COUNTED)
        if self.max_weight is not None:
            checks.setting("policy.max_weight", self.max_weight, 1, 2**32 - 1)
        if self.max_rounds is not None:
            checks.setting("policy.max_rounds", self.max_rounds, 1, 2**32 - 1)
        if not isinstance(self.require_privacy, bool):
            raise ConfigError("policy.require_privacy", f"{self.require_privacy!r} must be True or False")
        _check_budget(self.max_epsilon, self.max_delta)
        if not re.fullmatch("[a-z0-9-]{1,64}", str(self.privacy_unit)):
            rule = f"{self.privacy_unit!r} must be 1 to 64 lowercase letters, digits and '-'"
            raise ConfigError("policy.privacy_unit", rule)

    def to_dict(self) -> dict[str, Any]:
        """Every rule, as plain data."""
        rules = dataclasses.asdict(self)
        # Numbers of NumPy are numbers as well.
        whole = [name for name in (*_COUNTS, "max_weight", "max_rounds") if rules[name] is not None]
        rules |= {name: int(rules[name]) for name in whole} | {"min_corrupt": float(self.min_corrupt)}
        numbers = [name for name in ("max_epsilon", "max_delta") if rules[name] is not None]
        rules |= {name: float(rules[name]) for name in numbers}
        for field in ("allowed_protocols", "allowed_rules"):
            if rules[field] is None:
                del rules[field]
        return rules


def rules_of(policy: Policy | None) -> dict[str, Any]:
    """The rules of a policy, or of that of whoever gives none, as plain data.

    Raises
    ------
    blindsum.ConfigError
        It is no policy.
    """
    if policy is not None and not isinstance(policy, Policy):
        raise ConfigError("policy", f"must be a blindsum.Policy or None, not a {type(policy).__name__}")
    rules = (policy or Policy()).to_dict()
    of_noise = {name: rules.pop(name) for name in _OF_PRIVACY}
    return {**rules, "privacy": of_noise}


_OF_PRIVACY = ("require_privacy", "max_epsilon", "max_delta", "privacy_unit")
"""Rules about the noise of sums."""

MAX_COUNTED = 2**63 - 1

_COUNTS = (
    *("min_corrupt_parties", "min_honest", "min_cohort", "min_cohort_change"),
    *("max_dim", "max_message", "max_parties"),
)
"""Rules that are whole numbers."""


def _check_budget(epsilon: object, delta: object) -> None:
    """Refuse a budget that limits nothing, or a part of one."""
    if (epsilon is None) != (delta is None):
        missing, other = ("max_epsilon", "max_delta") if epsilon is None else ("max_delta", "max_epsilon")
        rule = f"is missing, and {other} needs it: epsilon is for a delta, as 1e-5; give both"
        raise ConfigError(f"policy.{missing}", rule)
    if epsilon is None:
        return
    for name, value, least, most in (
        ("max_epsilon", epsilon, 1e-6, 1e6),
        ("max_delta", delta, 1e-30, 1e-2),
    ):
        is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not is_number or not least <= float(value) <= most:  # type: ignore[arg-type]
            raise ConfigError(f"policy.{name}", f"{value!r} must be a number from {least:g} to {most:g}")


def _check_names(field: str, names: object, known: tuple[str, ...]) -> None:
    right = isinstance(names, Sequence) and not isinstance(names, str) and len(names) > 0
    if not right or any(name not in known for name in names):  # type: ignore[attr-defined]
        rule = f"{names!r} must be a list of some of {', '.join(known)}"
        raise ConfigError(f"policy.{field}", rule)
