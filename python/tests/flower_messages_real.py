"""Flower apps over its own messages with a real flwr, in one process: `make flower`."""

import logging
import re
import threading
import tomllib
from collections import Counter
from pathlib import Path

import flower_real as real
import numpy as np
import pytest
from flower_real import averaged, bound, failing, federation, plainly, trained
from flower_world_real import ANY, Threads, client_app, flat
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.serverapp import strategy as strategies

import blindsum as bs
import blindsum.flower
from blindsum.flower import message_rounds, simulated, texts
from blindsum.flower.settings import RunSettings

__all__ = ["federation"]

SEMI_HONEST = {"protocol": "secagg+", "adversary": "semi-honest"}


@pytest.fixture(autouse=True)
def _nothing_was_told(monkeypatch):
    texts._told.clear()
    # Here no request goes over a network.
    monkeypatch.setattr(message_rounds, "POLL", 0.02)


def nodes_of(federation, count=4, **further):
    """Nodes with certificates of the job's CA, and a folder each."""
    return [
        federation.node(
            place, **ANY | {"blindsum-state": str(federation.folder / f"state-{place}")} | further
        )
        for place in range(count)
    ]


def nodes_of_a_run(folder, count=4, **further):
    """Nodes that take certificates of the run."""
    config = {
        "blindsum-trust-run": True,
        "blindsum-policy-require-adversary": "semi-honest",
        "blindsum-policy-min-corrupt": 0,
    }
    return [
        config | {"blindsum-state": str(folder / f"run-state-{place}")} | further for place in range(count)
    ]


