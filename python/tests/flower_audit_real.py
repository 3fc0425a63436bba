"""Servers and nodes that deviate, in Flower apps with a real flwr: `make flower`."""

import flower_world_real as world
import numpy as np
import pytest
from flower_deviant_real import DIM, DIRECT, Deviant, asked, averaged, content, reasons
from flower_world_real import ANY, Federation, Threads, client_app
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as strategies

import blindsum as bs
import blindsum.flower
from blindsum.flower import texts
from blindsum.flower.settings import RunSettings


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_was_told():
    texts._told.clear()


# 1: what nodes train on


def step_app(rates):
    """One step of gradient descent, whose update is known: ``rates`` gets it by node."""
    app = ClientApp(mods=[blindsum.flower.mod()])

    @app.train()
    def train(message, context):
        rng = np.random.default_rng(context.node_id)
        weights = message.content["arrays"]["w"].numpy()
        x, y = rng.normal(size=(50, 6)), rng.normal(size=50)
        rate = message.content["config"]["lr"]
        change = np.asarray(-rate * (x.T @ (x @ weights - y)) / 50, np.float32)
        rates[context.node_id] = change
        arrays = ArrayRecord({"w": Array(weights + change)})
        return Message(
            RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 50})}), reply_to=message
        )

    return app


@pytest.mark.parametrize("what", ["model", "config", "key", "record"])
def test_a_server_that_gives_one_node_something_else_gets_nothing_of_it(federation, what):
    alone = {}
    real = content(arrays=ArrayRecord({"w": Array(np.full(6, 0.3, np.float32))}), lr=0.1)
    other = {
        "model": content(arrays=ArrayRecord({"w": Array(np.zeros(6, np.float32))}), lr=0.1),
        "config": content(arrays=real["arrays"], lr=0.0),
        "key": content(arrays=real["arrays"], lr=0.1, further=1),
        "record": RecordDict(dict(real) | {"more": ConfigRecord({})}),
    }[what]
    deviant = Deviant(federation, step_app(alone), federation.nodes(4))
    found, replies = deviant.round({node: real if node == 103 else other for node in range(100, 104)}, dim=6)
    # The job binds what 100 got: 103 never trains, and the others may go on without it.
    assert isinstance(found, str) or "hospital-3" not in found.survivors
    assert 103 not in alone
    assert "messages" in reasons(replies)[103]


def test_a_job_that_binds_nothing_gets_no_update(federation):
    alone = {}
    real = content(arrays=ArrayRecord({"w": Array(np.zeros(6, np.float32))}), lr=0.1)
    deviant = Deviant(federation, step_app(alone), federation.nodes(4))
    unlike = Message(content(9), dst_node_id=1, message_type="train")
    found, replies = deviant.round(dict.fromkeys(range(100, 104), real), dim=6, bound=unlike)
    assert isinstance(found, str)
    assert alone == {}
    assert len(reasons(replies)) == 4


def test_a_configuration_of_the_run_that_is_one_nodes_own_is_refused(federation):
    trained = []
    app = client_app([blindsum.flower.mod()], before=lambda node, number: trained.append(node))
    inner = Threads(app, federation.nodes(4, **ANY), {"lr": 0.1})
    inner.contexts[103].run_config["lr"] = 0.0
    context = Context(1, 1, {}, RecordDict(), {"lr": 0.1})
    with blindsum.flower.SecureGrid(inner, context, strategy=averaged(), **federation.server) as grid:
        result = averaged().start(grid, world.arrays(), num_rounds=1, timeout=600)
    assert result.arrays is not None
    assert sorted(trained) == [100, 101, 102]


def test_a_specification_and_the_context_bind_the_configuration(federation):
    spec = bs.JobSpec(protocol="secagg+", parties=4, dim=1, encoding=bs.Quantised(bits=20, max_weight=1000))
    inner = Threads(client_app([blindsum.flower.mod()]), federation.nodes(4), {"lr": 0.1})
    context = Context(1, 1, {}, RecordDict(), {"lr": 0.1})
    with blindsum.flower.SecureGrid(inner, spec, averaged(), context=context, **federation.server) as grid:
        assert averaged().start(grid, world.arrays(), num_rounds=1, timeout=600).arrays is not None
    with (
        blindsum.flower.SecureGrid(inner, spec, averaged(), **federation.server) as grid,
        pytest.raises(bs.ConfigError, match="run-config"),
    ):
        averaged().start(grid, world.arrays(2.0), num_rounds=1, timeout=600)


class Own(strategies.FedAvg):
    """Gives each node something of its own."""

    def __init__(self, change):
        super().__init__(min_train_nodes=4, min_available_nodes=4, fraction_evaluate=0.0)
        self.change = change

    def configure_train(self, server_round, arrays, config, grid):
        messages = list(super().configure_train(server_round, arrays, config, grid))
        messages[2] = self.change(messages[2])
        return messages


def with_rate(message):
    config = ConfigRecord(dict(message.content["config"]) | {"lr": 0.5})
    own = RecordDict(dict(message.content) | {"config": config})
    return Message(own, dst_node_id=message.metadata.dst_node_id, message_type="train")


def of_group(message):
    message.metadata.group_id = "other"
    return message


