"""Whole rounds of plain: every message of every party and of the coordinator, and the name of each result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import wire
from .derive import framed_hash
from .job import Job, Tensor
from .play import Scenario, Stage
from .refused import HEADER, Change, changed, flip, frames
from .words import add, pack


def result_name(context: bytes, told: bytes) -> bytes:
    """What parties compare: over the message that told the survivors their sum, with its frame."""
    return framed_hash("blindsum result", context, told)


def largest_word(job: Job) -> int:
    """Largest word of one party, so that no sum wraps."""
    return ((1 << job.width()) - 1) // job.parties


def transcript(scenario: Scenario) -> dict[str, Any]:
    """Everything about a round; all say one thing, and all who did are told the sum."""
    play, job = Stage(scenario), scenario.job
    words = [play.words(rank, largest_word(job) + 1) for rank in range(job.parties)]
    survivors = play.speaking()
    total = add(job.width(), [words[rank] for rank in survivors])
    result = wire.result(job.parties, set(survivors), job.width(), total)
    up = {rank: pack(job.width(), words[rank]) for rank in survivors}
    play.record("input", up, dict.fromkeys(survivors, result))
    return play.bound_to() | {
        "parties": [play.known_to(rank, play.tape(rank), words[rank]) for rank in range(job.parties)],
        "stages": play.stages,
        "liars": [],
        "survivors": survivors,
        "sum": total,
        "result_name": result_name(play.context, wire.frame(play.context, 0, result)).hex(),
    }


def upward(message: bytes) -> Iterator[Change]:
    """Changes that the coordinator notices."""
    yield from frames(message)
    yield "nothing behind the frame", message[:HEADER]
    yield "padding bits", flip(message, -1, 0x80)


def downward(message: bytes, rank: int) -> Iterator[Change]:
    """Changes that party ``rank`` notices: of 5 parties one is lost, and at least 3 must survive."""
    yield from frames(message)
    yield "nothing behind the frame", message[:HEADER]
    yield "survivors without a sum", message[: HEADER + 1]
    yield "survivors outside the roster", flip(message, HEADER, 0x80)
    yield "the party itself is not among the survivors", flip(message, HEADER, 1 << rank)
    yield "too few survivors", message[:HEADER] + bytes([1 << rank | 1 << (rank + 1)]) + message[HEADER + 1 :]
    yield "padding bits", flip(message, -1, 0x80)


def refused(stages: list[dict[str, Any]], rank: int) -> list[dict[str, object]]:
    """Messages that the coordinator refuses from a party, and the party at the end of the only stage."""
    (stage,) = stages
    sent, received = (bytes.fromhex(stage[way][str(rank)]) for way in ("up", "down"))
    return [{"up": changed(upward(sent)), "down": changed(downward(received, rank))}]


def vectors() -> dict[str, object]:
    """Everything that goes into ``plain.json``."""
    semi_honest = Job(protocol="plain", adversary="semi-honest")
    complete = Job(job="plain-complete", protocol="plain", parties=3, dim=7)
    tensors = (Tensor("dense.weight", 6, 0.5), Tensor("dense.bias", 3, 2.0))
    values: dict[str, dict[str, Any]] = {
        "lost": {"parties": 5, "min_parties": 3, "dim": 9, "bits": 6, "tensors": tensors},
        "weighted": {"parties": 4, "dim": 5, "bits": 8, "max_weight": 1000},
        "fixed": {"parties": 4, "dim": 3, "encoding": "fixed64"},
        "two-words": {"parties": 3, "dim": 4, "encoding": "integers", "bits": 64, "model_update": "none"},
        "two-words-weighted": {
            "parties": 3,
            "dim": 3,
            "encoding": "integers",
            "bits": 50,
            "max_weight": 70_000,
            "model_update": "none",
        },
    }
    jobs = {
        name: Job(**vars(semi_honest) | fields | {"job": f"plain-{name}"}) for name, fields in values.items()
    }
    rounds = [
        transcript(Scenario(complete, algorithms=("ed25519", "p256"))),
        transcript(Scenario(jobs["lost"], lost={3: 0})),
        *(transcript(Scenario(jobs[name])) for name in ("weighted", "fixed", "two-words")),
        transcript(Scenario(jobs["two-words-weighted"], lost={0: 0})),
    ]
    return {
        "rounds": rounds,
        "refused": {"round": 1, "party": 1, "stages": refused(rounds[1]["stages"], 1)},
    }
