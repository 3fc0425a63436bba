"""Who learns what three servers computed, over mutual TLS: everybody, the parties or the servers alone."""

import threading

import numpy as np
import pytest

import blindsum as bs
import blindsum.rules


def take_part(place, coordinator, name, update, found):
    """Give an update in each round."""
    with place.join(coordinator, name, give_up_after=20.0, state_dir=place.folder / f"of-{name}") as session:
        for current in session.rounds():
            current.submit(update)
            found.setdefault(name, []).append((current.result(), current.model.copy()))


def play(place, spec, updates, **options):
    """All rounds of the job: what each party has after each, and what the coordinator has in the end."""
    found = {}
    with place.coordinator(spec, **options) as coordinator:
        parties = [
            threading.Thread(target=take_part, args=(place, coordinator, name, update, found))
            for name, update in updates.items()
        ]
        for party in parties:
            party.start()
        for party in parties:
            party.join(60.0)
        statuses = list(coordinator.statuses())
    return found, statuses[-1]


UPDATES = {f"party-{rank}": np.array([0.1 * rank, -0.2, 0.3, 0.02 * rank]) for rank in range(4)}


@pytest.mark.parametrize("rule", ["fedavg", "clipped", "median"])
def test_parties_alone_have_the_result(place, rule):
    fields = {"protocol": "mpc3", "rule": rule, "result": "parties"}
    spec = place.spec(**fields, parties=4, rounds=2, dropout=0.0, min_parties=4)
    assert spec.hides_sum
    found, status = play(place, spec, UPDATES)
    assert status["rounds_done"] == 2
    rows = np.stack(list(UPDATES.values()))
    expected = np.median(rows, axis=0) if rule == "median" else rows.mean(axis=0)
    for of_party in found.values():
        assert len(of_party) == 2
        for mean, _ in of_party:
            assert np.abs(mean - expected).max() <= 2 * spec.max_error
        # Each round begins with what the one before made of the model.
        assert np.abs(of_party[1][1] - of_party[0][1] - expected).max() <= 2 * spec.max_error


@pytest.mark.parametrize("rule", ["fedavg", "clipped", "median"])
def test_servers_alone_have_the_result(place, tmp_path, rule):
    fields = {"protocol": "mpc3", "rule": rule, "result": "servers", "model_update": "none"}
    spec = place.spec(**fields, parties=4, rounds=2, dropout=0.0, min_parties=4)
    assert (spec.hides_sum, spec.tells_parties) == (False, False)
    folder = tmp_path / "results"
    found, status = play(place, spec, UPDATES, results=folder)
    assert status["rounds_done"] == 2
    for of_party in found.values():
        assert [mean.shape for mean, _ in of_party] == [(0,), (0,)]
    rows = np.stack(list(UPDATES.values()))
    expected = np.median(rows, axis=0) if rule == "median" else rows.mean(axis=0)
    # A server may also have one of a round that did not count.
    counted = sorted(file.name for file in folder.iterdir())
    assert len(counted) == 2
    assert counted[-1] == f"job-{status['round']['number']:06}.npy"
    for at in (folder, tmp_path / "results-1", tmp_path / "results-2"):
        for name in counted:
            mean = np.load(at / name)
            assert mean.dtype == np.float64
            assert np.abs(mean - expected).max() <= 2 * spec.max_error


def test_servers_alone_have_exact_sums_of_integers(place, tmp_path):
    fields = {"protocol": "mpc3", "result": "servers", "encoding": "integers", "bits": 20}
    spec = place.spec(**fields, parties=4, rounds=1, dropout=0.0, min_parties=4, model_update="none")
    rows = {f"party-{rank}": np.array([rank, 7, 1 << 19, 0], dtype=np.uint64) for rank in range(4)}
    folder = tmp_path / "results"
    _, status = play(place, spec, rows, results=folder)
    name = f"job-{status['round']['number']:06}"
    sums = np.load(folder / f"{name}-sums.npy")
    assert sums.dtype == np.uint64
    assert sums.tolist() == [6, 28, 1 << 21, 0]
    assert np.load(folder / f"{name}.npy").tolist() == [1.5, 7.0, 1 << 19, 0.0]


def test_a_coordinator_keeps_the_results_of_any_job_that_it_learns(place, tmp_path):
    spec = place.spec(protocol="secagg", adversary="semi-honest", parties=4, rounds=1, min_parties=4)
    folder = tmp_path / "results"
    _, status = play(place, spec, UPDATES, results=folder)
    expected = np.stack(list(UPDATES.values())).mean(axis=0)
    assert (
        np.abs(np.load(folder / f"job-{status['round']['number']:06}.npy") - expected).max() <= spec.max_error
    )


def test_a_folder_for_results_that_does_not_fit_the_job(place):
    hidden = place.spec(protocol="mpc3", result="parties", parties=4)
    with (
        pytest.raises(bs.ConfigError, match="results: only the parties"),
        place.coordinator(hidden, results=place.folder / "results"),
    ):
        pass
    alone = place.spec(protocol="mpc3", result="servers", parties=4, model_update="none")
    with pytest.raises(bs.ConfigError, match="name a folder for results"), place.coordinator(alone):
        pass
    wide = place.spec(encoding="integers", bits=64, parties=4)
    with (
        pytest.raises(bs.ConfigError, match="more than 64 bits"),
        place.coordinator(wide, results=place.folder / "results"),
    ):
        pass
    with pytest.raises(bs.ConfigError, match="model_update"):
        place.spec(protocol="mpc3", result="servers", parties=4, model_update="add")


def test_no_round_begins_without_the_root(place):
    spec = place.spec(
        protocol="mpc3", rule="fltrust", parties=5, rounds=1, dropout=0.0, join_deadline=0.5, bits=20
    )
    rows = {f"party-{rank}": np.array([0.1, -0.2, 0.3, 0.02 * rank]) for rank in range(4)}
    found, parties, begun = {}, [], False

    def start(name, update):
        parties.append(threading.Thread(target=take_part, args=(place, coordinator, name, update, found)))
        parties[-1].start()

    with place.coordinator(spec) as coordinator:
        for name, update in rows.items():
            start(name, update)
        for status in coordinator.statuses():
            if not begun and "begins without the party root" in status["warning"]:
                assert status["rounds_done"] == 0
                begun = True
                start("root", np.array([0.2, -0.4, 0.6, 0.0]))
        for party in parties:
            party.join(30.0)
    assert begun
    expected = bs.rules.fltrust(list(rows.values()), root=[0.2, -0.4, 0.6, 0.0])
    assert sorted(found) == [*rows, "root"]
    for of_party in found.values():
        assert np.abs(of_party[0][0] - expected).max() <= 1e-4
