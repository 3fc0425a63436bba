"""Metrics against a coordinator that goes back, corrupt parties, and parties that stand alone."""

import numpy as np
import pytest
from machine_world import World

import blindsum as bs
from blindsum import machines

LOSS = bs.Metric("loss", 0.0, 20.0)
TWO = [LOSS, bs.Metric("accuracy", 0.0, 1.0)]
PLAIN = bs.Policy(allowed_protocols=("plain",), require_adversary=None)


def again_without_the_first(*, suspends=False, policy=None, **fields):
    """Round 1 of six parties, whose sum is kept from them; then the others from the same model."""
    noise = np.random.default_rng(1)
    fields = {"protocol": "secagg+", "parties": 6, "min_parties": 4, "dim": 3, "rounds": 1} | fields
    world = World(metrics=[LOSS], **fields)
    for value in (7.5, 1.0, 2.0, 3.0, 4.0, 5.0):
        world.add(
            metrics={"loss": value},
            update=lambda number: noise.normal(size=3) * 0.1,
            suspends=suspends,
            policy=policy,
        )
    before = world.server.store

    def has_a_sum():
        round_ = world.server.status["round"]
        return bool(round_) and round_["state"] == "done"

    def flush():
        if has_a_sum():
            world.server.frames()
        else:
            World.flush(world)

    world.flush = flush
    world.run(until=has_a_sum)
    first = world.server.status["round"]
    del world.flush
    world.restore(before, world.parties[1:])
    world.run(connect=False)
    return world, first, world.server.status["round"]


@pytest.mark.parametrize("suspends", [False, True])
def test_two_sums_over_one_model_tell_nobodys_metric(suspends):
    world, first, second = again_without_the_first(suspends=suspends)
    assert (first["state"], second["state"]) == ("done", "done")
    assert len(first["survivors"]) == 6
    assert len(second["survivors"]) == 5
    assert first["metrics"]["loss"]["share"] == 1.0
    assert second["metrics"] == {"loss": {"value": None, "share": 0.0}}
    for party in world.parties:
        (result,) = party.sums.values()
        (warning,) = result.warnings
        assert "metrics were not reported in round 2" in warning
        assert "metrics come again with the next model" in warning


def test_without_a_model_the_policy_lifts_it():
    fields = {"model_update": "none", "min_parties": 6, "parties": 6}

    def reported(policy):
        world = World(protocol="secagg+", dim=3, rounds=2, metrics=[LOSS], **fields)
        for _ in range(6):
            world.add(metrics={"loss": 2.0}, policy=policy)
        world.run()
        rounds = world.parties[0].sums
        return [rounds[number].reported["loss"] for number in (1, 2)], rounds[2].warnings

    shares, (warning,) = reported(None)
    assert shares == [1.0, 0.0]
    assert "set min_cohort_change in this party's policy" in warning
    assert reported(bs.Policy(min_cohort_change=2)) == ([1.0, 1.0], ())


def test_the_next_model_has_metrics_again():
    world = World(protocol="secagg+", parties=4, dim=3, rounds=3, metrics=[LOSS])
    for _ in range(4):
        world.add(metrics={"loss": 2.0}, update=lambda number: np.full(3, 0.1))
    world.run()
    assert [result.reported["loss"] for result in world.parties[0].sums.values()] == [1.0] * 3
    assert all(result.warnings == () for result in world.parties[0].sums.values())


def result_of_the_first(metrics, *, suspends=False, **fields):
    fields = {"protocol": "secagg+", "parties": 5, "dim": 3, "rounds": 1} | fields
    world = World(metrics=TWO, **fields)
    for index in range(world.spec.parties):
        world.add(metrics=metrics.get(index), suspends=suspends)
    world.run()
    return world.parties[0].sums[1]


@pytest.mark.parametrize("suspends", [False, True])
def test_who_stands_alone_is_told_so_across_processes(suspends):
    metrics = {0: {"loss": 7.5, "accuracy": 3.0}} | {index: {"accuracy": 0.5} for index in range(1, 5)}
    warnings = result_of_the_first(metrics, suspends=suspends).warnings
    assert len(warnings) == 2
    assert any("metric loss was reported by this party alone" in one for one in warnings)
    assert any("metric accuracy was outside of its range" in one for one in warnings)


