"""Training in the simulator: real rounds of every protocol, in virtual time."""

import numpy as np
import pytest

import blindsum as bs
from blindsum.training import Link

TARGETS = [np.array([0.5, 0.0, 0.25]), np.array([0.25, 0.25, 0.0]), np.array([0.0, 0.5, 0.5]), np.ones(3) / 4]


def step(model, data, turn):
    return data - model, None, {"distance": float(np.abs(data - model).max())}


def distance(model):
    return {"distance": float(np.abs(model - np.mean(TARGETS, axis=0)).max())}


def job(protocol="secagg", **fields):
    settings = {"protocol": protocol, "parties": 4, "dim": 3, "rounds": 3, "adversary": "semi-honest"}
    metrics = [bs.Metric("distance", 0, 4)]
    return bs.JobSpec(**{**settings, "metrics": metrics, **fields})


@pytest.mark.parametrize("protocol", bs.protocols())
def test_every_protocol_trains_as_plain_averaging_does(protocol):
    malicious = protocol == "pss-malicious"
    spec = job(protocol, **({"parties": 6, "adversary": "active"} if malicious else {}))
    parts = (TARGETS * 2)[: spec.parties]
    record = bs.simulate_training(spec, step, parts, evaluate=distance, plain=True)
    assert [one.outcome for one in record.rounds] == ["sum"] * 3
    assert record.protocol == protocol
    for number, one in enumerate(record.rounds, 1):
        assert len(one.survivors) == spec.parties
        # Every round adds an error of its own to the model.
        bound = number * (spec.max_error + 2**-22)
        assert abs(one.test["distance"] - one.plain_test["distance"]) <= bound
        assert one.deviation <= record.error_bound
        assert one.reported == {"distance": 1.0}
    wanted = np.mean([np.abs(part).max() for part in parts])
    assert record.rounds[0].metrics["distance"] == pytest.approx(wanted, abs=1e-6)


def test_a_party_without_an_update_is_in_no_round():
    given = {1: None, 2: np.full(3, np.nan)}
    spec = job(parties=5)

    def some(model, data, turn):
        return given[turn.rank] if turn.rank in given and turn == 2 else data - model

    parts = [*TARGETS, []]
    record = bs.simulate_training(spec, some, parts, present=lambda rank, number: rank != 3 or number > 2)
    first, second, third = record.rounds
    assert first.lost == {"party-4": "it is not there in this round", "party-5": "it has no data"}
    assert first.roster == first.survivors == ("party-1", "party-2", "party-3")
    assert third.survivors == ("party-1", "party-2", "party-3", "party-4")
    assert second.outcome == "abort"
    assert second.fault == "1 parties have an update, and a round needs 3"
    assert second.lost["party-2"] == "its training function gave no update, or weight 0"
    assert second.lost["party-3"] == "its update is not finite"


def test_whoever_is_slow_costs_time_and_is_lost_after_the_deadline():
    spec = job("secagg+", dropout=0.25, input_deadline=30.0)
    seconds = [1.0, 2.0, 25.0, 40.0]
    record = bs.simulate_training(spec, step, TARGETS, compute=lambda rank, number: seconds[rank] / number)
    first, second, third = record.rounds
    assert first.survivors == ("party-1", "party-2", "party-3")
    assert first.lost == {"party-4": "was too late"}
    assert first.seconds == pytest.approx(30.0)
    assert len(second.survivors) == 4
    assert second.seconds == pytest.approx(20.0)
    assert third.seconds == pytest.approx(40.0 / 3)
    far = bs.simulate_training(spec, step, TARGETS, link=Link(latency=0.5), rounds=1)
    assert far.rounds[0].seconds == pytest.approx(4.0)


def test_a_ring_waits_for_its_slowest_party_once():
    spec = job("paillier-ring", dim=3)
    record = bs.simulate_training(spec, step, TARGETS, compute=[3.0, 5.0, 4.0, 7.0], rounds=1)
    assert record.rounds[0].seconds == pytest.approx(7.0)


@pytest.mark.parametrize("fields", [{}, {"step": "fedadam"}, {"encoding": bs.Quantised(clipping="aciq")}])
def test_a_run_goes_on_where_it_was_stopped(tmp_path, fields):
    spec = job(rounds=6, **fields)
    whole = bs.simulate_training(spec, step, TARGETS, evaluate=distance, plain=True, seed=5)

    class Stopped(Exception):
        pass

    def stop(one):
        if one.number in (2, 5):
            raise Stopped

    out = tmp_path / "run"
    arguments = {"evaluate": distance, "plain": True, "seed": 5, "out": out}
    for _ in range(2):
        with pytest.raises(Stopped):
            bs.simulate_training(spec, step, TARGETS, progress=stop, **arguments)
    seen = []
    again = bs.simulate_training(spec, step, TARGETS, progress=seen.append, **arguments)
    assert [one.number for one in seen] == [6]
    assert [(one.test, one.plain_test) for one in again.rounds] == [
        (one.test, one.plain_test) for one in whole.rounds
    ]
    with pytest.raises(bs.ConfigError, match="another job, or with other settings"):
        bs.simulate_training(spec, step, TARGETS, **{**arguments, "seed": 6})
    (out / "state.npz").write_bytes(b"no archive")
    with pytest.raises(bs.ConfigError, match="cannot be used"):
        bs.simulate_training(spec, step, TARGETS, **arguments)


