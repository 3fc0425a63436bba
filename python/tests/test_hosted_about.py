"""What a round of a host is about: parties of one sum were given the same, and their own tag is in it."""

import array
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
from machine_world import World
from test_hosted import DIM, Nodes, names, spec_of, value_of

import blindsum as bs
from blindsum import machines
from blindsum.hosted import hash_of

MODEL = np.linspace(-1, 1, 7, dtype=np.float32)


def test_only_the_same_has_the_same_hash():
    contents = [
        *(b"model", "model", "modem", "", [], [[]], MODEL, MODEL + 1, MODEL[::-1], MODEL.astype(np.float64)),
        *(MODEL.reshape(7, 1), [MODEL], [MODEL, MODEL], [MODEL, "lr 0"], [[MODEL], "lr 0"], [MODEL, "lr 1"]),
    ]
    assert len({hash_of(content) for content in contents}) == len(contents)
    assert [hash_of(content) for content in contents] == [hash_of(content) for content in contents]


def test_arrays_are_compared_by_their_numbers():
    assert hash_of(MODEL) == hash_of(np.concatenate([MODEL, MODEL])[:7])
    assert hash_of(np.asfortranarray(np.eye(3))) == hash_of(np.eye(3))
    with pytest.raises(bs.ConfigError, match="about: must be bytes, a text, an array"):
        hash_of(3)


def test_equal_arrays_have_one_hash_on_every_machine():
    """The letters of C's types and the order of bytes are those of a machine, and not of the numbers."""
    values = [1, -2, 3]
    long, long_long = (array.array(letter, values) for letter in "lq")
    assert long.itemsize == long_long.itemsize == 8
    same = [np.array(values, dtype) for dtype in ("<i8", ">i8", "l", "q")]
    same += [long, long_long, memoryview(long), memoryview(long_long)]
    assert len({hash_of(one) for one in same}) == 1
    assert hash_of(np.array([1.5], ">f4")) == hash_of(np.array([1.5], "<f4"))
    assert hash_of(np.array(["ab"], ">U2")) == hash_of(np.array(["ab"], "<U2"))
    assert hash_of(np.array([1, 2], "<i4")) != hash_of(np.array([1, 2], "<u4"))
    assert hash_of(np.array([1, 2], "<i4")) != hash_of(np.array([1 << 24, 2 << 24], "<i4"))
    raw = b"model"
    assert (
        len({hash_of(one) for one in (raw, bytearray(raw), memoryview(raw), np.frombuffer(raw, "u1"))}) == 1
    )


def test_hashes_stay_what_they_are():
    """Parties and hosts of two machines, and of two versions, have to agree."""
    found = hash_of([b"model", "lr", np.array([[1, 2]], ">i8"), np.array(0.5, np.float32)])
    whole = hashlib.sha256(b"blindsum about")
    for kind, content in (
        (b"list", (4).to_bytes(8, "big")),
        (b"|u1(5,)", b"model"),
        (b"text", b"lr"),
        (b"<i8(1, 2)", (1).to_bytes(8, "little") + (2).to_bytes(8, "little")),
        (b"<f4()", b"\0\0\0?"),
    ):
        whole.update(len(kind).to_bytes(8, "big") + kind + len(content).to_bytes(8, "big") + content)
    assert found == whole.digest()


class Hides:
    """Something whose array has a mask."""

    def __array__(self, dtype=None, copy=None):
        return np.ma.array([1.0, 2.0], mask=[True, False])


def deep(lists):
    found = []
    for _ in range(lists):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (np.array([1, "a", None], object), "Python objects.*as a list"),
        ([MODEL, np.array([[1], [2, 3]], object)], "Python objects"),
        (np.zeros(2, [("a", "i4"), ("b", "f4")]), "records.*each field"),
        (np.zeros(2, np.longdouble), "more than 64 bits.*float64"),
        (np.zeros(2, "V2"), "give its bytes"),
        (Hides(), "an array with a mask"),
        ("half \ud800", "half a character at 5"),
        (["lr", "\ud800"], "half a character at 0"),
        (np.ma.array([1.0, 2.0], mask=[True, False]), "an array with a mask"),
        (deep(40), "more than 32 deep"),
        (3, "not a int"),
        (None, "not a NoneType"),
    ],
)
def test_what_has_no_hash_is_refused_by_name(about, said):
    with pytest.raises(bs.ConfigError, match=said) as caught:
        hash_of(about)
    assert caught.value.field == "about"
    assert "give " in caught.value.rule


