"""Rounds of Flower with Blindsum, beside plain FedAvg and beside flwr's own SecAgg+, in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benches.flower_app import work
from benches.flower_deployment import Federation, Ran, deployment, simulation
from benches.rows import Row
from blindsum.cli.flags import named_as_flags
from blindsum.errors import BlindsumError, ConfigError
from blindsum.flower.settings import RunSettings

OnText = Callable[[str], object]

TARGET = 1.1
"""How many times as long as plain FedAvg a round may take."""

LOSS_NODES = 5
"""Nodes of the federation in which one is lost: rounds of SecAgg+ take long."""

WHERE: dict[str, Callable[[Path, int], AbstractContextManager[Federation]]] = {
    "deployment": deployment,
    "simulation": simulation,
}
PEER = "flwr's SecAgg+"
PLAIN = "plain FedAvg"


@dataclass(frozen=True)
class Settings:
    """What is measured.

    Attributes
    ----------
    nodes : int
        How many there are.
    dims : tuple of int
        Lengths of the vectors.
    rounds, turns : int
        Rounds of a run; how often each run is repeated, in turns with the others.
    where : tuple of str
        Keys of :data:`WHERE`.
    transports : tuple of str
        Of Blindsum.
    protocol : str
        Of Blindsum.
    losses : bool
        Whether rounds are run in which a node is lost.
    """

    nodes: int = 10
    dims: tuple[int, ...] = (100_000, 1_000_000)
    rounds: int = 3
    turns: int = 1
    where: tuple[str, ...] = tuple(WHERE)
    transports: tuple[str, ...] = ("direct",)
    protocol: str = "secagg+"
    losses: bool = True


@dataclass(frozen=True)
class Way:
    """How updates come together.

    Attributes
    ----------
    label : str
        For tables.
    how : str
        The app, a name of :mod:`benches.flower_app.work`.
    settings : dict
        Of Blindsum.
    """

    label: str
    how: str
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What the rounds of one way cost.

    Attributes
    ----------
    where, way : str
        A key of :data:`WHERE`; the label of the way.
    dim : int
        Length of the vectors.
    seconds : list of float or None
        Of each round, in order; ``None`` for a round without the sum of all nodes.
    per_run : int
        Rounds of a run. In the first one of each processes start, and it is not in :attr:`median`.
    deviation : float
        The largest difference of a mean to that of the updates.
    up, down : float or None
        Bytes of one node in a round: all that it sends and receives.
    server_memory, node_memory : int
        The most bytes of memory of the process of the ServerApp, and of that of a ClientApp.
    reasons : tuple of str
        Why rounds had no sum of all nodes.
    """

    where: str
    way: str
    dim: int
    seconds: list[float | None]
    per_run: int
    deviation: float
    up: float | None
    down: float | None
    server_memory: int
    node_memory: int
    reasons: tuple[str, ...] = ()

    @property
    def median(self) -> float | None:
        """Seconds of a round: the median, without the first one of each run where there are others.

        ``None`` where no round had the sum of all nodes.
        """
        rounds = [(place, one) for place, one in enumerate(self.seconds) if one is not None]
        later = [one for place, one in rounds if place % self.per_run]
        return median(later or [one for _, one in rounds]) if rounds else None

    def ratio(self, plain: Cost) -> float | None:
        """How many times as long as a plain round one takes, where both were measured."""
        own, other = self.median, plain.median
        return None if own is None or other is None else own / other


@dataclass(frozen=True)
class Loss:
    """A round in which a node is lost, or none.

    Attributes
    ----------
    where, way, stage : str
        A key of :data:`WHERE`; the label of the way; where the node is lost.
    seconds : float
        Of the round.
    survivors : int
        Nodes in the sum; 0: it has none.
    """

    where: str
    way: str
    stage: str
    seconds: float
    survivors: int


