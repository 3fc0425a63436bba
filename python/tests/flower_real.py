"""Flower apps with a real flwr, in one process and in Flower's simulation: `make flower`."""

import logging
import threading

import flower_world_real as world
import numpy as np
import pytest
from flower_world_real import ANY, Federation, Threads, client_app, flat
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod
from flwr.serverapp import ServerApp
from flwr.serverapp import strategy as strategies
from flwr.simulation import run_simulation

import blindsum as bs
import blindsum.flower
from blindsum import told_once
from blindsum.flower import simulated
from blindsum.flower import strategies as ours
from blindsum.flower.settings import RunSettings

FOUR = {"min_train_nodes": 4, "min_available_nodes": 4, "fraction_evaluate": 0.0}


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_was_told():
    told_once.told.clear()


def averaged(**changes):
    return strategies.FedAvg(**FOUR | changes)


def trained(grid, strategy, rounds=2, timeout=60):
    return strategy.start(grid=grid, initial_arrays=world.arrays(), num_rounds=rounds, timeout=timeout)


def securely(federation, strategy, *, app=None, nodes=None, rounds=2, timeout=60, **settings):
    """Train through a SecureGrid; the result and the inner grid."""
    inner = Threads(app or client_app([blindsum.flower.mod()]), nodes or federation.nodes(4, **ANY))
    settings = federation.server | settings
    with blindsum.flower.SecureGrid(inner, {}, strategy=strategy, **settings) as grid:
        return trained(grid, strategy, rounds, timeout), inner


def plainly(strategy, count=4, mods=(), rounds=2, **named):
    return trained(Threads(client_app(mods, **named), [{}] * count), strategy, rounds)


def bound(**settings):
    return RunSettings(**settings).spec("job", 1, 4).max_error


# Strategies


def test_every_strategy_of_flower_is_known():
    """A newer Flower with another strategy fails here: decide which list it belongs to."""
    found = {
        name
        for name in strategies.__all__
        if isinstance(kind := getattr(strategies, name), type)
        and issubclass(kind, strategies.Strategy)
        and kind is not strategies.Strategy
    }
    assert found <= {*ours.WORKS, *ours.REFUSED}
    assert not set(ours.WORKS) & set(ours.REFUSED)


class MyKrum(strategies.Krum):
    pass


class MyMean(strategies.FedAvg):
    pass


@pytest.mark.parametrize(
    "make",
    [
        strategies.Krum,
        strategies.FedMedian,
        MyKrum,
        lambda: strategies.DifferentialPrivacyServerSideFixedClipping(averaged(), 1.0, 1.0, 4),
        lambda: strategies.DifferentialPrivacyClientSideFixedClipping(strategies.Krum(), 1.0, 1.0, 4),
    ],
)
def test_strategies_that_look_at_single_updates_are_refused_before_anything_is_sent(federation, make):
    inner = Threads(client_app([]), federation.nodes(4))
    with pytest.raises(bs.ConfigError) as caught:
        blindsum.flower.SecureGrid(inner, {}, strategy=make(), **federation.server)
    assert caught.value.field == "strategy"
    assert inner.sent == []


def test_a_strategy_that_nobody_knows_is_told_of(federation, caplog):
    inner = Threads(client_app([]), federation.nodes(4))
    blindsum.flower.SecureGrid(inner, {}, strategy=MyMean(), **federation.server)
    blindsum.flower.SecureGrid(inner, {}, **federation.server)
    assert [record.levelno for record in caplog.records if record.name == "blindsum"] == [logging.WARNING] * 2


@pytest.mark.parametrize("name", [name for name in ours.WORKS if name.startswith("Fed") and name != "FedOpt"])
def test_strategies_give_what_they_give_without(federation, name):
    options = FOUR | ({"proximal_mu": 0.1} if name == "FedProx" else {})
    result, _ = securely(federation, getattr(strategies, name)(**options), protocol="plain")
    wanted = plainly(getattr(strategies, name)(**options))
    # Adaptive steps divide by what is small in the first rounds, so small differences grow.
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=100 * bound())


def test_clipping_at_the_nodes_comes_before_the_sum(federation):
    def strategy():
        return strategies.DifferentialPrivacyClientSideFixedClipping(averaged(), 0.0, 0.5, 4)

    names = tuple(world.SHAPES)
    app = client_app([blindsum.flower.mod(), fixedclipping_mod], names=names)
    result, _ = securely(federation, strategy(), app=app)
    wanted = plainly(strategy(), mods=[fixedclipping_mod], names=names)
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=2 * bound())


