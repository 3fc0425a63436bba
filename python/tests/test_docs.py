"""Every code block of README.md and docs/ is executed, and the examples in them are the files in examples/.

A block is executed by its kind, the words after its fence. Output and pictures are ``text`` and ``mermaid``.
What a reader replaces (host names, own training) is replaced here by the tables below, and by nothing else.
"""

import itertools
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import tomllib
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from training_records import record

import blindsum as bs
from blindsum.cli import main
from blindsum.cli.examples import FILES
from blindsum.cli.jobs import spec_from_file
from blindsum.testing.learners import SocketPeers

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FIRST_PAGE = ROOT / "docs/start.md"
"""The page whose commands come first: it makes the CA, the certificates and the job."""
WHEEL = f"blindsum-{bs.__version__}-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"

REPLACED_IN_SHELL = {
    # What takes minutes, or installs something: whether there is such a target.
    "make demo": f"make --directory={ROOT} --dry-run demo",
    "make build": f"make --directory={ROOT} --dry-run build",
    "make release": f"make --directory={ROOT} --dry-run release",
    "make test": f"make --directory={ROOT} --dry-run test",
    f"pip install '{WHEEL}[demo]'": "true",
    "blindsum demo": "blindsum demo --parties 4 --rounds 3",
    "blindsum attack": "blindsum attack --parties 3 --images 1 --trials 20 --noise 2",
    "--protocol secagg --noise 0.5,1,2 --trials 1000": "--protocol secagg",
    # A reader's own hosts, ports and working folder.
    "--host agg.example": "--host localhost",
    "https://agg.example:9443": "https://localhost:{port}",
    "0.0.0.0:9443": "127.0.0.1:{port}",
    "https://agg.example:9444": "https://localhost:{admin}",
    "0.0.0.0:9444": "127.0.0.1:{admin}",
    "cp examples/": f"cp {ROOT}/examples/",
    f"{ROOT}/examples/job.toml examples/": f"{ROOT}/examples/job.toml {ROOT}/examples/",
}

REPLACED_IN_PYTHON = {
    "https://agg.example:9443": "https://localhost:{port}",
    # `make test` has no PyTorch: an estimator of as many weights stands in for a network.
    "from blindsum.torch import": "from blindsum.sklearn import",
}


def grown(model, _data, **_parameters):
    """Training that adds 0.25 to every weight, of an estimator or a tree."""
    if isinstance(model, dict):
        return {name: array + 0.25 for name, array in model.items()}
    model.coef_ = model.coef_ + 0.25
    model.intercept_ = model.intercept_ + 0.25
    return model


STAND_INS = {
    "data": [None] * 250,
    "train": lambda model, data: np.full(len(model), 0.25, dtype=np.float32),
    "net": Ridge().fit(np.zeros((2, 999)), np.zeros(2)),
    "params": {"kernel": jnp.zeros((30, 33)), "bias": jnp.zeros(10)},
    "train_locally": grown,
    "fit": grown,
    "learn": grown,
    "counts": lambda party: np.arange(1000, dtype=np.uint16) + party,
}
"""The reader's own code in Python blocks."""

REPLACED_IN_DOMAINS = {
    # Learners are threads here, and talk without torch.
    "import torch.distributed as dist\n": "",
    'dist.init_process_group("gloo")\n': "",
    'ca="ca.pem")': 'ca="ca.pem", peers=peers)',
}

NOT_CODE = {"text", "mermaid"}

NOT_RUN = {"python opacus"}
"""What no test here installs. The page says that its code was not run."""


@dataclass
class Block:
    page: Path
    line: int
    kind: str
    text: str

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*kinds):
    found = []
    for page in PAGES:
        for fence in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", page.read_text(), re.MULTILINE):
            line = page.read_text()[: fence.start()].count("\n") + 1
            found.append(Block(page, line, fence[1], fence[2]))
    return [block for block in found if not kinds or block.kind in kinds]


def replaced(text, table, **values):
    for before, after in table.items():
        text = text.replace(before, after.format(**values))
    return text


def test_every_block_is_of_a_kind_that_is_executed():
    unknown = [
        f"{block}: {block.kind!r}" for block in blocks() if block.kind not in EXECUTED | NOT_CODE | NOT_RUN
    ]
    assert not unknown, f"mark output as text; kinds that are executed: {sorted(EXECUTED)}"
    assert len(blocks()) == sum(page.read_text().count("\n```") for page in PAGES) / 2