class Carrier(Threads):
    """Delivers messages, and does to some of them what ``mishap(node, step, count)`` says.

    ``"error"``: the process fails before it does anything. ``"lost"``: its reply never arrives.
    ``"vanish"``: the process ends before it does anything. ``"twice"``: the message comes twice.
    ``"late"``: the reply comes when a message of a later step has been answered.
    """

    def __init__(self, app, configs, mishap=lambda node, step, count: None):
        super().__init__(app, configs)
        self.mishap = mishap
        self.counts = Counter()
        self.answers = {}
        self.late = []
        self.seen = []
        self.differing = []

    def _answer(self, identifier, message):
        node = message.metadata.dst_node_id
        record = message.content.config_records.get("blindsum")
        step = 0 if record is None else record.get("tag", 0)
        self.counts[node, step] += 1
        what = self.mishap(node, step, self.counts[node, step])
        if what == "vanish":
            return
        if what == "error":
            reply = Message(Error(code=2, reason="the ClientApp stopped"), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = node
            self.replies[identifier] = reply
            return
        super()._answer(identifier, message)
        if identifier not in self.replies:
            return
        if what == "twice":
            first = self.replies[identifier]
            super()._answer(identifier, message)
            if contents(first) != contents(self.replies[identifier]):
                self.differing.append((node, step))
        if what in ("lost", "late"):
            reply = self.replies.pop(identifier)
            if what == "late":
                self.late.append((step, identifier, reply))
        else:
            for then, late, reply in self.late:
                if then < step:
                    self.replies[late] = reply

    def pull_messages(self, message_ids):
        found = super().pull_messages(message_ids)
        self.seen.extend(found)
        return found


def contents(message):
    """What a message holds, to compare."""
    if message.has_error():
        return message.error.reason
    frames = message.content.array_records.get("blindsum-frames", {})
    told = dict(message.content["blindsum"])
    return told, {name: array.data for name, array in frames.items()}


def securely(inner, strategy, federation=None, *, rounds=2, timeout=60, **settings):
    """Train over messages; the result, and how many messages a node was sent in each round."""
    counts = []
    if federation is not None:
        settings = {"coordinator_ca": str(federation.folder)} | settings
    settings = {"transport": "messages"} | settings
    with blindsum.flower.SecureGrid(inner, {}, strategy=strategy, **settings) as grid:
        inner_call = grid.send_and_receive

        def counting(messages, *, timeout=None):
            sent = list(messages)
            replies = inner_call(sent, timeout=timeout)
            if sent:
                counts.append(grid._rounds.exchanges)
            return replies

        grid.send_and_receive = counting
        return trained(grid, strategy, rounds, timeout), counts


def in_rounds(strategy):
    """Which replies are errors, for each round of the strategy."""
    seen, inner = [], strategy.aggregate_train

    def aggregate(number, replies):
        found = list(replies)
        seen.append([reply.has_error() for reply in found])
        return inner(number, found)

    strategy.aggregate_train = aggregate
    return seen


# Sums, and the messages that they cost


@pytest.mark.parametrize("strategy", ["FedAvg", "FedAdam"])
@pytest.mark.parametrize(
    ("protocol", "adversary", "first", "steady"),
    [
        ("plain", "semi-honest", 3, 2),
        ("secagg", "semi-honest", 6, 5),
        ("secagg+", "semi-honest", 6, 5),
        ("secagg+", "active", 8, 7),
        ("fssa", "semi-honest", 5, 4),
        ("fssa", "active", 6, 5),
        ("pss", "semi-honest", 5, 4),
        ("pss", "active", 6, 5),
    ],
)
def test_protocols_give_what_flower_gives_without(federation, strategy, protocol, adversary, first, steady):
    def make():
        return getattr(strategies, strategy)(**real.FOUR)

    inner = Carrier(client_app([blindsum.flower.mod()]), nodes_of(federation))
    job = {"protocol": protocol, "adversary": adversary, "metrics": "loss:0:1"}
    seen = in_rounds(secure := make())
    result, counts = securely(inner, secure, federation, rounds=3, **job)
    assert seen == [[False]] * 3
    wanted = plainly(make(), rounds=3)
    factor = 3 if strategy == "FedAvg" else 100
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=factor * bound())
    for number in (1, 2, 3):
        told = result.train_metrics_clientapp[number]
        assert told["loss"] == pytest.approx(wanted.train_metrics_clientapp[number]["loss"], abs=1e-5)
    assert counts == [first, steady, steady]
    # The model travels once to a node in a round, and nothing of a single node comes back but frames.
    assert sum("arrays" in message.content for message in inner.sent) == 12
    for message in inner.seen:
        assert set(message.content) <= {"blindsum", "blindsum-frames"}
        assert set(message.content["blindsum"]) <= {"party", "certificate", "dropped"}


def test_certificates_of_a_run_cost_one_exchange_in_its_first_round(tmp_path, caplog):
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes_of_a_run(tmp_path))
    result, counts = securely(inner, averaged(), rounds=3, adversary="semi-honest")
    assert np.allclose(flat(result.arrays), flat(plainly(averaged(), rounds=3).arrays), atol=3 * bound())
    assert counts == [6, 5, 5]
    assert len(inner.sent) == 4 * (1 + 6 + 5 + 5)
    assert sum("certificates that this ServerApp signs" in record.message for record in caplog.records) == 1


def test_certificates_of_a_run_protect_against_no_active_server(tmp_path):
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes_of_a_run(tmp_path))
    with pytest.raises(bs.ConfigError) as caught:
        securely(inner, averaged())
    assert caught.value.field == "blindsum-adversary"
    assert inner.sent == []


def test_evaluation_passes_between_rounds(federation):
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes_of(federation))
    result, _ = securely(inner, averaged(fraction_evaluate=1.0), federation, rounds=2, **SEMI_HONEST)
    assert result.evaluate_metrics_clientapp[2]["accuracy"] == 0.5


# Cohorts


class Some(strategies.FedAvg):
    """Trains on the nodes that it is told, round by round."""

    def __init__(self, cohorts):
        super().__init__(**real.FOUR)
        self.cohorts = cohorts

    def configure_train(self, server_round, arrays, config, grid):
        config["server-round"] = server_round
        content = RecordDict({"arrays": arrays, "config": config})
        nodes = self.cohorts[server_round - 1]
        return [Message(content, dst_node_id=node, message_type="train") for node in nodes]


