"""Relays that delay and lose, and rounds that go through them."""

import math
import socket
import threading
import time
from contextlib import suppress

import pytest

from benches.relay import AGAIN, SEGMENT, Link, relays
from experiments import links


@pytest.fixture
def echo():
    """The port of a server that gives back what it gets."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with suppress(OSError), listening.accept()[0] as near:
            while data := near.recv(65536):
                near.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    listening.close()
    thread.join(timeout=10)


@pytest.mark.parametrize(
    ("link", "least"),
    [
        (Link(math.inf, 0.1), 0.1),
        # Lost on the way there and on the way back.
        (Link(math.inf, 0.1, loss=1.0), 0.1 + 2 * AGAIN),
        (Link(math.inf, 0.5, loss=1.0), 0.5 + 2 * 0.5),
        # What is behind something that was lost comes at the same time as that.
        (Link(math.inf, 0.02, loss=0.05), 0.02),
        # There and back at once.
        (Link(8, 0.0), 1.0),
    ],
)
def test_bytes_take_their_time_and_come_in_order(echo, link, least):
    sent = bytes(range(250)) * 4_000
    with relays(link) as relay, socket.create_connection(("127.0.0.1", relay("127.0.0.1", echo))) as near:
        begin = time.monotonic()
        near.sendall(sent)
        found = b""
        while len(found) < len(sent):
            found += near.recv(65536)
        took = time.monotonic() - begin
    assert found == sent
    assert least * 0.9 < took < least + 5


def test_the_more_packets_the_sooner_one_is_lost():
    link = Link(1, 0.1, loss=0.01)
    assert link.lost_of(1) == link.lost_of(SEGMENT) == pytest.approx(0.01)
    assert link.lost_of(10 * SEGMENT) == pytest.approx(1 - 0.99**10)
    assert Link(1, 0.1).lost_of(10**6) == 0


def test_a_round_waits_for_its_link():
    sizes = links.Sizes(("plain",), (links.NEAR,), dim=50, rounds=1)
    name = "100 ms, 20 Mbit/s, 3 % lost"
    one = links.measured("plain", name, sizes)
    assert one.delays_s == pytest.approx(0.1)
    assert one.cost.seconds > one.delays_s
    assert 0 < one.bytes_s < 0.01


def test_a_link_that_fails_is_named(monkeypatch):
    def fails(*_):
        raise links.BlindsumError("no port")

    monkeypatch.setattr(links, "measured", fails)
    found, failed = links.run(links.QUICK)
    assert found == {}
    assert failed[links.PLAIN, links.NEAR] == "no port"
    page = links.Page(found, failed, links.QUICK)
    assert "`plain`, loopback: no port" in "\n".join(page.parts())
