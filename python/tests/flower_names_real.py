"""Which node has which name, over Flower's messages: nodes that start again, and strangers: `make flower`."""

import pytest
from flower_messages_real import Carrier, Some, in_rounds, nodes_of, securely
from flower_real import federation
from flower_unsent_real import reasons_of
from flower_world_real import client_app
from flwr.app import ConfigRecord, Message, RecordDict

import blindsum.flower
from blindsum import pki
from blindsum.flower import message_rounds, texts

__all__ = ["federation"]

LATER = 105
"""The Flower node id of the first node, once it has started again."""


@pytest.fixture(autouse=True)
def _nothing_was_told(monkeypatch):
    texts._told.clear()
    monkeypatch.setattr(message_rounds, "POLL", 0.02)


def run(inner, cohorts, federation, adversary, **settings):
    """Train with these cohorts; which replies are errors, their reasons, and messages of a node by round."""
    strategy = Some(cohorts)
    seen, reasons = in_rounds(strategy), reasons_of(strategy)
    _, counts = securely(
        inner, strategy, federation, rounds=len(cohorts), min_parties=3, adversary=adversary, **settings
    )
    assert len({message.content["blindsum"]["job"] for message in inner.sent}) == 1
    return seen, reasons, counts


def again(federation, kept):
    """Six nodes, of which the last is the first once more; it has its folder, or a new one."""
    nodes = nodes_of(federation, 5)
    folder = {} if kept else {"blindsum-state": str(federation.folder / "new")}
    return [*nodes, nodes[0] | folder]


@pytest.mark.parametrize("kept", [True, False], ids=["its folder", "a new folder"])
@pytest.mark.parametrize("adversary", ["semi-honest", "active"])
def test_a_node_that_starts_again_has_its_name_in_the_next_round(federation, adversary, kept):
    inner = Carrier(client_app([blindsum.flower.mod()]), again(federation, kept))
    others = (101, 102, 103)
    cohorts = [(100, *others), (LATER, *others), (LATER, *others)]
    seen, reasons, counts = run(inner, cohorts, federation, adversary)
    assert seen == [[False]] * 3, reasons
    first = {"semi-honest": 6, "active": 8}[adversary]
    # A party without its state is another process, which has to show that it lives.
    assert counts == [first, first + (not kept), first - 1]


@pytest.mark.parametrize("adversary", ["semi-honest", "active"])
def test_a_node_that_starts_again_waits_one_round_where_flower_still_samples_the_one_that_ended(
    federation, adversary
):
    def mishap(node, step, count):
        return "error" if node == 100 and step > 1 else None

    inner = Carrier(client_app([blindsum.flower.mod()]), again(federation, True), mishap)
    others = (101, 102, 103)
    cohorts = [(100, *others, 104), (100, LATER, *others), (100, LATER, *others), (LATER, *others)]
    seen, reasons, _ = run(inner, cohorts, federation, adversary)
    assert seen == [[False], [True, True, False], [True, False], [False]], reasons
    (refused,) = [reason for reason in reasons[1] if "'hospital-0'" in reason]
    assert "node 105" in refused
    assert "in this round is the name of node 100" in refused
    assert "blindsum pki issue" in refused


class Strangers(Carrier):
    """The node 104 shows the certificate of the first node, whose key it has not."""

    def __init__(self, app, configs, certificate):
        super().__init__(app, configs)
        self.certificate = certificate

    def _answer(self, identifier, message):
        super()._answer(identifier, message)
        reply = self.replies.get(identifier)
        if message.metadata.dst_node_id != 104 or reply is None or reply.has_error():
            return
        told = dict(reply.content["blindsum"])
        if "certificate" in told:
            told["certificate"] = self.certificate
            content = RecordDict(dict(reply.content) | {"blindsum": ConfigRecord(told)})
            shown = Message(content, reply_to=message)
            shown.metadata.__dict__["_src_node_id"] = 104
            self.replies[identifier] = shown


def test_a_stranger_with_a_certificate_that_it_has_seen_keeps_nobody_out_for_long(federation):
    nodes = nodes_of(federation, 6)
    certificate = (federation.folder / "hospital-0.pem").read_text()
    inner = Strangers(client_app([blindsum.flower.mod()]), nodes, certificate)
    others = (101, 102, 103)
    cohorts = [
        (104, *others, 105),
        # The stranger is not there.
        (100, *others, 105),
        # It is, and the node that has the name keeps it.
        (104, 100, *others),
        (104, 100, *others),
    ]
    seen, reasons, _ = run(inner, cohorts, federation, "active")
    assert seen == [[True, False], [False], [True, False], [True, False]], reasons
    for reason in (*reasons[2], *reasons[3]):
        assert "node 104" in reason
        assert "in this round is the name of node 100" in reason


def test_a_stranger_that_was_first_and_has_failed_has_no_claim(federation):
    """It is in every round. Who shows the certificate first has the name, and not for good."""
    nodes = nodes_of(federation, 6)
    certificate = (federation.folder / "hospital-0.pem").read_text()
    inner = Strangers(client_app([blindsum.flower.mod()]), nodes, certificate)
    inner.mishap = lambda node, step, count: "error" if node == 104 and step > 1 and count == 1 else None
    others = (101, 102, 103)
    cohorts = [(104, *others, 105), (104, 100, *others), (104, 100, *others)]
    seen, reasons, _ = run(inner, cohorts, federation, "active")
    assert seen == [[True, False]] * 3, reasons
    assert all("node 100" not in reason for found in reasons for reason in found)


def test_a_certificate_of_another_ca_takes_no_name(federation, tmp_path):
    """Also where the node that has had the name has no claim to it any more."""
    pki.init(tmp_path / "other")
    pki.issue(tmp_path / "other", "hospital-0")
    certificate = (tmp_path / "other" / "hospital-0.pem").read_text()
    inner = Strangers(client_app([blindsum.flower.mod()]), nodes_of(federation, 5), certificate)
    inner.mishap = lambda node, step, count: "error" if (node, step) == (100, 1) else None
    others = (101, 102, 103)
    cohorts = [(100, *others, 104), (100, 104, *others), (100, *others)]
    seen, reasons, _ = run(inner, cohorts, federation, "active")
    assert seen == [[True, True, False], [True, False], [False]], reasons
    # As soon as the first node has shown its own, it is of its name that the other one hears.
    assert "node 104 shows" in reasons[1][0] or "CA" in reasons[1][0], reasons
