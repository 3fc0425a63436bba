"""Messages that Flower does not send, as its grids tell it, over both transports: `make flower`."""

from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from flower_messages_real import SEMI_HONEST, Carrier, in_rounds, nodes_of, nodes_of_a_run
from flower_real import averaged, federation, trained
from flower_world_real import client_app, flat
from flwr.superlink.grid.http_grid import HttpGrid

import blindsum.flower
from blindsum.flower import message_rounds, texts

__all__ = ["federation"]


@pytest.fixture(autouse=True)
def _nothing_was_told(monkeypatch):
    texts._told.clear()
    monkeypatch.setattr(message_rounds, "POLL", 0.02)


def too_large(run, messages):
    """Flower's own code, before a SuperLink that takes no request of this size."""
    request = httpx.Request("POST", "https://127.0.0.1/")

    def post(run_id, messages):
        raise httpx.HTTPStatusError("", request=request, response=httpx.Response(413, request=request))

    grid = SimpleNamespace(_run=run, _check_message=lambda message: None, _try_push_messages=post)
    return HttpGrid.push_messages(grid, messages)


class Unsent(Carrier):
    """Does not send the messages of some exchanges: ``what(step, count)`` says how."""

    def __init__(self, app, configs, what):
        super().__init__(app, configs)
        self.what = what
        self.pushes = {}

    def push_messages(self, messages):
        if not messages:
            return []
        step = messages[0].content["blindsum"].get("tag", messages[0].content.get("config", {}))
        step = step if isinstance(step, int) else step.get("server-round", 0)
        count = self.pushes[step] = self.pushes.get(step, 0) + 1
        how = self.what(step, count)
        if how == "too large":
            return too_large(self.run, messages)
        sent = [one for one in messages if not how or one.metadata.dst_node_id != 102]
        nodes = [one.metadata.dst_node_id for one in sent]
        given = dict(zip(nodes, super().push_messages(sent), strict=True))
        if how == "shorter":
            return list(given.values())
        return [given.get(one.metadata.dst_node_id, "") for one in messages]


def reasons_of(strategy):
    """The reasons of error replies, for each round of the strategy."""
    seen, inner = [], strategy.aggregate_train

    def aggregate(number, replies):
        found = list(replies)
        seen.append([reply.error.reason for reply in found if reply.has_error()])
        return inner(number, found)

    strategy.aggregate_train = aggregate
    return seen


def securely(inner, strategy, rounds, timeout=60, **settings):
    with blindsum.flower.SecureGrid(inner, {}, strategy=strategy, **SEMI_HONEST, **settings) as grid:
        return trained(grid, strategy, rounds, timeout)


def over_messages(federation):
    return {"transport": "messages", "coordinator_ca": str(federation.folder)}


def check(reasons):
    for reason in reasons:
        assert "could not be sent" in reason
        assert "SuperLink" in reason
        assert "Start the SuperNode again" in reason


@pytest.mark.parametrize("how", ["too large", "shorter", "empty"])
@pytest.mark.parametrize("at", range(1, 6))
def test_messages_that_are_not_sent_are_error_replies_and_end_no_run(federation, at, how):
    inner = Unsent(
        client_app([blindsum.flower.mod()]),
        nodes_of(federation),
        lambda step, count: how if (step, count) == (2, at) else "",
    )
    strategy = averaged()
    seen, reasons = in_rounds(strategy), reasons_of(strategy)
    result = securely(inner, strategy, 3, **over_messages(federation))
    # With the fifth message the others are asked for shares; the update of the node is in the sum.
    failed = 4 if how == "too large" else int(at < 5)
    assert [len(one) for one in reasons] == [0, failed, 0]
    assert seen == [[False], [True] * failed + [False] * (failed < 4), [False]]
    check(reasons[1])
    if failed == 1:
        assert reasons[1][0].startswith("node 102: ")
    assert np.isfinite(flat(result.arrays)).all()


@pytest.mark.parametrize("how", ["too large", "shorter", "empty"])
def test_with_direct_they_are_error_replies_too_and_nobody_waits(federation, how):
    inner = Unsent(
        client_app([blindsum.flower.mod()]),
        nodes_of(federation),
        lambda step, count: how if step == 2 else "",
    )
    strategy = averaged()
    seen, reasons = in_rounds(strategy), reasons_of(strategy)
    # Those that are there would wait for an hour.
    settings = federation.server | {"transport": "direct", "join_deadline": 3600.0}
    securely(inner, strategy, 3, 14400, **settings)
    assert seen[0] == seen[2] == [False]
    assert seen[1] == ([True] * 4 if how == "too large" else [True, False])
    check(reasons[1])


@pytest.mark.parametrize("transport", ["messages", "direct"])
@pytest.mark.parametrize("run", [False, True])
def test_a_first_round_of_which_nothing_is_sent_is_not_one_that_nodes_refuse(
    federation, tmp_path, transport, run, caplog
):
    nodes = nodes_of_a_run(tmp_path) if run else nodes_of(federation)
    inner = Unsent(
        client_app([blindsum.flower.mod()]),
        nodes,
        lambda step, count: "too large" if not inner.has_failed else "",
    )
    inner.has_failed = False
    strategy = averaged()
    reasons = reasons_of(strategy)
    inner_aggregate = strategy.aggregate_train

    def aggregate(number, replies):
        inner.has_failed = True
        return inner_aggregate(number, replies)

    strategy.aggregate_train = aggregate
    settings = over_messages(federation) if transport == "messages" else federation.server
    settings = {"transport": transport} if run else settings | {"transport": transport}
    securely(inner, strategy, 2, 20, **settings)
    assert [len(one) for one in reasons] == [4, 0]
    check(reasons[0])
    assert any("round 1 has no sum" in record.message for record in caplog.records)
