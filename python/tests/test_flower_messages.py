"""Frames in Flower's messages without flwr: a node's folder, and its party between messages."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import blindsum as bs
from blindsum import machines, pki
from blindsum.flower import node_folder
from blindsum.flower.direct import Identity
from blindsum.flower.metric_slots import MetricSlots
from blindsum.flower.node_folder import Answer, JobFolder, Place
from blindsum.flower.node_machine import Letter, Node, Trained, answer
from blindsum.flower.settings import RunSettings, check_job

DIM = 5


class Crash(BaseException):
    """The process ends here: no handler of errors runs."""


def folder_of(base, job="job", run="1", order=1):
    return JobFolder(str(base), job, "node-0", run, order)


def files(base):
    return sorted(str(file.relative_to(base)) for file in Path(base).rglob("*") if file.is_file())


# The folder


def test_what_was_stored_is_read_again(tmp_path):
    first, second = Answer([b"a", b""], {"party": "node-0"}), Answer(failed="no data")
    with folder_of(tmp_path).locked(0) as folder:
        assert folder.read() == node_folder.Stored(None, 0, None, Answer())
        folder.write(b"state", 3, Place(1, 0), first)
        assert folder.read() == node_folder.Stored(b"state", 3, Place(1, 0), first, 3)
    with folder_of(tmp_path).locked(0) as folder:
        folder.write(b"", 4, Place(1, 1), second)
        assert folder.read() == node_folder.Stored(b"", 4, Place(1, 1), second, 4)
    # Others on the machine read nothing.
    for path in Path(tmp_path).rglob("state"):
        assert path.stat().st_mode & 0o77 == 0


def test_files_are_written_whole_and_the_mark_after_the_state(tmp_path, monkeypatch):
    """A crash before each call of the system leaves an earlier pair, or a state above its mark."""
    seen = set()
    for crash in range(1, 100):
        base = tmp_path / str(crash)
        with folder_of(base).locked(0) as folder:
            folder.write(b"old", 1, Place(1, 0), Answer([b"old"]))
        calls = []

        def step(name, inner, *values, calls=calls, crash=crash):
            calls.append(name)
            if len(calls) == crash:
                raise Crash
            return inner(*values)

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace"):
                inner = getattr(os, name)
                patch.setattr(os, name, lambda *values, n=name, i=inner: step(n, i, *values))
            try:
                with folder_of(base).locked(0) as folder:
                    folder.write(b"new", 2, Place(1, 1), Answer([b"new"]))
            except Crash:
                pass
        with folder_of(base).locked(0) as folder:
            found = folder.read()
        assert (found.state, found.answer.frames) in ((b"old", [b"old"]), (b"new", [b"new"]))
        seen.add((found.state, found.own_mark, found.mark))
        # Never a mark that is above its state.
        assert found.own_mark >= found.mark
        if len(calls) < crash:
            break
    # File, its name, its folder; twice.
    assert calls == ["fsync", "replace", "fsync"] * 2
    assert seen == {(b"old", 1, 1), (b"new", 2, 1), (b"new", 2, 2)}


@pytest.mark.parametrize(
    ("name", "content"),
    [("mark", b"two"), ("mark", None), ("state", b""), ("state", b"{}\n"), ("state", b'{"format":1')],
)
def test_damaged_files_are_named(tmp_path, name, content):
    with folder_of(tmp_path).locked(0) as folder:
        folder.write(b"state", 1, Place(1, 0), Answer())
    (file,) = Path(tmp_path).rglob(name)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(bs.StoreError, match=str(file)), folder_of(tmp_path).locked(0) as folder:
        folder.read()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(bs.StoreError, match="blindsum-state"),
        folder_of(tmp_path / "file").locked(0),
    ):
        pass


def test_errors_of_training_are_not_those_of_the_folder(tmp_path):
    with pytest.raises(FileNotFoundError), folder_of(tmp_path).locked(0):
        raise FileNotFoundError("data.csv")


@pytest.mark.parametrize(
    ("place", "is_repeated"), [((2, 1), True), ((2, 2), False), ((3, 0), False), ((9, 0), False)]
)
def test_messages_that_may_come(place, is_repeated):
    stored = node_folder.Stored(b"", 1, Place(2, 1), Answer())
    assert stored.is_repeated(Place(*place)) is is_repeated


@pytest.mark.parametrize("place", [(2, 0), (2, 3), (1, 0), (1, 2), (3, 1)])
def test_messages_that_come_late_or_too_early_are_refused(place):
    stored = node_folder.Stored(b"", 1, Place(2, 1), Answer())
    with pytest.raises(bs.NetworkError, match="out of order"):
        stored.is_repeated(Place(*place))
    with pytest.raises(bs.NetworkError, match="out of order"):
        node_folder.Stored(None, 0, None, Answer()).is_repeated(Place(1, 1))
    with pytest.raises(bs.NetworkError, match="out of order"):
        node_folder.Stored(b"", 1, Place(2, 1), Answer(failed="x")).is_repeated(Place(2, 2))


HOLDS = """
import sys
from blindsum.flower.node_folder import JobFolder
with JobFolder(sys.argv[1], "job", "node-0", "1", 1).locked(0):
    print("holds", flush=True)
    sys.stdin.readline()
