"""What a simulation found: the report of the core as objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.arrays import Sums
from blindsum.display import Shown, html_table
from blindsum.equality import Comparable
from blindsum.metrics_text import metrics_text, values_and_shares
from blindsum.privacy_claim import PrivacyClaim
from blindsum.rounds import Leftover
from blindsum.spec import JobSpec
from blindsum.texts import counted


@dataclass(frozen=True)
class Spread:
    """A quantity over parties: half of them had no more than ``median``, none more than ``max``."""

    median: float
    max: float


@dataclass(frozen=True)
class StageReport:
    """What one stage cost.

    Attributes
    ----------
    name : str
        The stage.
    client_ms : Spread
        Work of a party, milliseconds.
    server_ms : float
        Work of the server, milliseconds.
    virtual_seconds : float
        Time of the stage by the simulated clock, in which only delays and deadlines take time.
    up_bytes, down_bytes : Spread
        Bytes that a party sends and is sent.
    """

    name: str
    client_ms: Spread
    server_ms: float
    virtual_seconds: float
    up_bytes: Spread
    down_bytes: Spread


@dataclass(frozen=True)
class KeySetupReport:
    """What it cost to give the parties the key of the job, which the server never has.

    Attributes
    ----------
    holders : int
        Parties that hold the key at its end; 0 if it failed.
    fault : str or None
        Why it failed.
    stages : tuple of StageReport
        What each stage cost.
    client_ms : Spread
        Work of one party, milliseconds.
    server_ms : float
        Work of the server, milliseconds.
    up_bytes_per_party, down_bytes_per_party : int
        Bytes that a party sends and is sent.
    virtual_seconds : float
        Seconds on the simulated network: delays, and deadlines that were waited for.
    """

    holders: int
    fault: str | None
    stages: tuple[StageReport, ...]
    client_ms: Spread
    server_ms: float
    up_bytes_per_party: int
    down_bytes_per_party: int
    virtual_seconds: float


@dataclass(frozen=True)
class ServerReport:
    """What one of several servers did in a round.

    Attributes
    ----------
    name : str
        ``"coordinator"``, ``"second server"`` or ``"third server"``.
    server_ms : float
        Its work, milliseconds.
    server_bytes : int
        Bytes that it received and sent, together.
    received_bytes, sent_bytes : int
        Bytes that parties and other servers sent it, and that it sent them.
    server_rounds : int
        Rounds of letters between servers in which it sent something; each lasts one way over the network.
    """

    name: str
    server_ms: float
    server_bytes: int
    received_bytes: int
    sent_bytes: int
    server_rounds: int


@dataclass(frozen=True)
class Excluded:
    """A corrupt party that was found.

    Attributes
    ----------
    party : int
        Its rank.
    test : str
        The test that its vector fails (``"degree"``, ``"input-bit"``, ``"input-bound"``, ``"quadratic"``,
        ``"norm-bit"``, ``"norm"``), or what else it did (``"wrong-share"``, ``"lying-verifier"``,
        ``"mass-accuser"``, ``"silent-discloser"``, ``"lying-aggregator"``). The vector of a lying aggregator
        is in the sum, those of all others are not.
    evidence : str
        The bytes that show it, in hexadecimal digits, 64 KiB of them at most.
    """

    party: int
    test: str
    evidence: str = field(repr=False)


@dataclass(frozen=True)
class SimulatedRound:
    """How one round of a simulation ended.

    Attributes
    ----------
    outcome : str
        ``"sum"`` or ``"abort"``.
    fault : str or None
        Why there is no sum.
    survivor_count : int
        The number of parties whose update is in the sum.
    exact : bool
        As in :class:`SimulationResult`, as what follows.
    max_abs_error : float or None
        Largest difference between the mean and that of the survivors' clipped updates.
    client_ms : Spread
        Work of one party, milliseconds.
    server_ms : float
        Work of the server, milliseconds.
    up_bytes_per_party, down_bytes_per_party : int
        Bytes that a party sends and is sent.
    virtual_seconds : float
        Seconds on the simulated network.
    """

    outcome: str
    fault: str | None
    survivor_count: int
    exact: bool
    max_abs_error: float | None
    client_ms: Spread
    server_ms: float
    up_bytes_per_party: int
    down_bytes_per_party: int
    virtual_seconds: float


@dataclass(frozen=True, eq=False)
class SimulationResult(Comparable, Shown):
    """How a simulation ended. Fields of a round are those of the last one.

    Attributes
    ----------
    protocol : str
        The protocol.
    parties, dim : int
        Size of the problem.
    outcome : str
        ``"sum"``, or ``"abort"`` where a round ended without one.
    fault : str or None
        Why there is no sum.
    survivor_count : int
        The number of parties whose update is in the sum.
    exact : bool
        Whether the sum equals that of the survivors' words computed in the clear, bit for bit. Where three
        servers compute more than a sum (``rule``): whether no coordinate differs by more than ``error_bound``
        from the rule in the clear.
    error_bound : float or None
        By how much a coordinate of such a result may differ: the servers compute with numbers of limited
        length.
    max_abs_error : float or None
        Largest difference between the mean and that of the survivors' clipped updates: the error of
        quantisation. Where three servers compute more than a sum: the largest difference from the rule in the
        clear, of the updates as they are quantised.
    max_abs_error_unclipped : float or None
        Largest difference between the mean and that of their updates before clipping: the error of
        quantisation and clipping together. ``None`` without a sum, and if rounds are sparse.
    metrics : mapping of str to float or None
        The weighted mean of each metric of the job over the survivors that reported it; ``None`` if nobody
        did.
    reported : mapping of str to float
        The share of the survivors' weight that each of these means is of.
    clipped : int
        Coordinates of survivors' updates that clipping cut off, in all rounds. Over a network only the
        party itself knows its number: see :attr:`RoundResult.clipped`.
    clipped_by_party : mapping of int to int
        The same by the party's rank, where there were any.
    scaled_by_party : mapping of int to float
        The smallest factor, below 1, that a party's update was multiplied with because of its norm, by
        the party's rank (``clipping="l2"`` or ``max_norm``).
    stages : tuple of StageReport
        What each stage cost.
    client_ms : Spread
        Work of one party in the whole round, milliseconds.
    server_ms : float
        Work of the server, milliseconds; that of the coordinator, where there are several.
    up_bytes_per_party, down_bytes_per_party : int
        Bytes that a party sends and is sent, to and by all servers.
    virtual_seconds : float
        What the round took on the simulated network: delays, and deadlines that were waited for. Work takes
        none.
    servers : tuple of ServerReport
        What each server did, the coordinator first, where the protocol has several (``mpc3``).
    key_setup : KeySetupReport or None
        The latest key set-up, where the protocol needs one (``flashe``). It comes before the first
        round, and before others where a party lacks the key; its costs are not those of a round.
    excluded : tuple of Excluded
        Corrupt parties that were found in the last round (``pss-malicious``).
    begun : int
        How often the round was begun: again without whoever was lost, where a round needs all of its parties
        (``paillier``). Costs are those of the last time; ``virtual_seconds`` counts all.
    leftovers : tuple of Leftover
        In sparse rounds, by rank, the size of what each party has not sent yet after the last round. Over a
        network only the party itself knows it: see :attr:`RoundResult.leftover`.
    process_peak_bytes : int
        The most memory that this process has ever held, in bytes: also before this simulation, and for other
        things. :func:`blindsum.sweep` runs each simulation in a process of its own.
    mean : numpy.ndarray or None
        The weighted mean, float64, shape ``(dim,)``, where updates were given and there is a sum.
    sum : numpy.ndarray or None
        For integers, where there is a mean, the exact weighted sum, shape ``(dim,)``: uint64 where
        no sum of such a job has more than 64 bits, else an object array of Python integers.
    """

    protocol: str
    parties: int
    dim: int
    outcome: str
    fault: str | None
    survivor_count: int
    exact: bool
    error_bound: float | None
    max_abs_error: float | None
    max_abs_error_unclipped: float | None
    metrics: Mapping[str, float | None]
    reported: Mapping[str, float]
    clipped: int
    clipped_by_party: Mapping[int, int]
    scaled_by_party: Mapping[int, float]
    stages: tuple[StageReport, ...]
    client_ms: Spread
    server_ms: float
    up_bytes_per_party: int
    down_bytes_per_party: int
    virtual_seconds: float
    servers: tuple[ServerReport, ...]
    key_setup: KeySetupReport | None
    excluded: tuple[Excluded, ...]
    begun: int
    leftovers: tuple[Leftover, ...]
    process_peak_bytes: int
    mean: NDArray[np.float64] | None
    sum: Sums | None
    _report: Mapping[str, Any] = field(repr=False)
    _made_by: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def spec(self) -> JobSpec:
        """The job."""
        return JobSpec.from_dict(self._made_by["spec"])

    @property
    def seed(self) -> int:
        """The seed of every random number."""
        return int(self._made_by["scenario"]["seed"])

    @property
    def rounds(self) -> tuple[SimulatedRound, ...]:
        """All rounds, in order."""
        return tuple(_round(one) for one in self._report.get("rounds") or [self._report])

    @property
    def privacy(self) -> PrivacyClaim | None:
        """What the noise of the job guarantees after these rounds, with or without a sum; else ``None``."""
        rounds = self._report.get("rounds") or [self._report]
        return self.spec.privacy_after(sum(one.get("begun", 1) for one in rounds))

    @property
    def survivors(self) -> int:
        """The name that :attr:`survivor_count` had before."""
        return self.survivor_count

    @property
    def peak_rss_bytes(self) -> int:
        """The name that :attr:`process_peak_bytes` had before."""
        return self.process_peak_bytes

    def __str__(self) -> str:
        from blindsum.simulation_text import text

        return text(self)

    def to_dict(self) -> dict[str, Any]:
        """The whole report as plain data, without ``mean`` and ``sum``.

        Where several rounds were asked for, ``rounds`` holds all of them, each with the key set-up that
        came before it. ``spec``, ``job_hash`` and ``chosen`` are those of the job, ``scenario`` has the
        arguments of :func:`simulate` with the seed, and ``origin`` says by which version of this package, in
        which build, on which machine and when the numbers were made. :func:`simulate_again` repeats the
        simulation from a JSON file of all this.
        """
        claim = self.privacy
        noise = {} if claim is None else {"privacy": claim.to_dict()}
        return {**self._report, **noise, **self._made_by}

    def _shown(self) -> dict[str, object]:
        is_sum = self.outcome == "sum"
        unclipped = self.max_abs_error_unclipped
        clipping = (
            f"; {unclipped:.2e} against unclipped updates" if unclipped is not None and self.clipped else ""
        )
        error = None if self.max_abs_error is None else f"{self.max_abs_error:.2e}{clipping}"
        return {
            "job": f"{self.protocol}, {counted(self.parties, 'party')}, {counted(self.dim, 'coordinate')}",
            "outcome": self.outcome if self.fault is None else f"{self.outcome}: {self.fault}",
            "survivors": self.survivor_count if is_sum else None,
            "sum": ("exact" if self.exact else "WRONG") if is_sum else None,
            "largest error of the mean": error,
            "metrics": metrics_text(self._report.get("metrics", {})) or None,
            "guarantee": None if (claim := self.privacy) is None else str(claim),
            "clipped coordinates": self.clipped or None,
            "found corrupt": ", ".join(f"party {one.party}: {one.test}" for one in self.excluded) or None,
            "simulated network": f"{self.virtual_seconds:g} s",
            "seed": self.seed,
        }

    def _repr_html_(self) -> str:
        header = ["stage", "party ms (median / max)", "coordinator ms", "up per party", "down per party"]
        rows = [_stage_cells(stage) for stage in self.stages]
        return super()._repr_html_() + html_table("what it cost", header, rows)


def _stage_cells(stage: StageReport) -> list[str]:
    return [
        stage.name,
        f"{stage.client_ms.median:.2f} / {stage.client_ms.max:.2f}",
        f"{stage.server_ms:.2f}",
        f"{stage.up_bytes.median:.0f} B",
        f"{stage.down_bytes.median:.0f} B",
    ]


def simulated(
    report: dict[str, Any],
    mean: NDArray[np.float64] | None,
    sums: Sums | None,
    made_by: Mapping[str, Any],
) -> SimulationResult:
    """The result of the core's report, with mean and sum where there are any.

    ``made_by`` is what repeats it, and where it comes from, as :meth:`SimulationResult.to_dict` has it.
    """
    rounds = report.get("rounds") or [report]
    plain = {name: report[name] for name in SimulationResult.__dataclass_fields__ if name not in _MADE_HERE}
    plain["error_bound"] = report.get("error_bound")
    values, shares = values_and_shares(report.get("metrics", {}))
    changed = [one for round_ in rounds for one in round_["clipping"]]
    clipped: dict[int, int] = {}
    scaled: dict[int, float] = {}
    for one in changed:
        party = one["party"]
        if one["clipped"]:
            clipped[party] = clipped.get(party, 0) + one["clipped"]
        if (factor := one["scaled_by"]) is not None:
            scaled[party] = min(scaled.get(party, factor), factor)
    return SimulationResult(
        **plain,
        survivor_count=report["survivors"],
        process_peak_bytes=report["peak_rss_bytes"],
        metrics=values,
        reported=shares,
        clipped=sum(clipped.values()),
        clipped_by_party=clipped,
        scaled_by_party=scaled,
        stages=tuple(_stage(stage) for stage in report["stages"]),
        client_ms=Spread(**report["client_ms"]),
        servers=tuple(ServerReport(**server) for server in report.get("servers", ())),
        excluded=tuple(Excluded(**one) for one in report.get("excluded", ())),
        begun=report.get("begun", 1),
        leftovers=tuple(Leftover(**one) for one in report.get("leftovers", ())),
        key_setup=_latest_key_setup([report, *reversed(report.get("rounds", ()))]),
        mean=mean,
        sum=sums,
        _report=report,
        _made_by=made_by,
    )


_MADE_HERE = (
    *(
        "survivor_count",
        "process_peak_bytes",
        "stages",
        "client_ms",
        "servers",
        "error_bound",
        "key_setup",
        "begun",
        "excluded",
        "leftovers",
        "mean",
        "sum",
        "_report",
        "_made_by",
    ),
    *("clipped", "clipped_by_party", "scaled_by_party", "metrics", "reported"),
)
"""Fields of a result that are not fields of the report, or not as they are there."""


def _round(report: Mapping[str, Any]) -> SimulatedRound:
    made_here = {"survivor_count": report["survivors"], "client_ms": Spread(**report["client_ms"])}
    names = SimulatedRound.__dataclass_fields__.keys() - made_here.keys()
    return SimulatedRound(**{name: report[name] for name in names}, **made_here)


def _latest_key_setup(latest_first: list[dict[str, Any]]) -> KeySetupReport | None:
    setups = (found for one in latest_first if (found := one.get("key_setup")) is not None)
    setup = next(setups, None)
    if setup is None:
        return None
    plain = {
        name: setup[name]
        for name in KeySetupReport.__dataclass_fields__
        if name not in ("stages", "client_ms")
    }
    stages = tuple(_stage(stage) for stage in setup["stages"])
    return KeySetupReport(**plain, stages=stages, client_ms=Spread(**setup["client_ms"]))


def _stage(stage: dict[str, Any]) -> StageReport:
    return StageReport(
        name=stage["name"],
        client_ms=Spread(**stage["client_ms"]),
        server_ms=stage["server_ms"],
        virtual_seconds=stage["virtual_seconds"],
        up_bytes=Spread(**stage["up_bytes"]),
        down_bytes=Spread(**stage["down_bytes"]),
    )
