"""A CA, a coordinator and parties on the loopback interface; what every test starts and ends with."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import hypothesis
import pytest

import blindsum as bs
from blindsum import _native, pki
from blindsum.testing.cluster import OTHER_SERVERS, free_ports

# A busy machine takes its time.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")


def pytest_ignore_collect(collection_path, config):
    """What needs a library or a program that is not installed everywhere runs where its file is named."""
    if collection_path.name.endswith("_real.py"):
        return not any(collection_path.name in argument for argument in config.args)
    return None


class Keyed:
    """A mapping to everybody but ``collections.abc``, as PyTorch's ``ParameterDict``."""

    def __init__(self, values):
        self.values = values

    def keys(self):
        return self.values.keys()

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return self.values[key]


QUICK = {"join_deadline": 2.0, "stage_deadline": 5.0, "input_deadline": 10.0}

TRAINING = """
import time

import numpy as np

def step(model, number):
    return np.full(4, 0.5), 2

def light(model, number):
    return np.full(4, 0.5)

def slow(model, number):
    time.sleep(0.05)
    return np.full(4, 0.5)

def much(model, number):
    return np.full(4, 5.0)

def four(model, number):
    return np.full(4, 0.5), 1, {}, "accuracy"

def measured(model, number):
    return np.full(4, 0.5), 1, {"accuracy": 0.25 * number}

def broken(model, number):
    raise ValueError("no data today")
"""


@pytest.fixture(autouse=True)
def _signals():
    """The handlers that Python starts with, also where a shell started it with SIGINT ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="session", autouse=True)
def _orphans_come_here():
    """Whoever loses its parent becomes a child of this process, and is found when its test ends."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children():
    """Process numbers of this process's children."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        # A thread that has just ended has none.
        with suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/children") as numbers:
            found |= {int(number) for number in numbers.read().split()}
    return found


@pytest.fixture(autouse=True)
def _no_process_stays():
    """Ends what a test has started and left behind, and what that has left behind in turn."""
    before = children()
    yield
    while left := children() - before:
        for process in left:
            # It may have ended, and another thread may have waited for it.
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)


def three_urls():
    """Where three servers on this machine will be."""
    return [f"https://{host}:{port}" for host, port in zip(HOSTS, free_ports().values(), strict=True)]


def listen_at(url):
    host, _, port = url.removeprefix("https://").rpartition(":")
    return f"{'127.0.0.1' if host == 'localhost' else host}:{port}"


HOSTS = ("localhost", *OTHER_SERVERS.values())


class Place:
    """Certificates of one job, and what runs in it."""

    # A policy that takes any job, on the command line.
    take_any = (
        *("--policy", f"allowed_protocols={','.join(bs.protocols())}", "--policy", "require_adversary=none"),
        *("--policy", f"allowed_rules={','.join(_native.rules())}"),
        *("--policy", "min_corrupt=0", "--policy", "min_honest=0", "--policy", "min_cohort=1"),
    )

    def __init__(self, folder):
        self.folder = folder
        # The same, in Python.
        self.any_job = {
            "allowed_protocols": bs.protocols(),
            "allowed_rules": _native.rules(),
            "require_adversary": None,
            "min_corrupt": 0,
            "min_honest": 0,
            "min_cohort": 1,
        }
        pki.init(folder)
        pki.issue(folder, "agg", hosts=["localhost", "127.0.0.1"])
        for number, host in OTHER_SERVERS.items():
            pki.issue(folder, f"server-{number}", hosts=[host], computes=True)

    def spec(self, **fields):
        fields = {"protocol": "plain", "parties": 2, "dim": 4} | QUICK | fields
        return bs.JobSpec.from_settings(list(fields.items()))

    def identity(self, name, **kind):
        """The certificate of this name; modules share them, and each may be the first that asks."""
        if not (self.folder / f"{name}.pem").exists():
            pki.issue(self.folder, name, **kind)
        return self.folder / name

    def operator(self, name):
        return self.identity(name, operator=True)

    @contextmanager
    def coordinator(self, spec, **options):
        options = {"limits": {"reconnect_grace": 0.5}} | options
        with ExitStack() as servers:
            if spec.needs_servers:
                urls = three_urls()
                options |= {"servers": urls, "listen": listen_at(urls[0])}
                for number in OTHER_SERVERS:
                    results = {"results": f"{options['results']}-{number}"} if "results" in options else {}
                    servers.enter_context(self.server(spec, urls, number, **results))
            running = bs.Coordinator(spec, identity=self.folder / "agg", ca=self.folder, **options)
            try:
                yield running
            finally:
                running.stop()
                for _ in running.statuses():
                    pass

    def server(self, spec, urls, number, **options):
        """The second or the third server of a job."""
        state = tempfile.mkdtemp(dir=self.folder)
        identity = self.folder / f"server-{number}"
        listen = listen_at(urls[number]) if number < len(urls) else "127.0.0.1:0"
        options = {"listen": listen, "state_dir": state, "identity": identity} | options
        return bs.Server(spec, servers=urls, place=number, ca=self.folder, **options)

    def join(self, coordinator, name, **options):
        options = {"policy": bs.Policy(**self.any_job), "give_up_after": 5.0} | options
        port = coordinator.address.rpartition(":")[2]
        return bs.join(
            list(coordinator.servers) if len(coordinator.servers) == 3 else f"https://localhost:{port}",
            job="job",
            identity=self.identity(name),
            ca=self.folder / "ca.pem",
            **options,
        )


class Partner:
    """A party on a thread that submits the same update in every round."""

    def __init__(self, place, coordinator, name, update, weight=1, pause=0.0, metrics=None):
        self.means, self.error, self._pause = [], None, pause
        self._work = lambda: self._take_part(place, coordinator, name, (update, weight, metrics))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self._work()
        except bs.BlindsumError as error:
            self.error = error

    def _take_part(self, place, coordinator, name, submitted):
        with place.join(coordinator, name) as session:
            for current in session.rounds():
                time.sleep(self._pause)
                current.submit(*submitted)
                self.means.append(current.outcome().mean)

    def has_ended(self):
        return not self._thread.is_alive()

    def wait(self):
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.means


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def partner():
    return Partner


@pytest.fixture
def processes(tmp_path, place):
    """Starts commands in a folder with a training module; ends what is left of them."""
    (tmp_path / "training.py").write_text(TRAINING)
    started = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "blindsum", *map(str, words)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
