"""Frames in Flower's messages without flwr: a node's folder, and its party between messages."""

import os
from pathlib import Path

import numpy as np
import pytest

import blindsum as bs
from blindsum import machines, pki
from blindsum.flower.direct import Identity
from blindsum.flower.letters import Letter
from blindsum.flower.metric_slots import MetricSlots
from blindsum.flower.node_folder import JobFolder, Place
from blindsum.flower.node_machine import Node, Trained, answer
from blindsum.flower.settings import RunSettings, check_job

DIM = 5


class Crash(BaseException):
    """The process ends here: no handler of errors runs."""


# A party between messages


@pytest.fixture
def place(tmp_path, monkeypatch):
    # Order is looked at above; here it is many messages that count.
    monkeypatch.setattr(os, "fsync", lambda file: None)
    pki.init(tmp_path / "pki")
    for number in range(4):
        pki.issue(tmp_path / "pki", f"node-{number}")
    return tmp_path


def content_of(tag):
    """The hash of what nodes train on in a round."""
    return bytes([tag]) * 32


class World:
    """A coordinator and nodes; each letter may be lost, come twice, or end its process at a point."""

    def __init__(self, place, adversary="semi-honest", protocol="secagg+", **fields):
        self.place = place
        settings = RunSettings(protocol=protocol, adversary=adversary, min_parties=3)
        self.spec = settings.spec("job", DIM, 4).replace(rounds=0, **fields)
        ca = place / "pki"
        waits = machines.Waits(reconnect_grace=0.01)
        self.server = machines.ServerMachine.open(self.spec, ca=ca, waits=waits, hosted=True)
        policy = bs.Policy(require_adversary=None, min_corrupt=0)
        self.nodes = [
            Node(Identity(ca / f"node-{number}", ca), policy, str(place / f"state-{number}"), "1", 0.0)
            for number in range(4)
        ]
        self.links, self.places, self.waiting = {}, dict.fromkeys(range(4), Place(0, 0)), {}
        self.trained, self.left = [], {}
        self.connections = 0
        self.over = None

    def train(self, number, tag):
        def training(spec):
            self.trained.append((number, tag))
            return Trained(np.full(DIM, 0.1 * (number + 1)), number + 1, f"model-{tag}")

        return training

    def round(self, tag, deliver=None):
        """Run a round; ``deliver`` takes a node, the count of its letter and a call, and gives its answer."""
        self.over, counts, out, modelled = None, dict.fromkeys(range(4), 0), set(), set()
        about = [content_of(tag), bytes(32)]
        self.server.begin([f"node-{number}" for number in range(4)], tag=tag, about=about)
        while self.over is None:
            self.collect()
            letters = [] if self.over is not None else list(self.letters(tag, out, modelled))
            for number, letter in letters:
                counts[number] += 1
                self.deliver(number, letter, counts[number], deliver, out)
            if not letters:
                self.server.tick()
        return self.over, counts

    def letters(self, tag, out, modelled):
        """What waits for nodes that are still in the round."""
        for number in set(range(4)) - out:
            if number not in self.links:
                self.connections += 1
                self.places[number] = Place(self.connections, 0)
            elif not self.waiting.get(number):
                continue
            has_model = self.server.stage == self.spec.input_stage and number not in modelled
            if has_model:
                modelled.add(number)
            frames = self.waiting.pop(number, [])
            yield number, Letter("job", 1, self.places[number], tag, content_of(tag), frames, has_model)

    def deliver(self, number, letter, count, deliver, out):
        def call():
            found = answer(letter, self.nodes[number], self.train(number, letter.tag))
            # Nothing else ever leaves in answer to one message.
            assert self.left.setdefault((number, letter.place), found.frames) == found.frames
            return found

        try:
            found = call() if deliver is None else deliver(number, count, call)
        except (Crash, ValueError, bs.BlindsumError):
            out.add(number)
            if number in self.links:
                self.server.lost(self.links.pop(number))
            self.server.report_failed(f"node-{number}", "gone")
            return
        if "certificate" in found.told:
            if number in self.links:
                self.server.lost(self.links[number])
            self.links[number] = self.server.connected(found.told["certificate"])
        self.places[number] = Place(letter.place.link, letter.place.number + 1)
        for frame in found.frames:
            self.server.receive(self.links[number], frame)

    def collect(self):
        for outgoing in self.server.frames():
            for number, link in self.links.items():
                if link == outgoing.link:
                    self.waiting.setdefault(number, []).append(outgoing.frame)
        for event in self.server.events():
            if isinstance(event, machines.RoundOver):
                self.over = event


def mean_of(*numbers):
    weights = np.array([number + 1 for number in numbers])
    return (0.1 * weights * weights).sum() / weights.sum()


def right(world, over, numbers):
    assert over.error is None, over.error
    assert over.result.survivors == tuple(f"node-{number}" for number in numbers)
    return np.allclose(over.result.mean, mean_of(*numbers), atol=world.spec.max_error)


