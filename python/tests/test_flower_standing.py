"""The standing coordinator of Flower apps as far as it needs no flwr: who is waited for, and names."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import blindsum as bs
from blindsum import pki
from blindsum.flower.direct import Sum
from blindsum.flower.party_names import PartyNames
from blindsum.flower.settings import RunSettings
from blindsum.flower.standing import StandingRounds

DIM = 4
NODES = (100, 101, 102, 103)
CLINICS = tuple(f"clinic-{number}" for number in range(4))


@pytest.fixture(scope="module")
def operator(place):
    pki.issue(place.folder, "flower-host", operator=True)
    return place.folder / "flower-host"


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

    def give(self, name, tag, before=None):
        """Join, and give an update for a step: a result, or why there is none."""
        return self._threads.submit(self._give, name, tag, before)

    def _give(self, name, tag, before):
        with self._place.join(self._coordinator, name) as job:
            if before is not None:
                before()
            result = job.aggregate(np.full(DIM, 0.25), tag=tag)
            return job.lost if result is None else result


class Watched:
    """The admin interface of a run: it tells of what is asked, and what is refused."""

    def __init__(self, rounds):
        self._admin, rounds._admin = rounds._admin, self
        self.is_busy, self.begun = threading.Event(), []
        self.seen = {}

    def describe(self, job):
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
        return pending

    def other_host(self, *parties):
        return self._admin.begin("job", parties)


# Whose name is whose


def test_a_name_counts_that_one_node_alone_says(caplog):
    caplog.set_level(logging.WARNING)
    names = PartyNames()
    names.heard({100: "clinic-0", 101: "clinic-1"})
    assert dict(names) == {100: "clinic-0", 101: "clinic-1"}
    names.heard({101: "clinic-1", 102: "clinic-2"})
    assert dict(names) == {100: "clinic-0", 101: "clinic-1", 102: "clinic-2"}
    assert not caplog.records


@pytest.mark.parametrize(
    "claims", [({100: "clinic-0", 103: "clinic-0"},), ({100: "clinic-0"}, {103: "clinic-0"})]
)
def test_two_nodes_with_one_name_have_none_and_are_named(caplog, claims):
    caplog.set_level(logging.WARNING)
    names = PartyNames()
    for claim in claims:
        names.heard({102: "clinic-2"} | claim)
    assert dict(names) == {102: "clinic-2"}
    (told,) = [record.getMessage() for record in caplog.records]
    assert "nodes 100 and 103" in told
    assert "clinic-0" in told
    # Nor has a third one, or one that says it again.
    names.heard({101: "clinic-0"})
    names.heard({103: "clinic-0"})
    assert dict(names) == {102: "clinic-2"}


def test_a_node_that_takes_the_name_of_another_one_loses_its_own():
    names = PartyNames()
    names.heard({100: "clinic-0", 103: "clinic-3"})
    names.heard({100: "clinic-0", 103: "clinic-0"})
    assert dict(names) == {}
    names.heard({103: "clinic-3"})
    assert dict(names) == {103: "clinic-3"}


def test_a_node_may_get_another_certificate():
    names = PartyNames()
    names.heard({100: "clinic-0"})
    names.heard({100: "clinic-9"})
    names.heard({101: "clinic-0"})
    assert dict(names) == {100: "clinic-9", 101: "clinic-0"}


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
    rounds.failed(103)
    gives.set()
    told += [parties.give(name, tag) for name in CLINICS[2:]]
    assert rounds.wait(30)
    found = rounds.result()
    assert isinstance(found, Sum), found
    assert found.survivors == CLINICS
    assert all(one.result().result == found.result for one in told)


def test_a_node_that_never_came_is_not_waited_for(world, spec):
    parties, rounds, _ = world
    names = dict(zip(NODES, CLINICS, strict=True))
    tag = rounds.begin(spec, NODES, names, "model", 600.0)["tag"]
    told = [parties.give(name, tag) for name in CLINICS[:3]]
    rounds.failed(103)
    assert rounds.wait(30)
    found = rounds.result()
    assert isinstance(found, Sum), found
    assert found.survivors == CLINICS[:3]
    assert all(one.result().result == found.result for one in told)


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
