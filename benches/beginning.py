"""Memory of a coordinator while all parties are told that a round begins.

Run ``python -m benches.beginning PARTIES``. The parties are machines in the same process, and hear nothing of
that beginning.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from blindsum import _native
from blindsum.machines import PartyMachine, ServerMachine
from blindsum.policy import Policy
from blindsum.spec import JobSpec

# Frames go back and forth: Hello, Welcome and the offer, Ready.
_TURNS = 4


def measure(parties: int) -> tuple[int, int]:
    """Give the bytes of memory before the last party is ready, and once the round has begun."""
    job = JobSpec(job="begin", protocol="plain", parties=parties, min_parties=parties, dim=1, rounds=1)
    policy = Policy(
        allowed_protocols=["plain"],
        require_adversary=None,
        min_corrupt=0.0,
        min_corrupt_parties=0,
        min_honest=0,
        min_cohort=1,
    )
    authority = _native.pki_create_authority("bench", "ed25519", 1)
    with tempfile.TemporaryDirectory(prefix="blindsum-bench-") as name:
        folder = Path(name)
        (folder / "ca.pem").write_text(authority[0])
        server = ServerMachine.open(job, ca=folder / "ca.pem")
        machines = {}
        for rank in range(parties):
            pem, key = _native.pki_issue(authority, f"party-{rank:05}", "party", [], "ed25519", 1)
            (folder / "party.pem").write_text(pem)
            (folder / "party.key").write_text(key)
            party = PartyMachine.open("begin", identity=folder / "party", ca=folder / "ca.pem", policy=policy)
            machines[server.connected(pem)] = party
            party.connected()
            party.want_round()
    for _ in range(_TURNS):
        for outgoing in server.frames():
            machines[outgoing.link].receive(outgoing.frame)
        before = _memory()
        for link, party in machines.items():
            for frame in party.frames():
                server.receive(link, frame)
        if server.status["round"] and server.status["round"]["state"] == "running":
            return before, _memory()
    raise RuntimeError(f"no round began: {server.status}")


def _memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024


if __name__ == "__main__":
    earlier, later = measure(int(sys.argv[1]))
    print(f"{sys.argv[1]} parties: {(later - earlier) / 1e6:.1f} MB more, from {earlier / 1e6:.0f} MB")
