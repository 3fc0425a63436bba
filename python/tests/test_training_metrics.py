"""Metrics of training: the same sums everywhere, exact against plain arithmetic, and nothing silent."""

import json
import math
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scraped import Scrape

import blindsum as bs
from blindsum.cli import main
from blindsum.coordinator import stored_jobs, stored_rounds
from blindsum.metrics_text import metrics_text
from blindsum.testing.learners import SocketPeers

ACCURACY, LOSS = bs.Metric("accuracy", 0.0, 1.0), bs.Metric("loss", -1.0, 40.0)
TOP = 2**24 - 1


def level(metric, value):
    """The level of a value; none where it counts as missing."""
    if value is None or not math.isfinite(value):
        return None
    clipped = min(max(value, metric.low), metric.high)
    return round((clipped - metric.low) / (metric.high - metric.low) * TOP)


def expected(metric, values, weights):
    """The mean over those that report, and their share of the weight."""
    levels = [level(metric, value) for value in values]
    of = sum(weight for one, weight in zip(levels, weights, strict=True) if one is not None)
    if of == 0:
        return None, 0.0
    total = sum(one * weight for one, weight in zip(levels, weights, strict=True) if one is not None)
    span = Fraction(metric.high) - Fraction(metric.low)
    return float(Fraction(metric.low) + Fraction(total, of * TOP) * span), of / sum(weights)


def check(metrics, reported, rows, weights):
    """Metrics of a result against those of the parties."""
    assert list(metrics) == list(reported) == sorted(metrics)
    for metric in (ACCURACY, LOSS):
        value, share = expected(metric, [row.get(metric.name) for row in rows], weights)
        assert reported[metric.name] == share
        if value is None:
            assert metrics[metric.name] is None
        else:
            assert metrics[metric.name] == pytest.approx(value, rel=1e-14)


# Metrics of one model are reported once: each round leads to another one.
UPDATE = np.array([0.1, -0.2, 0.3, -0.4])
ROWS = [
    {"accuracy": 0.9, "loss": 3.25},
    {"accuracy": 0.123},
    {"loss": math.nan},
    {},
    {"accuracy": 7.0, "loss": 0},
]


def fields_for(protocol):
    # Weights cannot be proved, and a round of fewer than five could not outvote a liar.
    least = {"min_parties": 5} if protocol == "pss-malicious" else {"max_weight": 10}
    return {"protocol": protocol, "parties": 5, "dim": 4, "metrics": [ACCURACY, LOSS]} | least


def spec_for(protocol):
    return bs.JobSpec.from_settings(list(fields_for(protocol).items()))


def weights_for(protocol):
    return [1] * 5 if protocol == "pss-malicious" else [1, 2, 3, 4, 10]


@pytest.mark.parametrize("protocol", bs.protocols())
def test_every_protocol_gives_the_mean_of_what_is_reported(protocol):
    weights = weights_for(protocol)
    result = bs.simulate(spec_for(protocol), np.zeros((5, 4)), weights=weights, metrics=ROWS)
    assert result.exact
    check(result.metrics, result.reported, ROWS, weights)
    assert result.to_dict()["metrics"]["loss"]["share"] == result.reported["loss"]
    assert "accuracy" in repr(result)


@given(
    st.lists(st.tuples(st.floats() | st.none(), st.integers(1, 1000)), min_size=2, max_size=8),
    st.sampled_from(
        [("quantised", 2), ("quantised", 16), ("quantised", 30), ("integers", 1), ("integers", 64)]
    ),
)
def test_means_do_not_depend_on_the_encoding(given, encoding):
    kind, bits = encoding
    of = {"name": kind, "bits": bits, "max_weight": 1000}
    fields = {"model_update": "none"} if kind == "integers" else {}
    spec = bs.JobSpec(protocol="plain", parties=8, dim=1, encoding=of, metrics=[ACCURACY, LOSS], **fields)
    rows = [{"accuracy": value} for value, _ in given]
    weights = [weight for _, weight in given]
    updates = [[0]] * len(rows) if kind == "integers" else np.zeros((len(rows), 1))
    result = bs.simulate(spec, updates, weights=weights, metrics=rows)
    check(result.metrics, result.reported, rows, weights)


