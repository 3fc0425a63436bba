"""Servers and nodes that deviate, in Flower apps with a real flwr: `make flower`."""

import re
import sys
import types

import flower_world_real as world
import numpy as np
import pytest
from flower_world_real import ANY, Federation, Threads, client_app, flat
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as strategies

import blindsum as bs
import blindsum.flower
from blindsum.flower import contents, enrolment, texts
from blindsum.flower.direct import Identity, Rounds
from blindsum.flower.settings import RunSettings
from blindsum.flower.texts import RECORD

DIM = 6 + 4 + 1


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_was_told():
    texts._told.clear()


def averaged(**changes):
    options = {"min_train_nodes": 4, "min_available_nodes": 4, "fraction_evaluate": 0.0}
    return strategies.FedAvg(**options | changes)


def content(number=1, arrays=None, **config):
    config = {"server-round": number} | config
    return RecordDict({"arrays": arrays or world.arrays(), "config": ConfigRecord(config)})


class Deviant:
    """A ServerApp that begins a job itself, and sends each node what it likes."""

    def __init__(self, federation, app, configs, **settings):
        self.grid = Threads(app, configs)
        files = federation.server
        identity = Identity(files["coordinator_identity"], files["coordinator_ca"])
        self.rounds = Rounds(identity, "127.0.0.1:0", "")
        self.settings = RunSettings(**settings)
        self.step = 0

    def round(self, sent, told=None, bound=None, dim=DIM, weighted_by="num-examples"):
        """Run a round; ``sent`` are contents by node, ``bound`` the message that the job binds."""
        self.step += 1
        messages = {
            node: Message(RecordDict(dict(one)), dst_node_id=node, message_type="train")
            for node, one in sent.items()
        }
        first = messages[min(messages)] if bound is None else bound
        spec = self.settings.spec(f"flower-77-{self.step}", dim, len(sent)).replace(
            join_deadline=20.0,
            stage_deadline=20.0,
            parameters={
                "flower_content": contents.content_digest(first).hex(),
                "flower_run": contents.run_digest(77, {}, weighted_by).hex(),
            },
        )
        url = self.rounds.begin(spec)
        base = {
            "how": "direct",
            "url": url,
            "job": spec.job,
            "job-hash": spec.hash,
            "timeout": 30.0,
            "weighted-by": weighted_by,
            "reply": "one",
        }
        for message in messages.values():
            message.content[RECORD] = ConfigRecord(base | (told or {}))
        replies = self.grid.gather(list(messages.values()), self.rounds.failed)
        assert self.rounds.wait(30)
        found = self.rounds.result()
        self.rounds.end()
        return found, replies


def reasons(replies):
    return {node: reply.error.reason for node, reply in replies.items() if reply.has_error()}


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
        result = averaged().start(grid, world.arrays(), num_rounds=1, timeout=60)
    assert result.arrays is not None
    assert sorted(trained) == [100, 101, 102]


def test_a_specification_and_the_context_bind_the_configuration(federation):
    spec = bs.JobSpec(protocol="secagg+", parties=4, dim=1, encoding=bs.Quantised(bits=20, max_weight=1000))
    inner = Threads(client_app([blindsum.flower.mod()]), federation.nodes(4), {"lr": 0.1})
    context = Context(1, 1, {}, RecordDict(), {"lr": 0.1})
    with blindsum.flower.SecureGrid(inner, spec, averaged(), context=context, **federation.server) as grid:
        assert averaged().start(grid, world.arrays(), num_rounds=1, timeout=60).arrays is not None
    with (
        blindsum.flower.SecureGrid(inner, spec, averaged(), **federation.server) as grid,
        pytest.raises(bs.ConfigError, match="run-config"),
    ):
        averaged().start(grid, world.arrays(2.0), num_rounds=1, timeout=60)


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
        Own(change).start(grid, world.arrays(), num_rounds=1, timeout=60)
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