def test_examples_in_help_and_pages_are_the_files(capsys):
    for name, text in FILES.items():
        assert (ROOT / "examples" / name).read_text() == text
    # The others are run by test_machines, test_domains, test_notebook and test_own_notebook.
    others = {path.name for path in (ROOT / "examples").iterdir() if path.is_file()} - set(FILES)
    assert others == {"comparing.ipynb", "domain.py", "own-model.ipynb", "queue_job.py"}
    for command, name in (("serve", "job.toml"), ("join", "training.py")):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        said = capsys.readouterr().out
        assert all(line.strip() in said for line in FILES[name].splitlines())
    assert {block.text for block in blocks("toml job")} == {FILES["job.toml"]}
    assert FILES["training.py"] in {block.text for block in blocks("python")}


@pytest.mark.parametrize("block", blocks(*NOT_RUN), ids=str)
def test_code_that_is_not_run_is_code_and_says_so(block):
    """It compiles, the names of this package in it exist, and the text after it says that it was not run."""
    compile(block.text, str(block), "exec")
    names = set(re.findall(r"\bbs\.(\w+)", block.text))
    assert names
    assert not [name for name in names if not hasattr(bs, name)]
    assert "This code was not run here" in block.page.read_text().split(block.text)[1]


@pytest.mark.parametrize("block", [*blocks("toml job"), *blocks("toml rule")], ids=str)
def test_jobs_are_read(block, tmp_path):
    (tmp_path / "job.toml").write_text(block.text)
    assert spec_from_file(str(tmp_path / "job.toml")).job == "tumour"


def test_options_are_shown_as_they_are_written():
    (options,) = blocks("toml options")
    (said,) = blocks("json said")
    spec = bs.JobSpec.from_dict(tomllib.loads(options.text))
    assert bs.JobSpec.from_dict(json.loads(said.text)) == spec
    assert json.loads(spec.to_json(said=True)) == json.loads(said.text)


@pytest.mark.parametrize("block", blocks("toml blindsumd"), ids=str)
def test_jobs_of_the_daemon_are_read(block):
    # The whole file is read by the daemon's own test, which looks for it by this kind.
    for fields in tomllib.loads(block.text)["jobs"]:
        assert bs.JobSpec.from_dict(fields).job
    assert "toml blindsumd" in (ROOT / "crates/daemon/tests/daemon/documented.rs").read_text()


def test_the_daemons_own_test_reads_the_file_of_a_server():
    assert len(blocks("toml blindsumd server")) == 1
    assert "toml blindsumd server" in (ROOT / "crates/daemon/tests/daemon/documented.rs").read_text()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def shell(tmp_path):
    """A folder where the first steps have been made, and what runs in it."""
    running = Shell(tmp_path)
    yield running
    running.end()


class Shell:
    """Runs the lines of shell blocks; a coordinator runs on until another one, or the end."""

    def __init__(self, folder):
        self._folder, self._server = folder, None
        self._ports = {"port": free_port(), "admin": free_port()}
        scripts = folder / ".bin"
        scripts.mkdir()
        (scripts / "blindsum").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m blindsum "$@"\n')
        (scripts / "blindsum").chmod(0o755)
        self._environment = os.environ | {"PATH": f"{scripts}:{os.environ['PATH']}", "MAKEFLAGS": ""}

    def run(self, line):
        line = replaced(line, REPLACED_IN_SHELL, **self._ports)
        if line.startswith("blindsum serve "):
            self._serve(line)
        elif line.startswith("blindsum join "):
            self._join(line)
        else:
            self._wait(line, self._start(line))

    def end(self):
        if self._server is not None:
            self._server.terminate()
            _, err = self._server.communicate(timeout=60)
            assert self._server.returncode == 0, err
            self._server = None

    def _start(self, line):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        words = ["sh", "-euc", line if "&&" in line else f"exec {line}"]
        return subprocess.Popen(words, cwd=self._folder, env=self._environment, **pipes)

    def _wait(self, line, process):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, f"{line}: {err}"
        return out

    def _serve(self, line):
        self.end()
        self._server = self._start(line)
        assert "at https://" in self._server.stdout.readline(), self._server.communicate()[1]

    def _join(self, line):
        # The party of the page, and two more by the same steps.
        started = [self._start(line)]
        for name in ("hospital-b", "hospital-c"):
            self.run(f"blindsum pki request {name}")
            self.run(f"blindsum pki sign ca {name}.csr")
            started.append(self._start(line.replace("hospital-a", name)))
        for process in started:
            out = self._wait(line, process)
            joined, *rounds = out.splitlines()
            assert joined.endswith("a round begins when at least 3 parties are here")
            assert rounds == [f"round {number}: sum of 3 parties" for number in range(1, 11)]


