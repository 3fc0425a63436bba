"""CPU time of a round, of all processes of a job: ``python -m benches.cpu PROTOCOL``.

Where others use the machine, too, it says more than the time on the clock. It is the difference between a
long job and a short one, so what starting costs is not in it.
"""

from __future__ import annotations

import resource
import sys

from benches.rounds import RoundCost, measure
from blindsum.spec import JobSpec

_SHORT, _LONG = 4, 24


def measure_cpu(protocol: str) -> tuple[float, RoundCost]:
    """Give the CPU seconds of one round of 10 parties and 10⁶ coordinates, and what the long job measured."""
    spent = []
    for rounds in (_SHORT, _LONG):
        spec = JobSpec(
            protocol=protocol,
            parties=10,
            dim=1_000_000,
            rounds=rounds,
            model_update="none",
            join_deadline=600.0,
            input_deadline=600.0,
            stage_deadline=600.0,
        )
        before = _spent()
        cost = measure(spec, lambda _status: None)
        spent.append(_spent() - before)
    return (spent[1] - spent[0]) / (_LONG - _SHORT), cost


def _spent() -> float:
    """Seconds of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    seconds, cost = measure_cpu(sys.argv[1])
    print(
        f"{sys.argv[1]}: {1000 * seconds:.0f} ms of CPU a round, the least {1000 * cost.fastest:.0f} ms long"
    )
