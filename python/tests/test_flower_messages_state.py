"""A node's folder and what is remembered of cohorts, over messages: old copies, lost marks, ends of rounds."""

import dataclasses
from pathlib import Path

import pytest
from test_flower_messages import Crash, World, crash_at, place, right

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


# Old copies


@pytest.mark.parametrize("adversary", GIVEN)
def test_an_old_state_beside_a_newer_mark_answers_nothing_again(place, adversary):
    """The message after which the node has trained comes again, when a snapshot has brought its state back."""
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

    assert right(world, world.round(2, deliver)[0], (1, 2, 3))
    (found,) = seen
    assert found.frames == []
    assert world.trained.count((0, 2)) == 1
    # In the next round it is as after a kill.
    assert right(world, world.round(3)[0], range(4))


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

    assert right(world, world.round(2, deliver)[0], (1, 2, 3))
    (found,) = seen
    assert found.frames == []
    assert world.trained.count((0, 2)) == 1
    assert right(world, world.round(3)[0], range(4))
