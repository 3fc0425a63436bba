"""The weight of an update that comes without one."""

import numpy as np
import pytest

import blindsum as bs
from blindsum.testing import Cluster, PartyProcess
from blindsum.weights import DefaultWeight


def spec(max_weight):
    return bs.JobSpec(protocol="plain", parties=2, dim=4, encoding=bs.Quantised(max_weight=max_weight))


def said(caplog):
    return [record.message for record in caplog.records if "without a weight" in record.message]


def test_the_first_update_without_a_weight_is_said_once(place, caplog):
    with (
        place.coordinator(place.spec(parties=1, rounds=3, max_weight=10)) as coordinator,
        place.join(coordinator, "a") as job,
    ):
        weights = []
        for rnd in job.rounds():
            rnd.submit(np.full(4, 0.5))
            weights.append(rnd.outcome().total_weight)
    assert weights == [1, 1, 1]
    (warning,) = said(caplog)
    assert "counts as 1, in a job with weights up to 10" in warning
    assert "weight=len(data)" in warning


def test_a_weight_for_all_updates_is_chosen_with_join(place, caplog):
    with (
        place.coordinator(place.spec(parties=1, rounds=3, max_weight=10)) as coordinator,
        place.join(coordinator, "a", weight=7) as job,
    ):
        # An own weight goes before it.
        asked = [{}, {"weight": 2}, {"weight": None}]
        weights = []
        for more in asked:
            job.model()
            weights.append(job.aggregate(np.full(4, 0.5), **more).total_weight)
    assert weights == [7, 2, 7]
    assert said(caplog) == []


@pytest.mark.parametrize(("weight", "rule"), [(11, "max_weight = 10"), (0, "from 1"), (1.5, "whole number")])
def test_a_weight_that_the_job_does_not_take_leaves_the_job(place, weight, rule):
    with (
        place.coordinator(place.spec(parties=1, rounds=1, max_weight=10)) as coordinator,
        pytest.raises(bs.InputError, match=rule),
    ):
        place.join(coordinator, "a", weight=weight)


def test_who_means_one_says_so_and_jobs_without_weights_say_nothing(caplog):
    assert DefaultWeight(spec(10)).of(1) == 1
    assert DefaultWeight(spec(1)).of(None) == 1
    assert said(caplog) == []
    assert DefaultWeight(spec(10)).of(None) == 1
    assert len(said(caplog)) == 1


def test_the_command_takes_a_weight_for_all_updates(tmp_path):
    (tmp_path / "own_training.py").write_text("def step(model, round):\n    return model + 0.25\n")
    environment = {"PYTHONPATH": str(tmp_path)}
    own = {"a": ("--weight", "3"), "b": ("--weight", "4"), "c": ()}
    members = [PartyProcess(name, "own_training:step", environment, more) for name, more in own.items()]
    job = bs.JobSpec(
        protocol="plain", parties=3, min_parties=3, dim=4, rounds=1, encoding=bs.Quantised(max_weight=10)
    )
    with Cluster(job, members, tmp_path) as cluster:
        last = list(cluster.statuses())[-1]
        logs = {name: "\n".join(cluster.log(name)) for name in own}
    assert last["round"]["total_weight"] == 8
    assert [name for name, log in logs.items() if "without a weight" in log] == ["c"]


def test_an_update_that_is_refused_has_no_weight_to_be_told_of(place, caplog):
    with (
        place.coordinator(place.spec(parties=1, rounds=1, max_weight=10)) as coordinator,
        place.join(coordinator, "a") as job,
    ):
        rnd = job.next_round()
        with pytest.raises(bs.InputError, match="3 elements"):
            rnd.submit(np.zeros(3))
        assert said(caplog) == []
        rnd.submit(np.zeros(4))
        rnd.result()
    assert len(said(caplog)) == 1
