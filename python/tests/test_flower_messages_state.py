"""A node's folder and its memory of cohorts, over messages: old copies, lost marks, ends of rounds."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from test_flower_messages import Crash, World, content_of, crash_at, place, right

import blindsum as bs
from blindsum import machines, pki
from blindsum.flower.direct import Identity
from blindsum.flower.letters import Letter
from blindsum.flower.node_folder import Answer, JobFolder, Place, Step
from blindsum.flower.node_machine import answer
from blindsum.flower.trained import Cohorts, line_of

__all__ = ["place"]

GIVEN = {"semi-honest": 4, "active": 5}
"""The message of a later round after which a party trains."""

LAST = {"semi-honest": 5, "active": 7}
"""The last one, with the result."""

ALL = [f"node-{number}" for number in range(4)]


def file_of(world, number, name):
    """The one file of this name in a node's folder."""
    (found,) = Path(world.nodes[number].state).rglob(name)
    return found


class Watched(World):
    """A world that keeps the letter which is under way."""

    def deliver(self, number, letter, count, deliver, out):
        self.letter = letter
        super().deliver(number, letter, count, deliver, out)

    def again(self, number):
        """Answer this letter once more."""
        return answer(self.letter, self.nodes[number], self.train(number, self.letter.tag))


def the_last_of_these_is_no_answer(world, deliver, seen):
    """In a round of these node 0 trains once, gives no frames in the end, and is as after a kill."""
    assert right(world, world.round(2, deliver)[0], (1, 2, 3))
    (found,) = seen
    assert found.frames == []
    assert world.trained.count((0, 2)) == 1
    assert right(world, world.round(3)[0], range(4))


# Old copies


@pytest.mark.parametrize("adversary", GIVEN)
def test_an_old_state_beside_a_newer_mark_answers_nothing_again(place, adversary):
    """The message after which the node has trained comes again, and its state is that of a snapshot."""
    world = Watched(place, adversary)
    assert right(world, world.round(1)[0], range(4))
    seen = []

    def deliver(number, count, call):
        if (number, count) != (0, GIVEN[adversary]):
            return call()
        file = file_of(world, 0, "state")
        before = file.read_bytes()
        found = call()
        assert found.frames
        file.write_bytes(before)
        seen.append(world.again(0))
        raise Crash

    the_last_of_these_is_no_answer(world, deliver, seen)


@pytest.mark.parametrize("adversary", GIVEN)
def test_a_mark_that_was_not_written_is_written_before_the_answer_leaves(place, monkeypatch, adversary):
    """The process ends between state and mark; the same message then gets its answer, and no other one."""
    world = Watched(place, adversary)
    assert right(world, world.round(1)[0], range(4))
    seen = []

    def deliver(number, count, call):
        if (number, count) != (0, GIVEN[adversary]):
            return call()
        file, mark = file_of(world, 0, "state"), file_of(world, 0, "mark")
        before = file.read_bytes(), int(mark.read_bytes())
        with monkeypatch.context() as patch, pytest.raises(Crash):
            crash_at(patch, "state", world)
            call()
        assert int(mark.read_bytes()) == before[1]
        found = call()
        assert found.frames
        assert int(mark.read_bytes()) > before[1]
        # From now on the state of before answers nothing.
        file.write_bytes(before[0])
        seen.append(world.again(0))
        raise Crash

    the_last_of_these_is_no_answer(world, deliver, seen)


# Another key


def test_a_state_that_another_key_has_sealed_is_named_with_its_cure(place):
    """The node's owner has had a new certificate issued, with a new key."""
    world = World(place)
    assert right(world, world.round(1)[0], range(4))
    request = pki.request("node-0", place / "renewed")
    pki.sign(place / "pki", request, "node-0", out=place / "renewed", replace=True)
    identity = Identity(place / "renewed" / "node-0", place / "pki")
    world.nodes[0] = dataclasses.replace(world.nodes[0], identity=identity)
    seen = []

    def deliver(number, count, call):
        try:
            return call()
        except bs.StoreError as error:
            seen.append((number, str(error)))
            raise

    assert right(world, world.round(2, deliver)[0], (1, 2, 3))
    ((number, why),) = seen
    folder = file_of(world, 0, "state").parent
    assert number == 0
    assert "memory" not in why
    assert why.startswith(f"{folder / 'state'}: ")
    assert "another key" in why
    assert f"remove the folder {folder}" in why
    shutil.rmtree(folder)
    assert right(world, world.round(3)[0], range(4))


# Ends of rounds


def with_cohorts(world):
    world.nodes = [dataclasses.replace(node, cohorts=Cohorts(node.state)) for node in world.nodes]
    return world


