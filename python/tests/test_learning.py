"""Server steps and first models: over the network, in processes that are killed, on the command line."""

import json

import numpy as np
import pytest

import blindsum as bs
from blindsum import machines
from blindsum.cli import main
from blindsum.stores import back_up, stored_jobs, stored_model

ADAM = {"name": "fedadam", "learning_rate": 0.1, "beta1": 0.5, "beta2": 0.75, "tau": 0.01}
UPDATES = [
    np.array([0.5, -0.25, 0.0, 1.0]),
    np.array([0.25, 0.25, -0.5, 0.0]),
    np.array([1.0, 0.0, 0.125, -1.0]),
]


def adam(means):
    """The model after these means, from zeros: every number as a single."""
    x, m = np.zeros(4, np.float32), np.zeros(4, np.float32)
    v = np.full(4, np.float32(0.01**2))
    for mean in means:
        wide = mean.astype(np.float64)
        m = (0.5 * m.astype(np.float64) + (1.0 - 0.5) * wide).astype(np.float32)
        v = (0.75 * v.astype(np.float64) + (1.0 - 0.75) * (wide * wide)).astype(np.float32)
        step = 0.1 * m.astype(np.float64) / (np.sqrt(v.astype(np.float64)) + 0.01)
        x = (x.astype(np.float64) + step).astype(np.float32)
    return x


def job(place, **fields):
    return place.spec(parties=1, min_parties=1, **{"rounds": 3} | fields)


def play(session, updates):
    """Takes part in a round with each update; gives the means and the models after them."""
    means, models = [], []
    for update in updates:
        current = session.next_round()
        current.submit(update)
        means.append(current.result())
        models.append(current.outcome().model)
    return means, models


def test_adam_is_computed_by_everybody_and_survives_a_restart_and_a_backup(place, tmp_path):
    spec = job(place).replace(step=ADAM)
    store, copy = tmp_path / "job.sqlite", tmp_path / "copy.sqlite"
    with place.coordinator(spec, store=store) as coordinator, place.join(coordinator, "a") as session:
        before, models = play(session, UPDATES[:2])
        back_up(store, copy)
    assert np.array_equal(models[-1], adam(before))
    assert np.array_equal(stored_model(store, "job", 2), models[-1])
    for path in (store, copy):
        # Another process of the party has nothing but what the coordinator sends.
        with place.coordinator(spec, store=path) as coordinator, place.join(coordinator, "a") as session:
            current = session.next_round()
            assert np.array_equal(current.model, models[-1])
            current.submit(UPDATES[2])
            mean = current.result()
            assert np.array_equal(current.outcome().model, adam([*before, mean]))
            assert session.next_round() is None
            assert np.array_equal(session.final_model, adam([*before, mean]))


def test_a_job_is_read_and_refused_by_its_fields():
    spec = bs.JobSpec(protocol="plain", parties=2, dim=4, step=bs.FedAdam(learning_rate=0.5))
    assert (spec.step.name, spec.step.learning_rate, spec.step.beta1) == ("fedadam", 0.5, 0.9)
    assert spec.hash != bs.JobSpec(protocol="plain", parties=2, dim=4).hash
    assert bs.JobSpec.from_dict(spec.to_dict()) == spec
    flat = bs.JobSpec.from_settings(
        [("protocol", "plain"), ("parties", "2"), ("dim", "4"), ("step", "fedadam"), ("learning_rate", "0.5")]
    )
    assert flat == spec
    for fields, field in (
        ({"step": ADAM, "model_update": "replace"}, "step"),
        ({"step": {"name": "fedavgm", "momentum": 1.0}}, "step.momentum"),
        ({"step": {"name": "fedadagrad", "beta2": 0.5}}, "step.beta2"),
        ({"initial": "first-party", "model_update": "none"}, "initial"),
        ({"initial": "nobody"}, "initial"),
    ):
        with pytest.raises(bs.SpecError) as refused:
            bs.JobSpec(protocol="plain", parties=2, dim=4, **fields)
        assert refused.value.field == field


class Values:
    """As the vectors of a network: ``values()`` gives them."""

    def __init__(self, values):
        self._values = values

    def values(self):
        return self._values


@pytest.mark.parametrize(
    "initial", [np.full(4, 0.5), lambda: np.full((2, 2), 0.5, np.float32), Values(np.full(4, 0.5))]
)
def test_a_party_gives_the_first_model(place, tmp_path, capsys, initial):
    store = tmp_path / "job.sqlite"
    spec = job(place, rounds=1).replace(initial="first-party")
    with place.coordinator(spec, store=store) as coordinator:
        assert (coordinator.starts_from.kind, coordinator.starts_from.hash) == ("awaited", "")
        assert stored_model(store, "job", 0) is None
        with place.join(coordinator, "a", initial=initial) as session:
            current = session.next_round()
            assert current.model.tolist() == [0.5] * 4
            current.submit(np.zeros(4))
            assert current.result() is not None
        last = list(coordinator.statuses())[-1]
    assert last["model_from"] == stored_jobs(store)[0]["model_from"] == "a"
    assert main(["status", "--store", str(store)]) == 0
    assert "the first model is from a\n" in capsys.readouterr().out
    assert stored_model(store, "job", 0).tolist() == [0.5] * 4
    with place.coordinator(spec.replace(), store=store) as coordinator:
        assert coordinator.starts_from.version == 1


