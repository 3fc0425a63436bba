"""One learner of a domain, as a process: python domain_learner.py SETTINGS, in JSON.

What it got, or the error that it ended with, is one JSON object on a line of standard output.
"""

import dataclasses
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import blindsum as bs
from blindsum.testing.learners import SocketPeers


def update_of(domain, rank, dim=4):
    """Multiples of 1/16, whose weighted means are exact where weights add up to a power of two."""
    return ((np.arange(dim) + 3 * rank + 5 * domain) % 8) / 16 - 0.25


def weight_of(rank):
    return (1, 2, 5)[rank]


def peers(settings):
    """How this learner talks to the others: arguments of join_domain."""
    folder, rank, size = Path(settings["folder"]), settings["rank"], settings["size"]
    talk = {"speaker": settings["speaker"], "timeout": settings["timeout"]}
    if settings["how"] == "sockets":
        return {"peers": SocketPeers(folder, rank, size, **talk)}
    try:
        import torch.distributed as dist
    except ImportError:
        # The package says it better.
        return {}
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    return talk


def misbehave(what):
    match what:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die later":
            threading.Timer(2.5, misbehave, ["die"]).start()
        case "hang":
            time.sleep(20)


def told(rnd):
    """What a learner knows of a round that has a result."""
    known = dataclasses.asdict(rnd.outcome())
    keep = ("mean", "model", "sum", "survivors", "total_weight", "result")
    lists = {name: known[name] for name in keep if known[name] is not None}
    plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in lists.items()}
    return plain | {"number": rnd.number, "start": rnd.model.tolist(), "parties": rnd.parties}


def named(error):
    return {"kind": type(error).__name__, "said": str(error), "learner": getattr(error, "learner", None)}


def updates(settings, job):
    """This learner's update and weight: floats as an array, a tensor or a list of arrays; or integers."""
    domain, rank = settings["domain"], settings["rank"]
    if isinstance(job.spec.encoding, bs.Integers):
        return settings["integers"][rank], settings["weights"][rank]
    update = update_of(domain, rank, job.spec.dim)
    if rank == 1:
        update = [update[:1], update[1:].reshape(-1, 1)]
    elif settings["how"] == "gloo":
        import torch

        update = torch.from_numpy(update.astype(np.float32))
    return update, weight_of(rank)


def take_part(settings):
    rounds, join = [], settings["join"]
    policy = bs.Policy(**settings["policy"])
    with bs.join_domain(**join, policy=policy, **settings.get("options", {}), **peers(settings)) as job:
        if "join" in settings.get("misbehave", {}):
            misbehave(settings["misbehave"]["join"][1])
        for rnd in job.rounds(on_lost=lambda error: rounds.append({"lost": named(error)})):
            Path(settings["folder"], f"in-round-{settings['rank']}").touch()
            at = settings.get("misbehave", {}).get("train")
            if at is not None and at[0] == rnd.number:
                misbehave(at[1])
            rnd.submit(*updates(settings, job))
            at = settings.get("misbehave", {}).get("result")
            if at is not None and at[0] == rnd.number:
                misbehave(at[1])
            if rnd.result() is not None:
                rounds.append(told(rnd))
    return rounds


def main():
    settings = json.loads(sys.argv[1])
    try:
        said = {"rounds": take_part(settings)}
    except (bs.BlindsumError, RuntimeError) as error:
        said = {"error": named(error)}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