def test_each_round_has_the_nodes_that_were_sampled(federation):
    cohorts = [(100, 101, 102, 103), (101, 102, 103, 104), (100, 101, 102), (100, 102, 103, 104)]
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes_of(federation, 5))
    result, counts = securely(inner, Some(cohorts), federation, rounds=4, min_parties=3, **SEMI_HONEST)
    plain = Some(cohorts)
    wanted = trained(Threads(client_app([]), [{}] * 5), plain, 4)
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=4 * bound())
    # A node that is new has to say its name, and to connect.
    assert counts == [6, 6, 5, 5]
    for step, cohort in enumerate(cohorts, 1):
        assert {node for node, at in inner.counts if at == step} == set(cohort)
    assert len({message.content["blindsum"]["job"] for message in inner.sent}) == 1


def test_a_round_that_does_not_fit_begins_another_job_and_ends_the_former(federation):
    cohorts = [(100, 101, 102, 103), (100, 101, 102, 103, 104), (100, 101, 102, 103)]
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes_of(federation, 5))
    result, counts = securely(inner, Some(cohorts), federation, rounds=3, min_parties=4, **SEMI_HONEST)
    wanted = trained(Threads(client_app([]), [{}] * 5), Some(cohorts), 3)
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=3 * bound())
    assert counts == [6, 6, 5]
    assert len({message.content["blindsum"]["job"] for message in inner.sent}) == 2
    for place in range(5):
        assert len(list((federation.folder / f"state-{place}").rglob("state"))) == 1


def test_a_part_of_the_nodes_takes_part(federation):
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes_of(federation))
    strategy = averaged(min_train_nodes=3, fraction_train=0.75)
    seen = in_rounds(strategy)
    securely(inner, strategy, federation, rounds=4, **SEMI_HONEST)
    assert seen == [[False]] * 4


# Failures

LAST = {"semi-honest": 5, "active": 7}


@pytest.mark.parametrize("what", ["error", "lost", "vanish"])
@pytest.mark.parametrize("adversary", LAST)
def test_a_node_that_is_lost_at_any_exchange_costs_its_own_round_alone(federation, adversary, what):
    """Silence costs a deadline; an error costs nothing. In the next round the node is back."""
    steps = LAST[adversary] if what == "error" else 2
    rounds = 1 + 2 * steps
    at = (
        {2 * count: count for count in range(1, steps + 1)}
        if what == "error"
        else {2: 1, 4: LAST[adversary] - 1}
    )

    def mishap(node, step, count):
        return what if node == 102 and at.get(step) == count else None

    inner = Carrier(client_app([blindsum.flower.mod()]), nodes_of(federation), mishap)
    strategy = averaged()
    seen = in_rounds(strategy)
    # Silence is heard when the deadline of a stage is over, a part of the timeout.
    timeout = 60 if what == "error" else 12
    securely(inner, strategy, federation, rounds=rounds, timeout=timeout, adversary=adversary)
    assert len(seen) == rounds
    for number, errors in enumerate(seen, 1):
        # The last replies of a round may come from fewer nodes than it has.
        assert errors[-1] is False, number
        assert errors[:-1] in ([], [True]), number
        if number % 2:
            assert errors == [False], number


@pytest.mark.parametrize("adversary", LAST)
def test_a_message_that_comes_twice_has_one_answer(federation, adversary):
    called = Counter()
    app = client_app([blindsum.flower.mod()], before=lambda node, number: called.update([(node, number)]))
    inner = Carrier(app, nodes_of(federation), lambda node, step, count: "twice" if node == 101 else None)
    result, counts = securely(inner, averaged(), federation, adversary=adversary)
    assert np.allclose(flat(result.arrays), flat(plainly(averaged()).arrays), atol=2 * bound())
    assert inner.differing == []
    assert set(called.values()) == {1}
    assert counts == [LAST[adversary] + 1, LAST[adversary]]


