"""The example of Flower in a deployment: a SuperLink and SuperNodes as processes, over TLS: `make flower`."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest

from blindsum import pki

APP = Path(__file__).parents[2] / "examples" / "flower"
PROGRAMS = Path(sys.executable).parent
NODES = 4
ROUNDS = 2


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Deployment:
    """A SuperLink and SuperNodes on the loopback interface."""

    def __init__(self, folder, started, **further):
        self.folder, self.started = folder, started
        more = "".join(f" {key}={value}" for key, value in further.items())
        self.environment = os.environ | {
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_HOME": str(folder / "home"),
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            # The package under test, also where it is not installed.
            "PYTHONPATH": f"{APP.parents[1] / 'python'}:{os.environ.get('PYTHONPATH', '')}",
        }
        (folder / "home").mkdir()
        pki.init(folder / "tls")
        pki.issue(folder / "tls", "link", hosts=["127.0.0.1"], algorithm="p256")
        pki.init(folder / "job")
        pki.issue(folder / "job", "agg", hosts=["127.0.0.1"])
        self.port = free_port()
        ca = folder / "tls" / "ca.pem"
        (folder / "home" / "config.toml").write_text(
            '[superlink]\ndefault = "test"\n'
            f'[superlink.test]\naddress = "127.0.0.1:{self.port}"\nroot-certificates = "{ca}"\n'
        )
        self.processes, self.further = {}, more
        self.start_link()
        for node in range(NODES):
            pki.issue(folder / "job", f"hospital-{node}")
            self.start_node(node)

    def start_link(self):
        """Start the SuperLink, also in place of one that was killed."""
        tls = self.folder / "tls"
        self.start(
            "superlink",
            *("flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)),
            "--disable-runtime-dependency-installation",
            *("--ssl-certfile", f"{tls / 'link'}.pem", "--ssl-keyfile", f"{tls / 'link'}.key"),
            *("--ssl-ca-certfile", str(tls / "ca.pem")),
        )
        self.wait_for(self.port)

    def start_node(self, node):
        """Start a SuperNode, also in place of one that was killed."""
        job = self.folder / "job"
        self.start(
            f"node-{node}",
            *("flower-supernode", "--superlink", f"127.0.0.1:{self.port}"),
            *("--root-certificates", str(self.folder / "tls" / "ca.pem")),
            *("--host", "127.0.0.1", "--port", str(free_port())),
            "--node-config",
            f"partition-id={node} num-partitions={NODES} "
            f'blindsum-identity="{job / f"hospital-{node}"}" '
            f'blindsum-ca="{job}" blindsum-state="{self.folder / f"state-{node}"}"{self.further}',
        )

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.processes[name] = process
        self.started.callback(end, process)

    def kill(self, name):
        """End a process with what it has started, as a loss of power does."""
        end(self.processes[name])

    def wait_for(self, port):
        while True:
            with socket.socket() as found:
                if found.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)

    def run(self, app=APP, **config):
        """Run an app, and give what it printed."""
        return self.begin(app, **config).text(timeout=500)

    def begin(self, app=APP, **config):
        """Begin a run of an app."""
        job = self.folder / "job"
        config = {
            "num-server-rounds": ROUNDS,
            "min-nodes": NODES,
            "blindsum-coordinator-identity": f'"{job / "agg"}"',
            "blindsum-coordinator-ca": f'"{job}"',
        } | config
        text = " ".join(f"{key}={value}" for key, value in config.items())
        name = f"run-{len(self.processes)}"
        self.start(name, "flwr", "run", str(app), "test", "--stream", "--run-config", text)
        return Begun(self.processes[name], self.folder / f"{name}.log")


class Begun:
    """A run that was begun."""

    def __init__(self, process, log):
        self._process, self._log = process, log

    def text(self, timeout):
        """What it has printed when it is over."""
        self._process.wait(timeout)
        return self._log.read_text()

    def until(self, is_there):
        """Wait until something is there, while it runs."""
        while not is_there():
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.1)


def end(process):
    """End a process with what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    with ExitStack() as started:
        yield Deployment(tmp_path_factory.mktemp("flower"), started)


def accuracy(text):
    found = re.findall(r"accuracy (\d\.\d+)", text)
    assert found, text
    return float(found[-1])


def accuracy_of(task, rate, cohorts):
    """The accuracy after rounds of FedAvg, each of some of the nodes, as the app trains them."""
    model = task.initial()
    for cohort in cohorts:
        trained = []
        for part in cohort:
            local = {name: np.array(array) for name, array in model.items()}
            images, labels = task.load_part(part, NODES)
            task.train(local, images, labels, rate)
            trained.append((len(labels), local))
        total = sum(weight for weight, _ in trained)
        model = {name: sum(weight * local[name] for weight, local in trained) / total for name in model}
    return task.accuracy(model, *task.load_test())


def test_a_run_over_tls_works_and_nodes_refuse_one_that_leaves_blindsum_out(deployment):
    secure = deployment.run()
    assert accuracy(secure) > 0.8, secure
    assert "Received 1 results and 0 failures" in secure
    assert "Aggregated MetricRecord: {'train_loss'" in secure
    # The same app without its SecureGrid.
    refused = deployment.run(**{"secure": "false", "num-server-rounds": 1})
    assert "blindsum-policy-plain" in refused
    assert accuracy(refused) < 0.2


TIMED = """
    def timed(messages, *, timeout=None, inner=grid.send_and_receive):
        sent, began = list(messages), time.monotonic()
        replies = list(inner(sent, timeout=timeout))
        if sent:
            print(f"round took {time.monotonic() - began:.1f} s", flush=True)
        return replies

    grid.send_and_receive = timed
    result = strategy.start("""

CRASH = """
    if part == context.run_config["crash"] and message.content["config"]["server-round"] == 2:
        os._exit(9)
    images, labels = """


@pytest.fixture
def app(tmp_path):
    """The example with a node that crashes, and a server that tells how long rounds take."""
    copy = tmp_path / "app"
    shutil.copytree(APP, copy)
    for name, old, new in (
        ("digits/client_app.py", "\n    images, labels = ", CRASH),
        ("digits/client_app.py", "import blindsum.flower\n", "import os\nimport blindsum.flower\n"),
        ("digits/server_app.py", "\n    result = strategy.start(", TIMED),
        ("digits/server_app.py", "import blindsum.flower\n", "import time\nimport blindsum.flower\n"),
        ("pyproject.toml", "min-nodes = 4\n", "min-nodes = 4\ncrash = -1\nblindsum-join-deadline = 20.0\n"),
    ):
        file = copy / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))
    return copy


def test_a_process_that_dies_does_not_hold_its_round(app, tmp_path):
    with ExitStack() as started:
        # The crash leaves one out of a cohort in which a run before has trained the same model.
        nodes = Deployment(
            tmp_path, started, **{"blindsum-policy-plain": "true", "blindsum-policy-repeats": "true"}
        )
        plain = nodes.run(app, secure="false")
        secure = nodes.run(app)
        crashed = nodes.run(app, crash=1, **{"num-server-rounds": 3})
    for name, text in (("plain", plain), ("secure", secure), ("crash in round 2", crashed)):
        print(name, re.findall(r"round took (\d+\.\d) s", text))
    # The images, the model and the steps are the same.
    assert accuracy(secure) == pytest.approx(accuracy(plain), abs=0.01)
    assert "Received 1 results and 1 failures" in crashed
    assert accuracy(crashed) > 0.8
    # Flower notices a dead process after 60 s.
    assert float(re.findall(r"round took (\d+\.\d) s", crashed)[1]) < 55
