"""The model that a job begins with: what parties check of it, who is asked for it, and how often."""

import numpy as np
import pytest
from machine_world import World

import blindsum as bs
from blindsum import machines

GIVEN = np.full(4, 0.123456, np.float32)
OTHER = np.full(4, 77.0, np.float32)


def test_zeros_are_zeros_at_every_party():
    world = World(protocol="secagg+", parties=4, dim=16, rounds=1, initial="zeros")
    for _ in range(4):
        world.add(policy=bs.Policy(job_hash=world.spec.hash))
    model = np.full(16, 77, np.float32)
    other = machines.ServerMachine.open(world.spec.replace(initial="coordinator"), ca=world.ca, model=model)

    def hash_of(server):
        return bytes.fromhex(server.status["model_hash"])

    store = world.server.store.replace(b"\0" * 64, model.tobytes(), 1)
    store = store.replace(hash_of(world.server), hash_of(other))
    world.restore(store, world.parties)
    world.run(connect=False)
    for party in world.parties:
        assert party.models == {}
        assert isinstance(party.failed, bs.BlindsumError)
        assert "with initial = zeros it is zeros" in str(party.failed)


@pytest.mark.parametrize("suspends", [False, True])
def test_the_giver_knows_what_it_gave(suspends):
    world = World(protocol="secagg+", parties=4, dim=4, rounds=2, initial="first-party")
    for index in range(4):
        world.add(initial=GIVEN if index == 0 else None, suspends=suspends and index == 0)
    world.up = lambda party, frame: frame.replace(GIVEN.tobytes(), OTHER.tobytes())
    world.run()
    giver = world.parties[0]
    assert giver.models == {}
    assert isinstance(giver.failed, bs.BlindsumError)
    assert "as given by this party, which gave" in str(giver.failed)


def test_nobody_else_is_named_as_the_giver():
    """A coordinator that puts another model in place says who gave it: that party knows that it did not."""
    world = World(protocol="secagg+", parties=4, dim=4, rounds=1, initial="first-party")
    for index in range(4):
        world.add(initial=GIVEN if index == 0 else None, suspends=True)
    world.down = lambda party, frame: frame.replace(b"\x1a\x07party-0", b"\x1a\x07party-2")
    world.run()
    assert "which gave none" in str(world.parties[2].failed)
    assert world.parties[2].models == {}


def stalling(stallers, **fields):
    """A job whose parties with these numbers never send the model that they are asked for."""
    world = World(
        protocol="secagg+",
        parties=4,
        dim=4,
        rounds=1,
        initial="first-party",
        waits={"patience": 3600},
        **fields,
    )
    for _ in range(4):
        world.add(initial=GIVEN)
    asked = []

    def up(party, frame):
        if GIVEN.tobytes() not in frame or party.models:
            return frame
        asked.append(party.name)
        return None if party.index in stallers else frame

    world.up = up
    world.run()
    return world.server.status, asked


@pytest.mark.parametrize("input_deadline", [600.0, 3600.0, 7200.0])
def test_one_that_stalls_is_passed_over(input_deadline):
    status, asked = stalling({0, 1}, input_deadline=input_deadline)
    assert asked[:3] == ["party-0", "party-1", "party-2"]
    assert (status["state"], status["model_from"]) == ("done", "party-2")


def test_where_all_stall_the_reason_is_true():
    status, asked = stalling({0, 1, 2, 3}, input_deadline=7200.0)
    assert asked == ["party-0", "party-1", "party-2", "party-3"]
    assert status["state"] == "failed"
    assert (
        "no connected party has given the first model (not taken: party-0: it did not send"
        in status["reason"]
    )


def test_a_giver_gives_once_over_a_connection():
    dim = 10_000
    world = World(protocol="plain", parties=3, min_parties=3, dim=dim, rounds=1, initial="first-party")
    policy = bs.Policy(allowed_protocols=("plain",), require_adversary=None)
    for index in range(3):
        world.add(initial=np.full(dim, 0.5, np.float32) if index == 0 else None, policy=policy)
    given = []

    def up(party, frame):
        # What it gives does not come, so the job goes on waiting.
        if len(frame) < dim:
            return frame
        given.append(frame)
        return None

    world.up = up
    for party in world.parties:
        world.connect(party)
    giver = world.parties[0]
    world.run(connect=False, until=lambda: bool(given))
    assert [len(frame) // dim for frame in given] == [4]
    # Field 10 of a frame of the coordinator: ModelWanted, of version 0.
    for _ in range(300):
        giver.machine.receive(bytes([0x52, 0x00]))
    assert giver.machine.frames() == []