@pytest.mark.parametrize("settings", [{"protocol": "pss-malicious", "max_weight": 1}, {"min_parties": 6}])
def test_jobs_that_need_more_than_four_nodes_are_no_error_before_any_are_known(federation, settings):
    inner = Threads(client_app([]), federation.nodes(1))
    blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **federation.server | settings).close()


# Protocols and replies


@pytest.mark.parametrize("protocol", ["secagg", "secagg+", "fssa", "pss", "paillier-ring"])
def test_protocols_give_what_flower_gives_without(federation, protocol):
    result, _ = securely(federation, averaged(), protocol=protocol, metrics="loss:0:1")
    wanted = plainly(averaged())
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=2 * bound())
    for number in (1, 2):
        told = result.train_metrics_clientapp[number]
        assert told["loss"] == pytest.approx(wanted.train_metrics_clientapp[number]["loss"], abs=1e-6)


@pytest.mark.parametrize("reply", ["one", "mean"])
def test_nothing_of_a_single_node_comes_to_the_server(federation, reply):
    class Watching(Threads):
        def pull_messages(self, message_ids):
            found = super().pull_messages(message_ids)
            seen.extend(found)
            return found

    seen = []
    inner = Watching(client_app([blindsum.flower.mod()]), federation.nodes(4, **ANY))
    settings = federation.server | {"reply": reply}
    with blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **settings) as grid:
        result = trained(grid, averaged(), rounds=1)
    wanted = plainly(averaged(), rounds=1)
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=bound())
    assert len(seen) == 4
    for message in seen:
        if reply == "one":
            assert set(message.content) == {"blindsum"}
            assert set(message.content["blindsum"]) == {"party", "dropped", "result"}
        else:
            assert np.array_equal(flat(message.content["arrays"]), flat(seen[0].content["arrays"]))
            assert dict(message.content["metrics"]) == {"num-examples": 46}


def test_a_part_of_the_nodes_takes_part(federation):
    result, inner = securely(federation, averaged(min_train_nodes=3, fraction_train=0.75), rounds=4)
    assert len(inner.sent) == 12
    assert result.arrays is not None


def test_a_specification_may_say_the_job(federation):
    spec = bs.JobSpec(protocol="secagg+", parties=4, dim=1, encoding=bs.Quantised(bits=12, max_weight=1000))
    inner = Threads(client_app([blindsum.flower.mod()]), federation.nodes(4))
    with blindsum.flower.SecureGrid(inner, spec, strategy=averaged(), **federation.server) as grid:
        result = trained(grid, averaged(), rounds=1)
    error = np.abs(flat(result.arrays) - flat(plainly(averaged(), rounds=1).arrays)).max()
    assert bound() < error <= spec.max_error


def test_certificates_of_a_run_are_told_loudly_once(tmp_path, caplog):
    nodes = [
        {
            "blindsum-trust-run": True,
            "blindsum-state": str(tmp_path / f"node-{place}"),
            "blindsum-policy-require-adversary": "semi-honest",
        }
        for place in range(4)
    ]
    inner = Threads(client_app([blindsum.flower.mod()]), nodes)
    with blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), adversary="semi-honest") as grid:
        result = trained(grid, averaged())
    assert np.allclose(flat(result.arrays), flat(plainly(averaged()).arrays), atol=2 * bound())
    # One exchange more, in the first round.
    assert len(inner.sent) == 12
    assert sum("certificates that this ServerApp signs" in record.message for record in caplog.records) == 1


def test_a_node_that_takes_no_certificate_of_the_run_is_left_out(tmp_path):
    nodes = [
        {
            "blindsum-trust-run": place > 0,
            "blindsum-state": str(tmp_path / f"node-{place}"),
            "blindsum-policy-require-adversary": "semi-honest",
        }
        for place in range(4)
    ]
    result, _ = _of_a_run(nodes)
    assert result.arrays is not None
    with pytest.raises(bs.ConfigError, match="blindsum-trust-run") as caught:
        _of_a_run([one | {"blindsum-trust-run": False} for one in nodes])
    assert caught.value.field == "nodes"


def _of_a_run(nodes):
    inner = Threads(client_app([blindsum.flower.mod()]), nodes)
    with blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), adversary="semi-honest") as grid:
        return trained(grid, averaged()), inner


def test_certificates_of_a_run_protect_against_no_active_server(federation):
    inner = Threads(client_app([blindsum.flower.mod()]), federation.nodes(4))
    with (
        blindsum.flower.SecureGrid(inner, {}, strategy=averaged()) as grid,
        pytest.raises(bs.ConfigError) as caught,
    ):
        trained(grid, averaged())
    assert caught.value.field == "blindsum-adversary"
    assert inner.sent == []