@dataclass
class Measured:
    """All that was measured."""

    settings: Settings
    costs: list[Cost] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    def plain(self, cost: Cost) -> Cost:
        """The cost of plain FedAvg with the same vectors at the same place."""
        same = (cost.where, cost.dim)
        return next(one for one in self.costs if (one.where, one.dim) == same and one.way == PLAIN)

    @property
    def rows(self) -> list[Row]:
        """What is promised, and what was measured."""
        rows = []
        for cost in self.costs:
            if cost.way not in (PLAIN, PEER) and "messages" not in cost.way:
                peers = [one for one in self.costs if one.way == PEER and self.plain(one) is self.plain(cost)]
                plain = self.plain(cost)
                measured = cost.ratio(plain)
                if measured is None:
                    continue
                row = Row(
                    work=f"{cost.where}, {cost.dim:,} coordinates, {cost.way}",
                    unit="× plain",
                    measured=measured,
                    target=TARGET,
                    peer=peers[0].ratio(plain) if peers else None,
                )
                rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "settings": asdict(self.settings),
            "targets": [row.to_dict() for row in self.rows],
            "costs": [{**asdict(cost), "median": cost.median} for cost in self.costs],
            "losses": [asdict(loss) for loss in self.losses],
        }


def transports() -> tuple[str, ...]:
    """The transports of Blindsum in a deployment that this version has, the default first."""
    return tuple(name for name in ("direct", "messages") if _exists(name))


def _exists(transport: str) -> bool:
    try:
        RunSettings.read({"blindsum-transport": transport}, {})
    except ConfigError:
        return False
    return True


def check(settings: Settings) -> None:
    """Refuse what cannot be measured, before anything starts.

    Raises
    ------
    blindsum.ConfigError
        A setting breaks a rule; ``field`` is the option of the command.
    """
    least = 3
    if settings.nodes < least:
        raise ConfigError("--nodes", f"{least} <= {settings.nodes} must hold: no sum of fewer is opened")
    for name, value in (("--rounds", settings.rounds), ("--turns", settings.turns)):
        if value < 1:
            raise ConfigError(name, f"1 <= {value} must hold")
    _check_names("--where", settings.where, tuple(WHERE))
    _check_names("--transport", settings.transports, transports())
    for dim in settings.dims:
        if dim < 1:
            raise ConfigError("--dim", f"1 <= {dim} must hold for each length")
        with named_as_flags("protocol"):
            RunSettings(protocol=settings.protocol).job("bench", dim, settings.nodes)


