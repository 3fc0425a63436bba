"""Rounds over real processes and mutual TLS on the loopback interface, beside ``plain``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benches import ROOT
from benches.load import memory
from benches.party import DIM
from benches.relay import Relay
from blindsum import _native
from blindsum.coordinator import stored_rounds
from blindsum.demo.run import uploads_of_all
from blindsum.errors import BlindsumError
from blindsum.spec import JobSpec
from blindsum.testing import Cluster, PartyProcess

OnStatus = Callable[[dict[str, Any]], object]
OnText = Callable[[str], object]


@dataclass(frozen=True)
class RawCost:
    """What moving the bytes of a round costs over TLS alone: all parties send, then all receive.

    Attributes
    ----------
    seconds : float
        From the coordinator's word to begin until the last party has everything: the median.
    fastest : float
        The same of the fastest time.
    """

    seconds: float
    fastest: float


@dataclass(frozen=True)
class RoundCost:
    """What a round costs over the network: the median of the rounds after the first one.

    Attributes
    ----------
    protocol : str
        The protocol.
    parties, dim, rounds : int
        What was run.
    seconds : float
        From the offer of a round to its end.
    fastest : float
        The same of the fastest round, which other work on the machine disturbs least.
    stages : dict
        Seconds of each stage.
    up_bytes, down_bytes : float
        Of one party's connection until the result, TLS and HTTP/2 included, and the result itself.
    raw : RawCost
        What the same bytes cost over TLS alone.
    most_bytes : dict
        The most memory that the process of each server has held by the latest news of it: of the
        ``coordinator``, and of the ``second`` and ``third`` where there are three. Empty where the system
        does not say.
    """

    protocol: str
    parties: int
    dim: int
    rounds: int
    seconds: float
    fastest: float
    stages: dict[str, float]
    up_bytes: float
    down_bytes: float
    raw: RawCost
    most_bytes: dict[str, int]


# What says which vectors there are and who waits for whom, and nothing of how they are protected.
_SHARED = [
    "job",
    "parties",
    "dim",
    "min_parties",
    "rounds",
    "encoding",
    "join_deadline",
    "stage_deadline",
    "input_deadline",
    "model_update",
]


def unprotected(spec: JobSpec) -> JobSpec:
    """Give the job of ``plain`` with the same vectors, all coordinates of them."""
    return JobSpec(protocol="plain", **{name: getattr(spec, name) for name in _SHARED})


def names_of(spec: JobSpec) -> list[str]:
    """Give the names of as many parties as the job has, of which one may be its root."""
    names = [f"party-{rank:05}" for rank in range(spec.parties)]
    return names if spec.root is None else [*names[1:], spec.root]


def measure(spec: JobSpec, on_status: OnStatus, through: Relay | None = None) -> RoundCost:
    """Run a job with one process per party.

    Parameters
    ----------
    spec
        The job; its first round warms up and is not counted.
    on_status
        Called with the status of the job after every change.
    through
        Makes relays, by which processes reach each other.

    Raises
    ------
    blindsum.BlindsumError
        A process failed, or a round gave no sum.
    """
    with tempfile.TemporaryDirectory(prefix="blindsum-bench-") as name:
        folder = Path(name)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {DIM: str(spec.dim), "PYTHONPATH": path}
        parties = [PartyProcess(name, "benches.party:train", environment) for name in names_of(spec)]
        # Where servers alone learn the results they must have somewhere to put them.
        results = None if spec.tells_parties else folder / "results"
        most: dict[str, int] = {}
        with Cluster(
            spec, parties, folder, limits={"models_kept": 1}, results=results, through=through
        ) as cluster:
            for status in cluster.statuses():
                most |= _most_bytes(cluster)
                on_status(status)
        reports = stored_rounds(cluster.store, spec.job)
        _check(spec, reports)
        sums = [report for report in reports if not report["key_setup"]][1:]
        up, down = _bytes(spec, sums)
        raw = measure_raw(folder / "pki", [party.name for party in parties], up, down, len(sums))
    return _cost(spec, sums, (up, down), raw, most)


def measure_raw(certificates: Path, parties: list[str], up: float, down: float, times: int) -> RawCost:
    """Move as many bytes as a round has over TLS alone, over as many connections, with the same certificates.

    Parameters
    ----------
    certificates
        The folder of the CA, with those of ``coordinator`` and of the parties.
    parties
        Their names.
    up, down
        Bytes of each party to the coordinator, and then back.
    times
        How often; one more goes before them and is not counted.
    """
    coordinator, *pems = [
        (
            str(certificates / f"{name}.pem"),
            str(certificates / f"{name}.key"),
            str(certificates / "ca.pem"),
            None,
            None,
        )
        for name in ["coordinator", *parties]
    ]
    _first, *seconds = _native.tls_transfers(coordinator, pems, round(up), round(down), times + 1)
    return RawCost(seconds=median(seconds), fastest=min(seconds))


def measure_in_turns(specs: Iterable[JobSpec], times: int, on_text: OnText) -> list[RoundCost]:
    """Run jobs in turns, so that other work on the machine disturbs them alike.

    Parameters
    ----------
    specs
        The jobs; their names are told.
    times
        How often each is run. Its cost is that of the run with its fastest round.
    on_text
        Called with news.
    """
    jobs: list[tuple[JobSpec, list[RoundCost]]] = [(spec, []) for spec in specs]
    for turn in range(times):
        for spec, costs in jobs:
            on_text(f"{spec.job}, run {turn + 1} of {times}")
            costs.append(measure(spec, lambda _status: None))
    return [min(costs, key=lambda cost: cost.fastest) for _, costs in jobs]


def _most_bytes(cluster: Cluster) -> dict[str, int]:
    """Give the most memory that each server has held until now, without those that have ended."""
    found = {name: memory(pid, "VmHWM") for name, pid in cluster.server_pids.items()}
    return {name: most for name, most in found.items() if most is not None}


def _check(spec: JobSpec, reports: list[dict[str, Any]]) -> None:
    for report in reports:
        if report["state"] != "done" or len(report["survivors"]) < spec.parties:
            lost = "; ".join(text for stage in report["stages"] for text in stage["dropped"].values())
            raise BlindsumError(f"round {report['number']} lost parties: {report['reason'] or lost}")


def _bytes(spec: JobSpec, reports: list[dict[str, Any]]) -> tuple[float, float]:
    """Give what one party sends and receives in a round."""
    wires = [list(report["wire"].values()) for report in reports]
    # What is sent after the last stage is not in the traffic of the connections.
    results = [list(report["stages"][-1]["bytes"].values()) for report in reports]
    up = median(sum(one["up"] for one in wire) / spec.parties for wire in wires)
    if spec.needs_servers:
        up *= uploads_of_all(spec.parties)
    down = median(
        sum(one["down"] for one in wire + result) / spec.parties
        for wire, result in zip(wires, results, strict=True)
    )
    return up, down


def _stage_seconds(reports: list[dict[str, Any]]) -> dict[str, float]:
    """The median seconds of each stage in the rounds that had it; stages of one name (hops) are added up."""
    by_round: list[dict[str, float]] = []
    for report in reports:
        seconds: dict[str, float] = {}
        for stage in report["stages"]:
            seconds[stage["name"]] = seconds.get(stage["name"], 0.0) + stage["seconds"]
        by_round.append(seconds)
    names = dict.fromkeys(name for one in by_round for name in one)
    return {name: median(one[name] for one in by_round if name in one) for name in names}


def _cost(
    spec: JobSpec,
    reports: list[dict[str, Any]],
    sent: tuple[float, float],
    raw: RawCost,
    most_bytes: dict[str, int],
) -> RoundCost:
    up, down = sent
    return RoundCost(
        protocol=spec.protocol.name,
        parties=spec.parties,
        dim=spec.dim,
        rounds=len(reports),
        seconds=median(report["seconds"] for report in reports),
        fastest=min(report["seconds"] for report in reports),
        stages=_stage_seconds(reports),
        up_bytes=up,
        down_bytes=down,
        raw=raw,
        most_bytes=most_bytes,
    )
