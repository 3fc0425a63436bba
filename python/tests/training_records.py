"""Records of training runs for tests: made by a seed, without any training."""

import math
import random

import blindsum as bs

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
"""What a party may give as its reason."""

STAGES = (
    ("share-keys", 0.1, 900, 4300),
    ("masked-input", 2.4, 300_000, 900),
    ("unmasking", 0.2, 1900, 480_000),
)
"""Name, seconds and bytes up and down of a party."""


def record(rounds=12, parties=6, drop=0.08, abort=0.1, **changes):
    """A run that learns, with dropouts, rounds without a sum, and everything that a record may have."""
    rng = random.Random(7)
    names = [f"hospital-{rank:03d}" for rank in range(parties)]
    version, made = 0, []
    for number in range(1, rounds + 1):
        reason = HOSTILE if number == 2 else "its connection was lost"
        lost = {name: reason for name in names if rng.random() < drop}
        is_sum = number in (1, rounds) or rng.random() >= abort
        survivors = tuple(name for name in names if name not in lost) if is_sum else ()
        learnt = math.exp(-5 * number / rounds)
        values = {"accuracy": 0.95 - 0.8 * learnt, "loss": 0.1 + 2 * learnt}
        made.append(
            bs.TrainingRound(
                number=number,
                outcome="sum" if is_sum else "abort",
                survivors=survivors,
                lost=lost,
                seconds=3.0 + rng.random(),
                stages=tuple(
                    bs.StageCost(name, seconds * rng.uniform(0.8, 1.2), up * parties, down * parties)
                    for name, seconds, up, down in STAGES
                ),
                metrics={name: value + 0.01 for name, value in values.items()} if is_sum else {},
                reported={"accuracy": 0.9, "loss": 1.0} if is_sum else {},
                test=values if is_sum else {},
                plain_test={name: value - 0.001 for name, value in values.items()} if is_sum else {},
                deviation=rng.uniform(1e-7, 4e-7) if is_sum else None,
                clipped=rng.randrange(5) if is_sum else None,
                fault=None if is_sum else "too few parties are left",
                model_version=version,
                epsilon=0.1 * number**0.5,
                roster=tuple(names),
                lost_stages=dict.fromkeys(lost, "masked-input"),
            )
        )
        version += is_sum
    fields = {
        "kind": "processes",
        "job": "tumour",
        "protocol": "secagg+",
        "spec": {"job": "tumour", "parties": parties, "protocol": {"name": "secagg+"}},
        "parameters": {"learning_rate": 0.05, "schedule": [1, 2]},
        "origin": {"version": "1", "machine": "a machine", "seed": "7"},
        "rounds": tuple(made),
        "ended": "all rounds are done",
        "error_bound": 3e-5,
    }
    return bs.TrainingRecord(**fields | changes)


def one_round(**changes):
    """A round without anything, but for some fields."""
    fields = {
        "number": 1,
        "outcome": "sum",
        "survivors": ("a", "b"),
        "lost": {},
        "seconds": 1.0,
        "stages": (),
        "metrics": {},
        "reported": {},
        "test": {},
        "plain_test": {},
        "deviation": None,
        "clipped": None,
        "fault": None,
        "model_version": 0,
    }
    return bs.TrainingRound(**fields | changes)
