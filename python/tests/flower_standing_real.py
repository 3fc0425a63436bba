"""Flower apps at a coordinator that stands, which the ServerApp hosts as an operator: `make flower`."""

import logging
import random

import flower_world_real as world
import numpy as np
import pytest
from flower_real import FOUR, averaged, plainly, trained
from flower_world_real import ANY, Threads, client_app, flat
from flwr.serverapp import strategy as strategies

import blindsum as bs
import blindsum.flower
from blindsum import told_once

DIM = sum(int(np.prod(shape)) for shape in world.SHAPES.values())
ANY_RULE = ANY | {
    "blindsum-policy-allowed-protocols": "secagg+,pss,mpc3",
    "blindsum-policy-allowed-rules": "median",
}


@pytest.fixture(autouse=True)
def _nothing_was_told():
    told_once.told.clear()


@pytest.fixture(scope="module")
def operator(place):
    return place.operator("flora")


def job_of(place, **fields):
    fields = {"parties": 4, "dim": DIM, "rounds": 0, "model_update": "none"} | fields
    return place.spec(**{"protocol": "secagg+", "clip": 1.0, "bits": 20, "max_weight": 1000} | fields)


def served(place, spec, **options):
    options = {"admin": "127.0.0.1:0", "stop_when_done": False, "hosted": True} | options
    return place.coordinator(spec, **options)


def settings_of(place, coordinator, operator):
    at = [address.rpartition(":")[2] for address in (coordinator.address, coordinator.admin)]
    return {
        "coordinator": f"https://localhost:{at[0]}",
        "admin": f"https://localhost:{at[1]}",
        "standing_job": "job",
        "operator_identity": str(operator),
        "coordinator_ca": str(place.folder),
    }


def nodes_of(place, folder, count=4, **further):
    found = []
    for number in range(count):
        state = folder / f"state-{number}"
        config = {
            "blindsum-identity": str(place.identity(f"clinic-{number}")),
            "blindsum-ca": str(place.folder),
        }
        found.append(config | {"blindsum-state": str(state)} | ANY_RULE | further)
    return found


def test_runs_one_after_the_other_use_one_job(place, operator, tmp_path):
    with served(place, job_of(place)) as coordinator:
        for _ in range(2):
            inner = Threads(client_app([blindsum.flower.mod()]), nodes_of(place, tmp_path))
            told = settings_of(place, coordinator, operator)
            with blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **told) as grid:
                result = trained(grid, averaged(), rounds=3)
            plain = plainly(averaged(), rounds=3)
            assert np.allclose(flat(result.arrays), flat(plain.arrays), atol=3 * job_of(place).max_error)
        status = bs.Admin(told["admin"], identity=operator, ca=place.folder).describe("job")
        assert status["rounds_done"] == 6


def test_a_node_that_fails_is_left_out_and_nodes_that_are_not_sampled_stay_away(
    place, operator, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    random.seed(7)

    def fail(node, number):
        # Flower leaves out one of five at random, and not the same one each time.
        if node == 101 and number > 1:
            raise ValueError("patient 4711")

    spec = job_of(place, parties=5, min_parties=3)
    app = client_app([blindsum.flower.mod()], before=fail)
    with served(place, spec) as coordinator:
        inner = Threads(app, nodes_of(place, tmp_path, 5))
        strategy = strategies.FedAvg(**FOUR | {"fraction_train": 0.8})
        told = settings_of(place, coordinator, operator)
        with blindsum.flower.SecureGrid(inner, {}, strategy=strategy, **told) as grid:
            result = trained(grid, strategy, rounds=4)
        status = bs.Admin(told["admin"], identity=operator, ca=place.folder).describe("job")
    assert status["rounds_done"] == 4
    assert len(result.train_metrics_clientapp) == 4
    said = [record.getMessage() for record in caplog.records if record.name == "flwr"]
    assert any("the app's function failed: ValueError" in text for text in said)
    assert not any("patient" in text for text in said)


def in_order(update):
    """What training changes, in the order in which `flat` has the arrays."""
    found, at = {}, 0
    for name in world.BACKWARDS:
        size = int(np.prod(world.SHAPES[name]))
        found[name], at = update[at : at + size], at + size
    return np.concatenate([found[name] for name in world.SHAPES])


def test_three_servers_take_the_median_of_updates_that_nobody_sees(place, operator, tmp_path):
    rule = {"protocol": "mpc3", "rule": "median", "max_weight": 1, "parties": 5, "min_parties": 5}
    with served(place, job_of(place, **rule)) as coordinator:
        servers = ",".join(coordinator.servers)
        inner = Threads(
            client_app([blindsum.flower.mod()]), nodes_of(place, tmp_path, 5, **{"blindsum-servers": servers})
        )
        told = settings_of(place, coordinator, operator) | {"coordinator": coordinator.servers[0]}
        with blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **told) as grid:
            result = trained(grid, averaged(), rounds=1)
    updates = [in_order(world.update_of(100 + node, 1)) for node in range(5)]
    start = flat(world.arrays())
    assert np.allclose(flat(result.arrays) - start, np.median(updates, axis=0), atol=1e-4)