def asked(app, config, record, kind="train", one=None):
    """The reply of one node to Blindsum's record; an error is raised."""
    inner = Threads(app, [config])
    own = RecordDict(dict(one or content()))
    if record is not None:
        own[RECORD] = ConfigRecord(record)
    message = Message(own, dst_node_id=100, message_type=kind)
    message.metadata.__dict__["_message_id"] = "1"
    return app(message, inner.contexts[100])


DIRECT = {
    "how": "direct",
    "url": "https://127.0.0.1:1",
    "job": "x",
    "job-hash": "0" * 64,
    "timeout": 5.0,
    "weighted-by": "num-examples",
    "reply": "one",
}


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


# 3, 6, 14: what nodes reply


class Mangled:
    """An app whose node 103 replies as it likes."""

    def __init__(self, mangle):
        self.honest = client_app([blindsum.flower.mod()])
        self.mangle = mangle

    def __call__(self, message, context):
        reply = self.honest(message, context)
        return self.mangle(message, reply) if context.node_id == 103 else reply


def said(**fields):
    def mangle(message, reply):
        own = dict(reply.content[RECORD]) | fields
        own = {key: value for key, value in own.items() if value is not None}
        return Message(RecordDict(dict(reply.content) | {RECORD: ConfigRecord(own)}), reply_to=message)

    return mangle


def poisoned(weight):
    def mangle(message, reply):
        arrays = {"arrays": world.arrays(1e6), "metrics": MetricRecord({"num-examples": weight})}
        return Message(RecordDict({RECORD: reply.content[RECORD]} | arrays), reply_to=message)

    return mangle


def heavy(message, reply):
    reply.content["metrics"] = MetricRecord({"num-examples": 10**9})
    return reply


def more(message, reply):
    reply.content["more"] = MetricRecord({"x": 1})
    return reply


MANGLED = {
    "number": said(dropped=5),
    "flood": said(dropped=["x\n\x1b[31mforged"] + ["y"] * 20_000),
    "forged": said(party="a\nCRITICAL forged \x1b[31m"),
    "number-party": said(party=7),
    "no-record": lambda message, reply: Message(RecordDict({}), reply_to=message),
    "array": lambda message, reply: Message(RecordDict({RECORD: world.arrays()}), reply_to=message),
}


@pytest.mark.parametrize("reply", ["one", "mean"])
@pytest.mark.parametrize("name", MANGLED)
def test_a_reply_that_is_wrong_is_an_error_reply_and_ends_no_run(federation, name, reply, caplog):
    seen = []
    strategy = averaged()
    strategy.aggregate_train = lambda number, replies, inner=strategy.aggregate_train: (
        seen.append([one for one in replies if one.has_error()]),
        inner(number, replies),
    )[1]
    inner = Threads(Mangled(MANGLED[name]), federation.nodes(4))
    settings = federation.server | {"reply": reply}
    with blindsum.flower.SecureGrid(inner, {}, strategy=strategy, **settings) as grid:
        result = strategy.start(grid, world.arrays(), num_rounds=1, timeout=60)
    assert np.abs(flat(result.arrays)).max() < 1.5
    ((error,),) = seen
    assert error.error.reason.isprintable()
    assert len(error.error.reason) < 600
    told = [record.getMessage() for record in caplog.records if record.name == "blindsum"]
    assert any("node 103" in text for text in told)
    assert all(text.isprintable() for text in told)


@pytest.mark.parametrize("mangle", [poisoned(46), poisoned(10**9), heavy, more, said(result="0" * 64)])
def test_a_reply_with_the_mean_is_the_coordinators_or_an_error(federation, mangle, caplog):
    inner = Threads(Mangled(mangle), federation.nodes(4))
    settings = federation.server | {"reply": "mean", "metrics": "loss:0:1"}
    with blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **settings) as grid:
        result = averaged().start(grid, world.arrays(), num_rounds=1, timeout=60)
    wanted = averaged().start(Threads(client_app([]), [{}] * 4), world.arrays(), num_rounds=1)
    assert np.allclose(flat(result.arrays), flat(wanted.arrays), atol=1e-5)
    told = result.train_metrics_clientapp[1]["loss"]
    assert told == pytest.approx(wanted.train_metrics_clientapp[1]["loss"], abs=1e-5)
    assert any("node 103" in record.getMessage() for record in caplog.records)


