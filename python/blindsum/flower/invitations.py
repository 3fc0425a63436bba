"""What the ServerApp tells a node in Blindsum's record, read in one place: all of it is foreign."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from blindsum.flower.refusals import Refusal, foreign
from blindsum.flower.texts import DIRECT, ENROL, MEAN, MESSAGES, ONE, SIMULATION

MAX_URL = 2048
MAX_NAME = 128
MAX_PEM = 64 << 10
MAX_TIMEOUT = 1e6

WEIGHTED_BY = "blindsum-weighted-by"
EXAMPLES = "num-examples"
"""The key of a weight where the run declares no other."""


@dataclass(frozen=True)
class Told:
    """What a train message says of its round.

    Attributes
    ----------
    url, job, job_hash, timeout
        As in :class:`blindsum.flower.direct.Invitation`.
    weighted_by : str
        The key of the metric that is the weight.
    reply : str
        ``"one"`` or ``"mean"``.
    tag : int or None
        The tag of the round, in a job of a coordinator that stands.
    certificate, ca : str
        What the run's CA has signed; empty where the node has a certificate of its own.
    """

    url: str
    job: str
    job_hash: str
    timeout: float
    weighted_by: str
    reply: str
    tag: int | None = None
    certificate: str = ""
    ca: str = ""

    @classmethod
    def read(cls, record: Mapping[str, object]) -> Told:
        """Read Blindsum's record of a train message.

        Raises
        ------
        blindsum.ConfigError
            An entry is missing, of another type or too long; ``field`` is ``"blindsum-record"``.
        """
        timeout = record.get("timeout")
        is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if not is_number or not 0 < timeout <= MAX_TIMEOUT:  # type: ignore[operator]
            raise wrong("timeout", f"must be a number of seconds, above 0 and at most {MAX_TIMEOUT:.0f}")
        job_hash = text(record, "job-hash", 64)
        if not re.fullmatch("[0-9a-f]{64}", job_hash):
            raise wrong("job-hash", "must be 64 hexadecimal digits")
        reply = text(record, "reply", MAX_NAME)
        if reply not in (ONE, MEAN):
            raise wrong("reply", f"must be {ONE!r} or {MEAN!r}")
        tag = record.get("tag")
        if tag is not None and (isinstance(tag, bool) or not isinstance(tag, int) or not 0 <= tag < 2**63):
            raise wrong("tag", "must be a whole number from 0 to 2**63 - 1")
        return cls(
            tag=tag,
            url=text(record, "url", MAX_URL),
            job=text(record, "job", MAX_NAME),
            job_hash=job_hash,
            timeout=float(timeout),  # type: ignore[arg-type]
            weighted_by=text(record, "weighted-by", MAX_NAME),
            reply=reply,
            certificate=text(record, "certificate", MAX_PEM) if "certificate" in record else "",
            ca=text(record, "ca", MAX_PEM) if "certificate" in record else "",
        )


def how(record: Mapping[str, object]) -> str:
    """What a train message asks of the node.

    Raises
    ------
    blindsum.ConfigError
        Something that this Blindsum does not know; ``field`` is ``"blindsum-transport"``.
    """
    asked = record.get("how")
    for known in (DIRECT, MESSAGES, SIMULATION, ENROL):
        if asked == known:
            return known
    raise Refusal(
        "blindsum-transport",
        f"{foreign(asked, 40)!r} is not known to the Blindsum of this node: install the same version at the "
        "ServerApp and at all nodes",
    )


def check_weighted_by(weighted_by: str, run_config: Mapping[str, object]) -> None:
    """Refuse a weight that the run does not declare: the server would choose what of the metrics it is.

    Raises
    ------
    blindsum.ConfigError
        It is another key; ``field`` is ``"blindsum-weighted-by"``.
    """
    if weighted_by != run_config.get(WEIGHTED_BY, EXAMPLES):
        raise Refusal(
            WEIGHTED_BY,
            f"the ServerApp weighs replies by {foreign(weighted_by, 64)!r}, which is not what the run "
            f"declares ({EXAMPLES!r} by default): set {WEIGHTED_BY} in the run's configuration",
        )


def text(record: Mapping[str, object], key: str, most: int) -> str:
    """A text of the record.

    Raises
    ------
    blindsum.ConfigError
        It is missing, empty or too long.
    """
    value = record.get(key)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise wrong(key, f"must be a text of 1 to {most} characters")
    return value


def wrong(key: str, rule: str) -> Refusal:
    """The error for an entry of the record."""
    version = "install the same version of Blindsum at the ServerApp and at all nodes"
    return Refusal("blindsum-record", f"{key!r} of the train message {rule}: {version}")