"""


def test_one_process_at_a_time(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout.readline() == b"holds\n"
        with pytest.raises(bs.WaitTimeoutError, match="another process"), folder_of(tmp_path).locked(0.1):
            pass
        # Another job does not wait.
        with folder_of(tmp_path, "other").locked(0):
            pass
        # A process that is killed holds nothing any more.
        entered = threading.Event()

        def wait():
            with folder_of(tmp_path).locked(60):
                entered.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not entered.is_set()
        other.kill()
        assert entered.wait(60)
        thread.join()


def test_a_later_job_of_a_run_ends_the_earlier_ones(tmp_path):
    with folder_of(tmp_path, "first", "1", 1).locked(0) as folder:
        folder.write(b"state", 1, Place(1, 0), Answer())
    with folder_of(tmp_path, "of another run", "2", 1).locked(0):
        pass
    with folder_of(tmp_path, "second", "1", 2).locked(0):
        pass
    assert len([file for file in files(tmp_path) if file.endswith("/job")]) == 2
    with (
        pytest.raises(bs.SessionClosedError, match="'first' is over"),
        folder_of(tmp_path, "first").locked(0),
    ):
        pass
    # An earlier one does not end a later one.
    with folder_of(tmp_path, "third", "1", 0).locked(0), folder_of(tmp_path, "second", "1", 2).locked(0):
        pass


def test_jobs_of_other_runs_are_over_after_a_long_silence(tmp_path):
    for job in ("old", "young"):
        with folder_of(tmp_path, job, job).locked(0) as folder:
            folder.write(b"state", 1, Place(1, 0), Answer())
    old = folder_of(tmp_path, "old")._folder
    os.utime(old / "state", (1.0, 1.0))
    # Not while a process of the job runs.
    with folder_of(tmp_path, "old", "old").locked(0), folder_of(tmp_path, "new", "3").locked(0):
        pass
    assert old.exists()
    with folder_of(tmp_path, "newer", "4").locked(0):
        pass
    assert not old.exists()
    assert folder_of(tmp_path, "young")._folder.exists()
    with pytest.raises(bs.SessionClosedError), folder_of(tmp_path, "old", "old").locked(0):
        pass


def test_a_name_from_the_server_side_is_no_path(tmp_path):
    with folder_of(tmp_path / "state", "../../elsewhere").locked(0):
        pass
    assert all(file.startswith("state/messages/") for file in files(tmp_path))


# A party between messages


@pytest.fixture
def place(tmp_path, monkeypatch):
    # Order is looked at above; here it is many messages that count.
    monkeypatch.setattr(os, "fsync", lambda file: None)
    pki.init(tmp_path / "pki")
    for number in range(4):
        pki.issue(tmp_path / "pki", f"node-{number}")
    return tmp_path


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
            return Trained(np.full(DIM, 0.1 * (number + 1)), number + 1, {})

        return training

    def round(self, tag, deliver=None):
        """Run a round; ``deliver`` takes a node, the count of its letter and a call, and gives its answer."""
        self.over, counts, out, modelled = None, dict.fromkeys(range(4), 0), set(), set()
        self.server.begin([f"node-{number}" for number in range(4)], tag=tag)
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
            yield number, Letter("job", 1, self.places[number], tag, frames, has_model)

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
            with pytest.raises(bs.NetworkError, match="no data") as caught:
                call()
            seen.append(caught.value)
            raise

    assert right(world, world.round(2, again)[0], (0, 2, 3))
    assert len(seen) == 1
    assert right(world, world.round(3)[0], range(4))


def test_a_node_without_examples_sits_the_round_out(place):
    world = World(place)
    world.train = lambda number, tag: (
        lambda spec: Trained(np.full(DIM, 0.1 * (number + 1)), 0 if number == 3 else number + 1, {})
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


@pytest.mark.parametrize("key", ["order", "link", "number", "tag"])
def test_a_message_that_lacks_its_place_is_refused(key):
    told = {"job": "j", "order": 1, "link": 1, "number": 0, "tag": 1, "has-model": True}
    assert Letter.read(told, [b"x"]) == Letter("j", 1, Place(1, 0), 1, [b"x"], True)
    for wrong in (None, -1, "1", 1.5):
        with pytest.raises(bs.NetworkError, match=f"{key} = "):
            Letter.read(told | {key: wrong}, [])


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
    assert MetricSlots.read(slots.told).metrics == slots.metrics
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


@pytest.mark.parametrize("ranges", [[0.0], [0.0, 1.0, 2.0], [1.0, 0.0], [0.0, float("inf")]])
def test_metrics_without_a_right_range_are_refused(ranges):
    with pytest.raises(bs.ConfigError) as caught:
        MetricSlots.read({"metrics": ["loss"], "metric-ranges": ranges})
    assert caught.value.field == "blindsum-metrics"
    assert MetricSlots.read({}).metrics == ()