@pytest.mark.parametrize(
    ("protocol", "adversary", "first", "steady"),
    [
        ("secagg+", "semi-honest", 6, 5),
        ("secagg+", "active", 8, 7),
        ("fssa", "semi-honest", 5, 4),
        ("fssa", "active", 6, 5),
        ("pss", "semi-honest", 5, 4),
    ],
)
def test_a_round_needs_so_many_messages(place, protocol, adversary, first, steady):
    world = World(place, adversary, protocol)
    for tag, wanted in ((1, first), (2, steady), (3, steady)):
        over, counts = world.round(tag)
        assert right(world, over, range(4))
        assert set(counts.values()) == {wanted}
    assert world.trained == [(number, tag) for tag in (1, 2, 3) for number in range(4)]


@pytest.mark.parametrize("adversary", ["semi-honest", "active"])
def test_a_message_that_comes_twice_has_one_answer_and_trains_once(place, adversary):
    world = World(place, adversary)

    def twice(number, count, call):
        first = call()
        assert call() == first
        return first

    for tag in (1, 2):
        assert right(world, world.round(tag, twice)[0], range(4))
    assert len(world.trained) == 8


POINTS = ("before", "train", "suspended", "state", "mark", "reply")


@pytest.mark.parametrize("adversary", ["semi-honest", "active"])
@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_ends_at_any_point_costs_its_own_node_alone(place, monkeypatch, adversary, point):
    """At each message of a steady round; the node is back in the round after it."""
    last = 5 if adversary == "semi-honest" else 7
    given = 4 if adversary == "semi-honest" else 5
    world = World(place, adversary)
    assert right(world, world.round(0)[0], range(4))
    for at in range(1, last + 1):
        tag = 2 * at

        def deliver(number, count, call, at=at):
            if (number, count) != (2, at):
                return call()
            with monkeypatch.context() as patch:
                crash_at(patch, point, world)
                found = call()
            if point == "reply":
                raise Crash
            return found

        over, _ = world.round(tag, deliver)
        # Training is called with one of the messages only.
        is_lost = at <= given if point != "train" else at == given
        assert right(world, over, (0, 1, 3) if is_lost else range(4))
        assert right(world, world.round(tag + 1)[0], range(4))
        assert world.trained.count((2, tag + 1)) == 1
        assert world.trained.count((2, tag)) <= 1


def crash_at(patch, point, world):
    def crash(*_, **__):
        raise Crash

    match point:
        case "before":
            patch.setattr(JobFolder, "read", crash)
        case "train":
            patch.setattr(world, "train", lambda number, tag: crash)
        case "suspended":
            patch.setattr(JobFolder, "write", crash)
        case "state":
            patch.setattr(JobFolder, "write_mark", crash)
        case "mark":
            inner = JobFolder.write_mark

            def then_crash(folder, mark):
                inner(folder, mark)
                raise Crash

            patch.setattr(JobFolder, "write_mark", then_crash)


def test_training_that_fails_is_an_error_and_the_others_go_on(place):
    world = World(place)
    assert right(world, world.round(1)[0], range(4))
    inner = world.train

    def failing(number, tag):
        if (number, tag) != (1, 2):
            return inner(number, tag)

        def raises(spec):
            raise ValueError("no data")

        return raises

    world.train = failing
    seen = []

    def again(number, count, call):
        try:
            return call()
        except ValueError:
            # The same message once more trains nothing.
            with pytest.raises(bs.NetworkError, match="ValueError") as caught:
                call()
            seen.append(caught.value)
            raise

    assert right(world, world.round(2, again)[0], (0, 2, 3))
    assert len(seen) == 1
    assert right(world, world.round(3)[0], range(4))


def test_a_node_without_examples_sits_the_round_out(place):
    world = World(place)
    world.train = lambda number, tag: (
        lambda spec: Trained(np.full(DIM, 0.1 * (number + 1)), 0 if number == 3 else number + 1, "m")
    )
    over, _ = world.round(1)
    assert right(world, over, (0, 1, 2))
    assert "gave no update" in over.result.lost["node-3"]


def test_an_old_copy_of_the_folder_goes_on_in_no_round(place):
    """A snapshot of a machine brings back the files of before the round: nothing is answered from them."""
    world = World(place)
    assert right(world, world.round(1)[0], range(4))
    base = Path(world.nodes[0].state)
    kept = {}

    def deliver(number, count, call):
        if number == 0 and count == 2:
            kept.update({file: file.read_bytes() for file in base.rglob("*") if file.name == "state"})
        if number == 0 and count == 4:
            for file, content in kept.items():
                file.write_bytes(content)
        return call()

    over, _ = world.round(2, deliver)
    assert right(world, over, (1, 2, 3))
    # The state came back, its mark did not: the party is as after a kill, and in the next round again.
    assert right(world, world.round(3)[0], range(4))


