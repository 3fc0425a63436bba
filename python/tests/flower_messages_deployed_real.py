"""Flower's own messages in Flower's simulation, and in a deployment over TLS: `make flower`."""

import re
import tomllib
from contextlib import ExitStack

import flower_deployed_real as deployed
import numpy as np
import pytest
from flower_deployed_real import app
from flower_real import bound, simulation_app, trained
from flower_world_real import flat
from flwr.serverapp import ServerApp
from flwr.serverapp import strategy as strategies
from flwr.simulation import run_simulation

import blindsum.flower

__all__ = ["app"]


# Simulation


@pytest.mark.filterwarnings("ignore")
def test_fewer_actors_than_nodes_simulate_messages():
    found = []
    server = ServerApp()

    @server.main()
    def main(grid, context):
        strategy = strategies.FedAvg(min_train_nodes=5, min_available_nodes=5, fraction_evaluate=0.0)
        settings = {"blindsum-metrics": "loss:0:10", "blindsum-transport": "messages"}
        with blindsum.flower.SecureGrid(grid, settings, strategy=strategy) as secure:
            result = trained(secure, strategy, rounds=2, timeout=300)
            found.append((result, secure._rounds.exchanges))

    run_simulation(
        server_app=server,
        client_app=simulation_app(),
        num_supernodes=5,
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {"num_cpus": 2, "logging_level": "ERROR"},
        },
    )
    ((result, exchanges),) = found
    wanted = 0.5 + 2 * sum(0.01 * n * n for n in range(1, 6)) / 15
    assert np.allclose(flat(result.arrays), wanted, atol=3 * bound())
    assert result.train_metrics_clientapp[1]["loss"] == pytest.approx(55 / 15, abs=1e-5)
    # Active is the default, and certificates of a run may serve it where nothing is secret.
    assert exchanges == 7


# Deployment


def test_a_deployment_sums_in_messages_and_bears_a_process_that_dies(app, tmp_path, monkeypatch):
    policy = {"blindsum-policy-require-adversary": '"semi-honest"', "blindsum-policy-min-corrupt": 0}
    config = {"blindsum-transport": '"messages"', "blindsum-adversary": '"semi-honest"'}
    file = app / "pyproject.toml"
    known = "blindsum-clip = 1.0\n"
    assert known in file.read_text()
    file.write_text(file.read_text().replace(known, f'{known}blindsum-transport = "auto"\n'))
    with ExitStack() as started:
        nodes = deployed.Deployment(tmp_path, started, **policy)
        # The second node dies in the second of two rounds.
        text = nodes.run(app, crash=1, **config)
    print("rounds", re.findall(r"round took (\d+\.\d) s", text))
    assert re.findall(r"Received \d results and \d failures", text) == [
        "Received 1 results and 0 failures",
        "Received 1 results and 1 failures",
    ], text
    monkeypatch.syspath_prepend(app)
    from digits import task

    rate = tomllib.loads(file.read_text())["tool"]["flwr"]["app"]["config"]["learning-rate"]
    wanted = deployed.accuracy_of(task, rate, [(0, 1, 2, 3), (0, 2, 3)])
    assert wanted > 0.8
    assert deployed.accuracy(text) == pytest.approx(wanted, abs=0.005)
