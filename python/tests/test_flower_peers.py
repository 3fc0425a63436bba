"""Which node has a name in a round, without flwr."""

import pytest

import blindsum as bs
from blindsum.flower.peers import Peers


def shows(peers, node, name, expected=""):
    """A node shows a certificate; gives the nodes that lose their connections by this name."""
    peers.check(peers[node], name, expected)
    return [other.node for other in peers.take(peers[node], name)]


def names(peers, *nodes):
    return [peers[node].name for node in nodes]


def test_a_name_is_that_of_one_node_in_a_round():
    peers = Peers()
    assert peers.begin([1, 2]) == []
    assert shows(peers, 1, "a") == []
    with pytest.raises(bs.IdentityError, match="in this round is the name of node 1"):
        shows(peers, 2, "a")
    # Again, over another connection.
    assert shows(peers, 1, "a") == []
    assert names(peers, 1, 2) == ["a", ""]


def test_a_node_that_is_not_in_the_round_keeps_nobody_out_and_has_its_name_again_when_it_is():
    peers = Peers()
    peers.begin([1, 3])
    shows(peers, 1, "a")
    peers.begin([2, 3])
    assert shows(peers, 2, "a") == [1]
    # Both are there: the one that has had it longer keeps it, in whatever order they are named.
    for nodes in ([2, 1], [1, 2]):
        assert [peer.node for peer in peers.begin(nodes)] in ([2], [])
        assert names(peers, 1, 2) == ["a", ""]
        with pytest.raises(bs.IdentityError, match="node 2 shows"):
            shows(peers, 2, "a")


def test_a_node_without_a_claim_loses_its_name_to_the_first_one_that_shows_it():
    peers = Peers()
    peers.begin([1, 2, 3])
    shows(peers, 1, "a")
    peers[1].since = 0
    peers.begin([1, 2, 3])
    assert shows(peers, 2, "a") == [1]
    assert names(peers, 1, 2) == ["", "a"]
    with pytest.raises(bs.IdentityError, match="node 1 shows"):
        shows(peers, 1, "a")


def test_a_round_that_has_begun_keeps_its_names():
    peers = Peers()
    peers.begin([1, 2])
    shows(peers, 1, "a")
    peers[1].since = 0
    peers.begin([1, 2])
    peers.claim(peers[1])
    with pytest.raises(bs.IdentityError, match="in this round is the name of node 1"):
        shows(peers, 2, "a")


def test_a_node_keeps_its_name_while_the_job_lasts():
    peers = Peers()
    peers.begin([1])
    shows(peers, 1, "a")
    with pytest.raises(bs.IdentityError, match="'b', and is 'a'"):
        shows(peers, 1, "b")
    with pytest.raises(bs.IdentityError, match="'c', and is 'node-2'"):
        shows(peers, 2, "c", "node-2")
