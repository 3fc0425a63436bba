"""Several runs at once, and processes of Flower that are killed and started again: `make flower`."""

import re
import shutil
import tomllib
from contextlib import ExitStack

import flower_deployed_real as deployed
import pytest

DIRECT = {}, {}
MESSAGES = (
    {"blindsum-policy-require-adversary": '"semi-honest"', "blindsum-policy-min-corrupt": 0},
    {"blindsum-transport": '"messages"', "blindsum-adversary": '"semi-honest"'},
)
"""The configuration of the nodes, and that of a run."""

EVERYBODY = range(deployed.NODES)

WAITS = """
    stuck = pathlib.Path(os.environ["STUCK"])
    if part == 1 and message.content["config"]["server-round"] == 2 and not stuck.exists():
        stuck.touch()
        while not stuck.with_name("go").exists():
            time.sleep(0.1)
    images, labels = """


@pytest.fixture
def app(tmp_path):
    """The example, in which the training of one node waits in the second round, or is killed there."""
    copy = tmp_path / "app"
    shutil.copytree(deployed.APP, copy)
    for name, old, new in (
        ("digits/client_app.py", "\n    images, labels = ", WAITS),
        ("digits/client_app.py", "import numpy", "import os\nimport pathlib\nimport time\n\nimport numpy"),
        ("pyproject.toml", "blindsum-clip = 1.0\n", 'blindsum-clip = 1.0\nblindsum-transport = "auto"\n'),
    ):
        file = copy / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))
    return copy


@pytest.fixture
def task(app, monkeypatch):
    monkeypatch.syspath_prepend(app)
    from digits import task

    return task


def rate_of(app):
    text = (app / "pyproject.toml").read_text()
    return tomllib.loads(text)["tool"]["flwr"]["app"]["config"]["learning-rate"]


@pytest.fixture(params=[DIRECT, MESSAGES], ids=["direct", "messages"])
def nodes(request, tmp_path, monkeypatch):
    """A deployment with what its runs are to have."""
    policy, config = request.param
    monkeypatch.setenv("STUCK", str(tmp_path / "stuck"))
    with ExitStack() as started:
        yield deployed.Deployment(tmp_path, started, **policy), config, tmp_path / "stuck"


def test_two_runs_at_once_keep_apart(nodes, app, task):
    nodes, config, stuck = nodes
    stuck.touch()
    # One learns, and the other one unlearns.
    rates = (rate_of(app), -rate_of(app))
    begun = [nodes.begin(app, **config, **{"learning-rate": rate}) for rate in rates]
    texts = [run.text(timeout=600) for run in begun]
    wanted = [deployed.accuracy_of(task, rate, [EVERYBODY] * deployed.ROUNDS) for rate in rates]
    assert wanted[0] > wanted[1] + 0.7
    for text, accuracy in zip(texts, wanted, strict=True):
        assert deployed.accuracy(text) == pytest.approx(accuracy, abs=0.005), text


def test_a_node_that_is_killed_comes_back(nodes, app, task):
    nodes, config, stuck = nodes
    run = nodes.begin(app, **config, **{"num-server-rounds": 3})
    run.until(stuck.exists)
    nodes.kill("node-1")
    nodes.start_node(1)
    text = run.text(timeout=600)
    cohorts = [EVERYBODY, (0, 2, 3), EVERYBODY]
    accuracy = deployed.accuracy_of(task, rate_of(app), cohorts)
    assert deployed.accuracy(text) == pytest.approx(accuracy, abs=0.005), text


def test_a_link_that_is_killed_serves_the_next_run(nodes, app, task):
    nodes, config, stuck = nodes
    run = nodes.begin(app, **config)
    run.until(stuck.exists)
    nodes.kill("superlink")
    nodes.start_link()
    stuck.with_name("go").touch()
    # A SuperLink without a database forgets its run and its nodes, which must be started again.
    for node in EVERYBODY:
        nodes.kill(f"node-{node}")
        nodes.start_node(node)
    assert not re.search(r"accuracy \d", run.text(timeout=600))
    text = nodes.run(app, **config)
    accuracy = deployed.accuracy_of(task, rate_of(app), [EVERYBODY] * deployed.ROUNDS)
    assert deployed.accuracy(text) == pytest.approx(accuracy, abs=0.005), text