@pytest.mark.parametrize("protocol", ["plain", "secagg+", "fssa", "pss", "flashe", "paillier-ring", "mpc3"])
def test_a_party_with_another_content_is_in_no_sum(place, protocol):
    spec = spec_of(place, protocol=protocol, parties=6, min_parties=5, adversary="semi-honest")
    chosen, threads, told = names(0, 1, 2, 3, 4, 5), [], {}

    def take_part(coordinator, name, about):
        with place.join(coordinator, name) as job:
            result = job.aggregate(np.full(DIM, value_of(name)), tag=1, about=about)
            told[name] = job.lost if result is None else result

    with place.coordinator(spec, hosted=True) as coordinator:
        for name in chosen:
            about = MODEL + 1 if name == "node-5" else MODEL
            threads.append(threading.Thread(target=take_part, args=(coordinator, name, about)))
            threads[-1].start()
        result = coordinator.round(chosen, tag=1, about=MODEL)
        for thread in threads:
            thread.join()
    assert isinstance(told["node-5"], bs.OtherContent)
    assert (told["node-5"].tag, told["node-5"].only_me) == (1, True)
    assert "about something else" in result.lost["node-5"]
    assert result.survivors == chosen[:5]
    assert all(told[name].survivors == chosen[:5] for name in chosen[:5])


def test_who_says_nothing_takes_part_and_about_needs_a_tag(place):
    with place.coordinator(spec_of(place), hosted=True) as coordinator, Nodes(place, coordinator) as nodes:
        told = nodes.train(names(0, 1, 2), 1)
        result = coordinator.round(names(0, 1, 2), tag=1, about="any")
        assert all(one.result().result == result.result for one in told.values())
        with pytest.raises(bs.ConfigError, match="about: needs a tag"):
            coordinator.begin(names(0, 1, 2), about="any")
        with (
            place.join(coordinator, "node-0") as job,
            pytest.raises(bs.ConfigError, match="about: needs a tag"),
        ):
            job.next_round(about="any")


def varint(number):
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 2:
            size, at = read_varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = 8 if key & 7 == 1 else 4
            value, at = data[at : at + size], at + size
        yield key, value


def written(found):
    parts = []
    for key, value in found:
        parts.append(varint(key))
        parts.append(varint(value) if key & 7 == 0 else (varint(len(value)) if key & 7 == 2 else b"") + value)
    return b"".join(parts)


def changed(frame, outer, inner, value):
    """The frame with another value of a field of its message, where it is that message."""
    kind = 0 if isinstance(value, int) else 2

    def told(message):
        kept = [(key, old) for key, old in fields(message) if key >> 3 != inner]
        return written([*kept, (inner << 3 | kind, value)])

    return written((key, told(old) if key >> 3 == outer else old) for key, old in fields(frame))


OFFER, START, READY = 4, 5, 3


def lied_to(protocol, in_offer, in_start, in_ready, value, honest):
    """What a coordinator gets that tells one party of five something else, and hides it from itself."""
    world = World(protocol=protocol, parties=5, min_parties=3, dim=3, rounds=0, model_update="none")
    opened = {"ca": world.ca, "waits": world.waits, "hosted": True}
    world.server = machines.ServerMachine.open(world.spec, **opened, **world.clock())
    policy = bs.Policy(
        allowed_protocols=[protocol], require_adversary=None, min_corrupt=0, min_corrupt_parties=0
    )
    parties = [world.add(policy=policy, update=lambda number: np.full(3, 0.25)) for _ in range(5)]
    victim = parties[3]

    def down(party, frame):
        if party is not victim:
            return frame
        return changed(changed(frame, OFFER, in_offer, value), START, in_start, value)

    world.down = down
    world.up = lambda party, frame: changed(frame, READY, in_ready, honest) if party is victim else frame
    for party in parties:
        world.connect(party)
    world.server.begin([party.name for party in parties], tag=3, about=MODEL, **world.clock())
    world.flush()
    over = []

    def is_over():
        over.extend(event for event in world.server.events() if isinstance(event, machines.RoundOver))
        return bool(over)

    world.run(connect=False, until=is_over)
    begun = [event for event in victim.events if isinstance(event, machines.RoundBegins)]
    return over[0], begun


