"""Sites, a server, certificates and jobs for the tests with a real NVFlare."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe

import blindsum.nvflare
from blindsum import pki

SITES = [f"site-{number}" for number in range(1, 5)]
START = np.full(6, 0.5)

TRAIN = '''
"""Adds 0.01 times the number of the site; what else it does, the environment says."""
import json, os, time
import numpy as np
import nvflare.client as flare

flare.init()
site = flare.get_site_name()
number = int(site.rpartition("-")[2])
deeds = json.loads(os.environ.get("DEEDS", "{}"))
while flare.is_running():
    model = flare.receive()
    if model is None:
        break
    deed = deeds.get(f"{site}/{model.current_round}", "")
    if deed == "raise":
        raise ValueError("no data today")
    if deed == "kill":
        os.kill(os.getpid(), 9)
    if deed.startswith("wait:"):
        while not os.path.exists(deed.removeprefix("wait:")):
            time.sleep(0.1)
    arrays = {name: array + 0.01 * number for name, array in model.params.items()}
    if deed == "nan":
        arrays = {name: array * np.nan for name, array in arrays.items()}
    meta = {"NUM_STEPS_CURRENT_ROUND": number}
    if deed == "no steps":
        meta = {"NUM_STEPS_CURRENT_ROUND": 0}
    metrics = {"loss": float(number), "secret": 1.0}
    flare.send(flare.FLModel(params=arrays, metrics=metrics, meta=meta))
'''


class World:
    """A CA, files of sites, and a folder for jobs."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.pki = folder / "pki"
        pki.init(self.pki)
        pki.issue(self.pki, "server", hosts=["127.0.0.1"])
        for site in SITES:
            pki.issue(self.pki, site)
        self.script = folder / "train.py"
        self.script.write_text(TRAIN)

    def settings(self, **changes):
        """What `local/blindsum.json` says at the sites and the server."""
        found = {
            "identity": f"{self.pki}/{{site}}",
            "ca": f"{self.pki}",
            "coordinator_identity": f"{self.pki}/server",
        }
        return found | changes

    def recipe(self, name, *, aggregator=None, rounds=2, sites=4):
        return NumpyFedAvgRecipe(
            name=name,
            model=START,
            min_clients=sites,
            num_rounds=rounds,
            train_script=str(self.script),
            aggregator=aggregator,
        )

    def protected(self, name, *, rounds=2, sites=4, **settings):
        aggregator = blindsum.nvflare.SecureAggregator(**{"metrics": "loss:0:10"} | settings)
        recipe = self.recipe(name, aggregator=aggregator, rounds=rounds, sites=sites)
        blindsum.nvflare.secure(recipe)
        return recipe

    def export(self, recipe):
        jobs = self.folder / "jobs"
        recipe.export(str(jobs))
        return jobs / recipe.name

    def simulate(self, recipe, *, threads=4, sites=4, local=None, privacy=None, deeds=None):
        """Run a job in the simulator; its return code, its output, and the model."""
        job = self.export(recipe)
        workspace = self.folder / f"workspace-{recipe.name}"
        (workspace / "local").mkdir(parents=True)
        write(workspace / "local" / "blindsum.json", self.settings() if local is None else local)
        if privacy is not None:
            write(workspace / "local" / "privacy.json", privacy)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "nvflare.private.fed.app.simulator.simulator", str(job)),
                *("-w", str(workspace), "-n", str(sites), "-t", str(threads)),
            ],
            env=os.environ | {"DEEDS": json.dumps(deeds or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        (self.folder / f"{recipe.name}.log").write_text(done.stdout)
        model = workspace / "server" / "simulate_job" / "models" / "server.npy"
        return done.returncode, done.stdout, np.load(model) if model.exists() else None


def write(path, content):
    path.write_text(json.dumps(content))


def plain(rounds=2, sites=(1, 2, 3, 4), start=START):
    """What FedAvg without Blindsum gives after so many rounds."""
    step = sum(0.01 * number * number for number in sites) / sum(sites)
    return start + rounds * step
