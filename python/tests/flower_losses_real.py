"""The bench's app in one process: a node is lost in each stage, here and in flwr's SecAgg+: `make flower`."""

import copy
import json

import flower_world_real as world
import pytest
from flower_world_real import Federation, Threads
from flwr.app import Context, RecordDict

from benches.flower import PEER, ways
from benches.flower import Settings as BenchSettings
from benches.flower_app import client, server, work
from blindsum.rounds import Round

NODES = 5


@pytest.fixture(autouse=True)
def _outcomes_are_as_they_were(monkeypatch):
    # The app replaces it in the process of a node, which here is that of all.
    monkeypatch.setattr(Round, "outcome", Round.outcome)


class Copying(Threads):
    """Nodes have contents of their own to the bottom: flwr's mod takes records of a message apart."""

    def push_messages(self, messages):
        for message in messages:
            message.content = copy.deepcopy(message.content)
        return super().push_messages(messages)


def rounds(tmp_path, app, how, stages, nodes, **config):
    """Run the app of the bench, and give its rounds."""
    config |= {"how": how, "rounds": len(stages), "dim": 1000, "nodes": NODES, "timeout": 60.0}
    config |= {"lost": ",".join(stages), "out": str(tmp_path)}
    inner = Copying(app, nodes, config)
    server.app(inner, Context(world.Run.run_id, 1, {}, RecordDict(), config))
    return json.loads((tmp_path / "server.json").read_text())["rounds"]


def test_flwrs_secagg_loses_its_round_where_a_node_is_lost_before_its_keys_are_shared(tmp_path):
    nodes = [{"partition-id": place} for place in range(NODES)]
    found = rounds(tmp_path, client.peer, work.PEER, (work.NOBODY, *work.PEER_STAGES), nodes)
    assert [one["survivors"] for one in found] == [5, 0, 0, 4, 5]
    assert max(one["deviation"] for one in found) < 1e-3


@pytest.mark.parametrize("transport", ["direct", "messages"])
def test_a_round_of_ours_loses_the_node_alone(tmp_path, transport):
    federation = Federation(tmp_path / "pki")
    stages = (work.NOBODY, "before it joins", "training raises")
    settings = {f"blindsum-{key.replace('_', '-')}": value for key, value in federation.server.items()}
    settings["blindsum-transport"] = transport
    found = rounds(tmp_path, client.ours, work.OURS, stages, federation.nodes(NODES), **settings)
    assert [one["survivors"] for one in found] == [5, 4, 4]
    assert max(one["deviation"] for one in found) < 1e-5


def test_the_bench_names_these_ways():
    assert ways(BenchSettings(), "deployment")[-1].label == PEER