def commands(block):
    """The lines of a shell block without their comments."""
    lines = [re.sub(r"\s+#.*", "", line) for line in block.text.splitlines()]
    return [line for line in lines if line]


def shell_pages():
    """Pages with their shell blocks: what a page does first is there for what comes later in it."""
    by_page = itertools.groupby(blocks("sh"), key=lambda block: block.page)
    return [pytest.param(list(found), id=str(page.relative_to(ROOT))) for page, found in by_page]


@pytest.mark.parametrize("found", shell_pages())
def test_shell_blocks_run(found, shell, tmp_path):
    if found[0].page != FIRST_PAGE:
        for line in FIRST_STEPS:
            shell.run(line)
        (tmp_path / "new.toml").write_text((tmp_path / "job.toml").read_text().replace("tumour", "tumour-2"))
    for block in found:
        for line in commands(block):
            shell.run(line)


FIRST_STEPS = [
    "cp examples/job.toml examples/training.py .",
    "blindsum pki init ca",
    "blindsum pki issue ca agg --coordinator --host agg.example",
    "blindsum pki request hospital-a",
    "blindsum pki sign ca hospital-a.csr",
    "cp ca/ca.pem .",
]
"""What the other pages take from the first one, with the certificates of a party."""


def test_the_first_steps_are_those_of_the_first_page():
    done = [line for block in blocks("sh") if block.page == FIRST_PAGE for line in commands(block)]
    assert [line for line in done if line in FIRST_STEPS] == FIRST_STEPS


@pytest.fixture
def tumour(place, partner, tmp_path, monkeypatch):
    """The coordinator and the other two parties of the job that Python blocks take part in."""
    for ending in ("pem", "key"):
        (tmp_path / f"hospital-a.{ending}").write_text(
            place.identity("hospital-a").with_suffix(f".{ending}").read_text()
        )
    (tmp_path / "ca.pem").write_text((place.folder / "ca.pem").read_text())
    monkeypatch.chdir(tmp_path)
    record().to_jsonl("run.jsonl")
    job = tomllib.loads(FILES["job.toml"])
    started = []

    def start(**fields):
        coordinator = bs.Coordinator(
            bs.JobSpec.from_dict(job | fields),
            identity=place.folder / "agg",
            ca=place.folder,
            limits={"reconnect_grace": 1},
        )
        started.append(coordinator)
        port = coordinator.address.rpartition(":")[2]
        for name in ("hospital-b", "hospital-c"):
            identity = place.identity(name)
            threading.Thread(target=take_part, args=(port, identity, place.folder), daemon=True).start()
        return port

    yield start
    for coordinator in started:
        for _ in coordinator.statuses():
            pass


def take_part(port, identity, ca):
    with bs.join(f"https://localhost:{port}", job="tumour", identity=identity, ca=ca) as job:
        for rnd in job.rounds():
            rnd.submit(np.zeros(job.spec.dim, dtype=np.float32))
            rnd.result()


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_blocks_run(block, tumour, capsys):
    port = tumour() if "bs.join(" in block.text else None
    text = replaced(block.text, REPLACED_IN_PYTHON, port=port)
    names = {"bs": bs, "__name__": "page", **STAND_INS}
    exec(compile(text, str(block), "exec"), names)
    if port is not None:
        # 250 of 252 parts of every update of 0.25.
        assert np.allclose(names["mean"], 0.25 * 250 / 252, atol=1e-3)
    if "step" in names:
        model = np.zeros(1000, dtype=np.float32)
        update, weight = names["step"](model, 1)
        assert (update.shape, weight) == ((1000,), 250)
        assert np.array_equal(names["unweighted"](model, 1), update)


class Writer:
    """What TensorBoard's writer and MLflow are given."""

    def __init__(self):
        self.told = []

    def add_scalar(self, tag, scalar_value, global_step):
        self.told.append((global_step, tag, scalar_value))

    def log_metrics(self, metrics, step):
        self.told += [(step, name, value) for name, value in metrics.items()]


