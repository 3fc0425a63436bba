"""Servers and nodes that deviate, in Flower's own messages with a real flwr: `make flower`."""

import re
import threading
from collections import Counter

import flower_world_real as world
import numpy as np
import pytest
from flower_audit_real import secretive
from flower_audit_replies_real import MANGLED, Mangled
from flower_deviant_real import averaged, content
from flower_messages_real import Carrier, nodes_of, nodes_of_a_run
from flower_world_real import ANY, Federation, client_app, flat, update_of
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

import blindsum as bs
import blindsum.flower
from blindsum.flower import contents, message_rounds, node_machine, texts
from blindsum.flower.frames import KIND
from blindsum.flower.texts import FRAMES, RECORD

SETTINGS = {"transport": "messages", "protocol": "secagg+", "adversary": "semi-honest", "min_parties": 3}
ALL = range(100, 104)


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_was_told(monkeypatch):
    texts._told.clear()
    monkeypatch.setattr(message_rounds, "POLL", 0.02)


class Deviant(Carrier):
    """A server side that says something else to nodes: ``change(message)`` gives what it sends."""

    def __init__(self, app, configs, change=lambda message: message, run_config=None):
        super().__init__(app, configs)
        self.change = change
        for context in self.contexts.values():
            context.run_config = dict(run_config or {})

    def push_messages(self, messages):
        return super().push_messages([self.change(message) for message in messages])


