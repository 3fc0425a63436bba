"""A loop of one's own: a model, an update, a mean; and parties that build another model than the job's."""

import asyncio
import logging
import threading

import numpy as np
import pytest

import blindsum as bs

LAYOUT = ("a float32 3", "b float32 1")


def test_each_step_takes_a_model_and_gives_a_result(place, partner):
    told = [bs.Metric("accuracy", 0, 1)]
    spec = place.spec(rounds=3, max_weight=10, parameters={"epochs": 2, "betas": [0.9, 0.99]}, metrics=told)
    with place.coordinator(spec) as coordinator:
        other = partner(place, coordinator, "b", np.full(4, 0.25), weight=3)
        with place.join(coordinator, "a") as job:
            assert dict(job.parameters) == {"epochs": 2, "betas": (0.9, 0.99)}
            assert job.parameters is job.spec.parameters
            results = []
            while (model := job.model()) is not None:
                assert not job.is_over
                assert job.model() is model
                assert np.array_equal(model, results[-1].model if results else np.zeros(4))
                results.append(job.aggregate(np.full(4, 0.5), weight=1, metrics={"accuracy": 0.75}))
                assert job.lost is None
            assert job.is_over
            assert job.aggregate(np.zeros(4)) is None
            assert job.lost is None
        # Also after the session has ended.
        assert np.array_equal(job.final_model, results[-1].model)
        other.wait()
    assert [result.model_version for result in results] == [1, 2, 3]
    assert [result.total_weight for result in results] == [4, 4, 4]
    # The other party has a weight of 3 and reports nothing.
    assert [result.metrics["accuracy"] for result in results] == pytest.approx([0.75] * 3, abs=1e-6)
    assert [result.reported for result in results] == [{"accuracy": 0.25}] * 3
    assert np.allclose(results[-1].mean, (0.5 + 3 * 0.25) / 4, atol=spec.max_error)


def test_who_goes_on_from_the_result_before_needs_no_model(place):
    with (
        place.coordinator(place.spec(parties=1, rounds=2)) as coordinator,
        place.join(coordinator, "a") as job,
    ):
        with pytest.raises(bs.SubmitError, match=r"call model\(\), compute the update from that") as caught:
            job.aggregate(np.full(4, 0.5))
        assert caught.value.state == "other model"
        # The round waits.
        assert not job.model().any()
        first = job.aggregate(np.full(4, 0.5))
        second = job.aggregate(first.model / 2)
        assert np.allclose(second.model, 0.75, atol=1e-3)
        assert job.aggregate(first.model) is None


@pytest.mark.parametrize("update", ["replace", "none"])
def test_where_nothing_is_added_no_model_is_needed(place, update):
    spec = place.spec(parties=1, rounds=2, model_update=update)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as job:
        for _ in range(2):
            assert np.allclose(job.aggregate(np.full(4, 0.5)).mean, 0.5, atol=spec.max_error)
        assert job.model() is None


def test_a_lost_round_gives_none_and_the_next_one_begins_with_the_same_model(place, caplog):
    spec = place.spec(parties=2, min_parties=2, rounds=2)
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as job:
        with place.join(coordinator, "b") as other:
            began = threading.Thread(target=other.next_round)
            began.start()
            first = job.model()
            began.join()
        with caplog.at_level(logging.WARNING, "blindsum"):
            assert job.aggregate(np.full(4, 0.5)) is None
        assert isinstance(job.lost, bs.RoundAborted)
        assert "lost a round" in caplog.text
        assert not job.is_over
        with place.join(coordinator, "b") as other:
            helper = threading.Thread(target=lambda: (other.model(), other.aggregate(np.zeros(4))))
            helper.start()
            assert np.array_equal(job.model(), first)
            assert job.aggregate(np.full(4, 0.5)) is not None
            assert job.lost is None
            helper.join()


def test_what_is_refused_or_waits_too_little_may_be_repeated(place, partner):
    with place.coordinator(place.spec(rounds=1)) as coordinator, place.join(coordinator, "a") as job:
        with pytest.raises(bs.WaitTimeoutError):
            job.model(timeout=0)
        other = place.join(coordinator, "b")
        model = threading.Thread(target=other.model)
        model.start()
        job.model()
        model.join()
        with pytest.raises(bs.InputError, match="3 elements"):
            job.aggregate(np.zeros(3))
        with pytest.raises(bs.WaitTimeoutError):
            job.aggregate(np.full(4, 0.5), timeout=0)
        helper = threading.Thread(target=other.aggregate, args=(np.full(4, 0.25),))
        helper.start()
        assert np.allclose(job.aggregate(np.full(4, 0.5)).mean, 0.375, atol=1e-3)
        helper.join()
        other.close()


def test_a_loop_in_asyncio_goes_on_meanwhile(place):
    spec = place.spec(rounds=2)

    async def party(name):
        job = await asyncio.to_thread(place.join, coordinator, name)
        with job:
            means = []
            while (model := await asyncio.to_thread(job.model)) is not None:
                means.append((await asyncio.to_thread(job.aggregate, model + np.float32(0.5))).mean)
        return means

    async def both():
        return await asyncio.gather(party("a"), party("b"))

    with place.coordinator(spec) as coordinator:
        first, second = asyncio.run(both())
    assert np.array_equal(first, second)
    assert len(first) == 2


def test_a_party_with_another_model_is_refused_by_name(place):
    spec = place.spec(parties=1, layout=LAYOUT)
    assert spec.dim == 4
    with place.coordinator(spec) as coordinator:
        with pytest.raises(
            bs.LayoutError, match="entry 1: this party has b float64 1, the job has b float32 1"
        ):
            place.join(coordinator, "a", layout=("a float32 3", "b float64 1"))
        with pytest.raises(bs.ConfigError, match="a ModelVector or a list of lines"):
            place.join(coordinator, "a", layout="a float32 3")
        # Its place in the job is free again.
        with place.join(coordinator, "a", layout=LAYOUT) as job:
            assert job.spec.layout == LAYOUT
            job.model()
            assert job.aggregate(np.full(4, 0.5)) is not None


def test_where_no_layout_is_bound_the_length_must_fit(place):
    with place.coordinator(place.spec(parties=1)) as coordinator:
        with pytest.raises(bs.LayoutError, match="has 3 elements, the job has dim = 4") as caught:
            place.join(coordinator, "a", layout=("a float32 3",))
        assert caught.value.entry is None
        place.join(coordinator, "a", layout=LAYOUT).close()
