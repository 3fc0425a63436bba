"""Rounds to which too few nodes come: `make flower`."""

import pytest
from flower_real import averaged, federation, trained
from flower_world_real import ANY, Threads, client_app

import blindsum as bs
import blindsum.flower

_ = federation


def test_nodes_of_a_round_to_which_too_few_came_do_not_wait_for_a_coordinator(federation):
    nodes = federation.nodes(5, **ANY | {"blindsum-give-up-after": 600})
    for place in (0, 1):
        # They refuse, and take no part.
        nodes[place]["blindsum-policy-min-honest"] = 50
    inner = Threads(client_app([blindsum.flower.mod()]), nodes)
    settings = federation.server | {"min_parties": 4}
    with (
        pytest.raises(bs.ConfigError, match="blindsum-policy-min-honest"),
        blindsum.flower.SecureGrid(inner, {}, strategy=averaged(), **settings) as grid,
    ):
        trained(grid, averaged(), rounds=1)
    for thread in inner.threads:
        thread.join()
