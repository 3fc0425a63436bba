"""What docs/flower.md shows: `make flower`."""

import dataclasses
import re
import shlex
from pathlib import Path

import flower_world_real as world
import numpy as np
from flower_real import averaged, federation
from flower_world_real import Threads, client_app
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common.config import parse_config_args
from flwr.serverapp import strategy as strategies

import blindsum.flower
from blindsum.flower.settings import NODE_KEYS, NodeSettings, RunSettings

_ = federation


def blocks(kind):
    page = (Path(__file__).parents[2] / "docs" / "flower.md").read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_two_lines_of_the_page_run(federation):
    client, server = blocks("python flower")
    names = {"blindsum": blindsum, "ClientApp": ClientApp}
    exec(client, names)
    # The page's app has no function: it is the mod that is looked at.
    (mod,) = names["app"]._mods
    settings = {f"blindsum-{key.replace('_', '-')}": value for key, value in federation.server.items()}
    settings["learning-rate"] = 0.1
    inner = Threads(client_app([mod]), federation.nodes(4), settings)
    context = Context(1, 1, {}, RecordDict(), settings)
    names |= {"grid": inner, "context": context, "strategy": averaged(), "arrays": world.arrays()}
    exec(server, names)
    assert len(inner.sent) == 12


class MyClient(NumPyClient):
    """Stands for the NumPyClient of a user of flwr's SecAgg+."""

    def __init__(self, context):
        self._node = context.node_id

    def fit(self, parameters, config):
        assert config == {}
        return [one + np.float32(0.01 * (self._node - 99)) for one in parameters], self._node - 99, {}


def test_the_way_of_the_page_from_flwrs_secagg_runs(federation):
    client, server = blocks("python flower-secagg")
    names = {"blindsum": blindsum, "ClientApp": ClientApp, "MyClient": MyClient, "Message": Message}
    names |= {"ArrayRecord": ArrayRecord, "MetricRecord": MetricRecord, "RecordDict": RecordDict}
    exec(client, names)
    inner = Threads(names["app"], federation.nodes(4))
    settings = {f"blindsum-{key.replace('_', '-')}": value for key, value in federation.server.items()}
    context = Context(1, 1, {}, RecordDict(), settings)
    parameters = [np.zeros((3, 2), np.float32), np.zeros(4, np.float32)]
    names |= {"grid": inner, "context": context, "FedAvg": strategies.FedAvg, "parameters": parameters}
    exec(server, names)
    # Nodes change by 0.01, 0.02, …, and weigh 1, 2, ….
    wanted = 3 * sum(0.01 * n * n for n in range(1, 5)) / 10
    for array in names["result"].arrays.to_numpy_ndarrays():
        assert np.allclose(array, wanted, atol=1e-5)
    assert len(inner.sent) == 12


def test_the_command_of_the_page_configures_a_node():
    (command,) = blocks("sh flower")
    words = shlex.split(command.replace("\\\n", ""))
    assert words[0] == "flower-supernode"
    config = parse_config_args([words[words.index("--node-config") + 1]])
    assert NodeSettings.read(config).identity == "/etc/blindsum/hospital-a"


def test_the_keys_of_the_page_are_those_that_there_are():
    page = (Path(__file__).parents[2] / "docs" / "flower.md").read_text()
    for field in dataclasses.fields(RunSettings):
        key = field.name.replace("_", "-")
        assert key in page or key.rpartition("-")[2] in page, key
    for key in NODE_KEYS:
        assert key in page, key