def test_a_late_reply_is_not_taken_for_one_of_the_next_round(federation):
    inner = Carrier(
        client_app([blindsum.flower.mod()]),
        nodes_of(federation),
        lambda node, step, count: "late" if (node, step, count) == (103, 2, 4) else None,
    )
    strategy = averaged()
    seen = in_rounds(strategy)
    input_ends = {"join_deadline": 2.0, "stage_deadline": 2.0}
    securely(inner, strategy, federation, rounds=3, timeout=8, **input_ends, **SEMI_HONEST)
    assert seen == [[False], [True, False], [False]]
    # It lay there, and nobody asked for it.
    ((_, identifier, reply),) = inner.late
    assert inner.replies[identifier] is reply


def test_training_that_fails_is_an_error_as_ever(federation):
    app = client_app([blindsum.flower.mod()], before=failing(ValueError("no data")))
    inner = Carrier(app, nodes_of(federation))
    strategy = averaged()
    seen = in_rounds(strategy)
    result, counts = securely(inner, strategy, federation, rounds=3, **SEMI_HONEST)
    assert seen == [[False], [True, False], [False]]
    wanted = plainly(averaged(), rounds=3, before=failing(ValueError("no data")))
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=3 * bound())
    assert counts == [6, 5, 6]
    (error,) = [message.error.reason for message in inner.seen if message.has_error()]
    assert "ValueError" in error
    assert "no data" not in error


def test_a_round_that_is_lost_leaves_the_arrays_as_they_were(federation, caplog):
    # fssa of 4 nodes bears no loss.
    app = client_app([blindsum.flower.mod()], before=failing(ValueError("no data")))
    inner = Carrier(app, nodes_of(federation))
    strategy = averaged()
    seen = in_rounds(strategy)
    result, _ = securely(inner, strategy, federation, rounds=3, protocol="fssa", adversary="semi-honest")
    assert seen == [[False], [True] * 4, [False]]
    wanted = plainly(averaged(), rounds=1)
    third = trained(Threads(client_app([]), [{}] * 4), Some([range(100, 104)] * 3), 3)
    second = trained(Threads(client_app([]), [{}] * 4), Some([range(100, 104)] * 3), 2)
    change = flat(third.arrays) - flat(second.arrays)
    assert np.allclose(flat(result.arrays), flat(wanted.arrays) + change, atol=2 * bound())
    assert any("round 2 has no sum" in record.message for record in caplog.records)


def test_a_round_in_which_nobody_answers_ends_within_the_timeout(federation, caplog):
    inner = Carrier(
        client_app([blindsum.flower.mod()]),
        nodes_of(federation),
        lambda node, step, count: "vanish" if step == 2 else None,
    )
    strategy = averaged()
    seen = in_rounds(strategy)
    securely(inner, strategy, federation, rounds=3, timeout=6, **SEMI_HONEST)
    assert seen == [[False], [True] * 4, [False]]


# What is refused


def test_a_node_without_a_folder_is_told_the_key(federation):
    nodes = federation.nodes(4, **ANY, **{"blindsum-state": None})
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes)
    with pytest.raises(bs.ConfigError, match="blindsum-state") as caught:
        securely(inner, averaged(), federation)
    assert caught.value.field == "nodes"


def test_a_policy_that_refuses_the_job_ends_the_run_with_its_reason(federation):
    nodes = nodes_of(federation, **{"blindsum-policy-allowed-protocols": "pss"})
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes)
    with pytest.raises(bs.ConfigError, match="blindsum-policy-allowed-protocols") as caught:
        securely(inner, averaged(), federation)
    assert caught.value.field == "nodes"


