"""Jobs of a real NVFlare in its simulator: `make nvflare`."""

import re
import threading

import numpy as np
import pytest
from nvflare_world_real import SITES, START, World, plain

import blindsum as bs
import blindsum.nvflare
from blindsum.nvflare.server import JobSettings


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def spec(**fields):
    """The specification of `SecureAggregator` with its defaults."""
    defaults = {
        "protocol": "secagg+",
        "adversary": "active",
        "corrupt": 0.1,
        "dropout": 0.1,
        "min_parties": 0,
        "clip": 1.0,
        "bits": 20,
        "max_weight": 100_000,
        "metrics": "",
        "join_deadline": 120.0,
        "stage_deadline": 30.0,
        "train_deadline": 600.0,
    }
    return JobSettings(**defaults | fields).spec("tumour", START.size, 4)


BOUND = spec().max_error


def test_the_server_of_fedavg_gets_the_mean_and_no_update(world):
    recipe = world.protected("sums")
    seen = world.witnessed(recipe)
    code, log, model = world.simulate(recipe)
    assert code == 0, log
    assert np.allclose(model, plain(), atol=2 * BOUND)
    lines = seen.read_text().splitlines()
    assert len(lines) == 8
    for line in lines:
        assert "array([], dtype=float32)" in line
        # The mean of the metric that is declared, and nothing of the other one.
        assert "'loss': 3.00" in line or "'loss': 2.99" in line
        assert "secret" not in line
        assert "'NUM_STEPS_CURRENT_ROUND': 1," in line
    assert len({re.search("'result': '([0-9a-f]{64})'", line)[1] for line in lines}) == 2
    assert "metrics stay at this site, as the job does not declare them: secret" in log


def test_a_site_that_fails_is_left_out_at_once(world):
    code, log, model = world.simulate(world.patient("fails"), deeds={"site-2/1": "raise"})
    assert code == 0, log
    assert np.allclose(model, plain(1) + plain(1, (1, 3, 4)) - START, atol=2 * BOUND)
    # Its party leaves by itself as well, and either word may come first.
    assert re.search("round 1: not in the sum: site-2: .*(its task failed|it has left the job)", log)


def test_numbers_that_are_not_finite_leave_no_site(world):
    code, log, model = world.simulate(world.patient("nan", rounds=1), deeds={"site-1/0": "nan"})
    assert code == 0, log
    assert np.allclose(model, plain(1, (2, 3, 4)), atol=BOUND)
    assert "arrays['numpy_key'][0]: is not finite after training" in log


def test_a_site_without_steps_sits_the_round_out(world):
    code, log, model = world.simulate(world.patient("idle", rounds=1), deeds={"site-1/0": "no steps"})
    assert code == 0, log
    assert np.allclose(model, plain(1, (2, 3, 4)), atol=BOUND)


def test_a_round_without_a_sum_leaves_the_model_and_the_run_goes_on(world):
    deeds = {"site-1/0": "nan", "site-2/0": "nan"}
    code, log, model = world.simulate(world.patient("lost"), deeds=deeds)
    assert code == 0, log
    assert np.allclose(model, plain(1), atol=BOUND)
    assert "round 0 has no sum" in log


def test_a_late_site_never_gets_into_the_sum_of_a_later_round(world):
    there = world.folder / "there"
    job = world.gathered("late", rounds=2, least=3, train_deadline=15.0)
    # Site 4 ends its first round when the second one is under way.
    deeds = {"site-4/0": f"wait:{there}", "site-1/1": f"touch:{there}"}
    code, log, model = world.simulate(job, deeds=deeds)
    assert code == 0, log
    assert np.allclose(model, plain(1, (1, 2, 3)) + plain(1) - START, atol=2 * BOUND)


def test_fewer_threads_than_sites_are_refused_before_anything_waits(world):
    code, log, _ = world.simulate(world.protected("threads"), threads=2)
    assert code != 0
    assert "num_threads: 2 must be 4 or more" in log
    assert "SimEnv(num_threads=4)" in log


def test_a_filter_that_is_not_told_how_to_add_up_lets_nothing_out(world):
    recipe = world.recipe("plain")
    blindsum.nvflare.secure(recipe)
    seen = world.witnessed(recipe)
    code, log, _ = world.simulate(recipe)
    assert code != 0
    assert "plain: is not true, and nothing says how to add up the result of 'train'" in log
    assert {line.split()[1] for line in seen.read_text().splitlines()} == {"TASK_RESULT_FILTER_ERROR"}


def test_the_owner_of_a_site_may_let_updates_out(world):
    recipe = world.recipe("open", rounds=1)
    blindsum.nvflare.secure(recipe)
    code, log, model = world.simulate(recipe, local=world.settings(plain=True))
    assert code == 0, log
    assert np.allclose(model, plain(1))
    assert "updates of this site leave as they are" in log


def test_a_site_without_a_filter_is_in_no_sum_and_the_server_says_so(world):
    recipe = world.recipe("naked", aggregator=blindsum.nvflare.SecureAggregator(), rounds=1)
    code, log, model = world.simulate(recipe)
    assert code == 0, log
    assert "sent a result as it is: it has no SecureFilter" in log
    assert np.allclose(model, START)


def test_sites_reply_with_the_mean_where_a_coordinator_stands(world):
    recipe = world.recipe("mean")
    blindsum.nvflare.secure(recipe)
    seen = world.witnessed(recipe)
    found = []
    with bs.Coordinator(
        spec(metrics="loss:0:10"), identity=world.pki / "server", ca=world.pki, hosted=True
    ) as coordinator:

        def host():
            for number in range(2):
                found.append(coordinator.round(SITES, tag=number))

        thread = threading.Thread(target=host)
        thread.start()
        url = f"https://127.0.0.1:{coordinator.address.rpartition(':')[2]}"
        local = world.settings(url=url, job="tumour", unbound=True)
        code, log, model = world.simulate(recipe, local=local)
        thread.join()
    assert code == 0, log
    assert np.allclose(model, plain(), atol=2 * BOUND)
    assert [result.total_weight for result in found] == [10, 10]
    lines = seen.read_text().splitlines()
    assert len({line.partition("'party'")[0].partition(" ")[2] for line in lines}) == 2
    assert all("'NUM_STEPS_CURRENT_ROUND': 10" in line for line in lines)