def test_corrupt_parties_beside_it_are_nobody():
    (warning,) = result_of_the_first({0: {"loss": 7.5}, 4: {"loss": 0.0}}).warnings
    assert "metric loss may have been reported by this party and no more than 1 others" in warning
    assert "counts on 1 corrupt parties" in warning
    assert result_of_the_first({index: {"loss": 1.0} for index in range(3)}).warnings == ()
    assert result_of_the_first({index: {"loss": 1.0} for index in range(5)}).warnings == ()


def test_of_weights_only_the_sum_is_known():
    weighted = {"encoding": bs.Quantised(max_weight=10)}
    everybody = {index: {"loss": 1.0} for index in range(5)}
    assert result_of_the_first(everybody, **weighted).warnings == ()
    (warning,) = result_of_the_first({index: {"loss": 1.0} for index in range(2)}, **weighted).warnings
    assert "no more than 1 others" in warning


def test_own_weight_is_nobody_else():
    world = World(
        protocol="secagg+", parties=5, dim=3, rounds=1, metrics=TWO, encoding=bs.Quantised(max_weight=10)
    )
    for index in range(5):
        world.add(metrics={"loss": 7.5} if index == 0 else {}, weight=9)
    world.run()
    (warning,) = world.parties[0].sums[1].warnings
    assert "metric loss was reported by this party alone" in warning


def test_words_that_stay_closed_tell_nobody_anything():
    world = World(
        protocol=bs.Flashe(density=0.5, min_contributors=4),
        parties=4,
        min_parties=3,
        dim=8,
        rounds=1,
        metrics=[LOSS],
        corrupt=0.0,
        adversary="semi-honest",
        input_deadline=5.0,
    )
    policy = bs.Policy(allowed_protocols=("flashe",), require_adversary=None)
    for index in range(4):
        world.add(metrics={"loss": 7.5 + index}, policy=policy)
    sits_out = world.parties[3]
    sits_out.update = lambda number: sits_out.machine.abandon(number) or np.zeros(8)
    sits_out.step = lambda frame: _sitting_out(sits_out, frame)
    world.run()
    for party in world.parties[:3]:
        (result,) = party.sums.values()
        assert (result.metrics, result.reported) == ({"loss": None}, {"loss": 0.0})
        assert result.warnings == ()


def _sitting_out(party, frame):
    machine = party.open()
    machine.connected() if frame is None else machine.receive(frame)
    machine.want_round()
    for event in machine.events():
        match event:
            case machines.RoundBegins(number=number, needs_update=True):
                machine.abandon(number)
            case machines.RoundLost() | machines.RoundRefused():
                machine.want_round()
            case machines.JobDone():
                party.is_over = True
    return machine.frames()


@pytest.mark.parametrize("words", ["ff00000000000000", "01000000ffffff7f"])
def test_one_corrupt_party_voids_a_metric_and_nothing_else(words):
    world = World(
        protocol="plain",
        parties=4,
        min_parties=3,
        dim=3,
        rounds=3,
        metrics=[LOSS],
        encoding=bs.Quantised(bits=30),
    )
    for _ in range(4):
        world.add(metrics={"loss": 10.0}, policy=PLAIN, update=lambda number: np.full(3, 0.5))
    honest, corrupt = bytes.fromhex("0100000000008000"), bytes.fromhex(words)
    changed = []

    def up(party, frame):
        if party.index != 3 or honest not in frame:
            return frame
        changed.append(frame)
        return frame.replace(honest, corrupt)

    world.up = up
    world.run()
    assert world.server.status["state"] == "done"
    assert len(changed) == 3
    told = "metric loss has no value in this round"
    assert any(told in fault for fault in world.server.status["round"]["faults"])
    assert world.server.status["round"]["metrics"]["loss"] == {"value": None, "share": 0.0, "void": True}
    for party in world.parties:
        assert len(party.sums) == 3
        for result in party.sums.values():
            assert np.allclose(result.mean, 0.5)
            assert (result.metrics, result.reported) == ({"loss": None}, {"loss": 0.0})
            assert any(told in warning for warning in result.warnings)