@pytest.mark.parametrize("protocol", bs.protocols())
def test_parties_and_coordinator_see_metrics_of_a_job(place, partner, protocol, tmp_path):
    spec, weights = place.spec(**fields_for(protocol), rounds=2), weights_for(protocol)
    store = tmp_path / "job.sqlite"
    with place.coordinator(spec, store=store) as coordinator:
        others = [
            partner(place, coordinator, f"party-{rank}", UPDATE, weights[rank], metrics=ROWS[rank])
            for rank in range(1, 5)
        ]
        with place.join(coordinator, "party-0") as session:
            for rnd in session.rounds():
                rnd.submit(UPDATE, weights[0], metrics=ROWS[0])
                outcome = rnd.outcome()
                check(outcome.metrics, outcome.reported, ROWS, weights)
                # Of the loss there are so few numbers that the others may be those of corrupt parties.
                assert all("metric loss may have been" in warning for warning in outcome.warnings)
                assert "accuracy" in repr(outcome)
        for other in others:
            other.wait()
    reports = [one for one in stored_rounds(store, "job") if not one["key_setup"]]
    (stored,) = stored_jobs(store)
    assert len(reports) == 2
    if spec.hides_sum:
        assert all("metrics" not in report for report in reports)
        assert stored["metrics"] is None
        return
    for report in reports:
        assert report["metrics"] == outcome.metrics_report()
    assert stored["metrics"] == {"round": reports[-1]["number"], "metrics": outcome.metrics_report()}


def test_what_is_not_reported_as_it_is_is_told(place, caplog):
    spec = place.spec(parties=1, metrics=[ACCURACY, LOSS])
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        rnd = session.next_round()
        rnd.submit(np.zeros(4), metrics={"accuracy": np.float32(1.53125), "loss": np.array(math.inf)})
        outcome = rnd.outcome()
    assert (outcome.metrics, outcome.reported) == (
        {"accuracy": 1.0, "loss": None},
        {"accuracy": 1.0, "loss": 0.0},
    )
    clipped, missing = outcome.warnings
    assert clipped.startswith("metric accuracy was outside of its range")
    assert missing == "metric loss was not a finite number and counts as missing"
    assert all(warning in caplog.text for warning in outcome.warnings)
    assert "1.53" not in caplog.text


@pytest.mark.parametrize("protocol", bs.protocols())
def test_who_reports_a_metric_alone_is_told(place, partner, protocol, caplog):
    spec, weights = place.spec(**fields_for(protocol)), weights_for(protocol)
    with place.coordinator(spec) as coordinator:
        others = [
            partner(
                place, coordinator, f"party-{rank}", np.zeros(4), weights[rank], metrics={"accuracy": 0.5}
            )
            for rank in range(1, 5)
        ]
        with place.join(coordinator, "party-0") as session:
            rnd = session.next_round()
            rnd.submit(np.zeros(4), weights[0], metrics={"accuracy": 0.25, "loss": 7.53125})
            outcome = rnd.outcome()
        for other in others:
            other.wait()
    # Here is what it is told of: everybody has its number.
    assert outcome.metrics["loss"] == pytest.approx(7.53125, abs=1e-5)
    (warning,) = outcome.warnings
    assert warning.startswith("metric loss was reported by this party alone")
    assert warning in caplog.text
    assert "7.53" not in caplog.text


@pytest.mark.parametrize(
    ("metrics", "rule"),
    [
        ({"accurcay": 1.0}, "'accurcay' is no metric of the job: its metrics are accuracy, loss"),
        ({"accuracy": "0.5"}, "\\['accuracy'\\]: must be a number, not str"),
        ({"accuracy": True}, "must be a number, not bool"),
        ({"accuracy": np.zeros(2)}, "must be one number, not ndarray"),
        ({"accuracy": 10**400}, "range of a float"),
        ([0.5], "must map names to numbers, not list"),
    ],
)
def test_metrics_that_the_job_does_not_have_are_refused(place, metrics, rule):
    spec = place.spec(parties=1, metrics=[ACCURACY, LOSS])
    with place.coordinator(spec) as coordinator, place.join(coordinator, "a") as session:
        rnd = session.next_round()
        with pytest.raises(bs.InputError, match=rule):
            rnd.submit(np.zeros(4), metrics=metrics)
        rnd.submit(np.zeros(4))
        assert rnd.outcome().metrics == {"accuracy": None, "loss": None}
    with pytest.raises(bs.InputError, match=rule):
        bs.simulate(spec, np.zeros((1, 4)), metrics=[metrics])


def test_a_job_without_metrics_takes_none(place):
    with place.coordinator(place.spec(parties=1)) as coordinator, place.join(coordinator, "a") as session:
        rnd = session.next_round()
        with pytest.raises(bs.InputError, match="'loss' is no metric of the job: it has none"):
            rnd.submit(np.zeros(4), metrics={"loss": 1.0})
        rnd.submit(np.zeros(4), metrics={})
        assert (rnd.outcome().metrics, rnd.outcome().reported) == ({}, {})


def test_metrics_of_a_simulation_fit_its_updates():
    spec = spec_for("secagg+")
    with pytest.raises(bs.InputError, match="metrics: only together with updates"):
        bs.simulate(spec, metrics=[{}])
    with pytest.raises(bs.InputError, match="metrics: 2 given, but there are 5 updates"):
        bs.simulate(spec, np.zeros((5, 4)), metrics=[{}, None])
    assert bs.simulate(spec).metrics.keys() == {"accuracy", "loss"}