def test_reasons_of_nodes_that_all_refuse_are_cut_and_escaped(federation):
    def bad(message, context):
        raise ValueError("\x1b[31m\nforged" + "A" * 2_000_000)

    with (
        blindsum.flower.SecureGrid(
            Threads(bad, federation.nodes(4)), {}, averaged(), **federation.server
        ) as grid,
        pytest.raises(bs.ConfigError) as caught,
    ):
        averaged().start(grid, world.arrays(), num_rounds=1, timeout=60)
    assert len(str(caught.value)) < 5000
    assert str(caught.value).isprintable()


# 4: exactly these nodes


def test_the_name_of_a_job_cannot_be_guessed(federation):
    names = []
    for _ in range(2):
        inner = Threads(client_app([blindsum.flower.mod()]), federation.nodes(4))
        with blindsum.flower.SecureGrid(inner, {}, averaged(), **federation.server) as grid:
            averaged().start(grid, world.arrays(), num_rounds=1, timeout=60)
        names.append({message.content[RECORD]["job"] for message in inner.sent})
    assert [len(found) for found in names] == [1, 1]
    assert names[0] != names[1]
    assert all(re.fullmatch("flower-77-1-[0-9a-f]{24}", name) for found in names for name in found)


# 8, 9, 10, 11: rules


def test_certificates_of_a_run_bear_no_job_that_says_active(tmp_path):
    app = client_app([blindsum.flower.mod()])
    config = {
        "blindsum-trust-run": True,
        "blindsum-state": str(tmp_path / "state"),
        "blindsum-policy-require-adversary": "semi-honest",
    }
    authority = enrolment.RunAuthority(77, "")
    reply = asked(app, config, {"how": "enrol"})
    authority.sign(100, str(reply.content[RECORD]["request"]))
    rounds = Rounds(authority.identity, "127.0.0.1:0", "")
    message = Message(content(), dst_node_id=100, message_type="train")
    spec = RunSettings(adversary="active").spec("flower-77-1", DIM, 4)
    spec = spec.replace(
        parameters={
            "flower_content": contents.content_digest(message).hex(),
            "flower_run": contents.run_digest(77, {}, "num-examples").hex(),
        }
    )
    url = rounds.begin(spec)
    record = DIRECT | {"url": url, "job": spec.job, "job-hash": spec.hash} | authority.told(100)
    with pytest.raises(bs.ConfigError) as caught:
        asked(app, config, record)
    assert caught.value.field == "blindsum-adversary"
    rounds.end()
    authority.close()


def test_metrics_need_a_folder(federation, caplog):
    nodes = federation.nodes(4, **{"blindsum-state": None})
    deviant = Deviant(federation, client_app([blindsum.flower.mod()]), nodes, metrics="loss:0:1")
    for count in (4, 3):
        found, _ = deviant.round(dict.fromkeys(range(100, 100 + count), content()))
        assert found.metrics == {"loss": None}
    assert sum("blindsum-state" in record.getMessage() for record in caplog.records) == 1


def test_one_model_in_two_cohorts_is_refused(federation):
    deviant = Deviant(federation, client_app([blindsum.flower.mod()]), federation.nodes(4))
    found, _ = deviant.round(dict.fromkeys(range(100, 104), content()))
    assert not isinstance(found, str)
    # Another number of the round, the same model.
    found, replies = deviant.round(dict.fromkeys(range(100, 103), content(2)))
    assert isinstance(found, str)
    assert all("blindsum-policy-repeats" in reason for reason in reasons(replies).values())
    assert len(reasons(replies)) == 3
    # The same cohort, and another model.
    found, _ = deviant.round(dict.fromkeys(range(100, 104), content(3)))
    assert not isinstance(found, str)
    found, _ = deviant.round(dict.fromkeys(range(100, 103), content(4, world.arrays(0.7))))
    assert not isinstance(found, str)


