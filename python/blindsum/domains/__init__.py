"""Several learners of one organisation as one party: an administrative domain (MYSTIKO §V-D).

The learners of a domain add up their updates in the clear among themselves. One of them, the *speaker*, is
the party of the job: it holds the certificate, hands in what they have together, and passes on the result.

=================================  ===========================================================
:func:`blindsum.join_domain`       every learner joins with the same call
:class:`blindsum.Domain`           the job, as a learner sees it
:class:`Peers`                     how learners talk; yours, where they do not use torch
:class:`blindsum.domains.Gloo`     how they talk over ``torch.distributed``
=================================  ===========================================================
"""

from __future__ import annotations

from blindsum.domains.domain import Domain, join_domain
from blindsum.domains.gloo import Gloo
from blindsum.domains.peers import PeerLost, Peers
from blindsum.domains.round import DomainRound

__all__ = ["Domain", "DomainRound", "Gloo", "PeerLost", "Peers", "join_domain"]
