"""`blindsum status`, and what else reads a store: the words are those of `blindsum admin describe`."""

import threading

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.cli.operators import lines_of
from blindsum.stores import stored_faults, stored_model, stored_rounds, stored_spec, stored_versions


def test_status_names_who_sat_a_round_out_as_describe_does(place, partner, tmp_path, capsys):
    store = tmp_path / "job.sqlite"
    place.operator("olga-status")
    spec = place.spec(parties=3, min_parties=2, rounds=1)
    options = {"store": store, "admin": "127.0.0.1:0", "stop_when_done": False}
    with place.coordinator(spec, **options) as coordinator:
        url = f"https://localhost:{coordinator.admin.rpartition(':')[2]}"
        admin = bs.Admin(url, identity=place.folder / "olga-status", ca=place.folder / "ca.pem")
        for name in "ab":
            partner(place, coordinator, name, np.ones(4))

        def leave():
            with place.join(coordinator, "c") as session:
                session.next_round(timeout=30)

        thread = threading.Thread(target=leave)
        thread.start()
        for status in coordinator.statuses():
            if status["state"] == "done":
                break
        thread.join()
        described = list(lines_of(admin.describe("job")))
    assert main(["status", "--store", str(store)]) == 0
    said = capsys.readouterr().out.splitlines()
    rounds = [line for line in described if "sum of 2 of 3 parties" in line or "sat out: c: " in line]
    assert len(rounds) == 2, described
    assert [line for line in said if line in rounds] == rounds, said


def test_a_job_that_a_store_does_not_have_is_refused(place, tmp_path):
    store = tmp_path / "job.sqlite"
    with place.coordinator(place.spec(), store=store):
        pass
    assert stored_rounds(store, "job") == stored_faults(store, "job") == []
    for read in (stored_rounds, stored_faults, stored_versions, lambda *it: stored_model(*it, 0)):
        with pytest.raises(bs.ConfigError, match="is 'zzz', and must be one of the store's jobs: job"):
            read(store, "zzz")


def test_a_job_that_has_failed_says_how_it_goes_on(place, tmp_path, capsys):
    store = tmp_path / "job.sqlite"
    limits = {"patience": 0.3, "reconnect_grace": 0.1}
    with (
        place.coordinator(place.spec(), store=store, limits=limits) as coordinator,
        pytest.raises(bs.BlindsumError, match="0 parties were connected within"),
    ):
        list(coordinator.statuses())
    assert main(["status", "--store", str(store)]) == 0
    said = capsys.readouterr().out
    assert "are needed; when that is mended: blindsum admin resume job\n" in said


READS = {
    "rounds": stored_rounds,
    "faults": stored_faults,
    "versions": stored_versions,
    "spec": stored_spec,
    "model": lambda store, job: stored_model(store, job, 0),
}


@pytest.mark.parametrize("what", READS)
def test_a_store_without_jobs_says_so(what, tmp_path, capsys):
    store = tmp_path / "empty.sqlite"
    store.touch()
    with pytest.raises(bs.ConfigError, match="'job', and must be one of the store's jobs: it has none"):
        READS[what](store, "job")
    with pytest.raises(bs.ConfigError, match="job: must be a text, not a NoneType"):
        READS[what](store, None)
    assert main(["status", "--store", str(store)]) == 1
    assert "has no job; `blindsum serve --store` makes one" in capsys.readouterr().err
    assert main(["status", "--store", str(store), "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
