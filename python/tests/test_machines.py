"""Jobs over queues of bytes: the example, and what goes wrong with processes, states and frames."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import blindsum as bs
from blindsum import machines

ROOT = Path(__file__).resolve().parents[2]


def load_example():
    spec = importlib.util.spec_from_file_location("queue_job", ROOT / "examples" / "queue_job.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


queue_job = load_example()


class Troubled(queue_job.Job):
    """The job of the example, in which something happens before one of the messages is kept."""

    def __init__(self, folder, at=None, trouble=None, rounds=1):
        super().__init__(folder, rounds)
        self.at, self.trouble = at, trouble

    def deliver(self, party):
        if self.messages != self.at:
            return super().deliver(party)
        self.messages += 1
        return self.trouble(self, party)

    def check(self, rounds=1):
        """Every sum is that of numpy, the same for everybody who has it; gives the smallest cohort."""
        told = {}
        for party in self.parties:
            assert party.is_over
            for number, event in party.sums.items():
                survivors = [int(name.removeprefix("party-")) for name in event.result.survivors]
                updates = [queue_job.update_of(index, number) for index in survivors]
                assert np.array_equal(event.result.sum, np.sum(updates, axis=0, dtype=np.uint64))
                told.setdefault(number, set()).add((event.result.result, tuple(survivors)))
        assert len(told) == rounds
        assert all(len(results) == 1 for results in told.values())
        return min(len(survivors) for [(_, survivors)] in told.values())


def hear_and_die(party, message):
    """A process hears a message, answers it, and ends before anything of that is kept or sent."""
    machine = party.open()
    machine.receive(message)
    machine.want_round()
    for event in machine.events():
        if isinstance(event, machines.RoundBegins) and event.needs_update:
            machine.submit(event.number, queue_job.update_of(party.index, event.number))
    assert machine.frames() == []


def killed(job, party):
    hear_and_die(party, party.inbox[0])
    job.send(party, party.step(party.inbox.popleft()))


def killed_and_cut(job, party):
    hear_and_die(party, party.inbox.popleft())
    job.connect(party)


@pytest.fixture
def messages(tmp_path):
    job = Troubled(tmp_path / "first")
    job.run()
    assert job.check() == 4
    return job.messages


def test_the_example_runs(capsys):
    queue_job.main()
    said = capsys.readouterr().out.splitlines()
    rounds = [f"round {number}: sum of 4 parties" for number in (1, 2, 3)]
    assert [line.partition(",")[0] for line in said[:3]] == rounds
    assert len(said) == 4


def test_a_process_may_be_killed_at_every_message(messages, tmp_path):
    for at in range(messages):
        job = Troubled(tmp_path / str(at), at, killed)
        job.run()
        assert job.check() == 4


def test_so_may_its_connection_and_the_message_with_it(messages, tmp_path):
    for at in range(messages):
        job = Troubled(tmp_path / str(at), at, killed_and_cut)
        job.run()
        assert job.check() == 4


def test_an_old_state_takes_its_round_up_never_again(tmp_path):
    job = Troubled(tmp_path / "pki")
    party = job.parties[2]
    old, steps = [], party.step

    def step(message):
        old.append((party.state, party.mark))
        return steps(message)

    party.step = step
    job.run()
    assert job.check() == 4
    # Before its update was out, with the latest mark and with its own.
    state, mark = old[5]
    identity = {"identity": party.identity, "ca": party.ca, "policy": bs.Policy()}
    live = machines.PartyMachine.open("queue", **identity, state=state, mark=mark)
    dead = machines.PartyMachine.open("queue", **identity, state=state, mark=party.mark)
    told = [[type(event).__name__ for event in machine.events()] for machine in (live, dead)]
    assert told == [["Joined", "RoundBegins"], []]
    assert live.spec == job.spec
    assert dead.spec is None
    # What it says now begins anew, as another process.
    dead.connected()
    assert dead.suspend().mark == party.mark + 1
    assert len(dead.frames()) == 1


class Lasting:
    """A party whose process lasts: it has no mark, and its frames leave at once."""

    def __init__(self, job, party):
        self.job, self.party, self.result, self.is_over = job, party, None, False
        self.settings = {"identity": party.identity, "ca": party.ca}
        self.machine = machines.PartyMachine.open("queue", **self.settings)
        self.link = job.server.connected(self.machine.certificate)
        self.machine.connected()
        self.machine.want_round()
        self.serve()

    def receive(self, frame):
        self.machine.receive(frame)
        self.serve()

    def serve(self):
        for event in self.machine.events():
            match event:
                case machines.RoundBegins(number=number):
                    self.has_no_round_in_its_state()
                    self.machine.submit(number, queue_job.update_of(self.party.index, number))
                case machines.RoundEnded(number=number, result=result):
                    self.result = result
                    self.machine.took(number)
                case machines.JobDone():
                    self.is_over = self.machine.is_over
        for frame in self.machine.frames():
            self.job.server.receive(self.link, frame)

    def has_no_round_in_its_state(self):
        suspended = self.machine.suspend()
        assert suspended.mark is None
        again = machines.PartyMachine.open("queue", **self.settings, state=suspended.state, mark=0)
        assert again.events() == []


def test_without_a_mark_frames_leave_at_once_and_a_state_has_no_round(tmp_path):
    job = queue_job.Job(tmp_path / "pki", rounds=1)
    parties = [Lasting(job, party) for party in job.parties]
    by_link = {party.link: party for party in parties}
    while outgoing := job.server.frames():
        for one in outgoing:
            by_link[one.link].receive(one.frame)
    assert all(party.is_over for party in parties)
    expected = sum(queue_job.update_of(index, 1) for index in range(4))
    assert all(np.array_equal(party.result.sum, expected) for party in parties)
    assert job.server.status["state"] == "done"
    assert job.server.events() == []
    job.server.stop()
    assert job.server.events()[-1] == machines.JobOver(None)


def test_a_coordinator_goes_on_from_its_store(tmp_path):
    def restart(job, party):
        job.server = machines.ServerMachine.open(job.spec, ca=job.ca, store=job.server.store)
        job.links = {}
        for one in job.parties:
            job.connect(one)

    for at in (10, 30, 50):
        job = Troubled(tmp_path / str(at), at, restart, rounds=2)
        job.run()
        job.check(rounds=2)
        assert job.server.status["state"] == "done"


def test_what_is_no_state_is_refused(tmp_path):
    job = queue_job.Job(tmp_path / "pki", rounds=1)
    party, other = job.parties[:2]
    state = party.open().suspend().state
    for wrong, whose in ((state[:-1], party), (b"", party), (state, other)):
        with pytest.raises(bs.StoreError, match="damaged, or another party's"):
            machines.PartyMachine.open("queue", identity=whose.identity, ca=whose.ca, state=wrong, mark=0)
    store = job.server.store
    with pytest.raises(bs.StoreError, match="damaged"):
        machines.ServerMachine.open(job.spec, ca=job.ca, store=store[:-3])
    with pytest.raises(bs.StoreError, match="another specification"):
        machines.ServerMachine.open(job.spec.replace(dim=9), ca=job.ca, store=store)


def test_what_is_no_frame_is_refused(tmp_path):
    job = queue_job.Job(tmp_path / "pki", rounds=1)
    party = job.parties[0]
    machine = party.open()
    machine.connected()
    with pytest.raises(bs.Fault, match="a frame"):
        machine.receive(b"nonsense")
    link = job.server.connected(machine.certificate)
    job.server.receive(link, b"nonsense")
    assert [one.link for one in job.server.frames()] == [link]
    (ended,) = job.server.events()
    assert isinstance(ended, machines.LinkEnded)
    assert ended.link == link
    # What comes after it is of nobody.
    job.server.receive(link, b"nonsense")
    assert job.server.frames() == job.server.events() == []
    with pytest.raises(bs.IdentityError):
        job.server.connected(b"nonsense")


def test_settings_are_refused_by_name(tmp_path):
    job = queue_job.Job(tmp_path / "pki", rounds=1)
    party = job.parties[0]
    for field, value in (("patience", 0), ("failed_rounds", 1.5), ("models_kept", 0)):
        with pytest.raises(bs.ConfigError) as error:
            machines.Waits(**{field: value})
        assert error.value.field == f"waits.{field}"
    for wrong in ({"mark": -1}, {"policy": "any"}, {"now": -1.0}):
        with pytest.raises(bs.ConfigError):
            machines.PartyMachine.open("queue", identity=party.identity, ca=party.ca, **wrong)
    with pytest.raises(bs.InputError, match="not joined"):
        party.open().submit(1, [1])