class Errors(Deviant):
    """Keeps the reasons of error replies, by node."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.reasons = {}

    def pull_messages(self, message_ids):
        found = super().pull_messages(message_ids)
        self.reasons |= {
            reply.metadata.src_node_id: reply.error.reason for reply in found if reply.has_error()
        }
        return found


def changed(message, told, records=None):
    """A message with another record of Blindsum and, where it has the model, other records."""
    own = RecordDict(dict(message.content))
    if "arrays" in own:
        for name, record in (records or {}).items():
            own[name] = record
    own[RECORD] = ConfigRecord(dict(own[RECORD]) | told)
    metadata = message.metadata
    return Message(
        own,
        dst_node_id=metadata.dst_node_id,
        message_type=metadata.message_type,
        group_id=metadata.group_id,
        ttl=metadata.ttl,
    )


def secure(federation, inner, context=None, **settings):
    settings = {"coordinator_ca": str(federation.folder)} | SETTINGS | settings
    return blindsum.flower.SecureGrid(inner, context or {}, averaged(), **settings)


def sent_to(nodes, one):
    return [Message(one, dst_node_id=node, message_type="train") for node in nodes]


def round_of(grid, nodes, one, timeout=60):
    """Replies of a round: the mean or ``None``, and the reasons of error replies by node."""
    replies = grid.send_and_receive(sent_to(nodes, one), timeout=timeout)
    reasons = {reply.metadata.src_node_id: reply.error.reason for reply in replies if reply.has_error()}
    good = [reply for reply in replies if not reply.has_error()]
    assert len(good) <= 1
    return (good[0].content if good else None), reasons


def mean_of(nodes, number=1, model=0.5):
    weights = np.array([10 + node % 100 for node in nodes], float)
    updates = np.array([update_of(node, number) for node in nodes])
    # In the order in which the app goes through the arrays.
    places, change = {}, weights @ updates / weights.sum()
    place = 0
    for name in world.BACKWARDS:
        size = int(np.prod(world.SHAPES[name]))
        places[name] = change[place : place + size]
        place += size
    return model + np.concatenate([places[name] for name in world.SHAPES])


# What nodes train on

REAL = content()
OTHERS = {
    "model": {"arrays": world.arrays(0.0)},
    "config": {"config": ConfigRecord({"server-round": 1, "lr": 0.0})},
    "record": {"more": ConfigRecord({})},
}


def digest_of(records):
    message = Message(RecordDict(dict(REAL) | records), dst_node_id=103, message_type="train")
    return contents.content_digest(message).hex()


def deviation(how, records):
    """What the server side says to the node 103 alone."""

    def change(message):
        if message.metadata.dst_node_id != 103:
            return message
        says = how == "says" or (how == "changes" and "arrays" in message.content)
        return changed(message, {"content": digest_of(records)} if says else {}, records)

    return change


@pytest.mark.parametrize("adversary", ["semi-honest", "active"])
@pytest.mark.parametrize("how", ["hides", "says", "changes", "changes, and the node does not remember"])
@pytest.mark.parametrize("what", OTHERS)
def test_a_node_that_is_given_something_else_is_in_no_sum(federation, monkeypatch, what, how, adversary):
    """It says another hash from the first message on, with the model, or never; and the core alone holds."""
    if "remember" in how:
        monkeypatch.setattr(node_machine, "_check_same", lambda letter, step: None)
    trained = Counter()
    app = client_app([blindsum.flower.mod()], before=lambda node, number: trained.update([node]))
    inner = Errors(app, nodes_of(federation), deviation(how.partition(",")[0], OTHERS[what]))
    with secure(federation, inner, adversary=adversary) as grid:
        found, reasons = round_of(grid, ALL, REAL)
        began = grid._rounds.began
    assert began
    # What the node has trained in vain it does not give.
    others = {103: 1} if "remember" in how else {}
    assert dict(trained) == {100: 1, 101: 1, 102: 1} | others
    assert np.allclose(flat(found["arrays"]), mean_of((100, 101, 102)), atol=1e-5)
    assert found["metrics"]["num-examples"] == 33
    assert set(reasons) <= {103}


def test_a_server_that_says_nothing_of_the_content_gets_no_update(federation):
    trained = Counter()
    app = client_app([blindsum.flower.mod()], before=lambda node, number: trained.update([node]))
    with secure(federation, Errors(app, nodes_of(federation))) as grid:
        grid._sum_in_messages(sent_to(ALL, REAL), grid._spec(11, 4, 60), 60)
        server = grid._rounds._job.server
        begin = server.begin

        def begin_without(names, *, about, **named):
            begin(names, **named)

        server.begin = begin_without
        trained.clear()
        found, reasons = round_of(grid, ALL, content(2, world.arrays(0.7)))
    assert found is None
    assert len(reasons) == 4
    assert not trained


def test_a_configuration_of_the_run_that_is_one_nodes_own_is_in_no_sum(federation):
    trained = Counter()
    app = client_app([blindsum.flower.mod()], before=lambda node, number: trained.update([node]))
    inner = Errors(app, nodes_of(federation), run_config={"lr": 0.1})
    inner.contexts[103].run_config["lr"] = 0.0
    context = Context(77, 1, {}, RecordDict(), {"lr": 0.1})
    with secure(federation, inner, context) as grid:
        found, _ = round_of(grid, ALL, REAL)
    assert np.allclose(flat(found["arrays"]), mean_of((100, 101, 102)), atol=1e-5)
    assert set(trained) == {100, 101, 102}


# What the server says wrongly


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"weighted-by": "loss"}, "blindsum-weighted-by"),
        ({"weighted-by": "w" * 10_000}, "blindsum-record"),
        ({"how": "x\n\x1b[31mforged"}, "blindsum-transport"),
        ({"content": "0"}, "blindsum-record"),
        ({"job": 7}, "blindsum-record"),
    ],
)
def test_what_a_server_says_wrongly_is_refused_and_not_echoed(federation, told, said):
    inner = Errors(
        client_app([blindsum.flower.mod()]), nodes_of(federation), lambda message: changed(message, told)
    )
    with secure(federation, inner) as grid, pytest.raises(bs.ConfigError, match=said) as caught:
        round_of(grid, ALL, REAL)
    assert caught.value.field == "nodes"
    assert len(inner.reasons) == 4
    for reason in inner.reasons.values():
        assert len(reason) < 500
        assert reason.isprintable()


# What nodes say wrongly


def framed(frames):
    def mangle(message, reply):
        own = RecordDict({RECORD: reply.content[RECORD], FRAMES: frames(reply)})
        return Message(own, reply_to=message)

    return mangle


def array_of(data, stype=KIND):
    return Array("uint8", (len(data),), stype, data)


FURTHER = {
    "garbage": framed(lambda reply: ArrayRecord({"0": array_of(b"\xff" * 100)})),
    "empty": framed(lambda reply: ArrayRecord({"0": array_of(b"")})),
    "another-kind": framed(lambda reply: ArrayRecord({"0": array_of(b"x", "numpy.ndarray")})),
    "no-arrays": framed(lambda reply: ConfigRecord({"0": b"x"})),
    "twice": framed(
        lambda reply: ArrayRecord(
            {
                f"{place}{key}": array
                for place in "ab"
                for key, array in (reply.content.get(FRAMES) or {}).items()
            }
        )
    ),
}


def said(**fields):
    def mangle(message, reply):
        own = dict(reply.content[RECORD]) | fields
        return Message(RecordDict(dict(reply.content) | {RECORD: ConfigRecord(own)}), reply_to=message)

    return mangle


FURTHER |= {
    "certificate": said(certificate="x\n\x1b[31m"),
    "long-certificate": said(certificate="A" * 3_000_000),
    "number-certificate": said(certificate=5),
    "sat-out": said(**{"sat-out": "yes"}),
    "lost": said(lost=5),
    "long-lost": said(lost="\x1b" * 3_000_000),
}


@pytest.mark.parametrize("name", MANGLED | FURTHER)
def test_a_reply_that_is_nonsense_is_an_error_reply_and_ends_no_run(federation, name, caplog):
    inner = Carrier(Mangled((MANGLED | FURTHER)[name]), nodes_of(federation))
    with secure(federation, inner) as grid:
        found, reasons = round_of(grid, ALL, REAL)
        again, _ = round_of(grid, ALL, content(2, world.arrays(0.7)))
    assert np.allclose(flat(found["arrays"]), mean_of((100, 101, 102)), atol=1e-5)
    assert np.allclose(flat(again["arrays"]), mean_of((100, 101, 102), 2, 0.7), atol=1e-5)
    assert all(reason.isprintable() and len(reason) < 600 for reason in reasons.values())
    told = [record.getMessage() for record in caplog.records if record.name == "blindsum"]
    assert all(text.isprintable() and len(text) < 3000 for text in told)


# What an error says


@pytest.mark.parametrize(
    ("app", "settings", "said"),
    [
        (secretive("sum"), {"max_weight": 2}, "weight"),
        (secretive("sum", 11.5), {}, "metrics"),
        (secretive("nan"), {}, "arrays"),
        (secretive(None), {}, "KeyError"),
    ],
    ids=["too-heavy", "no-whole-number", "nan", "raises"],
)
def test_no_error_has_a_value_of_the_node(federation, app, settings, said, caplog):
    inner = Errors(app, nodes_of(federation))
    with secure(federation, inner, **settings) as grid:
        found, reasons = round_of(grid, ALL, REAL)
        # Nobody trains anew: what was answered stays so, in all that leaves.
        everything = [str(dict(one.content[RECORD])) for one in inner.seen if not one.has_error()]
    assert found is None
    assert len(reasons) == 4
    assert any(said in reason for reason in inner.reasons.values())
    for text in [*reasons.values(), *inner.reasons.values(), *everything]:
        for secret in ("0.87", "17.0", "1100", "11.5", "nan", "Jane", "scale", str(federation.folder)):
            assert secret not in text
    assert any(record.name == "blindsum" for record in caplog.records)


# One model, one cohort


def test_one_model_in_two_cohorts_is_refused(federation):
    inner = Errors(client_app([blindsum.flower.mod()]), nodes_of(federation))
    with secure(federation, inner) as grid:
        assert round_of(grid, ALL, REAL)[0] is not None
        # Another number of the round, the same model.
        found, reasons = round_of(grid, (100, 101, 102), content(2))
        assert found is None
        assert set(reasons) == {100, 101, 102}
        # Where one refuses the round is over, and nobody waits for the others.
        assert inner.reasons
        assert all("blindsum-policy-repeats" in reason for reason in inner.reasons.values())
        # The same cohort, and another model.
        assert round_of(grid, ALL, content(3))[0] is not None
        assert round_of(grid, (100, 101, 102), content(4, world.arrays(0.7)))[0] is not None


def test_one_model_in_two_cohorts_is_taken_where_the_node_says_so(federation):
    nodes = nodes_of(federation, **{"blindsum-policy-repeats": True})
    with secure(federation, Errors(client_app([blindsum.flower.mod()]), nodes)) as grid:
        for cohort in (ALL, (100, 101, 102)):
            assert round_of(grid, cohort, REAL)[0] is not None


def test_a_lost_round_may_be_tried_again_with_its_model(federation):
    def before(node, number):
        # secagg+ of 4 nodes of which 3 must stay bears the loss of one.
        if node in (102, 103) and number == 1:
            raise ValueError("no data")

    inner = Errors(client_app([blindsum.flower.mod()], before=before), nodes_of(federation))
    with secure(federation, inner) as grid:
        assert round_of(grid, ALL, REAL)[0] is None
        found, reasons = round_of(grid, (100, 101, 102), content(2))
    assert found is not None, reasons


def test_metrics_of_one_model_are_told_once(federation):
    inner = Errors(client_app([blindsum.flower.mod()]), nodes_of(federation))
    with secure(federation, inner, metrics="loss:0:1") as grid:
        first, _ = round_of(grid, ALL, REAL)
        again, _ = round_of(grid, ALL, content(2))
        other, _ = round_of(grid, ALL, content(3, world.arrays(0.7)))
    assert first["metrics"]["loss"] == pytest.approx((11 * 0.25 + 12 * 0.5 + 13 * 0.75) / 46, abs=1e-5)
    assert "loss" not in again["metrics"]
    assert other["metrics"]["loss"] == pytest.approx(first["metrics"]["loss"], abs=1e-5)


# Certificates and names


def test_certificates_of_a_run_bear_no_job_that_says_active(tmp_path, monkeypatch):
    monkeypatch.setattr(message_rounds, "check_spec", lambda spec: None)
    trained = Counter()
    app = client_app([blindsum.flower.mod()], before=lambda node, number: trained.update([node]))
    inner = Errors(app, nodes_of_a_run(tmp_path))
    settings = SETTINGS | {"adversary": "active"}
    with (
        blindsum.flower.SecureGrid(inner, {}, averaged(), **settings) as grid,
        pytest.raises(bs.ConfigError, match="blindsum-adversary"),
    ):
        round_of(grid, ALL, REAL)
    assert len(inner.reasons) == 4
    assert not trained


class Slow(Errors):
    """The node 103 answers its first message of a round when others have refused what they were asked."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.refused = threading.Event()

    def _answer(self, identifier, message):
        told = message.content["blindsum"]
        if message.metadata.dst_node_id == 103 and told.get("number") == 0:
            assert self.refused.wait(60)
        super()._answer(identifier, message)

    def pull_messages(self, message_ids):
        found = super().pull_messages(message_ids)
        if len(self.reasons) == 3:
            self.refused.set()
        return found


