"""The job, and a run of it in NVFlare's simulator of four sites."""

import argparse
from pathlib import Path

import numpy as np
import train
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe.sim_env import SimEnv

import blindsum.nvflare

SITES = 4


def secure_recipe(rounds):
    """FedAvg whose server gets sums only."""
    recipe = NumpyFedAvgRecipe(
        name="digits",
        model=np.zeros((65, train.CLASSES)),
        min_clients=SITES,
        num_rounds=rounds,
        train_script=str(Path(__file__).with_name("train.py")),
        key_metric="loss",
        key_metric_mode="min",
        aggregator=blindsum.nvflare.SecureAggregator(clip=2.0, metrics="loss:0:10"),
    )
    blindsum.nvflare.secure(recipe)
    return recipe


def main():
    """Run the job, and test the model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workspace", type=Path, default=Path("workspace"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    root = options.workspace.absolute()
    env = SimEnv(num_clients=SITES, workspace_root=str(root))
    secure_recipe(options.rounds).execute(env)
    model = np.load(root / "digits" / "server" / "simulate_job" / "models" / "server.npy")
    print(f"accuracy {train.accuracy(model):.3f}")


if __name__ == "__main__":
    main()