# What a node refuses


def train_message(node=100):
    message = Message(
        RecordDict({"arrays": world.arrays(), "config": ConfigRecord({"server-round": 1})}),
        dst_node_id=node,
        message_type="train",
    )
    message.metadata.__dict__["_message_id"] = "1"
    return message


def test_no_update_leaves_a_node_where_the_server_leaves_the_grid_out(federation):
    called = threading.Event()
    app = client_app([blindsum.flower.mod()], before=lambda node, number: called.set())
    for config in (federation.node(0), {"partition-id": 0, "num-partitions": 4}, {}):
        inner = Threads(app, [config] * 4)
        with pytest.raises(bs.ConfigError) as caught:
            app(train_message(), inner.contexts[100])
        assert caught.value.field == "blindsum-policy-plain"
        assert not called.is_set()
    # The strategy gets errors, and no arrays.
    assert not trained(Threads(app, federation.nodes(4)), averaged(), rounds=1).arrays
    inner = Threads(app, [federation.node(0, **{"blindsum-policy-plain": True})])
    assert "arrays" in app(train_message(), inner.contexts[100]).content


def test_no_update_leaves_a_node_that_is_asked_as_if_in_a_simulation(federation):
    app = client_app([blindsum.flower.mod()])
    inner = Threads(app, federation.nodes(4, **ANY))
    with (
        blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), transport="simulation") as grid,
        pytest.raises(bs.ConfigError) as caught,
    ):
        trained(grid, averaged(), rounds=1)
    assert caught.value.field == "nodes"
    assert "blindsum-transport" in str(caught.value)


def test_replies_to_evaluation_have_no_arrays_unless_the_node_allows_it(federation):
    app = client_app([blindsum.flower.mod()])
    for config, leaks in (
        (federation.node(0), False),
        (federation.node(0, **{"blindsum-policy-arrays": True}), True),
    ):
        inner = Threads(app, [config])
        for key in ("quiet", "leak"):
            content = RecordDict({"arrays": world.arrays(), "config": ConfigRecord({key: 1})})
            message = Message(content, dst_node_id=100, message_type="evaluate")
            message.metadata.__dict__["_message_id"] = "1"
            if key == "leak" and not leaks:
                with pytest.raises(bs.ConfigError) as caught:
                    app(message, inner.contexts[100])
                assert caught.value.field == "blindsum-policy-arrays"
            else:
                assert app(message, inner.contexts[100]).content["metrics"]["accuracy"] == 0.5


def test_evaluation_passes(federation):
    result, _ = securely(federation, averaged(fraction_evaluate=1.0), rounds=1)
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.5


def test_a_policy_that_refuses_the_job_ends_the_run_with_its_reason(federation):
    nodes = federation.nodes(4, **{"blindsum-policy-allowed-protocols": "pss"})
    with pytest.raises(bs.ConfigError, match="blindsum-policy-allowed-protocols") as caught:
        securely(federation, averaged(), nodes=nodes)
    assert caught.value.field == "nodes"


def test_two_nodes_are_too_few(federation):
    two = averaged(min_train_nodes=2, min_available_nodes=2)
    with pytest.raises(bs.ConfigError) as caught:
        securely(federation, two, nodes=federation.nodes(2, **ANY))
    assert caught.value.field == "min_train_nodes"


# Failures


def failing(what, node=102, number=2):
    def before(at, current):
        if (at, current) == (node, number):
            raise what

    return before


def test_a_node_that_fails_costs_its_round_nothing_but_itself(federation):
    app = client_app([blindsum.flower.mod()], before=failing(ValueError("no data")))
    strategy = averaged()
    seen = []
    strategy.aggregate_train = lambda number, replies, inner=strategy.aggregate_train: (
        seen.append([reply.has_error() for reply in replies]),
        inner(number, replies),
    )[1]
    result, _ = securely(federation, strategy, app=app, rounds=3)
    assert seen == [[False], [True, False], [False]]
    wanted = plainly(averaged(), rounds=3, before=failing(ValueError("no data")))
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=3 * bound())


def test_a_node_that_never_replies_does_not_hold_the_round(federation):
    app = client_app([blindsum.flower.mod()], before=failing(world.Vanished()))
    result, _ = securely(federation, averaged(), app=app, rounds=3, timeout=600)
    wanted = plainly(averaged(), rounds=3, before=failing(ValueError()))
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=3 * bound())


