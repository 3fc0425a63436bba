"""This client and the program's parties in jobs of a real coordinator; every sum is checked, word by word.

python play.py [SCENARIO ...]
"""

from __future__ import annotations

import ast
import os
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import derive
from job import Job
from training import update
from world import World


def job(protocol: str, parties: int, **more: Any) -> dict[str, Any]:
    """A job of three rounds, with weights, rounded to the nearest level so that sums can be foretold."""
    made: dict[str, Any] = {"job": "play", "protocol": protocol, "parties": parties, "dim": 1000, "rounds": 3}
    made |= {"min_parties": 3, "join_deadline": 4.0, "stage_deadline": 10.0, "input_deadline": 20.0}
    made["encoding"] = {"name": "quantised", "rounding": "nearest", "max_weight": 100}
    made["encoding"] |= more.pop("encoding", {})
    return made | more


def npy(path: Path) -> list[float]:
    """The singles of a .npy file."""
    data = path.read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert header["descr"] == "<f4", header
    return list(struct.unpack(f"<{header['shape'][0]}f", data[10 + length :]))


def check(world: World, mine: Sequence[str], others: Sequence[str], rounds: int = 3) -> None:
    """Repeats the job from what my parties saw, and compares sums, models and what others hold."""
    job = Job(world.job)
    encoding = job.quantised()
    exact = world.job["encoding"]["rounding"] == "nearest"
    sums: dict[int, dict[str, Any]] = {}
    ends: dict[int, dict[str, Any]] = {}
    for name in mine:
        for event in world.events(name):
            if event["event"] == "sum":
                assert sums.setdefault(event["round"], event)["sum"] == event["sum"], "two sums of one round"
            if event["event"] == "done":
                assert event["right"], event
                assert ends.setdefault(event["round"], event)["model"] == event["model"]
    os.environ["DIM"] = str(job["dim"])
    model = [] if job["model_update"] == "none" else [0.0] * job["dim"]
    for number in sorted(sums):
        seen = sums[number]
        if exact:
            words = [
                encoding.encode(*update(name, model, world.heavy), random=lambda count: bytes(count))
                for name in seen["survivors"]
            ]
            total = [sum(column) for column in zip(*words, strict=True)]
            assert total == seen["sum"], f"round {number} has another sum"
        mean, _ = encoding.decode(seen["sum"], len(seen["survivors"]))
        if job["model_update"] != "none":
            model = encoding.next_model(model, mean, job["model_update"])
        held = derive.model_hash(encoding.number_bytes(model))
        assert held.hex() == ends[number]["model"], f"round {number} has another model"
    assert len(sums) == rounds, sorted(sums)
    for name in others:
        path = world.folder / f"{name}.npy"
        assert (npy(path) if path.exists() else []) == model, f"{name} holds another model"
    print(f"    {rounds} sums {'exact' if exact else 'taken'}, all hold {held.hex()[:16]}", flush=True)


def simple(made: dict[str, Any], mine: Sequence[str], theirs: Sequence[str], *more: str) -> None:
    with World(made, [*mine, *theirs]) as world:
        for name in theirs:
            world.theirs(name)
        for name in mine:
            world.mine(name, *more)
        codes = world.finish([*mine, *theirs, "serve"])
        assert not any(codes.values()) and None not in codes.values(), (codes, world.folder)
        check(world, mine, theirs)


def killed(protocol: str) -> None:
    """One of the program's parties is killed amid a job; mine loses its connection."""
    made = job(protocol, 5, min_parties=3, dropout=0.25)
    theirs, mine = ["a-1", "b-2", "c-3"], ["d-4", "e-5"]
    with World(made, theirs + mine, ["reconnect_grace=2"]) as world:
        for name in theirs:
            world.theirs(name)
        world.mine("d-4", "--lie", "cut-answers", "--round", "2")
        world.mine("e-5")
        world.wait("d-4", "done", round=1)
        world.kill("b-2")
        codes = world.finish([*mine, "a-1", "c-3", "serve"])
        assert not any(codes.values()) and None not in codes.values(), (codes, world.folder)
        check(world, mine, ["a-1", "c-3"])


def cuts(lie: str) -> None:
    made = job("secagg+", 4, dim=150_000 if lie == "cut-input" else 1000)
    with World(made, ["a", "b", "c", "d"]) as world:
        for name in ("a", "b", "c"):
            world.theirs(name)
        world.mine("d", "--lie", lie)
        codes = world.finish(["a", "b", "c", "d", "serve"])
        assert not any(codes.values()) and None not in codes.values(), (codes, world.folder)
        events = [event["event"] for event in world.events("d")]
        lost, aborted = events.count("lost"), events.count("aborted")
        print(f"    {lie}: {lost} connections lost, {aborted} rounds aborted")
        if aborted == 0:
            check(world, ["d"], ["a", "b", "c"])


