"""The standing coordinator of Flower apps as far as it needs no flwr: who is waited for, and names."""

import itertools
import logging
import math
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import blindsum as bs
from blindsum import hosted
from blindsum.flower import standing
from blindsum.flower.direct import Sum
from blindsum.flower.party_names import PartyNames
from blindsum.flower.settings import RunSettings
from blindsum.flower.standing import StandingRounds

DIM = 4
NODES = (100, 101, 102, 103)
CLINICS = tuple(f"clinic-{number}" for number in range(4))


@pytest.fixture(scope="module")
def operator(place):
    return place.operator("flower-host")


@pytest.fixture
def spec(place):
    fields = {"parties": 4, "min_parties": 3, "rounds": 0, "model_update": "none", "max_weight": 10}
    return place.spec(**fields, join_deadline=600.0, input_deadline=600.0, stage_deadline=600.0)


@pytest.fixture
def world(place, operator, spec):
    """A coordinator that stands, its admin interface and a run of a ServerApp."""
    options = {"admin": "127.0.0.1:0", "stop_when_done": False, "hosted": True}
    # Whoever waits for a round still goes when the coordinator does.
    with ThreadPoolExecutor(8) as threads, place.coordinator(spec, **options) as coordinator:
        port = coordinator.admin.rpartition(":")[2]
        at = [f"https://localhost:{coordinator.address.rpartition(':')[2]}", f"https://localhost:{port}"]
        settings = RunSettings(
            coordinator=at[0],
            admin=at[1],
            standing_job="job",
            operator_identity=str(operator),
            coordinator_ca=str(place.folder),
        )
        rounds = StandingRounds(settings)
        yield Parties(place, coordinator, threads), rounds, Watched(rounds)
        rounds.end()


class Parties:
    """Parties of the job, each in a thread."""

    def __init__(self, place, coordinator, threads):
        self._place, self._coordinator, self._threads = place, coordinator, threads

    def join(self, name):
        return self._place.join(self._coordinator, name)

    def give(self, name, tag, before=None):
        """Join, and give an update for a step, which may be a function: a result, or why there is none."""
        return self._threads.submit(self._give, name, tag, before)

    def _give(self, name, tag, before):
        with self.join(name) as job:
            if before is not None:
                before()
            step = tag if isinstance(tag, int) else tag()
            result = job.aggregate(np.full(DIM, 0.25), tag=step)
            return job.lost if result is None else result


class Watched:
    """The admin interface of a run: it tells of what is asked, and what is refused."""

    def __init__(self, rounds):
        self._admin, rounds._admin = rounds._admin, self
        self.is_busy, self.begun = threading.Event(), []
        self.seen = {}
        self.is_begun, self.pending = threading.Event(), []
        self.looks, self.fails = [], 0
        self.looked = threading.Event()

    def describe(self, job):
        self.looks.append(job)
        self.looked.set()
        if self.fails:
            self.fails -= 1
            raise bs.NetworkError("no such place")
        status = self._admin.describe(job)
        for name in status["connected"]:
            self.heard(name).set()
        return status

    def heard(self, name):
        """Set once the party was seen as connected."""
        return self.seen.setdefault(name, threading.Event())

    def begin(self, job, parties, **options):
        try:
            pending = self._admin.begin(job, parties, **options)
        except bs.CallError:
            self.is_busy.set()
            raise
        self.begun.append(pending.parties)
        self.pending.append(pending)
        self.is_begun.set()
        return pending

    def other_host(self, *parties):
        return self._admin.begin("job", parties)


# Whose name is whose


def all_have_the_sum_of(parties, rounds, told):
    """The round has ended with the sum of these, and the calls of its parties have it."""
    assert rounds.wait(30)
    found = rounds.result()
    assert isinstance(found, Sum), found
    assert found.survivors == parties
    assert all(one.result().result == found.result for one in told)


def test_a_name_counts_that_one_node_alone_says(caplog):
    caplog.set_level(logging.WARNING)
    names = PartyNames()
    names.heard({100: "clinic-0", 101: "clinic-1"}, NODES)
    assert dict(names) == {100: "clinic-0", 101: "clinic-1"}
    names.heard({101: "clinic-1", 102: "clinic-2"}, NODES)
    assert dict(names) == {100: "clinic-0", 101: "clinic-1", 102: "clinic-2"}
    assert not caplog.records


