"""Domains: several learners of one organisation, each a process, are one party of a job over mutual TLS."""

import importlib.util
import json
import signal
import subprocess
import sys
import threading
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from domain_learner import update_of, weight_of

import blindsum as bs
from blindsum.testing.learners import SocketPeers

LEARNER = Path(__file__).with_name("domain_learner.py")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "domain.py"
LEARNERS = range(3)
FLOATS = {"encoding": "fixed64", "max_weight": 100}

HOW = ["sockets", "gloo"]
"""How learners talk. Gloo is in torch, 5 GB that `make domains` installs and `make test` does not. Where it
is missing, the same tests see that every learner says so, and how to get it."""

HAS_TORCH = importlib.util.find_spec("torch") is not None


class Domain:
    """The learners of a domain, as processes."""

    def __init__(self, place, port, folder, name, number, how, each=None, **settings):
        folder = folder / name
        folder.mkdir()
        join = {"url": f"https://localhost:{port}", "job": "job", "give_up_after": 5.0}
        join |= {"identity": str(place.identity(name)), "ca": str(place.folder / "ca.pem")}
        given = {"folder": str(folder), "size": 3, "speaker": 0, "domain": number, "timeout": 20.0}
        given |= {"how": how, "policy": place.any_job, "join": join} | settings
        self.processes = []
        for rank in LEARNERS:
            own = given | {"rank": rank} | (each or {}).get(rank, {})
            words = [sys.executable, str(LEARNER), json.dumps(own)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            self.processes.append(subprocess.Popen(words, **pipes))

    def said(self):
        """What every learner said last; ``None`` for one that was killed."""
        return [self._said(process) for process in self.processes]

    def _said(self, process):
        out, err = process.communicate(timeout=120)
        if process.returncode == -signal.SIGKILL:
            return None
        assert out, err
        return json.loads(out.splitlines()[-1])


@pytest.fixture
def run(place, tmp_path):
    """Runs domains in a job until all have ended; gives what their learners said."""

    def start(spec, how, *settings, beside=None):
        with place.coordinator(spec) as coordinator:
            port = coordinator.address.rpartition(":")[2]
            domains = [
                Domain(place, port, tmp_path, f"domain-{number}", number, how, **own)
                for number, own in enumerate(settings)
            ]
            if beside is not None and (how == "sockets" or HAS_TORCH):
                beside(coordinator)
            said = [domain.said() for domain in domains]
        if how == "gloo" and not HAS_TORCH:
            for one in chain(*said):
                assert one["error"]["kind"] == "ConfigError"
                assert "pip install 'blindsum[domains]'" in one["error"]["said"]
            return None
        return said

    return start


def errors(said):
    """The one error of all learners that said something."""
    found = [one["error"] for one in said if one is not None]
    assert all(error == found[0] for error in found), found
    return found[0]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("protocol", ["plain", "secagg"])
def test_two_domains_of_three_get_the_exact_mean(run, place, protocol, how):
    spec = place.spec(protocol=protocol, parties=2, rounds=2, adversary="semi-honest", **FLOATS)
    found = run(spec, how, {}, {})
    if found is None:
        return
    every = [(update_of(domain, rank), weight_of(rank)) for domain in (0, 1) for rank in LEARNERS]
    expected = np.average([update for update, _ in every], axis=0, weights=[weight for _, weight in every])
    # Weights of 16 and updates in sixteenths: nothing is rounded.
    assert len({tuple(update) for update, _ in every}) > 1
    for one in chain(*found):
        assert one["rounds"] == found[0][0]["rounds"]
        first, second = one["rounds"]
        for rnd in (first, second):
            assert rnd["mean"] == expected.tolist()
            assert (rnd["total_weight"], rnd["survivors"]) == (16, ["domain-0", "domain-1"])
        assert first["start"] == [0] * 4
        assert second["start"] == first["model"] == expected.tolist()
        assert second["number"] > first["number"]


@pytest.mark.parametrize("how", HOW)
def test_any_learner_may_speak(run, place, how):
    found = run(place.spec(parties=1, **FLOATS), how, {"speaker": 2})
    if found is None:
        return
    updates = [update_of(0, rank) for rank in LEARNERS]
    expected = np.average(updates, axis=0, weights=[weight_of(rank) for rank in LEARNERS])
    for one in found[0]:
        (rnd,) = one["rounds"]
        assert (rnd["mean"], rnd["total_weight"]) == (expected.tolist(), 8)


INTEGERS = [
    [[2**40, 1, 0, 7], [2**63, 2, 0, 8], [2**62 + 3, 3, 0, 9]],
    [[5, 4, 0, 1], [6, 5, 1, 1], [7, 6, 0, 1]],
]
WEIGHTS = [1, 1, 3]


@pytest.mark.parametrize("how", HOW)
def test_sums_of_integers_are_exact(run, place, how):
    spec = place.spec(encoding="integers", bits=64, parties=2)
    own = {"options": {"combine": "sum"}, "weights": [1, 1, 1]}
    found = run(spec, how, *({"integers": integers} | own for integers in INTEGERS))
    if found is None:
        return
    for one in chain(*found):
        (rnd,) = one["rounds"]
        assert rnd["sum"] == [sum(column) for column in zip(*chain(*INTEGERS), strict=True)]
        assert rnd["total_weight"] == 2


@pytest.mark.parametrize("how", HOW)
def test_a_learner_that_dies_ends_its_domain_and_not_the_job(run, place, how):
    spec = place.spec(parties=2, min_parties=1, rounds=2, **FLOATS)
    dies = {2: {"misbehave": {"train": [2, "die"]}}}
    found = run(spec, how, {"each": dies}, {})
    if found is None:
        return
    lost, others = found
    error = errors(lost)
    assert lost[2] is None
    assert (error["kind"], error["learner"]) == ("DomainError", 2)
    assert "its connection is lost" in error["said"]
    for one in others:
        # The other domain does not notice, except by the survivors.
        assert [rnd["survivors"] for rnd in one["rounds"]] == [["domain-0", "domain-1"], ["domain-1"]]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("rank", "at"), [(0, "train"), (0, "result"), (1, "result")])