def away() -> None:
    """Mine is away for longer than the grace time, while the others train for 3 s in each round."""
    os.environ["SLOW"] = "3"
    try:
        with World(job("secagg+", 4, rounds=6), ["a", "b", "c", "d"], ["reconnect_grace=2"]) as world:
            for name in ("a", "b", "c"):
                world.theirs(name)
            world.mine("d", "--lie", "cut-long")
            codes = world.finish(["a", "b", "c", "d", "serve"])
    finally:
        del os.environ["SLOW"]
    ends = [
        (event["event"], event["round"])
        for event in world.events("d")
        if event["event"] in ("aborted", "done")
    ]
    print(f"    {codes}, {ends}")
    assert codes["d"] == 0 and ends[0] == ("aborted", 1) and len(ends) >= 2


def again() -> None:
    """My process is killed amid a job and started again: it takes part in the next round."""
    os.environ["SLOW"] = "3"
    try:
        with World(job("secagg+", 4, rounds=4), ["a", "b", "c", "d"], ["reconnect_grace=1"]) as world:
            for name in ("a", "b", "c"):
                world.theirs(name)
            world.mine("d")
            world.wait("d", "done", round=1)
            time.sleep(1)  # into the second round
            world.kill("d")
            world.mine("d")
            codes = world.finish(["a", "b", "c", "d", "serve"])
    finally:
        del os.environ["SLOW"]
    done = [event["round"] for event in world.events("d") if event["event"] == "done"]
    refused = [event["code"] for event in world.events("d") if event["event"] == "refused"]
    print(f"    {codes}, my rounds {done}, refused {refused}")
    assert codes["d"] == 0 and len(done) >= 2


def restart() -> None:
    """The coordinator is killed amid a round, and started again with its store."""
    os.environ["SLOW"] = "3"
    try:
        with World(job("secagg+", 4, rounds=3), ["a", "b", "c", "d"], ["reconnect_grace=2"]) as world:
            for name in ("a", "b", "c"):
                world.theirs(name)
            world.mine("d")
            world.wait("d", "done", round=1)
            time.sleep(1)  # into the second round
            world.kill("serve")
            world.serve()
            codes = world.finish(["a", "b", "c", "d", "serve"])
    finally:
        del os.environ["SLOW"]
    assert not any(codes.values()) and None not in codes.values(), (codes, world.folder)
    ends = [
        (event["event"], event["round"])
        for event in world.events("d")
        if event["event"] in ("aborted", "done")
    ]
    print(f"    {ends}")
    check(world, ["d"], ["a", "b", "c"])


SCENARIOS: dict[str, Callable[[], None]] = {
    "plain": lambda: simple(job("plain", 4), ["m-1", "m-2"], ["a", "z"]),
    "plain-killed": lambda: killed("plain"),
    "secagg+": lambda: simple(job("secagg+", 5), ["b", "d"], ["a", "c", "e"]),
    "secagg+-p256": lambda: simple(job("secagg+", 4, suite="p256"), ["b"], ["a", "c", "e"]),
    "secagg+-killed": lambda: killed("secagg+"),
    "secagg": lambda: simple(job("secagg", 3), ["b"], ["a", "c"]),
    "replace": lambda: simple(job("secagg+", 3, model_update="replace"), ["b"], ["a", "c"]),
    "none": lambda: simple(job("secagg+", 3, model_update="none"), ["b"], ["a", "c"]),
    "stochastic": lambda: simple(
        job("secagg+", 3, encoding={"rounding": "stochastic", "clipping": "l2", "max_weight": 1}),
        ["b"],
        ["a", "c"],
    ),
    "sparse": lambda: simple(
        job("secagg+", 20, dim=50, min_parties=18),
        [f"m-{at}" for at in range(3)],
        [f"t-{at}" for at in range(17)],
    ),
    "whole-piece": lambda: simple(job("plain", 3, dim=65536), ["b"], ["a", "c"]),
    # An answer of the input stage of exactly 262,144 bytes: 34 and 83,875 words of 25 bits.
    "exact-piece": lambda: simple(job("secagg+", 3, dim=83_874), ["b"], ["a", "c"]),
    "large": lambda: simple(job("secagg+", 3, dim=150_000), ["b"], ["a", "c"]),
    "again": again,
    "cut-long": away,
    "restart": restart,
}
for cut in ("ready", "fixed", "opened", "stages", "answers", "input", "result", "away"):
    SCENARIOS[f"cut-{cut}"] = lambda lie=f"cut-{cut}": cuts(lie)  # type: ignore[misc]


def main() -> int:
    failed = []
    for name in sys.argv[1:] or SCENARIOS:
        began = time.monotonic()
        print(name, flush=True)
        try:
            SCENARIOS[name]()
            print(f"    good, {time.monotonic() - began:.1f} s", flush=True)
        except Exception as error:
            failed.append(name)
            print(f"    FAILED {type(error).__name__}: {error}", flush=True)
    print("failed:", ", ".join(failed) or "nothing")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
