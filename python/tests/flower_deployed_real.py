"""The example of Flower in a deployment: a SuperLink and SuperNodes as processes, over TLS: `make flower`."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

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
        # "{node}" in a value is the number of the node.
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
        link = folder / "tls" / "link"
        (folder / "home" / "config.toml").write_text(
            '[superlink]\ndefault = "test"\n'
            f'[superlink.test]\naddress = "127.0.0.1:{self.port}"\nroot-certificates = "{ca}"\n'
        )
        self.start(
            "superlink",
            *("flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)),
            "--disable-runtime-dependency-installation",
            *("--ssl-certfile", f"{link}.pem", "--ssl-keyfile", f"{link}.key", "--ssl-ca-certfile", str(ca)),
        )
        self.wait_for(self.port)
        for node in range(NODES):
            pki.issue(folder / "job", f"hospital-{node}")
            self.start(
                f"node-{node}",
                *("flower-supernode", "--superlink", f"127.0.0.1:{self.port}"),
                *("--root-certificates", str(ca)),
                *("--host", "127.0.0.1", "--port", str(free_port())),
                "--node-config",
                f"partition-id={node} num-partitions={NODES} "
                f'blindsum-identity="{folder / "job" / f"hospital-{node}"}" '
                f'blindsum-ca="{folder / "job"}"' + more.replace("{node}", str(node)),
            )

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.started.callback(end, process)

    def wait_for(self, port):
        while True:
            with socket.socket() as found:
                if found.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)

    def run(self, app=APP, **config):
        """Run an app, and give what it printed."""
        job = self.folder / "job"
        config = {
            "num-server-rounds": ROUNDS,
            "min-nodes": NODES,
            "blindsum-coordinator-identity": f'"{job / "agg"}"',
            "blindsum-coordinator-ca": f'"{job}"',
        } | config
        text = " ".join(f"{key}={value}" for key, value in config.items())
        done = subprocess.run(
            ["flwr", "run", str(app), "test", "--stream", "--run-config", text],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=500,
        )
        return done.stdout


def end(process):
    """End a process with what it has started."""
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


def test_a_run_over_tls_works_and_nodes_refuse_one_that_leaves_blindsum_out(deployment):
    secure = deployment.run()
    assert accuracy(secure) > 0.8, secure
    assert "Received 1 results and 0 failures" in secure
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
        nodes = Deployment(tmp_path, started, **{"blindsum-policy-plain": "true"})
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
