"""Jobs of a real NVFlare in a deployment: a server and sites as processes over TLS: `make nvflare`."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from nvflare.fuel.flare_api.api_spec import NoConnection
from nvflare.fuel.flare_api.flare_api import new_secure_session
from nvflare.tool.poc.poc_commands import get_prod_dir, prepare_poc_provision
from nvflare_real import BOUND
from nvflare_world_real import PRIVACY, SITES, START, World, plain, write

from blindsum.testing.cluster import free_ports

# NVFlare's sessions use what their libraries have deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ADMIN = "admin@nvidia.com"


class Deployment:
    """A server and four sites of NVFlare's proof of concept, each with Blindsum's files of its owner."""

    def __init__(self, world, *, privacy=None, deeds=None):
        self.world = world
        self.started = []
        workspace = world.folder / "poc"
        workspace.mkdir()
        project = world.folder / "project.yml"
        project.write_text(yaml.safe_dump(self._project()))
        prepare_poc_provision([], len(SITES), str(workspace), None, project_conf_path=str(project))
        self.kits = Path(get_prod_dir(str(workspace), "tumour"))
        for name in ("localhost", *SITES):
            local = self.kits / name / "local"
            # The owner of a machine writes the paths of that machine.
            own = {"identity": f"{world.pki}/{name}", "ca": f"{world.pki}"}
            if name == "localhost":
                own = {"coordinator_identity": f"{world.pki}/server", "ca": f"{world.pki}"}
            elif privacy is not None:
                write(local / "privacy.json", privacy)
            write(local / "blindsum.json", own)
        environment = world.environment(deeds) | {
            "NVFLARE_DEAD_CLIENT_GRACE_PERIOD": "5",
            "NVFLARE_DEAD_CLIENT_CHECK_LEAD_TIME": "5",
        }
        self._start("server", "localhost", environment)
        for site in SITES:
            self._start("client", site, environment)

    def _project(self):
        port = next(iter(free_ports().values()))
        kits = {"nvflare.lighter.impl.static_file.StaticFileBuilder": {"config_folder": "config"}}
        builders = ("workspace.WorkspaceBuilder", "static_file.StaticFileBuilder", "cert.CertBuilder")
        paths = [f"nvflare.lighter.impl.{name}" for name in (*builders, "signature.SignatureBuilder")]
        kits[paths[0]] = {"template_file": ["master_template.yml"]}
        return {
            "api_version": 3,
            "name": "tumour",
            "participants": [
                {"name": "localhost", "type": "server", "org": "clinic", "fed_learn_port": port},
                *({"name": site, "type": "client", "org": "clinic"} for site in SITES),
                {"name": ADMIN, "type": "admin", "org": "clinic", "role": "project_admin"},
            ],
            "builders": [{"path": path, "args": kits.get(path, {})} for path in paths],
        }

    def _start(self, kind, name, environment):
        kit = self.kits / name
        command = [
            *(sys.executable, "-u", "-m", f"nvflare.private.fed.app.{kind}.{kind}_train", "-m", str(kit)),
            *("-s", f"fed_{kind}.json", "--set", "secure_train=true", "config_folder=config", "org=clinic"),
            *([f"uid={name}"] if kind == "client" else []),
        ]
        with open(self.world.folder / f"{name}.out", "w") as output:
            self.started.append(
                subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=kit)
            )

    def run(self, job):
        """Run a job to its end; its status, and the model."""
        folder = self.world.export(job)
        session = self._session()
        number = session.submit_job(str(folder))
        session.monitor_job(number, timeout=400)
        status = session.get_job_meta(number)["status"]
        found = Path(session.download_job_result(number))
        session.close()
        models = list(found.rglob("server.npy"))
        return status, np.load(models[0]) if models else None

    def trained(self, job):
        """Submit a job, wait for the end of its workflow, and give the model."""
        session = self._session()
        number = session.submit_job(str(self.world.export(job)))
        session.close()
        end = time.monotonic() + 300
        while "END_RUN fired" not in self.logs():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.5)
        (model,) = (self.kits / "localhost" / number).rglob("server.npy")
        return np.load(model)

    def _session(self):
        """A session, once the server and all sites are there."""
        end = time.monotonic() + 180
        while True:
            try:
                session = new_secure_session(ADMIN, str(self.kits / ADMIN))
                if len(session.get_system_info().client_info) == len(SITES):
                    return session
                session.close()
            except NoConnection:
                if time.monotonic() > end:
                    raise
            assert time.monotonic() < end, self.logs()
            time.sleep(0.5)

    def logs(self):
        """All that was written to logs."""
        files = [*self.kits.rglob("*.txt"), *self.world.folder.glob("*.out")]
        return "\n".join(file.read_text(errors="replace") for file in files)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_sites_of_a_deployment_protect_themselves(world):
    with Deployment(world, privacy=PRIVACY) as deployment:
        job = world.patient("sums", metrics="loss:0:10")
        seen = world.witnessed(job)
        status, model = deployment.run(job)
        assert "COMPLETED" in status, deployment.logs()
        assert np.allclose(model, plain(), atol=2 * BOUND)
        assert all("array([], dtype=float32)" in line for line in seen.read_text().splitlines())
        seen.unlink()
        # Somebody submits a job without Blindsum.
        naked = world.recipe("naked", rounds=1)
        world.witnessed(naked)
        status, model = deployment.run(naked)
        assert "COMPLETED" not in status
        assert {line.split()[1] for line in seen.read_text().splitlines()} == {"TASK_RESULT_FILTER_ERROR"}


def test_a_site_that_is_killed_in_a_round_is_left_out(world):
    with Deployment(world, deeds={"site-2/1": "kill"}) as deployment:
        # NVFlare waits for minutes for what the dead site says of its end: the workflow's end is looked for.
        model = deployment.trained(world.gathered("killed"))
        assert np.allclose(model, plain(1) + plain(1, (1, 3, 4)) - START, atol=2 * BOUND)
        assert "round 1: not in the sum: site-2" in deployment.logs()
