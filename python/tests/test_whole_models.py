"""A whole model where the job adds updates to its model is told in the log of the party that gives it."""

import logging

import numpy as np
import pytest

import blindsum as bs
from blindsum.whole_models import LOOKS, WholeModelLog, looks_whole

DIM = 40
START = np.linspace(-1, 1, DIM, dtype=np.float32)
SMALL = np.full(DIM, 0.01, np.float32)


def warnings_of(place, caplog, give, model=START, rounds=4, **fields):
    spec = place.spec(parties=1, min_parties=1, dim=DIM, rounds=rounds, **fields)
    with (
        caplog.at_level(logging.WARNING, "blindsum"),
        place.coordinator(spec, model=model) as coordinator,
        place.join(coordinator, "a") as session,
    ):
        for current in session.rounds():
            current.submit(give(current.model))
    return [line for line in map(logging.LogRecord.getMessage, caplog.records) if "whole model" in line]


def test_whole_models_are_told_once_and_what_to_do(place, caplog):
    (line,) = warnings_of(place, caplog, lambda model: model + SMALL)
    assert "round 2" in line
    for part in ("rnd.model", "change()", "model_update = replace"):
        assert part in line


def test_differences_are_not_whole_models(place, caplog):
    assert warnings_of(place, caplog, lambda _: SMALL) == []


def test_a_job_that_replaces_takes_whole_models(place, caplog):
    assert warnings_of(place, caplog, lambda model: model + SMALL, model_update="replace") == []


def test_after_zeros_the_second_round_says_nothing(place, caplog):
    # Gradient descent from zeros: the second update is nearly the model after the first one.
    assert warnings_of(place, caplog, lambda model: 0.1 * (START - model), model=None) == []


@pytest.mark.parametrize(("whole", "lines"), [(True, 1), (False, 0)])
def test_a_simulated_run_tells_it_too(caplog, whole, lines):
    spec = bs.JobSpec(protocol="secagg", parties=3, dim=DIM, rounds=4, adversary="semi-honest")

    def step(model, data, turn):
        return model + SMALL if whole else SMALL

    with caplog.at_level(logging.WARNING, "blindsum"):
        bs.simulate_training(spec, step, [1, 2, 3], model=START)
    said = [record.getMessage() for record in caplog.records if "whole model" in record.getMessage()]
    assert len(said) == lines
    assert all("round 2: the update of party-1 looks like" in line for line in said)


@pytest.mark.parametrize("size", [1, 3 << 20])
def test_what_looks_whole(size):
    model = np.linspace(1, 2, size)
    for factor, whole in (
        (1, True),
        (0.8, True),
        (1.2, True),
        (0.5, False),
        (2, False),
        (-1, False),
        (0, False),
    ):
        assert looks_whole(factor * model, model) == whole
    assert not looks_whole(model, np.zeros(size))
    assert not looks_whole(np.full(size, 1e38, np.float32), np.full(size, 1e38, np.float32))


def test_only_some_updates_are_looked_at(caplog):
    log = WholeModelLog(bs.JobSpec(protocol="plain", parties=3, dim=DIM))
    for number in range(LOOKS):
        log.look_at(number + 3, number + 2, START, SMALL)
    log.look_at(LOOKS + 3, LOOKS + 2, START, START)
    assert caplog.records == []