@pytest.mark.parametrize("protocol", ["secagg", "secagg+", "fssa", "pss", "pss-malicious"])
@pytest.mark.parametrize(
    ("lie", "honest"),
    [((4, 9, 6, 4), 3), ((5, 10, 7, b"\1" * 32), hash_of(MODEL)), ((5, 10, 7, b""), hash_of(MODEL))],
    ids=["another tag", "about something else", "about nothing"],
)
def test_parties_that_were_told_different_things_are_in_no_sum_together(protocol, lie, honest):
    """A coordinator that lies to one party and mends its answers: what they were told is in every key."""
    over, begun = lied_to(protocol, *lie, honest)
    # The victim does not notice: its keys are others.
    assert begun
    assert over.result is None or "party-3" not in over.result.survivors


def test_a_machine_that_goes_on_to_another_step_leaves_the_one_before(place):
    world = World(protocol="plain", parties=4, min_parties=3, dim=3, rounds=0, model_update="none")
    opened = {"ca": world.ca, "waits": world.waits, "hosted": True}
    world.server = machines.ServerMachine.open(world.spec, **opened, **world.clock())
    policy = bs.Policy(allowed_protocols=["plain"], require_adversary=None, min_corrupt=0, min_honest=0)
    parties = [world.add(policy=policy, update=lambda number: np.full(3, 0.25)) for _ in range(4)]
    late = parties[0]
    for party in parties[:3]:
        world.connect(party)
    # It is ready for step 3 while others are waited for, and goes on to step 4.
    world.server.begin([party.name for party in parties], tag=3, **world.clock())
    world.flush()
    while late.inbox:
        world.send(late, late.step(late.inbox.popleft()))
    late.machine.want_round(tag=4)
    world.send(late, late.machine.frames())
    world.connect(parties[3])
    over = []

    def is_over():
        over.extend(event for event in world.server.events() if isinstance(event, machines.RoundOver))
        return bool(over)

    late.step = lambda frame: _heard(late, frame)
    world.run(connect=False, until=is_over)
    assert over[0].error is None, over[0].error
    assert over[0].result.survivors == ("party-1", "party-2", "party-3")
    assert "waits for another tag" in over[0].result.lost["party-0"]
    assert not [event for event in late.events if isinstance(event, machines.RoundBegins)]
    # Step 4 has it.
    over.clear()
    world.server.begin([party.name for party in parties], tag=4, **world.clock())
    world.flush()
    world.run(connect=False, until=is_over)
    assert over[0].result.survivors == ("party-0", "party-1", "party-2", "party-3")


def _heard(party, frame):
    """A host that submits what it has for step 4, whatever the round."""
    machine = party.machine
    machine.receive(frame)
    machine.want_round(tag=4)
    for event in machine.events():
        party.events.append(event)
        if isinstance(event, machines.RoundBegins):
            machine.submit(event.number, np.full(3, 0.75))
        if isinstance(event, machines.RoundEnded):
            machine.took(event.number)
    return machine.frames()


class Stopped(Exception):
    pass


def test_a_round_that_was_found_for_any_step_is_not_that_of_another(place):
    """Whoever left a loop over all rounds, and asks for a step then, gets that step or none."""

    def leave(error):
        raise Stopped

    def ask(coordinator):
        with place.join(coordinator, "node-3") as job:
            with pytest.raises(Stopped):
                for current in job.rounds(on_lost=leave):
                    current.submit(np.zeros(DIM))
            result = job.aggregate(np.full(DIM, 0.5), tag=3)
            return result if result is not None else job.lost

    with (
        place.coordinator(spec_of(place), hosted=True) as coordinator,
        ExitStack() as joined,
        ThreadPoolExecutor(4) as threads,
    ):
        asked = threads.submit(ask, coordinator)
        sessions = [joined.enter_context(place.join(coordinator, name)) for name in names(0, 1, 2)]
        begun = coordinator.begin(names(0, 1, 2, 3), tag=1)
        rounds = list(threads.map(lambda session: session.next_round(tag=1), sessions))
        begun.call_off()
        with pytest.raises(bs.RoundLost):
            begun.result()
        for tag, expected in ((2, names(0, 1, 2)), (3, names(0, 1, 2, 3))):
            begun = coordinator.begin(names(0, 1, 2, 3), tag=tag)
            rounds = list(threads.map(lambda one, tag=tag: one.next_round(tag=tag), sessions))
            for current in rounds:
                current.submit(np.full(DIM, 0.25))
            assert begun.result().survivors == expected
        assert asked.result().result == begun.result().result