@pytest.mark.parametrize(
    "claims", [({100: "clinic-0", 103: "clinic-0"},), ({100: "clinic-0"}, {103: "clinic-0"})]
)
def test_two_nodes_of_a_round_with_one_name_have_none_and_are_named(caplog, claims):
    caplog.set_level(logging.WARNING)
    names = PartyNames()
    for claim in claims:
        names.heard({102: "clinic-2"} | claim, NODES)
    assert dict(names) == {102: "clinic-2"}
    (told,) = [record.getMessage() for record in caplog.records]
    assert "nodes 100 and 103" in told
    assert "clinic-0" in told
    # Nor has a third one, or one that says it again.
    names.heard({101: "clinic-0"}, NODES)
    names.heard({103: "clinic-0"}, NODES)
    assert dict(names) == {102: "clinic-2"}


def test_a_node_that_takes_the_name_of_another_one_loses_its_own():
    names = PartyNames()
    names.heard({100: "clinic-0", 103: "clinic-3"}, NODES)
    names.heard({100: "clinic-0", 103: "clinic-0"}, NODES)
    assert dict(names) == {}
    names.heard({103: "clinic-3"}, NODES)
    assert dict(names) == {103: "clinic-3"}


def test_a_node_may_get_another_certificate():
    names = PartyNames()
    names.heard({100: "clinic-0"}, NODES)
    names.heard({100: "clinic-9"}, NODES)
    names.heard({101: "clinic-0"}, NODES)
    assert dict(names) == {100: "clinic-9", 101: "clinic-0"}


def test_a_name_moves_to_the_new_id_of_a_node_that_was_started_again(caplog):
    caplog.set_level(logging.WARNING)
    names = PartyNames()
    names.heard(dict(zip(NODES, CLINICS, strict=True)), NODES)
    names.heard({104: "clinic-0", 101: "clinic-1"}, (101, 102, 103, 104))
    rest = {101: "clinic-1", 102: "clinic-2", 103: "clinic-3"}
    assert dict(names) == rest | {104: "clinic-0"}
    # And again.
    names.heard({105: "clinic-0"}, (101, 102, 103, 105))
    assert dict(names) == rest | {105: "clinic-0"}
    assert not caplog.records


@pytest.mark.parametrize("own", ["clinic-3", "clinic-1"])
def test_a_name_does_not_move_to_a_node_that_has_said_another_one(caplog, own):
    """That is no node that was started again: node 103 waits until node 100 is not sampled."""
    caplog.set_level(logging.WARNING)
    names = PartyNames()
    names.heard({100: "clinic-0", 101: "clinic-1", 103: own}, NODES)
    caplog.clear()
    names.heard({103: "clinic-0"}, (101, 102, 103))
    assert "clinic-0" not in names.values()
    (told,) = [record.getMessage() for record in caplog.records]
    assert "nodes 100 and 103" in told


@pytest.mark.parametrize("asked", [(100, 101, 102, 103), (100, 101, 102, 104)])
def test_a_name_that_moved_to_a_liar_is_nobodys_once_its_own_node_says_it(caplog, asked):
    """Node 104 says nothing more, sampled or not."""
    caplog.set_level(logging.WARNING)
    names = PartyNames()
    names.heard({100: "clinic-0", 101: "clinic-1"}, NODES)
    names.heard({104: "clinic-0"}, (101, 102, 103, 104))
    names.heard({100: "clinic-0"}, asked)
    assert dict(names) == {101: "clinic-1"}
    (told,) = [record.getMessage() for record in caplog.records]
    assert "nodes 100 and 104" in told


def test_a_name_that_two_new_nodes_say_moves_to_neither(caplog):
    caplog.set_level(logging.WARNING)
    names = PartyNames()
    names.heard({100: "clinic-0"}, NODES)
    names.heard({104: "clinic-0", 105: "clinic-0"}, (101, 102, 104, 105))
    assert dict(names) == {}
    (told,) = [record.getMessage() for record in caplog.records]
    assert "nodes 100 and 104 and 105" in told


# Who is waited for