def knows(world, number, tag):
    """Whether a node remembers that it has given an update of a round's model beside these nodes."""
    file = Path(world.nodes[number].state) / "trained"
    return line_of(f"model-{tag}", ALL) in file.read_text().splitlines()


@pytest.mark.parametrize("adversary", GIVEN)
def test_a_round_whose_result_was_missed_counts(place, adversary):
    """The process ends at the last message, and is away in the next round: only one result is kept for it."""
    world = with_cohorts(World(place, adversary))
    assert right(world, world.round(1)[0], range(4))
    told = []

    def gone(at):
        def deliver(number, count, call):
            if (number, count) == (2, at):
                raise Crash
            return call()

        return deliver

    def listens(number, count, call):
        found = call()
        if number == 2 and "lost" in found.told:
            told.append(found.told["lost"])
        return found

    assert right(world, world.round(2, gone(LAST[adversary]))[0], range(4))
    assert right(world, world.round(3, gone(1))[0], (0, 1, 3))
    assert right(world, world.round(4, listens)[0], range(4))
    assert any("ResultMissed" in why for why in told), told
    assert all(knows(world, 2, tag) for tag in (1, 2, 4))


@pytest.mark.parametrize("adversary", GIVEN)
def test_a_round_that_came_to_nothing_does_not_count(place, adversary):
    """Two nodes are lost once they have given their updates: the others hear that there is no sum."""
    world = with_cohorts(World(place, adversary))
    assert right(world, world.round(1)[0], range(4))

    def gone(number, count, call):
        found = call()
        if number > 1 and count == GIVEN[adversary]:
            raise Crash
        return found

    over, _ = world.round(2, gone)
    assert over.result is None
    assert all(knows(world, number, 2) for number in range(4))
    assert right(world, world.round(3)[0], range(4))
    assert not any(knows(world, number, 2) for number in range(4))
    assert all(knows(world, number, tag) for number in range(4) for tag in (1, 3))


class Told:
    """A party's machine that tells what it is given, and hears what is asked of it."""

    name, spec = "node-0", None

    def __init__(self, events):
        self.left = [[event] for event in events]
        self.taken = []

    def events(self):
        return self.left.pop(0) if self.left else []

    def took(self, number):
        self.taken.append(number)

    def want_round(self, *, tag, about):
        pass

    def frames(self):
        return []

    def suspend(self):
        return machines.Suspended(b"later", 2)


OUT = bs.RoundAborted(7, "too few are left")
FAULT = bs.Fault("node-1", "a signature is wrong")


@pytest.mark.parametrize(
    ("events", "is_known", "number"),
    [
        ([machines.RoundEnded(7, None)], True, 0),
        ([machines.RoundLost(7, bs.ResultMissed(7, "it came late"))], True, 0),
        ([machines.RoundLost(7, bs.RoundUnknown(7, "this party has left"))], True, 0),
        ([machines.RoundLost(7, OUT)], False, 0),
        ([machines.RoundLost(7, bs.InputError("update", "not finite"))], False, 0),
        ([machines.RoundLost(7, FAULT)], False, 0),
        # Of another round, and of none.
        ([machines.RoundLost(8, OUT)], True, 7),
        ([machines.RoundEnded(6, None)], True, 7),
        ([machines.RoundRefused(OUT)], True, 7),
        ([machines.RoundLost(8, OUT), machines.RoundLost(7, OUT)], False, 0),
        ([machines.RoundEnded(7, None), machines.RoundLost(7, OUT)], True, 0),
    ],
)
def test_which_ends_of_a_round_make_a_node_forget_its_cohort(place, monkeypatch, events, is_known, number):
    world = with_cohorts(World(place))
    node, line = world.nodes[0], line_of("model-1", ALL)
    node.cohorts.enter("model-1", ALL)
    with JobFolder(node.state, "job", "node-0", "1", 1).locked(0) as folder:
        folder.write(b"state", 1, Place(1, 0), Answer(), Step(1, content_of(1).hex(), 7, line))
    machine = Told(events)
    monkeypatch.setattr(machines.PartyMachine, "open", lambda *_, **__: machine)
    answer(Letter("job", 1, Place(1, 1), 2, content_of(2)), node, None)
    assert machine.taken == [event.number for event in events if isinstance(event, machines.RoundEnded)]
    assert knows(world, 0, 1) is is_known
    with JobFolder(node.state, "job", "node-0", "1", 1).locked(0) as folder:
        step = folder.read().step
    assert (step.number, step.cohort) == ((7, line) if number else (0, ""))