def test_two_nodes_with_one_name_are_refused(federation):
    nodes = nodes_of(federation)
    nodes[1] = nodes[0] | {"blindsum-state": str(federation.folder / "another")}
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes)
    strategy = averaged()
    seen, reasons = in_rounds(strategy), []
    inner_aggregate = strategy.aggregate_train
    strategy.aggregate_train = lambda number, replies: (
        reasons.extend(reply.error.reason for reply in replies if reply.has_error()),
        inner_aggregate(number, replies),
    )[1]
    securely(inner, strategy, federation, rounds=1, min_parties=3, **SEMI_HONEST)
    assert seen == [[True, False]]
    (reason,) = reasons
    assert "'hospital-0'" in reason


def test_a_node_that_changes_its_name_is_refused(federation, caplog):
    caplog.set_level(logging.INFO)
    nodes = nodes_of(federation)
    other = federation.node(7)

    def mishap(node, step, count):
        if (node, step) == (101, 2):
            # Its owner gives it another certificate, and its folder anew.
            inner.contexts[101].node_config.update(
                other, **{"blindsum-state": str(federation.folder / "new")}
            )
            return "error" if count == 1 else None
        return None

    inner = Carrier(client_app([blindsum.flower.mod()]), nodes, mishap)
    strategy = averaged()
    seen = in_rounds(strategy)
    securely(inner, strategy, federation, rounds=3, min_parties=3, **SEMI_HONEST)
    assert seen == [[False], [True, False], [True, False]]
    assert any(
        "'hospital-7'" in record.message and "'hospital-1'" in record.message for record in caplog.records
    )


def test_a_node_takes_no_folder_from_the_server_side(federation, tmp_path):
    """The folder of a simulation is for a simulation."""
    nodes = federation.nodes(4, **ANY, **{"blindsum-state": None})
    inner = Carrier(client_app([blindsum.flower.mod()]), nodes)
    content = RecordDict(
        {"blindsum": ConfigRecord({"how": "messages", "simulation-state": str(tmp_path / "x")})}
    )
    message = Message(content, dst_node_id=100, message_type="train")
    message.metadata.__dict__["_message_id"] = "1"
    with pytest.raises(bs.ConfigError) as caught:
        inner.app(message, inner.contexts[100])
    assert caught.value.field == "blindsum-state"
    assert not (tmp_path / "x").exists()


# Simulation


class InMemoryGrid(Carrier):
    """As that of Flower's simulation, with two actors for all nodes."""

    actors = threading.Semaphore(2)

    def _answer(self, identifier, message):
        with self.actors:
            super()._answer(identifier, message)


@pytest.mark.parametrize("adversary", LAST)
def test_nodes_of_a_simulation_get_folders_and_certificates(monkeypatch, adversary, caplog):
    monkeypatch.setattr(simulated, "_in_actor", lambda: True)
    inner = InMemoryGrid(client_app([blindsum.flower.mod()]), [{"partition-id": n} for n in range(5)])
    strategy = averaged(min_train_nodes=5)
    result, counts = securely(inner, strategy, rounds=2, adversary=adversary)
    wanted = trained(Threads(client_app([]), [{}] * 5), averaged(min_train_nodes=5), 2)
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=2 * bound())
    assert counts == [LAST[adversary] + 1, LAST[adversary]]
    (folder,) = {message.content["blindsum"]["simulation-state"] for message in inner.sent}
    # They are gone with the grid.
    assert not Path(folder).exists()
    assert not any("certificates that this ServerApp signs" in record.message for record in caplog.records)


# The page


def test_the_settings_of_the_page_are_settings():
    page = (Path(__file__).parents[2] / "docs" / "flower.md").read_text()
    (block,) = re.findall(r"^```toml flower\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    config = tomllib.loads(block)["tool"]["flwr"]["app"]["config"]
    settings = RunSettings.read(config, {})
    assert settings.transport == "messages"
    assert settings.coordinator_ca