def test_a_node_with_the_name_of_another_party_does_not_push_it_out(world, spec):
    """Node 103 said once that it is clinic-0, and fails: clinic-0 is there, and stays in the round."""
    parties, rounds, admin = world
    names = {100: "clinic-1", 101: "clinic-2", 102: "clinic-3", 103: "clinic-0"}
    gives = threading.Event()
    tag = rounds.begin(spec, NODES, names, "model", 600.0)["tag"]
    told = [parties.give(name, tag, gives.wait) for name in CLINICS[:2]]
    # The claimed party is connected, as the coordinator says.
    while not admin.heard("clinic-0").is_set():
        admin.describe("job")
    assert admin.is_begun.wait(60)
    admin.looked.clear()
    rounds.failed(103)
    # Nobody is reported before it is known who is here.
    assert admin.looked.wait(60)
    gives.set()
    told += [parties.give(name, tag) for name in CLINICS[2:]]
    all_have_the_sum_of(CLINICS, rounds, told)


def test_a_node_that_never_came_is_not_waited_for(world, spec):
    parties, rounds, _ = world
    names = dict(zip(NODES, CLINICS, strict=True))
    tag = rounds.begin(spec, NODES, names, "model", 600.0)["tag"]
    told = [parties.give(name, tag) for name in CLINICS[:3]]
    rounds.failed(103)
    all_have_the_sum_of(CLINICS[:3], rounds, told)


def test_a_round_that_has_to_wait_begins_without_those_that_failed_meanwhile(world, spec):
    parties, rounds, admin = world
    other = admin.other_host(*CLINICS)
    names = dict(zip(NODES, CLINICS, strict=True))
    tag = rounds.begin(spec, NODES, names, "model", 600.0)["tag"]
    assert admin.is_busy.wait(60)
    rounds.failed(103)
    other.call_off()
    told = [parties.give(name, tag) for name in CLINICS[:3]]
    assert rounds.wait(30)
    assert admin.begun == [CLINICS[:3]]
    assert rounds.result().survivors == CLINICS[:3]
    assert all(isinstance(one.result(), bs.RoundResult) for one in told)


def test_a_round_that_has_to_wait_is_lost_where_too_few_are_left(world, spec):
    _, rounds, admin = world
    other = admin.other_host(*CLINICS)
    rounds.begin(spec, NODES, dict(zip(NODES, CLINICS, strict=True)), "model", 600.0)
    assert admin.is_busy.wait(60)
    rounds.failed(102)
    rounds.failed(103)
    other.call_off()
    assert rounds.wait(30)
    assert "too few nodes came: 2 of 4" in rounds.result()
    assert admin.begun == []


# Nodes that were started again


@pytest.mark.parametrize("nodes", [(101, 102, 103, 104), (102, 103, 104, 105), (100, 101, 102, 104)])
def test_nodes_with_new_ids_take_part_under_the_names_of_their_old_ones(world, spec, nodes):
    parties, rounds, admin = world
    names = dict(zip(NODES, CLINICS, strict=True))
    begun = Future()
    told = [parties.give(name, begun.result) for name in CLINICS]
    while not all(admin.heard(name).is_set() for name in CLINICS):
        admin.describe("job")
    begun.set_result(rounds.begin(spec, nodes, names, "model", 600.0)["tag"])
    all_have_the_sum_of(CLINICS, rounds, told)


def test_a_party_that_no_node_is_known_as_comes_before_that_of_a_node_that_was_not_sampled(world, spec):
    parties, rounds, admin = world
    names = {100: "clinic-0", 101: "clinic-1", 102: "clinic-2"}
    with parties.join("clinic-0"), parties.join("clinic-3") as third:
        while not (admin.heard("clinic-0").is_set() and admin.heard("clinic-3").is_set()):
            admin.describe("job")
        tag = rounds.begin(spec, (101, 102, 103), names, "model", 600.0)["tag"]
        told = [parties.give(name, tag) for name in ("clinic-1", "clinic-2")]
        result = third.aggregate(np.full(DIM, 0.25), tag=tag)
    assert rounds.wait(30)
    assert rounds.result().survivors == CLINICS[1:]
    assert all(one.result().result == result.result for one in told)


# Looks at the coordinator while a round is under way