@pytest.mark.parametrize("transport", ["direct", "simulation"])
@pytest.mark.parametrize(("change", "where"), [(with_rate, "config"), (of_group, "group_id")])
def test_a_strategy_that_gives_nodes_different_things_hears_what_differs(
    federation, change, where, transport
):
    inner = Threads(client_app([blindsum.flower.mod()]), federation.nodes(4))
    settings = federation.server | {"transport": transport}
    with (
        blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **settings) as grid,
        pytest.raises(bs.ConfigError, match=where) as caught,
    ):
        Own(change).start(grid, world.arrays(), num_rounds=1, timeout=600)
    assert caught.value.field == "messages"
    assert inner.sent == []


# 2, 7: what an error says


def secretive(value, weight=1100):
    app = ClientApp(mods=[blindsum.flower.mod()])

    @app.train()
    def train(message, context):
        if value is None:
            raise KeyError("Jane Doe, HIV positive")
        arrays = message.content["arrays"]
        if value == "nan":
            arrays = ArrayRecord(
                {key: Array(np.asarray(one.numpy() * np.float32(np.nan))) for key, one in arrays.items()}
            )
        metrics = MetricRecord({"num-examples": weight, "train_loss": 0.8731, "classes": [17.0, 3.0]})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app


@pytest.mark.parametrize(
    ("app", "settings", "told", "said"),
    [
        (secretive("sum"), {}, {"weighted-by": "train_loss"}, "blindsum-weighted-by"),
        (secretive("sum"), {}, {"weighted-by": "classes"}, "blindsum-weighted-by"),
        (secretive("sum"), {"max_weight": 2}, {}, "weight"),
        (secretive("sum", 11.5), {}, {}, "metrics"),
        (secretive("nan"), {}, {}, "arrays"),
        (secretive(None), {}, {}, "KeyError"),
    ],
    ids=["loss", "list", "too-heavy", "no-whole-number", "nan", "raises"],
)
def test_no_error_has_a_value_of_the_node(federation, app, settings, told, said, caplog):
    deviant = Deviant(federation, app, federation.nodes(4), **settings)
    found, replies = deviant.round(dict.fromkeys(range(100, 104), content()), told)
    assert isinstance(found, str)
    assert len(reasons(replies)) == 4
    for reason in reasons(replies).values():
        assert said in reason
        for secret in ("0.87", "17.0", "1100", "11.5", "nan", "Jane", "scale", str(federation.folder)):
            assert secret not in reason
    # The node's own log has it.
    assert any(record.name == "blindsum" for record in caplog.records)


def test_the_log_of_the_node_has_what_the_server_does_not_hear(federation, caplog):
    deviant = Deviant(federation, secretive(None), federation.nodes(4))
    deviant.round(dict.fromkeys(range(100, 104), content()))
    assert "Jane Doe" in caplog.text


def test_one_text_for_all_ways_in_which_a_coordinator_is_not_reached(federation, tmp_path):
    app = client_app([blindsum.flower.mod()])
    config = federation.node(0, **{"blindsum-give-up-after": 1})
    other = Federation(tmp_path / "other")
    spec = RunSettings().spec("y", DIM, 4)
    found = set()
    with (
        bs.Coordinator(
            spec,
            identity=other.server["coordinator_identity"],
            ca=other.folder,
            listen="127.0.0.1:0",
            hosted=True,
        ) as foreign,
        bs.Coordinator(
            spec,
            identity=federation.server["coordinator_identity"],
            ca=federation.folder,
            listen="127.0.0.1:0",
            hosted=True,
        ) as own,
    ):
        ports = [one.address.rpartition(":")[2] for one in (foreign, own)]
        for url in (
            "https://127.0.0.1:1",
            "https://no-such-host.invalid:443",
            *(f"https://127.0.0.1:{port}" for port in ports),
        ):
            with pytest.raises(bs.NetworkError) as caught:
                asked(app, config, DIRECT | {"url": url})
            found.add(str(caught.value))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("how", "A" * 3_000_000),
        ("how", "x\n\x1b[31mforged"),
        ("how", 5),
        ("url", "https://" + "a" * 3_000_000),
        ("job", 7),
        ("job-hash", "0"),
        ("reply", "all"),
        ("weighted-by", "w" * 10_000),
        *[("timeout", value) for value in (float("nan"), float("inf"), -1.0, 1e300, "5")],
        *[(key, None) for key in DIRECT],
    ],
)
def test_what_a_server_says_wrongly_is_refused_and_not_echoed(federation, key, value):
    app = client_app([blindsum.flower.mod()])
    record = {name: one for name, one in (DIRECT | {key: value}).items() if one is not None}
    with pytest.raises(bs.ConfigError) as caught:
        asked(app, federation.node(0), record)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_certificates_of_no_use_are_not_stored(federation, tmp_path):
    app = client_app([blindsum.flower.mod()])
    state = tmp_path / "state"
    config = {
        "blindsum-trust-run": True,
        "blindsum-state": str(state),
        "blindsum-policy-require-adversary": "semi-honest",
    }
    asked(app, config, {"how": "enrol"})
    other = (federation.folder / "agg.pem").read_text()
    for certificate in ("x", "A" * 20_000_000, other):
        with pytest.raises(bs.ConfigError):
            asked(app, config, DIRECT | {"certificate": certificate, "ca": other})
    assert not list(state.rglob("*.pem"))