@pytest.mark.parametrize(
    ("fields", "changes", "field"),
    [
        ({"dim": DIM + 1}, {}, "arrays"),
        ({"model_update": "add"}, {}, "blindsum-standing-job"),
        ({"parties": 9, "min_parties": 8}, {}, "min_train_nodes"),
        ({"protocol": "flashe"}, {}, "blindsum-protocol"),
        ({}, {"protocol": "pss"}, "blindsum-protocol"),
        ({}, {"admin": ""}, "blindsum-admin"),
        ({}, {"transport": "simulation"}, "blindsum-transport"),
    ],
)
def test_what_cannot_work_is_named(place, operator, tmp_path, fields, changes, field):
    with served(place, job_of(place, **fields)) as coordinator:
        inner = Threads(client_app([blindsum.flower.mod()]), nodes_of(place, tmp_path))
        told = settings_of(place, coordinator, operator) | changes
        with (
            pytest.raises(bs.ConfigError) as caught,
            blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **told) as grid,
        ):
            trained(grid, averaged(), rounds=1)
    assert caught.value.field == field
    assert inner.sent == []


def test_a_job_that_begins_its_rounds_itself_is_named(place, operator, tmp_path):
    with served(place, job_of(place), hosted=False) as coordinator:
        inner = Threads(client_app([blindsum.flower.mod()]), nodes_of(place, tmp_path))
        told = settings_of(place, coordinator, operator)
        with (
            pytest.raises(bs.ConfigError, match="--hosted"),
            blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **told) as grid,
        ):
            trained(grid, averaged(), rounds=1)


def test_another_model_for_one_node_is_in_no_sum(place, operator, tmp_path):
    """A server that deviates changes what it gives one node, and tells the others the truth."""

    class Deviates(Threads):
        def push_messages(self, messages):
            messages = list(messages)
            for message in messages:
                if message.metadata.dst_node_id == 103:
                    message.content["arrays"] = world.arrays(0.25)
            return super().push_messages(messages)

    with served(place, job_of(place, min_parties=3)) as coordinator:
        inner = Deviates(client_app([blindsum.flower.mod()]), nodes_of(place, tmp_path))
        told = settings_of(place, coordinator, operator)
        with blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **told) as grid:
            result = trained(grid, averaged(), rounds=1)
    assert np.allclose(flat(result.arrays) - flat(world.arrays()), mean_of(3, 1), atol=1e-4)


def mean_of(count, number):
    """The mean of what the first nodes change in a round."""
    updates = [in_order(world.update_of(100 + node, number)) for node in range(count)]
    return np.average(updates, axis=0, weights=[10 + node for node in range(count)])


def test_a_node_that_says_another_partys_name_pushes_nobody_out(place, operator, tmp_path, caplog):
    """Node 103 says that it is clinic-0, and fails at once in the next round."""
    caplog.set_level(logging.WARNING)
    rounds = {}

    def lies(message, context, call_next):
        rounds[context.node_id] = rounds.get(context.node_id, 0) + 1
        if context.node_id == 103 and rounds[103] > 1:
            raise ValueError("fails before it has come")
        reply = call_next(message, context)
        if context.node_id == 103 and reply.has_content():
            reply.content["blindsum"]["party"] = "clinic-0"
        return reply

    with served(place, job_of(place, min_parties=3, join_deadline=100.0)) as coordinator:
        inner = Threads(client_app([lies, blindsum.flower.mod()]), nodes_of(place, tmp_path))
        told = settings_of(place, coordinator, operator)
        strategy = strategies.FedAvg(**FOUR)
        with blindsum.flower.SecureGrid(inner, {}, strategy=strategy, **told) as grid:
            result = trained(grid, strategy, rounds=2)
        status = bs.Admin(told["admin"], identity=operator, ca=place.folder).describe("job")
    assert status["rounds_done"] == 2
    assert np.allclose(flat(result.arrays) - flat(world.arrays()), mean_of(4, 1) + mean_of(3, 2), atol=1e-4)
    said = [one.getMessage() for one in caplog.records]
    assert any("nodes 100 and 103" in text and "clinic-0" in text for text in said)


@pytest.mark.parametrize("claim", [{"party": "clinic-0", "result": "0" * 64}, {"party": "a-stranger"}])
def test_what_a_node_says_counts_with_the_sum_alone(place, operator, tmp_path, caplog, claim):
    """Node 103 has another sum than the party it names, or names one that is in none: it stays unknown."""
    caplog.set_level(logging.WARNING)
    seen = set()

    def lies(message, context, call_next):
        reply = call_next(message, context)
        if context.node_id == 103 and not seen:
            seen.add(103)
            for key, value in claim.items():
                reply.content["blindsum"][key] = value
        return reply

    with served(place, job_of(place, min_parties=3, join_deadline=100.0)) as coordinator:
        inner = Threads(client_app([lies, blindsum.flower.mod()]), nodes_of(place, tmp_path))
        told = settings_of(place, coordinator, operator)
        strategy = strategies.FedAvg(**FOUR)
        with blindsum.flower.SecureGrid(inner, {}, strategy=strategy, **told) as grid:
            result = trained(grid, strategy, rounds=2)
    assert seen
    assert np.allclose(flat(result.arrays) - flat(world.arrays()), mean_of(4, 1) + mean_of(4, 2), atol=1e-4)
    assert not any("nodes 100 and 103" in one.getMessage() for one in caplog.records)


def test_a_simulation_has_no_coordinator_that_stands(tmp_path):
    class InMemoryGrid(Threads):
        """What Flower's simulation has by this name."""

    told = {"admin": "https://localhost:2", "standing_job": "job", "operator_identity": str(tmp_path)}
    told |= {"coordinator": "https://localhost:1", "coordinator_ca": str(tmp_path)}
    inner = InMemoryGrid(client_app([blindsum.flower.mod()]), [{"partition-id": 0}] * 4)
    with pytest.raises(bs.ConfigError, match="leave it out") as caught:
        blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **told)
    assert caught.value.field == "blindsum-coordinator"