def test_a_look_that_fails_costs_no_round(world, spec, monkeypatch, caplog):
    """Node 103 never comes. The first looks at who is connected fail, and a later one shows that."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(standing, "LOOK_AGAIN", 0.0)
    parties, rounds, admin = world
    tag = rounds.begin(spec, NODES, dict(zip(NODES, CLINICS, strict=True)), "model", 600.0)["tag"]
    assert admin.is_begun.wait(60)
    admin.fails = 2
    rounds.failed(103)
    told = [parties.give(name, tag) for name in CLINICS[:3]]
    assert rounds.wait(30)
    found = rounds.result()
    assert isinstance(found, Sum), found
    assert found.survivors == CLINICS[:3]
    assert admin.fails == 0
    assert all(one.result().result == found.result for one in told)
    (said,) = [record for record in caplog.records if "no such place" in record.getMessage()]
    assert said.levelno == logging.DEBUG


def test_a_look_that_fails_before_the_round_begins_costs_no_round(world, spec):
    """Three nodes are known, and it is looked which party is the fourth one."""
    parties, rounds, admin = world
    admin.fails = 3
    tag = rounds.begin(spec, NODES, dict(zip(NODES[:3], CLINICS[:3], strict=True)), "model", 600.0)["tag"]
    told = [parties.give(name, tag) for name in CLINICS]
    all_have_the_sum_of(CLINICS, rounds, told)
    assert admin.fails == 0


def test_a_coordinator_that_is_gone_is_not_looked_for_until_the_timeout(world, spec, monkeypatch):
    monkeypatch.setattr(standing, "LOOK", 0.01)
    _, rounds, admin = world
    admin.fails = 1000
    rounds.begin(spec, NODES, {}, "model", 600.0)
    assert rounds.wait(60)
    assert rounds.result() == "no such place"


def test_who_has_failed_is_looked_at_once_where_nothing_changes(world, spec, monkeypatch):
    """Node 103 has the name of a party that is there: each look costs a connection."""
    monkeypatch.setattr(standing, "LOOK", 0.01)
    monkeypatch.setattr(standing, "LOOK_AGAIN", math.inf)
    parties, rounds, admin = world
    waits, count = threading.Condition(), itertools.count(1)
    result = hosted.PendingRound.result

    def counted(pending, timeout=None):
        with waits:
            waits.number = next(count)
            waits.notify_all()
        return result(pending, timeout)

    def wait_often():
        with waits:
            enough = waits.number + 10
            assert waits.wait_for(lambda: waits.number >= enough, 60)

    monkeypatch.setattr(hosted.PendingRound, "result", counted)
    names = {100: "clinic-1", 101: "clinic-2", 102: "clinic-3", 103: "clinic-0"}
    waits.number = 0
    tag = rounds.begin(spec, NODES, names, "model", 600.0)["tag"]
    told = [parties.give("clinic-0", tag)]
    while not admin.heard("clinic-0").is_set():
        admin.describe("job")
    assert admin.is_begun.wait(60)
    admin.looks.clear()
    wait_often()
    assert admin.looks == []
    rounds.failed(103)
    wait_often()
    assert len(admin.looks) == 1
    rounds.failed(102)
    wait_often()
    assert len(admin.looks) == 2
    told += [parties.give(name, tag) for name in ("clinic-1", "clinic-2")]
    assert rounds.wait(30)
    assert rounds.result().survivors == CLINICS[:3]
    assert all(isinstance(one.result(), bs.RoundResult) for one in told)


def test_a_round_whose_wait_breaks_is_called_off(world, spec, monkeypatch):
    """Whoever waits for a round no more leaves none behind at the coordinator, which would be busy."""
    _, rounds, admin = world

    def breaks(pending, timeout=None):
        raise bs.NetworkError("the wait is broken")

    with monkeypatch.context() as patched:
        patched.setattr(hosted.PendingRound, "result", breaks)
        rounds.begin(spec, NODES, dict(zip(NODES, CLINICS, strict=True)), "model", 600.0)
        assert rounds.wait(60)
    assert "the wait is broken" in rounds.result()
    with pytest.raises(bs.RoundLost, match="waits for it no more"):
        admin.pending[0].result(10)
