"""One learner of an organisation that has several, which are one party together.

    torchrun --nproc-per-node 3 examples/domain.py https://agg.example:9443 hospital-a ca.pem

The learners add up their updates in the clear among themselves, and the first of them speaks for all.
"""

from __future__ import annotations

import sys

import numpy as np

import blindsum as bs


def train(model, learner):
    """Return the update of one learner and its weight: yours."""
    data = np.random.default_rng(learner).normal(0.25, 0.1, size=(100 + 50 * learner, model.size))
    return 0.5 * (data.mean(axis=0) - model), len(data)


def take_part(url, identity, ca, **how):
    """Train until the job is over, and say what came out."""
    with bs.join_domain(url, job="tumour", identity=identity, ca=ca, **how) as job:
        for rnd in job.rounds():
            update, weight = train(rnd.model, job.rank)
            rnd.submit(update, weight)
            mean = rnd.result()
            if mean is not None and job.speaks:
                print(f"round {rnd.number}: mean {mean.mean():.4f} of {len(rnd.outcome().survivors)} parties")


def main():
    """Run as one process of torchrun."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    take_part(*sys.argv[1:])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
