"""A round over a slow and long link: whether what a party sends keeps it full.

The link is a relay in this process (`benches.relay`).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benches.load import check_one_server, crowd
from benches.relay import Link, Relay, relays
from blindsum.coordinator import stored_rounds
from blindsum.errors import ConfigError
from blindsum.spec import JobSpec
from blindsum.testing import Cluster


@dataclass(frozen=True)
class LinkCost:
    """What the stage of a round took in which parties send their vectors.

    Attributes
    ----------
    seconds : float
        From its beginning at the coordinator to its end.
    least : float
        What the link needs for as many bytes, and a round trip: the parties hear of the stage, and then send.
    up_bytes : float
        Of one party's messages.
    """

    seconds: float
    least: float
    up_bytes: float


def measure(spec: JobSpec, link: Link) -> LinkCost:
    """Run one round of a job, each party over a link of its own.

    Parameters
    ----------
    spec
        The job, of one round.
    link
        The link.

    Raises
    ------
    blindsum.ConfigError
        Parties of the protocol do not all send their vectors in one stage, to one server.
    """
    check_one_server(spec, "bench link")
    if spec.stages.count(spec.input_stage) > 1:
        rule = f"parties of {spec.protocol.name} take turns, so that no link is kept full: choose another"
        raise ConfigError("--protocol", rule)
    with tempfile.TemporaryDirectory(prefix="blindsum-link-") as name:
        with (
            Cluster(spec, [], Path(name), limits={"models_kept": 1}) as cluster,
            relays(link) as relay,
            crowd(spec, _through(relay, cluster.url), Path(name) / "pki") as parties,
        ):
            parties.round(np.linspace(-1, 1, spec.dim).tolist())
        (report,) = [one for one in stored_rounds(cluster.store, spec.job) if not one["key_setup"]]
    (stage,) = [stage for stage in report["stages"] if stage["name"] == spec.input_stage]
    up = sum(one["up"] for one in stage["bytes"].values()) / spec.parties
    return LinkCost(stage["seconds"], 8 * up / (1e6 * link.megabits) + link.round_trip, up)


def _through(relay: Relay, url: str) -> str:
    return f"https://localhost:{relay('127.0.0.1', int(url.rpartition(':')[2]))}"