def test_one_model_in_two_cohorts_is_taken_where_the_node_says_so(federation):
    nodes = federation.nodes(4, **{"blindsum-policy-repeats": True})
    deviant = Deviant(federation, client_app([blindsum.flower.mod()]), nodes)
    for count in (4, 3):
        found, _ = deviant.round(dict.fromkeys(range(100, 100 + count), content()))
        assert not isinstance(found, str)


def test_a_lost_round_may_be_tried_again_with_its_model(federation):
    # fssa of 4 nodes bears no loss.
    failures = {1}

    def before(node, number):
        if node == 103 and number in failures:
            raise ValueError("no data")

    app = client_app([blindsum.flower.mod()], before=before)
    deviant = Deviant(federation, app, federation.nodes(4, **ANY), protocol="fssa")
    found, replies = deviant.round(dict.fromkeys(range(100, 104), content(1)))
    assert isinstance(found, str)
    assert len(reasons(replies)) == 4
    # Others are sampled, with the same model.
    found, replies = deviant.round(dict.fromkeys(range(100, 103), content(2)))
    assert not isinstance(found, str), reasons(replies)


# 17: simulation


def test_an_app_that_uses_ray_is_in_no_simulation(monkeypatch):
    app = client_app([blindsum.flower.mod()])
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(is_initialized=lambda: True))
    for record in (None, {"how": "simulation"}):
        with pytest.raises(bs.ConfigError):
            asked(app, {"partition-id": 0}, record)


# 20: replies to other messages


def query_app(records):
    app = ClientApp(mods=[blindsum.flower.mod()])

    @app.query()
    def query(message, context):
        return Message(RecordDict(records), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        return Message(RecordDict(records), reply_to=message)

    return app


@pytest.mark.parametrize("kind", ["query", "evaluate"])
@pytest.mark.parametrize(
    "records",
    [
        {"c": ConfigRecord({"model": b"0123"})},
        {"c": ConfigRecord({"model": [1.0] * 5})},
        {"c": ConfigRecord({"text": "A" * 5000})},
        {"c": ConfigRecord({f"n{place}": 1.0 for place in range(70)})},
        {"m": MetricRecord({"weights": [0.1] * 65})},
        {"m": MetricRecord({"a": [0.1] * 40}), "n": MetricRecord({"a": [0.1] * 40})},
        {"a": world.arrays()},
    ],
    ids=["bytes", "list", "text", "numbers", "metrics", "two", "arrays"],
)
def test_a_reply_that_could_hold_a_model_is_refused(federation, records, kind):
    app = query_app(records)
    with pytest.raises(bs.ConfigError) as caught:
        asked(app, federation.node(0), None, kind)
    assert caught.value.field == "blindsum-policy-arrays"
    assert asked(app, federation.node(0, **{"blindsum-policy-arrays": True}), None, kind).content == records


def test_errors_of_other_messages_have_no_values(federation):
    app = ClientApp(mods=[blindsum.flower.mod()])

    @app.evaluate()
    def evaluate(message, context):
        raise ValueError("Jane Doe")

    with pytest.raises(bs.BlindsumError) as caught:
        asked(app, federation.node(0), None, "evaluate")
    assert "ValueError" in str(caught.value)
    assert "Jane" not in str(caught.value)


def test_reasons_of_other_messages_are_cut_and_escaped(federation):
    def bad(message, context):
        raise ValueError("\x1b[31m\nforged" + "A" * 2_000_000)

    inner = Threads(bad, federation.nodes(1))
    message = Message(content(), dst_node_id=100, message_type="evaluate")
    with blindsum.flower.SecureGrid(inner, {}, averaged(), **federation.server) as grid:
        (reply,) = grid.send_and_receive([message])
    assert reply.error.reason.isprintable()
    assert len(reply.error.reason) < 600
