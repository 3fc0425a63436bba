"""The page on NVFlare and its example, with a real NVFlare in its simulator: `make nvflare`."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import ScriptRunner
from nvflare_real import BOUND, spec
from nvflare_world_real import PRIVACY, SITES, START, World, plain

import blindsum as bs
import blindsum.nvflare
from blindsum.nvflare.settings import SiteSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "nvflare.md"
EXAMPLE = ROOT / "examples" / "nvflare"


def block(kind):
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_the_job_of_the_page_runs(world):
    names = {"NumpyFedAvgRecipe": NumpyFedAvgRecipe, "blindsum": blindsum, "model": START}
    exec(block("python nvflare job").replace('"train.py"', repr(str(world.script))), names)
    code, log, model = world.simulate(names["recipe"])
    assert code == 0, log
    assert np.allclose(model, plain(3), atol=3 * BOUND)


def test_the_patient_job_of_the_page_goes_on_without_a_site(world):
    names = {
        "FedJob": FedJob,
        "FedAvg": FedAvg,
        "NPModelPersistor": NPModelPersistor,
        "ScriptRunner": ScriptRunner,
        "FrameworkType": FrameworkType,
        "blindsum": blindsum,
        "model": START,
    }
    exec(block("python nvflare patient").replace('"train.py"', repr(str(world.script))), names)
    code, log, model = world.simulate(names["job"], deeds={"site-2/2": "raise"})
    assert code == 0, log
    assert np.allclose(model, plain(2) + plain(1, (1, 3, 4)) - START, atol=3 * BOUND)


LOOP_TRAIN = """
import numpy as np


def train(model):
    number = int(site.rpartition("-")[2])
    arrays = {name: array + 0.01 * number for name, array in model.params.items()}
    return flare.FLModel(params=arrays, meta={"NUM_STEPS_CURRENT_ROUND": number})


"""


def test_the_loop_of_the_page_runs(world):
    with bs.Coordinator(spec(), identity=world.pki / "server", ca=world.pki, hosted=True) as coordinator:

        def host():
            for number in range(2):
                coordinator.round(SITES, tag=number)

        thread = threading.Thread(target=host)
        thread.start()
        url = f"https://127.0.0.1:{coordinator.address.rpartition(':')[2]}"
        code = block("python nvflare loop").replace("https://agg.example:9443", url)
        code = code.replace("/etc/blindsum/ca.pem", str(world.pki)).replace("/etc/blindsum", str(world.pki))
        world.script.write_text(LOOP_TRAIN + code)
        status, log, model = world.simulate(world.recipe("loop"))
        thread.join()
    assert status == 0, log
    assert np.allclose(model, plain(), atol=2 * BOUND)


def test_the_files_of_the_page_are_read(tmp_path):
    for kind, field in (("site", "identity"), ("server", "coordinator_identity")):
        (tmp_path / "blindsum.json").write_text(block(f"json nvflare {kind}"))
        assert getattr(SiteSettings.read(tmp_path, "hospital-a"), field).startswith("/etc/blindsum/")
    # The tests of deployments have the file of the page.
    assert json.loads(block("json nvflare privacy")) == PRIVACY


def test_a_job_without_code_needs_the_line_in_the_list_of_classes(tmp_path):
    class Workspace:
        def get_resources_file_path(self):
            return str(tmp_path / "resources.json")

    for name in ("SecureFilter", "SecureAggregator"):
        # As a job of NVFlare's names the class.
        path = f"{getattr(blindsum.nvflare, name).__module__}.{name}"
        (tmp_path / "resources.json").write_text(json.dumps({"class_allow_list": ["nvflare."]}))
        with pytest.raises(UnsafeComponentError):
            ComponentPathAuthorizer().authorize_component_config({"path": path}, workspace=Workspace())
        allowed = {"class_allow_list": ["nvflare.", "blindsum.nvflare."]}
        (tmp_path / "resources.json").write_text(json.dumps(allowed))
        ComponentPathAuthorizer().authorize_component_config({"path": path}, workspace=Workspace())


def test_the_example_trains(tmp_path):
    for command in (["certificates.py"], ["job.py", "--rounds", "2"]):
        done = subprocess.run(
            [sys.executable, str(EXAMPLE / command[0]), *command[1:], "--workspace", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout
    assert float(re.search(r"^accuracy (\S+)$", done.stdout, re.MULTILINE)[1]) > 0.8
    assert "Aggregated 4/4 results" in done.stdout


def test_the_diff_of_the_example_is_that_of_its_job():
    job = (EXAMPLE / "job.py").read_text()
    shown = (EXAMPLE / "README.md").read_text()
    added = re.findall(r"^\+(.*)$", shown, re.MULTILINE)
    assert len(added) == 2
    assert all(f"{line}\n" in job for line in added)
    assert "import blindsum" not in (EXAMPLE / "train.py").read_text()