def test_what_a_policy_refuses_is_an_error_of_the_node(place):
    world = World(place)
    strict = bs.Policy(allowed_protocols=["pss"], require_adversary=None)
    first = world.nodes[0]
    world.nodes[0] = Node(first.identity, strict, first.state, first.run, first.wait)
    seen = []

    def deliver(number, count, call):
        try:
            return call()
        except bs.PolicyError as error:
            seen.append((number, count, str(error)))
            raise

    assert right(world, world.round(1, deliver)[0], (1, 2, 3))
    ((number, count, why),) = seen
    assert (number, count) == (0, 2)
    assert "allowed_protocols" in why


TOLD = {
    **{"job": "j", "order": 1, "link": 1, "number": 0, "tag": 1, "has-model": False},
    **{"content": "ab" * 32, "weighted-by": "num-examples"},
}


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        *(
            (key, value)
            for key in ("order", "link", "number", "tag")
            for value in (None, -1, "1", 1.5, 2**63)
        ),
        *(("has-model", value) for value in (None, 1, "true")),
        *(("content", value) for value in (None, "", "ab" * 31, "AB" * 32, "a\n" * 32, b"ab" * 32)),
        *(("job", value) for value in (None, " ", 5, "j" * 129)),
        *(("weighted-by", value) for value in (None, 5, "w" * 10_000)),
        *(("certificate", value) for value in (5, "c" * 100_000)),
    ],
)
def test_a_message_that_says_something_wrongly_is_refused_and_not_echoed(key, wrong):
    found = Letter.read(TOLD, None, None)
    assert found == Letter("j", 1, Place(1, 0), 1, b"\xab" * 32, [], False, "num-examples")
    told = {name: value for name, value in (TOLD | {key: wrong}).items() if value is not None}
    with pytest.raises(bs.ConfigError, match=key) as caught:
        Letter.read(told, None, None)
    assert caught.value.field == "blindsum-record"
    assert len(str(caught.value)) < 300


def test_what_messages_cannot_carry_is_refused():
    with pytest.raises(bs.ConfigError) as caught:
        RunSettings.read({"blindsum-transport": "messages", "blindsum-reply": "mean"}, {})
    assert caught.value.field == "blindsum-reply"
    for protocol in ("paillier-ring", "mpc3", "flashe"):
        with pytest.raises(bs.ConfigError) as caught:
            check_job(bs.JobSpec(protocol=protocol, parties=4, dim=1), "messages")
        assert caught.value.field == "blindsum-protocol"


# Metrics


def slots_of(text="loss:0:10,gain:-1:1"):
    return MetricSlots(RunSettings(metrics=text).declared)


def test_metrics_are_coordinates_behind_the_update():
    slots = slots_of()
    spec = RunSettings(metrics="loss:0:10,gain:-1:1").spec("job", DIM, 4)
    job = slots.job(spec)
    assert (job.dim, job.metrics) == (DIM + 4, ())
    # The job says them, so all its nodes have the same.
    assert MetricSlots.read(bs.JobSpec.from_dict(job.to_dict()).parameters).metrics == slots.metrics
    update = np.arange(DIM, dtype=np.float32)
    # Weights 1 and 3; the second node has no gain.
    first = slots.filled(update, {"loss": 2.0, "gain": -0.5}, 0.5)
    second = slots.filled(update, {"loss": 4.0}, 0.5)
    assert np.abs(first[DIM:]).max() <= 0.5
    mean, found = slots.split((first + 3 * second) / 4, 0.5)
    assert np.array_equal(mean, update)
    assert found == pytest.approx({"loss": 3.5, "gain": -0.5})
    assert slots.split(slots.filled(update, {}, 1.0), 1.0)[1] == {"loss": None, "gain": None}


def test_a_metric_out_of_its_range_counts_as_the_nearest_value(caplog):
    slots = slots_of()
    filled = slots.filled(np.zeros(DIM), {"loss": 11.0, "gain": -7}, 1.0)
    assert slots.split(filled, 1.0)[1] == {"loss": 10.0, "gain": -1.0}
    assert sum("out of its range" in record.message for record in caplog.records) == 2
    with pytest.raises(bs.InputError, match="'loss'"):
        slots.filled(np.zeros(DIM), {"loss": float("nan")}, 1.0)


@pytest.mark.parametrize("encoding", [bs.Fixed64(), bs.Quantised(clipping="l2"), bs.Quantised(max_norm=1.0)])
def test_an_encoding_that_does_not_bound_each_coordinate_carries_no_metrics(encoding):
    spec = bs.JobSpec(
        protocol="secagg+", parties=4, dim=DIM, encoding=encoding, metrics=slots_of().metrics, rounds=0
    )
    with pytest.raises(bs.ConfigError) as caught:
        slots_of().job(spec)
    assert caught.value.field == "encoding"
    assert MetricSlots(()).job(spec) is spec


@pytest.mark.parametrize("ranges", [[0.0], [0.0, 1.0, 2.0], [1.0, 0.0], [0.0, float("inf")], ["0", "1"], 5])
def test_metrics_without_a_right_range_are_refused(ranges):
    with pytest.raises(bs.ConfigError) as caught:
        MetricSlots.read({"flower_metrics": ["loss"], "flower_metric_ranges": ranges})
    assert caught.value.field == "blindsum-metrics"
    assert MetricSlots.read({}).metrics == ()