def test_sparse_rounds_go_on_with_what_was_not_sent(tmp_path):
    spec = job("flashe", rounds=5, dim=30).replace(protocol={"name": "flashe", "density": 0.2})
    rng = np.random.default_rng(1)
    parts = [rng.uniform(-1, 1, 30) for _ in range(4)]

    def train(model, data, turn):
        return 0.3 * (data - model)

    tested = {"evaluate": lambda model: {"norm": float(np.linalg.norm(model))}}
    whole = bs.simulate_training(spec, train, parts, **tested)
    bs.simulate_training(spec, train, parts, rounds=2, out=tmp_path, **tested)
    again = bs.simulate_training(spec, train, parts, out=tmp_path, **tested)
    assert [one.test for one in again.rounds] == [one.test for one in whole.rounds]


def test_weights_are_the_numbers_of_examples():
    spec = job(dim=1, metrics=[], encoding=bs.Quantised(max_weight=10))
    parts = [[0.1] * 5, [0.2] * 2, [0.3], [0.4] * 2]
    record = bs.simulate_training(
        spec,
        lambda model, data, turn: np.array([np.mean(data)]) - model,
        parts,
        rounds=1,
        evaluate=lambda model: {"value": float(model[0])},
    )
    wanted = (0.1 * 5 + 0.2 * 2 + 0.3 + 0.4 * 2) / 10
    assert record.rounds[0].test["value"] == pytest.approx(wanted, abs=spec.max_error)


def test_hyperparameters_and_seeds_reach_the_step():
    seen = []
    spec = job(parameters={"learning_rate": 0.5})

    def note(model, data, turn):
        seen.append(
            (int(turn), turn.number, turn.party, turn.rank, turn.parameters["learning_rate"], turn.seed)
        )
        return data - model

    record = bs.simulate_training(spec, note, TARGETS, rounds=2, seed=3)
    assert [one[:5] for one in seen[:2]] == [(1, 1, "party-1", 0, 0.5), (1, 1, "party-2", 1, 0.5)]
    assert len({one[5] for one in seen}) == 8
    assert record.parameters == {"learning_rate": 0.5}
    assert record.origin["seed"] == "3"


MEASURED = job(metrics=[bs.Metric("loss", 0, 1)])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"parts": TARGETS[:3]}, bs.InputError, "parts: 3 given, but the job has parties = 4"),
        ({"step": 5}, bs.ConfigError, "step: must be a function"),
        ({"evaluate": 5}, bs.ConfigError, "evaluate: must be a function"),
        ({"rounds": 0}, bs.ConfigError, "rounds: 0 must be a whole number from 1"),
        ({"compute": "fast"}, bs.ConfigError, "compute: 'fast' must be seconds"),
        ({"compute": [1.0]}, bs.ConfigError, "compute: 1 given"),
        ({"compute": -1.0}, bs.ConfigError, "compute: -1.0 must be a number from 0"),
        ({"link": [Link()]}, bs.ConfigError, "link: must be one"),
        ({"drop": 2}, bs.ConfigError, "drop: 2 must be a number from 0 to 1"),
        ({"step": lambda *_: (1, 2, 3, 4)}, bs.InputError, "a tuple of 4 values"),
        (
            {"step": lambda m, d, t: (d, 1, {"accuracy": 1})},
            bs.InputError,
            "'accuracy' is no metric of the job",
        ),
        (
            {"step": lambda m, d, t: (d, 1, 7)},
            bs.InputError,
            "the training step of party-1 in round 1: metrics: must map names to numbers, not int",
        ),
        (
            {"spec": MEASURED, "step": lambda m, d, t: (d, 1, {"loss": "good"})},
            bs.InputError,
            r"party-1 in round 1: metrics\['loss'\]: must be a number, not str",
        ),
        ({"parts": None}, bs.InputError, "parts: must be a list of one item per party, not None"),
        ({"parts": "abcd"}, bs.InputError, "parts: must be a list of one item per party.* not a str"),
        ({"parts": dict(zip("abcd", TARGETS, strict=True))}, bs.InputError, "parts: .* not a dict; give"),
        ({"link": 5}, bs.ConfigError, "link: must be one"),
        ({"progress": 5}, bs.ConfigError, "progress: must be a function, not a int"),
        ({"step": None}, bs.ConfigError, "step: must be a function"),
        ({"evaluate": lambda _: 0.5}, bs.InputError, "version 1 of the model must be numbers by their"),
        ({"evaluate": lambda _: {"a": "x"}}, bs.InputError, "version 1 of the model, a: str is no number"),
        ({"evaluate": lambda _: {3: 1.0}}, bs.InputError, "version 1 of the model, 3: is no text"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change, error, text):
    arguments = {"spec": job(), "step": step, "parts": TARGETS, **change}
    with pytest.raises(error, match=text):
        bs.simulate_training(**arguments)


def test_links_have_speeds():
    for name in ("up", "down"):
        with pytest.raises(bs.ConfigError, match=f"link.{name}: 0 must be above 0"):
            Link(**{name: 0})


def test_a_job_without_end_needs_a_number_of_rounds():
    spec = job(rounds=0)
    with pytest.raises(bs.ConfigError, match="say how many rounds to simulate"):
        bs.simulate_training(spec, step, TARGETS)
