"""A loop over rounds goes on after a round that gave nothing, and the user can see what happened."""

import gc
import json
import logging
import threading
import time
import weakref
from contextlib import suppress

import numpy as np
import pytest

import blindsum as bs
from blindsum import checks
from blindsum.cli.told import _clipping
from blindsum.clipping import ClippingLog
from blindsum.rounds import Clipped

LONG = {"parties": 3, "min_parties": 2, "rounds": 2, "join_deadline": 60.0, "input_deadline": 60.0}


class Spoilers:
    """Two of three parties that leave the first round, so that it has no sum, and take part in the others."""

    def __init__(self, place, coordinator):
        # Set by the third party once it is in the round: before that it would never hear of it.
        self.begun = threading.Event()
        self._threads = [
            threading.Thread(target=self._take_part, args=(place, coordinator, name)) for name in ("b", "c")
        ]
        for thread in self._threads:
            thread.start()

    def _take_part(self, place, coordinator, name):
        with suppress(bs.NetworkError), place.join(coordinator, name) as session:
            left = session.next_round()
            self.begun.wait(60)
            left.abandon()
            for current in session.rounds():
                current.submit(np.zeros(4))
                current.result()

    def join(self):
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def test_the_loop_of_the_readme_survives_a_lost_round(place, caplog):
    spec = place.spec(**LONG)
    means, lost = [], []
    with caplog.at_level(logging.INFO, "blindsum"), place.coordinator(spec) as coordinator:
        others = Spoilers(place, coordinator)
        with place.join(coordinator, "a") as job:
            for rnd in job.rounds():
                others.begun.set()
                rnd.submit(np.full(4, 0.5), weight=1)
                means.append(rnd.result())
                lost.append(rnd.lost)
        others.join()
    assert means[0] is None
    assert isinstance(lost[0], bs.RoundAborted)
    assert "too few" in str(lost[0])
    assert all(mean is not None for mean in means[1:])
    assert lost[1:] == [None, None]
    # Where nothing else is set up, Python shows warnings on standard error.
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"job 'job': lost a round: {lost[0]}")


def test_a_lost_round_keeps_no_model(place):
    rounds = []
    with place.coordinator(place.spec(**LONG)) as coordinator:
        others = Spoilers(place, coordinator)
        gc.disable()
        try:
            with place.join(coordinator, "a") as job:
                for rnd in job.rounds(on_lost=lambda _: None):
                    others.begun.set()
                    # But for the round of this turn, all are gone.
                    assert [known() for known in rounds] == [None] * len(rounds)
                    rounds.append(weakref.ref(rnd))
                    rnd.submit(np.full(4, 0.5), weight=1)
                    rnd.result()
        finally:
            gc.enable()
        others.join()
    assert len(rounds) >= 3


def test_a_lost_round_is_told_once_and_may_end_the_loop(place):
    spec = place.spec(**LONG)
    told = []

    def on_lost(error):
        told.append(error)
        raise error

    with place.coordinator(spec) as coordinator:
        others = Spoilers(place, coordinator)
        with place.join(coordinator, "a") as job, pytest.raises(bs.RoundAborted, match="too few"):
            for rnd in job.rounds(on_lost):
                others.begun.set()
                rnd.submit(np.full(4, 0.5))
                with pytest.raises(bs.RoundAborted, match="too few"):
                    rnd.outcome()
                assert rnd.result() is None
        coordinator.stop()
        others.join()
    assert len(told) == 1


def test_a_straggler_goes_on_with_the_next_round(place, partner):
    spec = place.spec(**LONG | {"input_deadline": 1.0, "rounds": 3})
    told, means = [], []
    with place.coordinator(spec) as coordinator:
        others = [partner(place, coordinator, name, np.full(4, 0.25)) for name in ("b", "c")]
        with place.join(coordinator, "a") as job:
            for rnd in job.rounds(told.append):
                if not told and not means:
                    time.sleep(2.0)
                rnd.submit(np.full(4, 0.25))
                means.append(rnd.result())
        for other in others:
            other.wait()
    assert means[0] is None
    assert means[-1] is not None
    assert [type(error) for error in told] == [bs.RoundAborted]
    assert "goes on without this party" in str(told[0])


