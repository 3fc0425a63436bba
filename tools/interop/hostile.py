"""One of this folder's parties lies, among four honest ones of the program; says what everybody makes of it.

python hostile.py [--plain] [--always] [LIE ...]
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import liar
from job import Job
from play import job, npy
from training import update
from world import World

HONEST = ["a", "b", "c", "e"]
SLOW = {"second", "same", "same-often", "later"}  # lies for which the others must train for a while


def exact(world: World, done: dict[int, list[str]]) -> bool:
    """Whether all honest parties hold the model that the survivors' true updates lead to."""
    made = Job(world.job)
    encoding = made.quantised()
    model = [0.0] * made["dim"]
    for number in sorted(done):
        words = [
            encoding.encode(*update(name, model, world.heavy), random=lambda count: bytes(count))
            for name in done[number]
        ]
        total = [sum(column) for column in zip(*words, strict=True)]
        model = encoding.next_model(model, encoding.decode(total, len(words))[0], made["model_update"])
    return all(npy(world.folder / f"{name}.npy") == model for name in HONEST)


def one(lie: str, protocol: str, *more: str) -> dict[str, Any]:
    os.environ["SLOW"] = "1.5" if lie in SLOW else "0"
    made = job(protocol, 5, dropout=0.25, stage_deadline=4.0, input_deadline=6.0, join_deadline=3.0)
    with World(made, [*HONEST, "d"], ["reconnect_grace=2", "farewell=5"]) as world:
        for name in HONEST:
            world.theirs(name)
        world.mine("d", "--lie", lie, *more)
        codes = world.finish([*HONEST, "serve"], 75)
        mine = [
            {
                key: value
                for key, value in event.items()
                if key not in ("party", "sum", "hash", "program", "survivors")
            }
            for event in world.events("d")
            if event["event"] not in ("welcome", "input")
        ]
        rounds: dict[int, str] = {}
        done: dict[int, list[str]] = {}
        for event in world.events("serve"):
            if event.get("event") == "status" and event["round"]:
                told = event["round"]
                text = f"{told['state']} {told['reason']}".strip()
                if told["state"] == "done":
                    done[told["number"]] = told["survivors"]
                if told["survivors"]:
                    text += f" of {''.join(told['survivors'])}"
                rounds[told["number"]] = text
        warnings = [
            line[29:]
            for line in world.text("serve.err").splitlines()
            if " WARN " in line or " ERROR " in line
        ]
        others = {
            name: [
                line[29:]
                for line in world.text(f"{name}.err").splitlines()
                if (" WARN " in line or "error" in line) and "clipping" not in line
            ]
            for name in HONEST
        }
        return {
            "lie": lie,
            "codes": codes,
            "rounds": rounds,
            "exact": exact(world, done) if done and codes["a"] == 0 else None,
            "mine": mine,
            "serve": warnings,
            "others": others,
            "faults": world.faults().splitlines(),
            "folder": str(world.folder),
        }


def main() -> int:
    args = sys.argv[1:]
    protocol = "plain" if "--plain" in args else "secagg+"
    lies = [arg for arg in args if not arg.startswith("--")]
    for lie in lies or [name for name in liar.LIES if not name.startswith("cut-")]:
        began = time.monotonic()
        found = one(lie, protocol, *(["--always"] if "--always" in args else []))
        print(f"=== {protocol}: {lie}: {liar.LIES[lie]} ({time.monotonic() - began:.0f} s)")
        for key in ("codes", "rounds", "exact"):
            print(f"  {key}: {json.dumps(found[key])}")
        for line in found["mine"]:
            print("  mine:", json.dumps(line)[:330])
        for line in found["serve"]:
            print("  serve:", line[:330])
        for name, lines in found["others"].items():
            for line in lines:
                print(f"  {name}:", line[:330])
        for line in found["faults"]:
            print("  faults:", line[:200])
        print("  folder:", found["folder"], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