@pytest.mark.parametrize(
    ("metrics", "field"),
    [
        ([bs.Metric("Loss", 0, 1)], "metrics.0.name"),
        ([ACCURACY, bs.Metric("accuracy", 0, 2)], "metrics.1.name"),
        ([bs.Metric("loss", 1, 1)], "metrics.0.high"),
        ([bs.Metric("loss", -1.7e308, 1.7e308)], "metrics.0.high"),
        ([bs.Metric(f"m{place}", 0, 1) for place in range(65)], "metrics"),
        ([{"name": "loss", "low": 0}], "metrics.0.high"),
    ],
)
def test_metrics_that_break_a_rule_are_refused(metrics, field):
    with pytest.raises(bs.SpecError) as caught:
        bs.JobSpec(protocol="plain", parties=2, dim=1, metrics=metrics)
    assert caught.value.field == field


def test_a_job_without_metrics_keeps_its_hash():
    plain = bs.JobSpec(protocol="plain", parties=2, dim=1)
    assert plain.replace(metrics=[]).hash == plain.hash
    measured = plain.replace(metrics=[ACCURACY])
    assert measured.hash != plain.hash
    assert measured.replace(metrics=[bs.Metric("accuracy", 0, 2)]).hash != measured.hash
    assert bs.JobSpec.from_dict(measured.to_dict()) == measured
    assert measured.metrics == (ACCURACY,)
    assert "accuracy (0 to 1)" in measured._repr_html_()


def test_programs_and_people_see_metrics(processes, place, tmp_path, capsys):
    spec = place.spec(parties=1, rounds=2, metrics=[ACCURACY])
    store = tmp_path / "job.sqlite"
    options = {"store": store, "metrics": "127.0.0.1:0", "stop_when_done": False, "results": tmp_path / "r"}
    with place.coordinator(spec, **options) as coordinator:
        assert 'metric="accuracy"' not in Scrape(coordinator.metrics).text
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        identity = ["--identity", place.identity("a"), "--ca", place.folder / "ca.pem"]
        words = ["join", url, "--job", "job", *identity, *place.take_any, "--train", "training:measured"]
        out, err = processes(*words, "--json").communicate(timeout=60)
        said = [json.loads(line) for line in out.splitlines()]
        assert len(said) == 2, err
        for status in coordinator.statuses():
            if status["state"] == "done":
                break
        now = Scrape(coordinator.metrics)
    told = [one["metrics"]["accuracy"] for one in said]
    assert told == [{"value": pytest.approx(0.25 * number), "share": 1.0} for number in (1, 2)]
    assert status["round"]["metrics"] == said[-1]["metrics"]
    assert now.value("blindsum_training_metric", job="job", metric="accuracy") == told[-1]["value"]
    assert now.value("blindsum_training_metric_share", job="job", metric="accuracy") == 1
    assert main(["status", "--store", str(store)]) == 0
    assert "; accuracy 0.5\n" in capsys.readouterr().out
    kept = json.loads((tmp_path / "r" / "job-000002-metrics.json").read_text())
    assert kept == said[-1]["metrics"]


def test_lines_say_the_share_where_it_is_not_all():
    report = {
        "a": {"value": 0.123456, "share": 1.0},
        "b": {"value": 3.0, "share": 0.8},
        "c": {"value": None, "share": 0.0},
    }
    assert metrics_text(report) == "a 0.1235, b 3 (of 80 % of the weight), c reported by no party"
    assert metrics_text({}) == ""


def test_learners_of_a_domain_report_as_one_party(place, tmp_path):
    spec = place.spec(parties=1, max_weight=8, metrics=[ACCURACY, LOSS])
    rows = [({"accuracy": 0.2, "loss": math.nan}, 1), ({"accuracy": 0.8}, 3), ({"accuracy": 1.0}, 0)]
    found = {}
    with place.coordinator(spec) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"

        def learn(rank):
            options = {"policy": bs.Policy(**place.any_job), "ca": place.folder / "ca.pem"}
            peers = SocketPeers(tmp_path, rank, 3)
            with bs.join_domain(
                url, job="job", identity=place.identity("a"), peers=peers, **options
            ) as domain:
                for rnd in domain.rounds():
                    metrics, weight = rows[rank]
                    with pytest.raises(bs.DomainInputError, match="no metric of the job"):
                        rnd.submit(np.zeros(4), weight, metrics={"wrong": 1.0} if rank == 1 else metrics)
                    rnd.submit(np.zeros(4), weight, metrics=metrics)
                    found[rank] = rnd.outcome()

        learners = [threading.Thread(target=learn, args=(rank,)) for rank in range(3)]
        for one in learners:
            one.start()
        for one in learners:
            one.join(120)
    assert found.keys() == {0, 1, 2}
    for outcome in found.values():
        assert outcome.metrics == {"accuracy": pytest.approx(0.65, abs=1e-7), "loss": None}
        assert outcome.reported == {"accuracy": 1.0, "loss": 0.0}