def test_a_round_that_the_policy_refuses_does_not_end_the_loop(place, partner):
    # With three parties instead of two the cohort changes by one: too little for this party.
    spec = place.spec(parties=3, min_parties=1, rounds=4, join_deadline=1.0)
    policy = bs.Policy(**place.any_job | {"min_cohort_change": 2})
    told, rounds = [], []
    with place.coordinator(spec) as coordinator:
        first = partner(place, coordinator, "b", np.zeros(4))
        with place.join(coordinator, "a", policy=policy) as job:
            for rnd in job.rounds(told.append):
                rounds.append(rnd.number)
                if len(rounds) == 1:
                    late = partner(place, coordinator, "c", np.zeros(4))
                    time.sleep(0.5)
                rnd.submit(np.zeros(4))
                rnd.result()
        first.wait()
        late.wait()
    assert rounds == [1]
    assert told
    assert all(isinstance(error, bs.PolicyError) and "min_cohort_change" in str(error) for error in told)


def test_strict_rounds_are_had_one_by_one(place):
    spec = place.spec(**LONG)
    with place.coordinator(spec) as coordinator:
        others = Spoilers(place, coordinator)
        with place.join(coordinator, "a") as job:
            rnd = job.next_round()
            others.begun.set()
            rnd.submit(np.full(4, 0.5))
            with pytest.raises(bs.RoundAborted, match="too few"):
                rnd.outcome()
        coordinator.stop()
        others.join()


def test_the_command_survives_what_the_loop_survives(processes, place):
    spec = place.spec(parties=3, min_parties=1, rounds=0, join_deadline=0.5)
    with place.coordinator(spec) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"

        def party(name, *rules):
            rules = [*place.take_any, *(word for rule in rules for word in ("--policy", rule))]
            identity = ["--identity", place.identity(name), "--ca", place.folder / "ca.pem"]
            # Nobody reads what b prints: it must not print so much that it stops.
            words = ["join", url, "--job", "job", *identity, *rules, "--train", "training:slow", "--json"]
            return processes(*words)

        careful, _ = party("a", "min_cohort_change=2"), party("b")
        assert json.loads(careful.stdout.readline())["outcome"] == "sum"
        party("c")
        # Its cohort and that of b and a differ by one: refused, round after round, and it goes on.
        refused = []
        for line in careful.stdout:
            refused += [report for report in [json.loads(line)] if report["outcome"] == "abort"]
            if len(refused) == 3:
                break
        assert all("min_cohort_change" in one["fault"] for one in refused)
        careful.terminate()
        _, err = careful.communicate(timeout=60)
        assert careful.returncode == 130, err


def test_a_training_function_that_returns_something_else_is_told(processes, place):
    with place.coordinator(place.spec(parties=1)) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        identity = ["--identity", place.identity("a"), "--ca", place.folder / "ca.pem"]
        words = ["join", url, "--job", "job", *identity, *place.take_any, "--train", "training:four"]
        party = processes(*words)
        said = [party.stdout.readline() for _ in range(2)]
        # It stays for the next round.
        assert party.poll() is None
        party.terminate()
        party.communicate(timeout=60)
    assert said[1].startswith(
        "round 1: no update of this party: training function: returned a tuple of 4 values; "
    )


def test_a_weight_above_the_job_s_says_where_to_allow_it(place):
    with place.coordinator(place.spec(parties=1)) as coordinator, place.join(coordinator, "a") as job:
        rnd = job.next_round()
        with pytest.raises(bs.InputError, match=r"weight: 250 must be .* set max_weight = 250 or more in it"):
            rnd.submit(np.zeros(4), weight=250)


