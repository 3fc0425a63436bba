"""Sparse rounds in which hardly any coordinate can be opened: a warning for everybody in such a job."""

from __future__ import annotations

import functools
import logging
import math

from blindsum.options import Flashe
from blindsum.spec import JobSpec

DEFAULT_CONTRIBUTORS = 2
"""What a ``min_contributors`` of 0 means."""

logger = logging.getLogger("blindsum")


def warn_if_rarely_opened(spec: JobSpec) -> None:
    """Warn if a coordinate seldom comes from as many parties in one round as its sum needs.

    That is where ``density * parties`` is below 1 and ``min_contributors`` above 1. The numbers and the rule
    of thumb are in docs/protocols/flashe.md.
    """
    protocol = spec.protocol
    if not isinstance(protocol, Flashe):
        return
    least = protocol.min_contributors or DEFAULT_CONTRIBUTORS
    senders = protocol.density * spec.parties
    if senders >= 1 or least == 1:
        return
    logger.warning(
        "job %r: density * parties = %g * %d = %.3g is below 1, and min_contributors is %d: few coordinates "
        "come from %d parties in one round, the others wait, and learning is slow or does not converge. Take "
        "a density of %g or more; or take min_contributors = 1: then parties see the coordinates that one of "
        "them alone has sent, and a party joins only if its policy has min_honest = 1 or less. See "
        "docs/protocols/flashe.md, density and accuracy",
        spec.job,
        protocol.density,
        spec.parties,
        senders,
        least,
        least,
        math.ceil(100 / spec.parties) / 100,
    )


@functools.lru_cache(maxsize=256)
def warn_once_if_rarely_opened(spec: JobSpec) -> None:
    """Warn like :func:`warn_if_rarely_opened`, once a job: simulations are run again and again."""
    warn_if_rarely_opened(spec)