def test_a_round_that_is_lost_leaves_the_arrays_as_they_were(federation, caplog):
    # fssa of 4 nodes bears no loss.
    app = client_app([blindsum.flower.mod()], before=failing(ValueError("no data")))
    result, _ = securely(federation, averaged(), app=app, rounds=2, protocol="fssa")
    assert np.allclose(flat(result.arrays), flat(plainly(averaged(), rounds=1).arrays), atol=bound())
    assert any("round 2 has no sum" in record.message for record in caplog.records)


def test_metrics_that_nobody_declared_are_named_once(federation, caplog):
    securely(federation, averaged(), metrics="loss:0:1")
    told = [record.message for record in caplog.records if "does not declare" in record.message]
    assert len(told) == 1
    assert "text-like" in told[0]
    assert "loss," not in told[0]


def test_a_node_reports_metrics_once_for_each_model(federation, tmp_path, caplog):
    nodes = [
        federation.node(place, **ANY, **{"blindsum-state": str(tmp_path / f"state-{place}")})
        for place in range(4)
    ]
    for told in ({"loss"}, set()):
        result, _ = securely(federation, averaged(), nodes=nodes, rounds=1, metrics="loss:0:1")
        assert set(result.train_metrics_clientapp[1]) == told
    assert sum("before, and reports none again" in record.message for record in caplog.records) == 4
    # Another model, other metrics.
    result, _ = securely(federation, averaged(), nodes=nodes, rounds=2, metrics="loss:0:1")
    assert set(result.train_metrics_clientapp[2]) == {"loss"}


# Simulation


def test_a_simulated_round_leaves_out_a_weight_that_the_run_does_not_take(federation, caplog):
    nodes = federation.nodes(4, **{"blindsum-policy-plain": True})
    settings = {"transport": "simulation", "max_weight": 12, "dropout": 0.25}
    result, _ = securely(federation, averaged(), nodes=nodes, rounds=1, **settings)
    # Node 103 has 13 examples.
    updates = {node: world.update_of(node, 1) for node in (100, 101, 102)}
    place, wanted = 0, {}
    for name in world.BACKWARDS:
        size = int(np.prod(world.SHAPES[name]))
        parts = [update[place : place + size] for update in updates.values()]
        wanted[name], place = np.average(parts, axis=0, weights=[10, 11, 12]), place + size
    mean = np.concatenate([wanted[name] for name in world.SHAPES])
    assert np.allclose(flat(result.arrays) - flat(world.arrays()), mean, atol=bound())
    told = [record.getMessage() for record in caplog.records]
    assert any("node 103" in text and "blindsum-max-weight = 13 or more" in text for text in told)


# Ray warns of itself, and leaves files open.
@pytest.mark.filterwarnings("ignore")
def test_fewer_actors_than_nodes_simulate_the_same_protocol(caplog):
    assert not simulated.is_simulated_node({"partition-id": 0})
    found = []
    server = ServerApp()

    @server.main()
    def main(grid, context):
        strategy = strategies.FedAvg(min_train_nodes=5, min_available_nodes=5, fraction_evaluate=0.0)
        settings = {"blindsum-metrics": "loss:0:10"}
        with blindsum.flower.SecureGrid(grid, settings, strategy=strategy) as secure:
            found.append(trained(secure, strategy, rounds=2, timeout=300))

    run_simulation(
        server_app=server,
        client_app=simulation_app(),
        num_supernodes=5,
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {"num_cpus": 2, "logging_level": "ERROR"},
        },
    )
    (result,) = found
    # Partitions 0 to 4 change by 0.01, 0.02, …, and weigh 1, 2, ….
    wanted = 0.5 + 2 * sum(0.01 * n * n for n in range(1, 6)) / 15
    assert np.allclose(flat(result.arrays), wanted, atol=3 * bound())
    assert result.train_metrics_clientapp[1]["loss"] == pytest.approx(55 / 15, abs=1e-5)
    assert any("simulation" in record.message for record in caplog.records)


def simulation_app():
    """An app that Ray's actors can load: it is sent to them by value."""
    app = ClientApp(mods=[blindsum.flower.mod()])

    @app.train()
    def train(message, context):
        number = int(context.node_config["partition-id"]) + 1
        arrays = ArrayRecord(
            {
                name: Array(np.asarray(array.numpy() + np.float32(0.01 * number)))
                for name, array in message.content["arrays"].items()
            }
        )
        metrics = MetricRecord({"num-examples": number, "loss": float(number)})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app