@pytest.mark.parametrize("rule", ["clipped", "fltrust", "median"])
def test_a_weight_in_a_job_that_can_have_none_must_be_left_out(place, rule):
    spec = place.spec(protocol="mpc3", rule=rule, parties=5, bits=8)
    said = rf"max_weight must be 1 with rule = {rule}.*; in this job an update comes alone, without a weight"
    with pytest.raises(bs.InputError, match=said) as refused:
        checks.weight("weight", 250, spec)
    assert "set max_weight" not in str(refused.value)
    # A sum of three servers may have weights.
    with pytest.raises(bs.InputError, match="set max_weight = 250 or more in it"):
        checks.weight("weight", 250, place.spec(protocol="mpc3", parties=5))


def test_clipping_of_the_own_update_is_told_to_the_party_only(place, partner, caplog):
    spec = place.spec(parties=2, min_parties=2, rounds=2)
    seen = []
    with caplog.at_level(logging.INFO, "blindsum"), place.coordinator(spec) as coordinator:
        other = partner(place, coordinator, "b", np.zeros(4))
        with place.join(coordinator, "a") as job:
            for rnd in job.rounds():
                rnd.submit(np.array([5.0, 5.0, 0.5, -1.0]))
                seen.append(rnd.outcome().clipped)
        statuses = json.dumps([status["round"] for status in coordinator.statuses()])
        other.wait()
    assert seen == [bs.Clipped(2, None)] * 2
    assert all(seen)
    assert "clip" not in statuses
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert "starts from zeros" in said.pop(0)[1]
    assert [level for level, _ in said] == [logging.WARNING, logging.INFO]
    assert "2 of 4 coordinates of this party's update were cut off (clip = 1)" in said[0][1]
    assert "raise clip in the job" in said[0][1]


def test_scaling_by_the_norm_is_told(place):
    spec = place.spec(parties=1, clipping="l2", clip=2.5)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as job:
        rnd = job.next_round()
        rnd.submit(np.array([3.0, 4.0, 0.0, 0.0]))
        assert rnd.outcome().clipped == bs.Clipped(0, 0.5)
        assert rnd.outcome().clipped


def test_what_is_not_clipped_says_so(place):
    spec = place.spec(parties=1, encoding="integers", bits=8)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as job:
        rnd = job.next_round()
        rnd.submit([1, 2, 3, 255])
        assert rnd.outcome().clipped == bs.Clipped(0, None)
        assert not rnd.outcome().clipped


@pytest.mark.parametrize("clipping", ["tensor", "l2"])
def test_the_advice_on_clipping_is_a_wider_clip_and_nothing_narrower(caplog, clipping):
    log = ClippingLog(
        bs.JobSpec(protocol="plain", parties=3, dim=4, encoding=bs.Quantised(clipping=clipping))
    )
    log.tell(1, Clipped(0, 0.1) if clipping == "l2" else Clipped(2, None))
    (said,) = caplog.messages
    assert said.endswith("raise clip in the job")
    assert not any(f'"{other}"' in said for other in ("tensor", "l2", "aciq"))
    assert ("was multiplied by 0.1 " in said) == (clipping == "l2")


def test_the_advice_on_a_bound_of_the_norm_names_it(caplog):
    encoding = bs.Quantised(bits=8, max_norm=0.5)
    log = ClippingLog(bs.JobSpec(protocol="plain", parties=3, dim=4, encoding=encoding))
    log.tell(1, Clipped(0, 0.1))
    (said,) = caplog.messages
    assert "was multiplied by 0.1 (max_norm = 0.5)" in said
    assert "raise max_norm in the job" in said
    assert "more bits" in said


def test_every_round_says_how_an_update_was_clipped():
    assert _clipping({"coordinates": 0, "scaled_by": 0.1}).endswith("clipped: multiplied by 0.1")
    assert (
        _clipping({"coordinates": 2, "scaled_by": None}) == "; 2 coordinates of this party's update clipped"
    )
    assert _clipping({}) == ""
