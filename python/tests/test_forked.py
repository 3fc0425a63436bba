"""A fork of a process that works in a job is refused, and abuse case 43: at every door, and nothing hangs."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from conftest import three_urls

import blindsum as bs
from blindsum.machines import PartyMachine, ServerMachine

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_a_child(work):
    """Run ``work`` in a forked child; what it returns, or a failure where it hangs."""
    reads, writes = os.pipe()
    # A child does not collect what other tests of this process have left.
    gc.collect()
    gc.freeze()
    child = os.fork()
    if child == 0:
        os.close(reads)
        try:
            os.write(writes, repr(work()).encode())
        finally:
            os._exit(0)
    os.close(writes)
    gc.unfreeze()
    deadline = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    with open(reads, "rb") as said:
        return said.read().decode()


def refusals(doors):
    """The doors that raise nothing, or something else."""
    open_doors = []
    for name, door in doors.items():
        try:
            door()
        except bs.ForkedError as error:
            if "forked" not in str(error):
                open_doors.append(f"{name}: {error}")
        else:
            open_doors.append(name)
    return open_doors


def test_sessions_and_coordinators_are_refused_in_a_child_while_threads_use_them(place):
    with place.coordinator(place.spec(parties=2)) as coordinator, place.join(coordinator, "a") as session:
        # A thread waits for a round, and holds what it waits for when the process is forked.
        waiting = threading.Thread(target=session.next_round)
        waiting.start()
        doors = {
            "next_round": session.next_round,
            "rounds": lambda: next(session.rounds()),
            "model": session.model,
            "aggregate": lambda: session.aggregate(np.zeros(4)),
            "final_model": lambda: session.final_model,
            "session.reload": session.reload,
            "session.close": session.close,
            "statuses": lambda: next(coordinator.statuses()),
            "pause": lambda: coordinator.pause("why"),
            "drain": lambda: coordinator.drain("why"),
            "stop": coordinator.stop,
            "reload": coordinator.reload,
            "join": lambda: place.join(coordinator, "b"),
            "Coordinator": lambda: bs.Coordinator(
                place.spec(job="other"), identity=place.folder / "agg", ca=place.folder
            ),
        }
        assert in_a_child(lambda: refusals(doors)) == "[]"

        def leaves():
            with session, coordinator:
                return "left"

        assert in_a_child(leaves) == "'left'"
        # The parent goes on.
        with place.join(coordinator, "b") as other:
            round_of_b = other.next_round()
            waiting.join(60)
            assert not waiting.is_alive()
            assert round_of_b is not None


def test_a_round_is_refused_in_a_child(place):
    with place.coordinator(place.spec(parties=1)) as coordinator, place.join(coordinator, "a") as session:
        current = session.next_round()
        doors = {
            "submitted": lambda: current.submitted,
            "submit": lambda: current.submit(np.zeros(4)),
            "result": current.result,
            "outcome": current.outcome,
            "skip": current.skip,
            "abandon": current.abandon,
            "needs_update": lambda: current.needs_update,
        }
        assert in_a_child(lambda: refusals(doors)) == "[]"
        current.submit(np.full(4, 0.5))
        assert current.result() is not None


def test_machines_are_refused_in_a_child(place):
    spec = place.spec(parties=2)
    party = PartyMachine.open("job", identity=place.identity("a"), ca=place.folder)
    server = ServerMachine.open(spec, ca=place.folder)
    doors = {
        "connected": party.connected,
        "receive": lambda: party.receive(b""),
        "want_round": party.want_round,
        "submit": lambda: party.submit(1, np.zeros(4)),
        "leave": party.leave,
        "tick": party.tick,
        "events": party.events,
        "frames": party.frames,
        "wake": lambda: party.wake,
        "is_over": lambda: party.is_over,
        "spec": lambda: party.spec,
        "suspend": party.suspend,
        "server.tick": server.tick,
        "server.stop": server.stop,
        "server.events": server.events,
        "server.frames": server.frames,
        "server.status": lambda: server.status,
        "server.store": lambda: server.store,
        "server.wake": lambda: server.wake,
        "open": lambda: PartyMachine.open("job", identity=place.identity("a"), ca=place.folder),
    }
    assert in_a_child(lambda: refusals(doors)) == "[]"
    party.connected()
    assert party.frames()


def test_an_admin_is_refused_in_a_child(place):
    admin = bs.Admin("https://localhost:1", identity=place.operator("ops"), ca=place.folder)
    assert in_a_child(lambda: refusals({"jobs": admin.jobs})) == "[]"


def kept_things(place):
    """One of each kind that has threads or connections, all in use, and whoever ends them."""
    spec = place.spec(parties=1)
    with place.coordinator(spec, hosted=True, admin="127.0.0.1:0") as hosting:
        port = hosting.admin.rpartition(":")[2]
        admin = bs.Admin(f"https://localhost:{port}", identity=place.operator("ops"), ca=place.folder)
        here = hosting.begin(["a"], join_within=600)
        here.call_off()
        with suppress(bs.RoundLost):
            here.result()
        there = admin.begin("job", ["a"], join_within=600)
        yield {"Admin": admin, "a round of a host here": here, "a round of a host elsewhere": there}
        there.call_off()
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        yield {"Coordinator": coordinator, "Session": session, "Round": session.next_round()}
    urls = three_urls()
    with place.server(place.spec(protocol="mpc3", parties=3), urls, 1) as server:
        yield {"Server": server}


def test_what_a_child_inherits_is_let_go_of(place):
    """A collection of garbage in a child may find what its parent had no more use for."""
    for things in kept_things(place):
        natives = {name: thing.__dict__["_native"] for name, thing in things.items()}

        def forgets(natives=natives, things=things):
            for thing in things.values():
                del thing._native
            # Each has been the last to hold its native part.
            held = [name for name in natives if sys.getrefcount(natives[name]) > 2]
            natives.clear()
            return held

        assert in_a_child(forgets) == "[]"


def child_of_fork(session_name):
    return f"{session_name} is said in a child"


def test_a_pool_that_forks_for_data_is_no_matter(place):
    """As loaders of data do: children that touch nothing of Blindsum."""
    with place.coordinator(place.spec(parties=1)) as coordinator, place.join(coordinator, "a") as session:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.map(child_of_fork, ["a"]) == ["a is said in a child"]
        current = session.next_round()
        current.submit(np.full(4, 0.5))
        assert current.result() is not None