def _check_names(option: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(option, f"{name!r} must be one of {', '.join(known)}, or several with commas")


def ways(settings: Settings, where: str) -> list[Way]:
    """What is compared at a place."""
    if where == "simulation":
        ours = [Way(f"{settings.protocol}", work.OURS, {"protocol": settings.protocol})]
    else:
        ours = [
            Way(
                f"{settings.protocol}, {transport}",
                work.OURS,
                {"protocol": settings.protocol, "transport": transport},
            )
            for transport in settings.transports
        ]
    return [Way(PLAIN, work.PLAIN), *ours, Way(PEER, work.PEER)]


def steps(settings: Settings, found: Measured) -> Iterator[tuple[str, Callable[[OnText], None]]]:
    """What there is to do, in parts that each start processes of their own."""
    for where in settings.where:
        yield where, partial(_measure_at, where, settings, found)
    for where in settings.where if settings.losses else ():
        yield f"{where}, a node is lost", partial(_lose_at, where, settings, found)


def _measure_at(where: str, settings: Settings, found: Measured, on_text: OnText) -> None:
    found.costs.extend(measure(settings, where, on_text))


def _lose_at(where: str, settings: Settings, found: Measured, on_text: OnText) -> None:
    found.losses.extend(measure_losses(settings, where, on_text))


def measure(settings: Settings, where: str, on_text: OnText) -> list[Cost]:
    """Run each way with vectors of each length, in turns.

    Raises
    ------
    blindsum.BlindsumError
        A run failed, or a round had a wrong sum.
    """
    costs = []
    with (
        tempfile.TemporaryDirectory(prefix="blindsum-bench-") as folder,
        WHERE[where](Path(folder), settings.nodes) as federation,
    ):
        for dim in settings.dims:
            ran: dict[str, list[Ran]] = {}
            for turn in range(settings.turns):
                for way in ways(settings, where):
                    on_text(f"{dim:,} coordinates, {way.label}, run {turn + 1} of {settings.turns}")
                    one = federation.run(way.how, settings.rounds, dim, **way.settings)
                    _check_sums(one, way)
                    for reason in _reasons(one, settings.nodes):
                        on_text(f"{way.label}: {reason}")
                    ran.setdefault(way.label, []).append(one)
            costs += [_cost(where, label, dim, runs, settings.nodes) for label, runs in ran.items()]
    return costs


def _check_sums(ran: Ran, way: Way) -> None:
    """A wrong sum is no measurement."""
    for number, one in enumerate(ran.rounds, 1):
        if one["deviation"] > 1e-3:
            raise BlindsumError(
                f"{way.label}, round {number}: a sum of {one['survivors']} nodes that deviates by "
                f"{one['deviation']:.1e}"
            )


def _reasons(ran: Ran, nodes: int) -> list[str]:
    """Which rounds had the sum of fewer nodes, and why rounds have none."""
    fewer = [
        f"round {number}: a sum of {one['survivors']} of {nodes} nodes"
        for number, one in enumerate(ran.rounds, 1)
        if one["survivors"] != nodes
    ]
    return [*fewer, *ran.reasons]


def _cost(where: str, label: str, dim: int, runs: list[Ran], nodes: int) -> Cost:
    rounds = [one for ran in runs for one in ran.rounds]
    shares = nodes * len(rounds)
    counted = [(ran.up, ran.down) for ran in runs if ran.up is not None and ran.down is not None]
    return Cost(
        where=where,
        way=label,
        dim=dim,
        seconds=[one["seconds"] if one["survivors"] == nodes else None for one in rounds],
        per_run=len(runs[0].rounds),
        deviation=max(one["deviation"] for one in rounds),
        up=sum(up for up, _ in counted) / shares if counted else None,
        down=sum(down for _, down in counted) / shares if counted else None,
        server_memory=max(ran.server_memory for ran in runs),
        node_memory=max(ran.node_memory for ran in runs),
        reasons=tuple(reason for ran in runs for reason in _reasons(ran, nodes)),
    )


def stages_of(way: Way, where: str) -> tuple[str, ...]:
    """Where a node is lost, in a round each; the first round loses nobody.

    Nodes of a simulation share a process, so none of them is killed, and ours reply without a protocol.
    """
    if where == "simulation":
        return (work.NOBODY, *(work.PEER_STAGES if way.how == work.PEER else ("training raises",)))
    if way.how == work.PLAIN:
        return (work.NOBODY, "training raises", work.KILLED)
    if way.how == work.PEER:
        return (work.NOBODY, *work.PEER_STAGES, work.KILLED)
    if way.settings.get("transport") != "direct":
        return (work.NOBODY, "before it joins", "training raises", work.KILLED)
    return (work.NOBODY, *work.OUR_STAGES, work.KILLED)


def measure_losses(settings: Settings, where: str, on_text: OnText) -> list[Loss]:
    """Run each way at a place, and lose a node in another stage of each round.

    Raises
    ------
    blindsum.BlindsumError
        A run failed.
    """
    losses = []
    nodes = min(settings.nodes, LOSS_NODES)
    with (
        tempfile.TemporaryDirectory(prefix="blindsum-bench-") as folder,
        WHERE[where](Path(folder), nodes) as federation,
    ):
        for way in ways(settings, where):
            on_text(way.label)
            stages = stages_of(way, where)
            ran = federation.run(
                way.how, len(stages), settings.dims[0], lost=",".join(stages), **way.settings
            )
            losses += [
                Loss(where, way.label, stage, one["seconds"], one["survivors"])
                for stage, one in zip(stages, ran.rounds, strict=True)
            ]
    return losses