def test_a_node_that_is_slow_to_refuse_is_heard_too(tmp_path, monkeypatch):
    """The round is over with the third refusal, and it is known that it would get no better."""
    monkeypatch.setattr(message_rounds, "check_spec", lambda spec: None)
    inner = Slow(client_app([blindsum.flower.mod()]), nodes_of_a_run(tmp_path))
    settings = SETTINGS | {"adversary": "active"}
    with (
        blindsum.flower.SecureGrid(inner, {}, averaged(), **settings) as grid,
        pytest.raises(bs.ConfigError, match="blindsum-adversary"),
    ):
        round_of(grid, ALL, REAL)
    assert len(inner.reasons) == 4


def test_certificates_of_a_run_need_a_policy_that_says_semi_honest(tmp_path):
    nodes = nodes_of_a_run(tmp_path)
    for config in nodes:
        del config["blindsum-policy-require-adversary"]
    inner = Errors(client_app([blindsum.flower.mod()]), nodes)
    with (
        blindsum.flower.SecureGrid(inner, {}, averaged(), **SETTINGS) as grid,
        pytest.raises(bs.ConfigError, match="blindsum-policy-require-adversary"),
    ):
        round_of(grid, ALL, REAL)


def test_the_name_of_a_job_cannot_be_guessed_and_others_are_not_told(federation):
    names = []
    nodes = nodes_of(federation, 5, **ANY)
    for value in (0.5, 0.7):
        inner = Errors(client_app([blindsum.flower.mod()]), nodes)
        with secure(federation, inner) as grid:
            assert round_of(grid, ALL, content(1, world.arrays(value)))[0] is not None
        names.append({message.content[RECORD]["job"] for message in inner.sent})
        assert {message.metadata.dst_node_id for message in inner.sent} == set(ALL)
    assert [len(found) for found in names] == [1, 1]
    assert names[0] != names[1]
    assert all(re.fullmatch("flower-77-[0-9a-f]+-[0-9a-f]{24}", name) for found in names for name in found)
    assert all(len(name) <= 64 for found in names for name in found)
