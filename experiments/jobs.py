"""A coordinator and its parties in threads of this process, over mutual TLS."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import blindsum as bs
from blindsum import pki

Array = NDArray[np.float32]
Step = Callable[[int, Array, int], Array]
"""An update, from a party's rank, the model and the number of the round."""


def play(spec: bs.JobSpec, first: Array, step: Step) -> list[bs.RoundResult]:
    """Play a whole job, in which every party makes its updates with a function.

    Parameters
    ----------
    spec
        The job. Its policy is not looked at: whoever measures knows all parties.
    first
        The model that it begins with, shape ``(dim,)``.
    step
        What makes updates.

    Returns
    -------
    list of blindsum.RoundResult
        The results of the party of rank 0, by round.
    """
    names = [f"party-{rank}" for rank in range(spec.parties)]
    with tempfile.TemporaryDirectory() as folder:
        ca = Path(folder) / "ca"
        pki.init(ca)
        pki.issue(ca, "coordinator", hosts=["localhost", "127.0.0.1"])
        for name in names:
            pki.issue(ca, name)
        return _play(spec, first, step, ca, names)


def _play(spec: bs.JobSpec, first: Array, step: Step, ca: Path, names: list[str]) -> list[bs.RoundResult]:
    results: dict[int, list[bs.RoundResult]] = {}
    failed: list[BaseException] = []
    policy = bs.Policy(
        allowed_protocols=[spec.protocol.name],
        require_adversary=None,
        min_corrupt=0.0,
        min_corrupt_parties=0,
        min_honest=0,
        min_cohort=1,
    )
    coordinator = bs.Coordinator(spec, identity=ca / "coordinator", ca=ca / "ca.pem", model=first)
    url = "https://localhost:" + coordinator.address.rpartition(":")[2]

    def run(rank: int, name: str) -> None:
        try:
            with bs.join(url, job=spec.job, identity=ca / name, ca=ca / "ca.pem", policy=policy) as session:
                results[rank] = []
                for current in session.rounds():
                    if current.needs_update:
                        current.submit(step(rank, np.asarray(current.model, np.float32), current.number))
                    if current.result() is not None:
                        results[rank].append(current.outcome())
        except BaseException as error:  # noqa: BLE001 it is raised again where the job was begun
            failed.append(error)

    parties = [threading.Thread(target=run, args=pair) for pair in enumerate(names)]
    for party in parties:
        party.start()
    for party in parties:
        party.join()
    coordinator.stop()
    if failed:
        raise failed[0]
    return results[0]
