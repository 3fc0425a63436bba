"""Replies and rules in Flower apps whose servers and nodes deviate, with a real flwr: `make flower`."""

import re
import sys
import types

import flower_world_real as world
import numpy as np
import pytest
from flower_deviant_real import DIM, DIRECT, Deviant, asked, averaged, content, reasons
from flower_world_real import ANY, Federation, Threads, client_app, flat
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import blindsum as bs
import blindsum.flower
from blindsum.flower import contents, enrolment, texts
from blindsum.flower.direct import Rounds
from blindsum.flower.settings import RunSettings
from blindsum.flower.texts import RECORD


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_was_told():
    texts._told.clear()


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
        result = strategy.start(grid, world.arrays(), num_rounds=1, timeout=600)
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
        result = averaged().start(grid, world.arrays(), num_rounds=1, timeout=600)
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
        averaged().start(grid, world.arrays(), num_rounds=1, timeout=600)
    assert len(str(caught.value)) < 5000
    assert str(caught.value).isprintable()


# 4: exactly these nodes


def test_the_name_of_a_job_cannot_be_guessed(federation):
    names = []
    for _ in range(2):
        inner = Threads(client_app([blindsum.flower.mod()]), federation.nodes(4))
        with blindsum.flower.SecureGrid(inner, {}, averaged(), **federation.server) as grid:
            averaged().start(grid, world.arrays(), num_rounds=1, timeout=600)
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