@pytest.mark.parametrize(
    ("initial", "says"),
    [
        (np.zeros(3), "initial: 3 coordinates"),
        (np.full(4, np.nan), "initial: coordinate 0"),
        (np.full(4, 1e300), "initial: coordinate 0"),
        ({"weight": np.zeros(4)}, "initial: "),
        ("no array", "initial: "),
    ],
)
def test_what_is_no_first_model_is_refused_at_home(place, initial, says):
    spec = job(place).replace(initial="first-party")
    with place.coordinator(spec) as coordinator, pytest.raises(bs.InputError, match=says):
        place.join(coordinator, "a", initial=initial)


def test_a_first_model_that_nobody_asks_for_is_refused(place):
    with (
        place.coordinator(job(place)) as coordinator,
        pytest.raises(bs.InputError, match="leave initial out"),
    ):
        place.join(coordinator, "a", initial=np.zeros(4))
    for initial in ("first-party", "zeros"):
        spec = job(place).replace(initial=initial)
        with pytest.raises(bs.InputError, match="give no model"):
            bs.Coordinator(spec, identity=place.identity("agg"), ca=place.folder, model=np.zeros(4))
        with pytest.raises(bs.InputError, match="give no model"):
            machines.ServerMachine.open(spec, ca=place.folder, model=np.zeros(4))


def test_a_job_whose_zeros_are_meant_warns_nobody(place, caplog):
    spec = job(place, dim=16, rounds=1).replace(initial="zeros")
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        assert coordinator.starts_from.kind == "zeros"
        for current in session.rounds():
            current.submit(np.zeros(16))
    assert not [record for record in caplog.records if "all zeros" in record.getMessage()]


def test_the_command_gives_a_first_model(place, tmp_path, processes):
    np.save(tmp_path / "first.npy", np.full(4, 0.25, np.float32))
    (tmp_path / "zero.py").write_text("def step(model, round):\n    return model * 0\n")
    spec = job(place, rounds=1).replace(initial="first-party", step=ADAM)
    with place.coordinator(spec) as coordinator:
        words = ("--job", "job", "--ca", place.folder / "ca.pem", "--identity", place.identity("a"))
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        give = ("--initial", "first.npy", "--out", "last.npy", "--json")
        party = processes("join", url, *words, "--train", "zero:step", *place.take_any, *give)
        out, err = party.communicate(timeout=60)
        assert party.returncode == 0, err
        assert list(coordinator.statuses())[-1]["model_from"] == "a"
    assert json.loads(out.splitlines()[-1])
    # Rounding moves zeros by a little.
    assert np.allclose(np.load(tmp_path / "last.npy"), 0.25, atol=1e-3)


def test_a_file_that_is_no_model_is_named(place, tmp_path, capsys, monkeypatch):
    (tmp_path / "first.npy").write_text("no array")
    (tmp_path / "unchanged.py").write_text("def step(model, round):\n    return model * 0\n")
    monkeypatch.chdir(tmp_path)
    words = ["join", "https://localhost:1", "--job", "job", "--ca", str(place.folder / "ca.pem")]
    words += ["--identity", str(place.identity("a")), "--train", "unchanged:step"]
    assert main([*words, "--initial", str(tmp_path / "first.npy")]) != 0
    assert "--initial" in capsys.readouterr().err


def test_a_coordinator_that_is_killed_goes_on_with_the_state(place, tmp_path, processes):
    """It ends by SIGKILL after round 2; another one, and a party without memory, go on with m and v."""
    spec = job(place).replace(step=ADAM)
    (tmp_path / "job.json").write_text(spec.to_json(said=True))
    store = tmp_path / "job.sqlite"
    identity = ("--cert", place.folder / "agg.pem", "--key", place.folder / "agg.key")
    serve = (
        "serve",
        "--job",
        tmp_path / "job.json",
        "--listen",
        "127.0.0.1:0",
        "--store",
        store,
        "--json",
        *identity,
    )
    means = []
    for updates in (UPDATES[:2], UPDATES[2:]):
        coordinator = processes(*serve, "--ca", place.folder / "ca.pem", "--limit", "farewell=5")
        ready = json.loads(coordinator.stdout.readline())
        with bs.join(
            f"https://localhost:{ready['address'].rpartition(':')[2]}",
            job="job",
            identity=place.identity("a"),
            ca=place.folder / "ca.pem",
            policy=bs.Policy(**place.any_job),
        ) as session:
            seen, models = play(session, updates)
            means += seen
            coordinator.kill()
            coordinator.wait()
    assert np.array_equal(models[-1], adam(means))
