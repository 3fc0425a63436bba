"""Rounds that the program begins which runs the coordinator: named parties, a tag, and the result."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from machine_world import World

import blindsum as bs
from blindsum import machines

DIM = 4


def spec_of(place, **fields):
    fields = {"parties": 5, "min_parties": 3, "rounds": 0, "model_update": "none", "max_weight": 10} | fields
    return place.spec(**fields)


class Nodes:
    """Nodes of a framework: each comes for one step and goes again, as a process would."""

    def __init__(self, place, coordinator, *, update=None):
        self.place, self.coordinator = place, coordinator
        self.update = update or (lambda name: np.full(DIM, value_of(name)))
        self._threads = ThreadPoolExecutor(12)

    def train(self, names, tag, *, weight=1, before=None):
        """What each of them gets: a result, ``None``, or an error."""
        return {name: self._threads.submit(self._one, name, tag, weight, before) for name in names}

    def _one(self, name, tag, weight, before):
        with self.place.join(self.coordinator, name) as job:
            if before is not None:
                before(name, job)
            result = job.aggregate(self.update(name), weight, tag=tag)
            return job.lost if result is None else result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._threads.shutdown()


def value_of(name):
    return 0.125 * (1 + int(name.rpartition("-")[2]))


def names(*numbers):
    return tuple(f"node-{number}" for number in numbers)


@pytest.fixture
def world(place):
    """A coordinator whose host is the test, and its nodes."""
    with place.coordinator(spec_of(place), hosted=True) as coordinator, Nodes(place, coordinator) as nodes:
        yield coordinator, nodes


def test_rosters_change_and_the_result_is_the_nodes_own(world):
    coordinator, nodes = world
    for tag, chosen in enumerate((names(0, 1, 2), names(1, 2, 3, 4), names(0, 1, 2, 3, 4), names(0, 3, 4))):
        told = nodes.train(chosen, tag, weight=2)
        result = coordinator.round(chosen, tag=tag)
        assert (result.tag, result.survivors, dict(result.lost)) == (tag, chosen, {})
        assert result.total_weight == 2 * len(chosen)
        for future in told.values():
            own = future.result()
            assert own.survivors == chosen
            assert own.result == result.result
            assert np.array_equal(own.mean, result.mean)
            assert own.mean.dtype == result.mean.dtype
        expected = np.mean([value_of(name) for name in chosen])
        assert np.allclose(result.mean, expected, atol=spec_of(nodes.place).max_error)
    assert not result.mean.flags.writeable


def test_parties_that_stay_sit_out_rounds_that_do_not_name_them(place):
    with (
        place.coordinator(spec_of(place), hosted=True) as coordinator,
        place.join(coordinator, "node-9") as outside,
        Nodes(place, coordinator) as nodes,
    ):
        told = nodes.train(names(0, 1, 2), 1)
        coordinator.round(names(0, 1, 2), tag=1)
        assert all(isinstance(future.result(), bs.RoundResult) for future in told.values())
        with pytest.raises(bs.WaitTimeoutError):
            outside.next_round(timeout=0)
        told = nodes.train(names(0, 1), 2)
        begun = coordinator.begin([*names(0, 1), "node-9"], tag=2)
        current = outside.next_round()
        assert (current.tag, current.parties) == (2, names(0, 1, 9))
        current.submit(np.zeros(DIM))
        assert begun.result().survivors == names(0, 1, 9)
        assert begun.result() is begun.result()


def test_who_is_late_for_a_step_is_not_counted_in_the_next(world):
    coordinator, nodes = world
    late = nodes.train(names(3), 1)
    told = nodes.train(names(0, 1, 2), 1)
    first = coordinator.round(names(0, 1, 2), tag=1)
    assert first.survivors == names(0, 1, 2)
    assert all(isinstance(future.result(), bs.RoundResult) for future in told.values())
    # Its update of step 1 is there when step 2 is offered to it.
    told = nodes.train(names(0, 1, 2), 2)
    result = coordinator.round(names(0, 1, 2, 3), tag=2)
    error = late["node-3"].result()
    assert isinstance(error, bs.OtherTag)
    assert (error.wanted, error.offered) == (1, 2)
    assert "its round is over" in str(error)
    assert result.survivors == names(0, 1, 2)
    assert np.allclose(result.mean, np.mean([value_of(name) for name in result.survivors]), atol=1e-3)
    assert set(result.lost) == {"node-3"}
    assert all(isinstance(future.result(), bs.RoundResult) for future in told.values())


def test_a_node_that_comes_after_its_round_began_hears_so(world):
    coordinator, nodes = world
    waits, goes_on = threading.Event(), threading.Event()

    def slow(name, job):
        current = job.next_round(tag=1)
        waits.set()
        goes_on.wait(60)
        current.submit(np.full(DIM, value_of(name)))
        current.outcome()

    begun = coordinator.begin(names(0, 1, 2, 3), tag=1)
    begun.report_failed("node-3")
    with ThreadPoolExecutor() as threads, nodes.place.join(coordinator, "node-0") as job:
        first = threads.submit(slow, "node-0", job)
        told = nodes.train(names(1, 2), 1)
        assert waits.wait(60)
        error = nodes.train(names(3), 1)["node-3"].result()
        assert isinstance(error, bs.RoundAborted)
        assert error.only_me
        goes_on.set()
        first.result()
    assert begun.result().survivors == names(0, 1, 2)
    assert all(isinstance(future.result(), bs.RoundResult) for future in told.values())


def test_an_early_node_waits_for_its_own_step(world):
    coordinator, nodes = world
    early = nodes.train(names(3), 8)
    told = nodes.train(names(0, 1, 2), 7)
    # Node 3 has nothing to give for step 7.
    result = coordinator.round(names(0, 1, 2, 3), tag=7)
    assert set(result.lost) == {"node-3"}
    nodes.train(names(0, 1), 8)
    result = coordinator.round(names(0, 1, 3), tag=8)
    assert result.survivors == names(0, 1, 3)
    assert early["node-3"].result().result == result.result
    assert all(isinstance(future.result(), bs.RoundResult) for future in told.values())


def test_a_lost_round_names_who_was_lost_and_the_next_one_begins_with_the_same_tag(world):
    coordinator, nodes = world
    begun = coordinator.begin(names(0, 1, 2), tag=4)
    assert "state: under way" in repr(begun)
    with pytest.raises(bs.WaitTimeoutError, match="goes on"):
        begun.result(timeout=0)
    begun.report_failed("node-1", "ValueError")
    with pytest.raises(bs.RoundLost, match="a round of this job needs 3") as caught:
        begun.result()
    assert (caught.value.tag, set(caught.value.lost)) == (4, {"node-1"})
    assert "ValueError" in caught.value.lost["node-1"]
    with pytest.raises(bs.RoundLost):
        begun.result()
    told = nodes.train(names(0, 1, 2), 4)
    assert coordinator.round(names(0, 1, 2), tag=4).survivors == names(0, 1, 2)
    assert all(isinstance(future.result(), bs.RoundResult) for future in told.values())


def test_a_node_whose_training_raises_is_given_up_at_once(world):
    coordinator, nodes = world

    def fails(name, job):
        if name == "node-3":
            raise ValueError("secret data")

    begun = coordinator.begin(names(0, 1, 2, 3), tag=1, join_within=600.0)
    told = nodes.train(names(0, 1, 2, 3), 1, before=fails)
    result = begun.result()
    assert result.survivors == names(0, 1, 2)
    assert result.lost["node-3"] == "its program failed (ValueError)"
    assert isinstance(told["node-3"].exception(), ValueError)
    # In the next round it is as good as the others.
    nodes.train(names(0, 1, 2, 3), 2)
    assert coordinator.round(names(0, 1, 2, 3), tag=2).survivors == names(0, 1, 2, 3)


KILLED = """
import os, signal, sys
import blindsum as bs
url, identity, ca, policy = sys.argv[1:]
job = bs.join(url, job="job", identity=identity, ca=ca, policy=bs.Policy(**eval(policy)))
# A round that nobody holds is one without an update, of which the coordinator is told.
found = job.next_round(tag=1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_node_that_is_killed_costs_the_grace_and_not_the_deadline(place):
    spec = spec_of(place, input_deadline=600.0)
    with place.coordinator(spec, hosted=True) as coordinator, Nodes(place, coordinator) as nodes:
        port = coordinator.address.rpartition(":")[2]
        words = [
            f"https://localhost:{port}",
            place.identity("node-3"),
            place.folder / "ca.pem",
            place.any_job,
        ]
        killed = subprocess.Popen([sys.executable, "-c", KILLED, *map(str, words)], env=os.environ)
        told = nodes.train(names(0, 1, 2), 1)
        result = coordinator.round(names(0, 1, 2, 3), tag=1, join_within=600.0)
        assert killed.wait() == -signal.SIGKILL
        assert result.survivors == names(0, 1, 2)
        assert "connection was lost" in result.lost["node-3"]
        assert all(isinstance(future.result(), bs.RoundResult) for future in told.values())


def test_who_does_not_come_is_not_waited_for_longer_than_asked(world):
    coordinator, nodes = world
    nodes.train(names(0, 1, 2), 1)
    result = coordinator.round(names(0, 1, 2, 3), tag=1, join_within=3.0)
    assert result.survivors == names(0, 1, 2)
    assert result.lost["node-3"] == "it did not come within 3 s"
    # It comes when everything is over, and does not wait in vain.
    error = nodes.train(names(3), 1)["node-3"].result()
    assert isinstance(error, bs.RoundAborted)
    assert "did not come" in str(error)
    with pytest.raises(bs.RoundLost, match="the host gave the round"):
        coordinator.round(names(0, 1, 2), tag=2, deadline=0.5)
    begun = coordinator.begin(names(0, 1, 2), tag=3)
    begun.call_off("the run was stopped")
    with pytest.raises(bs.RoundLost, match="called the round off: the run was stopped"):
        begun.result()


@pytest.mark.parametrize(
    ("protocol", "fields"),
    [
        ("secagg", {"adversary": "semi-honest"}),
        ("secagg+", {"adversary": "active", "parties": 6, "min_parties": 4, "dropout": 0.2}),
        ("fssa", {}),
        ("pss", {}),
        ("paillier-broadcast", {}),
        ("mpc3", {}),
    ],
)
def test_the_sums_of_integers_are_exact_under_every_protocol(place, protocol, fields):
    spec = spec_of(place, protocol=protocol, encoding="integers", bits=8, max_weight=1, **fields)
    everybody = names(*range(spec.parties))
    with (
        place.coordinator(spec, hosted=True) as coordinator,
        Nodes(place, coordinator, update=lambda name: [1 + int(name[-1])] * DIM) as nodes,
    ):
        for tag, chosen in enumerate((everybody, everybody[:-1])):
            told = nodes.train(chosen, tag)
            result = coordinator.round(chosen, tag=tag)
            assert result.survivors == chosen
            assert list(result.sum) == [sum(1 + int(name[-1]) for name in chosen)] * DIM
            for future in told.values():
                assert np.array_equal(future.result().sum, result.sum)


def test_where_the_parties_alone_learn_the_sum_the_host_gets_none(place):
    spec = spec_of(place, protocol="flashe")
    with place.coordinator(spec, hosted=True) as coordinator, Nodes(place, coordinator) as nodes:
        told = nodes.train(names(0, 1, 2), 1)
        result = coordinator.round(names(0, 1, 2), tag=1)
        assert (result.mean, result.sum, result.total_weight) == (None, None, None)
        assert result.survivors == names(0, 1, 2)
        means = [future.result().mean for future in told.values()]
        assert all(np.array_equal(mean, means[0]) for mean in means)
        assert {future.result().result for future in told.values()} == {result.result}
        with pytest.raises(bs.InputError, match="has no model"):
            coordinator.begin(names(0, 1, 2), np.zeros(DIM))


def test_the_host_gives_the_model_of_a_round(place):
    spec = spec_of(place, model_update="add")
    with place.coordinator(spec, hosted=True) as coordinator, Nodes(place, coordinator) as nodes:
        seen, expected = {}, None
        for tag, start in enumerate((np.full(DIM, 0.5), None, np.full(DIM, -2.0))):
            chosen = names(0, 1, 2)

            def before(name, job, tag=tag):
                seen[name] = np.array(job.model(tag=tag))

            told = nodes.train(chosen, tag, before=before)
            result = coordinator.round(chosen, start, tag=tag)
            begins = start if start is not None else expected
            assert all(np.array_equal(seen[name], begins.astype(np.float32)) for name in chosen)
            expected = told["node-0"].result().model
            assert np.allclose(expected, begins + result.mean)
            assert result.model_version == tag + 1


def test_what_cannot_be_is_refused_and_nothing_begins(world):
    coordinator, _ = world
    for parties, field in (
        ("node-0", "parties"),
        ([1, 2, 3], "parties"),
        (names(0, 1), "parties"),
        (names(0, 0, 1), "parties"),
    ):
        with pytest.raises(bs.ConfigError) as caught:
            coordinator.begin(parties)
        assert caught.value.field == field
    for options, field in (
        ({"tag": -1}, "tag"),
        ({"tag": 1.5}, "tag"),
        ({"join_within": 0}, "join_within"),
        ({"deadline": -1}, "deadline"),
    ):
        with pytest.raises(bs.ConfigError) as caught:
            coordinator.begin(names(0, 1, 2), **options)
        assert caught.value.field == field
    begun = coordinator.begin(names(0, 1, 2))
    with pytest.raises(bs.CallError) as caught:
        coordinator.begin(names(0, 1, 2))
    assert caught.value.code == "busy"
    coordinator.pause("a test")
    with pytest.raises(bs.RoundLost, match="paused"):
        begun.result()
    with pytest.raises(bs.CallError) as caught:
        coordinator.begin(names(0, 1, 2))
    assert caught.value.code == "held"


def test_a_coordinator_without_a_host_begins_its_rounds_by_itself(place):
    with place.coordinator(place.spec(parties=1, rounds=1)) as coordinator:
        with pytest.raises(bs.CallError) as caught:
            coordinator.begin(["a"])
        assert caught.value.code == "not-hosted"
        with place.join(coordinator, "a") as job:
            assert job.aggregate(np.zeros(DIM), tag=3) is None
            assert isinstance(job.lost, bs.OtherTag)
            assert job.lost.offered is None


@pytest.mark.parametrize("lost", [False, True])
def test_several_threads_get_one_end_of_a_round(world, lost):
    coordinator, nodes = world
    chosen = names(0, 1, 2)
    for tag in range(10):
        begun = coordinator.begin(chosen, tag=tag)
        with ThreadPoolExecutor(4) as threads:
            waits = [threads.submit(begun.result) for _ in range(4)]
            # One that waits a while does not wait as long as the others.
            with pytest.raises(bs.WaitTimeoutError, match="nothing came of the round within 0"):
                begun.result(timeout=0)
            for wrong in ("x", -1, float("nan")):
                with pytest.raises(bs.ConfigError, match="timeout: "):
                    begun.result(timeout=wrong)
            if lost:
                begun.call_off()
                assert {str(wait.exception()) for wait in waits} == {str(waits[0].exception())}
                assert isinstance(waits[0].exception(), bs.RoundLost)
            else:
                nodes.train(chosen, tag)
                assert {id(wait.result()) for wait in waits} == {id(begun.result())}


def test_a_coordinator_that_stops_ends_the_round(place):
    with place.coordinator(spec_of(place), hosted=True) as coordinator:
        begun = coordinator.begin(names(0, 1, 2))
        coordinator.stop()
        with pytest.raises(bs.RoundLost, match="the coordinator was stopped"):
            begun.result()
        for _ in coordinator.statuses():
            pass
        with pytest.raises((bs.CallError, bs.SessionClosedError)):
            coordinator.begin(names(0, 1, 2))


def test_limits_that_count_may_be_written_as_floats(place):
    with place.coordinator(place.spec(), limits={"failed_rounds": 1e6, "patience": 10}):
        pass
    with (
        pytest.raises(bs.ConfigError, match="failed_rounds"),
        place.coordinator(place.spec(), limits={"failed_rounds": 1.5}),
    ):
        pass


def test_a_machine_begins_rounds_for_its_host_too():
    fields = {"min_parties": 3, "dim": DIM, "rounds": 0, "model_update": "none"}
    world = World(protocol="plain", parties=4, **fields)
    opened = {"ca": world.ca, "waits": world.waits, "hosted": True}
    world.server = machines.ServerMachine.open(world.spec, **opened, **world.clock())
    any_job = bs.Policy(allowed_protocols=["plain"], require_adversary=None, min_corrupt=0, min_honest=0)
    for _ in range(4):
        world.add(policy=any_job, update=lambda number: np.full(DIM, 0.25))
    for party in world.parties:
        world.connect(party)
    events = []

    def is_over():
        events.extend(event for event in world.server.events() if isinstance(event, machines.RoundOver))
        return bool(events)

    assert world.server.stage is None
    world.server.begin(["party-0", "party-1", "party-3"], tag=2, **world.clock())
    assert world.server.stage == "offered"
    with pytest.raises(bs.CallError, match="one is under way"):
        world.server.begin(["party-0", "party-1", "party-3"], **world.clock())
    world.flush()
    world.run(connect=False, until=is_over)
    (over,) = events
    assert (over.tag, over.error) == (2, None)
    assert over.result.survivors == ("party-0", "party-1", "party-3")
    assert np.allclose(over.result.mean, 0.25, atol=1e-3)
    world.run(connect=False, until=lambda: world.parties[3].sums)
    assert not world.parties[2].sums
    assert world.parties[3].events[1].tag == 2
    events.clear()
    world.server.begin(["party-0", "party-1", "party-2"], tag=3, **world.clock())
    world.server.report_failed("party-2", "no memory", **world.clock())
    assert is_over()
    assert "no memory" in events[0].error.lost["party-2"]
    events.clear()
    world.server.begin(["party-0", "party-1", "party-2"], tag=3, **world.clock())
    world.server.call_off("enough", **world.clock())
    assert is_over()
    assert events[0].error.reason.endswith("enough")