@pytest.mark.parametrize("block", blocks("python training"), ids=str)
def test_blocks_of_training_run(block):
    names = {}
    exec(compile(block.text, str(block), "exec"), names)
    assert [one.outcome for one in names["record"].rounds] == ["sum"] * names["spec"].rounds


def test_the_description_of_a_run_is_the_example():
    (block,) = blocks("toml training")
    assert block.text == (ROOT / "examples" / "train" / "run.toml").read_text()


@pytest.mark.parametrize("block", blocks("python metrics"), ids=str)
def test_metrics_go_to_the_writers_of_a_reader(block, tumour):
    port = tumour(metrics=[{"name": "accuracy", "low": 0.0, "high": 1.0}])
    text = replaced(block.text, REPLACED_IN_PYTHON, port=port)
    writer, mlflow = Writer(), Writer()
    own = {"writer": writer, "mlflow": mlflow, "evaluate": lambda model: 0.5 + model[0] / 10}
    exec(compile(text, str(block), "exec"), {"bs": bs, **STAND_INS, **own})
    rounds = [step for step, _, _ in writer.told]
    assert rounds == list(range(1, 11))
    assert writer.told == mlflow.told
    values = [value for _, _, value in writer.told]
    assert values[0] == pytest.approx(0.5, abs=1e-7)
    assert values == sorted(values)


@pytest.mark.parametrize("block", blocks("python domain"), ids=str)
def test_blocks_of_domains_run_in_every_learner(block, tumour, tmp_path):
    text = replaced(block.text, REPLACED_IN_DOMAINS | REPLACED_IN_PYTHON, port=tumour())
    found = {}

    def learn(rank):
        peers = SocketPeers(tmp_path, rank, 3)
        names = {"bs": bs, "peers": peers, **STAND_INS, "data": [None] * (50 + 50 * rank)}
        exec(compile(text, str(block), "exec"), names)
        found[rank] = names["mean"]

    learners = [threading.Thread(target=learn, args=(rank,)) for rank in range(3)]
    for one in learners:
        one.start()
    for one in learners:
        one.join(120)
    # 300 of 302 parts of every update of 0.25.
    assert all(np.allclose(found[rank], 0.25 * 300 / 302, atol=1e-3) for rank in range(3))


def test_the_readme_shows_the_recorded_demo():
    """Its lines of output are in the record, in this order. The picture is drawn from the whole record."""
    record = iter((ROOT / "docs/pictures/demo.txt").read_text().splitlines())
    (shown,) = (block for block in blocks("text") if block.page == ROOT / "README.md")
    lines = [line for line in shown.text.splitlines() if line != "…"]
    assert len(lines) > 8
    assert all(line in record for line in lines), (
        "a line is not in docs/pictures/demo.txt, or is out of order"
    )


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    # Tables and recorded output are as wide as they are.
    assert [line for line in lines if len(line) > 118 and line[0] not in "|│┃!"] == []


def test_the_site_has_every_page_in_its_navigation():
    """The pages of experiments and of other tools are reached from those."""
    named = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(named) == len(set(named))
    pages = {str(page.relative_to(ROOT)) for page in PAGES} - {"README.md"} | {"index.md"}
    assert pages <= set(named)
    assert all((ROOT / name).exists() for name in set(named) - {"index.md"})


def test_training_functions_that_pages_name_are_there():
    trained = set(re.findall(r"--train (training:\w+)", "".join(page.read_text() for page in PAGES)))
    defined = set(re.findall(r"^def (\w+)", FILES["training.py"], re.MULTILINE))
    assert trained == {f"training:{name}" for name in defined}


EXECUTED = {
    "sh",
    "python",
    "python domain",
    "python metrics",
    "python hosted",
    # Blocks of a page one after the other.
    "python training",
    "toml training",
    # By nets_real.py, where torch is.
    "python nets",
    # By flower_real.py, where flwr is.
    "python flower",
    "python flower-secagg",
    "sh flower",
    "toml flower",
    # By nvflare_real.py and openfl_real.py, where nvflare and openfl are.
    "python nvflare job",
    "python nvflare loop",
    "python nvflare patient",
    "json nvflare privacy",
    "json nvflare site",
    "json nvflare server",
    "python frameworks openfl",
    # By test_other_frameworks.py.
    "python frameworks coordinator",
    "python frameworks loop",
    "python frameworks fate",
    "toml job",
    "toml rule",
    "toml options",
    "json said",
    "toml blindsumd",
    "toml blindsumd server",
}