def test_whoever_dies_whenever_is_named_to_everybody(run, place, how, rank, at):
    spec = place.spec(parties=1, rounds=2, **FLOATS)
    found = run(spec, how, {"each": {rank: {"misbehave": {at: [1, "die"]}}}})
    if found is None:
        return
    error = errors(found[0])
    assert (error["kind"], error["learner"]) == ("DomainError", rank)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_whoever_dies_while_the_speaker_waits_for_others_is_named(run, place, how, rank):
    spec = place.spec(parties=2, min_parties=2, join_deadline=60.0, **FLOATS)
    found = run(spec, how, {"each": {rank: {"misbehave": {"join": [0, "die later"]}}}})
    if found is None:
        return
    error = errors(found[0])
    assert (error["kind"], error["learner"]) == ("DomainError", rank)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("rank", [0, 2])
def test_whoever_hangs_is_given_up(run, place, how, rank):
    spec = place.spec(parties=1, input_deadline=60.0, **FLOATS)
    # It sleeps for longer than the others wait, and ends then.
    hangs = {rank: {"misbehave": {"train": [1, "hang"]}}}
    found = run(spec, how, {"each": hangs, "timeout": 2.0})
    if found is None:
        return
    error = errors([one for at, one in enumerate(found[0]) if at != rank])
    assert (error["kind"], error["learner"]) == ("DomainError", rank)
    assert "timeout = 2 s" in error["said"]


@pytest.mark.parametrize("how", HOW)
def test_a_round_that_is_lost_is_lost_for_every_learner_and_the_next_goes_on(run, place, tmp_path, how):
    spec = place.spec(parties=2, min_parties=2, join_deadline=60.0, **FLOATS)

    def leave_the_first_round(coordinator):
        with place.join(coordinator, "other") as session:
            first = session.next_round()
            # A round that ends before the domain has it is none of its rounds.
            while len(list((tmp_path / "domain-0").glob("in-round-*"))) < len(LEARNERS):
                time.sleep(0.05)
            first.abandon()
            for current in session.rounds(on_lost=lambda _: None):
                current.submit(np.zeros(4), weight=8)
                current.result()

    found = run(spec, how, {}, beside=leave_the_first_round)
    if found is None:
        return
    (stays,) = found
    for one in stays:
        assert one == stays[0]
        lost, done = one["rounds"]
        assert lost["lost"]["kind"] == "RoundAborted"
        assert done["survivors"] == ["domain-0", "other"]


@pytest.mark.parametrize("how", HOW)
def test_a_speaker_that_cannot_join_tells_everybody(run, place, how):
    spec = place.spec(parties=1, **FLOATS)
    found = run(spec, how, {"policy": {}})
    if found is None:
        return
    error = errors(found[0])
    assert error["kind"] == "PolicyError"
    assert "allowed_protocols" in error["said"]


def example():
    spec = importlib.util.spec_from_file_location("domain", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_torchrun(words):
    """Run the example as its first lines say; gives what it printed."""
    start = [sys.executable]
    if HAS_TORCH:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    ended = subprocess.run(
        [*start, EXAMPLE, *words], capture_output=True, text=True, timeout=120, check=False
    )
    if not HAS_TORCH:
        # examples/torch stands beside the example, and is no library.
        assert "No module named 'torch.distributed'" in ended.stderr
        return None
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def with_threads(words, folder, capsys):
    """Run the learners of the example without torch; gives what they printed."""

    def learn(rank):
        take_part(*words, peers=SocketPeers(folder, rank, 3))

    take_part = example().take_part
    threads = [threading.Thread(target=learn, args=(rank,)) for rank in LEARNERS]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    return capsys.readouterr().out


@pytest.mark.parametrize("how", HOW)
def test_the_example_runs(place, tmp_path, capsys, how):
    # Whatever a party's policy is by default, this job keeps it.
    fields = {"protocol": "secagg", "adversary": "active", "parties": 3, "rounds": 2}
    fields |= {"encoding": "fixed64", "max_weight": 1000, "job": "tumour", "join_deadline": 60.0}
    with place.coordinator(place.spec(**fields)) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"

        def take_part(name):
            join = {"identity": place.identity(name), "ca": place.folder / "ca.pem"}
            with bs.join(url, job="tumour", **join) as session:
                for rnd in session.rounds():
                    rnd.submit(0.5 * (0.25 - rnd.model), weight=100)
                    rnd.result()

        others = [threading.Thread(target=take_part, args=(name,)) for name in ("clinic-b", "clinic-c")]
        words = [url, str(place.identity("clinic-a")), str(place.folder / "ca.pem")]
        if how == "sockets" or HAS_TORCH:
            for one in others:
                one.start()
        out = with_torchrun(words) if how == "gloo" else with_threads(words, tmp_path, capsys)
        if out is None:
            return
        for one in others:
            one.join(60)
    said = out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["round 1", "round 2"]
    assert all(line.endswith("of 3 parties") for line in said)
    # Half of the way to about 0.25, and half of the rest.
    means = [float(line.split()[3]) for line in said]
    assert np.allclose(means, [0.125, 0.0625], atol=0.02)
