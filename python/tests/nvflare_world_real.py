"""Sites, a server, certificates and jobs for the tests with a real NVFlare."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import FullModelShareableGenerator
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import FedJob
from nvflare.job_config.defs import FilterType
from nvflare.job_config.script_runner import ScriptRunner

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
        # The whole site: NVFlare ends a job where the parent of a process tells that it has died.
        os.kill(os.getppid(), 9)
        os.kill(os.getpid(), 9)
    if deed.startswith("touch:"):
        open(deed.removeprefix("touch:"), "w").close()
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

WITNESS = """
import os
from nvflare.apis.dxo import from_shareable
from nvflare.apis.filter import Filter


class Witness(Filter):
    def process(self, shareable, fl_ctx):
        try:
            dxo = from_shareable(shareable)
            text = f"{fl_ctx.get_peer_context().get_identity_name()} {dxo.data} {dxo.meta}"
        except ValueError:
            text = f"{fl_ctx.get_peer_context().get_identity_name()} {shareable.get_return_code()}"
        with open(os.environ["SEEN"], "a") as file:
            file.write(text.replace(chr(10), " ") + chr(10))
        return shareable
"""


PRIVACY = {
    "scopes": [
        {
            "name": "protected",
            "task_data_filters": [{"path": "blindsum.nvflare.SecureFilter"}],
            "task_result_filters": [{"path": "blindsum.nvflare.SecureFilter"}],
        }
    ],
    "default_scope": "protected",
}


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

    def gathered(self, name, *, rounds=2, least=3, timeout=0, aggregator=None, **settings):
        """A job of the older workflow, ScatterAndGather, which goes on when the least number has replied."""
        job = FedJob(name=name, min_clients=least)
        aggregator = aggregator or blindsum.nvflare.SecureAggregator(**settings)
        job.to_server(NPModelPersistor(model=START.tolist()), id="persistor")
        job.to_server(FullModelShareableGenerator(), id="generator")
        job.to_server(aggregator, id="aggregator")
        workflow = ScatterAndGather(
            min_clients=least,
            num_rounds=rounds,
            wait_time_after_min_received=0,
            train_timeout=timeout,
            aggregator_id="aggregator",
            persistor_id="persistor",
            shareable_generator_id="generator",
            ignore_result_error=True,
        )
        job.to_server(workflow)
        job.to_clients(ScriptRunner(script=str(self.script), framework=FrameworkType.NUMPY))
        blindsum.nvflare.secure(job)
        return job

    def patient(self, name, *, rounds=2, **settings):
        """A job of FedAvg that goes on without sites that fail."""
        job = FedJob(name=name, min_clients=3)
        job.to_server(NPModelPersistor(model=START.tolist()), id="persistor")
        workflow = FedAvg(
            num_clients=4,
            num_rounds=rounds,
            persistor_id="persistor",
            ignore_result_error=True,
            aggregator=blindsum.nvflare.SecureAggregator(**settings),
        )
        job.to_server(workflow)
        job.to_clients(ScriptRunner(script=str(self.script), framework=FrameworkType.NUMPY))
        blindsum.nvflare.secure(job)
        return job

    def witnessed(self, job):
        """Let the server write down all that it gets of sites."""
        job = getattr(job, "_job", job)
        source = self.folder / "witness.py"
        source.write_text(WITNESS)
        sys.path.insert(0, str(self.folder))
        import witness

        job.to_server(witness.Witness(), filter_type=FilterType.TASK_RESULT, tasks=["train"])
        return self.folder / "seen"

    def export(self, recipe):
        jobs = self.folder / "jobs"
        if isinstance(recipe, FedJob):
            recipe.export_job(str(jobs))
        else:
            recipe.export(str(jobs))
        return jobs / recipe.name

    def simulate(self, recipe, *, threads=4, sites=4, local=None, deeds=None):
        """Run a job in the simulator; its return code, its output, and the model."""
        job = self.export(recipe)
        workspace = self.folder / f"workspace-{recipe.name}"
        (workspace / "local").mkdir(parents=True)
        write(workspace / "local" / "blindsum.json", self.settings() if local is None else local)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "nvflare.private.fed.app.simulator.simulator", str(job)),
                *("-w", str(workspace), "-n", str(sites), "-t", str(threads)),
            ],
            env=self.environment(deeds),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        (self.folder / f"{recipe.name}.log").write_text(done.stdout)
        model = workspace / "server" / "simulate_job" / "models" / "server.npy"
        return done.returncode, done.stdout, np.load(model) if model.exists() else None

    def environment(self, deeds=None):
        """What processes of NVFlare start with."""
        return os.environ | {
            "DEEDS": json.dumps(deeds or {}),
            "SEEN": str(self.folder / "seen"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }


def write(path, content):
    path.write_text(json.dumps(content))


def plain(rounds=2, sites=(1, 2, 3, 4), start=START):
    """What FedAvg without Blindsum gives after so many rounds."""
    step = sum(0.01 * number * number for number in sites) / sum(sites)
    return start + rounds * step
