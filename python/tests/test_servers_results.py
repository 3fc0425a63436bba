"""Who learns what three servers computed, over mutual TLS: everybody, or the parties alone."""

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


def play(place, spec, updates):
    """All rounds of the job: what each party has after each, and what the coordinator has in the end."""
    found = {}
    with place.coordinator(spec) as coordinator:
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
